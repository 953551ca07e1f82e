//! Correcting events: the row is what counts from then on, and what it was before is kept beside it.
//!
//! It is done under the lock of the customer's key range, where nobody stores or counts events of theirs, and what it changes is
//! [counted again](super::event_recount) from the events. What is remembered of events outside the roll-ups has the number of the last
//! correction beside it.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::event::{Event, EventCorrection, EventState, KeptEvent};
use billing_domain::id::{CustomerKey, JobId};
use billing_domain::{Error, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Json, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::event::{EventRow, KeptProperties, MOVED, id_hash};
use super::event_recount::Recount;
use crate::pg::column::{JsonText, count, unreadable};
use crate::pg::error::Failure;
use crate::pg::month::Month;
use crate::pg::schema::{event_corrections, events};
use crate::pg::statement::statement;
use crate::rollup::enter_key_ranges;
use crate::transaction::PgTransaction;

statement! {
    /// Keeps corrections with what their events are now.
    KeepCorrections -> SqlUuid {
        "INSERT INTO event_corrections (customer_key, id, organization_id, id_hash, idempotency_id, customer_id, event_name,
            time_created, properties, arrived, arrival, amended_time, amended_properties, corrected_at, corrected_by, reason, job_id)
        SELECT event.customer_key, sent.id, event.organization_id, event.id_hash, event.idempotency_id, event.customer_id,
            event.event_name, event.time_created, event.properties, event.arrival, sent.arrival, sent.amended_time,
            sent.amended_properties, sent.corrected_at, sent.corrected_by, sent.reason, sent.job_id
        FROM unnest(
            " ids: Vec<Uuid> as Array<SqlUuid>; ",
            " hashes: Vec<Uuid> as Array<SqlUuid>; ",
            " times: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " arrivals: Vec<i64> as Array<BigInt>; ",
            " amended_times: Vec<Option<OffsetDateTime>> as Array<Nullable<Timestamptz>>; ",
            " amended_properties: Vec<Option<JsonText<String>>> as Array<Nullable<Json>>; ",
            " corrected_at: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " corrected_by: Vec<Option<String>> as Array<Nullable<Text>>; ",
            " reasons: Vec<Option<String>> as Array<Nullable<Text>>; ",
            " jobs: Vec<Option<Uuid>> as Array<Nullable<SqlUuid>>; "
        ) AS sent (id, id_hash, time_created, arrival, amended_time, amended_properties, corrected_at, corrected_by, reason, job_id)
        JOIN events event
            ON event.customer_key = " customer: Uuid as SqlUuid; " AND event.organization_id = " organization: Uuid as SqlUuid; "
                AND event.id_hash = sent.id_hash AND event.time_created = sent.time_created AND event.correction < 2
        RETURNING id"
    }
}

statement! {
    /// Gives events the arrival numbers of their corrections, and has them count no more.
    VoidEvents -> SqlUuid {
        "UPDATE events SET correction = 2, arrival = sent.arrival
        FROM unnest(
            " hashes: Vec<Uuid> as Array<SqlUuid>; ",
            " times: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " arrivals: Vec<i64> as Array<BigInt>; "
        ) AS sent (id_hash, time_created, arrival)
        WHERE events.customer_key = " customer: Uuid as SqlUuid; " AND events.organization_id = " organization: Uuid as SqlUuid; "
            AND events.id_hash = sent.id_hash AND events.time_created = sent.time_created AND events.correction < 2
        RETURNING events.id_hash"
    }
}

statement! {
    /// Makes events what they really were. One whose month changes goes to the table of its new one.
    AmendEvents -> SqlUuid {
        "UPDATE events
        SET correction = 1, arrival = sent.arrival, time_created = sent.amended_time, properties = sent.amended_properties
        FROM unnest(
            " hashes: Vec<Uuid> as Array<SqlUuid>; ",
            " times: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " arrivals: Vec<i64> as Array<BigInt>; ",
            " amended_times: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " amended_properties: Vec<JsonText<String>> as Array<Json>; "
        ) AS sent (id_hash, time_created, arrival, amended_time, amended_properties)
        WHERE events.customer_key = " customer: Uuid as SqlUuid; " AND events.organization_id = " organization: Uuid as SqlUuid; "
            AND events.id_hash = sent.id_hash AND events.time_created = sent.time_created AND events.correction < 2
        RETURNING events.id_hash"
    }
}

