//! Customers as answers show them.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use bigdecimal::BigDecimal;
use billing_domain::customer::{Customer, PaymentProvider};
use billing_domain::id::{CustomerKey, SubscriptionId, TestClockId};
use billing_domain::invoice::{InvoiceSummary, PaymentStatus};
use billing_domain::store::{PageRequest, Transaction};
use billing_domain::subscription::{Subscription, SubscriptionStatus};
use billing_domain::tax::{TaxOutcome, TaxProvider};
use billing_domain::workflow::{DeletedCustomer, find_currency, list_subscriptions};
use billing_domain::{Error, Noun};
use time::OffsetDateTime;

use crate::invoice::InvoiceBriefView;
use crate::subscription::{Holder, Names, SubscriptionView};
use crate::wire::{AddressView, CurrencyView, Instant, Number, view};

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
        /// The sum of the unpaid invoices in the default currency.
        total_amount_due: Number,
        /// The sums of the unpaid invoices, one for each of their currencies, by its code.
        total_amounts_due: Vec<AmountDueView>,
        /// Subscriptions that run, by start.
        subscriptions: Vec<SubscriptionView>,
        /// The customer at payment providers.
        integrations: IntegrationsView,
        /// The currency preferred when a plan has versions in several.
        default_currency: Option<CurrencyView>,
        /// The payment provider, as given.
        payment_provider: Option<PaymentProvider>,
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
        /// Who is asked for tax rates, in order, before those that the organization names.
        tax_providers: Vec<TaxProvider>,
        /// Why the organization's own provider had no answer when it was asked last, if it had none.
        tax_failure: Option<String>,
        /// The test clock it lives by.
        test_clock_id: Option<TestClockId>,
        /// Whether what fell due in the past is still being billed: until then calls that change the customer answer 409.
        catching_up: bool,
    }
}

