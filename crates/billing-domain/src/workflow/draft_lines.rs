//! Bills records in memory: from usage and prices to the lines of invoices, without issuing any.

use std::collections::BTreeMap;
use std::rc::Rc;

use bigdecimal::{BigDecimal, Zero};
use time::OffsetDateTime;

use super::account::Account;
use super::tax_lines::tax_lines;
use super::usages::try_usages;
use crate::adjustment::Span;
use crate::catalog::Offer;
use crate::charge::{BillingRecord, Charge, Charged, UsageBilling};
use crate::currency::Currency;
use crate::custom_sql::CustomFailure;
use crate::error::{Error, StoreError};
use crate::id::{InvoiceId, SubscriptionId};
use crate::invoice::{BillingType, LineItem, Trace, adjust_price};
use crate::metric::Metric;
use crate::period::{Fraction, Period};
use crate::plan::{Component, PriceAdjustmentKind};
use crate::store::Transaction;
use crate::subscription::{FlatFeeBehavior, Subscription};
use crate::usage::{SeenUsage, UsageRequest};

/// The lines of one invoice to be.
pub(super) struct Draft {
    pub currency: Currency,
    pub lines: Vec<LineItem>,
    /// The voided invoice whose place it takes.
    pub replaces: Option<InvoiceId>,
}

/// How much of each record is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything that is due of it.
    All,
    /// Its prepaid units alone.
    Prepaid,
}

/// Bills the `part` of each of `records` as of the instant `at`, here and not in the store: the lines by currency,
/// adjusted, and taxed as of the second instant; `None`: not taxed. Of those that wait for late events, what these have changed is billed. All usage is read at once.
pub(super) fn draft_lines(
    tx: &mut dyn Transaction,
    account: &mut Account,
    records: &mut [BillingRecord],
    part: &dyn Fn(&BillingRecord) -> Part,
    (at, taxed_at): (OffsetDateTime, Option<OffsetDateTime>),
) -> Result<Vec<Draft>, Error> {
    let offers = records.iter().map(|record| account.offer(tx, record.version)).collect::<Result<Vec<_>, _>>()?;
    let mut requests = Vec::new();
    let mut metered = Vec::new();
    for (record, offer) in records.iter().zip(&offers) {
        let has_usage = part(record) == Part::All && has_usage(account, record, offer, at)?;
        metered.push(has_usage);
        if has_usage {
            requests.extend(usage_request(account, record, offer, at)?);
        }
    }
    let mut usages = try_usages(tx, &requests)?.into_iter();
    let mut drafts: BTreeMap<String, Draft> = BTreeMap::new();
    let mut billed: BTreeMap<SubscriptionId, Rc<Offer>> = BTreeMap::new();
    for ((record, offer), has_usage) in records.iter_mut().zip(&offers).zip(metered) {
        let usage = if has_usage { usages.next() } else { None };
        let counted = usage.as_ref().and_then(|usage| usage.as_ref().ok());
        let subscription = account.subscription(record.subscription)?;
        let mut lines = charge(subscription, record, offer, (part(record), counted), at)?;
        if let Some(Err(failure)) = &usage {
            lines.extend(leave_unbilled(account, record, offer, failure, at)?);
        }
        if lines.is_empty() && record.awaits_late_usage() {
            continue;
        }
        billed.insert(record.subscription, offer.clone());
        let empty = || Draft { currency: offer.currency.clone(), lines: Vec::new(), replaces: None };
        drafts.entry(offer.currency.code.clone()).or_insert_with(empty).lines.extend(lines);
    }
    for (id, offer) in billed {
        let is_last = is_last_invoice(account, id, records, part, at);
        if let Some(draft) = drafts.get_mut(&offer.currency.code) {
            adjust(account.subscription_mut(id)?, draft, &offer, is_last, at);
        }
    }
    if let Some(taxed_at) = taxed_at {
        for draft in drafts.values_mut() {
            tax_lines(account, &draft.currency, &mut draft.lines, records, taxed_at)?;
        }
    }
    Ok(drafts.into_values().filter(|draft| draft.lines.iter().any(|line| says_something(line, at))).collect())
}

