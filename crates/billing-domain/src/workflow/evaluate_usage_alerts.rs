//! Holds a customer's figures against the thresholds of usage alerts, and tells of those that are reached for the first time.
//!
//! The figures are those that calls answer: usage as the access check has it, the draft invoice, what is left of credits.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::{BigDecimal, Zero};
use time::OffsetDateTime;

use super::alert_headroom::Headroom;
use super::bundle::{Bundle, Held, considered, considered_of};
use super::draft_invoice::{DraftedInvoice, draft_of};
use super::tell::tell;
use super::usages::try_usages;
use crate::catalog::Catalog;
use crate::charge::{BillingRecord, invoicing_span_at, reset_period_at};
use crate::credit::CreditLedger;
use crate::custom_sql::CustomFailure;
use crate::customer::Customer;
use crate::error::{Error, StoreError};
use crate::id::{BillingRecordId, CustomerKey, MetricId, PlanVersionId, SubscriptionId};
use crate::invoice::LineItem;
use crate::message::{MessageType, Subject};
use crate::metric::Metric;
use crate::period::{MICROSECOND, Period};
use crate::store::Transaction;
use crate::subscription::{SubscriptionFilters, SubscriptionStatus};
use crate::usage::{SeenUsage, Usage, UsageRequest};
use crate::usage_alert::{AlertKind, AlertOutlook, AlertScope, AlertUnit, Firing, TriggeredAlert, UsageAlert};

/// A metric of a subscription in a reset interval, and what its usage is held against.
#[derive(PartialEq)]
struct Metered {
    metric: MetricId,
    subscription: SubscriptionId,
    /// Of the subscription, and of the add-ons that run with it.
    versions: Vec<PlanVersionId>,
    interval: Period,
    free: Option<BigDecimal>,
    limit: Option<BigDecimal>,
    prepaid: Option<BigDecimal>,
}

/// Something whose usage is read.
struct Asked {
    metered: Metered,
    metric: Metric,
    filters: SubscriptionFilters,
    /// Whether it runs now.
    runs: bool,
}

/// From one invoice to the next.
type Span = (OffsetDateTime, OffsetDateTime);

/// A figure that has reached a threshold.
struct Reached<'a> {
    alert: &'a UsageAlert,
    subscription: Option<SubscriptionId>,
    interval_start: OffsetDateTime,
    interval_end: Option<OffsetDateTime>,
    value: BigDecimal,
    whole: Option<BigDecimal>,
}

/// Tells of every alert whose threshold a figure of the customer's has reached, and that was not told yet for its interval: the
/// one that runs at `now`, and for usage also the one that ran at `since`. What is `known` to have fired is not looked up, and
/// what is found to have fired is added to it. What is answered holds once this is committed.
///
/// # Errors
/// Those of the store. A custom metric that fails has no figure, which reaches nothing.
pub fn evaluate_usage_alerts(
    tx: &mut dyn Transaction,
    (customer, since): (CustomerKey, Option<OffsetDateTime>),
    known: &mut BTreeSet<Firing>,
    now: OffsetDateTime,
) -> Result<AlertOutlook, Error> {
    let customer = match tx.customers().get(customer) {
        // Events may come before their customer, who may also be deleted.
        Err(Error::NotFound(_)) => return Ok(AlertOutlook::default()),
        found => found?,
    };
    let alerts: Vec<UsageAlert> =
        tx.usage_alerts().list()?.into_iter().filter(|alert| alert.may_concern(&customer.id)).collect();
    if alerts.is_empty() {
        return Ok(AlertOutlook::default());
    }
    let held = tx.subscriptions().list_current(customer.key, now)?;
    let mut catalog = Catalog::default();
    let running = considered_of(tx, &mut catalog, &held, &SubscriptionFilters::none(), now)?;
    let mut headroom = Headroom::of(&held, now);
    if !asked(&alerts, AlertKind::Spend, &running, now).is_empty() {
        // One event may cost whatever its tier says.
        headroom.refuse();
    }
    let asked_for = asked_usage(tx, &mut catalog, customer.key, &alerts, (since, now), &running)?;
    let (mut reached, is_reached_ahead) =
        reached_usage(tx, &alerts, asked_for, known, (&customer, now), &mut headroom)?;
    reached.extend(reached_spend(tx, &customer, &alerts, &running, now)?);
    reached.extend(reached_credit(tx, &customer, &alerts, &running, now)?);
    fire(tx, &customer, reached, known, now)?;
    Ok(AlertOutlook { headroom: headroom.left(), is_reached_ahead })
}

