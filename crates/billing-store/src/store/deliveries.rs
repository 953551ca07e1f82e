//! Leases of webhook endpoints, and what came of turns at them.

use billing_domain::Error;
use billing_domain::id::{OrganizationId, WebhookEndpointId};
use billing_domain::store::{Deliveries, DeliveryRecord, EndpointStanding, LeaseRequest};
use billing_domain::webhook::{DeliveryAttempt, WebhookEndpoint};
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::PgStore;
use crate::pg::column::{count, stored_count};
use crate::pg::error::Failure;
use crate::pg::schema::{webhook_endpoints, webhook_pending};
use crate::pg::statement::statement;
use crate::repo::webhook::{EndpointRow, PutPending};

statement! {
    /// Leases enabled endpoints that have something to be sent, so many of each organization; those that another process looks at right
    /// now are skipped. What it leased a moment ago is seen once the row is locked, so leases are looked at there again. `free` is made
    /// once: were it read for each row of the table, each time would find others, since those it has leased are skipped.
    LeaseEndpoints -> (SqlUuid, SqlUuid) {
        "WITH input AS (
            SELECT " owner: Uuid as SqlUuid; "::uuid AS owner, " now: OffsetDateTime as Timestamptz; "::timestamptz AS now,
                " until: OffsetDateTime as Timestamptz; "::timestamptz AS until
        ), free AS MATERIALIZED (
            SELECT endpoint.organization_id, endpoint.id
            FROM (
                SELECT waiting.organization_id, waiting.id, input.now,
                    row_number() OVER (PARTITION BY waiting.organization_id ORDER BY waiting.served_at NULLS FIRST, waiting.id) AS turn
                FROM input
                CROSS JOIN webhook_endpoints waiting
                LEFT JOIN message_counters counter USING (organization_id)
                WHERE waiting.status = 'enabled' AND (waiting.failing_since IS NOT NULL) = " are_failing: bool as Bool; "
                    AND coalesce(waiting.leased_until <= input.now, true)
                    AND (
                        waiting.position < counter.last_position
                        OR EXISTS (
                            SELECT FROM webhook_pending pending
                            WHERE pending.organization_id = waiting.organization_id AND pending.endpoint_id = waiting.id
                                AND pending.next_at <= input.now
                        )
                    )
            ) due
            JOIN webhook_endpoints endpoint USING (organization_id, id)
            LEFT JOIN unnest(" organizations: Vec<Uuid> as Array<SqlUuid>; ", " rooms: Vec<i64> as Array<BigInt>; ")
                AS room (organization_id, most) USING (organization_id)
            WHERE due.turn <= coalesce(room.most, " most_of_each: i64 as BigInt; ") AND coalesce(endpoint.leased_until <= due.now, true)
            ORDER BY endpoint.served_at NULLS FIRST, endpoint.id
            LIMIT " limit: i64 as BigInt; "
            FOR UPDATE OF endpoint SKIP LOCKED
        )
        UPDATE webhook_endpoints
        SET leased_to = input.owner, leased_until = input.until, served_at = input.now
        FROM input, free
        WHERE webhook_endpoints.organization_id = free.organization_id AND webhook_endpoints.id = free.id
        RETURNING webhook_endpoints.organization_id, webhook_endpoints.id"
    }
}

statement! {
    /// Prolongs a process's leases that still run.
    RenewLeases -> SqlUuid {
        "UPDATE webhook_endpoints SET leased_until = " until: OffsetDateTime as Timestamptz; "
        WHERE leased_to = " owner: Uuid as SqlUuid; " AND leased_until > " now: OffsetDateTime as Timestamptz; "
        RETURNING id"
    }
}

statement! {
    /// Ends a lease of a process.
    ReleaseEndpoint -> SqlUuid {
        "UPDATE webhook_endpoints SET leased_to = NULL, leased_until = NULL
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND id = " endpoint: Uuid as SqlUuid; "
            AND leased_to = " owner: Uuid as SqlUuid; "
        RETURNING id"
    }
}

statement! {
    /// Moves an endpoint on that is still leased.
    MoveOn -> SqlUuid {
        "UPDATE webhook_endpoints
        SET position = CASE WHEN position = moved.from_position AND webhook_endpoints.replays = moved.replays THEN moved.to_position ELSE position END,
            failing_since = moved.failing_since
        FROM (
            SELECT " from: Option<i64> as Nullable<BigInt>; "::bigint AS from_position, " to: Option<i64> as Nullable<BigInt>; "::bigint AS to_position,
                " replays: i64 as BigInt; "::bigint AS replays, " failing_since: Option<OffsetDateTime> as Nullable<Timestamptz>; "::timestamptz AS failing_since
        ) moved
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND id = " endpoint: Uuid as SqlUuid; "
            AND leased_to = " owner: Uuid as SqlUuid; "
        RETURNING id"
    }
}

