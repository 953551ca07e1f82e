//! Billing records: one charge of a subscription over one reset interval, and what it puts on an invoice.

use bigdecimal::{BigDecimal, Zero};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::custom_sql::CustomFailure;
use crate::decimal;
use crate::error::Refusal;
use crate::id::{BillingRecordId, ComponentId, MetricId, PlanVersionId, RecurringChargeId, SubscriptionId};
use crate::invoice::{BillingType, MetricTrace, PrepaidSegmentTrace, Rounding, Trace};
use crate::metric::{AggregationKind, MeasureFields, Metric};
use crate::money;
use crate::period::{Interval, Period, Tile};
use crate::plan::{ChargeBehavior, ChargeTiming, Component, PlanVersion, RecurringCharge};
use crate::subscription::{FlatFeeBehavior, Subscription, SubscriptionFilters};
use crate::usage::Usage;

/// One charge of a subscription over one reset interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BillingRecord {
    /// Its id.
    pub id: BillingRecordId,
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The plan version that prices it.
    pub version: PlanVersionId,
    /// Which charge of the version.
    pub charge: ChargeRef,
    /// The time it is for.
    pub period: Period,
    /// The uncut interval that the time is part of: what a full price is for.
    pub full: Period,
    /// When it is put on an invoice, ascending, only instants to come; none: it is fully billed.
    pub invoicing_instants: Vec<OffsetDateTime>,
    /// Until when events of its time may still arrive after all of it was billed; `None`: none are looked for.
    pub late_until: Option<OffsetDateTime>,
    /// What has been billed of it.
    pub billed: Billed,
    /// The sales tax, in percent, of what was billed of it last: what is taken back or comes late has the same. 0 when
    /// there was none; `None`: nothing was billed yet.
    pub tax_rate: Option<BigDecimal>,
    /// Its prepaid units, when the component has a prepaid charge.
    pub prepaid: Option<Prepaid>,
}

/// Which charge of a plan version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeRef {
    /// A fee by time.
    Recurring(RecurringChargeId),
    /// A metered component.
    Component(ComponentId),
}

impl ChargeRef {
    /// Whether it names this recurring charge.
    pub fn is(self, charge: RecurringChargeId) -> bool {
        self == Self::Recurring(charge)
    }
}

/// What has been billed of one charge so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Billed {
    /// Units of the metric; 0 for fees.
    #[serde(with = "decimal::number")]
    pub quantity: BigDecimal,
    /// The price of all of it, unrounded.
    #[serde(with = "decimal::number")]
    pub exact: BigDecimal,
    /// What invoice lines gave of that price.
    #[serde(with = "decimal::number")]
    pub given: BigDecimal,
}

impl Billed {
    /// Whether nothing has been billed yet.
    pub fn is_nothing(&self) -> bool {
        self.exact.is_zero() && self.given.is_zero()
    }

    /// Bills up to `exact` in all and says what that puts on the next line.
    fn up_to(&mut self, exact: BigDecimal, decimals: u8) -> Rounding {
        let amount = money::portion(&exact, &self.given, decimals);
        let rounding = Rounding { exact_so_far: exact.clone(), given_before: self.given.clone(), decimals, amount };
        self.given += &rounding.amount;
        self.exact = exact;
        rounding
    }
}

/// The prepaid units of one record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepaid {
    /// How many units in which part of the record's time; the parts tile it.
    pub segments: Vec<PrepaidSegment>,
    /// What has been billed of them.
    pub billed: Billed,
}

/// So many prepaid units for a part of a record's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrepaidSegment {
    /// The units.
    #[serde(with = "decimal::number")]
    pub units: BigDecimal,
    /// The part.
    pub period: Period,
    /// What it costs by the plan that the subscription was switched from; `None`: what its component says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<PrepaidSegmentTrace>,
}

impl PrepaidSegment {
    /// Units that cost what their component says.
    pub fn new(units: BigDecimal, period: Period) -> Self {
        Self { units, period, settled: None }
    }

    /// What it costs as a part of the interval `full`, where a switch has not settled that.
    fn price(&self, component: &Component, full: &Period) -> PrepaidSegmentTrace {
        self.settled.clone().unwrap_or_else(|| PrepaidSegmentTrace {
            window: self.period,
            fraction: self.period.fraction_of(full),
            rating: component.tiers.rate(&self.units),
        })
    }
}

