//! What holds for every schedule and every quantity.

use bigdecimal::{One, Signed, Zero};
use proptest::prelude::*;

use super::*;
use crate::decimal::tests::{any_number, any_quantity, laws};

fn schedule(tiers: &[Tier]) -> TierSchedule {
    TierSchedule::new(tiers.to_vec(), false).expect("a valid schedule")
}

fn any_price() -> impl Strategy<Value = TierPrice> {
    let rounding = prop::option::of(prop::sample::select(BatchRounding::ALL.to_vec()));
    prop_oneof![
        Just(TierPrice::Free),
        any_quantity().prop_map(|cost| TierPrice::Flat { cost }),
        (any_quantity(), 1..1_000_i64, 0..3_i64, rounding).prop_map(
            |(cost_per_batch, units, scale, batch_rounding)| {
                let metric_units_per_batch = BigDecimal::new(units.into(), scale);
                TierPrice::PerUnit { cost_per_batch, metric_units_per_batch, batch_rounding }
            }
        ),
    ]
}

fn any_tiers() -> impl Strategy<Value = Vec<Tier>> {
    // Widths, prices, whether ranges are written as integers, whether the last one is open.
    let tier = (1..10_000_i64, any_price(), any::<bool>());
    (prop::collection::vec(tier, 1..5), any::<bool>()).prop_map(|(parts, open)| {
        let last = parts.len() - 1;
        let mut edge = 0;
        let mut tiers = Vec::new();
        for (index, (width, price, integer_range)) in parts.into_iter().enumerate() {
            let start = if index > 0 && integer_range { edge + 1 } else { edge };
            edge += width;
            let range_end = (index != last || !open).then(|| BigDecimal::from(edge));
            tiers.push(Tier { range_start: BigDecimal::from(start), range_end, price });
        }
        tiers
    })
}

fn any_usage() -> impl Strategy<Value = BigDecimal> {
    prop_oneof![
        (0..60_000_i64).prop_map(BigDecimal::from),
        (0..60_000_000_i64).prop_map(|n| BigDecimal::new(n.into(), 3)),
        any_quantity()
    ]
}

/// A second opinion: the price of each tier from its own edges, not by walking.
fn oracle(tiers: &[Tier], quantity: &BigDecimal) -> BigDecimal {
    let mut total = BigDecimal::zero();
    for (index, tier) in tiers.iter().enumerate() {
        let edge = index.checked_sub(1).and_then(|before| tiers[before].range_end.clone()).unwrap_or_default();
        let entered = index == 0 || *quantity > edge;
        let above = quantity - &edge;
        let width = tier.range_end.as_ref().map_or(above.clone(), |end| end - &edge);
        let inside = above.min(width).max(BigDecimal::zero());
        total += match &tier.price {
            TierPrice::Flat { cost } if entered => cost.clone(),
            TierPrice::PerUnit { cost_per_batch, metric_units_per_batch, batch_rounding } => {
                let up = BigDecimal::one() / 2;
                let batches = &inside / metric_units_per_batch;
                let floor = |value: BigDecimal| value.with_scale_round(0, bigdecimal::RoundingMode::Floor);
                cost_per_batch
                    * match batch_rounding {
                        None | Some(BatchRounding::NoRounding) => batches,
                        Some(BatchRounding::RoundDown) => floor(batches),
                        Some(BatchRounding::RoundUp) => -floor(-batches),
                        Some(BatchRounding::RoundNearest) => floor(batches + up),
                    }
            }
            TierPrice::Flat { .. } | TierPrice::Free => BigDecimal::zero(),
        };
    }
    total
}

fn close(left: &BigDecimal, right: &BigDecimal) -> bool {
    (left - right).abs() <= BigDecimal::new(1.into(), 40)
}

