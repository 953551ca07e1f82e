//! Customers: who is billed.

mod body;
mod change_body;
mod cost_analysis;
mod draft_invoice;
mod one_off_line;
mod statement;
mod view;

use actix_web::web;
use billing_domain::Error;
use billing_domain::customer::{Customer, CustomerId};
use billing_domain::id::CustomerKey;
use billing_domain::store::{Page, Transaction};
use billing_domain::workflow::{
    CreateCustomer, CustomerPatch, create_customer, delete_customer, search_customers, update_customer,
};

use crate::answer::Created;
use crate::app::App;
use crate::caller::{Bearer, Caller};
use crate::endpoint::{Endpoint, Parameter, get, patch, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging};
use crate::path::PathParam;
use crate::query::Query;
use cost_analysis::CostAnalysisView;
pub use draft_invoice::DraftInvoiceView;
use draft_invoice::DraftInvoicesView;
pub use one_off_line::OneOffLineView;
use statement::StatementView;
pub use view::CustomerView;
use view::DeletedCustomerView;

/// Customers whose invoices are in memory at once.
const AT_ONCE: usize = 100;

const LIST_PARAMETERS: &[Parameter] = &[
    Parameter::optional("email", "Keeps the one with this e-mail address, written just so."),
    Parameter::optional(
        "search",
        "Keeps those with this e-mail address, or whose id or name begins like this, letters of ASCII in either case: at most 100, without \
         a cursor.",
    ),
];

const DRAFT_PARAMETERS: &[Parameter] = &[Parameter::optional(
    "include_next_period",
    "Whether fees in advance of the periods to come are on it; default true.",
)];

/// The calls about customers.
pub fn endpoints() -> Vec<Endpoint> {
    let mut endpoints = vec![
        get("/api/customers/", "List customers", list)
            .for_bearers()
            .parameters(LIST_PARAMETERS)
            .lists::<CustomerView>(),
        post("/api/customers/", "Create a customer", create)
            .for_bearers()
            .takes::<CreateCustomer>()
            .answers::<CustomerView>(201),
        get("/api/customers/{customer_id}/", "Show a customer", show).for_bearers().answers::<CustomerView>(200),
        patch("/api/customers/{customer_id}/", "Change a customer", update)
            .for_bearers()
            .takes::<CustomerPatch>()
            .answers::<CustomerView>(200),
        post("/api/customers/{customer_id}/delete/", "Delete a customer and end their subscriptions", delete)
            .answers::<DeletedCustomerView>(200),
        get(
            "/api/customers/{customer_id}/draft_invoice/",
            "Preview what a customer would be billed now",
            draft_invoice::show,
        )
        .for_bearers()
        .parameters(DRAFT_PARAMETERS)
        .answers::<DraftInvoicesView>(200),
        get(
            "/api/customers/{customer_id}/cost_analysis/",
            "Hold a customer's costs against its revenue, day by day",
            cost_analysis::show,
        )
        .parameters(cost_analysis::PARAMETERS)
        .answers::<CostAnalysisView>(200),
        get(
            "/api/customers/{customer_id}/statement/",
            "List a customer's documents and payments in order, with running balances",
            statement::show,
        )
        .parameters(statement::PARAMETERS)
        .answers::<StatementView>(200),
    ];
    endpoints.extend(one_off_line::endpoints());
    endpoints
}

/// `GET /api/customers/`
async fn list(
    app: web::Data<App>,
    bearer: Bearer,
    mut query: Query,
    Paging(page): Paging,
) -> Result<ListAnswer<CustomerView>, ApiError> {
    let (email, search) = (query.optional::<String>("email"), query.optional::<String>("search"));
    let (email, search) = query.finish(email.zip(search))?;
    let page = app.read(&bearer, move |tx, _| {
        let Page { items: customers, next } = match &email {
            _ if search.is_some() => {
                let mut found = search_customers(tx, search.as_deref().unwrap_or_default(), page.limit)?;
                found.retain(|customer| email.is_none() || customer.email == email);
                Page { items: found, next: None }
            }
            Some(email) => Page { items: with_email(tx, email)?.into_iter().collect(), next: None },
            None => tx.customers().list(&page)?,
        };
        let mut items = Vec::with_capacity(customers.len());
        for some in customers.chunks(AT_ONCE) {
            items.extend(CustomerView::list(tx, some)?);
        }
        Ok(Page { items, next })
    });
    Ok(ListAnswer(page.await?))
}

/// The customer with this address, unless it was deleted.
fn with_email(tx: &mut dyn Transaction, email: &str) -> Result<Option<Customer>, Error> {
    let Some(key) = tx.customers().find_by_email(email)? else { return Ok(None) };
    match tx.customers().get(key) {
        Err(Error::NotFound(_)) => Ok(None),
        found => found.map(Some),
    }
}

/// `POST /api/customers/`
async fn create(
    app: web::Data<App>,
    bearer: Bearer,
    ApiJson(command): ApiJson<CreateCustomer>,
) -> Result<Created<CustomerView>, ApiError> {
    let id = command.id.clone();
    let view = app.on_customer(&bearer, &id, move |tx, now| {
        let customer = create_customer(tx, &command, now)?;
        CustomerView::of_new(tx, &customer)
    });
    Ok(Created(view.await?))
}

/// `GET /api/customers/{customer_id}/`
async fn show(
    app: web::Data<App>,
    bearer: Bearer,
    PathParam(id): PathParam<CustomerId>,
) -> Result<web::Json<CustomerView>, ApiError> {
    let key = CustomerKey::derive(bearer.organization(), &id);
    let view = app.read_customer(&bearer, &id, move |tx, _| {
        let customer = tx.customers().get(key)?;
        CustomerView::new(tx, &customer)
    });
    Ok(web::Json(view.await?))
}

/// `PATCH /api/customers/{customer_id}/`
async fn update(
    app: web::Data<App>,
    bearer: Bearer,
    PathParam(id): PathParam<CustomerId>,
    ApiJson(patch): ApiJson<CustomerPatch>,
) -> Result<web::Json<CustomerView>, ApiError> {
    let key = CustomerKey::derive(bearer.organization(), &id);
    let view = app.on_customer(&bearer, &id, move |tx, now| {
        let customer = update_customer(tx, key, &patch, now)?;
        CustomerView::new(tx, &customer)
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/customers/{customer_id}/delete/`
async fn delete(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<CustomerId>,
) -> Result<web::Json<DeletedCustomerView>, ApiError> {
    let key = CustomerKey::derive(caller.organization, &id);
    let view = app.on_customer(&caller, &id, move |tx, now| {
        let deleted = delete_customer(tx, key, now)?;
        Ok(DeletedCustomerView::from(&deleted))
    });
    Ok(web::Json(view.await?))
}
