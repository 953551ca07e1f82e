//! One line of an invoice, opened: the metric and its events, the walk through the tiers, fractions and rounding, as the trace of
//! the line tells them.

use maud::{Markup, html};
use serde_json::Value;

use super::credit::credit_path;
use super::customer_path;
use crate::visit::escaped;
use crate::zone::ViewerZone;
use crate::{show, text};

/// A line with everything behind it; `customer`: whose events stand behind it, if any do.
pub fn line(explained: &Value, currency: &Value, customer: Option<&str>, zone: &ViewerZone) -> Markup {
    let trace = &explained["trace"];
    html! {
        details.line {
            summary {
                span.name {
                    (show::plain(&explained["name"]))
                    " " span.quiet { (show::days(&explained["start_date"], &explained["end_date"])) }
                }
                (show::amount(&explained["amount"], currency))
            }
            div.trace {
                (charge(explained, currency, customer, zone))
                (rounding(&trace["rounding"], currency))
                @for adjustment in show::items(&explained["adjustments"]) { (adjusted(adjustment, currency)) }
            }
        }
    }
}

fn charge(line: &Value, currency: &Value, customer: Option<&str>, zone: &ViewerZone) -> Markup {
    let trace = &line["trace"];
    match trace["kind"].as_str().unwrap_or_default() {
        "recurring_charge" => recurring(trace, currency),
        "usage_charge" => html! {
            (metric(line, customer, zone))
            (walk(&trace["rating"], currency))
            @if !show::is_zero(&trace["prepaid_amount"]) {
                dl.facts { (fact(text::PREPAID, &show::amount(&trace["prepaid_amount"], currency))) }
            }
        },
        "prepaid_usage_charge" => html! {
            (metric(line, customer, zone))
            @for segment in show::items(&trace["segments"]) {
                h3 { (text::SEGMENT) ", " (fraction(&segment["fraction"])) }
                (walk(&segment["rating"], currency))
            }
        },
        "usage_handed_on" | "usage_not_billed" => metric(line, customer, zone),
        "credit_applied" => html! {
            dl.facts { @for one in show::items(&trace["drawdowns"]) {
                div {
                    dt { a href=(credit_path(one)) { (show::plain(&one["credit_id"])) } }
                    dd { (show::amount(&one["amount"], currency)) }
                }
            } }
        },
        _ => other(trace),
    }
}

fn recurring(trace: &Value, currency: &Value) -> Markup {
    html! {
        dl.facts {
            (fact(text::NAME, &html! { (show::plain(&trace["charge_name"])) }))
            (fact(text::UNIT_AMOUNT, &show::amount(&trace["unit_amount"], currency)))
            (fact(text::COPIES, &html! { (show::number(&trace["quantity"])) }))
            (fact(text::FRACTION, &fraction(&trace["fraction"])))
            (fact(text::TIMING, &html! {
                (words(&trace["charge_timing"])) ", " (words(&trace["charge_behavior"]))
                @if !trace["flat_fee_behavior"].is_null() { ", " (words(&trace["flat_fee_behavior"])) }
            }))
        }
    }
}

/// What was metered, when, and the way to the very events.
fn metric(line: &Value, customer: Option<&str>, zone: &ViewerZone) -> Markup {
    let trace = &line["trace"];
    let metric = &trace["metric"];
    html! {
        dl.facts {
            (fact(text::METRIC, &html! { (show::plain(&metric["metric_name"])) }))
            // What is prepaid is for no time of its own.
            @if !trace["window"].is_null() {
                (fact(text::WINDOW, &html! {
                    (show::instant(&trace["window"]["start"], zone)) " \u{2013} " (show::instant(&trace["window"]["end"], zone))
                }))
            }
            @if !trace["event_count"].is_null() {
                (fact(text::EVENT_COUNT, &html! { (show::number(&trace["event_count"])) }))
            }
            @if !trace["quantity"].is_null() {
                (fact(text::QUANTITY, &html! { (show::number(&trace["quantity"])) }))
            }
            @if !trace["billed_before"].is_null() {
                (fact(text::BILLED_BEFORE, &html! { (show::number(&trace["billed_before"])) }))
            }
            @if let Some(reason) = trace["reason"].as_str() { (fact(text::STATUS, &html! { (reason) })) }
        }
        @if let Some(customer) = customer {
            p { a href={ (customer_path(customer)) "events/?line=" (escaped(&show::plain(&line["line_id"]))) } { (text::SHOW_EVENTS) } }
        }
    }
}

/// The walk through the tiers.
fn walk(rating: &Value, currency: &Value) -> Markup {
    html! {
        div.scroll tabindex="0" { table.walk {
            thead { tr {
                th { (text::TIER) } th { (text::FROM_TO) } th.right { (text::UNITS) } th.right { (text::BATCHES) }
                th { (text::PRICE) } th.right { (text::AMOUNT) }
            } }
            tbody { @for step in show::items(&rating["walk"]) { tr {
                td { (step["tier"].as_u64().map_or_else(String::new, |tier| (tier + 1).to_string())) }
                td {
                    (show::number(&step["range_start"])) " "
                    @if step["range_end"].is_null() { (text::ABOVE) } @else { "\u{2013} " (show::number(&step["range_end"])) }
                }
                td.right { (show::number(&step["quantity"])) }
                td.right { (show::number(&step["batches"])) }
                td { (price(step, currency)) }
                td.right { (show::amount(&step["amount"], currency)) }
            } } }
            tfoot { tr { th colspan="5" { (text::TOTAL) } td.right { (show::amount(&rating["amount"], currency)) } } }
        } }
    }
}

