//! Creates a customer.

use time::OffsetDateTime;

use super::check_tax_rate::{check_tax_providers, check_tax_rate};
use super::find_currency::look_up_currency;
use super::tell::tell;
use crate::customer::{Customer, CustomerFields, CustomerId};
use crate::error::{Error, FieldCode, FieldErrors, Refusal};
use crate::faults::look_up;
use crate::id::{CustomerKey, TestClockId};
use crate::message::{MessageType, Subject};
use crate::store::Transaction;
use crate::tax::TaxProvider;
use crate::test_clock::TestClockStatus;
use crate::{text, timezone};

/// A new customer.
#[derive(Clone, Debug)]
pub struct CreateCustomer {
    /// The caller's own id.
    pub id: CustomerId,
    /// Primary e-mail address.
    pub email: String,
    /// Code of the preferred currency; `None`: the organization's.
    pub default_currency_code: Option<String>,
    /// IANA zone; `None`: the organization's.
    pub timezone: Option<String>,
    /// What else is said of it.
    pub fields: CustomerFields,
    /// The clock it lives by.
    pub test_clock: Option<TestClockId>,
}

impl CreateCustomer {
    /// A customer with everything else as the organization has it.
    pub fn new(id: CustomerId, email: &str) -> Self {
        Self {
            id,
            email: email.to_owned(),
            default_currency_code: None,
            timezone: None,
            fields: CustomerFields::default(),
            test_clock: None,
        }
    }
}

/// Creates a customer, in the scope of its own key.
///
/// # Errors
/// Every bad field; [`Refusal::DuplicateResource`] when the id or the e-mail is taken;
/// [`Refusal::TestClockAdvancing`] while its clock does.
pub fn create_customer(
    tx: &mut dyn Transaction,
    command: &CreateCustomer,
    now: OffsetDateTime,
) -> Result<Customer, Error> {
    let organization = tx.organizations().get()?;
    command.faults(tx, &command.fields.tax_providers)?.finish(())?;
    let now = match command.test_clock {
        Some(clock) => time_of_clock(tx, clock)?,
        None => now,
    };
    let command = command.clone();
    let customer = Customer {
        key: CustomerKey::derive(organization.id, &command.id),
        organization: organization.id,
        id: command.id,
        email: Some(command.email),
        default_currency_code: command.default_currency_code.unwrap_or(organization.default_currency_code),
        tax_quotes: Vec::new(),
        one_off_lines: Vec::new(),
        timezone: command.timezone.unwrap_or(organization.timezone),
        fields: command.fields,
        test_clock: command.test_clock,
        catching_up: false,
        created_at: now,
        deleted_at: None,
    };
    tx.customers().insert(&customer)?;
    tx.customers().advance_instant(customer.key, now)?;
    tell(tx, &customer, (MessageType::CustomerCreated, now), &Subject::Customer(customer.clone()))?;
    Ok(customer)
}

fn time_of_clock(tx: &mut dyn Transaction, id: TestClockId) -> Result<OffsetDateTime, Error> {
    let clock = tx.test_clocks().get(id).map_err(|error| error.at_field("test_clock_id"))?;
    match clock.status {
        TestClockStatus::Ready => Ok(clock.frozen_time),
        TestClockStatus::Advancing | TestClockStatus::Failed => Err(Refusal::TestClockAdvancing.into()),
    }
}

impl CreateCustomer {
    /// What is wrong with it. Of the list of providers, `listed` is looked at: what is said of it now.
    pub(super) fn faults(&self, tx: &mut dyn Transaction, listed: &[TaxProvider]) -> Result<FieldErrors, Error> {
        let mut errors = check(self);
        check_tax_providers(&mut errors, listed, tx.organizations().get()?.tax_hook.is_some());
        if let Some(code) = &self.default_currency_code {
            look_up_currency(&mut errors, "default_currency_code", tx, code)?;
        }
        if let Some(clock) = self.test_clock {
            look_up(&mut errors, "test_clock_id", tx.test_clocks().get(clock))?;
        }
        Ok(errors)
    }
}

/// Everything that is wrong with what is said of a customer, as far as that can be told without looking anything up.
fn check(command: &CreateCustomer) -> FieldErrors {
    let fields = &command.fields;
    let mut errors = FieldErrors::default();
    errors.keep("email", text::check_email(&command.email));
    if let Some(name) = &fields.name {
        errors.keep("customer_name", text::check_length(name, text::NAME_CHARACTERS_MAX));
    }
    if let Some(rate) = &fields.tax_rate {
        errors.keep("tax_rate", check_tax_rate(rate));
    }
    if let Some(zone) = command.timezone.as_ref().filter(|zone| !timezone::is_known(zone)) {
        errors.push("timezone", FieldCode::InvalidChoice, timezone::unknown(zone));
    }
    if fields.payment_provider.is_some() != fields.payment_provider_id.is_some() {
        let missing = if fields.payment_provider.is_some() { "payment_provider_id" } else { "payment_provider" };
        errors.push(missing, FieldCode::Required, "Provider and id are given together or not at all.");
    }
    for (attr, address) in
        [("billing_address", &fields.billing_address), ("shipping_address", &fields.shipping_address)]
    {
        if let Some(address) = address {
            errors.keep_all(attr, address.check());
        }
    }
    errors
}