/// Whether nothing of a subscription is left to bill after these `records` of it.
fn is_last_invoice(
    account: &Account,
    id: SubscriptionId,
    records: &[BillingRecord],
    part: &dyn Fn(&BillingRecord) -> Part,
    at: OffsetDateTime,
) -> bool {
    let billed = records.iter().filter(|record| record.subscription == id && part(record) == Part::All);
    // A preview is of an invoice to come, so what is on it may fall due later than `at`.
    let falls_due = billed.filter_map(BillingRecord::next_invoicing_at).max().map_or(at, |due| due.max(at));
    let is_left = |record: &BillingRecord| record.invoicing_instants.last().is_some_and(|last| *last > falls_due);
    !account.records.iter().chain(records).any(|record| record.subscription == id && is_left(record))
}

/// Whether a line is worth an invoice. That usage was not billed is said once at the end of its time, not again with every
/// attempt.
fn says_something(line: &LineItem, at: OffsetDateTime) -> bool {
    !matches!(line.trace, Trace::UsageNotBilled { .. }) || at <= line.period.end()
}

/// Leaves the usage of a record for another day, and says so on a line.
fn leave_unbilled(
    account: &Account,
    record: &mut BillingRecord,
    offer: &Offer,
    failure: &CustomFailure,
    at: OffsetDateTime,
) -> Result<Option<LineItem>, Error> {
    let Some(Charge::Component(component)) = offer.version.charge(record.charge) else { return Ok(None) };
    let subscription = account.subscription(record.subscription)?;
    let metric = metric_of(offer, component)?;
    let is_billed = record.awaits_late_usage();
    let unbilled = record.leave_unbilled(metric, &subscription.filters, failure, at);
    record.postpone(at);
    let line = line_of(format!("{} - Not Billed", metric.name), unbilled, record, offer, subscription);
    // What was billed before stays; only what came late is still unknown.
    Ok(Some(line).filter(|_| !is_billed))
}

/// Whether the record has usage to bill at `at`: not at its very start or when a switch hands it on, where only prepaid
/// units are billed; never when it was cut at its start, nor where its usage is billed elsewhere or dropped.
fn has_usage(account: &Account, record: &BillingRecord, offer: &Offer, at: OffsetDateTime) -> Result<bool, Error> {
    let is_component = matches!(offer.version.charge(record.charge), Some(Charge::Component(_)));
    let start = account.subscription(record.subscription)?.period.start().max(record.period.start());
    let is_due = at > start || at >= record.period.end() || record.awaits_late_usage();
    Ok(is_component && is_due && record.usage == UsageBilling::Here && !record.period.is_empty())
}

/// What to ask about the usage of a record at `at`; `None`: it is a fee's.
pub(super) fn usage_request(
    account: &Account,
    record: &BillingRecord,
    offer: &Offer,
    at: OffsetDateTime,
) -> Result<Option<UsageRequest>, Error> {
    let Some(Charge::Component(component)) = offer.version.charge(record.charge) else { return Ok(None) };
    let subscription = account.subscription(record.subscription)?;
    Ok(Some(UsageRequest::billed(
        account.customer.key,
        metric_of(offer, component)?.clone(),
        subscription.filters.clone(),
        record.window(at),
        &subscription.full,
    )))
}

/// The lines of one record of a subscription, before adjustments and tax.
pub(super) fn charge(
    subscription: &Subscription,
    record: &mut BillingRecord,
    offer: &Offer,
    (part, usage): (Part, Option<&SeenUsage>),
    at: OffsetDateTime,
) -> Result<Vec<LineItem>, Error> {
    let decimals = offer.currency.decimals;
    let mut lines = Vec::new();
    match offer.version.charge(record.charge) {
        Some(Charge::Recurring(charge)) => {
            let name = format!("{} Flat Fee", offer.version.name(&offer.plan));
            let mut fee = record.charge_recurring(charge, subscription, decimals, at);
            if let Some(fee) = fee.as_mut().filter(|_| offer.is_one_time()) {
                fee.billing_type = BillingType::OneTime;
            }
            lines.extend(fee.map(|fee| line_of(name, fee, record, offer, subscription)));
        }
        Some(Charge::Component(component)) => {
            let metric = metric_of(offer, component)?;
            let filters = &subscription.filters;
            let name = format!("{} Prepaid Units", metric.name);
            let prepaid = record.charge_prepaid(component, metric, filters, decimals);
            let late = record.awaits_late_usage();
            lines.extend(prepaid.map(|prepaid| line_of(name, prepaid, record, offer, subscription)));
            if let Some(usage) = usage.filter(|_| late) {
                let name = format!("{} - Late Usage", metric.name);
                let used = record.charge_late_usage(component, metric, filters, usage, decimals);
                lines.extend(used.map(|used| line_of(name, used, record, offer, subscription)));
            } else if let Some(usage) = usage {
                let used = record.charge_usage(component, metric, filters, usage, decimals, at);
                lines.push(line_of(metric.name.clone(), used, record, offer, subscription));
            } else if record.usage == UsageBilling::HandedOn && part == Part::All {
                let name = format!("{} - Moved to New Plan", metric.name);
                let back = record.take_usage_back(metric, filters, decimals, at);
                lines.extend(back.map(|back| line_of(name, back, record, offer, subscription)));
            }
        }
        None => return Err(broken("a billing record whose charge its plan version does not have")),
    }
    Ok(lines)
}

