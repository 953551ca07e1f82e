//! What a transaction does to the books, told once it has committed: of one that was rolled back nothing is.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use billing_domain::decimal::plain;
use billing_domain::id::{CustomerKey, InvoiceId, OrganizationId, SubscriptionId};
use billing_domain::subscription::Subscription;

use crate::issued::Issued;

/// What the transactions of one organization have done and is to be told, in its order.
#[derive(Default)]
pub(crate) struct Deeds {
    all: Vec<Deed>,
    /// The subscriptions in whose place others came, by those.
    replaced: BTreeMap<SubscriptionId, SubscriptionId>,
    /// Whether messages were written.
    pub(crate) has_told: bool,
    /// Whether customers were marked whose figures are to be held against usage alerts.
    pub(crate) has_marked: bool,
}

enum Deed {
    Issued { customer: CustomerKey, invoice: InvoiceId, number: String, currency: String, amount: BigDecimal },
    Subscribed { subscription: Box<Subscription> },
}

impl Deeds {
    /// An invoice was issued under this number.
    pub(crate) fn issued(
        &mut self,
        (customer, invoice): (CustomerKey, InvoiceId),
        number: String,
        (currency, amount): (String, BigDecimal),
    ) {
        self.all.push(Deed::Issued { customer, invoice, number, currency, amount });
    }

    /// A subscription was changed: perhaps another one is in its place.
    pub(crate) fn changed(&mut self, subscription: &Subscription) {
        if let Some(successor) = subscription.replaced_by {
            self.replaced.insert(successor, subscription.id);
        }
    }

    /// A subscription was made, by a call, by a renewal or by a switch of plans.
    pub(crate) fn subscribed(&mut self, subscription: &Subscription) {
        self.all.push(Deed::Subscribed { subscription: Box::new(subscription.clone()) });
    }

    /// Tells all of it, for it has been committed: to the log, and to the counters.
    pub(crate) fn tell(self, organization: OrganizationId, counters: &Issued) {
        for deed in self.all {
            deed.tell(organization, &self.replaced, counters);
        }
    }
}

impl Deed {
    fn tell(
        self,
        organization: OrganizationId,
        replaced: &BTreeMap<SubscriptionId, SubscriptionId>,
        counters: &Issued,
    ) {
        match self {
            Self::Issued { customer, invoice, number, currency, amount } => {
                counters.count(&currency, &amount);
                log::info!(
                    organization:% = organization, customer_key:% = customer.uuid(), invoice_id:% = invoice,
                    invoice_number = number.as_str(), currency = currency.as_str(), amount:% = plain(&amount);
                    "invoice issued"
                );
            }
            Self::Subscribed { subscription } => {
                let replaces = replaced.get(&subscription.id);
                let change = match replaces {
                    Some(_) => "switched",
                    None if subscription.is_new => "created",
                    None => "renewed",
                };
                let replaces = replaces.map_or_else(|| "-".to_owned(), ToString::to_string);
                log::info!(
                    organization:% = organization, customer_key:% = subscription.customer.uuid(),
                    subscription_id:% = subscription.id, plan_version_id:% = subscription.version, change,
                    replaces = replaces.as_str();
                    "subscription changed"
                );
            }
        }
    }
}
