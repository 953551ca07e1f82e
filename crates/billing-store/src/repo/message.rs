//! Messages: written together with their facts, placed behind the commit, read in the order of their places.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use billing_domain::id::{CustomerKey, InvoiceId, MessageId};
use billing_domain::message::{Message, MessageType, Payload};
use billing_domain::store::{FeedPage, FeedRequest, MessageRepo, Page, PageRequest, Renderer};
use billing_domain::{Error, Noun};
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{checked, choice, count, stored_count, unreadable};
use crate::pg::schema::{feed_entries, message_counters, messages, organization_messages};
use crate::pg::statement::{Beside, statement};
use crate::repo::customer::{list_key_of, page_of};
use crate::repo::usage_alert::MarkCustomers;
use crate::transaction::PgTransaction;

statement! {
    /// Writes messages, in their order; answers of each whether the organization has usage alerts.
    InsertMessages -> Bool {
        "INSERT INTO messages (customer_key, id, organization_id, message_type, at, is_live, invoice_id, data)
        SELECT told.customer_key, told.id, " organization: Uuid as SqlUuid; ", told.message_type, told.at, told.is_live,
            told.invoice_id, told.data
        FROM unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " ids: Vec<Uuid> as Array<SqlUuid>; ",
            " types: Vec<String> as Array<Text>; ", " ats: Vec<OffsetDateTime> as Array<Timestamptz>; ",
            " lives: Vec<bool> as Array<Bool>; ", " invoices: Vec<Option<Uuid>> as Array<Nullable<SqlUuid>>; ",
            " datas: Vec<Option<String>> as Array<Nullable<Text>>; ") WITH ORDINALITY
            AS told (customer_key, id, message_type, at, is_live, invoice_id, data, ordinal)
        ORDER BY told.ordinal
        RETURNING EXISTS (SELECT FROM usage_alerts alert WHERE alert.organization_id = messages.organization_id)"
    }
}

statement! {
    /// Writes messages about what is the organization's own, in their order.
    InsertOwnMessages -> Bool {
        "INSERT INTO organization_messages (organization_id, id, message_type, at, data)
        SELECT " organization: Uuid as SqlUuid; ", told.id, told.message_type, told.at, told.data
        FROM unnest(" ids: Vec<Uuid> as Array<SqlUuid>; ", " types: Vec<String> as Array<Text>; ",
            " ats: Vec<OffsetDateTime> as Array<Timestamptz>; ", " datas: Vec<Option<String>> as Array<Nullable<Text>>; ") WITH ORDINALITY
            AS told (id, message_type, at, data, ordinal)
        ORDER BY told.ordinal
        RETURNING true"
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = messages, check_for_backend(Pg))]
struct MessageRow {
    customer_key: Uuid,
    id: Uuid,
    message_type: String,
    at: OffsetDateTime,
    is_live: bool,
    invoice_id: Option<Uuid>,
    data: Option<String>,
}

impl TryFrom<MessageRow> for Message {
    type Error = Error;

    fn try_from(row: MessageRow) -> Result<Self, Error> {
        let message_type = choice(MessageType::ALL, MessageType::as_str, &row.message_type)?;
        let customer = Some(row.customer_key.into());
        let payload = match (row.invoice_id, row.data) {
            (Some(id), None) => Payload::Invoice(InvoiceId::from(id)),
            (None, Some(data)) => Payload::Json(data),
            _ => return Err(unreadable("message")),
        };
        Ok(Self::new((row.id.into(), message_type), customer, (row.at, row.is_live), payload))
    }
}

impl PgTransaction<'_> {
    /// Writes the messages that were put off, and in the same statement the first change. After a failure nothing can be written any
    /// more, and nothing will be kept.
    pub(crate) fn write_messages(&mut self) -> Result<(), Error> {
        if self.new_messages.is_empty() || self.has_failed() {
            return Ok(());
        }
        let all = std::mem::take(&mut self.new_messages);
        let tenant = self.tenant();
        let (of_customers, own): (Vec<_>, Vec<_>) = all.into_iter().partition(|message| message.customer.is_some());
        if !of_customers.is_empty() {
            let insert = InsertMessages::new(tenant, &of_customers);
            // Whoever changes something waits for each statement.
            let has_alerts: Vec<bool> = match self.take_entry()? {
                Some(entry) => self.query(|pg| Beside { aside: entry, main: insert }.load(pg))?,
                None => self.query(|pg| insert.load(pg))?,
            };
            if has_alerts.contains(&true) {
                self.mark_told(&of_customers)?;
            }
        }
        if !own.is_empty() {
            let insert = InsertOwnMessages::new(tenant, &own);
            self.query(|pg| insert.load::<bool>(pg))?;
        }
        self.deeds.has_told = true;
        Ok(())
    }
}