/// Tells of what is reached, unless that was told before.
fn fire(
    tx: &mut dyn Transaction,
    customer: &Customer,
    reached: Vec<Reached<'_>>,
    known: &mut BTreeSet<Firing>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    // Two subscriptions may reach it at once. What fires here is not known to have fired before this is committed.
    let mut firing_now = BTreeSet::new();
    for Reached { alert, subscription, interval_start, interval_end, value, whole } in reached {
        let firing = Firing { customer: customer.key, alert: alert.id, interval_start };
        if known.contains(&firing) || !firing_now.insert(firing) {
            continue;
        }
        if tx.usage_alerts().has_fired(&firing)? {
            known.insert(firing);
            continue;
        }
        let triggered = TriggeredAlert {
            alert: alert.clone(),
            customer: customer.clone(),
            subscription,
            interval_start,
            interval_end,
            value,
            whole,
        };
        tx.usage_alerts().insert_firing(&firing, now)?;
        let subject = Subject::UsageAlert(Box::new(triggered));
        tell(tx, customer, (MessageType::UsageAlertTriggered, now), &subject)?;
    }
    Ok(())
}

/// What the alerts on usage and on what is left of prepaid units look at.
fn asked_usage(
    tx: &mut dyn Transaction,
    catalog: &mut Catalog,
    customer: CustomerKey,
    alerts: &[UsageAlert],
    (since, now): (Option<OffsetDateTime>, OffsetDateTime),
    running: &[Bundle],
) -> Result<Vec<Asked>, Error> {
    let metrics: BTreeSet<MetricId> = alerts.iter().filter_map(|alert| alert.metric).collect();
    if metrics.is_empty() {
        return Ok(Vec::new());
    }
    let before = match since.filter(|since| *since < now) {
        Some(since) => ran_at(tx, catalog, customer, running, since)?,
        None => Vec::new(),
    };
    let mut asked: Vec<Asked> = Vec::new();
    for (bundles, at, runs) in [(&before[..], since.unwrap_or(now), false), (running, now, true)] {
        for (bundle, metric) in bundles.iter().flat_map(|bundle| metrics.iter().map(move |metric| (bundle, *metric))) {
            let Some(metered) = metered_at(bundle, metric, at) else { continue };
            // A subscription that was renewed meanwhile is another one; one that runs on is the same, with the same interval, unless
            // an add-on began or ended.
            if let Some(same) = asked.iter_mut().find(|other| other.metered == metered) {
                same.runs |= runs;
                continue;
            }
            let filters = bundle.base.subscription.filters.clone();
            asked.push(Asked { metered, metric: tx.metrics().get(metric)?, filters, runs });
        }
    }
    Ok(asked)
}

