//! The audit log: written with the changes, and never again.

use std::cmp::Reverse;

use billing_domain::audit::{Actor, ActorKind, AuditEntry, AuditFilter, Change};
use billing_domain::customer::CustomerId;
use billing_domain::id::CustomerKey;
use billing_domain::store::{AuditRepo, Page, PageRequest};
use billing_domain::{Error, StoreError};
use diesel::prelude::*;
use diesel::query_builder::InsertStatement;
use diesel::sql_types::{BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{EARLIEST, LATEST, choice, unreadable};
use crate::pg::cursor::Cursor;
use crate::pg::schema::{audit_entries, organization_audit_entries};
use crate::pg::sql_file::sql_file;
use crate::repo::customer::page_of;
use crate::transaction::PgTransaction;

/// The columns of an [`EntryRow`].
type EntrySql = (
    Timestamptz,
    SqlUuid,
    Nullable<SqlUuid>,
    Nullable<Text>,
    Text,
    Text,
    Text,
    Nullable<Text>,
    Text,
    Text,
    Text,
    Nullable<Text>,
    Nullable<Text>,
    Nullable<Text>,
);

sql_file! {
    /// The entries of the organization's own behind a place, newest first.
    ListOwnAuditEntries -> EntrySql = "list_own_audit_entries.sql" {
        organization: Uuid as SqlUuid,
        actor: Option<String> as Nullable<Text>,
        operation: Option<String> as Nullable<Text>,
        kind: Option<String> as Nullable<Text>,
        subject: Option<String> as Nullable<Text>,
        from: OffsetDateTime as Timestamptz,
        to: OffsetDateTime as Timestamptz,
        before_at: OffsetDateTime as Timestamptz,
        before_id: Uuid as SqlUuid,
        limit: i64 as BigInt,
    }
}

sql_file! {
    /// Those of a lane's customers.
    ListAuditEntries -> EntrySql = "list_audit_entries.sql" {
        organization: Uuid as SqlUuid,
        actor: Option<String> as Nullable<Text>,
        operation: Option<String> as Nullable<Text>,
        kind: Option<String> as Nullable<Text>,
        subject: Option<String> as Nullable<Text>,
        from: OffsetDateTime as Timestamptz,
        to: OffsetDateTime as Timestamptz,
        before_at: OffsetDateTime as Timestamptz,
        before_id: Uuid as SqlUuid,
        limit: i64 as BigInt,
    }
}

sql_file! {
    /// Those of one customer.
    ListAuditEntriesOfCustomer -> EntrySql = "list_audit_entries_of_customer.sql" {
        customer: Uuid as SqlUuid,
        organization: Uuid as SqlUuid,
        actor: Option<String> as Nullable<Text>,
        operation: Option<String> as Nullable<Text>,
        kind: Option<String> as Nullable<Text>,
        subject: Option<String> as Nullable<Text>,
        from: OffsetDateTime as Timestamptz,
        to: OffsetDateTime as Timestamptz,
        before_at: OffsetDateTime as Timestamptz,
        before_id: Uuid as SqlUuid,
        limit: i64 as BigInt,
    }
}

/// An entry about what is a customer's, as it is written.
#[derive(Insertable)]
#[diesel(table_name = audit_entries, treat_none_as_default_value = false)]
pub(crate) struct NewEntryRow {
    customer_key: Uuid,
    id: Uuid,
    organization_id: Uuid,
    actor_kind: &'static str,
    actor_id: String,
    actor_name: String,
    address: Option<String>,
    request_id: String,
    operation: String,
    kind: String,
    subject: Option<String>,
    before: Option<String>,
    after: Option<String>,
}

impl NewEntryRow {
    fn new(organization_id: Uuid, customer: CustomerKey, change: Change) -> Self {
        Self {
            customer_key: customer.uuid(),
            id: Uuid::now_v7(),
            organization_id,
            actor_kind: change.actor.kind.as_str(),
            actor_id: change.actor.id,
            actor_name: change.actor.name,
            address: change.address,
            request_id: change.request_id,
            operation: change.operation,
            kind: change.kind,
            subject: change.subject,
            before: change.before,
            after: change.after,
        }
    }
}

/// Writes one entry about what is a customer's.
pub(crate) type InsertEntry =
    InsertStatement<audit_entries::table, <NewEntryRow as Insertable<audit_entries::table>>::Values>;

#[derive(Queryable)]
struct EntryRow {
    at: OffsetDateTime,
    id: Uuid,
    customer_key: Option<Uuid>,
    customer_id: Option<String>,
    actor_kind: String,
    actor_id: String,
    actor_name: String,
    address: Option<String>,
    request_id: String,
    operation: String,
    kind: String,
    subject: Option<String>,
    before: Option<String>,
    after: Option<String>,
}

impl TryFrom<EntryRow> for AuditEntry {
    type Error = Error;

    fn try_from(row: EntryRow) -> Result<Self, Error> {
        let kind = choice(ActorKind::ALL, ActorKind::as_str, &row.actor_kind)?;
        let customer =
            row.customer_id.as_deref().map(str::parse::<CustomerId>).transpose().map_err(|_| unreadable("customer"))?;
        let change = Change {
            actor: Actor { kind, id: row.actor_id, name: row.actor_name },
            address: row.address,
            request_id: row.request_id,
            operation: row.operation,
            kind: row.kind,
            subject: row.subject,
            customer: row.customer_key.map(Into::into),
            before: row.before,
            after: row.after,
        };
        Ok(Self { id: row.id.into(), at: row.at, customer, change })
    }
}

/// An entry's place in the log: the later comes first.
pub(crate) fn cursor_of(entry: &AuditEntry) -> Cursor {
    Cursor::new(entry.at, entry.id.uuid())
}

impl PgTransaction<'_> {
    /// Writes the changes that were put off. After a failure nothing can be written any more, and nothing will be kept.
    pub(crate) fn write_changes(&mut self) -> Result<(), Error> {
        if self.has_failed() {
            return Ok(());
        }
        for change in std::mem::take(&mut self.changes) {
            match change.customer {
                Some(customer) => {
                    let insert = self.entry_of_customer(customer, change)?;
                    self.query(|pg| insert.execute(pg))?;
                }
                None => self.insert_own(change)?,
            }
        }
        Ok(())
    }

    /// The first change of a customer's that was put off, for whoever writes it together with something else.
    pub(crate) fn take_entry(&mut self) -> Result<Option<InsertEntry>, Error> {
        let of_customers = self.changes.iter().enumerate().find_map(|(i, change)| Some((i, change.customer?)));
        let entry = of_customers.map(|(i, customer)| (customer, self.changes.remove(i)));
        entry.map(|(customer, change)| self.entry_of_customer(customer, change)).transpose()
    }

    fn entry_of_customer(&self, customer: CustomerKey, change: Change) -> Result<InsertEntry, Error> {
        if self.lane.is_none() {
            return Err(StoreError::Internal("a change of a customer's outside of its lane".to_owned()).into());
        }
        let row = NewEntryRow::new(self.tenant(), customer, change);
        Ok(diesel::insert_into(audit_entries::table).values(row))
    }

    fn insert_own(&mut self, change: Change) -> Result<(), Error> {
        let row = (
            organization_audit_entries::organization_id.eq(self.tenant()),
            organization_audit_entries::id.eq(Uuid::now_v7()),
            organization_audit_entries::actor_kind.eq(change.actor.kind.as_str()),
            organization_audit_entries::actor_id.eq(change.actor.id),
            organization_audit_entries::actor_name.eq(change.actor.name),
            organization_audit_entries::address.eq(change.address),
            organization_audit_entries::request_id.eq(change.request_id),
            organization_audit_entries::operation.eq(change.operation),
            organization_audit_entries::kind.eq(change.kind),
            organization_audit_entries::subject.eq(change.subject),
            organization_audit_entries::before.eq(change.before),
            organization_audit_entries::after.eq(change.after),
        );
        self.query(|pg| diesel::insert_into(organization_audit_entries::table).values(row).execute(pg)).map(drop)
    }

    /// The entries behind a place, one more than a page of so many has: of this lane's customers, and with `own` those of the
    /// organization's own.
    pub(crate) fn list_changes(
        &mut self,
        own: bool,
        filter: &AuditFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>, Error> {
        let organization = self.tenant();
        let AuditFilter { actor, operation, kind, subject, .. } = filter.clone();
        let (from, to) = (filter.from.unwrap_or(EARLIEST), filter.to.unwrap_or(LATEST));
        let (before_at, before_id) = after.map_or((LATEST, Uuid::max()), Cursor::parts);
        let limit = i64::from(limit) + 1;
        let list =
            ListAuditEntries { organization, actor, operation, kind, subject, from, to, before_at, before_id, limit };
        let mut rows: Vec<EntryRow> = match filter.customer {
            Some(customer) => self.load_of_customer(customer, list.clone())?,
            None => self.query(|pg| list.clone().load(pg))?,
        };
        if own && filter.customer.is_none() {
            rows.extend(self.list_own_changes(list)?);
            rows.sort_by_key(|row| Reverse((row.at, row.id)));
            rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        rows.into_iter().map(AuditEntry::try_from).collect()
    }

    /// Those of one customer, found by the customer, however many the organization has.
    fn load_of_customer(&mut self, customer: CustomerKey, list: ListAuditEntries) -> Result<Vec<EntryRow>, Error> {
        let ListAuditEntries { organization, actor, operation, kind, subject, from, to, before_at, before_id, limit } =
            list;
        let customer = customer.uuid();
        let list = ListAuditEntriesOfCustomer {
            customer,
            organization,
            actor,
            operation,
            kind,
            subject,
            from,
            to,
            before_at,
            before_id,
            limit,
        };
        self.query(|pg| list.load(pg))
    }

    /// Those of the organization's own, from the catalogue.
    fn list_own_changes(&mut self, list: ListAuditEntries) -> Result<Vec<EntryRow>, Error> {
        let ListAuditEntries { organization, actor, operation, kind, subject, from, to, before_at, before_id, limit } =
            list;
        let list = ListOwnAuditEntries {
            organization,
            actor,
            operation,
            kind,
            subject,
            from,
            to,
            before_at,
            before_id,
            limit,
        };
        match self.away() {
            Some(_) => self.ask_home(|home| list.clone().load(home)),
            None => self.query(|pg| list.load(pg)),
        }
    }
}

/// A page of what was found behind the page before.
pub(crate) fn audit_page(found: Vec<AuditEntry>, limit: u32) -> Page<AuditEntry> {
    page_of(found.into_iter().map(|entry| (cursor_of(&entry).to_text(), entry)).collect(), limit)
}

impl AuditRepo for PgTransaction<'_> {
    fn insert(&mut self, change: Change) -> Result<(), Error> {
        self.changes.push(change);
        Ok(())
    }

    fn list(&mut self, filter: &AuditFilter, page: &PageRequest) -> Result<Page<AuditEntry>, Error> {
        self.write_deferred()?;
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        Ok(audit_page(self.list_changes(true, filter, after, page.limit)?, page.limit))
    }
}
