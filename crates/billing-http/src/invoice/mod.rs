//! Invoices: what was charged, how each line came about, and what was paid.

mod corrections;
mod explanation;
mod payment;
mod view;

use actix_web::web;
use billing_domain::customer::CustomerId;
use billing_domain::id::{CustomerKey, InvoiceId, TestClockId};
use billing_domain::invoice::{Invoice, PaymentStatus};
use billing_domain::store::{InvoiceFilter, Transaction};
use billing_domain::workflow::{UpdateInvoice, reissue_invoice, update_invoice, void_invoice};
use billing_domain::{Error, FieldErrors, Noun};
use serde_json::Value;

use crate::app::App;
use crate::caller::{Bearer, Caller};
use crate::endpoint::{Endpoint, Parameter, get, patch, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::{FromJson, body, words_of};
pub use explanation::ExplainedAdjustmentView;
use explanation::ExplanationView;
pub use view::{InvoiceBriefView, InvoiceView, LineItemView, VoidedInvoiceView};

const LIST_PARAMETERS: &[Parameter] = &[
    Parameter::optional("customer_id", "Keeps one customer's."),
    Parameter::optional("test_clock_id", "Keeps those of the customers of a test clock."),
    Parameter::list("status", "List of `draft`, `voided`, `paid`, `unpaid`; all issued invoices when missing."),
    Parameter::list("payment_status", "The same as status."),
];

/// The calls about invoices.
pub fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = vec![
        get("/api/invoices/", "List issued invoices, newest first", list)
            .for_bearers()
            .parameters(LIST_PARAMETERS)
            .lists::<InvoiceView>(),
        get("/api/invoices/{invoice_id}/", "Show an invoice by id or number", show).answers::<InvoiceView>(200),
        patch("/api/invoices/{invoice_id}/", "Note that an invoice was paid", update)
            .takes::<UpdateInvoiceBody>()
            .answers::<InvoiceView>(200),
        post("/api/invoices/{invoice_id}/void/", "Void an unpaid invoice, or issue it anew", void)
            .takes::<VoidBody>()
            .answers::<VoidedInvoiceView>(200)
            .may_wait(),
        get("/api/invoices/{invoice_id}/explain/", "Show how each line of an invoice came about", explain)
            .answers::<ExplanationView>(200),
    ];
    endpoints.extend(corrections::endpoints());
    endpoints.extend(payment::endpoints());
    endpoints
}

body! {
    /// What to change of an invoice.
    UpdateInvoiceBody {
        /// `paid` notes the whole rest as a payment that came now; `unpaid` changes nothing.
        required payment_status: Settlement,
    }
}

body! {
    /// How to void an invoice.
    VoidBody {
        /// `true`: another invoice is issued in its place, which bills the same again from today's events, subscriptions and tax, and nothing
        /// is forgiven. It may be of nothing, or have been taken back by later invoices.
        optional rebill: bool,
    }
}

billing_domain::choices! {
    /// What can be said of the payment of an invoice.
    pub Settlement {
        /// It was paid.
        Paid = "paid",
        /// It was not.
        Unpaid = "unpaid",
    }
}

words_of! { Settlement }

/// Which invoices a list keeps.
struct ListFilter {
    customer: Option<CustomerId>,
    clock: Option<TestClockId>,
    statuses: Vec<PaymentStatus>,
}

impl FromQuery for ListFilter {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let of = query.optional("customer_id").zip(query.optional("test_clock_id"));
        let statuses = query.list::<PaymentStatus>("status").zip(query.list("payment_status"));
        let read = of.zip(statuses).map(|((customer, clock), (statuses, also))| Self {
            customer,
            clock,
            statuses: [statuses, also].concat(),
        });
        query.finish(read)
    }
}

/// An invoice's id or its number.
#[derive(Clone, Debug)]
pub enum InvoiceName {
    /// Its id.
    Id(InvoiceId),
    /// Its number.
    Number(String),
}

impl FromJson for InvoiceName {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        match &value {
            Value::String(text) if is_number(text) => Ok(Self::Number(text.clone())),
            _ => InvoiceId::from_json(value).map(Self::Id),
        }
    }
}

