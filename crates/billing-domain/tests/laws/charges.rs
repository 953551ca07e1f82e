//! One charge, billed at any instants and changed in any order.

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, Zero};
use billing_domain::charge::{Billed, BillingRecord, ChargeRef, Charged, Prepaid};
use billing_domain::metric::Metric;
use billing_domain::period::Period;
use billing_domain::plan::{ChargeBehavior, ChargeTiming, Component, PrepaidCharge, RecurringCharge};
use billing_domain::subscription::{Subscription, SubscriptionFilters};
use billing_domain::testing::build::{self, Ids};
use billing_domain::tier::TierSchedule;
use billing_domain::usage::Usage;
use proptest::prelude::*;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::exact::Ratio;
use crate::laws;
use crate::recompute::{in_minor_units, portion};
use crate::values::{any_amount, any_quantity, any_schedule};

const START: OffsetDateTime = datetime!(2026-01-01 0:00 UTC);
const MONTH_US: i64 = 31 * 24 * 3_600 * 1_000_000;

fn at(microseconds: i64) -> OffsetDateTime {
    START + Duration::microseconds(microseconds)
}

fn span(from: i64, to: i64) -> Period {
    Period::new(at(from), at(to)).expect("time goes on")
}

/// Instants within a month, in order; some at the very same microsecond or at the ends.
fn any_cuts() -> impl Strategy<Value = Vec<i64>> {
    let cut = prop_oneof![8 => 0..=MONTH_US, 1 => Just(0), 1 => Just(MONTH_US)];
    prop::collection::vec(cut, 0..5).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts
    })
}

/// A record over a part of a month that starts with it, and what it takes to bill it.
struct Charging {
    subscription: Subscription,
    fee: RecurringCharge,
    component: Component,
    metric: Metric,
    record: BillingRecord,
}

impl Charging {
    fn new(end: i64) -> Self {
        let mut ids = Ids::new(1);
        let metric = build::count_metric(&mut ids, "call", START);
        let component = build::component(&mut ids, metric.id);
        let fee = build::recurring_charge(&mut ids, "base");
        let plan = build::plan(&mut ids, "Pro", START);
        let version = build::plan_version(&mut ids, &plan, START);
        let customer = build::customer(ids.next(), "acme", START).key;
        let mut subscription = build::subscription(&mut ids, customer, &version, span(0, MONTH_US));
        subscription.period = span(0, end);
        let record = build::billing_record(&mut ids, &subscription, ChargeRef::Recurring(fee.id));
        Self { subscription, fee, component, metric, record }
    }

    fn metered(end: i64, tiers: TierSchedule, prepaid: Option<ChargeBehavior>) -> Self {
        let mut charging = Self::new(end);
        charging.record.charge = ChargeRef::Component(charging.component.id);
        charging.component.tiers = tiers;
        charging.component.prepaid_charge = prepaid.map(|behavior| PrepaidCharge { units: None, behavior });
        charging.record.prepaid = prepaid.map(|_| Prepaid { segments: Vec::new(), billed: Billed::default() });
        charging
    }

    fn bill_fee(&mut self, at: OffsetDateTime, decimals: u8) -> BigDecimal {
        given(self.record.charge_recurring(&self.fee, &self.subscription, decimals, at), decimals)
    }

    fn bill_usage(&mut self, quantity: &BigDecimal, at: OffsetDateTime, decimals: u8) -> Charged {
        let usage = Usage { quantity: quantity.clone(), event_count: 1 }.seen_to(1);
        let filters = SubscriptionFilters::none();
        let charged = self.record.charge_usage(&self.component, &self.metric, &filters, &usage, decimals, at);
        given(Some(charged.clone()), decimals);
        charged
    }

