//! Audits of the organization's books: whether everything that is stored adds up.

use actix_web::web;
use billing_domain::Error;
use billing_domain::books_audit::{BooksAudit, BooksAuditState, BooksBreach};
use billing_domain::id::BooksAuditId;
use billing_domain::store::{Page, Transaction};
use billing_domain::workflow::request_books_audit;

use crate::answer::Accepted;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, post};
use crate::error::ApiError;
use crate::list::{ListAnswer, Paging};
use crate::path::PathParam;
use crate::wire::{Instant, view, words_of};

words_of! { BooksAuditState }

/// The calls about audits of the books.
pub fn endpoints() -> Vec<Endpoint> {
    const ONE: &str = "/api/books_audits/{books_audit_id}/";
    vec![
        post("/api/books_audits/", "Have the books audited in the background", request).answers::<BooksAuditView>(202),
        get("/api/books_audits/", "List audits of the books, newest first: the last 20", list)
            .lists::<BooksAuditView>(),
        get(ONE, "Show an audit of the books and what it found", show).answers::<BooksAuditView>(200),
    ]
}

view! {
    /// An audit of the books: everything is computed again from what is stored, and held against it.
    BooksAuditView {
        /// Its id.
        books_audit_id: BooksAuditId,
        /// Where it stands.
        state: BooksAuditState,
        /// When somebody asked for it.
        requested_at: Instant,
        /// When it came to its end; null while it runs.
        finished_at: Option<Instant>,
        /// Checks that are done.
        checks_done: u64,
        /// What they found wrong; of one check at most 101 are counted.
        breaches_found: u64,
        /// What they found wrong, in the order of the checks, at most 500; null in lists.
        breaches: Option<Vec<BooksBreachView>>,
        /// Why it could not be carried out; null where it is not `failed`.
        failure: Option<String>,
    }
}

view! {
    /// Something in the books that does not add up.
    BooksBreachView {
        /// The check that found it.
        check: String,
        /// The invoice, credit, subscription, record or customer it is about.
        subject: String,
        /// What is wrong, with the figures.
        problem: String,
    }
}

impl From<BooksBreach> for BooksBreachView {
    fn from(BooksBreach { check, subject, problem }: BooksBreach) -> Self {
        Self { check, subject, problem }
    }
}

impl BooksAuditView {
    fn new(audit: BooksAudit, breaches: Option<Vec<BooksBreach>>) -> Self {
        Self {
            books_audit_id: audit.id,
            state: audit.state,
            requested_at: Instant(audit.requested_at),
            finished_at: audit.finished_at.map(Instant),
            checks_done: audit.checks_done,
            breaches_found: audit.breaches_found,
            breaches: breaches.map(|breaches| breaches.into_iter().map(Into::into).collect()),
            failure: audit.failure,
        }
    }

    /// With what it found.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn load(tx: &mut dyn Transaction, id: BooksAuditId) -> Result<Self, Error> {
        let audit = tx.books_audits().get(id)?;
        let breaches = tx.books_audits().list_breaches(id)?;
        Ok(Self::new(audit, Some(breaches)))
    }
}

/// `POST /api/books_audits/`
async fn request(app: web::Data<App>, caller: Caller) -> Result<Accepted<BooksAuditView>, ApiError> {
    let view = app.on_catalog(&caller, |tx, now| Ok(BooksAuditView::new(request_books_audit(tx, now)?, None)));
    Ok(Accepted(view.await?))
}

/// `GET /api/books_audits/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<BooksAuditView>, ApiError> {
    let page = app.read(&caller, move |tx, _| tx.books_audits().list(&paging.0)).await?;
    let items = page.items.into_iter().map(|audit| BooksAuditView::new(audit, None)).collect();
    Ok(ListAnswer(Page { items, next: page.next }))
}

/// `GET /api/books_audits/{books_audit_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<BooksAuditId>,
) -> Result<web::Json<BooksAuditView>, ApiError> {
    Ok(web::Json(app.read(&caller, move |tx, _| BooksAuditView::load(tx, id)).await?))
}
