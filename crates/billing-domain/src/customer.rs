//! Customers: who is billed.

use std::fmt;
use std::str::FromStr;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::address::Address;
use crate::error::FieldError;
use crate::id::{CustomerKey, OrganizationId, TestClockId};
use crate::one_off_line::OneOffLine;
use crate::tax::{TaxProvider, TaxQuote};
use crate::text;

/// The caller's own id for a customer: 1 to 255 characters, no control characters; dots and slashes are fine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CustomerId(String);

impl CustomerId {
    /// The id as the caller wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for CustomerId {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        text::check_id(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for CustomerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl CustomerKey {
    /// The key of `customer` in `organization`: UUIDv5 in the namespace of the organization's id.
    pub fn derive(organization: OrganizationId, customer: &CustomerId) -> Self {
        Self::from(Uuid::new_v5(&organization.uuid(), customer.as_str().as_bytes()))
    }
}

/// Somebody who holds subscriptions and receives invoices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Customer {
    /// Derived from the organization and [`Customer::id`]; the key under which everything of theirs is kept.
    pub key: CustomerKey,
    /// The tenant.
    pub organization: OrganizationId,
    /// The caller's own id.
    pub id: CustomerId,
    /// Primary e-mail address, unique in the organization.
    pub email: Option<String>,
    /// Code of the currency preferred when a plan has versions in several.
    pub default_currency_code: String,
    /// What the organization's own tax provider has said, in the order in which it did; the latest few.
    pub tax_quotes: Vec<TaxQuote>,
    /// One-off lines that wait for the next invoice in their currency, in the order in which they were made.
    pub one_off_lines: Vec<OneOffLine>,
    /// IANA zone for usage windows and documents; billing itself is in UTC.
    pub timezone: String,
    /// What else the caller says of it.
    pub fields: CustomerFields,
    /// The clock the customer lives by; `None`: real time.
    pub test_clock: Option<TestClockId>,
    /// Whether something that fell due in the past is still to be billed, by the billing run or its clock's worker: until
    /// then nothing else changes the customer. Kept by
    /// [`CustomerRepo::set_catching_up`](crate::store::CustomerRepo::set_catching_up) alone.
    pub catching_up: bool,
    /// When it was created, in its own time.
    pub created_at: OffsetDateTime,
    /// When it was deleted, if it was, in its own time.
    pub deleted_at: Option<OffsetDateTime>,
}

/// What a caller may say of a customer when it is made and at any time later, and need not: nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomerFields {
    /// Display name.
    pub name: Option<String>,
    /// Where invoices are addressed to.
    pub billing_address: Option<Address>,
    /// Where goods go; tax providers look at it.
    pub shipping_address: Option<Address>,
    /// Sales tax in percent, in place of the organization's.
    pub tax_rate: Option<BigDecimal>,
    /// Who is asked for tax rates before those that the organization names.
    pub tax_providers: Vec<TaxProvider>,
    /// `stripe` or `braintree`, as given.
    pub payment_provider: Option<PaymentProvider>,
    /// The customer's id there, as given.
    pub payment_provider_id: Option<String>,
    /// Whether a payment method is on file there, as given.
    pub has_payment_method: bool,
    /// Free-form properties, as given.
    pub properties: serde_json::Map<String, serde_json::Value>,
}

choices! {
    /// A payment provider a customer may be registered with. The service records it and never calls it.
    pub PaymentProvider {
        /// Stripe.
        Stripe = "stripe",
        /// Braintree.
        Braintree = "braintree",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_customer_id_in_two_organizations_is_two_keys() {
        let customer: CustomerId = "acme".parse().expect("valid");
        let (a, b) = (OrganizationId::from(Uuid::from_u128(1)), OrganizationId::from(Uuid::from_u128(2)));
        assert_eq!(CustomerKey::derive(a, &customer), CustomerKey::derive(a, &customer));
        assert_ne!(CustomerKey::derive(a, &customer), CustomerKey::derive(b, &customer));
    }
}
