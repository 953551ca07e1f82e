//! The records of a subscription: one for each charge and reset interval, with its invoicing instants.

use bigdecimal::{BigDecimal, Zero};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Billed, BillingRecord, ChargeRef, Prepaid, PrepaidSegment, UsageBilling};
use crate::error::Refusal;
use crate::period::{Interval, Period, Tile};
use crate::plan::{ChargeTiming, Component, PlanVersion};
use crate::subscription::{CarriedUsage, Subscription};

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
            charged_before_switch: BigDecimal::zero(),
            usage: UsageBilling::Here,
            prepaid,
        });
    };
    for charge in &version.recurring_charges {
        let instants = invoicing_instants(charge.invoicing_interval, subscription);
        let in_advance = charge.timing == ChargeTiming::InAdvance;
        for tile in reset_tiles(charge.reset_interval, subscription) {
            let mut tile_instants = instants_of(&tile.period, &instants, in_advance);
            // Nobody said when it is invoiced: in advance then means before its own time, not before the subscription's.
            if in_advance && charge.invoicing_interval.is_none() && tile_instants.first() != Some(&tile.period.start())
            {
                tile_instants.insert(0, tile.period.start());
            }
            add(ChargeRef::Recurring(charge.id), &tile, tile_instants, None);
        }
    }
    for component in &version.components {
        let instants = invoicing_instants(component.invoicing_interval, subscription);
        let units = prepaid_units(component, subscription)?;
        for tile in component_tiles(component, subscription) {
            // What was carried over began earlier, and was prepaid elsewhere until now.
            let period_here = Period::new(tile.period.start().max(subscription.period.start()), tile.period.end());
            let period_here = period_here.unwrap_or(tile.period);
            let mut tile_instants = instants_of(&period_here, &instants, false);
            let prepaid = units.clone().map(|units| {
                tile_instants.insert(0, period_here.start());
                Prepaid { segments: vec![PrepaidSegment::new(units, period_here)], billed: Billed::default() }
            });
            add(ChargeRef::Component(component.id), &tile, tile_instants, prepaid);
        }
    }
    Ok(records)
}

/// How many records a subscription to `version` would have, without making them.
pub fn count_records(version: &PlanVersion, subscription: &Subscription) -> usize {
    let fees = version.recurring_charges.iter().map(|charge| reset_tiles(charge.reset_interval, subscription).len());
    let usage = version.components.iter().map(|component| component_tiles(component, subscription).len());
    fees.chain(usage).sum()
}

/// The reset interval of `component` that holds `instant`, within the subscription's period; it begins earlier
/// where usage was carried over from a subscription that was replaced.
pub fn reset_period_at(component: &Component, subscription: &Subscription, instant: OffsetDateTime) -> Option<Period> {
    let tiles = component_tiles(component, subscription);
    tiles.into_iter().map(|tile| tile.period).find(|period| period.contains(instant))
}

/// The reset interval of `component` that runs at `instant`, for a subscription that takes this one's place then;
/// `None` when none runs.
pub fn carried_usage_at(
    component: &Component,
    subscription: &Subscription,
    instant: OffsetDateTime,
) -> Option<CarriedUsage> {
    let tiles = component_tiles(component, subscription);
    let running = tiles.into_iter().find(|tile| tile.period.contains(instant))?;
    let start = running.period.start();
    let again = subscription.carried_usage.get(&component.metric).filter(|carried| carried.start == start);
    Some(again.copied().unwrap_or_else(|| CarriedUsage {
        start,
        end: component.reset_interval.map(|interval| subscription.calendar.boundary_after(interval, instant)),
        full: running.full,
    }))
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
        Some(interval) => subscription.calendar.tiles(interval, &subscription.period),
        None if subscription.period.is_empty() => Vec::new(),
        None => vec![Tile { period: subscription.period, full: subscription.full }],
    }
}

/// The reset intervals of a component: first the one that runs on from a subscription that was replaced, then what the
/// component's own intervals leave behind its end.
fn component_tiles(component: &Component, subscription: &Subscription) -> Vec<Tile> {
    let tiles = reset_tiles(component.reset_interval, subscription);
    let Some(carried) = subscription.carried_usage.get(&component.metric) else { return tiles };
    let carried = carried.within(&subscription.period);
    let end = carried.period.end();
    let behind = tiles.into_iter().filter(|tile| tile.period.end() > end).filter_map(|tile| {
        let period = Period::new(tile.period.start().max(end), tile.period.end()).ok()?;
        Some(Tile { period, full: tile.full })
    });
    std::iter::once(carried).chain(behind).collect()
}

/// From one invoice of a subscription to the next, around an instant: of a period that is invoiced as a whole, all of it. A switch
/// goes on with what runs.
pub fn invoicing_span_at(
    version: &PlanVersion,
    subscription: &Subscription,
    instant: OffsetDateTime,
) -> (OffsetDateTime, OffsetDateTime) {
    let of_fees = version.recurring_charges.iter().filter_map(|charge| match charge.timing {
        ChargeTiming::InAdvance => charge.invoicing_interval.or(charge.reset_interval),
        _ => charge.invoicing_interval,
    });
    let of_usage = version.components.iter().filter_map(|component| component.invoicing_interval);
    let (mut from, mut to) = (subscription.full.start(), subscription.period.end());
    for interval in of_fees.chain(of_usage) {
        for tile in subscription.calendar.tiles(interval, &subscription.full) {
            let at = tile.period.end();
            if at <= instant { from = from.max(at) } else { to = to.min(at) }
        }
    }
    (from, to)
}

/// The subscription's start, each interval's end inside the period, and the period's end.
fn invoicing_instants(interval: Option<Interval>, subscription: &Subscription) -> Vec<OffsetDateTime> {
    let period = &subscription.period;
    let ends = match interval {
        Some(interval) => {
            let tiles = subscription.calendar.tiles(interval, period);
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