impl PgTransaction<'_> {
    /// Has the figures looked at of those who were told of, unless it was that they were looked at.
    fn mark_told(&mut self, told: &[Message]) -> Result<(), Error> {
        let others = told.iter().filter(|message| message.message_type != MessageType::UsageAlertTriggered);
        let customers: BTreeSet<Uuid> = others.filter_map(|message| Some(message.customer?.uuid())).collect();
        if customers.is_empty() {
            return Ok(());
        }
        let mark = MarkCustomers::now(self.tenant(), customers.into_iter().collect());
        self.query(|pg| mark.execute(pg))?;
        self.deeds.has_marked = true;
        Ok(())
    }
}

impl InsertMessages {
    fn new(organization: Uuid, all: &[Message]) -> Self {
        let (invoices, datas) = all.iter().map(|message| columns_of(&message.payload)).unzip();
        Self {
            organization,
            customers: all.iter().filter_map(|message| Some(message.customer?.uuid())).collect(),
            ids: all.iter().map(|message| message.id.uuid()).collect(),
            types: all.iter().map(|message| message.message_type.as_str().to_owned()).collect(),
            ats: all.iter().map(|message| message.at).collect(),
            lives: all.iter().map(|message| message.is_live).collect(),
            invoices,
            datas,
        }
    }
}

impl InsertOwnMessages {
    fn new(organization: Uuid, all: &[Message]) -> Self {
        Self {
            organization,
            ids: all.iter().map(|message| message.id.uuid()).collect(),
            types: all.iter().map(|message| message.message_type.as_str().to_owned()).collect(),
            ats: all.iter().map(|message| message.at).collect(),
            datas: all.iter().map(|message| columns_of(&message.payload).1).collect(),
        }
    }
}

/// The invoice and the data of a payload.
fn columns_of(payload: &Payload) -> (Option<Uuid>, Option<String>) {
    match payload {
        Payload::Invoice(id) => (Some(id.uuid()), None),
        Payload::Json(data) => (None, Some(data.clone())),
    }
}

/// How many positions of a feed are looked at for messages of some types alone.
const LOOKED_AT_MAX: i64 = 50_000;

/// A place in the feed: its position, whose the message is, if it is a customer's, and its id.
pub(crate) type Entry = (i64, Option<Uuid>, Uuid);

/// A part of the feed, without the messages.
pub(crate) struct Entries {
    pub(crate) entries: Vec<Entry>,
    reached: i64,
    first_kept: i64,
}

impl Entries {
    /// The page with its messages. What is missing was dropped since the places were read, and so was everything before it.
    pub(crate) fn page(self, messages: Vec<Message>) -> Result<FeedPage, Error> {
        let places = self.entries.iter().map(|(position, _, id)| (*position, *id));
        let there: HashSet<Uuid> = messages.iter().map(|message| message.id.uuid()).collect();
        let gone = places.filter(|(_, id)| !there.contains(id)).map(|(position, _)| position).max();
        let first_kept = self.first_kept.max(gone.map_or(0, |position| position + 1));
        Ok(FeedPage::new(placed(self.entries, messages)?, count(self.reached)?, count(first_kept)?))
    }
}

/// Messages at their places.
pub(crate) fn placed(entries: Vec<Entry>, messages: Vec<Message>) -> Result<Vec<(u64, Message)>, Error> {
    let mut found: HashMap<Uuid, Message> = messages.into_iter().map(|message| (message.id.uuid(), message)).collect();
    let found = entries.into_iter().filter_map(|(position, _, id)| Some((position, found.remove(&id)?)));
    found.map(|(position, message)| Ok((count(position)?, message))).collect()
}

