//! Customers as answers show them.

use bigdecimal::{BigDecimal, Zero};
use billing_domain::Error;
use billing_domain::customer::{Customer, PaymentProvider};
use billing_domain::id::{CustomerKey, TestClockId};
use billing_domain::invoice::{Invoice, PaymentStatus};
use billing_domain::store::{InvoiceFilter, PageRequest, Transaction};
use billing_domain::subscription::SubscriptionStatus;
use billing_domain::workflow::{DeletedCustomer, find_currency};

use crate::invoice::InvoiceBriefView;
use crate::subscription::{Holder, SubscriptionView};
use crate::wire::{AddressView, CurrencyView, Instant, Number, Word, view};

view! {
    /// Somebody who holds subscriptions and receives invoices.
    CustomerView {
        /// The caller's own id.
        customer_id: String,
        /// Primary e-mail address.
        email: Option<String>,
        /// Display name.
        customer_name: Option<String>,
        /// Paid and unpaid invoices without their lines, newest first; at most 1,000.
        invoices: Vec<InvoiceBriefView>,
        /// The sum of the unpaid invoices, each in its own currency.
        total_amount_due: Number,
        /// Subscriptions that run, by start.
        subscriptions: Vec<SubscriptionView>,
        /// The customer at payment providers.
        integrations: IntegrationsView,
        /// The currency preferred when a plan has versions in several.
        default_currency: Option<CurrencyView>,
        /// The payment provider, as given.
        payment_provider: Option<Word<PaymentProvider>>,
        /// The customer's id there, as given.
        payment_provider_id: Option<String>,
        /// Whether a payment method is on file there, as given.
        has_payment_method: bool,
        /// Deprecated: the same as billing_address.
        address: Option<AddressView>,
        /// Where invoices are addressed to.
        billing_address: Option<AddressView>,
        /// Where goods go.
        shipping_address: Option<AddressView>,
        /// Sales tax in percent, in place of the organization's.
        tax_rate: Option<Number>,
        /// IANA zone.
        timezone: String,
        /// Providers that taxes are asked of, in order.
        tax_providers: Vec<String>,
        /// The test clock it lives by.
        test_clock_id: Option<TestClockId>,
    }
}

view! {
    /// A customer at payment providers.
    IntegrationsView {
        /// At Stripe.
        stripe: Option<StripeView>,
        /// At Braintree.
        braintree: Option<BraintreeView>,
    }
}

view! {
    /// A customer at Stripe.
    StripeView {
        /// Its id there.
        stripe_id: String,
        /// Whether a payment method is on file.
        has_payment_method: bool,
    }
}

view! {
    /// A customer at Braintree.
    BraintreeView {
        /// Its id there.
        braintree_id: String,
        /// Whether a payment method is on file.
        has_payment_method: bool,
    }
}

view! {
    /// What is left of a deleted customer.
    DeletedCustomerView {
        /// Its id, which stays taken.
        customer_id: String,
        /// When it was deleted.
        deleted: Instant,
        /// Its e-mail address, which stays taken.
        email: Option<String>,
        /// How many subscriptions ended with it.
        num_subscriptions_deleted: u64,
        /// How many add-ons of theirs.
        num_addons_deleted: u64,
    }
}

impl From<&DeletedCustomer> for DeletedCustomerView {
    fn from(deleted: &DeletedCustomer) -> Self {
        let DeletedCustomer { customer, subscriptions, addons } = deleted;
        Self {
            customer_id: customer.id.to_string(),
            deleted: Instant(customer.deleted_at.unwrap_or(customer.created_at)),
            email: customer.email.clone(),
            num_subscriptions_deleted: *subscriptions,
            num_addons_deleted: *addons,
        }
    }
}

impl CustomerView {
    /// Of one customer.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(tx: &mut dyn Transaction, customer: &Customer) -> Result<Self, Error> {
        let now = tx.customers().now(customer.key)?;
        let invoices = list_invoices(tx, customer.key)?;
        let unpaid = invoices.iter().filter(|invoice| invoice.payment_status == PaymentStatus::Unpaid);
        let total_amount_due = unpaid.map(|invoice| &invoice.amount).fold(BigDecimal::zero(), |sum, due| sum + due);
        let mut holder = Holder::load(tx, customer)?;
        let mut subscriptions = Vec::new();
        for subscription in tx.subscriptions().list_current(customer.key, now)? {
            if !subscription.is_addon() && subscription.status(now) == SubscriptionStatus::Active {
                subscriptions.push(holder.view(tx, &subscription)?);
            }
        }
        let default_currency = find_currency(tx, &customer.default_currency_code)?;
        let billing_address = customer.billing_address.as_ref().map(AddressView::from);
        let shown = PageRequest::LIMIT_MAX as usize;
        Ok(Self {
            customer_id: customer.id.to_string(),
            email: customer.email.clone(),
            customer_name: customer.name.clone(),
            invoices: invoices.iter().take(shown).map(InvoiceBriefView::from).collect(),
            total_amount_due: Number(total_amount_due),
            subscriptions,
            integrations: IntegrationsView::from(customer),
            default_currency: Some(CurrencyView::from(&default_currency)),
            payment_provider: customer.payment_provider.map(Word),
            payment_provider_id: customer.payment_provider_id.clone(),
            has_payment_method: customer.has_payment_method,
            address: billing_address.clone(),
            billing_address,
            shipping_address: customer.shipping_address.as_ref().map(AddressView::from),
            tax_rate: customer.tax_rate.as_ref().map(Number::from),
            timezone: customer.timezone.clone(),
            tax_providers: Vec::new(),
            test_clock_id: customer.test_clock,
        })
    }
}

fn list_invoices(tx: &mut dyn Transaction, customer: CustomerKey) -> Result<Vec<Invoice>, Error> {
    let statuses = Some(vec![PaymentStatus::Paid, PaymentStatus::Unpaid]);
    let filter = InvoiceFilter { customer: Some(customer), statuses };
    let mut page = tx.invoices().list(&filter, &PageRequest::first())?;
    let mut invoices = page.items;
    while page.next.is_some() {
        page = tx.invoices().list(&filter, &PageRequest { after: page.next, ..PageRequest::first() })?;
        invoices.append(&mut page.items);
    }
    Ok(invoices)
}

impl From<&Customer> for IntegrationsView {
    fn from(customer: &Customer) -> Self {
        let has_payment_method = customer.has_payment_method;
        let id_at =
            |provider| customer.payment_provider_id.clone().filter(|_| customer.payment_provider == Some(provider));
        Self {
            stripe: id_at(PaymentProvider::Stripe).map(|stripe_id| StripeView { stripe_id, has_payment_method }),
            braintree: id_at(PaymentProvider::Braintree)
                .map(|braintree_id| BraintreeView { braintree_id, has_payment_method }),
        }
    }
}
