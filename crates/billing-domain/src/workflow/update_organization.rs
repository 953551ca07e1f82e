//! Changes settings of an organization.

use bigdecimal::{BigDecimal, Signed};

use super::check_tax_rate::{check_tax_providers, check_tax_rate};
use super::find_currency::look_up_currency;
use super::second_person::hold_looser_limit;
use crate::address::Address;
use crate::error::{Error, FieldCode, FieldErrors};
use crate::organization::{AccessPolicy, Organization};
use crate::store::Transaction;
use crate::tax::{TaxFailure, TaxHook, TaxProvider};
use crate::{text, timezone};

/// Settings to change; `None` leaves a setting as it is. The inner `None` of the optional settings clears them.
#[derive(Clone, Debug, Default)]
pub struct OrganizationPatch {
    /// [`Organization::name`].
    pub name: Option<String>,
    /// [`Organization::default_currency_code`].
    pub default_currency_code: Option<String>,
    /// [`Organization::timezone`].
    pub timezone: Option<String>,
    /// [`Organization::tax_rate`].
    pub tax_rate: Option<Option<BigDecimal>>,
    /// [`Organization::tax_providers`].
    pub tax_providers: Option<Vec<TaxProvider>>,
    /// Address and secret of [`Organization::tax_hook`]. An address keeps the secret that there was, if there was one.
    pub tax_hook: Option<Option<NewTaxHook>>,
    /// [`Organization::on_tax_failure`].
    pub on_tax_failure: Option<TaxFailure>,
    /// [`Organization::payment_grace_period_days`].
    pub payment_grace_period_days: Option<Option<u16>>,
    /// [`Organization::invoice_grace_minutes`].
    pub invoice_grace_minutes: Option<u32>,
    /// Keys to add to [`Organization::subscription_filter_keys`]; keys are never taken away.
    pub subscription_filter_keys: Option<Vec<String>>,
    /// [`Organization::access_policy`].
    pub access_policy: Option<AccessPolicy>,
    /// [`Organization::event_window_days`].
    pub event_window_days: Option<u16>,
    /// [`Organization::address`].
    pub address: Option<Option<Address>>,
    /// [`Organization::approval_limit`]. Where there is one, raising it or turning it off is held, and comes alone.
    pub approval_limit: Option<Option<BigDecimal>>,
}

/// Where to ask for tax rates from now on.
#[derive(Clone, Debug)]
pub struct NewTaxHook {
    /// The address; `None`: the one there is.
    pub url: Option<String>,
    /// What questions are signed with; `None`: the secret there is.
    pub secret: Option<String>,
    /// The secret when there is none.
    pub fresh_secret: String,
}

/// Longest wait for late events, in minutes: one week.
const INVOICE_GRACE_MINUTES_MAX: u32 = 7 * 24 * 60;
/// Longest payment grace period, in days.
const PAYMENT_GRACE_DAYS_MAX: u16 = 365;
/// Longest event window, in days.
const EVENT_WINDOW_DAYS_MAX: u16 = 365;

/// Changes the settings that `patch` names.
///
/// # Errors
/// Every setting that cannot be what it is set to; [`Refusal::NeedsApproval`](crate::Refusal::NeedsApproval) where the limit for one
/// person is raised or turned off.
pub fn update_organization(tx: &mut dyn Transaction, patch: &OrganizationPatch) -> Result<Organization, Error> {
    patch.faults(tx)?.finish(())?;
    let mut organization = tx.organizations().get()?;
    if patch.loosens(&organization) {
        hold_looser_limit(tx, patch.approval_limit.as_ref().and_then(Option::as_ref))?;
    }
    let patch = patch.clone();
    if let Some(hook) = patch.tax_hook {
        organization.tax_hook = hook.and_then(|hook| hook_of(tx, hook, organization.tax_hook));
    }
    organization.tax_providers = patch.tax_providers.unwrap_or(organization.tax_providers);
    organization.on_tax_failure = patch.on_tax_failure.unwrap_or(organization.on_tax_failure);
    organization.name = patch.name.unwrap_or(organization.name);
    organization.default_currency_code = patch.default_currency_code.unwrap_or(organization.default_currency_code);
    organization.timezone = patch.timezone.unwrap_or(organization.timezone);
    organization.tax_rate = patch.tax_rate.unwrap_or(organization.tax_rate);
    organization.payment_grace_period_days =
        patch.payment_grace_period_days.unwrap_or(organization.payment_grace_period_days);
    organization.invoice_grace_minutes = patch.invoice_grace_minutes.unwrap_or(organization.invoice_grace_minutes);
    organization.access_policy = patch.access_policy.unwrap_or(organization.access_policy);
    organization.event_window_days = patch.event_window_days.unwrap_or(organization.event_window_days);
    organization.address = patch.address.unwrap_or(organization.address);
    organization.approval_limit = patch.approval_limit.unwrap_or(organization.approval_limit);
    tx.organizations().update(&organization)?;
    if let Some(keys) = &patch.subscription_filter_keys {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        tx.organizations().add_filter_keys(&keys)?;
    }
    tx.organizations().get()
}

