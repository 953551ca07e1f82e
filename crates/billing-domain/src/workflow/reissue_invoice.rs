//! Withdraws an invoice and issues another in its place, from what is true today.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::{BigDecimal, Zero};
use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::catch_up;
use super::draft_lines::{Draft, Part, draft_lines};
use super::issue_invoices::issue;
use super::one_off_lines::billed_anew;
use super::recount_usage::{billed_until, records_behind};
use super::second_person::hold_above_limit;
use super::tell::tell;
use super::void_invoice::{owe_again, refuse_if_credited, refuse_if_paid, refuse_unless_unpaid, return_drawn};
use crate::charge::{BillingRecord, UsageBilling};
use crate::error::Error;
use crate::id::{BillingRecordId, CustomerKey, InvoiceId, LineId, SubscriptionId};
use crate::invoice::{Invoice, LineItem, PaymentStatus, Trace};
use crate::message::{MessageType, Subject};
use crate::store::Transaction;

/// Voids an invoice and issues the one that replaces it: what it billed is billed again, over the same time, from today's events,
/// subscriptions and tax, so that nothing is forgiven; a charge that later invoices gave something back of keeps its rate. What later invoices gave back of it is settled there: they stand, and the price
/// less what they left is what the new invoice bills. Credits are drawn anew, and a credit that the invoice granted or sold stays as it is.
///
/// Answers the voided invoice and the new one's id.
///
/// # Errors
/// [`Error::NotFound`], also for a customer that was deleted; [`Refusal::InvoiceHasPayments`](crate::error::Refusal::InvoiceHasPayments) while
/// one stands, [`Refusal::InvoiceNotUnpaid`](crate::error::Refusal::InvoiceNotUnpaid) once it is voided;
/// [`Refusal::CreditNoteStands`](crate::error::Refusal::CreditNoteStands); [`Error::TaxRate`];
/// [`Refusal::TestClockAdvancing`](crate::error::Refusal::TestClockAdvancing), [`Refusal::CatchingUp`](crate::error::Refusal::CatchingUp).
///
/// # Source
/// `docs/pricing.md`, "Reissued invoices".
pub fn reissue_invoice(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    id: InvoiceId,
    now: OffsetDateTime,
) -> Result<(Invoice, InvoiceId), Error> {
    catch_up(tx, customer, now)?;
    let mut voided = tx.invoices().get(id)?;
    refuse_if_credited(&voided)?;
    refuse_if_paid(tx, &voided)?;
    // An invoice of nothing counts as paid, and may come to something.
    if voided.payment_status != PaymentStatus::Paid || !voided.amount.is_zero() {
        refuse_unless_unpaid(&voided)?;
    }
    hold_above_limit(tx, &voided.total_before_credits(), &voided.currency.code)?;
    return_drawn(tx, &voided, now)?;
    let mut account = Account::load(tx, customer, now)?;
    let draft = Rebill::load(tx, &mut account, &voided)?.bill(tx, &mut account, &voided, now)?;
    let owner = account.customer.clone();
    let new = tx.new_uuid().into();
    voided.payment_status = PaymentStatus::Voided;
    voided.voided_at = Some(now);
    voided.replaced_by = Some(new);
    tx.invoices().update(&voided)?;
    tell(tx, &owner, (MessageType::InvoiceVoided, now), &Subject::Invoice(id))?;
    issue(tx, &mut account, new, draft, now)?;
    account.tell(tx, now)?;
    catch_up(tx, customer, now)?;
    Ok((voided, new))
}

/// What is billed again of an invoice.
struct Rebill {
    /// The records behind its lines, and how much of each it billed.
    records: BTreeMap<BillingRecordId, (BillingRecord, Part)>,
    /// The lines that go over as they are: nothing can be counted again of what they charge.
    kept: BTreeSet<LineId>,
}

impl Rebill {
    fn load(tx: &mut dyn Transaction, account: &mut Account, invoice: &Invoice) -> Result<Self, Error> {
        let all = records_behind(tx, account, invoice)?;
        let mut rebill = Self { records: BTreeMap::new(), kept: BTreeSet::new() };
        for (line_id, line) in invoice.named_lines() {
            match line.record.and_then(|id| all.get(&id)).filter(|record| is_counted_again(line, record)) {
                Some(record) => rebill.add(record, &line.trace),
                None if is_said_anew(line) => {}
                None => drop(rebill.kept.insert(line_id)),
            }
        }
        rebill.keep_lone_adjustments(invoice);
        Ok(rebill)
    }

    fn add(&mut self, record: &BillingRecord, trace: &Trace) {
        let part = if matches!(trace, Trace::PrepaidUsageCharge { .. }) { Part::Prepaid } else { Part::All };
        let (_, so_far) = self.records.entry(record.id).or_insert_with(|| (record.clone(), part));
        if part == Part::All {
            *so_far = Part::All;
        }
    }

