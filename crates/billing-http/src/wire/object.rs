//! Small objects that several resources share.

use billing_domain::FieldErrors;
use billing_domain::address::Address;
use billing_domain::currency::Currency;
use billing_domain::customer::Customer;
use billing_domain::id::{PlanId, PlanVersionId};
use billing_domain::invoice;
use billing_domain::plan::{Plan, PlanVersion};
use billing_domain::store::VersionHolder;
use billing_domain::subscription::SubscriptionFilters;
use serde_json::Value;

use super::{Described, FromJson, Schema, Schemas, body, read_through, view};

body! {
    /// A postal address.
    AddressBody {
        /// City, district, suburb, town or village.
        required city: String,
        /// Two-letter ISO 3166-1 alpha-2 code.
        required country: String,
        /// First line.
        required line1: String,
        /// Second line.
        optional line2: String,
        /// Postal code.
        required postal_code: String,
        /// State, county, province or region.
        optional state: String,
    }
}

impl AddressBody {
    fn read(self) -> Result<Address, FieldErrors> {
        let Self { city, country, line1, line2, postal_code, state } = self;
        let not_empty = |part: Option<String>| part.filter(|part| !part.is_empty());
        Ok(Address { city, country, line1, line2: not_empty(line2), postal_code, state: not_empty(state) })
    }
}

read_through! { Address = AddressBody; }

view! {
    /// A postal address.
    AddressView {
        /// City, district, suburb, town or village.
        city: String,
        /// Two-letter ISO 3166-1 alpha-2 code.
        country: String,
        /// First line.
        line1: String,
        /// Second line.
        line2: Option<String>,
        /// Postal code.
        postal_code: String,
        /// State, county, province or region.
        state: Option<String>,
    }
}

impl From<&Address> for AddressView {
    fn from(address: &Address) -> Self {
        let Address { city, country, line1, line2, postal_code, state } = address.clone();
        Self { city, country, line1, line2, postal_code, state }
    }
}

view! {
    /// A currency, or a unit of the organization's own.
    CurrencyView {
        /// The ISO 4217 code, or the organization's own.
        code: String,
        /// Its name.
        name: String,
        /// What is put before an amount.
        symbol: String,
    }
}

impl From<&Currency> for CurrencyView {
    fn from(currency: &Currency) -> Self {
        Self { code: currency.code.clone(), name: currency.name.clone(), symbol: currency.symbol.clone() }
    }
}

view! {
    /// A customer as others refer to it.
    CustomerBriefView {
        /// Display name.
        customer_name: Option<String>,
        /// Primary e-mail address.
        email: Option<String>,
        /// The caller's own id.
        customer_id: String,
    }
}

impl From<&Customer> for CustomerBriefView {
    fn from(customer: &Customer) -> Self {
        Self {
            customer_name: customer.fields.name.clone(),
            email: customer.email.clone(),
            customer_id: customer.id.as_str().to_owned(),
        }
    }
}

impl From<&VersionHolder> for CustomerBriefView {
    fn from(holder: &VersionHolder) -> Self {
        Self {
            customer_name: holder.customer_name.clone(),
            email: holder.email.clone(),
            customer_id: holder.customer.as_str().to_owned(),
        }
    }
}

view! {
    /// A plan version as others refer to it.
    PlanVersionBriefView {
        /// The version's own name, otherwise the plan's.
        plan_name: String,
        /// The plan.
        plan_id: PlanId,
        /// The version.
        version_id: PlanVersionId,
        /// The version's number.
        version: u32,
    }
}

impl PlanVersionBriefView {
    /// Of a version and its plan.
    pub fn new(plan: &Plan, version: &PlanVersion) -> Self {
        let plan_name = version.name(plan).to_owned();
        Self { plan_name, plan_id: plan.id, version_id: version.id, version: version.number }
    }
}

impl From<&invoice::PlanVersionBrief> for PlanVersionBriefView {
    fn from(brief: &invoice::PlanVersionBrief) -> Self {
        let invoice::PlanVersionBrief { plan_name, plan_id, version_id, version } = brief.clone();
        Self { plan_name, plan_id, version_id, version }
    }
}

body! {
    /// A property that an event must have to count.
    FilterBody {
        /// The property.
        required property_name: String,
        /// Its value.
        required value: String,
    }
}

impl FromJson for SubscriptionFilters {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let filters = Vec::<FilterBody>::from_json(value)?;
        let pairs = filters.into_iter().map(|filter| (filter.property_name, filter.value));
        Self::new(pairs).map_err(|error| FieldErrors(vec![error]))
    }
}

impl Described for SubscriptionFilters {
    fn describe(schemas: &mut Schemas) -> Schema {
        Vec::<FilterBody>::describe(schemas)
    }
}

view! {
    /// A property that an event must have to count.
    FilterView {
        /// The property.
        property_name: String,
        /// Its value.
        value: String,
    }
}

impl FilterView {
    /// All pairs of a set of filters.
    pub fn list(filters: &SubscriptionFilters) -> Vec<Self> {
        let owned = |(name, value): (&str, &str)| Self { property_name: name.to_owned(), value: value.to_owned() };
        filters.iter().map(owned).collect()
    }
}