statement! {
    /// Keeps what was tried, in its order.
    InsertAttempts -> BigInt {
        "INSERT INTO webhook_attempts (organization_id, endpoint_id, message_id, attempt, at, status, duration_ms, answer)
        SELECT " organization: Uuid as SqlUuid; ", " endpoint: Uuid as SqlUuid; ", tried.message_id, tried.attempt, tried.at,
            tried.status, tried.duration_ms, tried.answer
        FROM unnest(" messages: Vec<Uuid> as Array<SqlUuid>; ", " attempts: Vec<i64> as Array<BigInt>; ",
            " ats: Vec<OffsetDateTime> as Array<Timestamptz>; ", " statuses: Vec<Option<i64>> as Array<Nullable<BigInt>>; ",
            " durations: Vec<i64> as Array<BigInt>; ", " answers: Vec<String> as Array<Text>; ") WITH ORDINALITY
            AS tried (message_id, attempt, at, status, duration_ms, answer, ordinal)
        ORDER BY tried.ordinal
        RETURNING id"
    }
}

statement! {
    /// How endpoints stand that are behind, failing or disabled; the furthest behind first.
    ListStandings -> (SqlUuid, SqlUuid, BigInt, BigInt, Nullable<Timestamptz>, Nullable<Timestamptz>, Bool) {
        "SELECT standing.organization_id, standing.id, waiting, behind,
            (SELECT entry.written_at FROM feed_entries entry
                WHERE entry.organization_id = standing.organization_id AND NOT is_disabled
                    AND entry.position >= least(first_waiting, next_position)
                ORDER BY entry.position LIMIT 1),
            failing_since, is_disabled
        FROM (
            SELECT endpoint.organization_id, endpoint.id, pending.waiting, pending.first_waiting, endpoint.position + 1 AS next_position,
                greatest(coalesce(counter.last_position, 0) - endpoint.position, 0) AS behind,
                endpoint.failing_since, endpoint.status = 'disabled' AS is_disabled
            FROM webhook_endpoints endpoint
            LEFT JOIN message_counters counter USING (organization_id)
            CROSS JOIN LATERAL (
                SELECT count(*) AS waiting, min(webhook_pending.position) AS first_waiting FROM webhook_pending
                WHERE webhook_pending.organization_id = endpoint.organization_id AND webhook_pending.endpoint_id = endpoint.id
            ) pending
        ) standing
        WHERE waiting > 0 OR behind > 0 OR failing_since IS NOT NULL OR is_disabled
        ORDER BY failing_since NULLS LAST, waiting + behind DESC, standing.id
        LIMIT " limit: i64 as BigInt; ""
    }
}

statement! {
    /// Drops the oldest attempts.
    DropAttempts -> BigInt {
        "DELETE FROM webhook_attempts
        WHERE (organization_id, endpoint_id, id) IN (
            SELECT organization_id, endpoint_id, id FROM webhook_attempts
            WHERE at < " before: OffsetDateTime as Timestamptz; "
            ORDER BY at
            LIMIT " limit: i64 as BigInt; "
        )
        RETURNING id"
    }
}

/// What came of a turn need not be on disk before the next one: if it is lost, the turn is sent once more, under the same ids.
const NEED_NOT_LAST: &str = "SET LOCAL synchronous_commit = off";

impl InsertAttempts {
    fn new(organization: Uuid, endpoint: Uuid, tried: &[DeliveryAttempt]) -> Self {
        Self {
            organization,
            endpoint,
            messages: tried.iter().map(|one| one.message.uuid()).collect(),
            attempts: tried.iter().map(|one| i64::from(one.attempt)).collect(),
            ats: tried.iter().map(|one| one.at).collect(),
            statuses: tried.iter().map(|one| one.status.map(i64::from)).collect(),
            durations: tried.iter().map(|one| i64::from(one.duration_ms)).collect(),
            answers: tried.iter().map(|one| one.answer.clone()).collect(),
        }
    }
}

type StandingRow = (Uuid, Uuid, i64, i64, Option<OffsetDateTime>, Option<OffsetDateTime>, bool);