/// Whether a text looks like `YYMMDD-NNNNNN`; the sequence may be longer.
fn is_number(text: &str) -> bool {
    let is_digits = |part: &str, length: std::ops::RangeInclusive<usize>| {
        length.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split_once('-').is_some_and(|(day, sequence)| is_digits(day, 6..=6) && is_digits(sequence, 6..=20))
}

impl InvoiceName {
    /// The name that a text is, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_json(Value::from(text)).ok()
    }

    /// The invoice.
    ///
    /// # Errors
    /// Those of the store.
    pub fn find(&self, tx: &mut dyn Transaction) -> Result<Invoice, Error> {
        let id = match self {
            Self::Id(id) => *id,
            Self::Number(number) => tx.invoices().find_by_number(number)?.ok_or(Error::NotFound(Noun::Invoice))?,
        };
        tx.invoices().get(id)
    }
}

/// `GET /api/invoices/`
async fn list(
    app: web::Data<App>,
    bearer: Bearer,
    ApiQuery(filter): ApiQuery<ListFilter>,
    Paging(page): Paging,
) -> Result<ListAnswer<InvoiceView>, ApiError> {
    let customer = filter.customer.clone();
    let read = move |tx: &mut dyn Transaction, _| {
        let mut wanted = InvoiceFilter::default();
        if let Some(clock) = filter.clock {
            tx.test_clocks().get(clock).map_err(|error| error.at_field("test_clock_id"))?;
            wanted.customers = Some(tx.test_clocks().list_customers(clock)?);
        }
        if let Some(customer) = &filter.customer {
            let key = CustomerKey::derive(tx.organization(), customer);
            tx.customers().get(key).map_err(|error| error.at_field("customer_id"))?;
            let is_among = |all: Vec<CustomerKey>| all.contains(&key);
            let is_wanted = wanted.customers.take().is_none_or(is_among);
            wanted.customers = Some(if is_wanted { vec![key] } else { Vec::new() });
        }
        wanted.statuses = (!filter.statuses.is_empty()).then(|| filter.statuses.clone());
        map_page(tx.invoices().list(&wanted, &page)?, |invoice| Ok(InvoiceView::from(&invoice)))
    };
    Ok(ListAnswer(match customer {
        Some(customer) => app.read_customer(&bearer, &customer, read).await?,
        None => app.read(&bearer, read).await?,
    }))
}

/// `GET /api/invoices/{invoice_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(name): PathParam<InvoiceName>,
) -> Result<web::Json<InvoiceView>, ApiError> {
    let invoice = app.read(&caller, move |tx, _| name.find(tx)).await?;
    Ok(web::Json(InvoiceView::from(&invoice)))
}

/// `PATCH /api/invoices/{invoice_id}/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    PathParam(name): PathParam<InvoiceName>,
    ApiJson(body): ApiJson<UpdateInvoiceBody>,
) -> Result<web::Json<InvoiceView>, ApiError> {
    let Invoice { id: invoice, customer, .. } = app.read(&caller, move |tx, _| name.find(tx)).await?;
    let command = UpdateInvoice { customer, invoice, is_paid: body.payment_status == Settlement::Paid };
    let view = app.on_customer_key(&caller, customer, move |tx, now| {
        let updated = update_invoice(tx, &command, now)?;
        Ok(InvoiceView::from(&updated))
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/invoices/{invoice_id}/void/`
async fn void(
    app: web::Data<App>,
    caller: Caller,
    PathParam(name): PathParam<InvoiceName>,
    ApiJson(body): ApiJson<VoidBody>,
) -> Result<web::Json<VoidedInvoiceView>, ApiError> {
    let Invoice { id, customer, .. } = app.read(&caller, move |tx, _| name.find(tx)).await?;
    let is_rebilled = body.rebill.unwrap_or(false);
    let view = app.on_customer_key(&caller, customer, move |tx, now| -> Result<_, Error> {
        if !is_rebilled {
            return Ok(VoidedInvoiceView::new(&void_invoice(tx, customer, id, now)?, None));
        }
        let (voided, reissue) = reissue_invoice(tx, customer, id, now)?;
        Ok(VoidedInvoiceView::new(&voided, Some(&tx.invoices().get(reissue)?)))
    });
    Ok(web::Json(view.await?))
}

/// `GET /api/invoices/{invoice_id}/explain/`
async fn explain(
    app: web::Data<App>,
    caller: Caller,
    PathParam(name): PathParam<InvoiceName>,
) -> Result<web::Json<ExplanationView>, ApiError> {
    let invoice = app.read(&caller, move |tx, _| name.find(tx)).await?;
    Ok(web::Json(ExplanationView::new(&invoice)?))
}
