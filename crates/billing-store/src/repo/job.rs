//! Jobs.

use billing_domain::id::JobId;
use billing_domain::job::{Job, JobState};
use billing_domain::store::{JobRepo, Page, PageRequest};
use billing_domain::{Error, FieldError, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{choice, count, from_json, stored_count, to_json};
use crate::pg::schema::jobs;
use crate::repo::customer::page_of;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = jobs, check_for_backend(Pg))]
pub(crate) struct JobRow {
    organization_id: Uuid,
    id: Uuid,
    work: Value,
    state: String,
    created_at: OffsetDateTime,
    finished_at: Option<OffsetDateTime>,
    customers_done: i64,
    customers_after: Option<String>,
    events_after: Option<String>,
    failure: Option<String>,
}

impl JobRow {
    fn new(organization_id: Uuid, job: &Job) -> Result<Self, Error> {
        Ok(Self {
            organization_id,
            id: job.id.uuid(),
            work: to_json(&job.order)?,
            state: job.state.as_str().to_owned(),
            created_at: job.created_at,
            finished_at: job.finished_at,
            customers_done: stored_count(job.customers_done)?,
            customers_after: job.cursor.clone(),
            events_after: job.events_after.clone(),
            failure: job.failure.clone(),
        })
    }
}

impl TryFrom<JobRow> for Job {
    type Error = Error;

    fn try_from(row: JobRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            order: from_json(row.work)?,
            state: choice(JobState::ALL, JobState::as_str, &row.state)?,
            created_at: row.created_at,
            finished_at: row.finished_at,
            customers_done: count(row.customers_done)?,
            cursor: row.customers_after,
            events_after: row.events_after,
            failure: row.failure,
        })
    }
}

impl JobRepo for PgTransaction<'_> {
    fn insert(&mut self, job: &Job) -> Result<(), Error> {
        let row = JobRow::new(self.tenant(), job)?;
        self.query(|pg| diesel::insert_into(jobs::table).values(&row).execute(pg)).map(drop)
    }

    fn get(&mut self, id: JobId) -> Result<Job, Error> {
        let query = jobs::table.find((self.tenant(), id.uuid())).select(JobRow::as_select());
        let row: Option<JobRow> = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::Job))?.try_into()
    }

    fn list(&mut self, page: &PageRequest) -> Result<Page<Job>, Error> {
        let bad = || FieldError::bad_cursor();
        let after: Option<JobId> = page.after.as_deref().map(|text| text.parse().map_err(|_| bad())).transpose()?;
        let mut query = jobs::table.filter(jobs::organization_id.eq(self.tenant())).into_boxed();
        if let Some(after) = after {
            query = query.filter(jobs::id.lt(after.uuid()));
        }
        let query = query.order(jobs::id.desc()).limit(i64::from(page.limit) + 1).select(JobRow::as_select());
        let rows: Vec<JobRow> = self.query(|pg| query.load(pg))?;
        let found = rows.into_iter().map(|row| Job::try_from(row).map(|job| (job.id.to_string(), job)));
        Ok(page_of(found.collect::<Result<_, _>>()?, page.limit))
    }

    fn cancel(&mut self, id: JobId, at: OffsetDateTime) -> Result<(), Error> {
        let running = jobs::table.find((self.tenant(), id.uuid())).filter(jobs::state.eq(JobState::Running.as_str()));
        let stopped = (jobs::state.eq(JobState::Cancelled.as_str()), jobs::finished_at.eq(at));
        match self.query(|pg| diesel::update(running).set(stopped).execute(pg))? {
            0 => JobRepo::get(self, id).map(drop),
            _ => Ok(()),
        }
    }
}
