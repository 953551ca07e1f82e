//! `billing-http demo`: the main job on real input, through the service's own HTTP interface.
//!
//! The events are the public commit histories of several open-source billing systems, authors hashed. Every
//! author becomes a customer that lives by a test clock frozen at the start of a busy month; the clock then
//! advances past the month's end, and out come the invoices.

mod catalog;
mod client;
mod commits;
mod report;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use billing_domain::id::OrganizationId;
use billing_domain::store::{EventIngest, Window};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

pub use client::Client;
pub use commits::Commits;

use crate::backend::Backend;

/// Customers are set up by this many clients at once.
const CLIENTS: usize = 4;
/// Events handed to the store at once.
const EVENTS_AT_ONCE: usize = 5_000;
/// How often the clock is asked whether it has arrived.
const CLOCK_PAUSE: Duration = Duration::from_millis(200);

/// The demo against a running service.
pub struct Demo<'d> {
    /// Speaks to the service with the key of the demo's organization.
    pub client: &'d Client,
    /// The store behind the service: events of past years are back-filled, not tracked.
    pub backend: &'d dyn Backend,
    /// The demo's organization.
    pub organization: OrganizationId,
}

impl Demo<'_> {
    /// Sets everything up that is not there yet, bills it, and writes the report to `out`.
    ///
    /// # Errors
    /// What the service or the store refused.
    pub fn run(&self, commits: &Commits, out: &mut dyn Write) -> anyhow::Result<()> {
        match catalog::find(self.client)? {
            Some(catalog) => {
                writeln!(out, "The demo has run in this data folder before; this is what is there.")?;
                report::write(self.client, &catalog, commits, out)
            }
            None => {
                let catalog = self.set_up(commits, out)?;
                report::write(self.client, &catalog, commits, out)
            }
        }
    }

    fn set_up(&self, commits: &Commits, out: &mut dyn Write) -> anyhow::Result<catalog::Catalog> {
        writeln!(out, "{} commits by {} authors, from {} to {}", commits.events.len(), commits.authors().len(),
            commits.first_day(), commits.last_day())?;
        let catalog = catalog::define(self.client)?;
        writeln!(out, "defined two metrics, one plan, and a test clock frozen at {}", commits::MONTH_START)?;
        self.subscribe(&catalog, commits)?;
        let started = Instant::now();
        self.import(commits)?;
        let per_second = commits.events.len() as u128 * 1_000 / started.elapsed().as_millis().max(1);
        writeln!(out, "imported {} events, {per_second} events per second", commits.events.len())?;
        let started = Instant::now();
        self.advance(&catalog)?;
        writeln!(out, "advanced the clock to {} and billed every customer, in {} s", commits::BILLED_AT,
            started.elapsed().as_secs())?;
        Ok(catalog)
    }

    /// Makes a customer and a subscription of every author.
    fn subscribe(&self, catalog: &catalog::Catalog, commits: &Commits) -> anyhow::Result<()> {
        let authors = commits.authors();
        let bar = progress(authors.len(), "customers and subscriptions");
        let share = authors.len().div_ceil(CLIENTS).max(1);
        thread::scope(|scope| {
            let threads: Vec<_> = authors
                .chunks(share)
                .map(|own| {
                    let bar = &bar;
                    scope.spawn(move || {
                        for author in own {
                            catalog.subscribe(self.client, author)?;
                            bar.inc(1);
                        }
                        anyhow::Ok(())
                    })
                })
                .collect();
            for thread in threads {
                thread.join().map_err(|_| anyhow::anyhow!("a client panicked"))??;
            }
            Ok(())
        })
    }

    fn import(&self, commits: &Commits) -> anyhow::Result<()> {
        let bar = progress(commits.events.len(), "events");
        for events in commits.events.chunks(EVENTS_AT_ONCE) {
            let ingest: &dyn EventIngest = self.backend;
            ingest.ingest(self.organization, events, Window::Open)?;
            bar.inc(events.len() as u64);
        }
        Ok(())
    }

    fn advance(&self, catalog: &catalog::Catalog) -> anyhow::Result<()> {
        let path = format!("/api/test_clocks/{}/", catalog.clock);
        self.client.post(&format!("{path}advance/"), &json!({"frozen_time": commits::BILLED_AT}))?;
        let spinner = ProgressBar::new_spinner().with_message("billing every customer up to the clock's time");
        loop {
            let clock = self.client.get(&path)?;
            let status = clock.get("status").and_then(Value::as_str).context("a clock without status")?;
            ensure!(status != "failed", "the test clock failed to advance; the log says why");
            if status == "ready" {
                return Ok(());
            }
            spinner.tick();
            thread::sleep(CLOCK_PAUSE);
        }
    }
}

fn progress(length: usize, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} {elapsed}");
    let bar = ProgressBar::new(length as u64).with_message(what);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
