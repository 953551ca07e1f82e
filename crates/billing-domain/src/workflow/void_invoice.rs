//! Withdraws an invoice.

use std::collections::BTreeSet;
use std::ops::{AddAssign, SubAssign};

use bigdecimal::{BigDecimal, Signed, Zero};
use time::OffsetDateTime;

use super::bill_customer::catch_up;
use super::credited_lines::{forgive, standing_notes};
use super::recount_usage::newer_than;
use super::return_credits::{return_credits, take_away};
use super::second_person::hold_above_limit;
use super::tell::tell;
use crate::charge::BillingRecord;
use crate::credit_note::{CreditNote, LinePart};
use crate::customer::Customer;
use crate::error::{Error, Refusal};
use crate::id::{BillingRecordId, CreditId, CustomerKey, InvoiceId, LineId, SubscriptionId};
use crate::invoice::{AdjustmentBasis, Invoice, LineItem, PaymentStatus, Trace};
use crate::message::{MessageType, Subject};
use crate::money::spread;
use crate::payment::{Payment, PaymentKind, PaymentLedger};
use crate::store::{InvoiceFilter, Transaction};
use crate::subscription::Settled;

/// Voids an unpaid invoice: what credits paid of it goes back to them, and the credit that it was to pay for is taken
/// away. What came back to the credit of a payment that bounced goes on to the invoice that was overpaid.
///
/// What it charged is forgiven: it is not charged again, and since nobody paid it, it does not come back when a fee is
/// cancelled or usage falls later. What it took back is owed again and comes with the next invoice.
/// [`Invoice::forgiven_when_voided`] and [`Invoice::owed_again_when_voided`] say which lines those are.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::InvoiceHasPayments`], [`Refusal::InvoiceNotUnpaid`]; [`Refusal::LinesTakenBack`] when a later document took any of what
/// it charged back; [`Refusal::CreditNoteStands`]; [`Refusal::CreditDrawn`]; [`Refusal::TestClockAdvancing`],
/// [`Refusal::CatchingUp`].
///
/// # Source
/// `docs/pricing.md`, "Voided invoices".
pub fn void_invoice(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    id: InvoiceId,
    now: OffsetDateTime,
) -> Result<Invoice, Error> {
    catch_up(tx, customer, now)?;
    let mut invoice = tx.invoices().get(id)?;
    refuse_if_credited(&invoice)?;
    refuse_if_paid(tx, &invoice)?;
    refuse_unless_unpaid(&invoice)?;
    refuse_if_taken_back(tx, &invoice)?;
    hold_above_limit(tx, &invoice.total_before_credits(), &invoice.currency.code)?;
    let owner = tx.customers().get_even_deleted(customer)?;
    for line in &invoice.lines {
        if let Trace::CreditPurchase { credit_id } | Trace::CreditGranted { credit_id } = &line.trace
            && take_away(tx, customer, *credit_id, now)?.is_positive()
        {
            return Err(Refusal::CreditDrawn.into());
        }
    }
    return_drawn(tx, &invoice, now)?;
    forget_lines(tx, &invoice, now)?;
    invoice.payment_status = PaymentStatus::Voided;
    invoice.voided_at = Some(now);
    tx.invoices().update(&invoice)?;
    tell(tx, &owner, (MessageType::InvoiceVoided, now), &Subject::Invoice(id))?;
    catch_up(tx, customer, now)?;
    Ok(invoice)
}

/// What credits paid of an invoice goes back to them.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Store`].
pub(super) fn return_drawn(tx: &mut dyn Transaction, invoice: &Invoice, now: OffsetDateTime) -> Result<(), Error> {
    let owner = tx.customers().get_even_deleted(invoice.customer)?;
    for line in &invoice.lines {
        if let Trace::CreditApplied { drawdowns } = &line.trace {
            for drawdown in drawdowns {
                give_back(tx, &owner, drawdown.credit, invoice.id, now)?;
            }
        }
    }
    return_unpaid(tx, invoice, now)
}

