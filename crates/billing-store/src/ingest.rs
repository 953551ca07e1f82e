//! Taking events in: each one stored and counted once, durably, before the answer.
//!
//! A chunk of events is one transaction that holds the locks of the lanes its customers are in. Whoever holds a lane
//! is alone with its customers' events and roll-ups, so nothing here can deadlock, and the set of metrics cannot
//! change between storing an event and counting it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use billing_domain::event::{Event, Ingested, is_within_window};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{EventIngest, Window};
use billing_domain::{Error, FieldCode, FieldError, Noun, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use sha2::{Digest, Sha256};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::error::Failure;
use crate::metric::aggregation;
use crate::partition::{Month, moved};
use crate::rollup::{self, Additions, Lanes, RolledMetric};
use crate::statement::statement;
use crate::store::PgStore;

/// Most events in one transaction.
const CHUNK: usize = 5_000;
/// Most event names that are remembered as registered.
const NAMES_MAX: usize = 100_000;

statement! {
    /// Says that what ingesting looks at has changed.
    MoveEpoch -> BigInt {
        "INSERT INTO ingest_epochs (organization_id, epoch) VALUES (" organization: Uuid as SqlUuid; ", 1)
        ON CONFLICT (organization_id) DO UPDATE SET epoch = ingest_epochs.epoch + 1"
    }
}

/// Says that what ingesting the organization's events looks at has changed.
pub(crate) fn move_epoch(pg: &mut PgConnection, organization: Uuid) -> QueryResult<()> {
    MoveEpoch { organization }.execute(pg).map(|_| ())
}

statement! {
    /// The present instant, and the organization's epoch.
    ReadEpoch -> (Timestamptz, BigInt) {
        "SELECT clock_timestamp(), epoch FROM ingest_epochs WHERE organization_id = " organization: Uuid as SqlUuid; ""
    }
}

statement! {
    /// The settings that ingesting looks at.
    ReadSettings -> (Integer, Bool) {
        "SELECT event_window_days, EXISTS (SELECT FROM test_clocks clock WHERE clock.organization_id = organization.id)
        FROM organizations organization WHERE organization.id = " organization: Uuid as SqlUuid; ""
    }
}

statement! {
    /// What is rolled up, metric by metric.
    ReadRollups -> (Text, SqlUuid, Text, Nullable<Text>, Array<Text>) {
        "SELECT metric.event_name, metric.id, metric.aggregation_type, metric.property_name, rollup.filter_keys
        FROM metrics metric
        JOIN metric_rollups rollup ON rollup.organization_id = metric.organization_id AND rollup.metric_id = metric.id
        WHERE metric.organization_id = " organization: Uuid as SqlUuid; "
        ORDER BY metric.id, rollup.filter_keys"
    }
}

statement! {
    /// The time of those customers that live by a test clock.
    ReadTestTimes -> (SqlUuid, Timestamptz) {
        "SELECT customer.customer_key,
            CASE clock.status WHEN 'ready' THEN clock.frozen_time ELSE customer.last_instant END
        FROM customers customer
        JOIN test_clocks clock
            ON clock.organization_id = customer.organization_id AND clock.id = customer.test_clock_id
        WHERE customer.organization_id = " organization: Uuid as SqlUuid; "
            AND customer.customer_key = ANY (" customers: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

statement! {
    /// Registers event names, with an hour before which all their events are.
    RegisterNames -> BigInt {
        "INSERT INTO event_names AS name (organization_id, name, latest_before)
        SELECT " organization: Uuid as SqlUuid; ", sent.*
        FROM unnest(" names: Vec<String> as Array<Text>; ", " latest_before: Vec<OffsetDateTime> as Array<Timestamptz>; ") AS sent
        ON CONFLICT (organization_id, name) DO UPDATE SET latest_before = excluded.latest_before
        WHERE name.latest_before < excluded.latest_before"
    }
}

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

/// What ingesting one organization's events looks at, as of an epoch.
struct Rules {
    epoch: i64,
    window_days: u16,
    has_test_clocks: bool,
    metrics: HashMap<String, Vec<RolledMetric>>,
}

/// What the process remembers between calls. Nothing in here is needed to be right, only to be fast: rules are
/// checked against the epoch, and making a month or registering a name twice changes nothing.
pub(crate) struct IngestCache {
    lanes: Lanes,
    rules: Mutex<HashMap<Uuid, Arc<Rules>>>,
    months: Mutex<BTreeSet<Month>>,
    names: Mutex<HashMap<(Uuid, String), OffsetDateTime>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nobody panics half way through a change in here.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl IngestCache {
    pub(crate) fn new(lane_bits: i16) -> Self {
        Self {
            lanes: Lanes::new(u8::try_from(lane_bits).unwrap_or(0)),
            rules: Mutex::default(),
            months: Mutex::default(),
            names: Mutex::default(),
        }
    }

    pub(crate) fn lanes(&self) -> Lanes {
        self.lanes
    }

    /// The organization's rules of this very epoch.
    fn rules(&self, pg: &mut PgConnection, organization: Uuid, epoch: i64) -> Result<Arc<Rules>, Failure> {
        if let Some(rules) = locked(&self.rules).get(&organization)
            && rules.epoch == epoch
        {
            return Ok(Arc::clone(rules));
        }
        let rules = Arc::new(Rules::read(pg, organization, epoch)?);
        locked(&self.rules).insert(organization, Arc::clone(&rules));
        Ok(rules)
    }
}

impl Rules {
    fn read(pg: &mut PgConnection, organization: Uuid, epoch: i64) -> Result<Self, Failure> {
        let (window_days, has_test_clocks): (i32, bool) = ReadSettings { organization }.get_result(pg)?;
        let window_days = u16::try_from(window_days).unwrap_or(u16::MAX);
        let mut metrics: HashMap<String, Vec<RolledMetric>> = HashMap::new();
        let rows: Vec<(String, Uuid, String, Option<String>, Vec<String>)> = ReadRollups { organization }.load(pg)?;
        for (event_name, id, aggregation_type, property_name, keys) in rows {
            let of_name = metrics.entry(event_name).or_default();
            match of_name.last_mut() {
                Some(metric) if metric.id == id => metric.key_sets.push(keys),
                _ => {
                    let aggregation = aggregation(&aggregation_type, property_name)?;
                    of_name.push(RolledMetric { id, aggregation, key_sets: vec![keys] });
                }
            }
        }
        Ok(Self { epoch, window_days, has_test_clocks, metrics })
    }
}

/// An event on its way in.
struct Row<'e> {
    /// Its place in the call.
    index: usize,
    event: &'e Event,
    customer: Uuid,
    id_hash: Uuid,
    properties: String,
    probe_start: OffsetDateTime,
    month: Month,
    probe_end: OffsetDateTime,
}

/// The first 16 bytes of the SHA-256 of an idempotency id: an index entry of one size, whatever the sender chose.
pub(crate) fn id_hash(idempotency_id: &str) -> Uuid {
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(Sha256::digest(idempotency_id.as_bytes())).for_each(|(to, from)| *to = from);
    Uuid::from_bytes(bytes)
}

/// The properties as JSON. The database could keep a null character but never read it.
fn properties_text(index: usize, event: &Event) -> Result<String, Error> {
    let text = serde_json::to_string(&event.properties).map_err(|error| StoreError::Internal(error.to_string()))?;
    // An escaped backslash before the same letters is found too; then the strings themselves decide.
    let has_null = text.contains("\\u0000")
        && event.properties.iter().any(|(name, value)| name.contains('\0') || holds_null(value));
    if has_null || [event.customer.as_str(), &event.name, &event.idempotency_id].iter().any(|text| text.contains('\0'))
    {
        let attr = format!("events.{index}");
        return Err(FieldError::new(attr, FieldCode::Invalid, "The null character is not allowed.").into());
    }
    Ok(text)
}

fn holds_null(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_null),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || holds_null(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl EventIngest for PgStore {
    fn ingest(&self, organization: OrganizationId, events: &[Event], window: Window) -> Result<Vec<Ingested>, Error> {
        let mut answers = Vec::with_capacity(events.len());
        for (number, chunk) in events.chunks(CHUNK).enumerate() {
            answers.extend(self.ingest_chunk(organization, number * CHUNK, chunk, window)?);
        }
        Ok(answers)
    }
}

impl PgStore {
    fn ingest_chunk(
        &self,
        organization: OrganizationId,
        offset: usize,
        events: &[Event],
        window: Window,
    ) -> Result<Vec<Ingested>, Error> {
        let mut answers = vec![Ingested::Duplicate; events.len()];
        let keys: Vec<Uuid> =
            events.iter().map(|event| CustomerKey::derive(organization, &event.customer).uuid()).collect();
        let times = self.shared.pool.run(|pg| Ok(Times::read(self, pg, organization, &keys))).and_then(|times| times);
        let times = times.map_err(Failure::into_error)?;
        let mut rows = Vec::with_capacity(events.len());
        let mut seen = HashSet::with_capacity(events.len());
        for (index, (event, customer)) in events.iter().zip(keys).enumerate() {
            let now = times.of(customer);
            if window == Window::Enforced && !is_within_window(event.time_created, now, times.window_days) {
                answers[index] = Ingested::OutsideWindow;
                continue;
            }
            let id_hash = id_hash(&event.idempotency_id);
            if !seen.insert((customer, id_hash)) {
                continue;
            }
            let properties = properties_text(offset + index, event)?;
            let (probe_start, probe_end) = times.probed(event, now, window);
            let month = Month::of(event.time_created);
            rows.push(Row { index, event, customer, id_hash, properties, probe_start, month, probe_end });
        }
        if !rows.is_empty() {
            self.make_months(&rows)?;
            self.register_names(organization.uuid(), &rows)?;
            for index in self.store_rows(organization.uuid(), &rows)? {
                answers[index] = Ingested::Stored;
            }
        }
        Ok(answers)
    }

    fn make_months(&self, rows: &[Row<'_>]) -> Result<(), Error> {
        let wanted: BTreeSet<Month> = rows.iter().map(|row| row.month).collect();
        let missing: Vec<Month> = wanted.difference(&locked(&self.shared.ingest.months)).copied().collect();
        for month in missing {
            self.shared.pool.run(|pg| month.create(pg)).map_err(Failure::into_error)?;
            locked(&self.shared.ingest.months).insert(month);
        }
        Ok(())
    }

    /// Notes the names and how late their events are before any of them is stored: a new metric must not think
    /// that an hour is complete in which there are events.
    fn register_names(&self, organization: Uuid, rows: &[Row<'_>]) -> Result<(), Error> {
        let mut latest: BTreeMap<&str, OffsetDateTime> = BTreeMap::new();
        for row in rows {
            let before = rollup::hour_after(row.event.time_created);
            let entry = latest.entry(row.event.name.as_str()).or_insert(before);
            *entry = before.max(*entry);
        }
        {
            let known = locked(&self.shared.ingest.names);
            latest.retain(|name, before| {
                known.get(&(organization, (*name).to_owned())).is_none_or(|known| known < before)
            });
        }
        if latest.is_empty() {
            return Ok(());
        }
        let (names, latest_before): (Vec<String>, Vec<OffsetDateTime>) =
            latest.iter().map(|(name, before)| ((*name).to_owned(), *before)).unzip();
        let statement = RegisterNames { organization, names, latest_before };
        self.shared.pool.run(|pg| statement.clone().execute(pg)).map_err(Failure::into_error)?;
        let mut known = locked(&self.shared.ingest.names);
        if known.len() > NAMES_MAX {
            known.clear();
        }
        known.extend(latest.into_iter().map(|(name, before)| ((organization, name.to_owned()), before)));
        Ok(())
    }

    /// Stores and counts the rows that are new, and answers their places in the call.
    fn store_rows(&self, organization: Uuid, rows: &[Row<'_>]) -> Result<Vec<usize>, Error> {
        let lanes: BTreeSet<i32> =
            rows.iter().map(|row| self.shared.ingest.lanes.of(CustomerKey::from(row.customer))).collect();
        let lanes: Vec<i32> = lanes.into_iter().collect();
        let by_id: HashMap<(Uuid, Uuid), &Row<'_>> =
            rows.iter().map(|row| ((row.customer, row.id_hash), row)).collect();
        self.transact(|pg| {
            rollup::lock_lanes(pg, lanes.clone())?;
            let (_, epoch): (OffsetDateTime, i64) = ReadEpoch { organization }.get_result(pg)?;
            let rules = self.shared.ingest.rules(pg, organization, epoch)?;
            let stored: Vec<(Uuid, Uuid)> = insert_events(organization, rows).load(pg)?;
            let mut additions = Additions::default();
            let mut indexes = Vec::with_capacity(stored.len());
            for row in stored.iter().filter_map(|id| by_id.get(id)) {
                if let Some(metrics) = rules.metrics.get(&row.event.name) {
                    additions.add(row.customer, row.event, metrics);
                }
                indexes.push(row.index);
            }
            additions.write(pg, organization)?;
            Ok(indexes)
        })
        .map_err(Failure::into_error)
    }
}

/// The times at which the customers of one call live.
struct Times {
    now: OffsetDateTime,
    window_days: u16,
    of_test_clocks: HashMap<Uuid, OffsetDateTime>,
}

impl Times {
    fn read(
        store: &PgStore,
        pg: &mut PgConnection,
        organization: OrganizationId,
        keys: &[Uuid],
    ) -> Result<Self, Failure> {
        let organization = organization.uuid();
        let found: Option<(OffsetDateTime, i64)> = ReadEpoch { organization }.get_result(pg).optional()?;
        let (now, epoch) = found.ok_or(Error::NotFound(Noun::Organization))?;
        let rules = store.shared.ingest.rules(pg, organization, epoch)?;
        let mut of_test_clocks = HashMap::new();
        if rules.has_test_clocks {
            let customers: BTreeSet<Uuid> = keys.iter().copied().collect();
            let statement = ReadTestTimes { organization, customers: customers.into_iter().collect() };
            of_test_clocks.extend(statement.load::<(Uuid, OffsetDateTime)>(pg)?);
        }
        Ok(Self { now, window_days: rules.window_days, of_test_clocks })
    }

    fn of(&self, customer: Uuid) -> OffsetDateTime {
        self.of_test_clocks.get(&customer).copied().unwrap_or(self.now)
    }

    /// The whole months in which an event of the same id would be the same event.
    fn probed(&self, event: &Event, now: OffsetDateTime, window: Window) -> (OffsetDateTime, OffsetDateTime) {
        let days = Duration::days(i64::from(self.window_days));
        let (from, to) = match window {
            Window::Enforced => (moved(now, -days), moved(now, billing_domain::event::AHEAD_MAX)),
            Window::Open => (moved(event.time_created, -days), moved(event.time_created, days)),
        };
        (Month::of(from).start(), Month::of(to).next().start())
    }
}

fn insert_events(organization: Uuid, rows: &[Row<'_>]) -> InsertEvents {
    fn column<'e, T>(rows: &[Row<'e>], value: impl Fn(&Row<'e>) -> T) -> Vec<T> {
        rows.iter().map(value).collect()
    }
    InsertEvents {
        organization,
        customers: column(rows, |row| row.customer),
        customer_ids: column(rows, |row| row.event.customer.as_str().to_owned()),
        hashes: column(rows, |row| row.id_hash),
        ids: column(rows, |row| row.event.idempotency_id.clone()),
        names: column(rows, |row| row.event.name.clone()),
        times: column(rows, |row| row.event.time_created),
        properties: column(rows, |row| row.properties.clone()),
        probe_starts: column(rows, |row| row.probe_start),
        month_starts: column(rows, |row| row.month.start()),
        month_ends: column(rows, |row| row.month.next().start()),
        probe_ends: column(rows, |row| row.probe_end),
    }
}
