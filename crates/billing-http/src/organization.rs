//! The organization and its settings.

use actix_web::web;
use billing_domain::address::Address;
use billing_domain::id::OrganizationId;
use billing_domain::organization::{AccessPolicy, Organization};
use billing_domain::store::Transaction;
use billing_domain::workflow::{OrganizationPatch, find_currency, update_organization};
use billing_domain::{Error, FieldErrors};

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, patch};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::wire::{AddressView, CurrencyView, Number, body, read_through, view};

/// The calls about the organization.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/organization/", "Show the organization", show).answers::<OrganizationView>(200),
        patch("/api/organization/", "Change settings", update)
            .takes::<OrganizationPatch>()
            .answers::<OrganizationView>(200),
    ]
}

body! {
    /// Settings to change; those left out stay.
    OrganizationBody {
        /// Its name, as invoices show it.
        change organization_name: String,
        /// Code of the currency that customers get when none is named.
        change default_currency_code: String,
        /// IANA zone that new customers inherit.
        change timezone: String,
        /// Sales tax in percent; null: none.
        patch tax_rate: Number,
        /// Days from an invoice's issue to its due date; null: no due date.
        patch payment_grace_period: u16,
        /// How long a scheduled invoice waits for late events, in minutes.
        change invoice_grace_minutes: u32,
        /// Event properties that subscription filters may name. Keys are added, never taken away.
        change subscription_filter_keys: Vec<String>,
        /// How several subscriptions decide one access check together.
        change access_policy: AccessPolicy,
        /// How old an event may be when it arrives, in days.
        change event_window_days: u16,
        /// The seller's address on invoices; null: none.
        patch address: Address,
    }
}

impl OrganizationBody {
    fn read(self) -> Result<OrganizationPatch, FieldErrors> {
        Ok(OrganizationPatch {
            name: self.organization_name,
            default_currency_code: self.default_currency_code,
            timezone: self.timezone,
            tax_rate: self.tax_rate.nullable().map(|rate| rate.map(|Number(rate)| rate)),
            payment_grace_period_days: self.payment_grace_period.nullable(),
            invoice_grace_minutes: self.invoice_grace_minutes,
            subscription_filter_keys: self.subscription_filter_keys,
            access_policy: self.access_policy,
            event_window_days: self.event_window_days,
            address: self.address.nullable(),
        })
    }
}

read_through! { OrganizationPatch = OrganizationBody; }

view! {
    /// The organization.
    OrganizationView {
        /// Its id.
        organization_id: OrganizationId,
        /// Its name.
        organization_name: String,
        /// The currency that customers get when none is named.
        default_currency: CurrencyView,
        /// IANA zone that new customers inherit.
        timezone: String,
        /// Sales tax in percent.
        tax_rate: Option<Number>,
        /// Days from an invoice's issue to its due date.
        payment_grace_period: Option<u16>,
        /// How long a scheduled invoice waits for late events, in minutes.
        invoice_grace_minutes: u32,
        /// Event properties that subscription filters may name.
        subscription_filter_keys: Vec<String>,
        /// How several subscriptions decide one access check together.
        access_policy: AccessPolicy,
        /// How old an event may be when it arrives, in days.
        event_window_days: u16,
        /// The seller's address on invoices.
        address: Option<AddressView>,
    }
}

impl OrganizationView {
    fn new(tx: &mut dyn Transaction, organization: Organization) -> Result<Self, Error> {
        let currency = find_currency(tx, &organization.default_currency_code)?;
        Ok(Self {
            organization_id: organization.id,
            organization_name: organization.name,
            default_currency: CurrencyView::from(&currency),
            timezone: organization.timezone,
            tax_rate: organization.tax_rate.map(Number),
            payment_grace_period: organization.payment_grace_period_days,
            invoice_grace_minutes: organization.invoice_grace_minutes,
            subscription_filter_keys: organization.subscription_filter_keys,
            access_policy: organization.access_policy,
            event_window_days: organization.event_window_days,
            address: organization.address.as_ref().map(Into::into),
        })
    }
}

/// `GET /api/organization/`
async fn show(app: web::Data<App>, caller: Caller) -> Result<web::Json<OrganizationView>, ApiError> {
    let view = app.read(&caller, |tx, _| {
        let organization = tx.organizations().get()?;
        OrganizationView::new(tx, organization)
    });
    Ok(web::Json(view.await?))
}

/// `PATCH /api/organization/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(patch): ApiJson<OrganizationPatch>,
) -> Result<web::Json<OrganizationView>, ApiError> {
    let view = app.on_catalog(&caller, move |tx, _| {
        let organization = update_organization(tx, &patch)?;
        OrganizationView::new(tx, organization)
    });
    Ok(web::Json(view.await?))
}
