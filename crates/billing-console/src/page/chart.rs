//! Charts as pictures: SVG, once for wide screens and once for phones, on which the letters of the wide one could not be read. Colours are
//! those of the page: the style sheet has one for each that is drawn with here. Whatever a chart shows stands in a table as well.

use std::io;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::prelude::{
    ChartBuilder, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea as _, LineSeries, PathElement, RGBColor,
    Rectangle, SVGBackend, ShapeStyle,
};
use plotters::style::Color as _;
use serde_json::Value;

use crate::show;

/// What is drawn by: bars and the first line, the second line, and what measures them.
const INK: [RGBColor; 2] = [RGBColor(0x1d, 0x4e, 0xd8), RGBColor(0xb4, 0x53, 0x09)];
const GRID: RGBColor = RGBColor(0xcc, 0xcc, 0xcc);
const MARK: RGBColor = RGBColor(0x99, 0x99, 0x99);
/// Pictures are so many times as large as they are shown at most: the library draws between whole places only.
const SCALE: u32 = 4;
/// The library makes letters a fifth smaller.
const FONT: (&str, u32) = ("sans-serif", 16 * SCALE);
/// Nothing that a page needs, and an address, of which pages have none.
const NAMESPACE: &str = " xmlns=\"http://www.w3.org/2000/svg\"";
/// About what a digit takes.
const DIGIT_WIDTH: u32 = 8 * SCALE;
/// Fewer bars are as wide as those of so many.
const BARS_MIN: u32 = 20;

/// A picture for some screens.
struct Size {
    /// How the style sheet calls them.
    class: &'static str,
    width: u32,
    height: u32,
    /// About so many labels stand below.
    labels: usize,
}

const SIZES: [Size; 2] = [
    Size { class: "wide", width: 1_000 * SCALE, height: 240 * SCALE, labels: 10 },
    Size { class: "slim", width: 330 * SCALE, height: 220 * SCALE, labels: 3 },
];

type Fault = DrawingAreaErrorKind<io::Error>;
type Area<'p> = DrawingArea<SVGBackend<'p>, Shift>;

/// What is measured from 0 on in both directions.
struct Axes<'c> {
    /// Where the horizontal axis begins and ends.
    x: (f64, f64),
    /// Where the vertical one ends, above 0.
    top: f64,
    /// What is written below a place; nothing where none is.
    name: &'c dyn Fn(f64) -> String,
}

/// A bar for each name, which must be short, and quantity; what is not above 0 has none.
pub(super) fn bars(bars: &[(String, &Value)], title: &str) -> Markup {
    let heights: Vec<f64> = bars.iter().map(|(_, quantity)| number_of(&show::plain(quantity))).collect();
    let count = u32::try_from(bars.len()).unwrap_or(u32::MAX).max(BARS_MIN);
    // Places are whole numbers, with their bars around them.
    let name = |place: f64| {
        let named = bars.iter().zip(0_u32..).find(|(_, number)| f64::from(*number) == place);
        named.map(|((name, _), _)| name.clone()).unwrap_or_default()
    };
    let axes = Axes { x: (-0.5, f64::from(count) - 0.5), top: top_of(&heights), name: &name };
    picture(title, &|size, area| {
        let mut chart = ChartBuilder::on(area);
        let mut chart = axes.on(&mut chart, size)?;
        let bar = |(height, place): (&f64, u32)| {
            let place = f64::from(place);
            Rectangle::new([(place - 0.4, 0.0), (place + 0.4, *height)], INK[0].filled())
        };
        let high = heights.iter().zip(0_u32..).filter(|(height, _)| **height > 0.0);
        chart.draw_series(high.map(bar)).map(drop)
    })
}

/// Lines through points, with marks at some places from left to right.
pub(super) fn lines(lines: &[Vec<(f64, f64)>], marks: &[f64], widest: f64, title: &str) -> Markup {
    let heights: Vec<f64> = lines.iter().flatten().map(|(_, height)| *height).collect();
    let axes = Axes { x: (0.0, above_nothing(widest)), top: top_of(&heights), name: &|place| figure(place, widest) };
    picture(title, &|size, area| {
        let mut chart = ChartBuilder::on(area);
        let mut chart = axes.on(&mut chart, size)?;
        let mark = |place: &f64| {
            PathElement::new(vec![(*place, 0.0), (*place, axes.top)], ShapeStyle::from(MARK).stroke_width(SCALE))
        };
        chart.draw_series(marks.iter().map(mark))?;
        for (line, ink) in lines.iter().zip(INK) {
            chart.draw_series(LineSeries::new(line.iter().copied(), ShapeStyle::from(ink).stroke_width(2 * SCALE)))?;
        }
        Ok(())
    })
}

/// A number to draw by. Figures are shown from their digits, never from this.
pub(super) fn number_of(digits: &str) -> f64 {
    digits.parse::<f64>().ok().filter(|number| number.is_finite()).unwrap_or(0.0)
}

fn above_nothing(number: f64) -> f64 {
    if number > 0.0 { number } else { 1.0 }
}

fn top_of(heights: &[f64]) -> f64 {
    above_nothing(heights.iter().copied().fold(0.0, f64::max))
}

/// What an axis that goes as far as `end` says at a place: with as many decimals as tell its places from each other.
fn figure(place: f64, end: f64) -> String {
    let digits = (0_i32..18).find(|digits| 10_f64.powi(-digits) <= end / 100.0).unwrap_or(18);
    let digits = format!("{place:.*}", usize::try_from(digits).unwrap_or_default());
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    show::number(&digits.into())
}