/// What a record puts on an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The time it is for.
    pub period: Period,
    /// Units charged for, or copies of a fee when more than one.
    pub quantity: Option<BigDecimal>,
    /// When it is billed relative to its time.
    pub billing_type: BillingType,
    /// In whole minor units.
    pub amount: BigDecimal,
    /// How it came about.
    pub trace: Trace,
}

impl BillingRecord {
    /// Most records that one subscription may have.
    pub const PER_SUBSCRIPTION_MAX: usize = 5_000;
    /// How long after a custom metric failed its usage is billed again.
    pub const RETRY_AFTER: Duration = Duration::DAY;

    /// When it is next put on an invoice; `None`: it is fully billed.
    pub fn next_invoicing_at(&self) -> Option<OffsetDateTime> {
        self.invoicing_instants.first().copied()
    }

    /// Whether an invoice has charged for it.
    pub fn has_billed(&self) -> bool {
        !self.billed.is_nothing() || self.prepaid.as_ref().is_some_and(|prepaid| !prepaid.billed.is_nothing())
    }

    /// Leaves every invoicing instant up to and with `at` behind.
    pub fn pass(&mut self, at: OffsetDateTime) {
        self.invoicing_instants.retain(|instant| *instant > at);
    }

    /// Waits for late events until `until`, unless that is `over` already or there is no time that they could be of.
    pub fn wait_until(&mut self, until: Option<OffsetDateTime>, over: OffsetDateTime) {
        self.late_until = until.filter(|until| *until > over && !self.period.is_empty());
    }

    /// Leaves `at` behind without having billed its usage, which is tried again after [`BillingRecord::RETRY_AFTER`].
    pub fn postpone(&mut self, at: OffsetDateTime) {
        let Some(again) = at.checked_add(Self::RETRY_AFTER) else { return };
        if self.awaits_late_usage() {
            self.late_until = self.late_until.map(|until| until.max(again));
            return;
        }
        self.invoicing_instants.retain(|instant| *instant > at);
        if self.invoicing_instants.first().is_none_or(|next| *next > again) {
            self.invoicing_instants.insert(0, again);
        }
    }

    /// Puts on the invoice that usage was not billed, and why.
    pub fn leave_unbilled(
        &self,
        metric: &Metric,
        filters: &SubscriptionFilters,
        failure: &CustomFailure,
        at: OffsetDateTime,
    ) -> Charged {
        let trace = Trace::UsageNotBilled {
            metric: metric_trace(metric, filters),
            window: self.window(at),
            reason: failure.to_string(),
        };
        let billing_type = self.billing_type(at);
        Charged { period: self.period, quantity: None, billing_type, amount: BigDecimal::zero(), trace }
    }

    /// Whether all of it was billed and events of its time may still arrive.
    pub fn awaits_late_usage(&self) -> bool {
        self.invoicing_instants.is_empty() && self.late_until.is_some()
    }

    /// When it is next looked at: its next invoicing instant, otherwise the end of the wait for late events.
    pub fn next_due_at(&self) -> Option<OffsetDateTime> {
        self.next_invoicing_at().or(self.late_until)
    }

    /// Has nothing more invoiced, not even what comes late.
    pub fn close(&mut self) {
        self.invoicing_instants.clear();
        self.late_until = None;
    }

    /// Has nothing invoiced at its own start: what is charged in advance waits for the next invoicing instant.
    pub fn wait_behind_start(&mut self) {
        let start = self.period.start();
        self.invoicing_instants.retain(|instant| *instant > start);
    }

    /// The time whose usage is due at `at`: all of it once all of it was billed.
    pub fn window(&self, at: OffsetDateTime) -> Period {
        if self.awaits_late_usage() { self.period } else { self.period.cut_at(at) }
    }

    fn billing_type(&self, at: OffsetDateTime) -> BillingType {
        if at < self.period.end() { BillingType::Intermediate } else { BillingType::InArrears }
    }

    /// Has `units` prepaid from `now` on: the segment that runs then ends, and another takes the rest.
    pub fn change_prepaid_units(&mut self, units: &BigDecimal, now: OffsetDateTime) {
        let from = now.max(self.period.start());
        self.end_prepaid(from);
        if let (Some(prepaid), Ok(period)) = (&mut self.prepaid, Period::new(from, self.period.end())) {
            prepaid.segments.push(PrepaidSegment::new(units.clone(), period));
        }
    }