/// What the new settings make of the provider's address and secret; nothing without an address.
fn hook_of(tx: &mut dyn Transaction, new: NewTaxHook, old: Option<TaxHook>) -> Option<TaxHook> {
    let (old_url, old_secret) = old.as_ref().map(|old| (old.url.clone(), old.secret.clone())).unzip();
    let url = new.url.or(old_url)?;
    let secret = new.secret.or(old_secret).unwrap_or(new.fresh_secret);
    let id = old.filter(|old| old.url == url).map_or_else(|| tx.new_uuid().into(), |old| old.id);
    Some(TaxHook { id, url, secret })
}

impl OrganizationPatch {
    /// Whether one person may do more without another than before.
    fn loosens(&self, before: &Organization) -> bool {
        match (&before.approval_limit, &self.approval_limit) {
            (Some(before), Some(Some(limit))) => limit > before,
            (Some(_), Some(None)) => true,
            _ => false,
        }
    }

    fn is_limit_alone(&self) -> bool {
        matches!(
            self,
            Self {
                name: None,
                default_currency_code: None,
                timezone: None,
                tax_rate: None,
                tax_providers: None,
                tax_hook: None,
                on_tax_failure: None,
                payment_grace_period_days: None,
                invoice_grace_minutes: None,
                subscription_filter_keys: None,
                access_policy: None,
                event_window_days: None,
                address: None,
                approval_limit: Some(_),
            }
        )
    }

    fn faults(&self, tx: &mut dyn Transaction) -> Result<FieldErrors, Error> {
        let mut errors = check(self);
        let before = tx.organizations().get()?;
        if self.loosens(&before) && !self.is_limit_alone() {
            let detail =
                "A limit that is raised or turned off waits for a second person: send it without other settings.";
            errors.push("approval_limit", FieldCode::NotAllowedTogether, detail);
        }
        let has_hook = match &self.tax_hook {
            None => before.tax_hook.is_some(),
            Some(None) => false,
            Some(Some(new)) => new.url.is_some() || before.tax_hook.is_some(),
        };
        let providers = self.tax_providers.as_deref().unwrap_or(&before.tax_providers);
        check_tax_providers(&mut errors, providers, has_hook);
        if !has_hook && self.tax_hook.as_ref().is_some_and(|hook| hook.is_some()) {
            errors.push(
                "tax_provider_secret",
                FieldCode::Invalid,
                "There is no address whose questions it would sign: send tax_provider_url.",
            );
        }
        if let Some(code) = &self.default_currency_code {
            look_up_currency(&mut errors, "default_currency_code", tx, code)?;
        }
        Ok(errors)
    }
}

fn check(patch: &OrganizationPatch) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if let Some(name) = &patch.name {
        errors.keep("organization_name", text::check(name, text::NAME_CHARACTERS_MAX));
    }
    if let Some(zone) = &patch.timezone
        && !timezone::is_known(zone)
    {
        errors.push("timezone", FieldCode::InvalidChoice, timezone::unknown(zone));
    }
    if let Some(Some(rate)) = &patch.tax_rate {
        errors.keep("tax_rate", check_tax_rate(rate));
    }
    if patch.payment_grace_period_days.flatten().is_some_and(|days| days > PAYMENT_GRACE_DAYS_MAX) {
        let detail = format!("Ensure this value is at most {PAYMENT_GRACE_DAYS_MAX}.");
        errors.push("payment_grace_period", FieldCode::MaxValue, detail);
    }
    if patch.invoice_grace_minutes.is_some_and(|minutes| minutes > INVOICE_GRACE_MINUTES_MAX) {
        let detail = format!("Ensure this value is at most {INVOICE_GRACE_MINUTES_MAX}.");
        errors.push("invoice_grace_minutes", FieldCode::MaxValue, detail);
    }
    if patch.event_window_days.is_some_and(|days| !(1..=EVENT_WINDOW_DAYS_MAX).contains(&days)) {
        let detail = format!("Ensure this value is between 1 and {EVENT_WINDOW_DAYS_MAX}.");
        errors.push("event_window_days", FieldCode::Invalid, detail);
    }
    if patch.approval_limit.iter().flatten().any(Signed::is_negative) {
        errors.push("approval_limit", FieldCode::MinValue, "Ensure this value is greater than or equal to 0.");
    }
    if let Some(Some(address)) = &patch.address {
        errors.keep_all("address", address.check());
    }
    for (i, key) in patch.subscription_filter_keys.iter().flatten().enumerate() {
        errors.keep(&format!("subscription_filter_keys.{i}"), text::check_id(key));
    }
    errors
}
