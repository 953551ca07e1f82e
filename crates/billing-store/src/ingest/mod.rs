//! Taking events in: each one stored and counted once, durably, before the answer.
//!
//! A group of events is one transaction that holds the locks of the lanes its customers are in. Whoever holds a lane
//! is alone with its customers' events and roll-ups, so nothing here can deadlock, and the set of metrics cannot
//! change between storing an event and counting it.

mod group;
mod rules;

use std::collections::{BTreeSet, HashMap, HashSet};

use billing_domain::event::{Event, Ingested};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::EventIngest;
use billing_domain::store::Window;
use billing_domain::{Error, FieldCode, FieldError, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{Array, Text, Timestamptz, Uuid as SqlUuid};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use self::group::{GROUP_MAX, Outcome, Terms};
use self::rules::Present;
use crate::error::Failure;
use crate::partition::Month;
use crate::rollup::{self, Additions};
use crate::statement::statement;
use crate::store::PgStore;

pub(crate) use self::group::Groups;
pub(crate) use self::rules::{IngestCache, move_epoch};

statement! {
    /// Stores what is new: in its own month by the unique index, in the other months of its window by looking.
    /// The look-ups are written so that they stay look-ups by index, whatever the planner thinks of the table.
    InsertEvents -> (SqlUuid, SqlUuid) {
        "INSERT INTO events
            (organization_id, customer_key, customer_id, id_hash, idempotency_id, event_name, time_created, properties)
        SELECT " organization: Uuid as SqlUuid; ", sent.customer_key, sent.customer_id, sent.id_hash,
            sent.idempotency_id, sent.event_name, sent.time_created, sent.properties::json
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ",
            " customer_ids: Vec<String> as Array<Text>; ",
            " hashes: Vec<Uuid> as Array<SqlUuid>; ",
            " ids: Vec<String> as Array<Text>; ",
            " names: Vec<String> as Array<Text>; ",
            " times: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " properties: Vec<String> as Array<Text>; ",
            " probe_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " month_starts: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " month_ends: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " probe_ends: Vec<OffsetDateTime> as Array<Timestamptz>; "
        ) AS sent (customer_key, customer_id, id_hash, idempotency_id, event_name, time_created, properties,
            probe_start, month_start, month_end, probe_end)
        LEFT JOIN LATERAL (
            SELECT true AS is_known FROM events
            WHERE events.id_hash = sent.id_hash AND events.customer_key = sent.customer_key
                AND events.time_created >= sent.probe_start AND events.time_created < sent.month_start
            LIMIT 1
        ) earlier ON true
        LEFT JOIN LATERAL (
            SELECT true AS is_known FROM events
            WHERE events.id_hash = sent.id_hash AND events.customer_key = sent.customer_key
                AND events.time_created >= sent.month_end AND events.time_created < sent.probe_end
            LIMIT 1
        ) later ON true
        WHERE earlier.is_known IS NULL AND later.is_known IS NULL
        ON CONFLICT DO NOTHING
        RETURNING customer_key, id_hash"
    }
}

/// An event on its way in, with what can be made of it before any lock is held.
struct Row<'e> {
    event: &'e Event,
    customer: Uuid,
    id_hash: Uuid,
    properties: String,
}

/// A row that is dated so that it is taken in, and its place in the group.
struct Candidate<'r> {
    index: usize,
    row: &'r Row<'r>,
    probe_start: OffsetDateTime,
    probe_end: OffsetDateTime,
}

/// The first 16 bytes of the SHA-256 of an idempotency id: an index entry of one size, whatever the sender chose.
pub(crate) fn id_hash(idempotency_id: &str) -> Uuid {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(Sha256::digest(idempotency_id.as_bytes())).for_each(|(to, from)| *to = from);
    Uuid::from_bytes(bytes)
}

/// Refuses null characters: the database could keep them in properties but never read those again.
fn check(events: &[Event]) -> Result<(), Error> {
    let holds_null = |event: &Event| {
        let texts = [event.customer.as_str(), &event.name, &event.idempotency_id];
        texts.iter().any(|text| text.contains('\0'))
            || event.properties.iter().any(|(name, value)| name.contains('\0') || value_holds_null(value))
    };
    match events.iter().position(holds_null) {
        None => Ok(()),
        Some(index) => {
            let attr = format!("events.{index}");
            Err(FieldError::new(attr, FieldCode::Invalid, "The null character is not allowed.").into())
        }
    }
}

