//! What was measured, as a table to read and JSON to keep.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::load::Outcome;

/// One figure and what it is held against.
pub struct Row {
    /// What was measured.
    pub name: String,
    /// How much a second.
    pub rate: f64,
    /// Of what.
    pub unit: &'static str,
    /// The name and the rate a second of what it is held against.
    pub baseline: Option<(&'static str, f64)>,
    /// Microseconds within which half and 99 of 100 answers came, at a fixed rate.
    pub latency_us: Option<(u64, u64)>,
    /// The 99 of 100 of the baseline.
    pub baseline_p99_us: Option<u64>,
}

impl Row {
    /// A rate alone.
    pub fn rate(name: impl Into<String>, rate: f64, unit: &'static str) -> Self {
        Self { name: name.into(), rate, unit, baseline: None, latency_us: None, baseline_p99_us: None }
    }

    /// With what the rate is held against.
    #[must_use]
    pub fn against(self, name: &'static str, rate: f64) -> Self {
        Self { baseline: Some((name, rate)), ..self }
    }

    /// With the latencies of a run at a fixed rate.
    #[must_use]
    pub fn with_latency(self, outcome: &Outcome) -> Self {
        Self { latency_us: Some((outcome.quantile_us(0.5), outcome.quantile_us(0.99))), ..self }
    }

    /// With the latency that its own is held against.
    #[must_use]
    pub fn against_p99(self, p99_us: u64) -> Self {
        Self { baseline_p99_us: Some(p99_us), ..self }
    }

    fn ratio(&self) -> Option<f64> {
        self.baseline.map(|(_, baseline)| self.rate / baseline)
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "per_second": self.rate.round(),
            "unit": self.unit,
            "baseline": self.baseline.map(|(name, _)| name),
            "ratio": self.ratio().map(|ratio| (ratio * 1000.0).round() / 1000.0),
            "p50_us": self.latency_us.map(|(p50, _)| p50),
            "p99_us": self.latency_us.map(|(_, p99)| p99),
            "p99_ratio": self.p99_ratio().map(|ratio| (ratio * 1000.0).round() / 1000.0),
        })
    }

    fn p99_ratio(&self) -> Option<f64> {
        let ((_, p99), baseline) = (self.latency_us?, self.baseline_p99_us?);
        Some(p99 as f64 / baseline.max(1) as f64)
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
            text(row.latency_us.map(|(p50, _)| p50.to_string())),
            text(row.latency_us.map(|(_, p99)| p99.to_string())),
            text(row.p99_ratio().map(|ratio| format!("{ratio:.2}"))),
            text(row.baseline.map(|(name, _)| format!("  of {name}"))),
        );
        self.rows.push(row);
    }

    /// Adds a fact about the run.
    pub fn note(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        println!("{name}: {value}");
        self.notes.push((name.to_owned(), value));
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
