//! Changes what is known of a customer.

use time::OffsetDateTime;

use super::bill_customer::catch_up_or_wait;
use super::create_customer::CreateCustomer;
use crate::address::Address;
use crate::customer::{Customer, CustomerFields};
use crate::error::Error;
use crate::id::CustomerKey;
use crate::store::Transaction;

/// What to change of a customer; `None` leaves it as it is.
pub struct CustomerPatch {
    /// [`Customer::email`].
    pub email: Option<String>,
    /// [`Customer::default_currency_code`].
    pub default_currency_code: Option<String>,
    /// [`Customer::timezone`].
    pub timezone: Option<String>,
    /// Makes the other fields what they shall be. It is called once for each attempt at the transaction.
    pub change: Box<dyn Fn(&mut CustomerFields) + Send>,
}

impl CustomerPatch {
    /// Changes what a customer need not have.
    pub fn of_fields(change: impl Fn(&mut CustomerFields) + Send + 'static) -> Self {
        Self { email: None, default_currency_code: None, timezone: None, change: Box::new(change) }
    }
}

/// Changes what `patch` names. What is due by now is billed by what was known before, except for what waits for a tax provider that
/// failed: that is billed by what is known then.
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
    let before = customer.clone();
    customer.email = patch.email.clone().or(customer.email);
    customer.default_currency_code = patch.default_currency_code.clone().unwrap_or(customer.default_currency_code);
    customer.timezone = patch.timezone.clone().unwrap_or(customer.timezone);
    (patch.change)(&mut customer.fields);
    let said = CreateCustomer { test_clock: None, ..said_of(&customer) };
    // A list that was right when it was set stays, whatever has become of the organization's address.
    let is_listed_anew = customer.fields.tax_providers != before.fields.tax_providers;
    let listed = if is_listed_anew { &*customer.fields.tax_providers } else { &[] };
    said.faults(tx, listed)?.finish(())?;
    catch_up_or_wait(tx, key, now)?;
    // That may have used some up.
    let billed = tx.customers().get(key)?;
    (customer.tax_quotes, customer.one_off_lines) = (billed.tax_quotes, billed.one_off_lines);
    if told_to_providers(&before) != told_to_providers(&customer) {
        // They were given for somebody else.
        customer.tax_quotes.clear();
    }
    tx.customers().update(&customer)?;
    Ok(customer)
}

/// What tax providers may go by.
pub(super) fn told_to_providers(customer: &Customer) -> (&Option<Address>, &Option<Address>) {
    (&customer.fields.billing_address, &customer.fields.shipping_address)
}

/// The customer as one that is to be made, to be checked by the same rules.
fn said_of(customer: &Customer) -> CreateCustomer {
    let customer = customer.clone();
    CreateCustomer {
        id: customer.id,
        email: customer.email.unwrap_or_default(),
        default_currency_code: Some(customer.default_currency_code),
        timezone: Some(customer.timezone),
        fields: customer.fields,
        test_clock: customer.test_clock,
    }
}