/// Refuses while a credit note stands on it.
///
/// # Errors
/// [`Refusal::CreditNoteStands`].
pub(super) fn refuse_if_credited(invoice: &Invoice) -> Result<(), Error> {
    match invoice.credit_notes.iter().find(|note| note.voided_at.is_none()) {
        Some(note) => Err(Refusal::CreditNoteStands(note.number.clone()).into()),
        None => Ok(()),
    }
}

/// What came back to credits of payments that were reversed settles the invoices of those.
fn return_unpaid(tx: &mut dyn Transaction, voided: &Invoice, now: OffsetDateTime) -> Result<(), Error> {
    if !voided.lines.iter().any(|line| matches!(line.trace, Trace::CreditApplied { .. })) {
        return Ok(());
    }
    let payments = tx.invoices().list_payments(voided.customer, None)?;
    let is_of_credit = |entry: &&Payment| entry.kind == PaymentKind::Reversal && entry.credit.is_some();
    let overpaid: BTreeSet<_> = payments.iter().filter(is_of_credit).map(|entry| entry.invoice).collect();
    for id in overpaid {
        let mut invoice = tx.invoices().get(id)?;
        return_credits(tx, &mut invoice, false, now)?;
    }
    Ok(())
}

/// Refuses while a payment stands, and where one that was reversed left something to be paid beyond the invoice itself.
///
/// # Errors
/// [`Refusal::InvoiceHasPayments`].
pub(super) fn refuse_if_paid(tx: &mut dyn Transaction, invoice: &Invoice) -> Result<(), Error> {
    if invoice.payment_status != PaymentStatus::Voided {
        let ledger = PaymentLedger::from(tx.invoices().list_payments(invoice.customer, Some(invoice.id))?);
        if ledger.standing().next().is_some() || !ledger.settled().is_zero() {
            return Err(Refusal::InvoiceHasPayments.into());
        }
    }
    Ok(())
}

/// Refuses what is settled or withdrawn already.
///
/// # Errors
/// [`Refusal::InvoiceNotUnpaid`].
pub(super) fn refuse_unless_unpaid(invoice: &Invoice) -> Result<(), Error> {
    match invoice.payment_status {
        PaymentStatus::Unpaid => Ok(()),
        PaymentStatus::Draft | PaymentStatus::Paid | PaymentStatus::Voided => Err(Refusal::InvoiceNotUnpaid.into()),
    }
}

/// Refuses when a later invoice that stands took back what a line charged, or the adjustment or tax of its period.
fn refuse_if_taken_back(tx: &mut dyn Transaction, invoice: &Invoice) -> Result<(), Error> {
    let later = later_invoices(tx, invoice)?;
    let is_charged = |line: &&LineItem| line.base.is_positive();
    let charged: BTreeSet<_> = invoice.lines.iter().filter(is_charged).filter_map(charge_of).collect();
    let takes_back = |later: &&Invoice| {
        let mut lines = later.lines.iter().filter(|line| line.base.is_negative()).filter_map(charge_of);
        lines.any(|charge| charged.contains(&charge))
    };
    if let Some(later) = later.iter().find(takes_back) {
        return Err(Refusal::LinesTakenBack(later.number.clone()).into());
    }
    let notes = standing_notes(tx, invoice.customer, None)?;
    let subscriptions: BTreeSet<_> = invoice.lines.iter().filter_map(|line| line.subscription).collect();
    for id in subscriptions {
        let subscription = tx.subscriptions().get(invoice.customer, id)?;
        let is_adjusted = tx.plans().get_version(subscription.version)?.price_adjustment.is_some();
        let mut standing = Sums::standing(&subscription.settled);
        standing -= Sums::of(invoice, &notes, id);
        later.iter().for_each(|later| standing -= Sums::of(later, &notes, id));
        for later in &later {
            standing += Sums::of(later, &notes, id);
            // Without an adjustment the lines of each record have said it all.
            if standing.tax.is_negative() || (is_adjusted && standing.adjusted.is_negative()) {
                return Err(Refusal::LinesTakenBack(later.number.clone()).into());
            }
        }
    }
    Ok(())
}

