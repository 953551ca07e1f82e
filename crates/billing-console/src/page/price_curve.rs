//! What a quantity costs by the tiers of a component, as a picture and as a table. Every price is asked of the engine that bills.

use std::collections::BTreeSet;

use billing_domain::BigDecimal;
use billing_domain::decimal::{parse, plain};
use billing_domain::tier::{BatchRounding, Tier, TierPrice, TierSchedule};
use maud::{Markup, html};
use serde_json::Value;

use super::chart::{self, number_of};
use crate::api::Failure;
use crate::{show, text};

/// Prices asked for along the picture, beside those at the bounds of tiers.
const SAMPLES: u32 = 96;
/// Units in the picture where no tier says how far it should go.
const BATCHES_SHOWN: u32 = 100;

/// A component's prices, under a name.
pub(super) struct PriceCurve {
    /// What tells it from another in the same picture.
    pub name: String,
    schedule: TierSchedule,
}

impl PriceCurve {
    /// Of a component as the API shows it.
    ///
    /// # Errors
    /// When it has tiers that the engine does not take.
    pub(super) fn of(name: String, component: &Value) -> Result<Self, Failure> {
        let tiers: Option<Vec<Tier>> = show::items(&component["tiers"]).iter().map(tier).collect();
        let bulk = component["bulk_pricing_enabled"] == true;
        let schedule = tiers.and_then(|tiers| TierSchedule::restore(tiers, bulk).ok());
        let schedule = schedule.ok_or_else(|| Failure::new(500, "internal_error", text::NO_CURVE))?;
        Ok(Self { name, schedule })
    }

    /// In major units of the currency, not rounded.
    fn price(&self, quantity: &BigDecimal) -> BigDecimal {
        self.schedule.rate(quantity).amount
    }

    fn bounds(&self) -> impl Iterator<Item = BigDecimal> {
        let tiers = self.schedule.tiers().iter();
        tiers.flat_map(|tier| [Some(tier.range_start.clone()), tier.range_end.clone()]).flatten()
    }

    /// Units of the largest batch; 1 where nothing is priced by batches.
    fn batch(&self) -> BigDecimal {
        let batches = self.schedule.tiers().iter().filter_map(|tier| match &tier.price {
            TierPrice::PerUnit { metric_units_per_batch, .. } => Some(metric_units_per_batch.clone()),
            TierPrice::Flat { .. } | TierPrice::Free => None,
        });
        batches.max().unwrap_or_else(|| BigDecimal::from(1))
    }
}

fn tier(shown: &Value) -> Option<Tier> {
    let number = |field: &str| parse(&show::plain(&shown[field])).ok();
    let price = match shown["type"].as_str()? {
        "free" => TierPrice::Free,
        "flat" => TierPrice::Flat { cost: number("cost_per_batch")? },
        "per_unit" => TierPrice::PerUnit {
            cost_per_batch: number("cost_per_batch")?,
            metric_units_per_batch: number("metric_units_per_batch")?,
            batch_rounding: Some(shown["batch_rounding_type"].as_str()?.parse::<BatchRounding>().ok()?),
        },
        _ => return None,
    };
    let range_end = if shown["range_end"].is_null() { None } else { Some(number("range_end")?) };
    Some(Tier { range_start: number("range_start")?, range_end, price })
}

/// The bounds of all tiers but 0, and how far a picture goes: half as far again as the last of them.
fn reach(curves: &[&PriceCurve]) -> (BTreeSet<BigDecimal>, BigDecimal) {
    let mut bounds: BTreeSet<BigDecimal> = curves.iter().flat_map(|curve| curve.bounds()).collect();
    bounds.remove(&BigDecimal::from(0));
    let widest = match bounds.last() {
        Some(last) => (last * BigDecimal::from(3)).half(),
        None => curves.iter().map(|curve| curve.batch()).max().unwrap_or_default() * BigDecimal::from(BATCHES_SHOWN),
    };
    (bounds, widest)
}

/// A number to draw by.
fn drawn(number: &BigDecimal) -> f64 {
    number_of(&plain(number))
}

/// A line for each of the curves, which are in one currency: through the bounds of their tiers and beyond.
pub(super) fn picture(curves: &[&PriceCurve], currency: &Value, title: &str) -> Markup {
    let (bounds, widest) = reach(curves);
    // A tier begins behind its bound: a price that jumps there is asked for on both sides.
    let step = &widest / BigDecimal::from(10_000);
    let mut asked: BTreeSet<BigDecimal> = bounds.iter().flat_map(|bound| [bound.clone(), bound + &step]).collect();
    asked.extend((0..=SAMPLES).map(|place| &widest * BigDecimal::from(place) / BigDecimal::from(SAMPLES)));
    asked.insert(step);
    let line =
        |curve: &&PriceCurve| asked.iter().map(|quantity| (drawn(quantity), drawn(&curve.price(quantity)))).collect();
    let lines: Vec<Vec<(f64, f64)>> = curves.iter().map(line).collect();
    let marks: Vec<f64> = bounds.iter().map(drawn).collect();
    html! {
        figure.chart {
            p.quiet { (show::code(currency)) }
            (chart::lines(&lines, &marks, drawn(&widest), title))
            figcaption {
                @if curves.len() > 1 { @for (place, curve) in curves.iter().enumerate() {
                    span.key.second[place > 0] { (curve.name) }
                } }
                span { (text::SOME_UNITS) }
            }
        }
    }
}

