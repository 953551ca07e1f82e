//! What processes tell each other of events that somebody watches come in: through two small tables at home, of which nothing is written while
//! nobody watches.

use std::collections::BTreeMap;

use billing_domain::Error;
use billing_domain::event::Event;
use billing_domain::id::{MetricId, OrganizationId};
use billing_domain::store::{EventWatch, ExchangedEvents, PassedEvents, TailedEvents};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Json, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::PgStore;
use crate::pg::column::{JsonText, count, unreadable};
use crate::pg::error::Failure;
use crate::pg::statement::statement;
use crate::repo::event::KeptProperties;

statement! {
    /// Says what a process watches, from now on.
    NoteWatches -> BigInt {
        "INSERT INTO event_watches (process, organization_id, customer_id, metric_id, watched_at)
        SELECT " process: Uuid as SqlUuid; ", watched.*, clock_timestamp()
        FROM unnest(" organizations: Vec<Uuid> as Array<SqlUuid>; ", " customers: Vec<String> as Array<Text>; ",
            " metrics: Vec<Uuid> as Array<SqlUuid>; ") AS watched
        ON CONFLICT (process, organization_id, customer_id, metric_id) DO UPDATE SET watched_at = excluded.watched_at"
    }
}

statement! {
    /// What others have watched within the last few seconds.
    ReadWatches -> (SqlUuid, SqlUuid, Text, SqlUuid) {
        "SELECT process, organization_id, customer_id, metric_id FROM event_watches
        WHERE process <> " process: Uuid as SqlUuid; " AND watched_at > clock_timestamp() - interval '5 seconds'
        ORDER BY process, organization_id, customer_id, metric_id
        LIMIT 1000"
    }
}

statement! {
    /// Drops what processes left that do not ask any more.
    DropWatches -> BigInt {
        "WITH dropped AS (
            DELETE FROM passed_events WHERE passed_at < clock_timestamp() - interval '1 minute'
        )
        DELETE FROM event_watches WHERE watched_at < clock_timestamp() - interval '1 minute'"
    }
}

statement! {
    /// Leaves events for the processes that watch them, in their order.
    PassOn -> BigInt {
        "INSERT INTO passed_events (watcher, organization_id, watched_customer_id, watched_metric_id, skipped,
            customer_id, event_name, idempotency_id, time_created, properties)
        SELECT watcher, organization_id, watched_customer_id, watched_metric_id, skipped,
            customer_id, event_name, idempotency_id, time_created, properties
        FROM unnest(" watchers: Vec<Uuid> as Array<SqlUuid>; ", " organizations: Vec<Uuid> as Array<SqlUuid>; ",
            " watched_customers: Vec<String> as Array<Text>; ", " watched_metrics: Vec<Uuid> as Array<SqlUuid>; ",
            " skipped: Vec<i64> as Array<BigInt>; ", " customers: Vec<String> as Array<Text>; ",
            " names: Vec<String> as Array<Text>; ", " ids: Vec<String> as Array<Text>; ",
            " times: Vec<OffsetDateTime> as Array<Timestamptz>; ", " properties: Vec<JsonText<String>> as Array<Json>; ")
            WITH ORDINALITY AS passed (watcher, organization_id, watched_customer_id, watched_metric_id, skipped,
                customer_id, event_name, idempotency_id, time_created, properties, place)
        ORDER BY place"
    }
}

statement! {
    /// Fetches what was left for a process.
    TakePassed -> (BigInt, SqlUuid, Text, SqlUuid, BigInt, Text, Text, Text, Timestamptz, Json) {
        "DELETE FROM passed_events WHERE watcher = " watcher: Uuid as SqlUuid; "
        RETURNING position, organization_id, watched_customer_id, watched_metric_id, skipped,
            customer_id, event_name, idempotency_id, time_created, properties"
    }
}

/// A row of [`TakePassed`].
#[derive(Queryable)]
struct PassedRow {
    position: i64,
    organization: Uuid,
    watched_customer: String,
    watched_metric: Uuid,
    skipped: i64,
    customer: String,
    name: String,
    idempotency_id: String,
    time_created: OffsetDateTime,
    properties: KeptProperties,
}

/// A row of [`ReadWatches`], which tells a watch as the tables have it.
type WatchRow = (Uuid, Uuid, String, Uuid);