fn standing(
    (organization, endpoint, waiting, behind, oldest, since, is_disabled): StandingRow,
) -> Result<EndpointStanding, Error> {
    let counts = (count(waiting)?, count(behind)?);
    Ok(EndpointStanding::new((organization.into(), endpoint.into()), counts, (oldest, since), is_disabled))
}

impl Deliveries for PgStore {
    fn lease_endpoints(&self, wanted: &LeaseRequest) -> Result<Vec<(OrganizationId, WebhookEndpointId)>, Error> {
        let LeaseRequest { owner, limit, most_of_each, ref room_of, are_failing, now, lease } = *wanted;
        let (organizations, rooms) = room_of.iter().map(|(id, room)| (id.uuid(), i64::from(*room))).unzip();
        let (limit, most_of_each) = (i64::from(limit), i64::from(most_of_each));
        let until = now + lease;
        let statement = LeaseEndpoints { owner, now, until, are_failing, organizations, rooms, most_of_each, limit };
        let rows =
            self.shared.pool.run(|pg| statement.clone().load::<(Uuid, Uuid)>(pg)).map_err(Failure::into_error)?;
        Ok(rows.into_iter().map(|(organization, endpoint)| (organization.into(), endpoint.into())).collect())
    }

    fn renew_leases(&self, owner: Uuid, now: OffsetDateTime, lease: Duration) -> Result<(), Error> {
        let statement = RenewLeases { until: now + lease, owner, now };
        self.shared.pool.run(|pg| statement.clone().load::<Uuid>(pg)).map(drop).map_err(Failure::into_error)
    }

    fn release_endpoint(
        &self,
        owner: Uuid,
        organization: OrganizationId,
        endpoint: WebhookEndpointId,
    ) -> Result<(), Error> {
        let statement = ReleaseEndpoint { organization: organization.uuid(), endpoint: endpoint.uuid(), owner };
        self.shared.pool.run(|pg| statement.clone().load::<Uuid>(pg)).map(drop).map_err(Failure::into_error)
    }

    fn record_deliveries(
        &self,
        owner: Uuid,
        organization: OrganizationId,
        endpoint: WebhookEndpointId,
        record: &DeliveryRecord,
    ) -> Result<Option<WebhookEndpoint>, Error> {
        let (tenant, id) = (organization.uuid(), endpoint.uuid());
        let place = |position: u64| stored_count::<i64>(position);
        let from = record.reached.map(|(from, _)| place(from)).transpose()?;
        let to = record.reached.map(|(_, to)| place(to)).transpose()?;
        let replays = place(record.replays)?;
        let settled: Vec<Uuid> = record.settled.iter().map(|message| message.uuid()).collect();
        let pending = PutPending::new(tenant, endpoint, &record.pending)?;
        let recorded = self.shared.pool.transact(|pg| {
            pg.batch_execute(NEED_NOT_LAST)?;
            let failing_since = record.failing_since;
            let moved = MoveOn { from, to, replays, failing_since, organization: tenant, endpoint: id, owner };
            if moved.load::<Uuid>(pg)?.is_empty() {
                return Ok(None);
            }
            if !record.attempts.is_empty() {
                InsertAttempts::new(tenant, id, &record.attempts).load::<i64>(pg)?;
            }
            if !settled.is_empty() {
                let waiting = webhook_pending::table
                    .filter(webhook_pending::organization_id.eq(tenant).and(webhook_pending::endpoint_id.eq(id)))
                    .filter(webhook_pending::message_id.eq_any(&settled));
                diesel::delete(waiting).execute(pg)?;
            }
            if !record.pending.is_empty() {
                pending.clone().load::<Uuid>(pg)?;
            }
            let stands = webhook_endpoints::table.find((tenant, id)).select(EndpointRow::as_select());
            Ok(Some(stands.first::<EndpointRow>(pg)?))
        });
        recorded.map_err(Failure::into_error)?.map(TryInto::try_into).transpose()
    }

    fn list_standings(&self, limit: u32) -> Result<Vec<EndpointStanding>, Error> {
        let statement = ListStandings { limit: i64::from(limit) };
        let rows = self.shared.pool.run(|pg| statement.clone().load::<StandingRow>(pg)).map_err(Failure::into_error)?;
        rows.into_iter().map(standing).collect()
    }

    fn drop_attempts(&self, before: OffsetDateTime, limit: u32) -> Result<u64, Error> {
        let statement = DropAttempts { before, limit: i64::from(limit) };
        let dropped = self.shared.pool.run(|pg| statement.clone().load::<i64>(pg)).map_err(Failure::into_error)?;
        Ok(dropped.len() as u64)
    }
}
