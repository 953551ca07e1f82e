//! Audits of the books.

use billing_domain::books_audit::{BooksAudit, BooksAuditState, BooksBreach};
use billing_domain::id::BooksAuditId;
use billing_domain::store::{BooksAuditRepo, Page, PageRequest};
use billing_domain::{Error, FieldError, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{choice, count, from_json, stored_count};
use crate::pg::schema::books_audits;
use crate::repo::customer::page_of;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = books_audits, check_for_backend(Pg))]
pub(crate) struct BooksAuditRow {
    organization_id: Uuid,
    id: Uuid,
    state: String,
    requested_at: OffsetDateTime,
    finished_at: Option<OffsetDateTime>,
    attempts: i64,
    checks_done: i64,
    breaches_found: i64,
    failure: Option<String>,
}

impl BooksAuditRow {
    fn new(organization_id: Uuid, audit: &BooksAudit) -> Result<Self, Error> {
        Ok(Self {
            organization_id,
            id: audit.id.uuid(),
            state: audit.state.as_str().to_owned(),
            requested_at: audit.requested_at,
            finished_at: audit.finished_at,
            attempts: stored_count(audit.attempts)?,
            checks_done: stored_count(audit.checks_done)?,
            breaches_found: stored_count(audit.breaches_found)?,
            failure: audit.failure.clone(),
        })
    }
}

impl TryFrom<BooksAuditRow> for BooksAudit {
    type Error = Error;

    fn try_from(row: BooksAuditRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            state: choice(BooksAuditState::ALL, BooksAuditState::as_str, &row.state)?,
            requested_at: row.requested_at,
            finished_at: row.finished_at,
            attempts: count(row.attempts)?,
            checks_done: count(row.checks_done)?,
            breaches_found: count(row.breaches_found)?,
            failure: row.failure,
        })
    }
}

impl BooksAuditRepo for PgTransaction<'_> {
    fn insert(&mut self, audit: &BooksAudit) -> Result<(), Error> {
        let row = BooksAuditRow::new(self.tenant(), audit)?;
        self.query(|pg| diesel::insert_into(books_audits::table).values(&row).execute(pg))?;
        let finished = books_audits::table
            .filter(books_audits::organization_id.eq(self.tenant()))
            .filter(books_audits::state.ne(BooksAuditState::Running.as_str()));
        let kept = i64::try_from(BooksAudit::KEPT_MAX).unwrap_or(i64::MAX);
        let old = finished.order(books_audits::id.desc()).offset(kept).select(books_audits::id);
        let old: Vec<Uuid> = self.query(|pg| old.load(pg))?;
        if old.is_empty() {
            return Ok(());
        }
        let dropped = books_audits::table
            .filter(books_audits::organization_id.eq(self.tenant()))
            .filter(books_audits::id.eq_any(old));
        self.query(|pg| diesel::delete(dropped).execute(pg)).map(drop)
    }

    fn get(&mut self, id: BooksAuditId) -> Result<BooksAudit, Error> {
        let query = books_audits::table.find((self.tenant(), id.uuid())).select(BooksAuditRow::as_select());
        let row: Option<BooksAuditRow> = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::BooksAudit))?.try_into()
    }

    fn list_breaches(&mut self, id: BooksAuditId) -> Result<Vec<BooksBreach>, Error> {
        let query = books_audits::table.find((self.tenant(), id.uuid())).select(books_audits::breaches);
        let breaches: Option<Value> = self.query(|pg| query.first(pg).optional())?;
        from_json(breaches.ok_or(Error::NotFound(Noun::BooksAudit))?)
    }

    fn list(&mut self, page: &PageRequest) -> Result<Page<BooksAudit>, Error> {
        let after = page.after.as_deref().map(|text| text.parse().map_err(|_| FieldError::bad_cursor()));
        let after: Option<BooksAuditId> = after.transpose()?;
        let mut query = books_audits::table.filter(books_audits::organization_id.eq(self.tenant())).into_boxed();
        if let Some(after) = after {
            query = query.filter(books_audits::id.lt(after.uuid()));
        }
        let limit = i64::from(page.limit) + 1;
        let query = query.order(books_audits::id.desc()).limit(limit).select(BooksAuditRow::as_select());
        let rows: Vec<BooksAuditRow> = self.query(|pg| query.load(pg))?;
        let found = rows.into_iter().map(|row| BooksAudit::try_from(row).map(|audit| (audit.id.to_string(), audit)));
        Ok(page_of(found.collect::<Result<_, _>>()?, page.limit))
    }
}
