//! Webhook endpoints, what waits to be sent to them again, and the attempts.

use billing_domain::id::{MessageId, WebhookEndpointId};
use billing_domain::message::MessageType;
use billing_domain::store::{Page, PageRequest, WebhookRepo};
use billing_domain::webhook::{DeliveryAttempt, EndpointStatus, PendingDelivery, WebhookEndpoint};
use billing_domain::{Error, FieldError, Noun};
use diesel::dsl::{max, min};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Nullable, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{choice, count, stored_count};
use crate::pg::schema::{feed_entries, message_counters, webhook_attempts, webhook_endpoints, webhook_pending};
use crate::pg::statement::statement;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = webhook_endpoints, check_for_backend(Pg))]
pub(crate) struct EndpointRow {
    organization_id: Uuid,
    id: Uuid,
    url: String,
    event_types: Vec<String>,
    description: Option<String>,
    public_key: String,
    secret: Vec<u8>,
    old_secret: Option<Vec<u8>>,
    old_secret_until: Option<OffsetDateTime>,
    status: String,
    disabled_reason: Option<String>,
    failing_since: Option<OffsetDateTime>,
    position: i64,
    replays: i64,
    created_at: OffsetDateTime,
}

impl EndpointRow {
    fn new(organization_id: Uuid, endpoint: &WebhookEndpoint) -> Result<Self, Error> {
        let endpoint = endpoint.clone();
        let (old_secret, old_secret_until) = endpoint.old_secret.unzip();
        Ok(Self {
            organization_id,
            id: endpoint.id.uuid(),
            url: endpoint.url,
            event_types: endpoint.event_types.iter().map(|wanted| wanted.as_str().to_owned()).collect(),
            description: endpoint.description,
            public_key: endpoint.public_key,
            secret: endpoint.secret,
            old_secret,
            old_secret_until,
            status: endpoint.status.as_str().to_owned(),
            disabled_reason: endpoint.disabled_reason,
            failing_since: endpoint.failing_since,
            position: stored_count(endpoint.position)?,
            replays: stored_count(endpoint.replays)?,
            created_at: endpoint.created_at,
        })
    }
}

impl TryFrom<EndpointRow> for WebhookEndpoint {
    type Error = Error;

    fn try_from(row: EndpointRow) -> Result<Self, Error> {
        let wanted = row.event_types.iter().map(|text| choice(MessageType::ALL, MessageType::as_str, text));
        Ok(Self {
            id: row.id.into(),
            url: row.url,
            event_types: wanted.collect::<Result<_, _>>()?,
            description: row.description,
            public_key: row.public_key,
            secret: row.secret,
            old_secret: row.old_secret.zip(row.old_secret_until),
            status: choice(EndpointStatus::ALL, EndpointStatus::as_str, &row.status)?,
            disabled_reason: row.disabled_reason,
            failing_since: row.failing_since,
            position: count(row.position)?,
            replays: count(row.replays)?,
            created_at: row.created_at,
        })
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = webhook_pending, check_for_backend(Pg))]
struct PendingRow {
    message_id: Uuid,
    position: i64,
    attempts: i64,
    next_at: OffsetDateTime,
    first_at: Option<OffsetDateTime>,
}

impl TryFrom<PendingRow> for PendingDelivery {
    type Error = Error;

    fn try_from(row: PendingRow) -> Result<Self, Error> {
        Ok(Self::new(count(row.position)?, row.message_id.into(), row.next_at)
            .after(count(row.attempts)?, row.first_at))
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = webhook_attempts, check_for_backend(Pg))]
struct AttemptRow {
    message_id: Uuid,
    attempt: i64,
    at: OffsetDateTime,
    status: Option<i64>,
    duration_ms: i64,
    answer: String,
}

impl TryFrom<AttemptRow> for DeliveryAttempt {
    type Error = Error;

    fn try_from(row: AttemptRow) -> Result<Self, Error> {
        let status = row.status.map(count).transpose()?;
        let made = (row.message_id.into(), count(row.attempt)?);
        Ok(Self::new(made, row.at, status, count(row.duration_ms)?, &row.answer))
    }
}