    /// Has other units prepaid from an instant on, and bills that.
    fn change_units(&mut self, (units, from): &(BigDecimal, i64), decimals: u8) -> BigDecimal {
        self.record.change_prepaid_units(units, at(*from));
        let filters = SubscriptionFilters::none();
        given(self.record.charge_prepaid(&self.component, &self.metric, &filters, decimals), decimals)
    }
}

/// The amount of a line, which its trace must explain.
fn given(charged: Option<Charged>, decimals: u8) -> BigDecimal {
    let Some(charged) = charged else { return BigDecimal::zero() };
    let explained = portion(&charged.trace).expect("a charge");
    assert_eq!(in_minor_units(&charged.amount, decimals), explained, "{:?}", charged.trace);
    charged.amount
}

fn ratio(number: &BigDecimal) -> Ratio {
    Ratio::read(&serde_json::from_str(&billing_domain::decimal::plain(number)).expect("a number"))
}

fn part(length: i64) -> Ratio {
    Ratio::whole(length) / Ratio::whole(MONTH_US)
}

/// Prepaid units one after the other: how many, and from when on.
fn any_changes() -> impl Strategy<Value = Vec<(BigDecimal, i64)>> {
    // Few different numbers, so that a change back is frequent.
    let units =
        prop_oneof![3 => prop::sample::select(vec![0_i64, 10, 25]).prop_map(BigDecimal::from), 1 => any_quantity()];
    (prop::collection::vec(units, 1..5), prop::collection::vec(0..MONTH_US, 4)).prop_map(|(units, mut from)| {
        from.truncate(units.len());
        from[0] = 0;
        from.sort_unstable();
        units.into_iter().zip(from).collect()
    })
}

/// What the time up to `until` costs with these changes, by the numbers of units and not by the changes: all the time
/// with one number is taken together.
fn price_of_time(tiers: &TierSchedule, changes: &[(BigDecimal, i64)], until: i64) -> Ratio {
    let mut lengths: Vec<(&BigDecimal, i64)> = Vec::new();
    for (index, (units, from)) in changes.iter().enumerate() {
        let to = changes.get(index + 1).map_or(until, |(_, next)| *next).min(until);
        let length = (to - from).max(0);
        match lengths.iter_mut().find(|(other, _)| *other == units) {
            Some((_, sum)) => *sum += length,
            None => lengths.push((units, length)),
        }
    }
    let prices = lengths.into_iter().map(|(units, length)| ratio(&tiers.rate(units).amount) * part(length));
    prices.fold(Ratio::whole(0), |sum, price| sum + price)
}