/// The alerts on usage and on what is left of prepaid units. Where that may give headroom, the interval is read as far ahead as that
/// goes. Such a figure is never below the one up to now: where it reaches nothing, neither does that, and is not read. Also whether one
/// reaches what the one up to now does not.
fn reached_usage<'a>(
    tx: &mut dyn Transaction,
    alerts: &'a [UsageAlert],
    asked: Vec<Asked>,
    known: &BTreeSet<Firing>,
    (customer, now): (&Customer, OffsetDateTime),
    headroom: &mut Headroom,
) -> Result<(Vec<Reached<'a>>, bool), Error> {
    let part_of = |asked: &Asked, headroom: &Headroom| {
        let rises = asked.runs && asked.metric.measure.rises_by_one();
        rises.then(|| headroom.part_of(&asked.metered.interval)).flatten()
    };
    let parts: Vec<Option<Period>> = asked.iter().map(|asked| part_of(asked, headroom)).collect();
    let up_to_now = |asked: &Asked| asked.metered.interval.cut_at(now + MICROSECOND);
    let request = |asked: &Asked, period| {
        UsageRequest::current(customer.key, asked.metric.clone(), asked.filters.clone(), period)
    };
    let requests =
        asked.iter().zip(&parts).map(|(asked, part)| request(asked, part.unwrap_or_else(|| up_to_now(asked))));
    let seen = figures(tx, &requests.collect::<Vec<_>>())?;
    let (mut reached, mut ahead) = (Vec::new(), Vec::new());
    for ((asked, part), seen) in asked.iter().zip(parts).zip(seen) {
        let is_told = |alert: &UsageAlert| known.contains(&asked.metered.firing(customer.key, alert));
        match (part, seen) {
            (Some(_), Some(seen)) if asked.metered.fires(alerts, Some(&seen)).iter().all(|one| is_told(one.alert)) => {
                asked.leave_headroom(alerts, &seen, is_told, headroom);
            }
            (Some(_), Some(seen)) => ahead.push((asked, seen)),
            // A figure that cannot be told has reached nothing, and keeps no other back.
            (_, seen) => {
                let fires = asked.metered.fires(alerts, seen.as_ref());
                if asked.runs {
                    let fires = |alert: &UsageAlert| fires.iter().any(|one| one.alert.id == alert.id);
                    asked.refuse_headroom(alerts, |alert| is_told(alert) || fires(alert), headroom);
                }
                reached.extend(fires);
            }
        }
    }
    let mut is_reached_ahead = false;
    let requests: Vec<_> = ahead.iter().map(|(asked, _)| request(asked, up_to_now(asked))).collect();
    for ((asked, ahead), seen) in ahead.iter().zip(figures(tx, &requests)?) {
        let fires = asked.metered.fires(alerts, seen.as_ref());
        let is_told = |alert: &UsageAlert| {
            fires.iter().any(|one| one.alert.id == alert.id)
                || known.contains(&asked.metered.firing(customer.key, alert))
        };
        is_reached_ahead |= asked.metered.fires(alerts, Some(ahead)).iter().any(|one| !is_told(one.alert));
        asked.leave_headroom(alerts, ahead, is_told, headroom);
        reached.extend(fires);
    }
    Ok((reached, is_reached_ahead))
}

/// The usage behind each request; none where a custom metric has failed.
fn figures(tx: &mut dyn Transaction, requests: &[UsageRequest]) -> Result<Vec<Option<SeenUsage>>, Error> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let told = try_usages(tx, requests)?.into_iter().map(|found| match found {
        Err(CustomFailure::Fault) => Err(StoreError::Internal(CustomFailure::Fault.to_string()).into()),
        found => Ok(found.ok()),
    });
    told.collect()
}

/// What ran at an instant that has passed, also what a switch has replaced since.
fn ran_at(
    tx: &mut dyn Transaction,
    catalog: &mut Catalog,
    customer: CustomerKey,
    running: &[Bundle],
    since: OffsetDateTime,
) -> Result<Vec<Bundle>, Error> {
    let mut ran = considered(tx, catalog, customer, &SubscriptionFilters::none(), since)?;
    // What took the place of another began after it: mostly there is none, and nothing to be read.
    if !running.is_empty() && running.iter().all(|bundle| bundle.base.subscription.period.start() <= since) {
        return Ok(ran);
    }
    let open = tx.billing_records().list_open(customer)?;
    let ids: BTreeSet<SubscriptionId> = open.iter().map(|record| record.subscription).collect();
    for id in ids {
        let one = tx.subscriptions().get(customer, id)?;
        let was_replaced = one.replaced_by.is_some() && !one.is_addon();
        if was_replaced && one.status(since) == SubscriptionStatus::Active {
            ran.push(Bundle::load(tx, catalog, &one, &[])?);
        }
    }
    Ok(ran)
}

/// The versions that run in a bundle: its own, and those of its add-ons.
fn versions_of(bundle: &Bundle, at: OffsetDateTime) -> impl Iterator<Item = PlanVersionId> {
    let running = bundle.parts().filter(move |part| part.subscription.status(at) == SubscriptionStatus::Active);
    running.map(|part| part.subscription.version)
}

/// What a bundle meters of a metric at an instant.
fn metered_at(bundle: &Bundle, metric: MetricId, at: OffsetDateTime) -> Option<Metered> {
    let (component, subscription) = bundle.component_of(metric, at)?;
    Some(Metered {
        metric,
        subscription: bundle.base.subscription.id,
        versions: versions_of(bundle, at).collect(),
        interval: reset_period_at(component, subscription, at)?,
        free: component.tiers.free_limit(),
        limit: component.tiers.total_limit(),
        prepaid: subscription.prepaid_units_of(component),
    })
}

impl Asked {
    /// Leaves as much headroom as alerts do that are not told of in this interval, of usage that rises by one with each event.
    fn leave_headroom(
        &self,
        alerts: &[UsageAlert],
        seen: &SeenUsage,
        is_told: impl Fn(&UsageAlert) -> bool,
        headroom: &mut Headroom,
    ) {
        headroom.end_at(self.metered.interval.end());
        for (_, threshold) in self.metered.thresholds(alerts).filter(|(alert, _)| !is_told(alert)) {
            headroom.keep_below(&self.metric, &threshold, seen);
        }
    }

