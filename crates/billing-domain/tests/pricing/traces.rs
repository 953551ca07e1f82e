use std::collections::{BTreeMap, BTreeSet};

use billing_domain::credit::Drawdown;
use billing_domain::decimal::plain;
use billing_domain::invoice::{Invoice, LineItem, Trace};
use billing_domain::period::PlanDuration;
use billing_domain::testing::world::{World, component, subscription, tiers, version};
use serde_json::Value;
use uuid::Uuid;

use super::{blocks, instant, invoices, meetings, shown_at, table};

const FIELDS: &str = "| in | field | meaning |";
const RUNNING: &str = "| billed at | quantity so far | exact so far | given before | line |";
pub const TABLES: [&str; 2] = [FIELDS, RUNNING];

fn month() -> Vec<Invoice> {
    invoices::month_of(&World::at(instant("2026-01-01")))
}

fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("json")
}

fn taxed_and_adjusted() -> LineItem {
    let invoices = invoices::adjusted(&World::at(instant("2026-01-01")));
    invoices[0].lines[0].clone()
}

/// A line for an event that arrived when its time had been billed.
fn late_line() -> LineItem {
    let world = World::at(instant("2026-01-01"));
    let calls = component(world.metric("call", None).id, tiers(&[("0", "", "1")]));
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![calls]));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, instant("2026-01-01"))).expect("subscribed");
    world.advance("acme", instant("2026-02-02"));
    world.track_many("acme", "call", instant("2026-01-20"), 1);
    world.advance("acme", instant("2026-03-02"));
    world.invoices("acme")[1].lines[0].clone()
}

/// One of everything that a trace or an adjustment can be, by the name the table gives it.
fn samples() -> BTreeMap<String, Value> {
    let mut samples = BTreeMap::new();
    let mut add = |value: Value| {
        samples.insert(value["kind"].as_str().expect("a kind").to_owned(), value);
    };
    for line in month().iter().flat_map(|invoice| &invoice.lines) {
        add(json(&line.trace));
    }
    for line in meetings::lines_of_a_switch() {
        add(json(&line.trace));
    }
    add(json(&late_line().trace));
    let credit_id = Uuid::from_u128(1).into();
    let drawdowns = vec![Drawdown { credit: credit_id, amount: 1.into() }];
    for trace in
        [Trace::CreditApplied { drawdowns }, Trace::CreditPurchase { credit_id }, Trace::CreditGranted { credit_id }]
    {
        add(json(&trace));
    }
    add(json(&Trace::OneOff {
        one_off_line_id: Uuid::from_u128(1).into(),
        quantity: Some(3.into()),
        unit_amount: Some(12.into()),
        is_taxed: true,
        created_at: instant("2026-01-01"),
    }));
    for adjustment in &taxed_and_adjusted().adjustments {
        add(json(&adjustment.basis));
    }
    let usage = samples["usage_charge"].clone();
    let prepaid = &samples["prepaid_usage_charge"];
    let nested = [
        ("metric", usage["metric"].clone()),
        ("rating", usage["rating"].clone()),
        ("walk", usage["rating"]["walk"][0].clone()),
        ("rounding", samples["usage_handed_on"]["rounding"].clone()),
        ("fraction", prepaid["segments"][0]["fraction"].clone()),
        ("segments", prepaid["segments"][0].clone()),
        ("drawdowns", samples["credit_applied"]["drawdowns"][0].clone()),
    ];
    samples.extend(nested.map(|(name, value)| (name.to_owned(), value)));
    samples
}

#[test]
fn every_field_of_a_trace_is_explained() {
    let mut documented: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in table(FIELDS) {
        let names = row[1].split(", ").map(|name| name.trim_matches('`').to_owned());
        documented.entry(row[0].trim_matches('`').to_owned()).or_default().extend(names);
    }
    // What the table calls by its kind need not have the field `kind` explained.
    let fields = |(name, value): (&String, &Value)| {
        let object = value.as_object().expect("an object");
        let keys = object.keys().filter(|key| *key != "kind" || value["kind"] != **name).cloned();
        (name.clone(), keys.collect::<BTreeSet<_>>())
    };
    let found: BTreeMap<String, BTreeSet<String>> = samples().iter().map(fields).collect();
    assert_eq!(documented, found);
}

#[test]
fn portions_of_a_charge_follow_from_the_running_sum() {
    let month = month();
    let mut rows = Vec::new();
    for invoice in &month {
        for line in invoice.lines.iter().filter(|line| line.name == "count of call") {
            let Trace::UsageCharge { window, quantity, rounding, .. } = &line.trace else { panic!("a usage line") };
            assert_eq!(&rounding.exact_so_far - &rounding.given_before, line.base, "nothing here needs rounding");
            let figures = [quantity, &rounding.exact_so_far, &rounding.given_before, &line.base].map(plain);
            rows.push([vec![shown_at(window.end())], figures.to_vec()].concat());
        }
    }
    assert_eq!(rows, table(RUNNING));
}

#[test]
fn the_trace_shown_is_the_engines() {
    let [text] = &blocks("json")[..] else { panic!("one trace is shown") };
    let mut shown: Value = serde_json::from_str(text).expect("json");
    let read: Trace = serde_json::from_str(text).expect("a trace");
    assert_eq!(json(&read), shown, "nothing is left out");
    let usage = month().into_iter().flat_map(|invoice| invoice.lines).find(|line| line.name == "count of call");
    let engines = json(&usage.expect("a usage line").trace);
    shown["metric"]["metric_id"] = engines["metric"]["metric_id"].clone();
    assert_eq!(shown, engines);
}