fn price(step: &Value, currency: &Value) -> Markup {
    match step["kind"].as_str().unwrap_or_default() {
        "free" => html! { (text::FREE) },
        "flat" => html! { (show::amount(&step["cost_per_batch"], currency)) " " (text::FLAT) },
        _ => html! {
            (show::amount(&step["cost_per_batch"], currency)) " " (text::PER) " "
            (show::number(&step["metric_units_per_batch"]))
            @if !step["batch_rounding"].is_null() { ", " (words(&step["batch_rounding"])) }
        },
    }
}

/// From the exact amount to that of the line.
fn rounding(rounding: &Value, currency: &Value) -> Markup {
    html! {
        @if rounding.is_object() {
            dl.facts.rounding {
                (fact(text::EXACT, &show::amount(&rounding["exact_so_far"], currency)))
                (fact(text::ROUNDED, &html! { (show::plain(&rounding["decimals"])) " " (text::DECIMALS) }))
                @if !rounding["forgiven"].is_null() {
                    (fact(text::FORGIVEN, &show::amount(&rounding["forgiven"], currency)))
                }
                (fact(text::GIVEN_BEFORE, &show::amount(&rounding["given_before"], currency)))
                (fact(text::LINE_AMOUNT, &show::amount(&rounding["amount"], currency)))
            }
        }
    }
}

fn adjusted(adjustment: &Value, currency: &Value) -> Markup {
    let trace = &adjustment["trace"];
    let name = match adjustment["adjustment_type"].as_str() {
        Some("sales_tax") => text::SALES_TAX,
        _ => text::PLAN_ADJUSTMENT,
    };
    html! {
        h3 { (name) " " (show::amount(&adjustment["amount"], currency)) }
        @if trace["kind"] == "sales_tax" {
            dl.facts {
                (fact(text::RATE, &html! { (show::number(&trace["rate"])) " %" }))
                (fact(text::TAXABLE, &show::amount(&trace["taxable"], currency)))
            }
            (rounding(&trace["rounding"], currency))
        } @else { (other(trace)) }
    }
}

/// A part of an interval, as lengths of time.
fn fraction(fraction: &Value) -> Markup {
    html! { (show::length(&fraction["numerator"])) " " (text::OF) " " (show::length(&fraction["denominator"])) }
}

/// A trace of a kind that has no picture of its own: its fields as they are.
fn other(trace: &Value) -> Markup {
    let hidden = ["kind", "rounding"];
    let fields = trace.as_object().into_iter().flatten().filter(|(name, _)| !hidden.contains(&name.as_str()));
    html! { dl.facts { @for (name, value) in fields {
        (fact(&name.replace('_', " "), &html! { code.long { (show::plain(value)) } }))
    } } }
}

fn fact(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn words(value: &Value) -> String {
    show::plain(value).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_shows_every_figure_of_its_trace() {
        let explained = json!({
            "line_id": "line_1&", "name": "Calls", "start_date": "2026-01-01T00:00:00Z", "end_date": "2026-01-31T23:59:59.999999Z",
            "amount": 1.82, "base": 1.5,
            "trace": {
                "kind": "usage_charge",
                "metric": {"metric_name": "count of <b>call</b>", "event_name": "a&b"},
                "window": {"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"},
                "event_count": 200, "quantity": 1200, "prepaid_amount": 0,
                "rating": {"amount": 1.505, "walk": [
                    {"tier": 0, "kind": "free", "range_start": 0, "range_end": 50, "quantity": 50, "amount": 0},
                    {"tier": 1, "kind": "per_unit", "range_start": 50, "range_end": null, "quantity": 1150, "batches": 150,
                        "cost_per_batch": 0.01, "metric_units_per_batch": 1, "amount": 1.505},
                ]},
                "rounding": {"exact_so_far": 1.505, "given_before": 0, "decimals": 2, "amount": 1.51},
            },
            "adjustments": [{"adjustment_type": "sales_tax", "amount": 0.31, "trace": {
                "kind": "sales_tax", "rate": 20.5, "taxable": 1.51,
                "rounding": {"exact_so_far": 0.30955, "given_before": 0, "decimals": 2, "amount": 0.31}}}],
        });
        let shown = line(&explained, &json!({"code": "USD"}), Some("a/b"), &ViewerZone::default()).into_string();
        for figure in ["1.82", "1.505", "1.51", "0.30955", "0.31", "20.5 %", "1,200", "1,150", "0.01", "200"] {
            assert!(shown.contains(figure), "{figure}: {shown}");
        }
        assert!(shown.contains("&lt;b&gt;call"), "markup of others stays text");
        assert!(shown.contains("/console/customers/a%2Fb/events/?line=line_1%26"), "the way to the events: {shown}");
        let tried = line(&explained, &json!({"code": "USD"}), None, &ViewerZone::default()).into_string();
        assert!(!tried.contains("/events/") && tried.contains("1,150"), "nobody's events: {tried}");
    }
}
