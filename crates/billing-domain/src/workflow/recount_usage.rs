//! What today's events make of usage that was billed: the engine, run once more over the time that an invoice billed.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::account::Account;
use super::draft_lines::{Part, draft_lines, usage_request};
use super::usages::try_usages;
use crate::charge::{BillingRecord, Charge, Charged, UsageBilling};
use crate::error::Error;
use crate::id::{BillingRecordId, InvoiceId, LineId, SubscriptionId};
use crate::invoice::{Invoice, LineItem, Trace};
use crate::plan::ChargeTiming;
use crate::store::{InvoiceFilter, PageRequest, Transaction};

choices! {
    /// What becomes of the difference between what was billed of usage and what it comes to by today's events.
    pub Outlook {
        /// The next invoice of the customer in this currency, or of the subscription while its time is still billed, settles it.
        NextInvoice = "next_invoice",
        /// Its time is not looked at any more: a credit note settles it, or an amendment that reaches beyond the window.
        NotAnyMore = "not_any_more",
        /// A switch of plans handed the usage on, and the new plan prices all of it.
        HandedOn = "handed_on",
        /// A cancellation dropped what was not billed: what was, stays.
        Dropped = "dropped",
    }
}

/// The usage behind one line, counted again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecountedUsage {
    /// The line.
    pub line: LineId,
    /// What becomes of the difference.
    pub outlook: Outlook,
    /// Units billed so far, over all invoices.
    pub quantity_billed: BigDecimal,
    /// What the engine makes of today's events, over the time that was billed so far: its trace says how it comes about, and its amount is
    /// the difference, which takes back no more than credit notes and voids left. `None` where it is not counted here, or a
    /// custom metric has no result.
    pub counted: Option<Charged>,
    /// The line that settles the difference, with adjustments and tax; `None`: there is nothing to settle.
    pub to_come: Option<LineItem>,
}

impl RecountedUsage {
    /// What the next invoice brings of the difference, with adjustments and tax; `None`: nothing.
    pub fn to_come_by_itself(&self) -> Option<&BigDecimal> {
        let to_come = self.to_come.as_ref().filter(|_| self.outlook == Outlook::NextInvoice);
        to_come.map(|line| &line.amount)
    }
}

/// Counts the usage of each line of an invoice again. Nothing is written.
///
/// # Errors
/// [`Error::NotFound`] for a customer that was deleted; [`Error::TaxRate`]; [`Error::Store`].
pub(super) fn recount_usage(
    tx: &mut dyn Transaction,
    invoice: &Invoice,
    now: OffsetDateTime,
) -> Result<Vec<RecountedUsage>, Error> {
    let mut account = Account::load(tx, invoice.customer, now)?;
    let billed_until = billed_until(tx, invoice)?;
    let (mut recounted, mut records) = (Vec::new(), Vec::new());
    for (line, id, record) in usage_records(tx, &mut account, invoice)? {
        recounted.push(RecountedUsage {
            line,
            outlook: outlook(&record),
            quantity_billed: record.billed.quantity.clone(),
            counted: None,
            to_come: None,
        });
        if record.usage == UsageBilling::Here {
            let until = billed_until.get(&id).copied().unwrap_or(record.period.end());
            records.push((line, as_billed(record, until, now)));
        }
    }
    let mut counted = count(tx, &mut account, &records, now)?;
    let mut to_come = lines_to_come(tx, &mut account, &records, now)?;
    for one in &mut recounted {
        one.counted = counted.remove(&one.line);
        one.to_come = to_come.remove(&one.line);
    }
    Ok(recounted)
}

/// The records of the usage that an invoice billed; their subscriptions are put into the account.
fn usage_records(
    tx: &mut dyn Transaction,
    account: &mut Account,
    invoice: &Invoice,
) -> Result<Vec<(LineId, BillingRecordId, BillingRecord)>, Error> {
    let records = records_behind(tx, account, invoice)?;
    let of_usage = |(line_id, line): (LineId, &LineItem)| {
        let record = line.record.filter(|_| is_usage(line)).and_then(|id| records.get(&id))?;
        Some((line_id, record.id, record.clone()))
    };
    Ok(invoice.named_lines().filter_map(of_usage).collect())
}

/// All records of the subscriptions that an invoice has lines of; these are put into the account.
pub(super) fn records_behind(
    tx: &mut dyn Transaction,
    account: &mut Account,
    invoice: &Invoice,
) -> Result<BTreeMap<BillingRecordId, BillingRecord>, Error> {
    let subscriptions: BTreeSet<SubscriptionId> = invoice.lines.iter().filter_map(|line| line.subscription).collect();
    let mut records = BTreeMap::new();
    for subscription in subscriptions {
        account.load_subscription(tx, subscription)?;
        let of_subscription = tx.billing_records().list(invoice.customer, subscription)?;
        records.extend(of_subscription.into_iter().map(|record| (record.id, record)));
    }
    Ok(records)
}

