//! What a worker has measured of the database, for those who watch it: whoever looks at it asks the database nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bigdecimal::BigDecimal;
use billing_domain::id::OrganizationId;
use time::OffsetDateTime;

/// Most organizations that are told of by name: what watches a service must not have a series for each.
pub const ORGANIZATIONS_TOLD_MAX: usize = 10;

/// The database at the last measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Its size, in bytes.
    pub bytes: u64,
    /// Rows that wait for vacuum: what tables take more than they need.
    pub dead_rows: u64,
    /// Credits of customers in real time that expire within seven days, by the code of their currency; `own` for those that
    /// organizations have made up.
    pub credits_expiring: BTreeMap<String, ExpiringCredits>,
    /// The organizations with the most customers whose billing is due and not done, and how many those are.
    pub due_customers: Vec<(OrganizationId, u64)>,
    /// Marks of customers whose figures are to be held against usage alerts, and when the oldest was written, in real time.
    pub alert_marks: u64,
    /// See `alert_marks`.
    pub oldest_alert_mark: Option<OffsetDateTime>,
}

/// Credits of one currency that are about to expire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiringCredits {
    /// How many.
    pub credits: u64,
    /// What is left of them, in major units; nothing where the units of several organizations would be added up.
    pub remaining: BigDecimal,
}

/// Where the last measurement is kept.
#[derive(Default)]
pub(crate) struct LastMeasured(Mutex<Option<Arc<Measured>>>);

impl LastMeasured {
    /// Puts a measurement in the place of the one before.
    pub(crate) fn keep(&self, measured: Measured) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(measured));
    }

    /// The last one, if there was any yet.
    pub(crate) fn get(&self) -> Option<Arc<Measured>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
