//! The page of `GET /metrics`: the counters and the state of the moment, in Prometheus's text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use billing_domain::decimal::plain;
use billing_domain::store::Backlog;
use billing_store::{ExpiringCredits, IssuedAmount, Load, Measured, ORGANIZATIONS_TOLD_MAX, OWN_CURRENCIES};
use time::OffsetDateTime;

use super::latency::seconds;
use super::log::unreadable;
use super::process::Process;
use super::{Calls, Telemetry, locked};
use crate::connections::ConnectionCounts;
use crate::delivery::Figures;

/// The media type of the format.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is shown of a moment beside the counters.
pub struct Moment<'m> {
    /// The connections.
    pub connections: ConnectionCounts,
    /// The places that may block on the database: how many are free, of how many.
    pub places: (usize, usize),
    /// How far billing is behind; `None`: the database did not answer in time.
    pub backlog: Option<Backlog>,
    /// What the store is busy with, where it tells.
    pub load: Option<&'m Load>,
    /// How messages are delivered.
    pub deliveries: Figures,
}

impl Telemetry {
    /// The page of [`MEDIA_TYPE`].
    pub fn page(&self, moment: Moment<'_>) -> String {
        let Moment { connections, places: (free, all), backlog, load, deliveries } = moment;
        let mut page = Page::default();
        page.service(self);
        page.process();
        page.connections(connections);
        page.places(free, all);
        page.database(backlog);
        page.deliveries(&deliveries);
        if let Some(load) = load {
            page.load(load);
        }
        page.text
    }
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, meaning: &str) {
        self.text.push_str(&format!("# HELP {name} {meaning}\n# TYPE {name} {kind}\n"));
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = match labels {
            "" => writeln!(self.text, "{name} {value}"),
            labels => writeln!(self.text, "{name}{{{labels}}} {value}"),
        };
    }

    fn one(&mut self, name: &str, kind: &str, meaning: &str, value: impl std::fmt::Display) {
        self.head(name, kind, meaning);
        self.line(name, "", value);
    }

    fn service(&mut self, telemetry: &Telemetry) {
        self.head("billing_build_info", "gauge", "Always 1; version and revision are in the labels.");
        let revision = option_env!("BILLING_REVISION").unwrap_or("unknown").replace(['\\', '"', '\n'], "");
        let labels = format!("version=\"{}\",revision=\"{revision}\"", env!("CARGO_PKG_VERSION"));
        self.line("billing_build_info", &labels, 1);

        self.calls(telemetry);
        let name = "billing_http_errors_total";
        self.head(name, "counter", "Error answers by code.");
        for (code, count) in locked(&telemetry.errors).iter() {
            self.line(name, &format!("code=\"{code}\""), count);
        }
        let name = "billing_http_unreadable_requests_total";
        let meaning = "Requests that could not be read or broke off before they were understood.";
        self.one(name, "counter", meaning, unreadable());
        // Read in this order, what has ended is never more than what has begun.
        let ended = telemetry.ended.load(Ordering::Relaxed);
        let in_flight = telemetry.begun.load(Ordering::Relaxed).saturating_sub(ended);
        self.one("billing_http_requests_in_flight", "gauge", "Requests at work.", in_flight);

        let name = "billing_events_total";
        self.head(name, "counter", "Events by what became of them.");
        for (outcome, counter) in [
            ("stored", &telemetry.events_stored),
            ("duplicate", &telemetry.events_known),
            ("refused", &telemetry.events_refused),
        ] {
            self.line(name, &format!("outcome=\"{outcome}\""), counter.load(Ordering::Relaxed));
        }
        let name = "billing_organization_events_total";
        self.head(name, "counter", "Events that this process has stored, of the ten organizations with the most.");
        for (organization, count) in locked(&telemetry.events_by_organization).largest(ORGANIZATIONS_TOLD_MAX) {
            self.line(name, &format!("organization=\"{organization}\""), count);
        }
    }

    fn calls(&mut self, telemetry: &Telemetry) {
        let calls = locked(&telemetry.calls);
        let all = || {
            calls.iter().flat_map(|(route, methods)| {
                methods.iter().map(move |(method, calls)| (format!("route=\"{route}\",method=\"{method}\""), calls))
            })
        };
        let name = "billing_http_requests_total";
        self.head(name, "counter", "Answers by route, method and status.");
        for (labels, Calls { by_status, .. }) in all() {
            for (status, count) in by_status {
                self.line(name, &format!("{labels},status=\"{status}\""), count);
            }
        }
        let name = "billing_http_request_duration_seconds";
        self.head(name, "histogram", "From the head of a request to the head of its answer, by route and method.");
        for (labels, Calls { latency, .. }) in all() {
            for (bound, count) in latency.cumulative() {
                self.line(&format!("{name}_bucket"), &format!("{labels},le=\"{bound}\""), count);
            }
            self.line(&format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), latency.count);
            self.line(&format!("{name}_sum"), &labels, latency.sum_seconds());
            self.line(&format!("{name}_count"), &labels, latency.count);
        }
    }

    fn process(&mut self) {
        let Some(process) = Process::now() else { return };
        let meaning = "Time that processors were at work for the process.";
        self.one("process_cpu_seconds_total", "counter", meaning, process.cpu_seconds());
        self.one("process_resident_memory_bytes", "gauge", "Memory in use.", process.resident_bytes);
        self.one("process_virtual_memory_bytes", "gauge", "Memory asked for.", process.virtual_bytes);
        self.one("process_open_fds", "gauge", "Open files and connections.", process.open_fds);
        if let Some(most) = process.max_fds {
            self.one("process_max_fds", "gauge", "Most files and connections that may be open.", most);
        }
        let meaning = "When the process began, in Unix time.";
        self.one("process_start_time_seconds", "gauge", meaning, process.start_seconds());
    }

    /// What this process has issued. Prometheus keeps floats, so it is for watching, and not for the books.
    fn issued(&mut self, issued: &BTreeMap<String, IssuedAmount>) {
        let name = "billing_invoices_issued_total";
        self.head(name, "counter", "Invoices that this process has issued, by currency.");
        for (code, IssuedAmount { invoices, .. }) in issued {
            self.line(name, &format!("currency=\"{code}\""), invoices);
        }
        let name = "billing_invoiced_amount_total";
        self.head(name, "counter", "What they come to, in major units of the currency.");
        let known = issued.iter().filter(|(code, _)| *code != OWN_CURRENCIES);
        for (code, IssuedAmount { amount, .. }) in known {
            self.line(name, &format!("currency=\"{code}\""), plain(amount));
        }
    }

    fn connections(&mut self, counts: ConnectionCounts) {
        self.one("billing_http_connections", "gauge", "Open connections.", counts.open);
        let name = "billing_http_connections_closed_total";
        self.head(name, "counter", "Connections that were closed because they waited too long, or too many did.");
        self.line(name, "reason=\"late\"", counts.closed_late);
        self.line(name, "reason=\"crowded\"", counts.closed_crowded);
    }

    fn places(&mut self, free: usize, all: usize) {
        let name = "billing_blocking_places";
        self.head(name, "gauge", "Requests that may use the database at once: none free means that others wait.");
        self.line(name, "state=\"free\"", free);
        self.line(name, "state=\"busy\"", all.saturating_sub(free));
    }

    fn database(&mut self, backlog: Option<Backlog>) {
        let is_up = u8::from(backlog.is_some());
        self.one("billing_database_up", "gauge", "Whether the database answered half a second long.", is_up);
        let Some(Backlog { customers, lag, failing, parked, catching_up }) = backlog else { return };
        self.one("billing_due_customers", "gauge", "Customers whose billing is due and not done.", customers);
        self.one(
            "billing_failing_customers",
            "gauge",
            "Those of them whose billing failed and is tried again.",
            failing,
        );
        self.one(
            "billing_parked_customers",
            "gauge",
            "Those of them that are left alone: it failed too often.",
            parked,
        );
        self.one(
            "billing_catching_up_customers",
            "gauge",
            "Those of them that began long ago and are billed in turns.",
            catching_up,
        );
        let lag_us = u64::try_from(lag.whole_microseconds()).unwrap_or(0);
        self.one(
            "billing_lag_seconds",
            "gauge",
            "How long the first of them has been due that is not catching up.",
            seconds(lag_us),
        );
    }

    fn deliveries(&mut self, figures: &Figures) {
        let name = "billing_webhook_attempts_total";
        self.head(name, "counter", "Attempts of this process to deliver messages to webhook endpoints.");
        self.line(name, "outcome=\"delivered\"", figures.delivered);
        self.line(name, "outcome=\"failed\"", figures.failed);
        self.one(
            "billing_webhook_endpoints_disabled_total",
            "counter",
            "Webhook endpoints that this process has disabled: they failed for five days, or said that they are gone.",
            figures.disabled,
        );
        let name = "billing_webhook_endpoint_failures_total";
        let meaning = "Attempts of this process that failed, by endpoint; of more than a hundred the later ones together, as others.";
        self.head(name, "counter", meaning);
        for (endpoint, failures) in &figures.failures {
            self.line(name, &format!("webhook_endpoint_id=\"{endpoint}\""), failures);
        }
        if figures.failures_of_others > 0 {
            self.line(name, "webhook_endpoint_id=\"others\"", figures.failures_of_others);
        }
        let standings = &figures.standings;
        let oldest = standings.iter().filter_map(|standing| standing.oldest).min();
        let meaning = "How long the oldest message has not been delivered that is to be.";
        self.one("billing_webhook_oldest_undelivered_seconds", "gauge", meaning, since_or_none(oldest));
        let waiting: u64 =
            standings.iter().filter(|standing| !standing.is_disabled).map(|standing| standing.waiting).sum();
        self.one("billing_webhook_waiting_messages", "gauge", "Messages that are to be sent again.", waiting);
        let name = "billing_webhook_endpoint_failing_seconds";
        self.head(name, "gauge", "How long every attempt at a webhook endpoint has failed; a hundred at most.");
        for standing in standings.iter().filter(|standing| !standing.is_disabled) {
            if let Some(failing_since) = standing.failing_since {
                self.line(
                    name,
                    &format!("webhook_endpoint_id=\"{}\"", standing.endpoint),
                    since_or_none(Some(failing_since)),
                );
            }
        }
    }

    fn measured(&mut self, measured: &Measured) {
        let Measured { bytes, dead_rows, credits_expiring, due_customers, alert_marks, oldest_alert_mark } = measured;
        let meaning = "Changes of customers that are to be held against usage alerts, as of the last minute.";
        self.one("billing_usage_alert_marks", "gauge", meaning, alert_marks);
        let meaning = "How long the oldest of them has waited.";
        self.one("billing_usage_alert_oldest_mark_seconds", "gauge", meaning, since_or_none(*oldest_alert_mark));
        self.one("billing_database_bytes", "gauge", "Room that the database took within the last minute.", bytes);
        self.one("billing_database_dead_rows", "gauge", "Rows that wait for vacuum.", dead_rows);
        let name = "billing_credits_expiring";
        let meaning = "Credits of customers in real time that expire within seven days, by currency.";
        self.head(name, "gauge", meaning);
        for (code, ExpiringCredits { credits, .. }) in credits_expiring {
            self.line(name, &format!("currency=\"{code}\""), credits);
        }
        let name = "billing_credits_expiring_amount";
        self.head(name, "gauge", "What is left of them, in major units of the currency.");
        for (code, ExpiringCredits { remaining, .. }) in
            credits_expiring.iter().filter(|(code, _)| *code != OWN_CURRENCIES)
        {
            self.line(name, &format!("currency=\"{code}\""), plain(remaining));
        }
        let name = "billing_organization_due_customers";
        let meaning = "Customers whose billing is due and not done, of the ten organizations with the most.";
        self.head(name, "gauge", meaning);
        for (organization, customers) in due_customers {
            self.line(name, &format!("organization=\"{organization}\""), customers);
        }
    }

    fn load(&mut self, load: &Load) {
        let name = "billing_pool_connections";
        self.head(name, "gauge", "Database connections that are open.");
        self.line(name, "state=\"idle\"", load.idle_connections);
        self.line(name, "state=\"busy\"", load.connections.saturating_sub(load.idle_connections));
        self.one(
            "billing_pool_connections_max",
            "gauge",
            "Most database connections of this process.",
            load.connections_max,
        );
        self.one(
            "billing_ingest_waiting_bytes",
            "gauge",
            "Events that wait for a transaction to take them in.",
            load.waiting_bytes,
        );
        self.one(
            "billing_ingest_oldest_wait_seconds",
            "gauge",
            "How long the event has waited that waits longest.",
            seconds(u64::try_from(load.waiting_longest.as_micros()).unwrap_or(u64::MAX)),
        );
        self.issued(&load.issued);
        if let Some(measured) = &load.measured {
            self.measured(measured);
        }
        self.one("billing_ingest_transactions", "gauge", "Transactions that take events in right now.", load.ingesting);
        let name = "billing_events_uncounted_total";
        let meaning = "Events that were stored and count for nothing: no metric counts their name, or their customer is not there.";
        self.head(name, "counter", meaning);
        self.line(name, "reason=\"event_name\"", load.events_uncounted.of_unknown_names);
        self.line(name, "reason=\"customer\"", load.events_uncounted.of_unknown_customers);
        self.one(
            "billing_ingest_key_ranges",
            "gauge",
            "Key ranges that are each taken in one at a time.",
            load.key_ranges,
        );
    }
}

/// How long ago an instant was, in seconds; nothing for none.
fn since_or_none(instant: Option<OffsetDateTime>) -> String {
    let since = instant.map_or(time::Duration::ZERO, |instant| OffsetDateTime::now_utc() - instant);
    seconds(u64::try_from(since.whole_microseconds()).unwrap_or(0))
}
