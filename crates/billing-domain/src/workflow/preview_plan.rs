//! Shows what a whole period of a plan comes to that nobody has made: priced by the very code that bills, and nothing is kept.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::{BigDecimal, Signed, Zero};
use time::{OffsetDateTime, Time};
use uuid::Uuid;

use super::CreatePlan;
use super::create_plan_version::build;
use super::draft_lines::{Draft, Part, adjust, charge};
use crate::catalog::Offer;
use crate::charge::{Charge, count_records};
use crate::currency::Currency;
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Noun};
use crate::id::MetricId;
use crate::invoice::LineItem;
use crate::metric::Metric;
use crate::period::{Anchors, Cadence, Calendar, Period, PlanDuration};
use crate::plan::{Plan, PlanVersion};
use crate::store::Transaction;
use crate::subscription::{Settled, Subscription, SubscriptionFilters};
use crate::usage::Usage;

/// A plan that is not made, and usage that is priced by it.
#[derive(Clone, Debug)]
pub struct PreviewPlan {
    /// The plan, with the version that prices.
    pub plan: CreatePlan,
    /// How much is used of metrics in each of their reset intervals; nothing of those that are not here.
    pub usage: Vec<(MetricId, BigDecimal)>,
}

/// What a whole period of a plan comes to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlanPreview {
    /// The version as it would be.
    pub version: PlanVersion,
    /// What its components meter.
    pub metrics: BTreeMap<MetricId, Metric>,
    /// What everything in it is priced in.
    pub currency: Currency,
    /// The period, as if it began today: a month where the plan has no duration.
    pub period: Period,
    /// What the invoices for the period would have on them before tax and credits, each charge and reset interval in one line. No
    /// events stand behind the usage on them.
    pub lines: Vec<LineItem>,
}

impl PlanPreview {
    /// The sum of the lines.
    pub fn amount(&self) -> BigDecimal {
        self.lines.iter().map(|line| &line.amount).sum()
    }
}

/// Most reset intervals of all charges that are looked at.
const RECORDS_MAX: usize = 1_000;
/// Most tiers of all these intervals.
const TIERS_MAX: usize = 10_000;

/// Prices a whole period of the plan's first version, by the workflow that bills: the charges of one subscription, each reset interval
/// with the usage that is given for its metric, and the price adjustment over all of it. Nothing is written.
///
/// # Errors
/// Every bad field, those of the plan below `plan`, as they are when it is made;
/// [`Refusal::PrepaymentCantDetermineUnits`](crate::Refusal::PrepaymentCantDetermineUnits) where the version leaves that to
/// subscriptions.
pub fn preview_plan(
    tx: &mut dyn Transaction,
    command: &PreviewPlan,
    now: OffsetDateTime,
) -> Result<PlanPreview, Error> {
    let mut errors = command.plan.faults(tx, now)?.under("plan");
    let Some(new) = &command.plan.initial_version else {
        errors.push("plan.initial_version", FieldCode::Required, "This field is required.");
        return Err(errors.into());
    };
    let metered: BTreeSet<MetricId> = new.components.iter().map(|component| component.metric).collect();
    usage_faults(&command.usage, &metered, &mut errors);
    errors.finish(())?;
    let plan = command.plan.plan(tx.new_uuid().into(), now);
    let version = build(tx, plan.id, new, &[], now)?;
    let mut subscription = whole_period(&plan, &version, tx.new_uuid(), now);
    // Charges are counted first: each has an interval at least.
    let charges = version.recurring_charges.len() + version.components.len();
    if charges > RECORDS_MAX || count_records(&version, &subscription) > RECORDS_MAX {
        return Err(too_large().into());
    }
    let offer = Offer::new(tx, plan, None, version)?;
    let mut records = offer.records_of(tx, &subscription)?;
    let tiers = records.iter().map(|record| match offer.version.charge(record.charge) {
        Some(Charge::Component(component)) => component.tiers.tiers().len(),
        _ => 0,
    });
    if tiers.sum::<usize>() > TIERS_MAX {
        return Err(too_large().into());
    }

    let usage: BTreeMap<MetricId, &BigDecimal> =
        command.usage.iter().map(|(metric, quantity)| (*metric, quantity)).collect();
    let mut draft = Draft { currency: offer.currency.clone(), lines: Vec::new(), replaces: None };
    for record in &mut records {
        let used = match offer.version.charge(record.charge) {
            Some(Charge::Component(component)) => usage.get(&component.metric).copied().cloned(),
            _ => None,
        };
        let quantity = used.unwrap_or_else(BigDecimal::zero);
        let used = Usage { quantity, event_count: 0 }.seen_to(0);
        let at = record.period.end();
        draft.lines.extend(charge(&subscription, record, &offer, (Part::All, Some(&used)), at)?);
    }
    let at = subscription.period.end();
    adjust(&mut subscription, &mut draft, &offer, true, at);
    let Offer { version, metrics, currency, .. } = offer;
    Ok(PlanPreview { version, metrics, currency, period: subscription.period, lines: draft.lines })
}

fn usage_faults(usage: &[(MetricId, BigDecimal)], metered: &BTreeSet<MetricId>, errors: &mut FieldErrors) {
    let mut named = BTreeSet::new();
    for (i, (metric, quantity)) in usage.iter().enumerate() {
        if !metered.contains(metric) {
            let detail = format!("No component of the version has this {}.", Noun::Metric);
            errors.push(format!("usage.{i}.metric_id"), FieldCode::DoesNotExist, detail);
        }
        if !named.insert(*metric) {
            let detail = "Usage of this metric is given twice.";
            errors.push(format!("usage.{i}.metric_id"), FieldCode::Unique, detail);
        }
        if quantity.is_negative() {
            let detail = "Ensure this value is greater than or equal to 0.";
            errors.push(format!("usage.{i}.quantity"), FieldCode::MinValue, detail);
        }
    }
}

/// It would come to so many lines that nobody reads them.
fn too_large() -> FieldError {
    let detail = "A period of it has too many reset intervals and tiers to be looked at.";
    FieldError::new("plan.initial_version", FieldCode::Invalid, detail)
}

/// A subscription for a period that nothing cuts short.
fn whole_period(plan: &Plan, version: &PlanVersion, id: Uuid, now: OffsetDateTime) -> Subscription {
    let start = now.replace_time(Time::MIDNIGHT);
    let duration = plan.duration.unwrap_or(PlanDuration::Monthly);
    let cadence = Cadence::new(start, duration, Anchors::NONE);
    let tile = cadence.period(0);
    Subscription {
        id: id.into(),
        customer: Uuid::nil().into(),
        plan: plan.id,
        version: version.id,
        period: tile.period,
        full: tile.full,
        calendar: if plan.duration.is_some() { cadence.calendar() } else { Calendar::of_single_period(start) },
        chain_began_at: now,
        auto_renew: false,
        is_renewed: false,
        is_new: true,
        quantity: 1,
        filters: SubscriptionFilters::none(),
        metadata: serde_json::Map::new(),
        prepaid_units: BTreeMap::new(),
        settled: Settled::default(),
        carried_usage: BTreeMap::new(),
        replaced_by: None,
        parent: None,
        cancellation: None,
        uncancelled_end: None,
        created_at: now,
    }
}
