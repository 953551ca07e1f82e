//! One file per noun: its row, the conversions between row and domain value, its SQL, and the domain's trait for it.

pub(crate) mod addon;
pub(crate) mod api_key;
mod approval;
pub(crate) mod audit;
pub(crate) mod billing_record;
pub(crate) mod books_audit;
pub(crate) mod credit;
pub(crate) mod credit_note;
pub(crate) mod currency;
pub(crate) mod customer;
pub(crate) mod event;
mod event_correction;
mod event_list;
mod event_recount;
pub(crate) mod feature;
pub(crate) mod idempotency;
pub(crate) mod identity;
pub(crate) mod invoice;
pub(crate) mod job;
pub(crate) mod key_pepper;
pub(crate) mod member;
pub(crate) mod message;
pub(crate) mod metric;
pub(crate) mod organization;
mod payment;
pub(crate) mod plan;
pub(crate) mod rollup;
pub(crate) mod subscription;
pub(crate) mod test_clock;
pub(crate) mod usage_alert;
pub(crate) mod user;
pub(crate) mod webhook;

use billing_domain::Error;

use crate::transaction::PgTransaction;

impl PgTransaction<'_> {
    /// Writes what was put off, in the order of locks: the queue, then the counter of invoices. Messages come before: whoever
    /// issues waits for that counter.
    pub(crate) fn write_deferred(&mut self) -> Result<(), Error> {
        self.write_reached()?;
        self.write_messages()?;
        self.write_changes()?;
        self.issue_all()?;
        self.write_past_due()
    }
}
