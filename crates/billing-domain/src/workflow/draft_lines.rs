//! Bills records in memory: from usage and prices to the lines of invoices, without issuing any.

use std::collections::BTreeMap;
use std::rc::Rc;

use bigdecimal::{Signed, Zero};
use time::OffsetDateTime;

use super::account::{Account, Offer};
use super::usages::try_usages;
use crate::adjustment::Span;
use crate::charge::{BillingRecord, Charge, Charged};
use crate::currency::Currency;
use crate::custom_sql::CustomFailure;
use crate::error::{Error, StoreError};
use crate::id::{BillingRecordId, SubscriptionId};
use crate::invoice::{BillingType, LineItem, Trace, add_tax, adjust_price};
use crate::metric::Metric;
use crate::period::Period;
use crate::plan::Component;
use crate::store::Transaction;
use crate::subscription::Subscription;
use crate::tax::{self, FlatRate, TaxQuestion};
use crate::usage::{Usage, UsageRequest};

/// The lines of one invoice to be.
pub(super) struct Draft {
    pub currency: Currency,
    pub lines: Vec<LineItem>,
}

/// How much of each record is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Everything that is due of it.
    All,
    /// Its prepaid units alone.
    Prepaid,
}

/// Bills `records` as of the billing instant `at`, here and not in the store: the lines by currency, adjusted
/// and taxed. Of those that wait for late events, what these have changed is billed. All usage is read at once.
pub(super) fn draft_lines(
    tx: &mut dyn Transaction,
    account: &mut Account,
    records: &mut [BillingRecord],
    part: Part,
    at: OffsetDateTime,
) -> Result<Vec<Draft>, Error> {
    let offers = records.iter().map(|record| account.offer(tx, record.version)).collect::<Result<Vec<_>, _>>()?;
    let mut requests = Vec::new();
    let mut metered = Vec::new();
    for (record, offer) in records.iter().zip(&offers) {
        let has_usage = part == Part::All && has_usage(account, record, offer, at)?;
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
        let mut lines = charge(account, record, offer, usage.as_ref().and_then(|usage| usage.as_ref().ok()), at)?;
        if let Some(Err(failure)) = &usage {
            lines.extend(leave_unbilled(account, record, offer, failure, at)?);
        }
        if lines.is_empty() && record.awaits_late_usage() {
            continue;
        }
        billed.insert(record.subscription, offer.clone());
        let empty = || Draft { currency: offer.currency.clone(), lines: Vec::new() };
        drafts.entry(offer.currency.code.clone()).or_insert_with(empty).lines.extend(lines);
    }
    for (id, offer) in billed {
        let is_last = !account.records.iter().chain(records.iter()).any(|record| {
            record.subscription == id && record.invoicing_instants.last().is_some_and(|instant| *instant > at)
        });
        if let Some(draft) = drafts.get_mut(&offer.currency.code) {
            adjust(account, draft, id, &offer, is_last, at)?;
        }
    }
    for draft in drafts.values_mut() {
        tax(account, draft, records)?;
    }
    Ok(drafts.into_values().filter(|draft| draft.lines.iter().any(|line| says_something(line, at))).collect())
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
/// units are billed, and never when it was cut at its start.
fn has_usage(account: &Account, record: &BillingRecord, offer: &Offer, at: OffsetDateTime) -> Result<bool, Error> {
    let is_component = matches!(offer.version.charge(record.charge), Some(Charge::Component(_)));
    let start = account.subscription(record.subscription)?.period.start().max(record.period.start());
    let is_due = at > start || at >= record.period.end() || record.awaits_late_usage();
    Ok(is_component && is_due && !record.period.is_empty())
}

fn usage_request(
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

/// The lines of one record, before adjustments and tax.
fn charge(
    account: &Account,
    record: &mut BillingRecord,
    offer: &Offer,
    usage: Option<&Usage>,
    at: OffsetDateTime,
) -> Result<Vec<LineItem>, Error> {
    let decimals = offer.currency.decimals;
    let subscription = account.subscription(record.subscription)?;
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
fn adjust(
    account: &mut Account,
    draft: &mut Draft,
    id: SubscriptionId,
    offer: &Offer,
    is_last: bool,
    at: OffsetDateTime,
) -> Result<(), Error> {
    let Some(adjustment) = &offer.version.price_adjustment else { return Ok(()) };
    let subscription = account.subscription_mut(id)?;
    let span = Span { fraction: subscription.period.fraction_of(&subscription.full), last: is_last };
    let decimals = draft.currency.decimals;
    let mut own: Vec<_> = draft.lines.iter_mut().filter(|line| line.subscription == Some(id)).collect();
    if !own.is_empty() {
        adjust_price(&mut own, adjustment, &span, &mut subscription.settled, decimals);
        return Ok(());
    }
    let mut line = adjustment_line(offer, subscription, &adjustment.name, at);
    adjust_price(&mut [&mut line], adjustment, &span, &mut subscription.settled, decimals);
    if !line.amount.is_zero() {
        draft.lines.push(line);
    }
    Ok(())
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

/// Adds sales tax to the lines of subscriptions: at the rate of the day, and for what takes back or comes late at the
/// rate of what was billed of the same record before.
fn tax(account: &mut Account, draft: &mut Draft, records: &mut [BillingRecord]) -> Result<(), Error> {
    let question = TaxQuestion {
        customer_rate: account.customer.tax_rate.as_ref(),
        organization_rate: account.organization.tax_rate.as_ref(),
        country_code: account.customer.shipping_address.as_ref().map(|address| address.country.as_str()),
        currency_code: &draft.currency.code,
    };
    let today = tax::rate(&[&FlatRate], &question);
    let mut records: BTreeMap<BillingRecordId, &mut BillingRecord> =
        records.iter_mut().map(|record| (record.id, record)).collect();
    for line in &mut draft.lines {
        let Some(id) = line.subscription else { continue };
        let mut record = line.record.and_then(|id| records.get_mut(&id));
        let before = record.as_ref().and_then(|record| {
            record.tax_rate.clone().filter(|_| line.amount.is_negative() || record.awaits_late_usage())
        });
        // What was not taxed then is not taxed now.
        let rate = match before {
            Some(before) => Some(before).filter(|rate| !rate.is_zero()),
            None => {
                if let Some(record) = &mut record {
                    record.tax_rate = Some(today.clone().unwrap_or_default());
                }
                today.clone()
            }
        };
        if let Some(rate) = rate {
            add_tax(line, &rate, &mut account.subscription_mut(id)?.settled, draft.currency.decimals);
        }
    }
    Ok(())
}

fn metric_of<'o>(offer: &'o Offer, component: &Component) -> Result<&'o Metric, Error> {
    offer.metrics.get(&component.metric).ok_or_else(|| broken("a component without its metric"))
}

fn broken(what: &str) -> Error {
    StoreError::Internal(format!("the store holds {what}")).into()
}