proptest! {
    #![proptest_config(laws())]

    #[test]
    fn the_walk_agrees_with_a_second_opinion(tiers in any_tiers(), usage in any_usage()) {
        let amount = schedule(&tiers).rate(&usage).amount;
        let expected = oracle(&tiers, &usage);
        prop_assert!(close(&amount, &expected), "{} is not {}", amount, expected);
    }

    #[test]
    fn more_usage_never_costs_less(tiers in any_tiers(), one in any_usage(), other in any_usage()) {
        let schedule = schedule(&tiers);
        let (less, more) = if one < other { (one, other) } else { (other, one) };
        let (cheaper, dearer) = (schedule.rate(&less).amount, schedule.rate(&more).amount);
        prop_assert!(cheaper <= dearer, "{} costs {}, {} costs {}", less, cheaper, more, dearer);
    }

    #[test]
    fn a_walk_accounts_for_every_unit_and_explains_itself(tiers in any_tiers(), usage in any_usage(), is_bulk in any::<bool>()) {
        let schedule = TierSchedule::new(tiers, is_bulk).expect("a valid schedule");
        let rating = schedule.rate(&usage);
        let priced: BigDecimal = rating.walk.iter().map(|step| &step.quantity).sum();
        prop_assert_eq!(priced, schedule.total_limit().map_or(usage.clone(), |limit| limit.min(usage)));
        prop_assert_eq!(rating.walk.iter().map(|step| &step.amount).sum::<BigDecimal>(), rating.amount.clone());
        for step in &rating.walk {
            prop_assert_eq!(step.recomputed(), step.amount.clone());
        }
        let json = serde_json::to_string(&rating).expect("json");
        prop_assert_eq!(serde_json::from_str::<Rating>(&json).expect("read back"), rating);
    }

    #[test]
    fn unit_prices_are_continuous_at_every_edge(tiers in any_tiers()) {
        let linear: Vec<Tier> = tiers
            .into_iter()
            .map(|mut tier| {
                if let TierPrice::PerUnit { batch_rounding, .. } = &mut tier.price {
                    *batch_rounding = None;
                } else {
                    tier.price = TierPrice::Free;
                }
                tier
            })
            .collect();
        let schedule = schedule(&linear);
        let step = BigDecimal::new(1.into(), 15);
        for edge in linear.iter().filter_map(|tier| tier.range_end.clone()) {
            // Within 1e-15 of an edge the price moves by that much of the dearer unit price at most.
            let dearest = linear.iter().filter_map(|tier| match &tier.price {
                TierPrice::PerUnit { cost_per_batch, metric_units_per_batch, .. } => Some(cost_per_batch / metric_units_per_batch),
                _ => None,
            }).max().unwrap_or_default();
            let moved = schedule.rate(&(&edge + &step)).amount - schedule.rate(&(&edge - &step)).amount;
            prop_assert!(moved <= dearest.double() * &step + BigDecimal::new(1.into(), 40));
        }
    }

    #[test]
    fn integer_ranges_price_like_touching_ones(tiers in any_tiers(), usage in any_usage(), is_bulk in any::<bool>()) {
        let mut touching = tiers.clone();
        for index in 1..touching.len() {
            touching[index].range_start = touching[index - 1].range_end.clone().expect("only the last is open");
        }
        let price = |tiers: Vec<Tier>| TierSchedule::new(tiers, is_bulk).expect("a valid schedule").rate(&usage).amount;
        prop_assert_eq!(price(tiers), price(touching));
    }

    #[test]
    fn bulk_is_the_price_of_one_tier_alone(tiers in any_tiers(), usage in any_usage()) {
        let rating = TierSchedule::new(tiers.clone(), true).expect("a valid schedule").rate(&usage);
        prop_assert_eq!(rating.walk.len(), 1);
        let mut alone = tiers[rating.walk[0].tier].clone();
        (alone.range_start, alone.range_end) = (BigDecimal::zero(), None);
        let limit = tiers.last().and_then(|tier| tier.range_end.clone());
        let usage = limit.map_or(usage.clone(), |limit| limit.min(usage));
        prop_assert_eq!(rating.amount, schedule(&[alone]).rate(&usage).amount);
    }

    #[test]
    fn no_list_of_tiers_is_too_strange(
        parts in prop::collection::vec((any_number(), prop::option::of(any_number()), any_price()), 0..5),
        usage in any_number(),
        is_bulk in any::<bool>(),
    ) {
        let tiers = parts.into_iter().map(|(range_start, range_end, price)| Tier { range_start, range_end, price }).collect();
        match TierSchedule::new(tiers, is_bulk) {
            Ok(schedule) => prop_assert!(!schedule.rate(&usage).amount.is_negative()),
            Err(faults) => prop_assert!(!faults.is_empty()),
        }
    }
}
