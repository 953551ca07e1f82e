//! The demo on those authors that were at work in its month, and its largest invoice computed again by hand.

use std::collections::BTreeMap;
use std::io::Read;

use billing_http::demo::{Client, Commits, Demo};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::support::World;

const FILE: &[u8] = include_bytes!("../../src/demo/commits.jsonl.gz");

/// What every author owes for October 2022 and the fee of November, in cents: plain arithmetic over the file.
fn owed() -> BTreeMap<String, u64> {
    let mut text = String::new();
    GzDecoder::new(FILE).read_to_string(&mut text).expect("text");
    let mut used: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in text.lines().filter(|line| line.contains("\"time_created\":\"2022-10-")) {
        let event: Value = serde_json::from_str(line).expect("json");
        let (commits, lines) = used.entry(event["customer_id"].as_str().expect("text").to_owned()).or_default();
        *commits += 1;
        *lines += event["properties"]["insertions"].as_u64().expect("a whole number");
    }
    let cents = |(commits, lines): (u64, u64)| {
        let middle = commits.clamp(10, 100) - 10;
        let upper = commits.clamp(100, 500) - 100;
        900 + middle * 5 + upper * 2 + lines.div_ceil(1_000) * 35
    };
    used.into_iter().map(|(author, used)| (author, cents(used))).collect()
}

#[test]
fn the_demo_bills_what_arithmetic_says_and_can_be_run_again() {
    let world = World::new();
    let client = Client::new(&format!("http://{}", world.addr()), &world.key);
    let demo = Demo { client: &client, backend: &world.opened.store, organization: world.organization };
    let commits = Commits::all().expect("the file").of_busy_authors();

    let mut out = Vec::new();
    demo.run(&commits, &mut out).expect("the demo");
    let first = String::from_utf8(out).expect("text");
    let expected = owed();
    assert_eq!(expected.len(), 70, "authors at work in the month");
    let invoices = client.list("/api/invoices/").expect("invoices");
    let mut billed = BTreeMap::new();
    for invoice in invoices.iter().filter(|invoice| invoice["start_date"] == "2022-10-01") {
        if invoice["end_date"] == "2022-11-30" {
            let cents: u64 = (billing_domain::BigDecimal::from(100)
                * invoice["amount"].to_string().parse::<billing_domain::BigDecimal>().expect("a number"))
            .with_scale(0)
            .to_string()
            .parse()
            .expect("whole cents");
            billed.insert(invoice["customer"]["customer_id"].as_str().expect("text").to_owned(), cents);
        }
    }
    assert_eq!(billed, expected, "every invoice of the month, to the cent");

    let (largest, cents) = expected.iter().max_by_key(|(_, cents)| **cents).expect("somebody");
    let amount = format!("{}.{:02}", cents / 100, cents % 100);
    let row =
        first.lines().find(|line| line.contains("221101-") && line.contains(largest)).expect("a row of the table");
    assert!(row.ends_with(&amount), "{row}");
    for part in [
        "batches of 1000 at 0.35, rounded up",
        "Flat Fee (seat)",
        "price 642 of the",
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