    /// Ends the prepaid units at `from` and leaves the time before it at what `component` says it costs, whatever the
    /// record's component is from then on.
    pub fn settle_prepaid(&mut self, component: &Component, from: OffsetDateTime) {
        self.end_prepaid(from);
        let full = self.full;
        for segment in self.prepaid.iter_mut().flat_map(|prepaid| &mut prepaid.segments) {
            segment.settled = Some(segment.price(component, &full));
        }
    }

    fn end_prepaid(&mut self, from: OffsetDateTime) {
        let Some(prepaid) = &mut self.prepaid else { return };
        prepaid.segments.retain(|segment| segment.period.start() < from);
        if let Some(last) = prepaid.segments.last_mut() {
            last.period = last.period.cut_at(from);
        }
    }

    /// Lets the last segment of prepaid units end with the record's time, and drops what lies behind it.
    pub fn reprice_prepaid(&mut self) {
        let Some(prepaid) = &mut self.prepaid else { return };
        prepaid.segments.retain(|segment| segment.period.start() < self.period.end());
        if let Some(last) = prepaid.segments.last_mut()
            && let Ok(period) = Period::new(last.period.start(), self.period.end())
        {
            last.period = period;
        }
    }

    /// Bills a fee by time at `at`; `None` when nothing is left to bill. How the subscription was cancelled may
    /// say what the fee comes to, whatever its own behaviour.
    pub fn charge_recurring(
        &mut self,
        charge: &RecurringCharge,
        subscription: &Subscription,
        decimals: u8,
        at: OffsetDateTime,
    ) -> Option<Charged> {
        let quantity = subscription.quantity;
        let (window, billing_type) = match charge.timing {
            ChargeTiming::InAdvance => (self.period, BillingType::InAdvance),
            ChargeTiming::InArrears => (self.window(at), self.billing_type(at)),
        };
        let fraction = window.fraction_of(&self.full);
        let whole = &charge.amount * BigDecimal::from(quantity);
        let cancelled = subscription.cancellation.and_then(|cancellation| cancellation.flat_fee_behavior);
        let exact = match (cancelled, charge.behavior) {
            (Some(FlatFeeBehavior::Refund), _) => BigDecimal::zero(),
            // What never began costs nothing, unless the cancellation says so.
            (None, _) if window.is_empty() => BigDecimal::zero(),
            (Some(FlatFeeBehavior::ChargeFull), _) | (None, ChargeBehavior::Full) => whole,
            (Some(FlatFeeBehavior::ChargeProrated), _) | (None, ChargeBehavior::Prorate) => fraction.of(&whole),
        };
        let rounding = self.billed.up_to(exact, decimals);
        (!rounding.amount.is_zero()).then(|| Charged {
            period: self.period,
            quantity: (quantity > 1).then(|| BigDecimal::from(quantity)),
            billing_type,
            amount: rounding.amount.clone(),
            trace: Trace::RecurringCharge {
                charge_name: charge.name.clone(),
                unit_amount: charge.amount.clone(),
                quantity,
                charge_timing: charge.timing,
                charge_behavior: charge.behavior,
                flat_fee_behavior: cancelled,
                window,
                fraction,
                rounding,
            },
        })
    }

    /// Bills the prepaid units; `None` when there are none or nothing is left to bill.
    pub fn charge_prepaid(
        &mut self,
        component: &Component,
        metric: &Metric,
        filters: &SubscriptionFilters,
        decimals: u8,
    ) -> Option<Charged> {
        let behavior = component.prepaid_charge.as_ref()?.behavior;
        let (exact, segments) = self.prepaid_price(component);
        let period = self.period;
        let prepaid = self.prepaid.as_mut()?;
        let rounding = prepaid.billed.up_to(exact, decimals);
        (!rounding.amount.is_zero()).then(|| Charged {
            period,
            quantity: prepaid.segments.last().map(|segment| segment.units.clone()),
            billing_type: BillingType::InAdvance,
            amount: rounding.amount.clone(),
            trace: Trace::PrepaidUsageCharge {
                metric: metric_trace(metric, filters),
                charge_behavior: behavior,
                segments,
                rounding,
            },
        })
    }