statement! {
    /// Makes room for events in months that they have been in before.
    RemovePlaceholders -> SqlUuid {
        "DELETE FROM events
        USING unnest(
            " hashes: Vec<Uuid> as Array<SqlUuid>; ",
            " months: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS sent (id_hash, month)
        WHERE events.customer_key = " customer: Uuid as SqlUuid; " AND events.organization_id = " organization: Uuid as SqlUuid; "
            AND events.id_hash = sent.id_hash AND events.correction = 3
            AND events.time_created >= sent.month
            AND events.time_created < (sent.month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC'
        RETURNING events.id_hash"
    }
}

statement! {
    /// Keeps the ids of events known in the months that these corrections took them from.
    InsertPlaceholders -> SqlUuid {
        "INSERT INTO events (organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name, time_created,
            properties, arrival, correction)
        SELECT organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name, time_created, properties, arrived, 3
        FROM event_corrections
        WHERE customer_key = " customer: Uuid as SqlUuid; " AND id = ANY (" ids: Vec<Uuid> as Array<SqlUuid>; ")
        RETURNING id_hash"
    }
}

statement! {
    /// Notes that events were corrected, under the number of the last arrival.
    NoteCorrection -> BigInt {
        "UPDATE event_arrivals SET last_correction = last_arrival
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND key_range = " key_range: i32 as diesel::sql_types::Integer; "
        RETURNING last_correction"
    }
}

/// A correction on its way, with the arrival number that it takes.
struct Numbered<'c> {
    correction: &'c EventCorrection,
    hash: Uuid,
    arrival: i64,
}

impl Numbered<'_> {
    /// What the event becomes, where it counts on.
    fn amended(&self) -> Option<&Event> {
        self.correction.after.as_ref()
    }

    /// Whether the event goes to another month.
    fn is_moved(&self) -> bool {
        let month = Month::of(self.correction.before.time_created);
        self.amended().is_some_and(|after| Month::of(after.time_created) != month)
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = event_corrections, check_for_backend(diesel::pg::Pg))]
pub(super) struct CorrectionRow {
    id: Uuid,
    customer_id: String,
    event_name: String,
    idempotency_id: String,
    time_created: OffsetDateTime,
    properties: KeptProperties,
    amended_time: Option<OffsetDateTime>,
    amended_properties: Option<KeptProperties>,
    corrected_at: OffsetDateTime,
    corrected_by: Option<String>,
    reason: Option<String>,
    job_id: Option<Uuid>,
}

impl TryFrom<CorrectionRow> for EventCorrection {
    type Error = Error;

    fn try_from(row: CorrectionRow) -> Result<Self, Error> {
        let before = Event {
            customer: row.customer_id.parse().map_err(|_| unreadable("a customer id"))?,
            name: row.event_name,
            idempotency_id: row.idempotency_id,
            time_created: row.time_created,
            properties: row.properties.0,
        };
        let amended = row.amended_time.zip(row.amended_properties);
        let after = amended.map(|(time_created, KeptProperties(properties))| Event {
            time_created,
            properties,
            ..before.clone()
        });
        Ok(Self {
            id: row.id.into(),
            before,
            after,
            at: row.corrected_at,
            by: row.corrected_by,
            reason: row.reason,
            job: row.job_id.map(Into::into),
        })
    }
}

