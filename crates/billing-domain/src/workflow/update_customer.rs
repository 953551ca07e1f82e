//! Changes what is known of a customer.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::bill_customer::catch_up;
use super::create_customer::CreateCustomer;
use crate::address::Address;
use crate::customer::{Customer, PaymentProvider};
use crate::error::Error;
use crate::id::CustomerKey;
use crate::store::Transaction;

/// What to change of a customer; `None` leaves it as it is, an inner `None` clears it.
#[derive(Clone, Debug, Default)]
pub struct CustomerPatch {
    /// [`Customer::name`].
    pub name: Option<Option<String>>,
    /// [`Customer::email`].
    pub email: Option<String>,
    /// [`Customer::default_currency_code`].
    pub default_currency_code: Option<String>,
    /// [`Customer::billing_address`].
    pub billing_address: Option<Option<Address>>,
    /// [`Customer::shipping_address`].
    pub shipping_address: Option<Option<Address>>,
    /// [`Customer::tax_rate`].
    pub tax_rate: Option<Option<BigDecimal>>,
    /// [`Customer::timezone`].
    pub timezone: Option<String>,
    /// [`Customer::payment_provider`].
    pub payment_provider: Option<Option<PaymentProvider>>,
    /// [`Customer::payment_provider_id`].
    pub payment_provider_id: Option<Option<String>>,
    /// [`Customer::has_payment_method`].
    pub has_payment_method: Option<bool>,
    /// [`Customer::properties`].
    pub properties: Option<serde_json::Map<String, serde_json::Value>>,
}

/// Changes what `patch` names. What is due by now is billed by what was known before.
///
/// # Errors
/// [`Error::NotFound`]; every bad field; [`Refusal::DuplicateResource`](crate::Refusal::DuplicateResource) when the
/// e-mail is taken; [`Refusal::TestClockAdvancing`](crate::Refusal::TestClockAdvancing),
/// [`CatchingUp`](crate::Refusal::CatchingUp).
pub fn update_customer(
    tx: &mut dyn Transaction,
    key: CustomerKey,
    patch: &CustomerPatch,
    now: OffsetDateTime,
) -> Result<Customer, Error> {
    let mut customer = tx.customers().get(key)?;
    let patch = patch.clone();
    customer.name = patch.name.unwrap_or(customer.name);
    customer.email = patch.email.or(customer.email);
    customer.default_currency_code = patch.default_currency_code.unwrap_or(customer.default_currency_code);
    customer.billing_address = patch.billing_address.unwrap_or(customer.billing_address);
    customer.shipping_address = patch.shipping_address.unwrap_or(customer.shipping_address);
    customer.tax_rate = patch.tax_rate.unwrap_or(customer.tax_rate);
    customer.timezone = patch.timezone.unwrap_or(customer.timezone);
    customer.payment_provider = patch.payment_provider.unwrap_or(customer.payment_provider);
    customer.payment_provider_id = patch.payment_provider_id.unwrap_or(customer.payment_provider_id);
    customer.has_payment_method = patch.has_payment_method.unwrap_or(customer.has_payment_method);
    customer.properties = patch.properties.unwrap_or(customer.properties);
    let said = CreateCustomer { test_clock: None, ..said_of(&customer) };
    said.faults(tx)?.finish(())?;
    catch_up(tx, key, now)?;
    tx.customers().update(&customer)?;
    Ok(customer)
}

/// The customer as one that is to be made, to be checked by the same rules.
fn said_of(customer: &Customer) -> CreateCustomer {
    let customer = customer.clone();
    CreateCustomer {
        id: customer.id,
        name: customer.name,
        email: customer.email.unwrap_or_default(),
        default_currency_code: Some(customer.default_currency_code),
        billing_address: customer.billing_address,
        shipping_address: customer.shipping_address,
        tax_rate: customer.tax_rate,
        timezone: Some(customer.timezone),
        payment_provider: customer.payment_provider,
        payment_provider_id: customer.payment_provider_id,
        properties: customer.properties,
        test_clock: customer.test_clock,
    }
}