/// What the picture is drawn by, in figures: at the bounds, one unit behind each, and beyond. Of two curves also what they differ by.
pub(super) fn table(curves: &[&PriceCurve], currency: &Value) -> Markup {
    let (bounds, widest) = reach(curves);
    let one = BigDecimal::from(1);
    let mut quantities: BTreeSet<BigDecimal> = bounds.iter().flat_map(|bound| [bound.clone(), bound + &one]).collect();
    quantities.extend([BigDecimal::from(0), one, &widest * BigDecimal::from(10), widest]);
    let amount = |amount: &BigDecimal| show::amount(&plain(amount).into(), currency);
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th.right { (text::UNITS) }
                @for curve in curves { th.right { @if curves.len() > 1 { (curve.name) } @else { (text::PRICE) } } }
                @if curves.len() > 1 { th.right { (text::DIFFERS_BY) } }
            } }
            tbody { @for quantity in &quantities {
                @let prices: Vec<BigDecimal> = curves.iter().map(|curve| curve.price(quantity)).collect();
                tr {
                    td.right { (show::number(&plain(quantity).into())) }
                    @for price in &prices { td.right { (amount(price)) } }
                    @if let [first, second] = &prices[..] { td.right { (amount(&(second - first))) } }
                }
            } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Ten units free, a cent each up to a thousand, then five dollars a started thousand.
    fn curve(bulk: bool) -> PriceCurve {
        let component = json!({"bulk_pricing_enabled": bulk, "tiers": [
            {"type": "free", "range_start": 0, "range_end": 10},
            {"type": "per_unit", "range_start": 10, "range_end": 1000, "cost_per_batch": 0.01, "metric_units_per_batch": 1,
             "batch_rounding_type": "no_rounding"},
            {"type": "per_unit", "range_start": 1000, "range_end": null, "cost_per_batch": 5, "metric_units_per_batch": 1000,
             "batch_rounding_type": "round_up"},
        ]});
        PriceCurve::of("v1".to_owned(), &component).expect("tiers")
    }

    fn rows(table: &str) -> Vec<Vec<String>> {
        let cell = |cell: &str| cell.split("</td>").next().unwrap_or_default().replace("<span class=\"amount\">", "");
        let cell = |text: &str| cell(text).replace(" <span class=\"unit\">USD</span></span>", "");
        table.split("<tr>").skip(2).map(|row| row.split("<td class=\"right\">").skip(1).map(cell).collect()).collect()
    }

    #[test]
    fn figures_go_through_the_bounds_and_beyond() {
        #[rustfmt::skip]
        let wanted = [
            // units,   price,    why
            ("0",       "0.00",   "nothing"),
            ("1",       "0.00",   "the first unit"),
            ("10",      "0.00",   "a bound belongs to the tier below"),
            ("11",      "0.01",   "one unit behind it"),
            ("1,000",   "9.90",   "the next bound"),
            ("1,001",   "14.90",  "a started batch"),
            ("1,500",   "14.90",  "as far as the picture goes"),
            ("15,000",  "79.90",  "and beyond: fourteen batches"),
        ];
        let shown = rows(&table(&[&curve(false)], &json!("USD")).into_string());
        let shown: Vec<(&str, &str)> = shown.iter().map(|row| (&*row[0], &*row[1])).collect();
        assert_eq!(shown, wanted.map(|(units, price, _)| (units, price)));
    }

    #[test]
    fn two_curves_show_what_they_differ_by() {
        let (first, second) = (curve(false), curve(true));
        let shown = rows(&table(&[&first, &second], &json!("USD")).into_string());
        let at = |units: &str| shown.iter().find(|row| row[0] == units).map(|row| row[1..].to_vec());
        assert_eq!(
            at("1,000"),
            Some(["9.90", "10.00", "0.10"].map(str::to_owned).to_vec()),
            "in bulk the free ten cost too"
        );
    }

    #[test]
    fn a_line_begins_at_nothing_and_ends_at_the_top() {
        let drawn = picture(&[&curve(false)], &json!("USD"), "Calls <b>").into_string();
        let points = |line: &str| -> Vec<(f64, f64)> {
            let points = line.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("points");
            let pair = |point: &str| point.split_once(',').map(|(x, y)| (number_of(x), number_of(y))).expect("two");
            points.split_whitespace().map(pair).collect()
        };
        // The axes are drawn by lines, too; that of prices alone has so many points.
        let all: Vec<_> = drawn.split("<polyline").skip(1).map(points).collect();
        let line = all.iter().max_by_key(|line| line.len()).expect("a line");
        let (first, last) = (line[0], line[line.len() - 1]);
        let [left, bottom, right, top] = [first.0, first.1, last.0, last.1];
        assert!(left < right && top < bottom, "{first:?} {last:?}");
        // 1,000 of 1,500 units is at two thirds: 9.90 of 14.90 there, all of it just behind.
        let x = left + (right - left) * 2.0 / 3.0;
        let bound = line.iter().position(|(at, _)| (at - x).abs() <= 2.0).expect("the bound");
        let high = bottom - (bottom - top) * 9.9 / 14.9;
        assert!((line[bound].1 - high).abs() <= 2.0, "{:?} is not at {high}", line[bound]);
        assert!(
            line[bound..bound + 3].iter().any(|(at, y)| (at - x).abs() <= 2.0 && (y - top).abs() <= 2.0),
            "it jumps: {line:?}"
        );
        assert!(drawn.contains("Calls &lt;b&gt;") && drawn.contains(">USD<"), "{drawn}");
    }

    #[test]
    fn what_costs_nothing_is_drawn_and_what_cannot_be_is_refused() {
        let free = json!({"tiers": [{"type": "free", "range_start": 0, "range_end": null}]});
        let drawn = picture(&[&PriceCurve::of(String::new(), &free).expect("tiers")], &json!("USD"), "").into_string();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        let broken = json!({"tiers": [{"type": "free", "range_start": 5, "range_end": null}]});
        assert!(PriceCurve::of(String::new(), &broken).is_err(), "the engine takes no gap");
    }
}