view! {
    /// What is due in one currency.
    AmountDueView {
        /// Which.
        currency: CurrencyView,
        /// The sum of the unpaid invoices in it.
        amount: Number,
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

fn tax_failure(customer: &Customer) -> Option<String> {
    match &customer.tax_quotes.last()?.outcome {
        TaxOutcome::Failed(reason) => Some(reason.clone()),
        TaxOutcome::Rate(_) | TaxOutcome::NoRate => None,
    }
}

impl CustomerView {
    /// Of one customer.
    ///
    /// # Errors
    /// Those of the store.
    pub fn new(tx: &mut dyn Transaction, customer: &Customer) -> Result<Self, Error> {
        let mut views = Self::list(tx, std::slice::from_ref(customer))?;
        views.pop().ok_or(Error::NotFound(Noun::Customer))
    }

    /// Of one that was just made, without asking for what it has: nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub fn of_new(tx: &mut dyn Transaction, customer: &Customer) -> Result<Self, Error> {
        Shelf::default().view(tx, customer)
    }

    /// Of many, in their order. How many statements that takes does not depend on how many they are.
    ///
    /// # Errors
    /// Those of the store.
    pub fn list(tx: &mut dyn Transaction, customers: &[Customer]) -> Result<Vec<Self>, Error> {
        let mut shelf = Shelf::load(tx, customers)?;
        customers.iter().map(|customer| shelf.view(tx, customer)).collect()
    }
}

/// What each of these customers owes in each currency, by its code: what is due of their unpaid invoices. The store is
/// asked only about those who may have more invoices than were read.
fn due_of(
    tx: &mut dyn Transaction,
    invoices: &BTreeMap<CustomerKey, Vec<InvoiceSummary>>,
) -> Result<BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>>, Error> {
    let is_cut = |read: &[InvoiceSummary]| read.len() >= INVOICES_MAX as usize;
    let cut: Vec<CustomerKey> = invoices.iter().filter(|(_, read)| is_cut(read)).map(|(key, _)| *key).collect();
    let mut due = if cut.is_empty() { BTreeMap::new() } else { tx.invoices().due_of(&cut)? };
    for (key, read) in invoices.iter().filter(|(_, read)| !is_cut(read)) {
        for invoice in read.iter().filter(|invoice| invoice.payment_status == PaymentStatus::Unpaid) {
            let by_currency = due.entry(*key).or_default();
            *by_currency.entry(invoice.currency.code.clone()).or_default() += &invoice.amount_due;
        }
    }
    Ok(due)
}

/// Most invoices that are shown of a customer.
const INVOICES_MAX: u32 = PageRequest::LIMIT_MAX;

/// What customers have, read for all of them at once.
#[derive(Default)]
struct Shelf {
    nows: BTreeMap<CustomerKey, OffsetDateTime>,
    invoices: BTreeMap<CustomerKey, Vec<InvoiceSummary>>,
    due: BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>>,
    subscriptions: BTreeMap<CustomerKey, Vec<Subscription>>,
    fully_billed: BTreeSet<SubscriptionId>,
    currencies: BTreeMap<String, CurrencyView>,
    names: Names,
}

impl Shelf {
    fn load(tx: &mut dyn Transaction, customers: &[Customer]) -> Result<Self, Error> {
        let keys: Vec<CustomerKey> = customers.iter().map(|customer| customer.key).collect();
        let nows = keys.iter().copied().zip(tx.customers().nows(&keys)?).collect();
        let mut invoices: BTreeMap<_, Vec<InvoiceSummary>> = BTreeMap::new();
        let shown = [PaymentStatus::Paid, PaymentStatus::Unpaid];
        for invoice in tx.invoices().list_of(&keys, &shown, INVOICES_MAX)? {
            invoices.entry(invoice.customer).or_default().push(invoice);
        }
        let due = due_of(tx, &invoices)?;
        let listed = list_subscriptions(tx, &keys)?;
        let fully_billed = listed.fully_billed;
        let mut subscriptions: BTreeMap<_, Vec<Subscription>> = BTreeMap::new();
        for subscription in listed.all {
            subscriptions.entry(subscription.customer).or_default().push(subscription);
        }
        let (currencies, names) = (BTreeMap::new(), Names::default());
        Ok(Self { nows, invoices, due, subscriptions, fully_billed, currencies, names })
    }

    fn currency(&mut self, tx: &mut dyn Transaction, code: &str) -> Result<CurrencyView, Error> {
        if let Some(known) = self.currencies.get(code) {
            return Ok(known.clone());
        }
        let view = CurrencyView::from(&find_currency(tx, code)?);
        self.currencies.insert(code.to_owned(), view.clone());
        Ok(view)
    }

    /// The subscriptions of the customer that run.
    fn subscriptions(&mut self, tx: &mut dyn Transaction, customer: &Customer) -> Result<Vec<SubscriptionView>, Error> {
        let held = self.subscriptions.remove(&customer.key).unwrap_or_default();
        let ids = held.iter().map(|subscription| subscription.id).filter(|id| self.fully_billed.contains(id)).collect();
        let mut holder = Holder::new(customer, &held, ids, mem::take(&mut self.names));
        let now = self.nows.get(&customer.key).copied().unwrap_or(customer.created_at);
        let mut running = held
            .iter()
            .filter(|subscription| !subscription.is_addon() && subscription.status(now) == SubscriptionStatus::Active);
        let views = running.try_fold(Vec::new(), |mut views, subscription| {
            views.push(holder.view(tx, subscription)?);
            Ok(views)
        });
        self.names = holder.into_names();
        views
    }

    /// What the customer owes, currency by currency.
    fn amounts_due(
        &mut self,
        tx: &mut dyn Transaction,
        due: &BTreeMap<String, BigDecimal>,
    ) -> Result<Vec<AmountDueView>, Error> {
        let mut amounts = Vec::with_capacity(due.len());
        for (code, amount) in due {
            amounts.push(AmountDueView { currency: self.currency(tx, code)?, amount: amount.into() });
        }
        Ok(amounts)
    }

    fn view(&mut self, tx: &mut dyn Transaction, customer: &Customer) -> Result<CustomerView, Error> {
        let due = self.due.remove(&customer.key).unwrap_or_default();
        let invoices = self.invoices.remove(&customer.key).unwrap_or_default();
        let billing_address = customer.fields.billing_address.as_ref().map(AddressView::from);
        Ok(CustomerView {
            customer_id: customer.id.to_string(),
            email: customer.email.clone(),
            customer_name: customer.fields.name.clone(),
            invoices: invoices.iter().map(InvoiceBriefView::from).collect(),
            total_amount_due: Number(due.get(&customer.default_currency_code).cloned().unwrap_or_default()),
            total_amounts_due: self.amounts_due(tx, &due)?,
            subscriptions: self.subscriptions(tx, customer)?,
            integrations: IntegrationsView::from(customer),
            default_currency: Some(self.currency(tx, &customer.default_currency_code)?),
            payment_provider: customer.fields.payment_provider,
            payment_provider_id: customer.fields.payment_provider_id.clone(),
            has_payment_method: customer.fields.has_payment_method,
            address: billing_address.clone(),
            billing_address,
            shipping_address: customer.fields.shipping_address.as_ref().map(AddressView::from),
            tax_rate: customer.fields.tax_rate.as_ref().map(Number::from),
            timezone: customer.timezone.clone(),
            tax_providers: customer.fields.tax_providers.clone(),
            tax_failure: tax_failure(customer),
            test_clock_id: customer.test_clock,
            catching_up: customer.catching_up,
        })
    }
}

impl From<&Customer> for IntegrationsView {
    fn from(customer: &Customer) -> Self {
        let has_payment_method = customer.fields.has_payment_method;
        let id_at = |provider| {
            customer.fields.payment_provider_id.clone().filter(|_| customer.fields.payment_provider == Some(provider))
        };
        Self {
            stripe: id_at(PaymentProvider::Stripe).map(|stripe_id| StripeView { stripe_id, has_payment_method }),
            braintree: id_at(PaymentProvider::Braintree)
                .map(|braintree_id| BraintreeView { braintree_id, has_payment_method }),
        }
    }
}
