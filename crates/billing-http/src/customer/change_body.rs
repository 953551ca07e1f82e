//! What is changed of customers.

use billing_domain::FieldErrors;
use billing_domain::address::Address;
use billing_domain::customer::{CustomerFields, PaymentProvider};
use billing_domain::tax::TaxProvider;
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
        /// Who is asked for tax rates before those that the organization names.
        change tax_providers: Vec<TaxProvider>,
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
        Ok(CustomerPatch {
            email: self.email.clone(),
            default_currency_code: self.default_currency_code.clone(),
            timezone: self.timezone.clone(),
            change: Box::new(move |fields| self.clone().apply(fields)),
        })
    }

    fn apply(self, fields: &mut CustomerFields) {
        let not_empty = |patch: Patch<String>| patch.nullable().map(|text| text.filter(|text| !text.is_empty()));
        set(&mut fields.name, not_empty(self.customer_name));
        set(&mut fields.billing_address, self.billing_address.nullable().or(self.address.nullable()));
        set(&mut fields.shipping_address, self.shipping_address.nullable());
        set(&mut fields.tax_rate, self.tax_rate.nullable().map(|rate| rate.map(|Number(rate)| rate)));
        set(&mut fields.tax_providers, self.tax_providers);
        set(&mut fields.payment_provider, self.payment_provider.nullable());
        set(&mut fields.payment_provider_id, not_empty(self.payment_provider_id));
        set(&mut fields.has_payment_method, self.has_payment_method);
        set(&mut fields.properties, self.properties.nullable().map(|properties| properties.unwrap_or_default().0));
    }
}

/// Puts what was said, if anything was, in place of what there is.
fn set<T>(field: &mut T, said: Option<T>) {
    if let Some(said) = said {
        *field = said;
    }
}

read_through! { CustomerPatch = CustomerPatchBody; }