    /// Leaves none for its events where there is an alert that any of them may reach, and that is not told of in this interval.
    fn refuse_headroom(&self, alerts: &[UsageAlert], is_told: impl Fn(&UsageAlert) -> bool, headroom: &mut Headroom) {
        headroom.end_at(self.metered.interval.end());
        if self.metered.thresholds(alerts).any(|(alert, _)| !is_told(alert)) {
            headroom.refuse_of(&self.metric);
        }
    }
}

impl Metered {
    /// What an alert that it reaches fires for.
    fn firing(&self, customer: CustomerKey, alert: &UsageAlert) -> Firing {
        Firing { customer, alert: alert.id, interval_start: self.interval.start() }
    }

    /// The alerts whose threshold is reached by what was seen; none by what could not be.
    fn fires<'a>(&self, alerts: &'a [UsageAlert], seen: Option<&SeenUsage>) -> Vec<Reached<'a>> {
        let reached = |seen: &SeenUsage| alerts.iter().filter_map(|alert| self.reached(alert, &seen.usage)).collect();
        seen.map(reached).unwrap_or_default()
    }

    /// The alerts that look at its usage, each with the usage that reaches it.
    fn thresholds<'a>(&self, alerts: &'a [UsageAlert]) -> impl Iterator<Item = (&'a UsageAlert, BigDecimal)> {
        let threshold = |alert: &'a UsageAlert| {
            let whole = self.whole(alert);
            Some((alert, alert.usage_reaching(self.prepaid.as_ref(), whole.as_ref())?))
        };
        alerts.iter().filter(|alert| self.concerns(alert)).filter_map(threshold)
    }

    /// Whether the alert looks at its usage.
    fn concerns(&self, alert: &UsageAlert) -> bool {
        let is_of_version =
            !matches!(alert.scope, AlertScope::PlanVersion(version) if !self.versions.contains(&version));
        alert.metric == Some(self.metric) && is_of_version
    }

    /// What the threshold is in percent of.
    fn whole(&self, alert: &UsageAlert) -> Option<BigDecimal> {
        match alert.unit {
            AlertUnit::Absolute => None,
            AlertUnit::PercentOfLimit => self.limit.clone(),
            AlertUnit::PercentOfFree => self.free.clone(),
        }
    }

    /// The alert, if it is about this metric and its threshold is reached by this usage.
    fn reached<'a>(&self, alert: &'a UsageAlert, usage: &Usage) -> Option<Reached<'a>> {
        if !self.concerns(alert) {
            return None;
        }
        let whole = self.whole(alert);
        let value = match alert.kind {
            AlertKind::PrepaidUnits => (self.prepaid.as_ref()? - &usage.quantity).max(BigDecimal::zero()),
            _ => usage.quantity.clone(),
        };
        alert.is_reached(&value, whole.as_ref()).then(|| Reached {
            alert,
            subscription: Some(self.subscription),
            interval_start: self.interval.start(),
            interval_end: Some(self.interval.end()),
            value,
            whole,
        })
    }
}

/// The alerts of a kind that is about all that a customer has: those about one of what runs, or about every customer.
fn asked<'a>(
    alerts: &'a [UsageAlert],
    kind: AlertKind,
    running: &[Bundle],
    now: OffsetDateTime,
) -> Vec<&'a UsageAlert> {
    let held: BTreeSet<PlanVersionId> = running.iter().flat_map(|bundle| versions_of(bundle, now)).collect();
    let concerns = |alert: &&UsageAlert| match alert.scope {
        AlertScope::PlanVersion(version) => held.contains(&version),
        AlertScope::Everybody | AlertScope::Customer(_) => true,
    };
    alerts.iter().filter(|alert| alert.kind == kind).filter(concerns).collect()
}

