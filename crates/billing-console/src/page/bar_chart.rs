//! A picture of bars. Whatever it shows stands in a table beneath it as well.

use maud::{Markup, html};
use serde_json::Value;

use crate::show;

/// Size of the picture, in its own units.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 220.0;
/// Of a few.
const BAR_WIDTH_MAX: f64 = 48.0;

/// A number to draw by. Figures are shown from their digits, never from this.
fn drawn(quantity: &Value) -> f64 {
    show::plain(quantity).parse::<f64>().ok().filter(|drawn| drawn.is_finite() && *drawn > 0.0).unwrap_or(0.0)
}

/// A bar for each name and quantity, the highest as high as the picture; beneath it `ends`, what the first stands for and what the last.
pub(super) fn bar_chart(bars: &[(String, &Value)], ends: &[Markup], title: &str) -> Markup {
    let highest = bars.iter().map(|(_, quantity)| drawn(quantity)).fold(0.0, f64::max);
    let count = u32::try_from(bars.len()).map_or(f64::INFINITY, f64::from);
    let step = WIDTH / count;
    let bars = bars.iter().zip(0_u32..).map(|((name, quantity), place)| {
        let height = if highest > 0.0 { HEIGHT * drawn(quantity) / highest } else { 0.0 };
        let x = step * f64::from(place);
        (
            format!("{x:.2}"),
            format!("{:.2}", HEIGHT - height),
            format!("{:.2}", (step * 0.8).clamp(0.5, BAR_WIDTH_MAX)),
            format!("{height:.2}"),
            format!("{name}: {}", show::number(quantity)),
        )
    });
    html! {
        figure.chart {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(title) {
                @for (x, y, width, height, name) in bars {
                    rect x=(x) y=(y) width=(width) height=(height) { title { (name) } }
                }
            }
            figcaption { @for end in ends { span { (end) } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_quantities() {
        let quantity = |digits: &str| serde_json::from_str::<Value>(digits).expect("a number");
        let quantities = ["0", "50.5", "101", "-1"].map(quantity);
        let bars: Vec<_> = quantities.iter().zip(1..).map(|(one, day)| (format!("2026-01-0{day}"), one)).collect();
        let drawn = bar_chart(&bars, &[], "Calls <b>").into_string();
        let heights: Vec<&str> =
            drawn.split(" height=\"").skip(1).map(|bar| bar.split('"').next().expect("an end")).collect();
        assert_eq!(heights, ["0.00", "110.00", "220.00", "0.00"], "{drawn}");
        assert!(drawn.contains("2026-01-02: 50.5") && drawn.contains("Calls &lt;b&gt;"), "{drawn}");
        assert!(!drawn.contains("NaN"), "{drawn}");
        let nothing = bar_chart(&bars[..1], &[], "").into_string();
        assert!(
            nothing.contains("height=\"0.00\"") && !nothing.contains("NaN") && !nothing.contains("inf"),
            "{nothing}"
        );
    }
}
