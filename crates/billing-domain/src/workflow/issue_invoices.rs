//! Issues invoices for records that are due: lines, credits, totals, number.

use std::collections::BTreeSet;

use bigdecimal::{BigDecimal, Signed, Zero};
use time::OffsetDateTime;

use super::account::Account;
use super::draft_lines::{Draft, Part, draft_lines};
use super::one_off_lines::take_waiting;
use crate::charge::{BillingRecord, ChargeRef, UsageBilling};
use crate::credit::{Credit, CreditLedger, drawdown_plan};
use crate::currency::Currency;
use crate::error::{Error, StoreError};
use crate::id::{CreditId, InvoiceId};
use crate::invoice::{BilledTo, LineItem, NewInvoice, PaymentStatus, Seller, Trace};
use crate::message::MessageType;
use crate::store::Transaction;

/// Bills the records that `due` selects as of the billing instant `at`: one invoice for each currency, issued
/// at `issued_at`; none where there is no line. What late events have changed of records that were billed before goes
/// on the same invoices.
///
/// # Errors
/// [`Error::Store`].
pub(super) fn issue_invoices(
    tx: &mut dyn Transaction,
    account: &mut Account,
    due: &dyn Fn(&BillingRecord) -> bool,
    at: OffsetDateTime,
    issued_at: OffsetDateTime,
) -> Result<(), Error> {
    issue_parts(tx, account, &|record| due(record).then_some(Part::All), at, issued_at)
}

/// [`issue_invoices`] of the part of each record that `due` says; `None`: none of it.
///
/// # Errors
/// [`Error::Store`].
pub(super) fn issue_parts(
    tx: &mut dyn Transaction,
    account: &mut Account,
    due: &dyn Fn(&BillingRecord) -> Option<Part>,
    at: OffsetDateTime,
    issued_at: OffsetDateTime,
) -> Result<(), Error> {
    let drafts = bill_due(tx, account, due, (at, issued_at), issued_at)?;
    issue_drafts(tx, account, drafts, issued_at)
}

/// The first half of [`issue_parts`]: what the records that are due come to as of the billing instant `at`, on an invoice dated
/// `issued_at`. It is written back to them; `billed_at` is when that happens, not before `at`.
///
/// # Errors
/// [`Error::TaxRate`]; [`Error::Store`].
pub(super) fn bill_due(
    tx: &mut dyn Transaction,
    account: &mut Account,
    due: &dyn Fn(&BillingRecord) -> Option<Part>,
    (at, billed_at): (OffsetDateTime, OffsetDateTime),
    issued_at: OffsetDateTime,
) -> Result<Vec<Draft>, Error> {
    let is_due = |record: &BillingRecord| due(record).is_some();
    let (mut selected, others): (Vec<_>, Vec<_>) = std::mem::take(&mut account.records).into_iter().partition(is_due);
    account.records = others;
    let late = take_late(tx, account, due, &selected)?;
    selected.extend(late.iter().cloned());
    // In order of making, however often the run came by: which line carries a cent of rounding depends on it.
    selected.sort_by_key(|record| record.id);
    let part = |record: &BillingRecord| due(record).unwrap_or(Part::All);
    let parts: Vec<Part> = selected.iter().map(part).collect();
    let mut drafts = draft_lines(tx, account, &mut selected, &part, (at, Some(issued_at)))?;
    let has_one_offs = take_waiting(account, &mut drafts, issued_at)?;
    for (record, _) in selected.iter_mut().zip(parts).filter(|(_, part)| *part == Part::All) {
        close(account, record, at, billed_at);
    }
    save(tx, account, selected, &late)?;
    if has_one_offs {
        tx.customers().update(&account.customer)?;
    }
    if std::mem::take(&mut account.has_taxed) {
        account.drop_tax_failure(tx, issued_at)?;
    }
    Ok(drafts)
}