fn watch_of(organization: Uuid, customer: &str, metric: Uuid) -> Result<EventWatch, Error> {
    let customer = match customer {
        "" => None,
        id => Some(id.parse().map_err(|_| unreadable("customer_id"))?),
    };
    let metric = (!metric.is_nil()).then(|| MetricId::from(metric));
    Ok(EventWatch { organization: OrganizationId::from(organization), customer, metric })
}

/// The columns of a watch: no customer and no metric are written as what is none.
fn columns_of(watch: &EventWatch) -> (Uuid, String, Uuid) {
    let customer = watch.customer.as_ref().map_or("", |customer| customer.as_str());
    (watch.organization.uuid(), customer.to_owned(), watch.metric.map_or(Uuid::nil(), |metric| metric.uuid()))
}

impl NoteWatches {
    fn of(process: Uuid, watched: &[EventWatch]) -> Self {
        let mut noted = Self { process, organizations: Vec::new(), customers: Vec::new(), metrics: Vec::new() };
        for (organization, customer, metric) in watched.iter().map(columns_of) {
            noted.organizations.push(organization);
            noted.customers.push(customer);
            noted.metrics.push(metric);
        }
        noted
    }
}

impl PassOn {
    fn of(gathered: &[PassedEvents]) -> Self {
        let rows = gathered.iter().flat_map(|passed| {
            let (watcher, watch) = (passed.watcher, columns_of(&passed.watch));
            // What was skipped is told once, by the first.
            let skipped = std::iter::once(passed.events.skipped()).chain(std::iter::repeat(0));
            passed.events.events().zip(skipped).map(move |(event, skipped)| (watcher, watch.clone(), skipped, event))
        });
        let rows: Vec<(Uuid, (Uuid, String, Uuid), u64, &Event)> = rows.collect();
        Self {
            watchers: rows.iter().map(|row| row.0).collect(),
            organizations: rows.iter().map(|row| row.1.0).collect(),
            watched_customers: rows.iter().map(|row| row.1.1.clone()).collect(),
            watched_metrics: rows.iter().map(|row| row.1.2).collect(),
            skipped: rows.iter().map(|row| i64::try_from(row.2).unwrap_or(i64::MAX)).collect(),
            customers: rows.iter().map(|row| row.3.customer.as_str().to_owned()).collect(),
            names: rows.iter().map(|row| row.3.name.clone()).collect(),
            ids: rows.iter().map(|row| row.3.idempotency_id.clone()).collect(),
            times: rows.iter().map(|row| row.3.time_created).collect(),
            properties: rows.iter().map(|row| JsonText(row.3.properties.as_json().to_owned())).collect(),
        }
    }
}

impl PgStore {
    /// [`billing_domain::store::Overviews::exchange_events`].
    pub(super) fn exchange_watched_events(
        &self,
        process: Uuid,
        watched: &[EventWatch],
        gathered: &[PassedEvents],
    ) -> Result<ExchangedEvents, Error> {
        let exchanged = self.shared.worker_pool.run(|pg| {
            if !gathered.is_empty() {
                PassOn::of(gathered).execute(pg)?;
            }
            let mut passed: Vec<PassedRow> = Vec::new();
            if !watched.is_empty() {
                NoteWatches::of(process, watched).execute(pg)?;
                passed = TakePassed { watcher: process }.load(pg)?;
                DropWatches {}.execute(pg)?;
            }
            Ok((ReadWatches { process }.load::<WatchRow>(pg)?, passed))
        });
        let (watches, passed) = exchanged.map_err(Failure::into_error)?;
        let watches = watches
            .into_iter()
            .map(|(process, organization, customer, metric)| Ok((process, watch_of(organization, &customer, metric)?)));
        Ok(ExchangedEvents { watches: watches.collect::<Result<_, Error>>()?, passed: by_watch(passed)? })
    }
}

/// What was passed on, by what it was passed on for, in the order in which it was left.
fn by_watch(mut rows: Vec<PassedRow>) -> Result<Vec<(EventWatch, TailedEvents)>, Error> {
    rows.sort_unstable_by_key(|row| row.position);
    let mut passed: BTreeMap<EventWatch, TailedEvents> = BTreeMap::new();
    for row in rows {
        let watch = watch_of(row.organization, &row.watched_customer, row.watched_metric)?;
        let events = passed.entry(watch).or_default();
        events.skip(count(row.skipped)?);
        events.push(Event {
            customer: row.customer.parse().map_err(|_| unreadable("customer_id"))?,
            name: row.name,
            idempotency_id: row.idempotency_id,
            time_created: row.time_created,
            properties: row.properties.0,
        });
    }
    Ok(passed.into_iter().collect())
}
