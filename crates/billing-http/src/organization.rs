//! The organization and its settings.

use actix_web::web;
use billing_domain::address::Address;
use billing_domain::id::OrganizationId;
use billing_domain::organization::{AccessPolicy, Organization};
use billing_domain::store::Transaction;
use billing_domain::tax::{TaxFailure, TaxProvider};
use billing_domain::workflow::{NewTaxHook, OrganizationPatch, find_currency, update_organization};
use billing_domain::{Error, FieldCode, FieldError, FieldErrors};
use billing_outbound::{Destination, Reach, Secret};

use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, get, patch};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::wire::{AddressView, CurrencyView, Number, Patch, body, read_through, view};

/// The calls about the organization.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/organization/", "Show the organization", show).answers::<OrganizationView>(200),
        patch("/api/organization/", "Change settings", update)
            .takes::<OrganizationPatch>()
            .answers::<OrganizationView>(200)
            .may_wait(),
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
        /// Who is asked for tax rates, in order, after those that the customer names.
        change tax_providers: Vec<TaxProvider>,
        /// Where the provider `http` is asked; null: nowhere.
        patch tax_provider_url: String,
        /// What its questions are signed with: `whsec_` and 24 to 64 bytes in base64. Made when there is an address and none is given.
        change tax_provider_secret: String,
        /// What becomes of an invoice when it fails and no other one knows a rate.
        change on_tax_failure: TaxFailure,
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
        /// What one person may give away or take by one call without another, as a number that holds for each currency; null: everything.
        /// Where there is one, raising it or taking it away waits for a second person, and comes without other settings.
        patch approval_limit: Number,
    }
}

impl OrganizationBody {
    fn tax_hook(&self) -> Result<Option<Option<NewTaxHook>>, FieldErrors> {
        let url = match (&self.tax_provider_url, &self.tax_provider_secret) {
            (Patch::Keep, None) => return Ok(None),
            (Patch::Clear, _) => return Ok(Some(None)),
            (Patch::Keep, Some(_)) => None,
            (Patch::Set(url), _) => Some(url.clone()),
        };
        let mut errors = FieldErrors::default();
        // Whether it may be called is up to the operator too: see `update`.
        if let Some(Err(error)) = url.as_deref().map(|url| Destination::parse(url, Reach::Anywhere)) {
            errors.push("tax_provider_url", FieldCode::Invalid, error.to_string());
        }
        if let Some(Err(error)) = self.tax_provider_secret.as_deref().map(Secret::parse) {
            errors.push("tax_provider_secret", FieldCode::Invalid, error.to_string());
        }
        let fresh = Secret::generate().map_err(|error| FieldError::new("", FieldCode::Invalid, error.to_string()));
        let fresh_secret = errors.keep("tax_provider_secret", fresh).map_or_else(String::new, |secret| secret.reveal());
        errors.finish(Some(Some(NewTaxHook { url, secret: self.tax_provider_secret.clone(), fresh_secret })))
    }

    fn read(self) -> Result<OrganizationPatch, FieldErrors> {
        let tax_hook = self.tax_hook()?;
        Ok(OrganizationPatch {
            name: self.organization_name,
            default_currency_code: self.default_currency_code,
            timezone: self.timezone,
            tax_rate: self.tax_rate.nullable().map(|rate| rate.map(|Number(rate)| rate)),
            tax_providers: self.tax_providers,
            tax_hook,
            on_tax_failure: self.on_tax_failure,
            payment_grace_period_days: self.payment_grace_period.nullable(),
            invoice_grace_minutes: self.invoice_grace_minutes,
            subscription_filter_keys: self.subscription_filter_keys,
            access_policy: self.access_policy,
            event_window_days: self.event_window_days,
            address: self.address.nullable(),
            approval_limit: self.approval_limit.nullable().map(|limit| limit.map(|Number(limit)| limit)),
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
        /// Who is asked for tax rates, in order, after those that the customer names.
        tax_providers: Vec<TaxProvider>,
        /// Where the provider `http` is asked.
        tax_provider_url: Option<String>,
        /// What its questions are signed with: shown once, in the answer to the change that sets it.
        tax_provider_secret: Option<String>,
        /// What becomes of an invoice when it fails and no other one knows a rate.
        on_tax_failure: TaxFailure,
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
        /// What one person may give away or take by one call without another, in each currency; null: everything.
        approval_limit: Option<Number>,
    }
}

impl OrganizationView {
    /// Of the organization.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(tx: &mut dyn Transaction, organization: Organization) -> Result<Self, Error> {
        let currency = find_currency(tx, &organization.default_currency_code)?;
        Ok(Self {
            organization_id: organization.id,
            organization_name: organization.name,
            default_currency: CurrencyView::from(&currency),
            timezone: organization.timezone,
            tax_rate: organization.tax_rate.map(Number),
            tax_providers: organization.tax_providers,
            tax_provider_url: organization.tax_hook.map(|hook| hook.url),
            tax_provider_secret: None,
            on_tax_failure: organization.on_tax_failure,
            payment_grace_period: organization.payment_grace_period_days,
            invoice_grace_minutes: organization.invoice_grace_minutes,
            subscription_filter_keys: organization.subscription_filter_keys,
            access_policy: organization.access_policy,
            event_window_days: organization.event_window_days,
            address: organization.address.as_ref().map(Into::into),
            approval_limit: organization.approval_limit.map(Number),
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
    let url = patch.tax_hook.as_ref().and_then(|hook| hook.as_ref()?.url.as_deref());
    if let Some(Err(error)) = url.map(|url| Destination::parse(url, app.taxes.reach())) {
        return Err(ApiError::field("tax_provider_url", FieldCode::Invalid, error.to_string()));
    }
    let view = app.on_catalog(&caller, move |tx, _| {
        let before = tx.organizations().get()?.tax_hook.map(|hook| hook.secret);
        let organization = update_organization(tx, &patch)?;
        let secret = organization.tax_hook.as_ref().map(|hook| hook.secret.clone());
        let view = OrganizationView::new(tx, organization)?;
        Ok(OrganizationView { tax_provider_secret: secret.filter(|secret| before.as_ref() != Some(secret)), ..view })
    });
    Ok(web::Json(view.await?))
}
