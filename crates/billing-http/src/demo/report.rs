//! What the demo prints at the end: the largest invoices, one of them explained, and an access check.

use std::io::Write;

use anyhow::Context;
use billing_domain::BigDecimal;
use billing_domain::decimal::plain;
use serde_json::Value;

use super::catalog::{Catalog, METRIC};
use super::client::Client;
use super::commits::Commits;

/// How many invoices the table shows.
const ROWS: usize = 10;

/// Writes the report.
pub fn write(client: &Client, catalog: &Catalog, commits: &Commits, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut invoices = client.list("/api/invoices/")?;
    invoices.sort_by_cached_key(|invoice| std::cmp::Reverse(amount(invoice)));
    let total: BigDecimal = invoices.iter().map(amount).sum();
    let (all, priced) = (commits.events.len(), priced(&invoices));
    let share = if priced == all as u64 {
        format!("All {} commits", thousands(all))
    } else {
        // The books of another demo are beneath this one.
        format!("{} of {} commits", plain(&priced), thousands(all))
    };
    writeln!(
        out,
        "\n{share} are priced: each author is billed month by month, from that of the first commit to that of the last, and the seat in advance."
    )?;
    writeln!(out, "{} invoices over {} USD; the {ROWS} largest:\n", thousands(invoices.len()), plain(&total))?;
    writeln!(out, "  {:<15} {:<22} {:<21} {:>9}", "invoice", "customer", "period", "USD")?;
    for invoice in invoices.iter().take(ROWS) {
        let period = format!("{}..{}", show(&invoice["start_date"]), show(&invoice["end_date"]));
        let customer = show(&invoice["customer"]["customer_id"]);
        writeln!(out, "  {:<15} {customer:<22} {period:<21} {:>9}", show(&invoice["invoice_number"]), cents(invoice))?;
    }
    let largest = invoices.first().context("there is no invoice")?;
    explain(client, largest, out)?;
    let customer = show(&largest["customer"]["customer_id"]);
    let path = format!("/api/metric_access/?customer_id={customer}&metric_id={}", catalog.commits);
    let access = serde_json::to_string_pretty(&client.get(&path)?)?;
    writeln!(out, "\nMay {customer} commit now? GET {path}\n{access}")?;
    Ok(())
}

/// How many commits invoices have been counted of.
fn priced(invoices: &[Value]) -> BigDecimal {
    let lines = invoices.iter().flat_map(|invoice| invoice["line_items"].as_array().into_iter().flatten());
    let of_commits = lines.filter(|line| line["name"] == METRIC);
    of_commits.map(|line| show(&line["quantity"]).parse::<BigDecimal>().unwrap_or_default()).sum()
}

/// Writes one invoice line by line, down to the events and tiers behind each amount.
fn explain(client: &Client, invoice: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    let path = format!("/api/invoices/{}/explain/", show(&invoice["invoice_id"]));
    let explained = client.get(&path)?;
    writeln!(out, "\nInvoice {} explained, GET {path}", show(&invoice["invoice_number"]))?;
    for line in explained["line_items"].as_array().context("an explanation without lines")? {
        let period = format!("{} to {}", show(&line["start_date"]), show(&line["end_date"]));
        let charge = line["charge_name"].as_str().map_or_else(String::new, |charge| format!(" ({charge})"));
        let name = format!("{}{charge}", show(&line["name"]));
        writeln!(out, "\n  {name:<40} {:>9}   {period}", cents(line))?;
        let trace = &line["trace"];
        match trace["kind"].as_str() {
            Some("usage_charge") => usage(trace, out)?,
            Some("recurring_charge") => {
                let (unit, quantity) = (show(&trace["unit_amount"]), show(&trace["quantity"]));
                writeln!(out, "    {unit} x {quantity} for {}", portion(&trace["fraction"]))?;
            }
            _ => {}
        }
        let rounding = &trace["rounding"];
        writeln!(
            out,
            "    {} exactly, {} given before: {} on this line",
            show(&rounding["exact_so_far"]),
            show(&rounding["given_before"]),
            show(&rounding["amount"])
        )?;
    }
    Ok(())
}

/// How much of its interval a charge is for, in words.
fn portion(fraction: &Value) -> String {
    let (numerator, denominator) = (show(&fraction["numerator"]), show(&fraction["denominator"]));
    if numerator == denominator {
        return "the whole interval".to_owned();
    }
    format!("{numerator}/{denominator} of the interval")
}

fn usage(trace: &Value, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "    {} events, quantity {}", show(&trace["event_count"]), show(&trace["quantity"]))?;
    for step in trace["rating"]["walk"].as_array().into_iter().flatten() {
        let end =
            if step["range_end"].is_null() { " and up".to_owned() } else { format!("..{}", show(&step["range_end"])) };
        let price = match step["kind"].as_str() {
            Some("per_unit") => format!(
                "{} batches of {} at {}{}",
                show(&step["batches"]),
                show(&step["metric_units_per_batch"]),
                show(&step["cost_per_batch"]),
                match step["batch_rounding"].as_str() {
                    Some("round_up") => ", rounded up",
                    Some("round_down") => ", rounded down",
                    Some("round_nearest") => ", rounded",
                    _ => "",
                }
            ),
            Some("flat") => "flat".to_owned(),
            _ => "free".to_owned(),
        };
        writeln!(
            out,
            "    tier {}{end}: {} units, {price} = {}",
            show(&step["range_start"]),
            show(&step["quantity"]),
            show(&step["amount"])
        )?;
    }
    Ok(())
}

/// A count as people read it: 30,442.
pub(super) fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(|group| String::from_utf8_lossy(group).into_owned());
    groups.collect::<Vec<_>>().join(",")
}

fn amount(object: &Value) -> BigDecimal {
    show(&object["amount"]).parse().unwrap_or_default()
}

fn cents(object: &Value) -> String {
    amount(object).with_scale(2).to_string()
}

/// A value as people read it: text without quotes, a number with its digits.
fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
