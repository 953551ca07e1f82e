//! The records of a subscription: one for each charge and reset interval, with its invoicing instants.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{Billed, BillingRecord, ChargeRef, Prepaid, PrepaidSegment};
use crate::error::Refusal;
use crate::period::{Interval, Period, Tile};
use crate::plan::{ChargeTiming, Component, PlanVersion};
use crate::subscription::Subscription;

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