proptest! {
    #![proptest_config(laws())]

    #[test]
    fn parts_of_a_fee_sum_to_the_whole(
        amount in any_amount(),
        copies in 1..4_u32,
        end in 0..=MONTH_US,
        cuts in any_cuts(),
        is_full in any::<bool>(),
        in_advance in any::<bool>(),
        decimals in 0..=3_u8,
    ) {
        let mut charging = Charging::new(end);
        charging.subscription.quantity = copies;
        charging.fee.amount = amount.clone();
        charging.fee.behavior = if is_full { ChargeBehavior::Full } else { ChargeBehavior::Prorate };
        charging.fee.timing = if in_advance { ChargeTiming::InAdvance } else { ChargeTiming::InArrears };
        let mut sum = BigDecimal::zero();
        for cut in cuts.into_iter().chain([end, MONTH_US]) {
            sum += charging.bill_fee(at(cut), decimals);
        }
        let whole = ratio(&amount) * Ratio::whole(copies);
        let exact = if is_full && end > 0 { whole } else { whole * part(end) };
        prop_assert_eq!(in_minor_units(&sum, decimals), exact.rounded(decimals.into()));
        prop_assert_eq!(sum, charging.record.billed.given);
    }

    #[test]
    fn parts_of_usage_sum_to_the_whole(
        tiers in any_schedule(),
        prepaid in prop::option::of(any_quantity()),
        used in prop::collection::vec(any_quantity(), 1..5),
        cuts in any_cuts(),
        decimals in 0..=3_u8,
    ) {
        let mut charging = Charging::metered(MONTH_US, tiers.clone(), prepaid.as_ref().map(|_| ChargeBehavior::Full));
        let mut prepaid_amount = Ratio::whole(0);
        if let Some(units) = prepaid {
            prepaid_amount = ratio(&tiers.rate(&units).amount);
            charging.change_units(&(units, 0), decimals);
        }
        let (mut sum, mut quantities) = (BigDecimal::zero(), BigDecimal::zero());
        // Usage can fall too: events may be negative.
        for (cut, quantity) in cuts.into_iter().chain([MONTH_US; 5]).zip(&used) {
            let charged = charging.bill_usage(quantity, at(cut), decimals);
            sum += charged.amount;
            quantities += charged.quantity.expect("usage has a quantity");
        }
        let last = used.last().expect("at least one");
        let exact = (ratio(&tiers.rate(last).amount) - prepaid_amount).at_least_zero();
        prop_assert_eq!(in_minor_units(&sum, decimals), exact.rounded(decimals.into()));
        prop_assert_eq!(&quantities, last);
    }

    #[test]
    fn changes_of_prepaid_units_net_to_the_time_with_each_and_refund_no_more_than_was_paid_for_it(
        tiers in any_schedule(),
        changes in any_changes(),
        is_full in any::<bool>(),
        decimals in 0..=3_u8,
    ) {
        let behavior = if is_full { ChargeBehavior::Full } else { ChargeBehavior::Prorate };
        let mut charging = Charging::metered(MONTH_US, tiers.clone(), Some(behavior));
        let mut paid = BigInt::zero();
        for count in 1..=changes.len() {
            let line = in_minor_units(&charging.change_units(&changes[count - 1], decimals), decimals);
            let (units, from) = &changes[count - 1];
            if !is_full {
                let time_gone_by = price_of_time(&tiers, &changes[..count - 1], *from).rounded(decimals.into());
                prop_assert!(-&line <= &paid - &time_gone_by, "{} back of {}, {} for time gone by", line, paid, time_gone_by);
            }
            paid += line;
            // The price telescopes: what was given is the price of what stands now, however it came to stand.
            let exact = if is_full {
                ratio(&tiers.rate(units).amount)
            } else {
                price_of_time(&tiers, &changes[..count], MONTH_US)
            };
            prop_assert_eq!(&paid, &exact.rounded(decimals.into()));
        }
    }

    #[test]
    fn a_fee_taken_back_is_what_was_paid_for_the_time_not_used(
        amount in any_amount(),
        cut in 0..=MONTH_US,
        decimals in 0..=3_u8,
    ) {
        let mut charging = Charging::new(MONTH_US);
        charging.fee.amount = amount.clone();
        let paid = charging.bill_fee(START, decimals);
        charging.record.period = span(0, cut);
        let refund = charging.bill_fee(at(cut), decimals);
        let used = (ratio(&amount) * part(cut)).rounded(decimals.into());
        prop_assert!(refund <= BigDecimal::zero() && -&refund <= paid);
        prop_assert_eq!(in_minor_units(&(paid + refund), decimals), used);
    }

    #[test]
    fn a_change_and_the_change_back_at_once_cost_nothing(
        tiers in any_schedule(),
        changes in any_changes(),
        others in prop::collection::vec(any_quantity(), 1..3),
        decimals in 0..=3_u8,
    ) {
        let mut charging = Charging::metered(MONTH_US, tiers, Some(ChargeBehavior::Prorate));
        for change in &changes {
            charging.change_units(change, decimals);
        }
        let (units, from) = changes.last().expect("at least one").clone();
        let changes = others.into_iter().chain([units]).map(|units| charging.change_units(&(units, from), decimals));
        let sum: BigDecimal = changes.sum();
        prop_assert_eq!(sum, BigDecimal::zero());
    }
}