    /// Bills the usage of [`BillingRecord::window`]: the price of all of it, less what was prepaid and billed.
    pub fn charge_usage(
        &mut self,
        component: &Component,
        metric: &Metric,
        filters: &SubscriptionFilters,
        usage: &Usage,
        decimals: u8,
        at: OffsetDateTime,
    ) -> Charged {
        let rating = component.tiers.rate(&usage.quantity);
        let (prepaid_amount, _) = self.prepaid_price(component);
        let exact = (&rating.amount - &prepaid_amount).max(BigDecimal::zero());
        let billed_before = self.awaits_late_usage().then(|| self.billed.quantity.clone());
        let quantity = &usage.quantity - &self.billed.quantity;
        let rounding = self.billed.up_to(exact, decimals);
        self.billed.quantity.clone_from(&usage.quantity);
        Charged {
            period: self.period,
            quantity: Some(quantity),
            billing_type: self.billing_type(at),
            amount: rounding.amount.clone(),
            trace: Trace::UsageCharge {
                metric: metric_trace(metric, filters),
                window: self.window(at),
                event_count: usage.event_count,
                quantity: usage.quantity.clone(),
                billed_before,
                rating,
                prepaid_amount,
                rounding,
            },
        }
    }

    /// Bills what late events change of a price that was billed: all of the usage at the same prices, less what was
    /// billed, which may be less than nothing. `None`, and nothing changes, when it comes to less than a minor unit.
    pub fn charge_late_usage(
        &mut self,
        component: &Component,
        metric: &Metric,
        filters: &SubscriptionFilters,
        usage: &Usage,
        decimals: u8,
    ) -> Option<Charged> {
        let before = self.billed.clone();
        let charged = self.charge_usage(component, metric, filters, usage, decimals, self.period.end());
        if charged.amount.is_zero() {
            self.billed = before;
            return None;
        }
        Some(charged)
    }

    /// What the prepaid units cost, unrounded, and how: prorated, each segment its part; full, the latest units.
    fn prepaid_price(&self, component: &Component) -> (BigDecimal, Vec<PrepaidSegmentTrace>) {
        let (Some(prepaid), Some(charge)) = (&self.prepaid, &component.prepaid_charge) else {
            return (BigDecimal::zero(), Vec::new());
        };
        let traces = prepaid.segments.iter().map(|segment| segment.price(component, &self.full));
        match charge.behavior {
            ChargeBehavior::Prorate => {
                let traces: Vec<_> = traces.collect();
                (traces.iter().map(|trace| trace.fraction.of(&trace.rating.amount)).sum(), traces)
            }
            ChargeBehavior::Full => {
                let latest: Vec<_> = traces.rev().take(1).collect();
                (latest.iter().map(|trace| trace.rating.amount.clone()).sum(), latest)
            }
        }
    }
}

fn metric_trace(metric: &Metric, filters: &SubscriptionFilters) -> MetricTrace {
    let MeasureFields { metric_type, aggregation_type, property_name, event_type, granularity, proration, custom_sql } =
        metric.measure.fields();
    MetricTrace {
        metric_id: metric.id,
        metric_name: metric.name.clone(),
        event_name: metric.event_name.clone(),
        metric_type: metric_type.as_str().to_owned(),
        aggregation_type: aggregation_type.unwrap_or(AggregationKind::Count).as_str().to_owned(),
        property_name,
        event_type: event_type.map(|event_type| event_type.as_str().to_owned()),
        granularity: granularity.map(|granularity| granularity.as_str().to_owned()),
        proration: proration.map(|proration| proration.as_str().to_owned()),
        custom_sql,
        numeric_filters: metric.filters.numeric_filters.clone(),
        categorical_filters: metric.filters.categorical_filters.clone(),
        subscription_filters: filters.clone(),
    }
}

