//! What pricing costs: `cargo bench -p billing-domain`. Machines are noisy, so each figure stands beside a baseline of the
//! same run: read the ratio, not the microseconds.

use billing_domain::BigDecimal;
use billing_domain::charge::{Billed, BillingRecord, ChargeRef, UsageBilling};
use billing_domain::decimal::{Whole, divide_whole};
use billing_domain::invoice::{LineItem, Trace, add_tax};
use billing_domain::metric::{Aggregation, Metric, MetricFilters};
use billing_domain::period::Period;
use billing_domain::plan::Component;
use billing_domain::simulate::{Offer, Simulation, TierBuilder, tiers};
use billing_domain::subscription::{Settled, SubscriptionFilters};
use billing_domain::tier::{BatchRounding, TierSchedule};
use billing_domain::usage::Usage;
use divan::{Bencher, black_box};
use time::macros::datetime;
use uuid::Uuid;

fn main() {
    divan::main();
}

const EDGES: [i64; 4] = [100, 1_000, 10_000, 100_000];
const PRICES: [&str; 5] = ["0.05", "0.04", "0.03", "0.02", "0.01"];
const BATCH: i64 = 10;

fn five_tiers() -> TierSchedule {
    let ends = [Some("100"), Some("1000"), Some("10000"), Some("100000"), None];
    let tier = |builder: TierBuilder, (end, price): (Option<&str>, &str)| match end {
        Some(end) => builder.per_unit_to(end, price).in_batches_of("10", BatchRounding::RoundUp),
        None => builder.per_unit(price).in_batches_of("10", BatchRounding::RoundUp),
    };
    ends.into_iter().zip(PRICES).fold(tiers(), tier).build().expect("tiers that fit together")
}

fn quantity() -> BigDecimal {
    "123456.789".parse().expect("a decimal")
}

/// A rating with its walk.
#[divan::bench]
fn rate_five_tiers(bencher: Bencher<'_, '_>) {
    let (schedule, quantity) = (five_tiers(), quantity());
    bencher.bench_local(|| schedule.rate(black_box(&quantity)));
}

/// The baseline: the same sums with nothing kept of how they came about.
#[divan::bench]
fn rate_five_tiers_baseline_sums_only(bencher: Bencher<'_, '_>) {
    let edges: Vec<BigDecimal> = EDGES.into_iter().map(BigDecimal::from).collect();
    let prices: Vec<BigDecimal> = PRICES.iter().map(|price| price.parse().expect("a decimal")).collect();
    let (batch, quantity) = (BigDecimal::from(BATCH), quantity());
    bencher.bench_local(|| {
        let quantity = black_box(&quantity);
        let mut amount = BigDecimal::default();
        let mut start = BigDecimal::default();
        for (i, price) in prices.iter().enumerate() {
            let end = edges.get(i).map_or(quantity, |edge| edge.min(quantity));
            let batches = divide_whole(&(end - &start), &batch, Whole::Up);
            amount += price * batches;
            start = end.clone();
        }
        amount
    });
}

/// Ten usage lines with their traces, taxed and added up.
#[divan::bench]
fn invoice_of_ten_lines(bencher: Bencher<'_, '_>) {
    let (start, end) = (datetime!(2026-01-01 0:00 UTC), datetime!(2026-02-01 0:00 UTC));
    let period = Period::new(start, end).expect("a period");
    let id = Uuid::from_u128(1);
    let metric = Metric {
        id: id.into(),
        name: "calls".to_owned(),
        event_name: "call".to_owned(),
        measure: Aggregation::Count.into(),
        filters: MetricFilters::default(),
        is_cost_metric: false,
        created_at: start,
        archived_at: None,
    };
    let component = Component {
        id: id.into(),
        metric: metric.id,
        tiers: five_tiers(),
        invoicing_interval: None,
        reset_interval: None,
        prepaid_charge: None,
    };
    let record = BillingRecord {
        id: id.into(),
        subscription: id.into(),
        version: id.into(),
        charge: ChargeRef::Component(component.id),
        period,
        full: period,
        invoicing_instants: vec![end],
        late_until: None,
        billed: Billed::default(),
        tax_rate: None,
        charged_before_switch: BigDecimal::from(0),
        usage: UsageBilling::Here,
        prepaid: None,
    };
    let usage = Usage { quantity: quantity(), event_count: 123_456 }.seen_to(123_456);
    let (filters, rate) = (SubscriptionFilters::none(), BigDecimal::from(8));
    bencher.bench_local(|| {
        let mut settled = Settled::default();
        let mut lines = Vec::with_capacity(10);
        for _ in 0..10 {
            let charged = record.clone().charge_usage(&component, &metric, &filters, black_box(&usage), 2, end);
            let mut line = LineItem::of_invoice(&metric.name, charged.amount, end, Trace::PlanAdjustment);
            line.trace = charged.trace;
            let taxable = line.amount.clone();
            add_tax(&mut line, &taxable, (&rate, None), &mut settled, 2);
            lines.push(line);
        }
        let total: BigDecimal = lines.iter().map(|line| &line.amount).sum();
        (lines, total)
    });
}

/// A year of one customer with three events a day, through every workflow of the service.
#[divan::bench]
fn simulated_year(bencher: Bencher<'_, '_>) {
    let offer = Offer::monthly("Starter").fee("base", "30").count("call", tiers().free_to("50").per_unit("0.01"));
    let year = Simulation::between(datetime!(2026-01-01 0:00 UTC), datetime!(2027-01-01 0:00 UTC)).steadily("call", 3);
    bencher.bench_local(|| year.price(black_box(&offer)));
}
