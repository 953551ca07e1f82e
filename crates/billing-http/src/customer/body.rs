//! What a customer is made from.

use billing_domain::FieldErrors;
use billing_domain::address::Address;
use billing_domain::customer::{CustomerFields, CustomerId, PaymentProvider};
use billing_domain::id::TestClockId;
use billing_domain::tax::TaxProvider;
use billing_domain::workflow::CreateCustomer;

use crate::wire::{FreeForm, Number, body, read_through};

body! {
    /// A new customer.
    CreateCustomerBody {
        /// The caller's own id; it never changes and is never used again.
        required customer_id: CustomerId,
        /// Primary e-mail address, unique in the organization.
        required email: String,
        /// Display name.
        optional customer_name: String,
        /// The payment provider it is registered with, as given.
        optional payment_provider: PaymentProvider,
        /// Its id there, as given.
        optional payment_provider_id: String,
        /// Free-form.
        optional properties: FreeForm,
        /// Code of the preferred currency; the organization's when missing.
        optional default_currency_code: String,
        /// The same as billing_address, which wins.
        optional address: Address,
        /// Where invoices are addressed to.
        optional billing_address: Address,
        /// Where goods go.
        optional shipping_address: Address,
        /// Sales tax in percent, in place of the organization's.
        optional tax_rate: Number,
        /// Who is asked for tax rates before those that the organization names.
        optional tax_providers: Vec<TaxProvider>,
        /// IANA zone; the organization's when missing.
        optional timezone: String,
        /// The test clock it lives by.
        optional test_clock_id: TestClockId,
    }
}

impl CreateCustomerBody {
    fn read(self) -> Result<CreateCustomer, FieldErrors> {
        let not_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        let fields = CustomerFields {
            name: not_empty(self.customer_name),
            billing_address: self.billing_address.or(self.address),
            shipping_address: self.shipping_address,
            tax_rate: self.tax_rate.map(|Number(rate)| rate),
            tax_providers: self.tax_providers.unwrap_or_default(),
            payment_provider: self.payment_provider,
            payment_provider_id: not_empty(self.payment_provider_id),
            has_payment_method: false,
            properties: self.properties.unwrap_or_default().0,
        };
        Ok(CreateCustomer {
            id: self.customer_id,
            email: self.email,
            default_currency_code: self.default_currency_code,
            timezone: self.timezone,
            fields,
            test_clock: self.test_clock_id,
        })
    }
}

read_through! { CreateCustomer = CreateCustomerBody; }
