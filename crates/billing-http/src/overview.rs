//! How the organization stands.

use actix_web::web;
use billing_domain::store::{Invoiced, Overview};

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get};
use crate::error::ApiError;
use crate::wire::{Number, view};

/// The call about the whole organization.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/overview/", "Show how the organization stands: invoiced, due, parked, failing", show)
            .answers::<OverviewView>(200),
    ]
}

view! {
    /// How the organization stands at this moment.
    OverviewView {
        /// What was invoiced, by currency. Voided invoices do not count, nor do those of customers under a test clock.
        invoiced: Vec<InvoicedView>,
        /// Customers in real time whose billing is due.
        customers_due: u64,
        /// Those of them that are left alone because their billing failed too often.
        customers_parked: u64,
        /// How long ago the first of the others fell due, in seconds; 0 when there is none.
        billing_lag_seconds: u64,
        /// Enabled webhook endpoints of which every attempt has failed for a while.
        webhooks_failing: u64,
    }
}

view! {
    /// What was invoiced in one currency.
    InvoicedView {
        /// The currency.
        currency_code: String,
        /// Amounts of the invoices issued since the first of the month, UTC.
        this_month: Number,
        /// Amounts of those issued in the month before.
        last_month: Number,
        /// Of these what was issued as early in that month as it is in this one.
        last_month_so_far: Number,
    }
}

impl From<Invoiced> for InvoicedView {
    fn from(invoiced: Invoiced) -> Self {
        Self {
            currency_code: invoiced.currency_code,
            this_month: (&invoiced.this_month).into(),
            last_month: (&invoiced.last_month).into(),
            last_month_so_far: (&invoiced.last_month_so_far).into(),
        }
    }
}

impl From<Overview> for OverviewView {
    fn from(overview: Overview) -> Self {
        Self {
            invoiced: overview.invoiced.into_iter().map(InvoicedView::from).collect(),
            customers_due: overview.customers_due,
            customers_parked: overview.customers_parked,
            billing_lag_seconds: u64::try_from(overview.lag.whole_seconds()).unwrap_or_default(),
            webhooks_failing: overview.webhooks_failing,
        }
    }
}

/// `GET /api/overview/`
async fn show(app: web::Data<App>, caller: Caller) -> Result<web::Json<OverviewView>, ApiError> {
    let organization = caller.organization;
    let overview = app.block(Some(organization), move |backend| Ok(backend.overview(organization)?));
    Ok(web::Json(overview.await?.into()))
}