/// The alerts on what the draft invoice comes to. It begins anew with every invoice, and so does their interval: of several subscriptions
/// in their currency, with the latest.
fn reached_spend<'a>(
    tx: &mut dyn Transaction,
    customer: &Customer,
    alerts: &'a [UsageAlert],
    running: &[Bundle],
    now: OffsetDateTime,
) -> Result<Vec<Reached<'a>>, Error> {
    let asked = asked(alerts, AlertKind::Spend, running, now);
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let drafts = draft_of(tx, customer, false, now)?;
    let due = due_records(tx, customer.key, now)?;
    let mut reached = Vec::new();
    for alert in asked {
        let Some(draft) = drafts.iter().find(|draft| alert.currency_code.as_ref() == Some(&draft.currency.code)) else {
            continue;
        };
        let (span, value) = if draft.lines.iter().any(|line| due_record(line, &due).is_some()) {
            let Some(of_ended) = spend_of_ended(tx, customer.key, draft, &due)? else { continue };
            of_ended
        } else {
            let in_currency = running.iter().filter(|bundle| bundle.base.offer.currency.code == draft.currency.code);
            let parts = in_currency.flat_map(Bundle::parts);
            let span = |part: &Held| invoicing_span_at(&part.offer.version, &part.subscription, now);
            let Some(youngest) = parts.map(span).max() else { continue };
            (youngest, draft.amount.clone())
        };
        if alert.is_reached(&value, None) {
            reached.push(Reached {
                alert,
                subscription: None,
                interval_start: span.0,
                interval_end: Some(span.1),
                value,
                whole: None,
            });
        }
    }
    Ok(reached)
}

/// The records of a customer whose invoice is due, and waits for late events or for somebody to issue it.
fn due_records(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    now: OffsetDateTime,
) -> Result<BTreeMap<BillingRecordId, BillingRecord>, Error> {
    let open = tx.billing_records().list_open(customer)?.into_iter();
    let due = open.filter(|record| record.next_invoicing_at().is_some_and(|at| at <= now));
    Ok(due.map(|record| (record.id, record)).collect())
}

fn due_record<'d>(line: &LineItem, due: &'d BTreeMap<BillingRecordId, BillingRecord>) -> Option<&'d BillingRecord> {
    due.get(&line.record?)
}

/// What an invoice that is due charges for the time before its instant, and the youngest time between invoices that it does so for. Until it
/// is issued the draft is about both periods, and says of neither what was spent in it; then the customer is looked at again.
fn spend_of_ended(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    draft: &DraftedInvoice,
    due: &BTreeMap<BillingRecordId, BillingRecord>,
) -> Result<Option<(Span, BigDecimal)>, Error> {
    let (mut youngest, mut spent): (Option<Span>, _) = (None, BigDecimal::zero());
    for line in &draft.lines {
        let of_ended = |record: &BillingRecord| record.next_invoicing_at().filter(|at| record.period.start() < *at);
        let Some((record, at)) = due_record(line, due).and_then(|record| Some((record, of_ended(record)?))) else {
            continue;
        };
        spent += &line.amount;
        let subscription = tx.subscriptions().get(customer, record.subscription)?;
        let version = tx.plans().get_version(record.version)?;
        youngest = youngest.max(Some(invoicing_span_at(&version, &subscription, at - MICROSECOND)));
    }
    Ok(youngest.map(|span| (span, spent)))
}

/// The alerts on what is left of credits. Each credit begins an interval when it becomes usable; whoever was never granted any has
/// nothing to run out of.
fn reached_credit<'a>(
    tx: &mut dyn Transaction,
    customer: &Customer,
    alerts: &'a [UsageAlert],
    running: &[Bundle],
    now: OffsetDateTime,
) -> Result<Vec<Reached<'a>>, Error> {
    let asked = asked(alerts, AlertKind::CreditBalance, running, now);
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let mut ledgers = tx.credits().list(customer.key)?;
    ledgers.retain(|ledger| ledger.credit().effective_at <= now);
    let mut reached = Vec::new();
    for alert in asked {
        let in_currency = |ledger: &&CreditLedger| alert.currency_code.as_ref() == Some(&ledger.credit().currency_code);
        let granted = ledgers.iter().filter(in_currency);
        let usable_since = |ledger: &CreditLedger| ledger.credit().created_at.max(ledger.credit().effective_at);
        let Some(interval_start) = granted.clone().map(usable_since).max() else { continue };
        let usable = granted.filter(|ledger| !ledger.credit().is_expired(now));
        let value: BigDecimal = usable.map(|ledger| ledger.remaining()).sum();
        if alert.is_reached(&value, None) {
            let (subscription, interval_end, whole) = (None, None, None);
            reached.push(Reached { alert, subscription, interval_start, interval_end, value, whole });
        }
    }
    Ok(reached)
}
