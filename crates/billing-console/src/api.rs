//! What a page asks of the service.

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

/// What a call of the API answered.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The JSON body.
    pub value: Value,
    /// The cursor with which a list goes on, if it does.
    pub next: Option<String>,
}

/// Why a call was not answered as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status.
    pub status: u16,
    /// The code of the problem, as the API names it.
    pub code: String,
    /// What is wrong, for people.
    pub detail: String,
    /// What is wrong with which field, by the path that the API has for it.
    pub faults: Vec<(String, String)>,
}

impl Failure {
    /// Nothing is at this address, or nothing that may be known of.
    pub fn not_found() -> Self {
        Self::new(404, "not_found", crate::text::NOT_FOUND)
    }

    /// The role does not allow it.
    pub fn forbidden() -> Self {
        Self::new(403, "forbidden", crate::text::FORBIDDEN)
    }

    /// It waits for a second person: where that request is, and no failure but for the page that hoped for an answer.
    pub fn waiting(approval_id: &str) -> Self {
        Self::new(202, "waiting", approval_id)
    }

    /// The page of the request that waits for a second person in place of what was asked.
    pub fn approval_path(&self) -> Option<String> {
        (self.status == 202).then(|| format!("/console/approvals/{}/", crate::visit::escaped(&self.detail)))
    }

    /// A failure of this kind.
    pub fn new(status: u16, code: &str, detail: &str) -> Self {
        Self { status, code: code.to_owned(), detail: detail.to_owned(), faults: Vec::new() }
    }

    /// The same, of this field alone.
    #[must_use]
    pub fn at(self, field: &str) -> Self {
        let faults = vec![(field.to_owned(), self.detail.clone())];
        Self { faults, ..self }
    }
}

/// What is asked of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// To show something.
    Get,
    /// To make or do something.
    Post,
    /// To change something.
    Patch,
    /// To take something away.
    Delete,
}

/// An answer to come. Pages run on one thread, as requests do.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + 'a>>;

/// The API, on behalf of the viewer: in their organization, and within their role.
pub trait Api {
    /// Asks for something that is shown. `path` begins with `/api/`.
    fn get(&self, path: String) -> Asking<'_>;
    /// Has something done, once for all requests with the same `once`.
    fn send(&self, verb: Verb, path: String, body: Value, once: String) -> Asking<'_>;
}
