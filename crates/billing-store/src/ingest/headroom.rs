//! Whose events need no look at their figures for a while.

use std::collections::BTreeMap;

use billing_domain::event::Event;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::unreadable;
use crate::pg::error::Failure;
use crate::pg::statement::statement;

statement! {
    /// The headroom of those of some customers who have any under this version: up to which arrival numbers, from when and until when.
    ReadHeadroom -> (SqlUuid, Text, Timestamptz, Timestamptz) {
        "SELECT customer_key, until_arrivals::text, holds_from, holds_until FROM usage_alert_headroom
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND customer_key = ANY (" customers: Vec<Uuid> as Array<SqlUuid>; ")
            AND ingest_version = " version: i64 as BigInt; " AND holds_from < holds_until"
    }
}

/// The events of one transaction that usage alerts look at, of one customer.
pub(super) struct Alerting<'e> {
    /// The customer's own time.
    pub(super) now: OffsetDateTime,
    /// When the last of them happens that is dated ahead; `now` where none is.
    pub(super) latest: OffsetDateTime,
    /// Whether any of them is still to count for some figure.
    pub(super) lies_ahead: bool,
    /// By their names, the greatest of their arrival numbers.
    pub(super) last_arrivals: BTreeMap<&'e str, i64>,
}

impl<'e> Alerting<'e> {
    /// None yet of a customer who lives at `now`.
    pub(super) fn none(now: OffsetDateTime) -> Self {
        Self { now, latest: now, lies_ahead: false, last_arrivals: BTreeMap::new() }
    }

    /// Adds one that has come behind all before it.
    pub(super) fn add(&mut self, event: &'e Event, arrival: i64) {
        self.latest = self.latest.max(event.time_created);
        self.lies_ahead |= event.time_created >= self.now;
        // The later of a customer's events have the greater numbers.
        self.last_arrivals.insert(&event.name, arrival);
    }

    /// Whether all of them are within it.
    fn is_within(&self, until_arrivals: &BTreeMap<String, i64>, from: OffsetDateTime, until: OffsetDateTime) -> bool {
        let is_within = |(name, last): (&&str, &i64)| until_arrivals.get(*name).is_none_or(|until| last <= until);
        // What counts only when something else runs, or what runs has begun anew, was not looked at.
        from <= self.now && self.latest < until && self.last_arrivals.iter().all(is_within)
    }
}

/// Leaves out whose events are within their headroom, which is read in the transaction that stores the events, behind the lock of the
/// key range and behind the organization's version: whoever ends it has done so before, or waits for this transaction to end.
pub(super) fn leave_out(
    pg: &mut PgConnection,
    (organization, version): (Uuid, i64),
    alerting: &mut BTreeMap<Uuid, Alerting<'_>>,
) -> Result<(), Failure> {
    let customers = alerting.keys().copied().collect();
    let read = ReadHeadroom { organization, customers, version };
    for (customer, until_arrivals, from, until) in read.load::<(Uuid, String, OffsetDateTime, OffsetDateTime)>(pg)? {
        let until_arrivals = serde_json::from_str(&until_arrivals).map_err(unreadable)?;
        if alerting.get(&customer).is_some_and(|events| events.is_within(&until_arrivals, from, until)) {
            alerting.remove(&customer);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use time::Duration;
    use time::macros::datetime;

    use super::*;

    #[test]
    fn all_events_have_to_be_within_it_by_their_names_and_the_time() {
        let (from, until) = (datetime!(2024-04-10 10:00 UTC), datetime!(2024-04-11 10:00 UTC));
        let until_arrivals = BTreeMap::from([("call".to_owned(), 100), ("probe".to_owned(), 0)]);
        let within = until - Duration::SECOND;
        #[rustfmt::skip]
        let cases: [(&[(&str, i64)], OffsetDateTime, OffsetDateTime, bool, &str); 12] = [
            // events, now, the latest of them is dated, within, why
            (&[("call", 100)],               from,                    from,                    true,  "up to that number, from that instant on"),
            (&[("call", 101)],               within,                  within,                  false, "one more"),
            (&[("probe", 1)],                within,                  within,                  false, "any of them may reach something"),
            (&[("call", 99), ("probe", 98)], within,                  within,                  false, "one of them is not"),
            (&[("call", 99), ("rare", 500)], within,                  within,                  true,  "nothing looks at those of the other name"),
            (&[("rare", i64::MAX)],          within,                  within,                  true,  "nor at however many"),
            (&[("call", 1)],                 from - Duration::SECOND, from,                    false, "before the look"),
            (&[("call", 1)],                 until,                   until,                   false, "something else runs then"),
            (&[("rare", 1)],                 until,                   until,                   false, "and may look at those as well"),
            (&[("call", 100)],               from,                    within,                  true,  "what is dated ahead was counted as if it were now"),
            (&[("call", 1)],                 from,                    until,                   false, "it counts for what runs then"),
            (&[("rare", 1)],                 from,                    until,                   false, "which may look at those as well"),
        ];
        for (events, now, latest, expected, why) in cases {
            let alerting =
                Alerting { now, latest, lies_ahead: latest > now, last_arrivals: events.iter().copied().collect() };
            assert_eq!(
                alerting.is_within(&until_arrivals, from, until),
                expected,
                "{events:?} at {now}, dated {latest}: {why}"
            );
        }
    }
}
