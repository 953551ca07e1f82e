//! `GET /api/audit_log/`: who changed what.

use actix_web::http::header::{ACCEPT, CONTENT_TYPE};
use actix_web::{HttpRequest, HttpResponse, Responder, web};
use billing_console::csv;
use billing_domain::audit::{ActorKind, AuditEntry, AuditFilter};
use billing_domain::customer::CustomerId;
use billing_domain::id::{AuditEntryId, CustomerKey};
use billing_domain::store::Page;
use billing_domain::{Error, FieldCode, StoreError};
use serde_json::value::RawValue;

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::ApiError;
use crate::list::{ListAnswer, Paging, map_page, next_link};
use crate::message::Data;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{Instant, StartDate, UntilDate, view, words_of};

const PARAMETERS: &[Parameter] = &[
    Parameter::optional("customer_id", "Only what belongs to this customer."),
    Parameter::optional(
        "actor",
        "Only what this one changed: the prefix or name of a key, the id or address of a user.",
    ),
    Parameter::optional("operation", "Only this call, by its `operationId` in the description of the interface."),
    Parameter::optional("kind", "Only things of this kind, such as `invoice`."),
    Parameter::optional("id", "Only the thing with this id."),
    Parameter::optional("from", "The first instant; a date is its midnight UTC."),
    Parameter::optional("to", "The first instant behind the last; a date ends with its day."),
];

/// The calls about the audit log.
pub fn endpoints() -> Vec<Endpoint> {
    let list = get("/api/audit_log/", "List who changed what, newest first; also as CSV", list);
    vec![list.parameters(PARAMETERS).lists::<AuditEntryView>()]
}

words_of! { ActorKind }

view! {
    /// A change that somebody made.
    AuditEntryView {
        /// Its id.
        audit_entry_id: AuditEntryId,
        /// When, in real time, whatever clock its customer lives by.
        timestamp: Instant,
        /// What whoever made it is.
        actor_type: ActorKind,
        /// The prefix of the API key, or the id of the user.
        actor_id: String,
        /// The name of the key, or the address of the user, as it was then.
        actor_name: String,
        /// Where they called from.
        address: Option<String>,
        /// The request by which they did, as its answer's `X-Request-Id` says.
        request_id: String,
        /// What they called, by its `operationId` in the description of the interface.
        operation: String,
        /// What kind of thing was changed.
        kind: String,
        /// Which one; null where they were several.
        id: Option<String>,
        /// Whose it is; null: the organization's.
        customer_id: Option<String>,
        /// The thing as its call showed it before; null where it was not there, or never changes.
        before: Option<Data>,
        /// What the call answered, without secrets; null where it is not there any more.
        after: Option<Data>,
    }
}

impl AuditEntryView {
    fn new(entry: AuditEntry) -> Result<Self, Error> {
        let AuditEntry { id, at, customer, change } = entry;
        Ok(Self {
            audit_entry_id: id,
            timestamp: Instant(at),
            actor_type: change.actor.kind,
            actor_id: change.actor.id,
            actor_name: change.actor.name,
            address: change.address,
            request_id: change.request_id,
            operation: change.operation,
            kind: change.kind,
            id: change.subject,
            customer_id: customer.map(|customer| customer.to_string()),
            before: change.before.map(json).transpose()?,
            after: change.after.map(json).transpose()?,
        })
    }
}

/// The columns of the table, in the order of [`AuditEntryView::cells`].
const COLUMNS: [&str; 13] = [
    "timestamp",
    "actor_type",
    "actor_id",
    "actor_name",
    "address",
    "request_id",
    "operation",
    "kind",
    "id",
    "customer_id",
    "before",
    "after",
    "audit_entry_id",
];

impl AuditEntryView {
    fn cells(&self) -> [String; 13] {
        [
            self.timestamp.to_string(),
            self.actor_type.as_str().to_owned(),
            self.actor_id.clone(),
            self.actor_name.clone(),
            self.address.clone().unwrap_or_default(),
            self.request_id.clone(),
            self.operation.clone(),
            self.kind.clone(),
            self.id.clone().unwrap_or_default(),
            self.customer_id.clone().unwrap_or_default(),
            self.before.as_ref().map(ToString::to_string).unwrap_or_default(),
            self.after.as_ref().map(ToString::to_string).unwrap_or_default(),
            self.audit_entry_id.to_string(),
        ]
    }
}

fn json(text: String) -> Result<Data, Error> {
    let raw = RawValue::from_string(text);
    raw.map(Data::from).map_err(|error| StoreError::Internal(format!("an entry cannot be shown: {error}")).into())
}

/// Which entries, out of a query string.
struct Filter {
    customer: Option<CustomerId>,
    others: AuditFilter,
}

impl FromQuery for Filter {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let customer = query.optional("customer_id");
        let (actor, operation) = (query.optional("actor"), query.optional("operation"));
        let (kind, subject) = (query.optional("kind"), query.optional("id"));
        let (from, to) = (query.optional("from"), query.optional("to"));
        let texts = actor.zip(operation).zip(kind.zip(subject));
        let read = customer.zip(texts).zip(from.zip(to)).map(|((customer, texts), (from, to))| {
            let ((actor, operation), (kind, subject)) = texts;
            let (from, to) = (from.map(|StartDate(from)| from), to.map(|UntilDate(to)| to));
            Self { customer, others: AuditFilter { customer: None, actor, operation, kind, subject, from, to } }
        });
        query.finish(read)?.checked()
    }
}

impl Filter {
    fn checked(self) -> Result<Self, ApiError> {
        match self.others.from.zip(self.others.to) {
            Some((from, to)) if to < from => {
                Err(ApiError::field("to", FieldCode::MinValue, "The end lies before the start."))
            }
            _ => Ok(self),
        }
    }
}

/// A part of the log, as JSON or as CSV.
enum Listed {
    Json(ListAnswer<AuditEntryView>),
    Csv(Page<AuditEntryView>),
}

impl Responder for Listed {
    type Body = actix_web::body::BoxBody;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse {
        match self {
            Self::Json(list) => list.respond_to(request),
            Self::Csv(page) => {
                let mut response = HttpResponse::Ok();
                response.insert_header((CONTENT_TYPE, "text/csv; charset=utf-8; header=present"));
                if let Some(link) = next_link(request, page.next.as_deref()) {
                    response.insert_header(link);
                }
                response.body(csv::text(COLUMNS, page.items.iter().map(AuditEntryView::cells)))
            }
        }
    }
}

/// Whether a table is asked for.
fn wants_csv(request: &HttpRequest) -> bool {
    let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept
        .split(',')
        .any(|one| one.split(';').next().is_some_and(|media| media.trim().eq_ignore_ascii_case("text/csv")))
}

/// `GET /api/audit_log/`
async fn list(
    request: HttpRequest,
    app: web::Data<App>,
    caller: Caller,
    ApiQuery(filter): ApiQuery<Filter>,
    Paging(page): Paging,
) -> Result<Listed, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        let mut wanted = filter.others.clone();
        if let Some(customer) = &filter.customer {
            wanted.customer = Some(CustomerKey::derive(tx.organization(), customer));
        }
        map_page(tx.audit_log().list(&wanted, &page)?, AuditEntryView::new)
    });
    let page = page.await?;
    Ok(if wants_csv(&request) { Listed::Csv(page) } else { Listed::Json(ListAnswer(page)) })
}
