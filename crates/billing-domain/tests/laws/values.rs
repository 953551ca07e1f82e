//! Random prices and quantities.

use bigdecimal::BigDecimal;
use billing_domain::tier::{BatchRounding, Tier, TierPrice, TierSchedule};
use proptest::prelude::*;

/// 0 to a million, mostly with a few decimals; some are about a minor unit, where rounding decides.
pub fn any_amount() -> impl Strategy<Value = BigDecimal> {
    prop_oneof![
        8 => (0..10_000_i64, 0..3_i64),
        1 => (0..200_i64, 2..=4_i64),
        1 => (0..1_000_000_000_i64, 3..=15_i64),
    ]
    .prop_map(|(digits, scale)| BigDecimal::new(digits.into(), scale))
}

pub fn any_quantity() -> impl Strategy<Value = BigDecimal> {
    prop_oneof![
        8 => (0..3_000_i64, Just(0_i64)),
        1 => (0..20_i64, Just(0_i64)),
        1 => (0..3_000_000_i64, 1..=3_i64),
    ]
    .prop_map(|(digits, scale)| BigDecimal::new(digits.into(), scale))
}

fn any_price() -> impl Strategy<Value = TierPrice> {
    let rounding = prop::option::of(prop::sample::select(BatchRounding::ALL.to_vec()));
    prop_oneof![
        1 => Just(TierPrice::Free),
        1 => any_amount().prop_map(|cost| TierPrice::Flat { cost }),
        3 => (any_amount(), 1..200_i64, 0..2_i64, rounding).prop_map(|(cost_per_batch, units, scale, batch_rounding)| {
            TierPrice::PerUnit { cost_per_batch, metric_units_per_batch: BigDecimal::new(units.into(), scale), batch_rounding }
        }),
    ]
}

/// One to three tiers, the last one open or not, in bulk or not.
pub fn any_schedule() -> impl Strategy<Value = TierSchedule> {
    (prop::collection::vec((1..500_i64, any_price()), 1..=3), any::<bool>(), any::<bool>()).prop_map(
        |(parts, open, bulk)| {
            let (last, mut edge) = (parts.len() - 1, 0);
            let tiers = parts.into_iter().enumerate().map(|(index, (width, price))| {
                let range_start = BigDecimal::from(edge);
                edge += width;
                let range_end = (index != last || !open).then(|| BigDecimal::from(edge));
                Tier { range_start, range_end, price }
            });
            TierSchedule::new(tiers.collect(), bulk).expect("tiers that fit together")
        },
    )
}