/// The other half of [`issue_invoices`].
///
/// # Errors
/// [`Error::Store`].
pub(super) fn issue_drafts(
    tx: &mut dyn Transaction,
    account: &mut Account,
    drafts: Vec<Draft>,
    issued_at: OffsetDateTime,
) -> Result<(), Error> {
    for draft in drafts {
        let id = tx.new_uuid().into();
        issue(tx, account, id, draft, issued_at)?;
    }
    Ok(())
}

/// The records to look at for late events: those whose wait is over, and those in the currencies of `selected`.
fn take_late(
    tx: &mut dyn Transaction,
    account: &mut Account,
    due: &dyn Fn(&BillingRecord) -> Option<Part>,
    selected: &[BillingRecord],
) -> Result<Vec<BillingRecord>, Error> {
    let mut currencies = BTreeSet::new();
    for record in selected {
        currencies.insert(account.offer(tx, record.version)?.currency.code.clone());
    }
    let (mut taken, mut left) = (Vec::new(), Vec::new());
    for record in std::mem::take(&mut account.late) {
        let goes_along = currencies.contains(&account.offer(tx, record.version)?.currency.code);
        if goes_along || due(&record).is_some() { taken.push(record) } else { left.push(record) }
    }
    account.late = left;
    Ok(taken)
}

/// Writes back what was billed of each record and subscription; `late` are the records that may be as they were.
fn save(
    tx: &mut dyn Transaction,
    account: &mut Account,
    billed: Vec<BillingRecord>,
    late: &[BillingRecord],
) -> Result<(), Error> {
    for record in &billed {
        if late.contains(record) {
            continue;
        }
        account.write_unsaved(record.clone());
        account.mark_changed(record.subscription);
    }
    account.save(tx)?;
    let (late, billed): (Vec<_>, Vec<_>) = billed.into_iter().partition(BillingRecord::awaits_late_usage);
    account.late.extend(late);
    account.records.extend(billed.into_iter().filter(|record| record.next_invoicing_at().is_some()));
    Ok(())
}

/// Leaves `at` behind. A record of usage whose last instant that was then waits for late events, for as long as they
/// are accepted and may be on their way in, unless its usage is billed elsewhere or not at all.
fn close(account: &Account, record: &mut BillingRecord, at: OffsetDateTime, issued_at: OffsetDateTime) {
    let was_open = record.next_invoicing_at().is_some();
    record.pass(at);
    let is_usage = matches!(record.charge, ChargeRef::Component(_)) && record.usage == UsageBilling::Here;
    let is_billed = was_open && record.next_invoicing_at().is_none() && is_usage;
    let until =
        if is_billed { Some(record.period.end() + account.organization.event_window()) } else { record.late_until };
    record.wait_until(until, issued_at - account.closing_grace());
}

/// Issues an invoice under this id: credits pay what it comes to, and less than nothing becomes one.
///
/// # Errors
/// [`Error::Store`].
pub(super) fn issue(
    tx: &mut dyn Transaction,
    account: &mut Account,
    id: InvoiceId,
    mut draft: Draft,
    issued_at: OffsetDateTime,
) -> Result<(), Error> {
    // A credit is not bought with credits.
    let is_charge = |line: &&LineItem| !matches!(line.trace, Trace::CreditPurchase { .. });
    let due: BigDecimal = draft.lines.iter().filter(is_charge).map(|line| &line.amount).sum();
    if due.is_positive() {
        draft.lines.extend(apply_credits(tx, account, &due, &draft, id, issued_at)?);
    } else if due.is_negative() {
        draft.lines.push(grant_credit(tx, account, -due, &draft, issued_at)?);
    }
    insert(tx, account, id, draft, issued_at)
}

/// Issues an invoice of one line that belongs to no subscription; credits are not drawn for it.
///
/// # Errors
/// [`Error::Store`].
pub(super) fn issue_alone(
    tx: &mut dyn Transaction,
    account: &mut Account,
    currency: Currency,
    line: LineItem,
    issued_at: OffsetDateTime,
) -> Result<(), Error> {
    let id = tx.new_uuid().into();
    insert(tx, account, id, Draft { currency, lines: vec![line], replaces: None }, issued_at)
}

