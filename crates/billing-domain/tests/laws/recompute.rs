//! The amount of a line from its trace alone, as anybody could compute it from the JSON they are given.

use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::{BigInt, Sign};
use billing_domain::invoice::{LineItem, Trace};
use serde_json::Value;

use crate::exact::Ratio;

fn read(json: &Value, name: &str) -> Ratio {
    Ratio::read(&json[name])
}

fn read_or_zero(json: &Value, name: &str) -> Ratio {
    json.get(name).map_or(Ratio::whole(0), Ratio::read)
}

fn step(step: &Value) -> Ratio {
    let batches = read(step, "quantity") / read(step, "metric_units_per_batch");
    let half = Ratio::whole(1) / Ratio::whole(2);
    let cost = read(step, "cost_per_batch");
    match step["kind"].as_str() {
        Some("free") => Ratio::whole(0),
        Some("flat") => cost,
        Some("per_unit") => match step["batch_rounding"].as_str() {
            Some("round_up") => cost * batches.ceiling(),
            Some("round_down") => cost * batches.floor(),
            Some("round_nearest") => cost * (batches + half).floor(),
            None | Some("no_rounding") => cost * batches,
            Some(other) => panic!("{other} is not a rounding"),
        },
        other => panic!("{other:?} is not a kind of step"),
    }
}

fn sum(parts: impl Iterator<Item = Ratio>) -> Ratio {
    parts.fold(Ratio::whole(0), |sum, part| sum + part)
}

fn rating(rating: &Value) -> Ratio {
    sum(rating["walk"].as_array().expect("a walk").iter().map(step))
}

fn fraction(fraction: &Value) -> Ratio {
    read(fraction, "numerator") / read(fraction, "denominator")
}

/// What the charge comes to so far; `None` for a line that is not a charge.
pub fn exact(trace: &Value) -> Option<Ratio> {
    match trace["kind"].as_str()? {
        "recurring_charge" => {
            let whole = read(trace, "unit_amount") * read(trace, "quantity");
            let said = trace["flat_fee_behavior"].as_str();
            let never_began = trace["window"]["start"] == trace["window"]["end"];
            let is_full = trace["charge_behavior"] == "full" && said != Some("charge_prorated");
            Some(match said {
                Some("refund") => Ratio::whole(0),
                _ if never_began => Ratio::whole(0),
                _ if is_full => (whole - read_or_zero(trace, "charged_before_switch")).at_least_zero(),
                _ => whole * fraction(&trace["fraction"]),
            })
        }
        "usage_handed_on" => Some(Ratio::whole(0)),
        "usage_charge" => Some((rating(&trace["rating"]) - read(trace, "prepaid_amount")).at_least_zero()),
        "prepaid_usage_charge" => {
            let is_full = trace["charge_behavior"] == "full";
            let segments = trace["segments"].as_array().expect("segments").iter();
            Some(sum(segments.map(|segment| {
                let whole = rating(&segment["rating"]);
                if is_full { whole } else { whole * fraction(&segment["fraction"]) }
            })))
        }
        _ => None,
    }
}

/// What the line gives, in minor units.
pub fn portion(trace: &Trace) -> Option<BigInt> {
    let trace = serde_json::to_value(trace).expect("json");
    let rounding = &trace["rounding"];
    let decimals = usize::try_from(rounding["decimals"].as_u64()?).expect("a few");
    Some(above_forgiven(&exact(&trace)?, rounding, decimals) - minor(&rounding["given_before"], decimals))
}

/// What was given comes to, rounded: not less than voided invoices forgave.
fn above_forgiven(exact: &Ratio, rounding: &Value, decimals: usize) -> BigInt {
    let rounded = exact.clone().rounded(decimals);
    match rounding.get("forgiven") {
        Some(forgiven) => rounded.max(minor(forgiven, decimals)),
        None => rounded,
    }
}

/// A whole amount in minor units.
fn minor(json: &Value, decimals: usize) -> BigInt {
    Ratio::read(json).rounded(decimals)
}

pub fn in_minor_units(amount: &BigDecimal, decimals: u8) -> BigInt {
    let (digits, scale) = amount.with_scale(i64::from(decimals)).into_bigint_and_exponent();
    assert_eq!(BigDecimal::new(digits.clone(), scale), *amount, "the amount is in whole minor units");
    digits
}

/// Holds a line to its trace: base, tax, and what they add up to.
pub fn check(line: &LineItem, decimals: u8) {
    if let Some(portion) = portion(&line.trace) {
        assert_eq!(in_minor_units(&line.base, decimals), portion, "{:?}", line.trace);
    }
    let mut amount = in_minor_units(&line.base, decimals);
    let (mut before_tax, mut taxable) = (amount.clone(), Vec::new());
    for adjustment in &line.adjustments {
        let part = in_minor_units(&adjustment.amount, decimals);
        let basis = serde_json::to_value(&adjustment.basis).expect("json");
        if basis["kind"] == "sales_tax" {
            taxable.push(Ratio::read(&basis["taxable"]).rounded(decimals.into()));
            let exact = Ratio::read(&basis["rounding"]["exact_so_far"]);
            let before = minor(&basis["rounding"]["given_before"], decimals.into());
            assert_eq!(part, above_forgiven(&exact, &basis["rounding"], decimals.into()) - before, "{basis}");
        } else {
            before_tax += &part;
        }
        amount += part;
    }
    if before_tax >= BigInt::from(0) && line.base.sign() != Sign::Minus && !taxable.is_empty() {
        assert_eq!(taxable.iter().sum::<BigInt>(), before_tax, "tax is on all before it");
    }
    assert_eq!(in_minor_units(&line.amount, decimals), amount, "base and adjustments are the amount");
}
