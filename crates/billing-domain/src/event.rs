//! Usage events: what happened, to whom, when, once.

mod correction;
mod history;
mod properties;

use time::{Duration, OffsetDateTime};

pub use self::correction::{CORRECTIONS_MAX, EventCorrection, EventState, KeptEvent};
pub use self::history::{EventHistory, EventVersion};
pub use self::properties::Properties;
use crate::customer::CustomerId;

/// How far ahead of the customer's now an event may be dated.
pub const AHEAD_MAX: Duration = Duration::days(1);

/// One usage event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The customer, who need not exist yet.
    pub customer: CustomerId,
    /// What happened.
    pub name: String,
    /// The sender's id for it: the second event with the same id is the same event.
    pub idempotency_id: String,
    /// When it happened, in whole microseconds.
    pub time_created: OffsetDateTime,
    /// Its properties.
    pub properties: Properties,
}

/// What became of an event handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ingested {
    /// It is stored and counted.
    Stored,
    /// It had been stored before; the first one counts.
    Duplicate,
    /// It is dated too far back or ahead of the customer's now.
    OutsideWindow,
}

/// Whether an event dated `time_created` is accepted at `now`: from `window_days` back to one day ahead, both
/// ends included.
pub fn is_within_window(time_created: OffsetDateTime, now: OffsetDateTime, window_days: u16) -> bool {
    time_created >= now - Duration::days(i64::from(window_days)) && time_created <= now + AHEAD_MAX
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn the_window_includes_both_ends() {
        let now = datetime!(2024-03-31 12:00 UTC);
        let us = Duration::microseconds(1);
        #[rustfmt::skip]
        let cases = [
            // time,                         accepted, why
            (now,                            true,  "just now"),
            (now - Duration::days(30),       true,  "exactly 30 days back"),
            (now - Duration::days(30) - us,  false, "a microsecond too old"),
            (now + Duration::days(1),        true,  "exactly one day ahead"),
            (now + Duration::days(1) + us,   false, "a microsecond too far ahead"),
        ];
        for (time, accepted, why) in cases {
            assert_eq!(is_within_window(time, now, 30), accepted, "{why}");
        }
    }
}