impl PgTransaction<'_> {
    /// [`billing_domain::store::EventRepo::find`].
    pub(super) fn find_events(&mut self, customer: CustomerKey, ids: &[String]) -> Result<Vec<KeptEvent>, Error> {
        let hashes: Vec<Uuid> = ids.iter().map(|id| id_hash(id)).collect();
        let query = events::table
            .filter(events::customer_key.eq(customer.uuid()).and(events::organization_id.eq(self.tenant())))
            .filter(events::id_hash.eq_any(hashes).and(events::correction.ne(MOVED)))
            .select(EventRow::as_select());
        let rows = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(KeptEvent::try_from).collect()
    }

    /// [`billing_domain::store::EventRepo::list_corrections`].
    pub(super) fn corrections_of(
        &mut self,
        customer: CustomerKey,
        idempotency_id: &str,
    ) -> Result<Vec<EventCorrection>, Error> {
        let whose = event_corrections::customer_key
            .eq(customer.uuid())
            .and(event_corrections::organization_id.eq(self.tenant()));
        let query = event_corrections::table
            .filter(whose)
            .filter(event_corrections::id_hash.eq(id_hash(idempotency_id)))
            .filter(event_corrections::idempotency_id.eq(idempotency_id))
            .order(event_corrections::arrival)
            .select(CorrectionRow::as_select());
        let rows = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(EventCorrection::try_from).collect()
    }

    /// [`billing_domain::store::EventRepo::count_corrections`].
    pub(super) fn corrections_of_jobs(&mut self, jobs: &[JobId]) -> Result<BTreeMap<JobId, u64>, Error> {
        let jobs: Vec<Uuid> = jobs.iter().map(|job| job.uuid()).collect();
        let query = event_corrections::table
            .filter(event_corrections::organization_id.eq(self.tenant()))
            .filter(event_corrections::job_id.eq_any(jobs))
            .group_by(event_corrections::job_id)
            .select((event_corrections::job_id.assume_not_null(), diesel::dsl::count_star()));
        let rows: Vec<(Uuid, i64)> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(|(job, corrected)| Ok((job.into(), count(corrected)?))).collect()
    }

    /// [`billing_domain::store::EventRepo::correct`].
    pub(super) fn correct_events(
        &mut self,
        customer: CustomerKey,
        corrections: &[EventCorrection],
    ) -> Result<(), Error> {
        if corrections.is_empty() {
            return Ok(());
        }
        self.has_corrected = true;
        self.make_months(corrections)?;
        self.expect_as_before(customer, corrections)?;
        let (organization, key_range) = (self.tenant(), self.shared.key_ranges.of(customer));
        let owner = (organization, customer.uuid());
        let mut recount = self.attempt(|pg| Recount::read(pg, owner, key_range, corrections))?;
        let entering = BTreeMap::from([(key_range, corrections.len() as i64)]);
        let mut arrivals = self.query(|pg| enter_key_ranges(pg, organization, &entering))?;
        self.catch_up()?;
        // Nobody stores or counts events of the customer from here on: others wait.
        self.attempt(|pg| recount.catch_up(pg))?;
        let number = |correction| Numbered {
            correction,
            hash: id_hash(&correction.before.idempotency_id),
            arrival: arrivals.next(key_range),
        };
        let numbered: Vec<Numbered<'_>> = corrections.iter().map(number).collect();
        self.query(|pg| {
            keep(pg, owner, &numbered)?;
            write_voids(pg, owner, &numbered)?;
            write_amendments(pg, owner, &numbered)?;
            NoteCorrection { organization, key_range }.execute(pg).map(drop)
        })?;
        self.attempt(|pg| recount.write(pg))
    }

    /// Makes the months that events are amended to. Nobody counts this customer's events while this transaction has its lock, so that
    /// nobody who may lack a new month has to be waited for.
    fn make_months(&mut self, corrections: &[EventCorrection]) -> Result<(), Error> {
        let lane = self
            .lane
            .ok_or_else(|| StoreError::Internal("an event is corrected where there is no customer".to_owned()))?;
        let amended = corrections.iter().filter_map(|correction| correction.after.as_ref());
        let months: BTreeSet<Month> = amended.map(|after| Month::of(after.time_created)).collect();
        for month in months.into_iter().filter(|month| !lane.ingest.has_month(*month)) {
            let made = lane.create_month(month);
            made.map_err(Failure::into_error)?;
        }
        Ok(())
    }

    /// Fails where an event is not as its correction has it.
    fn expect_as_before(&mut self, customer: CustomerKey, corrections: &[EventCorrection]) -> Result<(), Error> {
        let ids: Vec<String> = corrections.iter().map(|one| one.before.idempotency_id.clone()).collect();
        let found = self.find_events(customer, &ids)?;
        let counts =
            |wanted: &Event| found.iter().any(|kept| kept.state != EventState::Voided && kept.event == *wanted);
        match corrections.iter().find(|one| !counts(&one.before)) {
            None => Ok(()),
            Some(other) => {
                let id = &other.before.idempotency_id;
                Err(StoreError::Internal(format!("event {id:?} is not as its correction has it")).into())
            }
        }
    }
}

