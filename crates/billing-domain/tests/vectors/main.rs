//! Numbers asserted by the tests of comparable billing systems, computed by this engine.
//!
//! Each vector either comes out as its source says, or differently by a ruling, or cannot be expressed. The
//! rulings, the reasons and how many there are of each kind stand in `docs/pricing.md`, "Vectors", and are read
//! from there: a case that is skipped or changes its result cannot go unnoticed.

mod calendar;
mod money;
mod rating;
mod usage;
mod vector;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vector::{Outcome, Vector};

fn run(vector: &Vector) -> Outcome {
    let compute = match vector.op.as_str() {
        "rate" => rating::rate,
        "rate_buckets" => rating::rate_buckets,
        "rate_package" => rating::rate_package,
        "rate_package_delta" => rating::rate_package_delta,
        "package_count" => rating::package_count,
        "rate_blocks" => rating::rate_blocks,
        "rate_blocks_delta" => rating::rate_blocks_delta,
        "rate_spec_tiers" => rating::rate_spec_tiers,
        "usage_discount" => rating::usage_discount,
        "metric_access" => rating::metric_access,
        "round_money" => money::round_money,
        "round_units" => money::round_units,
        "multiply_round" => money::multiply_round,
        "sum_of_rounded_lines" => money::sum_of_rounded_lines,
        "percent_discount" => money::percent_discount,
        "coupon_spread" => money::coupon_spread,
        "coupon_spread_then_tax" => money::coupon_spread_then_tax,
        "distribute_discount" => money::distribute_discount,
        "price_adjustment" => money::price_adjustment,
        "unused_days_credit" => money::unused_days_credit,
        "cap_credit" => money::cap_credit,
        "plan_change" => money::plan_change,
        "component_change" => money::component_change,
        "progressive_billing" => money::progressive_billing,
        "drawdown" => money::drawdown,
        "balance_at" => money::balance_at,
        "prepaid_wallet" => money::prepaid_wallet,
        _ => return run_in_time(vector),
    };
    compute(vector)
}

fn run_in_time(vector: &Vector) -> Outcome {
    let compute = match vector.op.as_str() {
        "period_billed_at" => calendar::period_billed_at,
        "next_billing_date" => calendar::next_billing_date,
        "periods_until" => calendar::periods_until,
        "period_containing" => calendar::period_containing,
        "period_containing_date" => calendar::period_containing_date,
        "elapsed_cycles" => calendar::elapsed_cycles,
        "whole_periods" => calendar::whole_periods,
        "whole_periods_between" => calendar::whole_periods_between,
        "next_usage_reset" => calendar::next_usage_reset,
        "first_billing_cycle_date" => calendar::first_billing_cycle_date,
        "next_billing_day" => calendar::next_billing_day,
        "advance" => calendar::advance,
        "first_period" => calendar::first_period,
        "billed_cycles_in_advance" => calendar::billed_cycles_in_advance,
        "fraction" => calendar::fraction,
        "fraction_leading" => calendar::fraction_leading,
        "fraction_trailing" => calendar::fraction_trailing,
        "terminate_in_arrears" => calendar::terminate_in_arrears,
        "local_days_between" => calendar::local_days_between,
        "billing_day_of" => calendar::billing_day_of,
        "billing_day_over_dst" => calendar::billing_day_over_dst,
        "daily_windows" => calendar::daily_windows,
        "usage_by_local_month" => calendar::usage_by_local_month,
        "count" => usage::count,
        "sum" => usage::sum,
        "windowed_total" => usage::windowed_total,
        "weighted_sum" => usage::weighted_sum,
        "gauge_prorated" => usage::gauge_prorated,
        "gauge_max_total" => usage::gauge_max_total,
        "prorated_unique" => usage::prorated_unique,
        "prorated_sum" => usage::prorated_sum,
        "latest" => usage::latest,
        "unique_add_remove" => return Err("a unique count takes nothing back"),
        "rate_with_max" | "rate_with_min" | "true_up" | "prorated_minimum" => {
            return Err("a price has neither minimum nor maximum");
        }
        "rate_percentage" | "rate_graduated_percentage" => {
            return Err("a price is by the unit, not a share of an amount");
        }
        "rate_prorated_graduated" | "rate_prorated_volume" => {
            return Err("a quantity has one measure, not a prorated one beside it");
        }
        "reset_rollover" => return Err("a credit expires; it is not refilled"),
        "stacked_coupons" => return Err("a plan version has one price adjustment"),
        "fraction_leading_fixed30" => return Err("a month has its own length, not 30 days"),
        other => panic!("{other} is not an operation of vectors.json"),
    };
    compute(vector)
}

/// The rows of the table in `docs/pricing.md` whose heading row starts with `first_heading`.
fn table(first_heading: &str) -> Vec<Vec<String>> {
    let start = format!("| {first_heading} |");
    let rows = include_str!("../../../../docs/pricing.md").lines().skip_while(|line| !line.starts_with(&start));
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(|cell| cell.trim().replace('`', "")).collect();
    rows.skip(2).take_while(|line| line.starts_with('|')).map(cells).collect()
}

#[test]
fn every_vector_comes_out_as_documented() {
    let rulings: BTreeMap<String, Value> = table("vector")
        .into_iter()
        .map(|row| (row[0].clone(), serde_json::from_str(&row[2]).unwrap_or_else(|_| panic!("{}: JSON", row[0]))))
        .collect();
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut ruled = BTreeSet::new();
    let mut wrong = Vec::new();
    for vector in Vector::all() {
        let count = counts.entry(vector.fit.clone()).or_default();
        match run(&vector) {
            Err(reason) => {
                count[2] += 1;
                *reasons.entry(reason.to_owned()).or_default() += 1;
            }
            Ok(made) if vector.agrees(&made, &vector.expected) => count[0] += 1,
            Ok(made) => match rulings.get(&vector.id) {
                Some(ours) if vector.agrees(&made, ours) => {
                    count[1] += 1;
                    ruled.insert(vector.id.clone());
                }
                _ => wrong.push(format!("{} ({}): {} is not {made:?}", vector.id, vector.fit, vector.expected)),
            },
        }
    }
    assert!(wrong.is_empty(), "{}\n{} vectors are neither met nor ruled otherwise", wrong.join("\n"), wrong.len());
    let unused: Vec<&String> = rulings.keys().filter(|id| !ruled.contains(*id)).collect();
    assert!(unused.is_empty(), "rulings on vectors that come out as their source says: {unused:?}");

    let documented: BTreeMap<String, [usize; 3]> = table("kind")
        .into_iter()
        .map(|row| (row[0].clone(), [1, 2, 3].map(|column| row[column].parse().expect("a count"))))
        .collect();
    assert_eq!(documented, counts, "docs/pricing.md counts by kind: met, ruled otherwise, not expressible");
    let documented: BTreeMap<String, usize> =
        table("reason").into_iter().map(|row| (row[0].clone(), row[1].parse().expect("a count"))).collect();
    assert_eq!(documented, reasons, "docs/pricing.md counts the vectors that cannot be expressed by reason");
}