/// The customer's invoices that were issued behind this one and stand, oldest first; of one that was issued anew, behind the first that
/// it stands for.
fn later_invoices(tx: &mut dyn Transaction, invoice: &Invoice) -> Result<Vec<Invoice>, Error> {
    let (mut first, mut replaced) = (invoice.id, invoice.replaces);
    while let Some(id) = replaced {
        first = id;
        replaced = tx.invoices().get(id)?.replaces;
    }
    let filter = InvoiceFilter::of(invoice.customer);
    let mut later = newer_than(tx, &filter, first)?;
    later.retain(|later| later.id != invoice.id && later.payment_status != PaymentStatus::Voided);
    later.reverse();
    Ok(later)
}

/// What a line charges for or takes back of a record: its fee or usage, or its prepaid units.
fn charge_of(line: &LineItem) -> Option<(BillingRecordId, bool)> {
    let is_prepaid = matches!(line.trace, Trace::PrepaidUsageCharge { .. });
    line.record.map(|record| (record, is_prepaid))
}

/// What invoices charge for one period of a subscription. Adjustments are spread over whatever lines there are, so no line
/// tells which other one it takes back.
struct Sums {
    /// With adjustments, before tax.
    adjusted: BigDecimal,
    tax: BigDecimal,
}

impl Sums {
    /// All invoices that stand.
    fn standing(settled: &Settled) -> Self {
        let Settled { adjustment, tax } = settled;
        let (given, forgiven) = (&adjustment.charges + &adjustment.given, &adjustment.forgiven);
        Self { adjusted: given - &forgiven.charges - &forgiven.given, tax: &tax.given - &tax.forgiven }
    }

    /// One invoice, less what credit notes took back of it.
    fn of(invoice: &Invoice, notes: &[CreditNote], id: SubscriptionId) -> Self {
        let (mut adjusted, mut tax) = (BigDecimal::zero(), BigDecimal::zero());
        for (line_id, line) in invoice.named_lines().filter(|(_, line)| line.subscription == Some(id)) {
            let whole = LinePart::whole(line);
            adjusted += whole.net();
            tax += whole.tax;
            for credited in notes.iter().flat_map(|note| &note.lines).filter(|credited| credited.line == line_id) {
                adjusted -= credited.part.net();
                tax -= &credited.part.tax;
            }
        }
        Self { adjusted, tax }
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.adjusted += other.adjusted;
        self.tax += other.tax;
    }
}

impl SubAssign for Sums {
    fn sub_assign(&mut self, other: Self) {
        self.adjusted -= other.adjusted;
        self.tax -= other.tax;
    }
}

/// Makes the subscriptions and their billing records remember what is forgiven and what is owed again.
fn forget_lines(tx: &mut dyn Transaction, invoice: &Invoice, now: OffsetDateTime) -> Result<(), Error> {
    let customer = invoice.customer;
    let again_at = next_invoicing(tx, customer, now)?;
    let subscriptions: BTreeSet<_> = invoice.lines.iter().filter_map(|line| line.subscription).collect();
    for id in subscriptions {
        let mut subscription = tx.subscriptions().get(customer, id)?;
        let is_adjusted = tx.plans().get_version(subscription.version)?.price_adjustment.is_some();
        let mut records = tx.billing_records().list(customer, id)?;
        let mut changed = BTreeSet::new();
        let is_of_subscription = |(_, line): &(LineId, &LineItem)| line.subscription == Some(id);
        for (_, line) in invoice.forgiven_when_voided().filter(is_of_subscription) {
            let record = records.iter_mut().find(|record| Some(record.id) == line.record);
            changed.extend(line.record);
            forgive(line, &LinePart::whole(line), &mut subscription.settled, record, is_adjusted);
        }
        for (_, line) in invoice.owed_again_when_voided().filter(is_of_subscription) {
            // An adjustment that stands alone comes with any record of its subscription.
            let named = records.iter().position(|record| Some(record.id) == line.record);
            let Some(record) = named.or(records.len().checked_sub(1)).map(|i| &mut records[i]) else { continue };
            changed.insert(record.id);
            let decimals = invoice.currency.decimals;
            owe_again(line, &mut subscription.settled, Some(&mut *record), is_adjusted, decimals);
            if record.invoicing_instants.is_empty() {
                record.late_until = None;
                record.invoicing_instants.extend(again_at);
            }
        }
        for record in records.iter().filter(|record| changed.contains(&record.id)) {
            tx.billing_records().update(customer, record)?;
        }
        tx.subscriptions().update(&subscription)?;
    }
    Ok(())
}

