use billing_domain::decimal::plain;
use billing_domain::tier::{Tier, TierPrice, TierSchedule};

use super::{number, table};

const GRADUATED: &str = "| tiers | quantity | price |";
const BULK: &str = "| bulk tiers | quantity | price |";
const BAD: &str = "| bad tiers | faults |";
pub const TABLES: [&str; 3] = [GRADUATED, BULK, BAD];

/// `start-end free`, `start-end flat 5`, `start- 5/100 round_up`.
fn tier(text: &str) -> Tier {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (start, end) = words[0].split_once('-').unwrap_or_else(|| panic!("{text} has no range"));
    let price = match words[1] {
        "free" => TierPrice::Free,
        "flat" => TierPrice::Flat { cost: number(words[2]) },
        batch => {
            let (cost, units) = batch.split_once('/').unwrap_or_else(|| panic!("{text} has no price"));
            let batch_rounding = words.get(2).map(|word| word.parse().expect("a rounding"));
            TierPrice::PerUnit { cost_per_batch: number(cost), metric_units_per_batch: number(units), batch_rounding }
        }
    };
    Tier { range_start: number(start), range_end: (!end.is_empty()).then(|| number(end)), price }
}

fn tiers(text: &str) -> Vec<Tier> {
    text.split(';').map(tier).collect()
}

pub fn schedule(text: &str, bulk: bool) -> TierSchedule {
    TierSchedule::new(tiers(text), bulk).expect("valid tiers")
}

#[test]
fn tiers_price_quantities() {
    for (heading, bulk) in [(GRADUATED, false), (BULK, true)] {
        for row in table(heading) {
            let price = schedule(&row[0], bulk).rate(&number(&row[1])).amount;
            assert_eq!(plain(&price), row[2], "{row:?}");
        }
    }
}

#[test]
fn bad_tiers_are_refused() {
    for row in table(BAD) {
        let faults = TierSchedule::new(tiers(&row[0]), false).expect_err("faults");
        let faults: Vec<String> =
            faults.iter().map(|fault| format!("{} {} {}", fault.tier, fault.field, fault.code)).collect();
        assert_eq!(faults.join("; "), row[1], "{row:?}");
    }
}