impl Axes<'_> {
    fn on<'a, 'p>(
        &self,
        chart: &mut ChartBuilder<'a, '_, SVGBackend<'p>>,
        size: &Size,
    ) -> Result<Chart<'a, 'p>, Fault> {
        let height = |place: &f64| figure(*place, self.top);
        // However long a label is, most of the picture is left.
        let room = |label: &str| {
            u32::try_from(label.len()).unwrap_or_default().saturating_mul(DIGIT_WIDTH).min(size.width / 3)
        };
        // The last label below stands half beyond the end.
        let right = room(&(self.name)(self.x.1)) / 2;
        let grid = ShapeStyle::from(GRID).stroke_width(SCALE);
        let mut chart = chart
            .margin(8 * SCALE)
            .margin_right(8 * SCALE + right)
            .x_label_area_size(26 * SCALE)
            .y_label_area_size(room(&height(&self.top)) + 20 * SCALE)
            .build_cartesian_2d(self.x.0..self.x.1, 0.0..self.top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .max_light_lines(0)
            .bold_line_style(grid)
            .axis_style(grid)
            .set_all_tick_mark_size(5 * SCALE)
            .label_style(FONT)
            .x_labels(size.labels)
            .y_labels(5)
            .x_label_formatter(&|place| (self.name)(*place))
            .y_label_formatter(&height)
            .draw()?;
        Ok(chart)
    }
}

type Chart<'a, 'p> = plotters::chart::ChartContext<
    'a,
    SVGBackend<'p>,
    plotters::coord::cartesian::Cartesian2d<
        plotters::coord::types::RangedCoordf64,
        plotters::coord::types::RangedCoordf64,
    >,
>;

/// The pictures for all screens, of which each shows one. What could not be drawn is left out: the table has it.
fn picture(title: &str, draw: &dyn Fn(&Size, &Area<'_>) -> Result<(), Fault>) -> Markup {
    let drawn = |size: &Size| {
        let mut svg = String::new();
        let area = SVGBackend::with_string(&mut svg, (size.width, size.height)).into_drawing_area();
        let done = draw(size, &area).and_then(|()| area.present());
        drop(area);
        done.map(|()| svg.replacen(NAMESPACE, "", 1)).unwrap_or_default()
    };
    html! {
        @for size in &SIZES { div class=(size.class) role="img" aria-label=(title) { (PreEscaped(drawn(size))) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of an attribute, in order.
    fn values<'m>(markup: &'m str, attribute: &str) -> Vec<&'m str> {
        let begin = format!(" {attribute}=\"");
        markup.split(&begin).skip(1).map(|rest| rest.split('"').next().expect("an end")).collect()
    }

    /// The picture for wide screens.
    fn wide(markup: &Markup) -> String {
        markup.0.split("class=\"slim\"").next().expect("a part").to_owned()
    }

    #[test]
    fn bars_are_as_high_as_their_quantities() {
        let quantity = |digits: &str| serde_json::from_str::<Value>(digits).expect("a number");
        let quantities = ["0", "50.5", "101", "-1"].map(quantity);
        let of_days: Vec<_> = quantities.iter().zip(1..).map(|(one, day)| (format!("01-0{day}"), one)).collect();
        let drawn = bars(&of_days, "Calls <b>");
        let picture = wide(&drawn);
        let bars_of: Vec<&str> = picture.split("<rect").skip(1).collect();
        let heights: Vec<f64> = bars_of.iter().map(|bar| number_of(values(bar, "height")[0])).collect();
        assert_eq!(heights.len(), 2, "what is nothing has no bar: {picture}");
        assert!((heights[0] * 2.0 - heights[1]).abs() <= 2.0, "{heights:?}");
        for label in ["\n01-01\n", "\n50\n", "\n100\n"] {
            assert!(picture.contains(label), "{label:?}: {picture}");
        }
        assert!(picture.contains("aria-label=\"Calls &lt;b&gt;\""), "{picture}");
        for nothing in [bars(&of_days[..1], ""), bars(&[], "")] {
            assert!(!nothing.0.contains("NaN") && !nothing.0.contains("inf"), "{}", nothing.0);
        }
    }

    #[test]
    fn axes_tell_their_places_apart() {
        #[rustfmt::skip]
        let cases = [
            // place,          end,       written,     why
            (1_500.0,          2_000.0,   "1,500",     "thousands apart"),
            (0.1 + 0.2,        1.0,       "0.3",       "no digit that the machine has made up"),
            (0.000_02,         0.000_1,   "0.00002",   "small prices"),
            (0.0,              5.0,       "0",         "nothing"),
            (12.5,             20.0,      "12.5",      "halves"),
        ];
        for (place, end, written, why) in cases {
            assert_eq!(figure(place, end), written, "{why}");
        }
    }

    #[test]
    fn whatever_the_figures_are_there_is_a_picture() {
        for digits in
            ["5e-324", "1e-300", "0.000000000000001", "99999999999999999999.5", "1e300", "1.7976931348623157e308"]
        {
            let number = number_of(digits);
            let drawn = lines(&[vec![(0.0, 0.0), (number, number)]], &[number], number, "");
            assert!(drawn.0.contains("<svg") && !drawn.0.contains("NaN"), "{digits}: {}", drawn.0);
            let quantity = Value::from(number);
            let drawn = bars(&[("01-01".to_owned(), &quantity), (String::new(), &Value::Null)], "");
            assert!(drawn.0.contains("<svg") && !drawn.0.contains("NaN"), "{digits}: {}", drawn.0);
        }
    }

    #[test]
    fn nothing_in_a_picture_is_style_or_script() {
        let drawn = lines(&[vec![(0.0, 0.0), (10.0, 5.0)], vec![(0.0, 1.0)]], &[4.0], 10.0, "\"><script>");
        assert!(
            !drawn.0.contains("style") && !drawn.0.contains("<script") && !drawn.0.contains("http:"),
            "{}",
            drawn.0
        );
    }
}
