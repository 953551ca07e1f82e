//! The demo on some of its authors, and what each owes computed again by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use billing_http::demo::{Client, Commits, Demo};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::World;

const FILE: &[u8] = include_bytes!("../../src/demo/commits.jsonl.gz");

/// One in so many authors.
const EVERY: usize = 25;

/// What these authors owe in cents, for all months from that of their first commit to that of their last, with the fee for the
/// month after it: plain arithmetic over the file.
fn owed() -> BTreeMap<String, u64> {
    let mut text = String::new();
    GzDecoder::new(FILE).read_to_string(&mut text).expect("text");
    // By author and month, which are counted from the year 0.
    let mut used: BTreeMap<String, BTreeMap<u64, (u64, u64)>> = BTreeMap::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).expect("json");
        let time = event["time_created"].as_str().expect("text");
        let month = time[..4].parse::<u64>().expect("a year") * 12 + time[5..7].parse::<u64>().expect("a month");
        let author = event["customer_id"].as_str().expect("text").to_owned();
        let (commits, lines) = used.entry(author).or_default().entry(month).or_default();
        *commits += 1;
        *lines += event["properties"]["insertions"].as_u64().expect("a whole number");
    }
    let cents = |(commits, lines): &(u64, u64)| {
        let middle = (*commits).clamp(10, 100) - 10;
        let upper = (*commits).clamp(100, 500) - 100;
        middle * 5 + upper * 2 + lines.div_ceil(1_000) * 35
    };
    let owes = |months: BTreeMap<u64, (u64, u64)>| {
        let (first, last) = (months.keys().next().expect("a month"), months.keys().last().expect("a month"));
        (last - first + 2) * 900 + months.values().map(cents).sum::<u64>()
    };
    used.into_iter().step_by(EVERY).map(|(author, months)| (author, owes(months))).collect()
}

fn cents_of(invoice: &Value) -> u64 {
    let amount: billing_domain::BigDecimal = invoice["amount"].to_string().parse().expect("a number");
    (billing_domain::BigDecimal::from(100) * amount).with_scale(0).to_string().parse().expect("whole cents")
}

#[test]
fn the_demo_bills_what_arithmetic_says_and_can_be_run_again() {
    let world = World::new();
    let client = Client::new(&format!("http://{}", world.addr()), &world.key);
    let demo = Demo { client: &client, backend: &world.opened.store, organization: world.organization };
    let commits = Commits::all().expect("the file").of_every(EVERY);

    let mut out = Vec::new();
    demo.run(&commits, &mut out).expect("the demo");
    let first = String::from_utf8(out).expect("text");
    let expected = owed();
    assert_eq!(expected.len(), 59, "authors");
    let invoices = client.list("/api/invoices/").expect("invoices");
    let mut billed: BTreeMap<String, u64> = BTreeMap::new();
    for invoice in &invoices {
        let customer = invoice["customer"]["customer_id"].as_str().expect("text").to_owned();
        *billed.entry(customer).or_default() += cents_of(invoice);
    }
    assert_eq!(billed, expected, "all invoices of everybody, to the cent");
    let months: BTreeSet<_> = invoices.iter().map(|invoice| invoice["start_date"].to_string()).collect();
    assert!(months.len() > 50, "of many years: {months:?}");
    let largest = invoices.iter().max_by_key(|invoice| cents_of(invoice)).expect("an invoice");
    let row =
        first.lines().find(|line| line.contains(largest["invoice_number"].as_str().expect("text"))).expect("a row");
    assert!(row.ends_with(&format!("{}.{:02}", cents_of(largest) / 100, cents_of(largest) % 100)), "{row}");
    for part in [
        "batches of 1000 at 0.35, rounded up",
        "Flat Fee (seat)",
        "commits are priced: each author is billed month by month",
        "events per second",
        "tier 10..100",
        "\"access\": true",
        "explained",
    ] {
        assert!(first.contains(part), "the report lacks {part:?}:\n{first}");
    }

    let mut out = Vec::new();
    demo.run(&commits, &mut out).expect("the demo again");
    let second = String::from_utf8(out).expect("text");
    assert!(second.starts_with("The demo has run in this data folder before"), "{second}");
    assert_eq!(client.list("/api/invoices/").expect("invoices").len(), invoices.len(), "nothing is made twice");
}