/// When the customer is next invoiced: at once when nothing is to come; `None`: never, they were deleted.
pub(super) fn next_invoicing(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    now: OffsetDateTime,
) -> Result<Option<OffsetDateTime>, Error> {
    match tx.customers().get(customer) {
        Ok(_) => {}
        Err(Error::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error),
    }
    let open = tx.billing_records().list_open(customer)?;
    let next = open.iter().filter_map(BillingRecord::next_invoicing_at).filter(|at| *at > now).min();
    Ok(Some(next.unwrap_or(now)))
}

/// What a line took back is owed again, as if it had never been on an invoice; so it is with what one charged that is to be billed again.
pub(super) fn owe_again(
    line: &LineItem,
    settled: &mut Settled,
    record: Option<&mut BillingRecord>,
    is_adjusted: bool,
    decimals: u8,
) {
    let taxes = taxes_of(line);
    let tax: BigDecimal = taxes.iter().map(|tax| tax.amount).sum();
    let before_tax = &line.amount - &tax;
    let untaxed = &before_tax - taxes.iter().map(|tax| tax.taxable).sum::<BigDecimal>();
    let parts = taxes.iter().map(|tax| (tax.rate.clone(), tax.taxable.clone()));
    let parts: Vec<_> = parts.chain([(BigDecimal::zero(), untaxed)]).filter(|(_, part)| !part.is_zero()).collect();
    for (rate, part) in &parts {
        match part.is_positive() {
            true => settled.tax.taxed.undo(rate, part),
            false => settled.tax.taxed.add(rate, &-part),
        }
    }
    if let Some(billed) = record.and_then(|record| record.billed_by(&line.trace)) {
        let weights: Vec<_> = parts.iter().map(|(_, part)| part.clone()).collect();
        for ((rate, _), base) in parts.iter().zip(spread(&-&line.base, &weights, decimals)) {
            billed.owe_again(rate, &base);
        }
        if parts.is_empty() {
            billed.owe_again(&BigDecimal::zero(), &-&line.base);
        }
    }
    if is_adjusted {
        settled.adjustment.charges -= &line.base;
        settled.adjustment.given -= before_tax - &line.base;
    }
    for tax in &taxes {
        settled.tax.exact -= tax.taxable * tax.rate * BigDecimal::new(1.into(), 2);
    }
    settled.tax.given -= tax;
}

/// One sales tax on a line.
struct Tax<'l> {
    rate: &'l BigDecimal,
    taxable: &'l BigDecimal,
    amount: &'l BigDecimal,
}

fn taxes_of(line: &LineItem) -> Vec<Tax<'_>> {
    let taxes = line.adjustments.iter().filter_map(|adjustment| match &adjustment.basis {
        AdjustmentBasis::SalesTax { rate, taxable, .. } => Some(Tax { rate, taxable, amount: &adjustment.amount }),
        AdjustmentBasis::PlanAdjustment { .. } => None,
    });
    taxes.collect()
}

/// What comes back to a credit that has expired meanwhile expires again.
fn give_back(
    tx: &mut dyn Transaction,
    owner: &Customer,
    credit: CreditId,
    invoice: InvoiceId,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut ledger = tx.credits().get(owner.key, credit)?;
    ledger.restore(invoice, tx.new_uuid().into(), now);
    let is_expired = ledger.expire(tx.new_uuid().into(), now).is_some();
    tx.credits().update(owner.key, &ledger)?;
    if is_expired {
        tell(tx, owner, (MessageType::CreditExpired, now), &Subject::Credit(owner.key, ledger, now))?;
    }
    Ok(())
}
