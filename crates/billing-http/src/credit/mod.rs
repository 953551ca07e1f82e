//! Credits: money on a customer's account that pays invoices down.

mod view;

use actix_web::web;
use billing_domain::credit::{CreditLedger, CreditStatus};
use billing_domain::customer::CustomerId;
use billing_domain::id::{CreditId, CustomerKey};
use billing_domain::workflow::{CreateCredit, UpdateCredit, create_credit, find_currency, update_credit, void_credit};
use billing_domain::{Error, FieldErrors};
use time::OffsetDateTime;

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, Parameter, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{Instant, Number, Patch, body, read_through};
pub use view::CreditView;

const LIST_PARAMETERS: &[Parameter] = &[
    Parameter::required("customer_id", "Whose credits."),
    Parameter::optional("currency_code", "Keeps those in this currency."),
    Parameter::list("status", "List of `active`, `inactive`; both when missing."),
    Parameter::optional("effective_after", "Keeps those effective at or after this instant."),
    Parameter::optional("effective_before", "Keeps those effective at or before this instant."),
    Parameter::optional("expires_after", "Keeps those that expire at or after this instant, or never."),
    Parameter::optional("expires_before", "Keeps those that expire at or before this instant."),
    Parameter::optional("issued_after", "Keeps those granted at or after this instant."),
    Parameter::optional("issued_before", "Keeps those granted at or before this instant."),
];

/// The calls about credits.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/credits/", "List a customer's credits, newest first", list)
            .parameters(LIST_PARAMETERS)
            .lists::<CreditView>(),
        post("/api/credits/", "Grant a credit, and invoice what is paid for it", create)
            .takes::<CreateCredit>()
            .answers::<CreditView>(201)
            .may_wait(),
        get("/api/credits/{credit_id}/", "Show a credit", show).answers::<CreditView>(200),
        post("/api/credits/{credit_id}/update/", "Change description and expiry of an active credit", update)
            .takes::<CreditUpdateBody>()
            .answers::<CreditView>(200),
        post("/api/credits/{credit_id}/void/", "Take away what a credit has left", void)
            .answers::<CreditView>(200)
            .may_wait(),
    ]
}

body! {
    /// A new credit.
    CreditBody {
        /// Whose.
        required customer_id: CustomerId,
        /// How much it is worth.
        required amount: Number,
        /// The currency it pays invoices in.
        required currency_code: String,
        /// What it is for.
        optional description: String,
        /// From when on it pays invoices; from now on when missing.
        optional effective_at: Instant,
        /// From when on it does not; never when missing.
        optional expires_at: Instant,
        /// What the customer pays for it; nothing when missing.
        optional amount_paid: Number,
        /// What the customer pays in.
        optional amount_paid_currency_code: String,
    }
}

impl CreditBody {
    fn read(self) -> Result<CreateCredit, FieldErrors> {
        Ok(CreateCredit {
            customer: self.customer_id,
            amount: self.amount.0,
            currency_code: self.currency_code,
            description: self.description,
            effective_at: self.effective_at.map(|Instant(at)| at),
            expires_at: self.expires_at.map(|Instant(at)| at),
            amount_paid: self.amount_paid.map_or_else(Default::default, |paid| paid.0),
            amount_paid_currency_code: self.amount_paid_currency_code,
        })
    }
}

read_through! { CreateCredit = CreditBody; }

body! {
    /// What to change of a credit.
    CreditUpdateBody {
        /// What it is for; null clears it.
        patch description: String,
        /// From when on it pays no invoices; null: never.
        patch expires_at: Instant,
    }
}

impl CreditUpdateBody {
    fn read(self, customer: CustomerKey, credit: CreditId) -> UpdateCredit {
        let expires_at = match self.expires_at {
            Patch::Keep => None,
            Patch::Clear => Some(None),
            Patch::Set(Instant(at)) => Some(Some(at)),
        };
        UpdateCredit { customer, credit, description: self.description.nullable(), expires_at }
    }
}

/// Which credits a list keeps.
#[derive(Clone, Debug)]
struct CreditFilter {
    customer: CustomerId,
    currency_code: Option<String>,
    statuses: Vec<CreditStatus>,
    effective: Bounds,
    expires: Bounds,
    issued: Bounds,
}

/// Two instants, both inside; either may be missing.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    after: Option<Instant>,
    before: Option<Instant>,
}

