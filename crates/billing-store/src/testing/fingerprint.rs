//! What an organization owns, in short: whether a call has changed any of it.

use std::cell::RefCell;

use billing_domain::id::OrganizationId;
use diesel::prelude::*;
use diesel::sql_types::{Array, Nullable, Text, Uuid as SqlUuid};
use uuid::Uuid;

use crate::pg::schema::lanes;
use crate::pg::statement::statement;
use crate::pg::{citus, node};

statement! {
    /// A digest of the organization's rows for each table, of some schemas, that has any organization's.
    Fingerprint -> Nullable<Text> {
        "SELECT string_agg(
            table_schema || '.' || table_name || ' ' || md5(query_to_xml(
                format('SELECT %s AS row FROM %I.%I t WHERE %I = %L ORDER BY 1',
                    CASE WHEN table_name LIKE '%messages' THEN '(to_jsonb(t) - ''is_placed'')::text'
                        WHEN table_name = 'usage_alerts' THEN '(to_jsonb(t) - ''is_introduced'')::text'
                        WHEN table_name = 'jobs' THEN
                            '(to_jsonb(t) - ''{state,finished_at,customers_done,customers_after,events_after,failure,leased_until}''::text[])::text'
                        WHEN table_name = 'books_audits' THEN
                            '(to_jsonb(t) - ''{state,finished_at,attempts,checks_done,breaches_found,breaches,failure,leased_until}''::text[])::text'
                        WHEN table_name = 'api_keys' THEN '(to_jsonb(t) - ''last_used_at'')::text'
                        WHEN table_name = 'webhook_endpoints' THEN
                            '(to_jsonb(t) - ''{position,leased_to,leased_until,served_at,failing_since}''::text[])::text'
                        ELSE 't::text' END,
                    table_schema, table_name, column_name, "
                    organization: Uuid as SqlUuid; "::uuid),
                true, false, ''
            )::text),
            E'\n' ORDER BY table_schema, table_name
        )
        FROM information_schema.columns
        WHERE table_schema = ANY(" schemas: Vec<String> as Array<Text>; ")
            AND table_name NOT IN ('event_arrivals', 'metric_rollups', 'hot_buckets', 'usage_rollup', 'rollup_versions', 'subscription_versions', 'counted_usage', 'message_counters', 'feed_entries', 'webhook_attempts', 'webhook_pending', 'usage_alert_marks', 'usage_alert_headroom', 'usage_alert_looks', 'event_minutes', 'uncounted_events', 'event_watches', 'passed_events')
            AND (column_name = 'organization_id' OR table_name = 'organizations' AND column_name = 'id')"
    }
}

/// Everything an organization owns, as a line for each table: two are the same when no row has changed. Without
/// roll-ups, which follow from the events and are filled in the background, without the places of messages and what was sent of them, which is seen to behind the commit,
/// without who is to be held against usage alerts, without what is told of the events of the last hour, and without how far arrival numbers have come.
///
/// # Panics
/// When the database at `url` does not answer.
pub fn fingerprint(url: &str, organization: OrganizationId) -> String {
    KEPT.with_borrow_mut(|kept| {
        if let Some((of, servers)) = kept
            && of == url
            && let Ok(found) = fingerprint_of(servers, organization)
        {
            return found;
        }
        let mut servers = connect_to_all(url).unwrap_or_else(|error| panic!("{error}"));
        let found = fingerprint_of(&mut servers, organization).unwrap_or_else(|error| panic!("{error}"));
        *kept = Some((url.to_owned(), servers));
        found
    })
}

thread_local! {
    /// The connections that the last fingerprint was taken by: others would have to learn of all tables first.
    static KEPT: RefCell<Option<(String, Vec<PgConnection>)>> = const { RefCell::new(None) };
}

/// To home, and to the nodes behind it that were added by hand: what an engine has on its own is seen from home.
fn connect_to_all(url: &str) -> ConnectionResult<Vec<PgConnection>> {
    let mut home = PgConnection::establish(url)?;
    let is_engines = citus::is_there(&mut home).map_err(ConnectionError::CouldntSetupConfiguration)?;
    let nodes = if is_engines { Ok(Vec::new()) } else { node::all(&mut home) };
    let mut all = vec![home];
    for node in nodes.map_err(ConnectionError::CouldntSetupConfiguration)? {
        all.push(PgConnection::establish(&node.place().url(url))?);
    }
    Ok(all)
}

/// The catalogue as home has it, and the lanes wherever they are.
fn fingerprint_of(servers: &mut [PgConnection], organization: OrganizationId) -> QueryResult<String> {
    let mut schemas: Vec<String> = Vec::new();
    let parts = servers.iter_mut().enumerate().map(|(number, pg)| {
        if number == 0 {
            schemas = lanes::table.select(lanes::schema_name).load(pg)?;
        }
        let catalogue = (number == 0).then(|| "public".to_owned());
        let of = schemas.iter().cloned().chain(catalogue).collect();
        let statement = Fingerprint { organization: organization.uuid(), schemas: of };
        Ok(statement.get_result::<Option<String>>(pg)?.unwrap_or_default())
    });
    Ok(parts.collect::<QueryResult<Vec<_>>>()?.join("\n"))
}
