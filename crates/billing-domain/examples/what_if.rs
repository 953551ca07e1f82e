//! What if we charged by lines instead of by seat? A price change, tried on a year of real usage.
//!
//! The usage is the public commit history of several open-source projects; every author is a customer. Run it
//! with `cargo run --release -p billing-domain --example what_if`.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};

use billing_domain::event::Event;
use billing_domain::simulate::{Offer, Simulation, tiers};
use billing_domain::tier::BatchRounding;
use flate2::read::GzDecoder;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;

const COMMITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../billing-http/src/demo/commits.jsonl.gz");
const START: OffsetDateTime = datetime!(2022-01-01 0:00 UTC);
const END: OffsetDateTime = datetime!(2023-01-01 0:00 UTC);
const ROWS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let by_seat = Offer::monthly("By seat").fee("seat", "9").count("commit", tiers().free_to("20").per_unit("0.05"));
    let by_line = Offer::monthly("By line").fee("seat", "5").sum(
        "commit",
        "insertions",
        tiers()
            .per_unit_to("20000", "6")
            .in_batches_of("1000", BatchRounding::RoundUp)
            .per_unit("2")
            .in_batches_of("1000", BatchRounding::RoundUp),
    );
    let usage = commits(COMMITS)?.into_iter().filter(|event| (START..END).contains(&event.time_created));
    let mut comparison = Simulation::between(START, END).events(usage).compare(&by_seat, &by_line)?;

    let authors = comparison.rows.len();
    comparison.rows.sort_by_key(|row| std::cmp::Reverse(row.after.clone()));
    comparison.rows.truncate(ROWS);
    println!("2022, {authors} authors; the largest after the change, and all together:\n\n{comparison}");
    Ok(())
}

fn commits(path: &str) -> Result<Vec<Event>, Box<dyn Error>> {
    let lines = BufReader::new(GzDecoder::new(File::open(path)?)).lines();
    lines.map(|line| event_of(&serde_json::from_str(&line?)?).ok_or_else(|| "not an event".into())).collect()
}

fn event_of(json: &Value) -> Option<Event> {
    let text = |field: &str| json.get(field)?.as_str();
    Some(Event {
        customer: text("customer_id")?.parse().ok()?,
        name: text("event_name")?.to_owned(),
        idempotency_id: text("idempotency_id")?.to_owned(),
        time_created: OffsetDateTime::parse(text("time_created")?, &Rfc3339).ok()?,
        properties: json.get("properties")?.as_object()?.clone().into(),
    })
}