impl Bounds {
    fn read(query: &mut Query, name: &str) -> Option<Self> {
        let after = query.optional(&format!("{name}_after"));
        let before = query.optional(&format!("{name}_before"));
        after.zip(before).map(|(after, before)| Self { after, before })
    }

    /// Whether an instant is inside; `None` is beyond every instant.
    fn hold(&self, instant: Option<OffsetDateTime>) -> bool {
        let is_after = |Instant(bound): Instant| instant.is_none_or(|instant| instant >= bound);
        let is_before = |Instant(bound): Instant| instant.is_some_and(|instant| instant <= bound);
        self.after.is_none_or(is_after) && self.before.is_none_or(is_before)
    }
}

impl FromQuery for CreditFilter {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let (customer, currency_code) = (query.required("customer_id"), query.optional("currency_code"));
        let statuses = query.list("status");
        let bounds = ["effective", "expires", "issued"].map(|name| Bounds::read(&mut query, name));
        let read = match (customer, currency_code, statuses, bounds) {
            (Some(customer), Some(currency_code), Some(statuses), [Some(effective), Some(expires), Some(issued)]) => {
                Some(Self { customer, currency_code, statuses, effective, expires, issued })
            }
            _ => None,
        };
        query.finish(read)
    }
}

impl CreditFilter {
    fn keeps(&self, ledger: &CreditLedger, now: OffsetDateTime) -> bool {
        let credit = ledger.credit();
        self.currency_code.as_ref().is_none_or(|code| credit.currency_code == *code)
            && (self.statuses.is_empty() || self.statuses.contains(&ledger.status(now)))
            && self.effective.hold(Some(credit.effective_at))
            && self.expires.hold(credit.expires_at)
            && self.issued.hold(Some(credit.created_at))
    }
}

/// `GET /api/credits/`
async fn list(
    app: web::Data<App>,
    caller: Caller,
    ApiQuery(filter): ApiQuery<CreditFilter>,
    paging: Paging,
) -> Result<ListAnswer<CreditView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        let key = CustomerKey::derive(tx.organization(), &filter.customer);
        tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
        if let Some(code) = &filter.currency_code {
            find_currency(tx, code).map_err(|error| error.at_field("currency_code"))?;
        }
        let now = tx.customers().now(key)?;
        let mut ledgers = tx.credits().list(key)?;
        ledgers.retain(|ledger| filter.keeps(ledger, now));
        map_page(paging.cut(ledgers)?, |ledger| CreditView::load(tx, key, &ledger))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/credits/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<CreateCredit>,
) -> Result<Created<CreditView>, ApiError> {
    let customer = command.customer.clone();
    let credit = app.on_customer(&caller, &customer, move |tx, now| {
        let ledger = create_credit(tx, &command, now)?;
        let key = CustomerKey::derive(tx.organization(), &command.customer);
        CreditView::load(tx, key, &ledger)
    });
    Ok(Created(credit.await?))
}

/// `GET /api/credits/{credit_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<CreditId>,
) -> Result<web::Json<CreditView>, ApiError> {
    let credit = app.read(&caller, move |tx, _| {
        let customer = tx.credits().customer_of(id)?;
        let ledger = tx.credits().get(customer, id)?;
        CreditView::load(tx, customer, &ledger)
    });
    Ok(web::Json(credit.await?))
}

/// `POST /api/credits/{credit_id}/update/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<CreditId>,
    ApiJson(body): ApiJson<CreditUpdateBody>,
) -> Result<web::Json<CreditView>, ApiError> {
    let customer = app.read(&caller, move |tx, _| tx.credits().customer_of(id)).await?;
    let command = body.read(customer, id);
    let credit = app.on_customer_key(&caller, customer, move |tx, now| {
        let ledger = update_credit(tx, &command, now)?;
        CreditView::load(tx, customer, &ledger)
    });
    Ok(web::Json(credit.await?))
}

/// `POST /api/credits/{credit_id}/void/`
async fn void(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<CreditId>,
) -> Result<web::Json<CreditView>, ApiError> {
    let customer = app.read(&caller, move |tx, _| tx.credits().customer_of(id)).await?;
    let credit = app.on_customer_key(&caller, customer, move |tx, now| -> Result<_, Error> {
        let ledger = void_credit(tx, customer, id, now)?;
        CreditView::load(tx, customer, &ledger)
    });
    Ok(web::Json(credit.await?))
}
