//! What a version would come to that is not made: each line as an invoice would explain it, and what usage costs, drawn.

use std::collections::BTreeSet;

use maud::{Markup, html};
use serde_json::Value;

use super::invoice_line::line;
use super::price_curve::{self, PriceCurve};
use crate::layout::failed_part;
use crate::zone::ViewerZone;
use crate::{show, text};

/// Most lines that are opened to their tiers; all of them are in the sum.
const LINES_SHOWN: usize = 24;

/// A preview of a plan.
pub(super) fn shown(preview: &Value, zone: &ViewerZone) -> Markup {
    let currency = &preview["currency"];
    let lines = show::items(&preview["line_items"]);
    html! {
        h2 { (text::TRIED_PRICE) }
        p.quiet { (text::TRIED_PRICE_EXPLAINED) }
        dl.facts {
            div { dt { (text::PERIOD) } dd { (show::days(&preview["start_date"], &preview["end_date"])) } }
            div { dt { (text::TOTAL) } dd { (show::amount(&preview["amount"], currency)) } }
        }
        div.lines {
            @for one in firsts(lines) { (line(one, currency, None, zone)) }
            div.sum { span { (text::TOTAL) " (" (text::LINES_OF_PERIOD) " " (lines.len()) ")" } (show::amount(&preview["amount"], currency)) }
        }
        @for component in show::items(&preview["components"]) {
            @let metric = show::plain(&component["billable_metric"]["metric_name"]);
            h3.long { (metric) }
            @match PriceCurve::of(metric.clone(), component) {
                Err(failure) => { (failed_part(&failure)) }
                Ok(curve) => {
                    (price_curve::picture(&[&curve], currency, &format!("{}: {metric}", text::PRICE_CURVES)))
                    (price_curve::table(&[&curve], currency))
                }
            }
        }
    }
}

/// Of each charge the first interval, then as many others as there is room for, in the order of the lines.
fn firsts(lines: &[Value]) -> Vec<&Value> {
    let mut seen = BTreeSet::new();
    let is_first: Vec<bool> = lines
        .iter()
        .map(|one| seen.insert(["name", "charge_name", "metric_id"].map(|of| show::plain(&one[of]))))
        .collect();
    let mut room = LINES_SHOWN.saturating_sub(is_first.iter().filter(|first| **first).count());
    let mut fits = |first: bool| {
        let fits = first || room > 0;
        room = if first { room } else { room.saturating_sub(1) };
        fits
    };
    lines.iter().zip(is_first).filter(|(_, first)| fits(*first)).map(|(one, _)| one).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_charge_is_shown_before_any_is_shown_again() {
        let of = |name: &str, count: usize| (0..count).map(|n| json!({"name": name, "n": n})).collect::<Vec<_>>();
        #[rustfmt::skip]
        let cases = [
            // lines,                                     shown, why
            (of("a", 3),                                  3,     "all there are"),
            (of("a", 365),                                24,    "no more than fit"),
            ([of("a", 365), of("b", 365)].concat(),       24,    "two that take turns"),
            ((0..40).flat_map(|n| of(&n.to_string(), 2)).collect(), 40, "one of each, although they are many"),
        ];
        for (lines, count, why) in cases {
            let shown = firsts(&lines);
            assert_eq!(shown.len(), count, "{why}");
            let names: BTreeSet<String> = lines.iter().map(|one| show::plain(&one["name"])).collect();
            let shown: BTreeSet<String> = shown.iter().map(|one| show::plain(&one["name"])).collect();
            assert_eq!(shown, names, "{why}");
        }
    }
}