/// The billing records of a new subscription: one for each charge and reset interval.
///
/// # Errors
/// [`Refusal::PrepaymentCantDetermineUnits`] when a prepaid component has units neither by default nor from
/// the subscription.
pub fn records_of(
    version: &PlanVersion,
    subscription: &Subscription,
    new_uuid: &mut dyn FnMut() -> Uuid,
) -> Result<Vec<BillingRecord>, Refusal> {
    let mut records = Vec::new();
    let mut add = |charge, tile: &Tile, invoicing_instants, prepaid| {
        records.push(BillingRecord {
            id: new_uuid().into(),
            subscription: subscription.id,
            version: version.id,
            charge,
            period: tile.period,
            full: tile.full,
            invoicing_instants,
            late_until: None,
            billed: Billed::default(),
            tax_rate: None,
            prepaid,
        });
    };
    for charge in &version.recurring_charges {
        let instants = invoicing_instants(charge.invoicing_interval, subscription);
        for tile in reset_tiles(charge.reset_interval, subscription) {
            let in_advance = charge.timing == ChargeTiming::InAdvance;
            add(ChargeRef::Recurring(charge.id), &tile, instants_of(&tile.period, &instants, in_advance), None);
        }
    }
    for component in &version.components {
        let instants = invoicing_instants(component.invoicing_interval, subscription);
        let units = prepaid_units(component, subscription)?;
        for tile in reset_tiles(component.reset_interval, subscription) {
            let mut own = instants_of(&tile.period, &instants, false);
            let prepaid = units.clone().map(|units| {
                own.insert(0, tile.period.start());
                let segments = vec![PrepaidSegment::new(units, tile.period)];
                Prepaid { segments, billed: Billed::default() }
            });
            add(ChargeRef::Component(component.id), &tile, own, prepaid);
        }
    }
    Ok(records)
}

/// How many records a subscription to `version` would have, without making them.
pub fn count_records(version: &PlanVersion, subscription: &Subscription) -> usize {
    let resets = version.recurring_charges.iter().map(|charge| charge.reset_interval);
    let resets = resets.chain(version.components.iter().map(|component| component.reset_interval));
    resets.map(|interval| reset_tiles(interval, subscription).len()).sum()
}

/// The reset interval of `component` that holds `instant`, within the subscription's period; it begins earlier
/// where usage was carried over from a subscription that was replaced.
pub fn reset_period_at(component: &Component, subscription: &Subscription, instant: OffsetDateTime) -> Option<Period> {
    let tiles = reset_tiles(component.reset_interval, subscription);
    let period = tiles.into_iter().map(|tile| tile.period).find(|period| period.contains(instant))?;
    Period::new(subscription.usage_start(component.metric, period.start()), period.end()).ok()
}

fn prepaid_units(component: &Component, subscription: &Subscription) -> Result<Option<BigDecimal>, Refusal> {
    if component.prepaid_charge.is_none() {
        return Ok(None);
    }
    let units = subscription.prepaid_units_of(component);
    units.map(Some).ok_or(Refusal::PrepaymentCantDetermineUnits(component.metric))
}

fn reset_tiles(interval: Option<Interval>, subscription: &Subscription) -> Vec<Tile> {
    match interval {
        Some(interval) => interval.tiles(subscription.intervals_from(), &subscription.period),
        None if subscription.period.is_empty() => Vec::new(),
        None => vec![Tile { period: subscription.period, full: subscription.full }],
    }
}

/// The subscription's start, each interval's end inside the period, and the period's end.
fn invoicing_instants(interval: Option<Interval>, subscription: &Subscription) -> Vec<OffsetDateTime> {
    let period = &subscription.period;
    let ends = match interval {
        Some(interval) => {
            let tiles = interval.tiles(subscription.intervals_from(), period);
            tiles.into_iter().map(|tile| tile.period.end()).collect()
        }
        None => vec![period.end()],
    };
    std::iter::once(period.start()).chain(ends).collect()
}

/// The instants at which one record is billed: from its start (itself only when billed in advance) up to the
/// first one at or after its end.
fn instants_of(period: &Period, instants: &[OffsetDateTime], in_advance: bool) -> Vec<OffsetDateTime> {
    let from = |instant: &OffsetDateTime| *instant > period.start() || (in_advance && *instant == period.start());
    let last = instants.iter().find(|instant| **instant >= period.end()).copied().unwrap_or(period.end());
    instants.iter().copied().filter(|instant| from(instant) && *instant <= last).collect()
}

/// The charge behind a record, looked up in its version.
pub enum Charge<'v> {
    /// A fee by time.
    Recurring(&'v RecurringCharge),
    /// A metered component.
    Component(&'v Component),
}

impl PlanVersion {
    /// The charge that `reference` names; `None` if it is another version's.
    pub fn charge(&self, reference: ChargeRef) -> Option<Charge<'_>> {
        match reference {
            ChargeRef::Recurring(id) => self.recurring_charges.iter().find(|own| own.id == id).map(Charge::Recurring),
            ChargeRef::Component(id) => self.components.iter().find(|own| own.id == id).map(Charge::Component),
        }
    }

    /// The metrics that its components meter.
    pub fn metrics(&self) -> impl Iterator<Item = MetricId> {
        self.components.iter().map(|component| component.metric)
    }
}