fn insert(
    tx: &mut dyn Transaction,
    account: &mut Account,
    id: InvoiceId,
    draft: Draft,
    issued_at: OffsetDateTime,
) -> Result<(), Error> {
    let (organization, customer) = (&account.organization, &account.customer);
    let invoice = NewInvoice {
        id,
        customer: customer.key,
        billed_to: BilledTo {
            customer_id: customer.id.to_string(),
            name: customer.fields.name.clone(),
            email: customer.email.clone(),
            address: customer.fields.billing_address.clone(),
        },
        seller: Seller { name: organization.name.clone(), address: organization.address.clone() },
        currency: draft.currency,
        issued_at,
        due_at: organization.due_at(issued_at),
        lines: draft.lines,
        replaces: draft.replaces,
    };
    account.untold.invoice(MessageType::InvoiceCreated, issued_at, id);
    match (invoice.payment_status(), invoice.due_at) {
        (PaymentStatus::Paid, _) => account.untold.invoice(MessageType::InvoicePaid, issued_at, id),
        (PaymentStatus::Unpaid, Some(due_at)) => account.falling_due.iter_mut().for_each(|falling_due| {
            falling_due.insert(id, due_at);
        }),
        _ => {}
    }
    tx.invoices().issue(invoice)
}

/// Draws the customer's credits for `due`; the line says which.
fn apply_credits(
    tx: &mut dyn Transaction,
    account: &mut Account,
    due: &BigDecimal,
    draft: &Draft,
    invoice: InvoiceId,
    issued_at: OffsetDateTime,
) -> Result<Option<LineItem>, Error> {
    let drawdowns = drawdown_plan(account.credits.values(), due, &draft.currency, issued_at);
    for drawdown in &drawdowns {
        let entry = CreditId::from(tx.new_uuid());
        let Some(ledger) = account.credits.get_mut(&drawdown.credit) else { continue };
        ledger.draw(drawdown.amount.clone(), invoice, entry, issued_at).map_err(broken_ledger)?;
        tx.credits().update(account.customer.key, ledger)?;
        account.untold.credit(MessageType::CreditDrawn, issued_at, ledger.clone());
    }
    let paid: BigDecimal = drawdowns.iter().map(|drawdown| &drawdown.amount).sum();
    let trace = Trace::CreditApplied { drawdowns };
    Ok((!paid.is_zero()).then(|| LineItem::of_invoice("Applied Credit", -paid, issued_at, trace)))
}

/// Turns what an invoice came to below 0 into a credit; the line brings the invoice to 0.
fn grant_credit(
    tx: &mut dyn Transaction,
    account: &mut Account,
    amount: BigDecimal,
    draft: &Draft,
    issued_at: OffsetDateTime,
) -> Result<LineItem, Error> {
    let id = CreditId::from(tx.new_uuid());
    let credit = Credit {
        id,
        currency_code: draft.currency.code.clone(),
        amount: amount.clone(),
        amount_paid: BigDecimal::zero(),
        amount_paid_currency_code: None,
        description: Some("Granted by an invoice that came to less than nothing".to_owned()),
        effective_at: issued_at,
        expires_at: None,
        created_at: issued_at,
    };
    let ledger = CreditLedger::grant(credit, tx.new_uuid().into()).map_err(broken_ledger)?;
    tx.credits().insert(account.customer.key, &ledger)?;
    account.untold.credit(MessageType::CreditCreated, issued_at, ledger.clone());
    account.credits.insert(id, ledger);
    Ok(LineItem::of_invoice("Granted Credit", amount, issued_at, Trace::CreditGranted { credit_id: id }))
}

fn broken_ledger(error: impl std::fmt::Display) -> Error {
    StoreError::Internal(format!("a credit ledger refused an entry: {error}")).into()
}