    /// An adjustment on a line of its own is made anew where its subscription has other lines, and otherwise goes over.
    fn keep_lone_adjustments(&mut self, invoice: &Invoice) {
        let billed: BTreeSet<SubscriptionId> = self.records.values().map(|(record, _)| record.subscription).collect();
        self.kept.retain(|id| {
            let line = &invoice.lines[id.place() - 1];
            let is_adjustment = matches!(line.trace, Trace::PlanAdjustment);
            !(is_adjustment && line.subscription.is_some_and(|id| billed.contains(&id)))
        });
    }

    /// Takes back what the invoice billed, and bills it again: the lines of the new invoice.
    fn bill(
        mut self,
        tx: &mut dyn Transaction,
        account: &mut Account,
        invoice: &Invoice,
        now: OffsetDateTime,
    ) -> Result<Draft, Error> {
        self.take_back(tx, account, invoice)?;
        let until = billed_until(tx, invoice)?;
        let mut groups: BTreeMap<OffsetDateTime, Vec<BillingRecord>> = BTreeMap::new();
        let mut parts = BTreeMap::new();
        for (id, (mut record, part)) in self.records {
            account.records.retain(|other| other.id != id);
            account.late.retain(|other| other.id != id);
            record.tax_rate = None;
            parts.insert(id, part);
            let at = until.get(&id).copied().filter(|_| part == Part::All).unwrap_or(record.period.start());
            // It is due once more, as it was then.
            record.invoicing_instants.insert(0, at);
            groups.entry(at).or_default().push(record);
        }
        let mut lines = Vec::new();
        for (at, mut records) in groups {
            let part = |record: &BillingRecord| parts.get(&record.id).copied().unwrap_or(Part::All);
            let drafts = draft_lines(tx, account, &mut records, &part, (at, Some(now)))?;
            lines.extend(drafts.into_iter().flat_map(|draft| draft.lines));
            for mut record in records {
                // Usage that cannot be counted was postponed, and is tried again.
                if record.next_invoicing_at() == Some(at) {
                    record.invoicing_instants.remove(0);
                }
                account.write_unsaved(record.clone());
                account.mark_changed(record.subscription);
                account.replace(record);
            }
        }
        account.save(tx)?;
        for (_, line) in invoice.named_lines().filter(|(id, _)| self.kept.contains(id)) {
            lines.push(billed_anew(account, line, &invoice.currency, now)?);
        }
        if std::mem::take(&mut account.has_taxed) {
            account.drop_tax_failure(tx, now)?;
        }
        Ok(Draft { currency: invoice.currency.clone(), lines, replaces: Some(invoice.id) })
    }

    /// Makes the records and subscriptions remember their lines as if those had never been.
    fn take_back(&mut self, tx: &mut dyn Transaction, account: &mut Account, invoice: &Invoice) -> Result<(), Error> {
        let decimals = invoice.currency.decimals;
        for (_, line) in invoice.named_lines().filter(|(id, _)| !self.kept.contains(id)) {
            let Some(id) = line.subscription else { continue };
            let version = account.subscription(id)?.version;
            let is_adjusted = account.offer(tx, version)?.version.price_adjustment.is_some();
            let settled = &mut account.subscription_mut(id)?.settled;
            let record = line.record.and_then(|id| self.records.get_mut(&id)).map(|(record, _)| record);
            owe_again(line, settled, record, is_adjusted, decimals);
            account.mark_changed(id);
        }
        for (record, line) in invoice.lines.iter().filter_map(|line| Some((line.record?, line))) {
            if let (Some((record, _)), Some(units)) = (self.records.get_mut(&record), units_of(line)) {
                record.billed.quantity -= units;
            }
        }
        Ok(())
    }
}

/// Whether the engine can bill again what a line charged of its record. What a cancellation left of dropped usage stays.
fn is_counted_again(line: &LineItem, record: &BillingRecord) -> bool {
    match &line.trace {
        Trace::RecurringCharge { .. } | Trace::PrepaidUsageCharge { .. } | Trace::UsageHandedOn { .. } => true,
        Trace::UsageCharge { .. } => record.usage != UsageBilling::Dropped,
        _ => false,
    }
}

/// Whether a line is made anew with the invoice, or says what is tried again anyway.
fn is_said_anew(line: &LineItem) -> bool {
    matches!(line.trace, Trace::CreditApplied { .. } | Trace::UsageNotBilled { .. })
}

/// The units of the metric that a line billed, or took back.
fn units_of(line: &LineItem) -> Option<&BigDecimal> {
    match &line.trace {
        Trace::UsageCharge { .. } | Trace::UsageHandedOn { .. } => line.quantity.as_ref(),
        _ => None,
    }
}
