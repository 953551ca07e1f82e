//! `billing-http demo`: the main job on real input, through the service's own HTTP interface.
//!
//! The events are the public commit histories of several open-source billing systems, authors hashed. Every author becomes a
//! customer from the month of the first commit on; test clocks then advance past the month of each one's last, and out come the
//! invoices of eight years.

mod catalog;
mod client;
pub mod command;
mod commits;
mod report;

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use billing_domain::store::{EventIngest, Window};
use catalog::{Catalog, Stage};
pub use client::Client;
pub use commits::Commits;
use indicatif::{ProgressBar, ProgressStyle};

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
    /// Does whatever of the demo is not done yet, and writes the report to `out`. Interrupted, it goes on where
    /// it was; done, it says what is there.
    ///
    /// # Errors
    /// What the service or the store refused.
    pub fn run(&self, commits: &Commits, out: &mut dyn Write) -> anyhow::Result<()> {
        let authors = commits.authors();
        let catalog = catalog::define(self.client, &authors)?;
        let stage = catalog.stage(self.client)?;
        if stage == Stage::Billed {
            writeln!(out, "The demo has run in this data folder before; this is what is there.")?;
        }
        if stage == Stage::SettingUp {
            self.set_up(&catalog, commits, out)?;
        }
        if stage != Stage::Billed {
            let started = Instant::now();
            self.advance(&catalog)?;
            let seconds = started.elapsed().as_secs();
            let clocks = catalog.clocks.len();
            writeln!(out, "advanced {clocks} clocks, and billed every month of every customer, in {seconds} s")?;
        }
        report::write(self.client, &catalog, commits, out)
    }

    fn set_up(&self, catalog: &Catalog, commits: &Commits, out: &mut dyn Write) -> anyhow::Result<()> {
        let (events, authors, clocks) = (commits.events.len(), commits.authors().len(), catalog.clocks.len());
        let (shown, people) = (report::thousands(events), report::thousands(authors));
        writeln!(out, "{shown} commits by {people} authors, {} to {}", commits.first_day(), commits.last_day())?;
        writeln!(
            out,
            "defined two metrics, a plan, and {clocks} test clocks: one for each month in which authors were last seen"
        )?;
        self.subscribe(catalog, commits)?;
        writeln!(out, "made {people} customers, each with a subscription from the month of the first commit on")?;
        let started = Instant::now();
        self.import(commits)?;
        let per_second = events as u128 * 1_000 / started.elapsed().as_millis().max(1);
        let per_second = report::thousands(usize::try_from(per_second).unwrap_or(usize::MAX));
        writeln!(out, "imported {shown} events, {per_second} events per second")?;
        Ok(())
    }

    /// Makes a customer and a subscription of every author.
    fn subscribe(&self, catalog: &Catalog, commits: &Commits) -> anyhow::Result<()> {
        let authors = commits.authors();
        let bar = progress(authors.len(), "customers and subscriptions");
        let share = authors.len().div_ceil(CLIENTS).max(1);
        thread::scope(|scope| {
            let threads: Vec<_> = authors
                .chunks(share)
                .map(|some| {
                    let bar = &bar;
                    scope.spawn(move || {
                        for author in some {
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

    fn advance(&self, catalog: &Catalog) -> anyhow::Result<()> {
        let spinner = ProgressBar::new_spinner().with_message("billing every customer up to the clocks' times");
        catalog.advance(self.client)?;
        while catalog.stage(self.client)? != Stage::Billed {
            spinner.tick();
            thread::sleep(CLOCK_PAUSE);
        }
        spinner.finish_and_clear();
        Ok(())
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