fn outlook(record: &BillingRecord) -> Outlook {
    match record.usage {
        UsageBilling::HandedOn => Outlook::HandedOn,
        UsageBilling::Dropped => Outlook::Dropped,
        UsageBilling::Here if record.next_due_at().is_some() => Outlook::NextInvoice,
        UsageBilling::Here => Outlook::NotAnyMore,
    }
}

/// The record as it would be if the time up to `until` were all of it, and late events were looked for.
fn as_billed(record: BillingRecord, until: OffsetDateTime, now: OffsetDateTime) -> BillingRecord {
    let period = if record.next_invoicing_at().is_some() { record.period.cut_at(until) } else { record.period };
    BillingRecord { period, invoicing_instants: Vec::new(), late_until: Some(now), ..record }
}

/// Until when the usage of each record was billed that the invoice billed, by this invoice or a later one, voided or not.
pub(super) fn billed_until(
    tx: &mut dyn Transaction,
    invoice: &Invoice,
) -> Result<BTreeMap<BillingRecordId, OffsetDateTime>, Error> {
    let mut until: BTreeMap<BillingRecordId, OffsetDateTime> = invoice.lines.iter().filter_map(billed_window).collect();
    for later in invoices_since(tx, invoice)? {
        for (record, at) in later.lines.iter().filter_map(billed_window) {
            until.entry(record).and_modify(|until| *until = at.max(*until));
        }
    }
    Ok(until)
}

/// The end of the time that a line billed of its record so far; what is charged in advance is billed as of its start.
fn billed_window(line: &LineItem) -> Option<(BillingRecordId, OffsetDateTime)> {
    match &line.trace {
        Trace::RecurringCharge { window, charge_timing: ChargeTiming::InAdvance, .. } => {
            Some((line.record?, window.start()))
        }
        Trace::UsageCharge { window, .. } | Trace::RecurringCharge { window, .. } => Some((line.record?, window.end())),
        _ => None,
    }
}

/// The customer's invoices that were issued behind this one, whether they stand or not.
fn invoices_since(tx: &mut dyn Transaction, invoice: &Invoice) -> Result<Vec<Invoice>, Error> {
    let filter = InvoiceFilter::of(invoice.customer);
    newer_than(tx, &filter, invoice.id)
}

/// The invoices of a list that stand before one of them, newest first.
pub(super) fn newer_than(
    tx: &mut dyn Transaction,
    filter: &InvoiceFilter,
    id: InvoiceId,
) -> Result<Vec<Invoice>, Error> {
    let (mut page, mut newer) = (PageRequest::first(), Vec::new());
    loop {
        let newest = tx.invoices().list(filter, &page)?;
        let is_found = newest.items.iter().any(|item| item.id == id);
        newer.extend(newest.items.into_iter().take_while(|item| item.id != id));
        page.after = newest.next.filter(|_| !is_found);
        if page.after.is_none() {
            return Ok(newer);
        }
    }
}

/// What the engine makes of today's events, line by line.
fn count(
    tx: &mut dyn Transaction,
    account: &mut Account,
    records: &[(LineId, BillingRecord)],
    now: OffsetDateTime,
) -> Result<BTreeMap<LineId, Charged>, Error> {
    let mut requests = Vec::new();
    for (_, record) in records {
        let offer = account.offer(tx, record.version)?;
        requests.extend(usage_request(account, record, &offer, now)?);
    }
    let usages = try_usages(tx, &requests)?;
    let mut counted = BTreeMap::new();
    for ((line, record), usage) in records.iter().zip(usages) {
        let (Ok(usage), offer) = (usage, account.offer(tx, record.version)?) else { continue };
        let Some(Charge::Component(component)) = offer.version.charge(record.charge) else { continue };
        let Some(metric) = offer.metrics.get(&component.metric) else { continue };
        let filters = account.subscription(record.subscription)?.filters.clone();
        let decimals = offer.currency.decimals;
        let at = record.period.end();
        counted.insert(*line, record.clone().charge_usage(component, metric, &filters, &usage, decimals, at));
    }
    Ok(counted)
}

/// The lines that settle the differences.
fn lines_to_come(
    tx: &mut dyn Transaction,
    account: &mut Account,
    records: &[(LineId, BillingRecord)],
    now: OffsetDateTime,
) -> Result<BTreeMap<LineId, LineItem>, Error> {
    let mut late: Vec<BillingRecord> = records.iter().map(|(_, record)| record.clone()).collect();
    let drafts = draft_lines(tx, account, &mut late, &|_| Part::All, (now, Some(now)))?;
    let lines = drafts.into_iter().flat_map(|draft| draft.lines).filter(is_usage);
    let by_record: BTreeMap<_, LineId> = records.iter().map(|(line, record)| (record.id, *line)).collect();
    Ok(lines.filter_map(|line| Some((*by_record.get(&line.record?)?, line))).collect())
}

fn is_usage(line: &LineItem) -> bool {
    matches!(line.trace, Trace::UsageCharge { .. })
}