impl PgTransaction<'_> {
    /// A part of the feed, without the messages.
    pub(crate) fn list_entries(&mut self, wanted: &FeedRequest) -> Result<Entries, Error> {
        let (tenant, after): (Uuid, i64) = (self.tenant(), stored_count(wanted.after)?);
        let counter = message_counters::table
            .find(tenant)
            .select((message_counters::last_position, message_counters::first_kept));
        let counter: Option<(i64, i64)> = self.query(|pg| counter.first(pg).optional())?;
        let Some((last, first_kept)) = counter else {
            return Ok(Entries { entries: Vec::new(), reached: 0, first_kept: 1 });
        };
        let from = after.max(first_kept - 1);
        // What stands beyond the last was placed after the counter was read. Of all types every position is one to answer.
        let end = if wanted.types.is_empty() { last } else { last.min(from.saturating_add(LOOKED_AT_MAX)) };
        let in_reach = feed_entries::position.gt(from).and(feed_entries::position.le(end));
        let mut query =
            feed_entries::table.filter(feed_entries::organization_id.eq(tenant)).filter(in_reach).into_boxed();
        if !wanted.types.is_empty() {
            query = query.filter(feed_entries::message_type.eq_any(wanted.types.iter().map(|wanted| wanted.as_str())));
        }
        let query = query.order(feed_entries::position).limit(i64::from(wanted.limit) + 1).select((
            feed_entries::position,
            feed_entries::customer_key,
            feed_entries::message_id,
        ));
        let mut entries: Vec<Entry> = self.query(|pg| query.load(pg))?;
        let is_cut = entries.len() > wanted.limit as usize;
        entries.truncate(wanted.limit as usize);
        let reached = entries.last().filter(|_| is_cut).map_or(end, |(position, ..)| *position);
        Ok(Entries { entries, reached, first_kept })
    }

    /// The places of these messages, in their order.
    pub(crate) fn find_entries(&mut self, ids: &[MessageId]) -> Result<Vec<Entry>, Error> {
        let query = feed_entries::table
            .filter(feed_entries::organization_id.eq(self.tenant()))
            .filter(feed_entries::message_id.eq_any(ids.iter().map(|id| id.uuid())))
            .order(feed_entries::position)
            .select((feed_entries::position, feed_entries::customer_key, feed_entries::message_id));
        self.query(|pg| query.load(pg))
    }

    /// The messages at these places, in any order.
    pub(crate) fn load_messages(&mut self, entries: &[Entry]) -> Result<Vec<Message>, Error> {
        let mut found = self.load_own_messages(entries)?;
        let (keys, ids): (Vec<Uuid>, Vec<Uuid>) =
            entries.iter().filter_map(|(_, key, id)| Some(((*key)?, *id))).unzip();
        if keys.is_empty() {
            return Ok(found);
        }
        let is_wanted = sql::<Bool>("(messages.customer_key, messages.id) IN (SELECT * FROM unnest(")
            .bind::<Array<SqlUuid>, _>(keys)
            .sql(", ")
            .bind::<Array<SqlUuid>, _>(ids)
            .sql("))");
        let query = messages::table
            .filter(checked(messages::organization_id.eq(self.tenant())))
            .filter(is_wanted)
            .select(MessageRow::as_select());
        let rows: Vec<MessageRow> = self.query(|pg| query.load(pg))?;
        for row in rows {
            found.push(row.try_into()?);
        }
        Ok(found)
    }

    /// Those of the messages at these places that are the organization's own.
    pub(crate) fn load_own_messages(&mut self, entries: &[Entry]) -> Result<Vec<Message>, Error> {
        let ids: Vec<Uuid> = entries.iter().filter(|(_, key, _)| key.is_none()).map(|(.., id)| *id).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let query = organization_messages::table
            .filter(organization_messages::organization_id.eq(self.tenant()))
            .filter(organization_messages::id.eq_any(ids))
            .select((
                organization_messages::id,
                organization_messages::message_type,
                organization_messages::at,
                organization_messages::data,
            ));
        let rows: Vec<(Uuid, String, OffsetDateTime, String)> = self.query(|pg| query.load(pg))?;
        let read = |(id, text, at, data): (Uuid, String, OffsetDateTime, String)| {
            let message_type = choice(MessageType::ALL, MessageType::as_str, &text)?;
            Ok(Message::new((id.into(), message_type), None, (at, true), Payload::Json(data)))
        };
        rows.into_iter().map(read).collect()
    }
}

impl MessageRepo for PgTransaction<'_> {
    fn renderer(&self) -> Arc<dyn Renderer> {
        self.shared.messages.renderer()
    }

    fn new_id(&mut self) -> MessageId {
        Uuid::now_v7().into()
    }

    fn insert(&mut self, message: Message) -> Result<(), Error> {
        self.new_messages.push(message);
        Ok(())
    }

    fn get(&mut self, id: MessageId) -> Result<Message, Error> {
        let entries = self.find_entries(&[id])?;
        self.load_messages(&entries)?.pop().ok_or(Error::NotFound(Noun::Message))
    }

    fn list_by_id(&mut self, ids: &[MessageId]) -> Result<Vec<(u64, Message)>, Error> {
        let entries = self.find_entries(ids)?;
        let messages = self.load_messages(&entries)?;
        placed(entries, messages)
    }

    fn list(&mut self, wanted: &FeedRequest) -> Result<FeedPage, Error> {
        let entries = self.list_entries(wanted)?;
        let messages = self.load_messages(&entries.entries)?;
        entries.page(messages)
    }

    /// Ids are of version 7, and a customer's messages are written one transaction after the other: by id is by time.
    fn list_of(&mut self, customer: CustomerKey, page: &PageRequest) -> Result<Page<Message>, Error> {
        let before = page.after.as_deref().map(list_key_of).transpose()?;
        let mut query = messages::table
            .filter(messages::customer_key.eq(customer.uuid()))
            .filter(checked(messages::organization_id.eq(self.tenant())))
            .into_boxed();
        if let Some(before) = before {
            query = query.filter(messages::id.lt(before));
        }
        let query = query.order(messages::id.desc()).limit(i64::from(page.limit) + 1).select(MessageRow::as_select());
        let rows: Vec<MessageRow> = self.query(|pg| query.load(pg))?;
        let read = |row: MessageRow| Ok((row.id.simple().to_string(), row.try_into()?));
        Ok(page_of(rows.into_iter().map(read).collect::<Result<_, Error>>()?, page.limit))
    }
}