fn keep(pg: &mut PgConnection, (organization, customer): (Uuid, Uuid), all: &[Numbered<'_>]) -> QueryResult<()> {
    let of = |one: &Numbered<'_>| one.amended().map(|after| JsonText(after.properties.as_json().to_owned()));
    let keep = KeepCorrections {
        ids: all.iter().map(|one| one.correction.id.uuid()).collect(),
        hashes: all.iter().map(|one| one.hash).collect(),
        times: all.iter().map(|one| one.correction.before.time_created).collect(),
        arrivals: all.iter().map(|one| one.arrival).collect(),
        amended_times: all.iter().map(|one| one.amended().map(|after| after.time_created)).collect(),
        amended_properties: all.iter().map(of).collect(),
        corrected_at: all.iter().map(|one| one.correction.at).collect(),
        corrected_by: all.iter().map(|one| one.correction.by.clone()).collect(),
        reasons: all.iter().map(|one| one.correction.reason.clone()).collect(),
        jobs: all.iter().map(|one| one.correction.job.map(|job| job.uuid())).collect(),
        customer,
        organization,
    };
    keep.load::<Uuid>(pg).map(drop)
}

fn write_voids(pg: &mut PgConnection, (organization, customer): (Uuid, Uuid), all: &[Numbered<'_>]) -> QueryResult<()> {
    let voided: Vec<&Numbered<'_>> = all.iter().filter(|one| one.amended().is_none()).collect();
    if voided.is_empty() {
        return Ok(());
    }
    let void = VoidEvents {
        hashes: voided.iter().map(|one| one.hash).collect(),
        times: voided.iter().map(|one| one.correction.before.time_created).collect(),
        arrivals: voided.iter().map(|one| one.arrival).collect(),
        customer,
        organization,
    };
    void.load::<Uuid>(pg).map(drop)
}

fn write_amendments(
    pg: &mut PgConnection,
    (organization, customer): (Uuid, Uuid),
    all: &[Numbered<'_>],
) -> QueryResult<()> {
    let amended: Vec<(&Numbered<'_>, &Event)> = all.iter().filter_map(|one| Some((one, one.amended()?))).collect();
    if amended.is_empty() {
        return Ok(());
    }
    let moved: Vec<&(&Numbered<'_>, &Event)> = amended.iter().filter(|(one, _)| one.is_moved()).collect();
    if !moved.is_empty() {
        let hashes = moved.iter().map(|(one, _)| one.hash).collect();
        let months = moved.iter().map(|(_, after)| Month::of(after.time_created).start()).collect();
        RemovePlaceholders { hashes, months, customer, organization }.load::<Uuid>(pg)?;
    }
    let amend = AmendEvents {
        hashes: amended.iter().map(|(one, _)| one.hash).collect(),
        times: amended.iter().map(|(one, _)| one.correction.before.time_created).collect(),
        arrivals: amended.iter().map(|(one, _)| one.arrival).collect(),
        amended_times: amended.iter().map(|(_, after)| after.time_created).collect(),
        amended_properties: amended.iter().map(|(_, after)| JsonText(after.properties.as_json().to_owned())).collect(),
        customer,
        organization,
    };
    amend.load::<Uuid>(pg)?;
    if !moved.is_empty() {
        let ids = moved.iter().map(|(one, _)| one.correction.id.uuid()).collect();
        InsertPlaceholders { customer, ids }.load::<Uuid>(pg)?;
    }
    Ok(())
}
