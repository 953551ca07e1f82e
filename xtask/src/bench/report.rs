//! What was measured, as a table to read and JSON to keep.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::beside::mean;
use super::load::Outcome;

/// One figure and what it is held against.
pub struct Row {
    /// What was measured.
    pub name: String,
    /// How much a second.
    pub rate: f64,
    /// Of what.
    pub unit: &'static str,
    /// The name of what it is held against, and the rates a second that were measured of it.
    pub baseline: Option<(&'static str, Vec<f64>)>,
    /// How long answers took.
    pub latency: Option<Latency>,
    /// How long answers of the baseline took, as often as it was measured.
    pub baseline_latencies: Vec<Latency>,
}

/// Microseconds of answers.
#[derive(Clone, Copy)]
pub struct Latency {
    /// Half came within these.
    pub p50_us: u64,
    /// 99 of 100 came within these in most slices of the run.
    pub p99_us: u64,
    /// 99 of 100 of the whole run came within these.
    pub p99_whole_us: u64,
}

impl Latency {
    /// Of the answers of a run.
    pub fn of(outcome: &Outcome) -> Self {
        Self {
            p50_us: outcome.quantile_us(0.5),
            p99_us: outcome.steady_p99_us(),
            p99_whole_us: outcome.quantile_us(0.99),
        }
    }
}

impl Row {
    /// A rate alone.
    pub fn rate(name: impl Into<String>, rate: f64, unit: &'static str) -> Self {
        Self { name: name.into(), rate, unit, baseline: None, latency: None, baseline_latencies: Vec::new() }
    }

    /// With what the rate is held against: the mean of these.
    #[must_use]
    pub fn against(self, name: &'static str, rates: &[f64]) -> Self {
        Self { baseline: Some((name, rates.to_vec())), ..self }
    }

    /// With the latencies of a run.
    #[must_use]
    pub fn with_latency(self, outcome: &Outcome) -> Self {
        Self { latency: Some(Latency::of(outcome)), ..self }
    }

    /// With the latencies that its own is held against: the mean of these.
    #[must_use]
    pub fn against_latency(self, latencies: &[Latency]) -> Self {
        Self { baseline_latencies: latencies.to_vec(), ..self }
    }

    fn ratio(&self) -> Option<f64> {
        self.baseline.as_ref().map(|(_, rates)| self.rate / mean(rates))
    }

    fn p99_ratio(&self, p99_us: impl Fn(&Latency) -> u64) -> Option<f64> {
        let latency = self.latency.as_ref().filter(|_| !self.baseline_latencies.is_empty())?;
        let baseline: Vec<f64> = self.baseline_latencies.iter().map(|latency| p99_us(latency) as f64).collect();
        Some(p99_us(latency) as f64 / mean(&baseline).max(1.0))
    }

    fn json(&self) -> Value {
        let thousandths = |ratio: f64| (ratio * 1000.0).round() / 1000.0;
        let rates = self.baseline.as_ref().map(|(_, rates)| rates);
        let latency = self.latency.as_ref();
        json!({
            "name": self.name,
            "per_second": self.rate.round(),
            "unit": self.unit,
            "baseline": self.baseline.as_ref().map(|(name, _)| name),
            "baseline_rate": rates.map(|rates| mean(rates).round()),
            "baseline_rates": rates.map(|rates| rates.iter().map(|rate| rate.round()).collect::<Vec<_>>()),
            "ratio": self.ratio().map(thousandths),
            "p50_us": latency.map(|latency| latency.p50_us),
            "p99_us": latency.map(|latency| latency.p99_us),
            "p99_whole_us": latency.map(|latency| latency.p99_whole_us),
            "baseline_p99s_us": self.baseline_latencies.iter().map(|latency| latency.p99_us).collect::<Vec<_>>(),
            "p99_ratio": self.p99_ratio(|latency| latency.p99_us).map(thousandths),
            "p99_whole_ratio": self.p99_ratio(|latency| latency.p99_whole_us).map(thousandths),
        })
    }

    /// What it is held against, with its rates where these are several.
    fn beside(&self) -> Option<String> {
        let (name, rates) = self.baseline.as_ref()?;
        let several = rates.iter().map(|rate| format!("{rate:.0}")).collect::<Vec<_>>().join(" and ");
        Some(if rates.len() > 1 { format!("  of {name}: {several}") } else { format!("  of {name}") })
    }
}

/// All figures of a run.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
    notes: Vec<(String, Value)>,
}

impl Report {
    /// Adds a figure, and shows it at once.
    pub fn add(&mut self, row: Row) {
        if self.rows.is_empty() {
            println!(
                "{:<58} {:>12} {:<9} {:>7} {:>9} {:>9} {:>7}",
                "", "a second", "", "ratio", "p50 us", "p99 us", "p99 x"
            );
        }
        let text = |figure: Option<String>| figure.unwrap_or_default();
        println!(
            "{:<58} {:>12.0} {:<9} {:>7} {:>9} {:>9} {:>7}{}",
            row.name,
            row.rate,
            row.unit,
            text(row.ratio().map(|ratio| format!("{ratio:.2}"))),
            text(row.latency.as_ref().map(|latency| latency.p50_us.to_string())),
            text(row.latency.as_ref().map(|latency| latency.p99_us.to_string())),
            text(row.p99_ratio(|latency| latency.p99_us).map(|ratio| format!("{ratio:.2}"))),
            text(row.beside()),
        );
        self.rows.push(row);
    }

    /// Adds a fact about the run.
    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        println!("{name}: {value}");
        self.keep(name, value);
    }

    /// Adds a fact that was shown already.
    pub fn keep(&mut self, name: &str, value: impl Into<Value>) {
        self.notes.push((name.to_owned(), value.into()));
    }

    /// Writes everything as JSON.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, file: &Path) -> anyhow::Result<()> {
        let mut all: serde_json::Map<String, Value> = self.notes.iter().cloned().collect();
        all.insert("rows".to_owned(), self.rows.iter().map(Row::json).collect());
        let text = serde_json::to_string_pretty(&all)?;
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("written to {}", file.display());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_held_against_the_mean_of_its_neighbours() {
        let row = Row::rate("track", 60.0, "events").against("staged insert", &[100.0, 140.0]);
        let json = row.json();
        assert_eq!(json["ratio"], 0.5);
        assert_eq!(json["baseline_rate"], 120.0);
        assert_eq!(json["baseline_rates"], json!([100.0, 140.0]));
        assert_eq!(row.beside().as_deref(), Some("  of staged insert: 100 and 140"));
        let alone = Row::rate("COPY", 60.0, "rows").json();
        assert_eq!((&alone["ratio"], &alone["baseline_rate"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn so_is_its_latency() {
        let latency = |p99_us, p99_whole_us| Latency { p50_us: 5, p99_us, p99_whole_us };
        let row = Row { latency: Some(latency(30, 90)), ..Row::rate("access", 60.0, "requests") };
        assert_eq!(row.json()["p99_ratio"], Value::Null, "nothing to hold it against");
        let json = row.against_latency(&[latency(10, 20), latency(20, 40)]).json();
        assert_eq!((&json["p99_us"], &json["p99_whole_us"]), (&json!(30), &json!(90)));
        assert_eq!((&json["p99_ratio"], &json["p99_whole_ratio"]), (&json!(2.0), &json!(3.0)));
        assert_eq!(json["baseline_p99s_us"], json!([10, 20]));
    }
}
