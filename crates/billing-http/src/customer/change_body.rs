//! What is changed of customers.

use billing_domain::FieldErrors;
use billing_domain::address::Address;
use billing_domain::customer::PaymentProvider;
use billing_domain::workflow::CustomerPatch;

use crate::wire::{FreeForm, Number, Patch, body, read_through};

body! {
    /// What to change of a customer; what is left out stays.
    CustomerPatchBody {
        /// Display name; null: none.
        patch customer_name: String,
        /// Primary e-mail address, unique in the organization.
        change email: String,
        /// Code of the preferred currency.
        change default_currency_code: String,
        /// The same as billing_address, which wins.
        patch address: Address,
        /// Where invoices are addressed to; null: nowhere.
        patch billing_address: Address,
        /// Where goods go; null: nowhere.
        patch shipping_address: Address,
        /// Sales tax in percent; null: the organization's.
        patch tax_rate: Number,
        /// IANA zone.
        change timezone: String,
        /// The payment provider it is registered with, as given; null: none.
        patch payment_provider: PaymentProvider,
        /// Its id there, as given; null: none.
        patch payment_provider_id: String,
        /// Whether a payment method is on file there, as given.
        change has_payment_method: bool,
        /// Takes the place of the properties there were.
        patch properties: FreeForm,
    }
}

impl CustomerPatchBody {
    fn read(self) -> Result<CustomerPatch, FieldErrors> {
        let not_empty = |patch: Patch<String>| patch.nullable().map(|text| text.filter(|text| !text.is_empty()));
        Ok(CustomerPatch {
            name: not_empty(self.customer_name),
            email: self.email,
            default_currency_code: self.default_currency_code,
            billing_address: self.billing_address.nullable().or(self.address.nullable()),
            shipping_address: self.shipping_address.nullable(),
            tax_rate: self.tax_rate.nullable().map(|rate| rate.map(|Number(rate)| rate)),
            timezone: self.timezone,
            payment_provider: self.payment_provider.nullable(),
            payment_provider_id: not_empty(self.payment_provider_id),
            has_payment_method: self.has_payment_method,
            properties: self.properties.nullable().map(|properties| properties.unwrap_or_default().0),
        })
    }
}

read_through! { CustomerPatch = CustomerPatchBody; }