fn value_holds_null(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(value_holds_null),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || value_holds_null(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl EventIngest for PgStore {
    fn ingest(&self, organization: OrganizationId, events: &[Event], window: Window) -> Result<Vec<Ingested>, Error> {
        check(events)?;
        let terms = Terms { organization, window };
        let mut answers = Vec::with_capacity(events.len());
        for chunk in events.chunks(GROUP_MAX) {
            answers.extend(self.shared.groups.submit(terms, chunk, |group| self.store_group(terms, group))?);
        }
        Ok(answers)
    }
}

impl PgStore {
    /// Stores and counts, in one transaction, what of the events is new and dated so that it is taken in.
    fn store_group(&self, terms: Terms, events: &[&Event]) -> Outcome {
        let rows = events.iter().map(|event| Row::new(terms.organization, event)).collect::<Result<Vec<_>, _>>()?;
        let (cache, organization) = (&self.shared.ingest, terms.organization.uuid());
        let lanes: BTreeSet<i32> = rows.iter().map(|row| cache.lanes().of(CustomerKey::from(row.customer))).collect();
        let stored = self.transact(|pg| {
            rollup::lock_lanes(pg, lanes.iter().copied().collect())?;
            let present = Present::read(cache, pg, organization, rows.iter().map(|row| row.customer))?;
            let mut answers = vec![Ingested::Duplicate; rows.len()];
            let candidates = candidates(&rows, &present, terms.window, &mut answers);
            let prepared = cache.prepare(pg, organization, candidates.iter().map(|candidate| candidate.row.event))?;
            let stored: Vec<(Uuid, Uuid)> =
                if candidates.is_empty() { Vec::new() } else { insert_events(organization, &candidates).load(pg)? };
            let by_id: HashMap<(Uuid, Uuid), &Candidate<'_>> = candidates
                .iter()
                .map(|candidate| ((candidate.row.customer, candidate.row.id_hash), candidate))
                .collect();
            let mut additions = Additions::default();
            for candidate in stored.iter().filter_map(|id| by_id.get(id)) {
                let event = candidate.row.event;
                if let Some(metrics) = present.rules.metrics.get(&event.name) {
                    additions.add(candidate.row.customer, event, metrics);
                }
                answers[candidate.index] = Ingested::Stored;
            }
            additions.write(pg, organization)?;
            Ok((answers, prepared))
        });
        let (answers, prepared) = stored.map_err(Failure::into_error)?;
        cache.remember(prepared);
        Ok(answers)
    }
}

impl<'e> Row<'e> {
    fn new(organization: OrganizationId, event: &'e Event) -> Result<Self, Error> {
        let properties =
            serde_json::to_string(&event.properties).map_err(|error| StoreError::Internal(error.to_string()))?;
        Ok(Self {
            event,
            customer: CustomerKey::derive(organization, &event.customer).uuid(),
            id_hash: id_hash(&event.idempotency_id),
            properties,
        })
    }
}

/// The rows that are to be stored unless they are known: dated inside the window, and the first of their id. What is
/// refused for its date uses no id up.
fn candidates<'r>(
    rows: &'r [Row<'r>],
    present: &Present,
    window: Window,
    answers: &mut [Ingested],
) -> Vec<Candidate<'r>> {
    let mut seen = HashSet::with_capacity(rows.len());
    let mut candidates = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        if !present.accepts(row.customer, row.event, window) {
            answers[index] = Ingested::OutsideWindow;
        } else if seen.insert((row.customer, row.id_hash)) {
            let (probe_start, probe_end) = present.probed(row.customer, row.event, window);
            candidates.push(Candidate { index, row, probe_start, probe_end });
        }
    }
    candidates
}

fn insert_events(organization: Uuid, candidates: &[Candidate<'_>]) -> InsertEvents {
    fn column<'r, T>(candidates: &[Candidate<'r>], value: impl Fn(&Candidate<'r>) -> T) -> Vec<T> {
        candidates.iter().map(value).collect()
    }
    let month = |candidate: &Candidate<'_>| Month::of(candidate.row.event.time_created);
    InsertEvents {
        organization,
        customers: column(candidates, |each| each.row.customer),
        customer_ids: column(candidates, |each| each.row.event.customer.as_str().to_owned()),
        hashes: column(candidates, |each| each.row.id_hash),
        ids: column(candidates, |each| each.row.event.idempotency_id.clone()),
        names: column(candidates, |each| each.row.event.name.clone()),
        times: column(candidates, |each| each.row.event.time_created),
        properties: column(candidates, |each| each.row.properties.clone()),
        probe_starts: column(candidates, |each| each.probe_start),
        month_starts: column(candidates, |each| month(each).start()),
        month_ends: column(candidates, |each| month(each).next().start()),
        probe_ends: column(candidates, |each| each.probe_end),
    }
}
