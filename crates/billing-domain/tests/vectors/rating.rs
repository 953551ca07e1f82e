//! Tiers, packages and blocks.

use billing_domain::BigDecimal;
use billing_domain::decimal::plain;
use billing_domain::tier::{BatchRounding, Rating, Tier, TierPrice, TierSchedule};
use serde_json::Value;

use crate::made;
use crate::vector::{Outcome, Vector, number, shown_numbers};

const FLAT_AND_UNIT: &str = "a tier has a flat price or a unit price, not both";
const CAP: &str = "a tier has no cap";

fn tier(start: &BigDecimal, end: Option<BigDecimal>, price: TierPrice) -> Tier {
    Tier { range_start: start.clone(), range_end: end, price }
}

fn batches(cost: BigDecimal, units: BigDecimal, rounding: BatchRounding) -> TierPrice {
    TierPrice::PerUnit { cost_per_batch: cost, metric_units_per_batch: units, batch_rounding: Some(rounding) }
}

fn schedule(tiers: Vec<Tier>, bulk: bool) -> TierSchedule {
    TierSchedule::new(tiers, bulk).expect("the vector's tiers are valid")
}

/// Tiers of the form `to`, `unit`, `flat`.
fn tiers(vector: &Vector) -> Result<Vec<Tier>, &'static str> {
    let rows = vector.list("tiers");
    let (mut start, mut tiers) = (BigDecimal::from(0), Vec::new());
    for row in rows {
        if !row["cap"].is_null() {
            return Err(CAP);
        }
        let (unit, flat) = (number(&row["unit"]), number(&row["flat"]));
        let end = (!row["to"].is_null()).then(|| number(&row["to"]));
        let zero = BigDecimal::from(0);
        let price = match (unit == zero, flat == zero) {
            (false, false) if rows.len() == 1 && end.is_none() => {
                // A flat price at zero usage and a unit price from there: the same as both in one.
                tiers.push(tier(&zero, Some(zero.clone()), TierPrice::Flat { cost: flat }));
                batches(unit, 1.into(), BatchRounding::NoRounding)
            }
            (false, false) => return Err(FLAT_AND_UNIT),
            (true, true) => TierPrice::Free,
            (true, false) => TierPrice::Flat { cost: flat },
            (false, true) => batches(unit, 1.into(), BatchRounding::NoRounding),
        };
        tiers.push(tier(&start, end.clone(), price));
        start = end.unwrap_or_default();
    }
    Ok(tiers)
}

fn amount(rating: &Rating) -> String {
    plain(&rating.amount)
}

pub fn rate(vector: &Vector) -> Outcome {
    let rating = schedule(tiers(vector)?, vector.text("mode") == "volume").rate(&vector.number("quantity"));
    let lines: Vec<Value> =
        rating.walk.iter().map(|step| line(vector, step.tier, &step.quantity, &step.amount)).collect();
    made! {
        "amount": amount(&rating),
        "per_tier": shown_numbers(rating.walk.iter().map(|step| &step.amount)),
        "lines": lines,
    }
}

/// A step of the walk in the form that one source asserts it in: tiers from 1, kinds by their price.
fn line(vector: &Vector, tier: usize, quantity: &BigDecimal, amount: &BigDecimal) -> Value {
    let row = &vector.list("tiers")[tier.min(vector.list("tiers").len() - 1)];
    let mut line = serde_json::json!({"tier": tier + 1, "kind": "flat", "amount": plain(amount)});
    if number(&row["unit"]) != 0 {
        line["kind"] = "unit".into();
        line["quantity"] = plain(quantity).into();
    }
    line
}

pub fn rate_buckets(vector: &Vector) -> Outcome {
    let schedule = schedule(tiers(vector)?, false);
    let sum: BigDecimal =
        vector.numbers("bucket_quantities").iter().map(|quantity| schedule.rate(quantity).amount).sum();
    made! { "amount": plain(&sum) }
}

fn rounding(vector: &Vector) -> BatchRounding {
    vector.inputs["rounding"].as_str().unwrap_or("round_up").parse().expect("a rounding")
}

/// A free tier where there are free units, then packages as batches.
fn packages(vector: &Vector) -> TierSchedule {
    let free = if vector.has("free_units") { vector.number("free_units") } else { 0.into() };
    let price = batches(vector.number("package_price"), vector.number("package_size"), rounding(vector));
    let paid = tier(&free, None, price);
    if free == 0 {
        return schedule(vec![paid], false);
    }
    schedule(vec![tier(&0.into(), Some(free.clone()), TierPrice::Free), paid], false)
}