statement! {
    /// Has messages wait to be sent as these say.
    PutPending -> SqlUuid {
        "INSERT INTO webhook_pending (organization_id, endpoint_id, message_id, position, attempts, next_at, first_at)
        SELECT " organization: Uuid as SqlUuid; ", " endpoint: Uuid as SqlUuid; ", pending.*
        FROM unnest(" messages: Vec<Uuid> as Array<SqlUuid>; ", " positions: Vec<i64> as Array<BigInt>; ", " attempts: Vec<i64> as Array<BigInt>; ", "
            nexts: Vec<OffsetDateTime> as Array<Timestamptz>; ", "
            firsts: Vec<Option<OffsetDateTime>> as Array<Nullable<Timestamptz>>; ") AS pending (message_id, position, attempts, next_at, first_at)
        ON CONFLICT (organization_id, endpoint_id, message_id) DO UPDATE SET
            attempts = excluded.attempts, next_at = excluded.next_at, first_at = excluded.first_at
        RETURNING message_id"
    }
}

impl PutPending {
    pub(crate) fn new(
        organization: Uuid,
        endpoint: WebhookEndpointId,
        pending: &[PendingDelivery],
    ) -> Result<Self, Error> {
        Ok(Self {
            organization,
            endpoint: endpoint.uuid(),
            messages: pending.iter().map(|one| one.message.uuid()).collect(),
            positions: pending.iter().map(|one| stored_count(one.position)).collect::<Result<_, _>>()?,
            attempts: pending.iter().map(|one| i64::from(one.attempts)).collect(),
            nexts: pending.iter().map(|one| one.next_at).collect(),
            firsts: pending.iter().map(|one| one.first_at).collect(),
        })
    }
}

statement! {
    /// Takes an endpoint back to a position.
    Rewind -> BigInt {
        "UPDATE webhook_endpoints
        SET position = least(webhook_endpoints.position, target.position), replays = replays + (target.position <= webhook_endpoints.position)::int
        FROM (SELECT " position: i64 as BigInt; "::bigint AS position) target
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND id = " endpoint: Uuid as SqlUuid; "
        RETURNING webhook_endpoints.position"
    }
}

impl WebhookRepo for PgTransaction<'_> {
    fn insert(&mut self, endpoint: &WebhookEndpoint) -> Result<(), Error> {
        let row = EndpointRow::new(self.tenant(), endpoint)?;
        self.query(|pg| diesel::insert_into(webhook_endpoints::table).values(&row).execute(pg)).map(drop)
    }

    fn get(&mut self, id: WebhookEndpointId) -> Result<WebhookEndpoint, Error> {
        let query = webhook_endpoints::table.find((self.tenant(), id.uuid())).select(EndpointRow::as_select());
        let row: Option<EndpointRow> = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::WebhookEndpoint))?.try_into()
    }

    fn list(&mut self) -> Result<Vec<WebhookEndpoint>, Error> {
        let query = webhook_endpoints::table
            .filter(webhook_endpoints::organization_id.eq(self.tenant()))
            .order((webhook_endpoints::created_at, webhook_endpoints::id))
            .select(EndpointRow::as_select());
        let rows: Vec<EndpointRow> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    fn update(&mut self, endpoint: &WebhookEndpoint) -> Result<(), Error> {
        let is_same = WebhookRepo::get(self, endpoint.id)?.status == endpoint.status;
        let row = EndpointRow::new(self.tenant(), endpoint)?;
        let target = webhook_endpoints::table.find((row.organization_id, row.id));
        let changes = (
            webhook_endpoints::url.eq(&row.url),
            webhook_endpoints::event_types.eq(&row.event_types),
            webhook_endpoints::description.eq(&row.description),
            webhook_endpoints::public_key.eq(&row.public_key),
            webhook_endpoints::secret.eq(&row.secret),
            webhook_endpoints::old_secret.eq(&row.old_secret),
            webhook_endpoints::old_secret_until.eq(row.old_secret_until),
            webhook_endpoints::status.eq(&row.status),
            webhook_endpoints::disabled_reason.eq(&row.disabled_reason),
        );
        if is_same {
            return self.query(|pg| diesel::update(target).set(changes).execute(pg)).map(drop);
        }
        let moved =
            (webhook_endpoints::position.eq(row.position), webhook_endpoints::failing_since.eq(row.failing_since));
        self.query(|pg| diesel::update(target).set((changes, moved)).execute(pg))?;
        let waiting = webhook_pending::table
            .filter(webhook_pending::organization_id.eq(row.organization_id))
            .filter(webhook_pending::endpoint_id.eq(row.id));
        self.query(|pg| diesel::delete(waiting).execute(pg)).map(drop)
    }

    fn delete(&mut self, id: WebhookEndpointId) -> Result<(), Error> {
        let target = webhook_endpoints::table.find((self.tenant(), id.uuid()));
        if self.query(|pg| diesel::delete(target).execute(pg))? == 0 {
            return Err(Error::NotFound(Noun::WebhookEndpoint));
        }
        // Behind it: a turn that was written just before is seen now, and none is written any more.
        let attempts = webhook_attempts::table
            .filter(webhook_attempts::organization_id.eq(self.tenant()))
            .filter(webhook_attempts::endpoint_id.eq(id.uuid()));
        self.query(|pg| diesel::delete(attempts).execute(pg)).map(drop)
    }

    fn list_pending(
        &mut self,
        id: WebhookEndpointId,
        until: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<PendingDelivery>, Error> {
        let query = webhook_pending::table
            .filter(webhook_pending::organization_id.eq(self.tenant()))
            .filter(webhook_pending::endpoint_id.eq(id.uuid()).and(webhook_pending::next_at.le(until)))
            .order((webhook_pending::next_at, webhook_pending::position))
            .limit(i64::from(limit))
            .select(PendingRow::as_select());
        let rows: Vec<PendingRow> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    fn put_pending(&mut self, id: WebhookEndpointId, pending: &[PendingDelivery]) -> Result<(), Error> {
        let put = PutPending::new(self.tenant(), id, pending)?;
        self.query(|pg| put.load::<Uuid>(pg)).map(drop)
    }

    fn rewind(&mut self, id: WebhookEndpointId, since: OffsetDateTime) -> Result<(), Error> {
        // Behind a younger message there may be older ones: they are placed when they are seen, not when they are written.
        let young = feed_entries::table
            .filter(feed_entries::organization_id.eq(self.tenant()).and(feed_entries::written_at.ge(since)))
            .select(min(feed_entries::position));
        let first: Option<i64> = self.query(|pg| young.first(pg))?;
        let position = first.map_or(i64::MAX, |first| first - 1);
        let rewind = Rewind { position, organization: self.tenant(), endpoint: id.uuid() };
        match self.query(|pg| rewind.load::<i64>(pg))?.len() {
            0 => Err(Error::NotFound(Noun::WebhookEndpoint)),
            _ => Ok(()),
        }
    }

    fn list_attempts(
        &mut self,
        id: WebhookEndpointId,
        message: Option<MessageId>,
        page: &PageRequest,
    ) -> Result<Page<DeliveryAttempt>, Error> {
        WebhookRepo::get(self, id)?;
        let bad = || FieldError::bad_cursor();
        let before: i64 = page.after.as_deref().map_or(Ok(i64::MAX), str::parse).map_err(|_| bad())?;
        let mut query = webhook_attempts::table
            .filter(webhook_attempts::organization_id.eq(self.tenant()))
            .filter(webhook_attempts::endpoint_id.eq(id.uuid()).and(webhook_attempts::id.lt(before)))
            .into_boxed();
        if let Some(message) = message {
            query = query.filter(webhook_attempts::message_id.eq(message.uuid()));
        }
        let query = query
            .order(webhook_attempts::id.desc())
            .limit(i64::from(page.limit) + 1)
            .select((webhook_attempts::id, AttemptRow::as_select()));
        let mut rows: Vec<(i64, AttemptRow)> = self.query(|pg| query.load(pg))?;
        let limit = page.limit as usize;
        let is_last = rows.len() <= limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| !is_last).map(|(id, _)| id.to_string());
        let items = rows.into_iter().map(|(_, row)| row.try_into()).collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }

    fn last_position(&mut self) -> Result<u64, Error> {
        let query = message_counters::table
            .filter(message_counters::organization_id.eq(self.tenant()))
            .select(max(message_counters::last_position));
        let last: Option<i64> = self.query(|pg| query.first(pg))?;
        count(last.unwrap_or(0))
    }
}
