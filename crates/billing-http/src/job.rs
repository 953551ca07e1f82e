//! Long work in the background, how far it is, and its end.

use actix_web::{HttpResponse, web};
use billing_domain::Error;
use billing_domain::event::Properties;
use billing_domain::id::JobId;
use billing_domain::job::{EventsChange, Job, JobKind, JobState};
use billing_domain::store::{Page, Transaction};

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, delete, get};
use crate::error::ApiError;
use crate::event_selection::EventSelectionView;
use crate::list::{ListAnswer, Paging};
use crate::path::PathParam;
use crate::wire::{Instant, view, words_of};

words_of! { JobKind, JobState }

/// The calls about jobs.
pub fn endpoints() -> Vec<Endpoint> {
    const ONE: &str = "/api/jobs/{job_id}/";
    vec![
        get("/api/jobs/", "List jobs, newest first", list).lists::<JobView>(),
        get(ONE, "Show a job and how far it is", show).answers::<JobView>(200),
        delete(ONE, "Stop a job: what it has done stays", cancel),
    ]
}

view! {
    /// Long work that is done in the background.
    JobView {
        /// Its id.
        job_id: JobId,
        /// What it does.
        kind: JobKind,
        /// Where it stands.
        state: JobState,
        /// When it was ordered.
        created_at: Instant,
        /// When it came to its end; null while it runs.
        finished_at: Option<Instant>,
        /// Customers that it is done with.
        customers_done: u64,
        /// Events that it has corrected; those that were as they were to be are not among them.
        events_corrected: u64,
        /// Why it cannot go on; null where it is not `failed`.
        failure: Option<String>,
        /// Which events it is about.
        filter: EventSelectionView,
        /// The properties that each event is given; null where events are voided.
        properties: Option<Properties>,
        /// Whether events older than the acceptance window are among them.
        beyond_window: bool,
        /// Why it was ordered, as they said.
        reason: Option<String>,
    }
}

impl JobView {
    /// Of a job that has corrected so many events.
    pub fn new(job: Job, events_corrected: u64) -> Self {
        let kind = job.order.kind();
        let properties = match job.order.change {
            EventsChange::Void => None,
            EventsChange::SetProperties(set) => Some(Properties::from(set)),
        };
        Self {
            job_id: job.id,
            kind,
            state: job.state,
            created_at: Instant(job.created_at),
            finished_at: job.finished_at.map(Instant),
            customers_done: job.customers_done,
            events_corrected,
            failure: job.failure,
            filter: job.order.selection.into(),
            properties,
            beyond_window: job.order.beyond_window,
            reason: job.order.reason,
        }
    }

    /// Of a job, with what it has done.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(tx: &mut dyn Transaction, job: Job) -> Result<Self, Error> {
        let corrected = tx.events().count_corrections(&[job.id])?.into_values().sum();
        Ok(Self::new(job, corrected))
    }

    /// Of jobs, in their order, with what they have done.
    fn list(tx: &mut dyn Transaction, jobs: Vec<Job>) -> Result<Vec<Self>, Error> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let corrected = tx.events().count_corrections(&ids)?;
        let view = |job: Job| {
            let events_corrected = corrected.get(&job.id).copied().unwrap_or_default();
            Self::new(job, events_corrected)
        };
        Ok(jobs.into_iter().map(view).collect())
    }
}

/// `GET /api/jobs/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<JobView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        let Page { items, next } = tx.jobs().list(&paging.0)?;
        Ok(Page { items: JobView::list(tx, items)?, next })
    });
    Ok(ListAnswer(page.await?))
}

/// `GET /api/jobs/{job_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<JobId>,
) -> Result<web::Json<JobView>, ApiError> {
    let view = app.read(&caller, move |tx, _| {
        let job = tx.jobs().get(id)?;
        JobView::load(tx, job)
    });
    Ok(web::Json(view.await?))
}

/// `DELETE /api/jobs/{job_id}/`
async fn cancel(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<JobId>,
) -> Result<HttpResponse, ApiError> {
    app.on_catalog(&caller, move |tx, now| tx.jobs().cancel(id, now)).await?;
    Ok(HttpResponse::NoContent().finish())
}