pub fn rate_package(vector: &Vector) -> Outcome {
    made! { "amount": amount(&packages(vector).rate(&vector.number("quantity"))) }
}

pub fn rate_package_delta(vector: &Vector) -> Outcome {
    let before = vector.number("already_billed_quantity");
    let all = &before + vector.number("quantity_in_line");
    let (before, all) = (packages(vector).rate(&before), packages(vector).rate(&all));
    let count = |rating: &Rating| rating.walk[0].batches.clone().expect("per unit");
    made! { "amount": plain(&(&all.amount - &before.amount)), "packages": plain(&(count(&all) - count(&before))) }
}

pub fn package_count(vector: &Vector) -> Outcome {
    made! { "packages": plain(&rounding(vector).batches(&vector.number("quantity"), &vector.number("package_size"))) }
}

/// Blocks are batches, rounded up inside their tier; `top_tier` is bulk.
fn blocks(vector: &Vector) -> TierSchedule {
    let (mut start, mut tiers) = (BigDecimal::from(0), Vec::new());
    for row in vector.list("tiers") {
        let size = number(&row["block_size"]);
        let end = &start + &size * number(&row["max_blocks"]);
        let price = batches(number(&row["price"]), size, BatchRounding::RoundUp);
        tiers.push(tier(&start, Some(end.clone()), price));
        start = end;
    }
    schedule(tiers, vector.text("policy") == "top_tier")
}

pub fn rate_blocks(vector: &Vector) -> Outcome {
    let rating = blocks(vector).rate(&vector.number("quantity"));
    made! { "amount": amount(&rating), "per_tier": shown_numbers(rating.walk.iter().map(|step| &step.amount)) }
}

pub fn rate_blocks_delta(vector: &Vector) -> Outcome {
    let quantity: BigDecimal = vector.numbers("quantities").iter().sum();
    let due = blocks(vector).rate(&quantity).amount - vector.number("already_invoiced");
    made! { "amount_due": plain(&due) }
}

/// Tiers in the field names of the API.
pub fn api_tiers(vector: &Vector, bulk: bool) -> TierSchedule {
    let price = |row: &Value| match row["type"].as_str() {
        Some("free") => TierPrice::Free,
        Some("flat") => TierPrice::Flat { cost: number(&row["cost_per_batch"]) },
        _ => batches(number(&row["cost_per_batch"]), number(&row["metric_units_per_batch"]), BatchRounding::NoRounding),
    };
    let end = |row: &Value| (!row["range_end"].is_null()).then(|| number(&row["range_end"]));
    let rows = vector.list("tiers").iter();
    schedule(rows.map(|row| tier(&number(&row["range_start"]), end(row), price(row))).collect(), bulk)
}

pub fn rate_spec_tiers(vector: &Vector) -> Outcome {
    let bulk = vector.inputs["bulk"].as_bool().expect("true or false");
    made! { "amount": amount(&api_tiers(vector, bulk).rate(&vector.number("quantity"))) }
}

/// Free units are a free tier; what the walk prices behind it is billable.
pub fn usage_discount(vector: &Vector) -> Outcome {
    let free = vector.number("free_quantity");
    let paid = tier(&free, None, batches(1.into(), 1.into(), BatchRounding::NoRounding));
    let schedule = schedule(vec![tier(&0.into(), Some(free.clone()), TierPrice::Free), paid], false);
    let before = vector.number("already_billed_quantity");
    let in_line = vector.number("quantity_in_line");
    let billable_before = schedule.rate(&before).amount;
    let billable = schedule.rate(&(&before + &in_line)).amount - &billable_before;
    made! {
        "billable_before": plain(&billable_before),
        "billable_in_line": plain(&billable),
        "discounted_in_line": plain(&(in_line - billable)),
    }
}

pub fn metric_access(vector: &Vector) -> Outcome {
    use billing_domain::access::{MetricAccess, decide};
    use billing_domain::organization::AccessPolicy;
    let free = tier(&0.into(), Some(10.into()), TierPrice::Free);
    let paid = tier(&10.into(), Some(20.into()), batches(1.into(), 1.into(), BatchRounding::NoRounding));
    let schedule = schedule(vec![free, paid], false);
    let usage = if vector.text("relation").starts_with("free_limit") { 15 } else { 5 };
    let access = MetricAccess {
        has_metric: true,
        usage: usage.into(),
        free_limit: schedule.free_limit(),
        total_limit: schedule.total_limit(),
    };
    made! { "access": decide(AccessPolicy::All, [&access]) }
}