fn line_of(
    name: String,
    charged: Charged,
    record: &BillingRecord,
    offer: &Offer,
    subscription: &Subscription,
) -> LineItem {
    LineItem {
        name,
        period: charged.period,
        quantity: charged.quantity,
        billing_type: charged.billing_type,
        subscription: Some(subscription.id),
        record: Some(record.id),
        plan: Some(offer.brief()),
        filters: subscription.filters.clone(),
        base: charged.amount.clone(),
        adjustments: Vec::new(),
        amount: charged.amount,
        trace: charged.trace,
    }
}

/// Adjusts the price of one subscription's period, on its lines of this draft, or on a line of its own.
pub(super) fn adjust(
    subscription: &mut Subscription,
    draft: &mut Draft,
    offer: &Offer,
    is_last: bool,
    at: OffsetDateTime,
) {
    let Some(adjustment) = &offer.version.price_adjustment else { return };
    let id = subscription.id;
    let decimals = draft.currency.decimals;
    let mut lines: Vec<_> = draft.lines.iter_mut().filter(|line| line.subscription == Some(id)).collect();
    let charges = &subscription.settled.adjustment.charges + lines.iter().map(|line| &line.base).sum::<BigDecimal>();
    let span = Span { fraction: adjusted_part(subscription, adjustment.kind, &charges), last: is_last };
    if !lines.is_empty() {
        adjust_price(&mut lines, adjustment, &span, &mut subscription.settled, decimals);
        return;
    }
    let mut line = adjustment_line(offer, subscription, &adjustment.name, at);
    adjust_price(&mut [&mut line], adjustment, &span, &mut subscription.settled, decimals);
    if !line.amount.is_zero() {
        draft.lines.push(line);
    }
}

/// The part of a full period that fixed and override amounts are for. A cancellation with `charge_full` leaves it as it
/// was, and one with `refund` leaves an override nothing to price where nothing but fees was charged.
fn adjusted_part(subscription: &Subscription, kind: PriceAdjustmentKind, charges: &BigDecimal) -> Fraction {
    match subscription.flat_fee_behavior() {
        Some(FlatFeeBehavior::ChargeFull) => subscription.uncancelled_period().fraction_of(&subscription.full),
        Some(FlatFeeBehavior::Refund) if kind == PriceAdjustmentKind::PriceOverride && charges.is_zero() => {
            Fraction::ZERO
        }
        _ => subscription.period.fraction_of(&subscription.full),
    }
}

fn adjustment_line(offer: &Offer, subscription: &Subscription, name: &str, at: OffsetDateTime) -> LineItem {
    LineItem {
        name: format!("{} {name}", offer.version.name(&offer.plan)),
        period: Period::at(at),
        billing_type: BillingType::InArrears,
        subscription: Some(subscription.id),
        plan: Some(offer.brief()),
        filters: subscription.filters.clone(),
        ..LineItem::of_invoice("", 0.into(), at, Trace::PlanAdjustment)
    }
}

fn metric_of<'o>(offer: &'o Offer, component: &Component) -> Result<&'o Metric, Error> {
    offer.metrics.get(&component.metric).ok_or_else(|| broken("a component without its metric"))
}

fn broken(what: &str) -> Error {
    StoreError::Internal(format!("the store holds {what}")).into()
}
