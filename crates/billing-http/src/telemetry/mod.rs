//! What the service counts about itself, for `GET /metrics`.

mod by_organization;
mod latency;
pub mod log;
mod page;
mod process;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::http::Method;
use billing_domain::id::OrganizationId;
use by_organization::ByOrganization;
use latency::Latency;

pub use page::{MEDIA_TYPE, Moment};

/// What stands for every path that is no route, and every method that is not one of HTTP's.
const OTHER: &str = "other";

/// Counters that only grow while the process lives.
#[derive(Default)]
pub struct Telemetry {
    /// By route and method. Both are from a fixed set: a caller must not be able to make up series.
    calls: Mutex<BTreeMap<String, BTreeMap<&'static str, Calls>>>,
    /// By code.
    errors: Mutex<BTreeMap<&'static str, u64>>,
    begun: AtomicU64,
    ended: AtomicU64,
    events_stored: AtomicU64,
    events_known: AtomicU64,
    events_refused: AtomicU64,
    /// Of those that were stored.
    events_by_organization: Mutex<ByOrganization>,
}

/// The calls of one route by one method.
#[derive(Default)]
struct Calls {
    by_status: BTreeMap<u16, u64>,
    latency: Latency,
}

/// A request at work; it ends when this is dropped, also when its client has gone.
pub struct InFlight<'t>(&'t Telemetry);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Telemetry {
    /// Counts a request that begins.
    pub fn begin(&self) -> InFlight<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        InFlight(self)
    }

    /// Counts an answer. `route` is that of [`route_label`].
    pub fn answered(&self, route: &str, method: &Method, status: u16, error: Option<&'static str>, took: Duration) {
        let mut calls = locked(&self.calls);
        // Looked up before it is inserted: all but the first call of a route allocate nothing.
        if !calls.contains_key(route) {
            calls.insert(route.to_owned(), BTreeMap::new());
        }
        if let Some(by_method) = calls.get_mut(route) {
            let call = by_method.entry(method_label(method)).or_default();
            *call.by_status.entry(status).or_default() += 1;
            call.latency.add(took);
        }
        drop(calls);
        if let Some(code) = error {
            *locked(&self.errors).entry(code).or_default() += 1;
        }
    }

    /// Counts what became of the events of one call of an organization.
    pub fn events(&self, organization: OrganizationId, stored: usize, known: usize, refused: usize) {
        locked(&self.events_by_organization).add(organization, stored as u64);
        let counters = [&self.events_stored, &self.events_known, &self.events_refused];
        for (counter, count) in counters.into_iter().zip([stored, known, refused]) {
            counter.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
}

/// What a route is called in the metrics and in the log: the pattern that a path matched, if any, without a final slash.
pub fn route_label(pattern: Option<&str>) -> &str {
    match pattern.map(|pattern| pattern.trim_end_matches('/')) {
        None | Some("") => OTHER,
        Some(trimmed) => trimmed,
    }
}

fn method_label(method: &Method) -> &'static str {
    let known = ["GET", "POST", "PATCH", "DELETE", "PUT", "HEAD", "OPTIONS"];
    known.into_iter().find(|name| method.as_str() == *name).unwrap_or(OTHER)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody panics half way through counting.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
