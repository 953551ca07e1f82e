//! What a quantity costs by the tiers of a component, as a picture and as a table. Every price is asked of the engine that bills.

use std::collections::BTreeSet;

use billing_domain::BigDecimal;
use billing_domain::decimal::{parse, plain};
use billing_domain::tier::{BatchRounding, Tier, TierPrice, TierSchedule};
use maud::{Markup, html};
use serde_json::Value;

use crate::api::Failure;
use crate::{show, text};

/// Size of the picture, in its own units.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 220.0;
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

/// A number to draw by. Figures are shown from their digits, never from this.
fn drawn(number: &BigDecimal) -> f64 {
    plain(number).parse::<f64>().ok().filter(|drawn| drawn.is_finite()).unwrap_or(0.0)
}

/// A share of a length, of a whole that may be nothing.
fn scaled(part: &BigDecimal, whole: &BigDecimal, length: f64) -> f64 {
    let whole = drawn(whole);
    if whole > 0.0 { length * drawn(part) / whole } else { 0.0 }
}

/// A line for each of the curves, which are in one currency: through the bounds of their tiers and beyond.
pub(super) fn chart(curves: &[&PriceCurve], currency: &Value, title: &str) -> Markup {
    let (bounds, widest) = reach(curves);
    // A tier begins behind its bound: a price that jumps there is asked for on both sides.
    let step = &widest / BigDecimal::from(10_000);
    let mut asked: BTreeSet<BigDecimal> = bounds.iter().flat_map(|bound| [bound.clone(), bound + &step]).collect();
    asked.extend((0..=SAMPLES).map(|place| &widest * BigDecimal::from(place) / BigDecimal::from(SAMPLES)));
    asked.insert(step);
    let lines = curves.iter().map(|curve| asked.iter().map(|quantity| (quantity, curve.price(quantity))).collect());
    let lines: Vec<Vec<(&BigDecimal, BigDecimal)>> = lines.collect();
    let highest = lines.iter().flatten().map(|(_, price)| price).max().cloned().unwrap_or_default();
    let points = lines.iter().map(|line| {
        let at = |(quantity, price): &(&BigDecimal, BigDecimal)| {
            let (x, y) = (scaled(quantity, &widest, WIDTH), HEIGHT - scaled(price, &highest, HEIGHT));
            format!("{x:.1},{y:.1}")
        };
        line.iter().map(at).collect::<Vec<_>>().join(" ")
    });
    html! {
        figure.chart.curve {
            p.quiet { (text::UP_TO) " " (show::amount(&plain(&highest).into(), currency)) }
            svg viewBox={ "0 -3 " (WIDTH) " " (HEIGHT + 6.0) } preserveAspectRatio="none" role="img" aria-label=(title) {
                @for bound in &bounds {
                    @let x = format!("{:.1}", scaled(bound, &widest, WIDTH));
                    line x1=(x) x2=(x) y1="0" y2=(HEIGHT) { title { (show::number(&plain(bound).into())) } }
                }
                @for (place, points) in points.enumerate() { polyline.second[place > 0] points=(points) {} }
            }
            figcaption {
                span { "0" }
                @if curves.len() > 1 { @for (place, curve) in curves.iter().enumerate() {
                    span.key.second[place > 0] { (curve.name) }
                } }
                span { (show::number(&plain(&widest).into())) " " (text::SOME_UNITS) }
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
        let drawn = chart(&[&curve(false)], &json!("USD"), "Calls <b>").into_string();
        let points = drawn.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a line");
        let points: Vec<&str> = points.split(' ').collect();
        assert_eq!((points[0], points[points.len() - 1]), ("0.0,220.0", "960.0,0.0"), "{drawn}");
        // 1,000 of 1,500 units is at 640 of 960: 9.90 of 14.90 there, all of it just behind.
        let bound = points.iter().position(|point| *point == "640.0,73.8").expect("the bound");
        assert_eq!(points[bound + 1], "640.1,0.0", "it jumps behind the bound");
        assert!(drawn.contains("Calls &lt;b&gt;") && drawn.contains(">14.90 <"), "{drawn}");
        assert_eq!(drawn.matches("<line").count(), 2, "a mark at each bound");
    }

    #[test]
    fn what_costs_nothing_is_drawn_at_the_bottom() {
        let free = json!({"tiers": [{"type": "free", "range_start": 0, "range_end": null}]});
        let drawn = chart(&[&PriceCurve::of(String::new(), &free).expect("tiers")], &json!("USD"), "").into_string();
        assert!(drawn.contains("960.0,220.0") && !drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
        let broken = json!({"tiers": [{"type": "free", "range_start": 5, "range_end": null}]});
        assert!(PriceCurve::of(String::new(), &broken).is_err(), "the engine takes no gap");
    }
}
