//! One customer at work: everything of theirs that billing looks at, read once and changed in one place.

use std::collections::BTreeMap;
use std::rc::Rc;

use time::OffsetDateTime;

use crate::charge::BillingRecord;
use crate::credit::CreditLedger;
use crate::currency::Currency;
use crate::customer::Customer;
use crate::error::{Error, Refusal, StoreError};
use crate::id::{CreditId, CustomerKey, MetricId, PlanVersionId, SubscriptionId};
use crate::invoice::PlanVersionBrief;
use crate::metric::Metric;
use crate::organization::Organization;
use crate::plan::{Plan, PlanVersion};
use crate::store::Transaction;
use crate::subscription::{Subscription, SubscriptionFilters, SubscriptionStatus};
use crate::test_clock::TestClockStatus;

/// A customer's open records and the subscriptions behind them, with the catalogue they are priced by.
pub(super) struct Account {
    pub organization: Organization,
    pub customer: Customer,
    /// Subscriptions that run, await renewal, or have a record here.
    pub subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// Records with an invoicing instant to come, in order of making.
    pub records: Vec<BillingRecord>,
    /// Records that are billed and may still get late events.
    pub late: Vec<BillingRecord>,
    /// Credits that have something left.
    pub credits: BTreeMap<CreditId, CreditLedger>,
    catalog: Catalog,
}

/// A plan version, its plan, its currency and its metrics.
pub(super) struct Offer {
    pub plan: Plan,
    pub version: PlanVersion,
    pub currency: Currency,
    pub metrics: BTreeMap<MetricId, Metric>,
}

/// What has been looked up of the catalogue.
#[derive(Default)]
pub(super) struct Catalog(BTreeMap<PlanVersionId, Rc<Offer>>);

impl Account {
    /// Reads what there is of `customer` at `now`.
    pub fn load(tx: &mut dyn Transaction, customer: CustomerKey, now: OffsetDateTime) -> Result<Self, Error> {
        let organization = tx.organizations().get()?;
        let records = tx.billing_records().list_open(customer)?;
        let current = tx.subscriptions().list_current(customer, now)?;
        let mut subscriptions: BTreeMap<_, _> = current.into_iter().map(|own| (own.id, own)).collect();
        for record in &records {
            if !subscriptions.contains_key(&record.subscription) {
                let ended = tx.subscriptions().get(customer, record.subscription)?;
                subscriptions.insert(ended.id, ended);
            }
        }
        let (late, records) = records.into_iter().partition(BillingRecord::awaits_late_usage);
        let customer = tx.customers().get(customer)?;
        let credits = tx.credits().list_open(customer.key)?;
        let credits = credits.into_iter().map(|ledger| (ledger.credit().id, ledger)).collect();
        Ok(Self { organization, customer, subscriptions, records, late, credits, catalog: Catalog::default() })
    }

    /// Refuses while the customer's test clock is on its way.
    pub fn refuse_while_advancing(&self, tx: &mut dyn Transaction) -> Result<(), Error> {
        let Some(clock) = self.customer.test_clock else { return Ok(()) };
        match tx.test_clocks().get(clock)?.status {
            TestClockStatus::Advancing => Err(Refusal::TestClockAdvancing.into()),
            TestClockStatus::Ready | TestClockStatus::Failed => Ok(()),
        }
    }

    /// The plan version and what belongs to it.
    pub fn offer(&mut self, tx: &mut dyn Transaction, version: PlanVersionId) -> Result<Rc<Offer>, Error> {
        self.catalog.offer(tx, version)
    }

    /// A subscription that is at work.
    pub fn subscription(&self, id: SubscriptionId) -> Result<&Subscription, Error> {
        self.subscriptions.get(&id).ok_or_else(|| no_subscription(id))
    }

    /// A subscription that is at work, to be changed.
    pub fn subscription_mut(&mut self, id: SubscriptionId) -> Result<&mut Subscription, Error> {
        self.subscriptions.get_mut(&id).ok_or_else(|| no_subscription(id))
    }

    /// Puts a changed record in the place of the one before, so that lines keep their order; one that has nothing
    /// to come is not at work.
    pub fn replace(&mut self, record: BillingRecord) {
        self.late.retain(|own| own.id != record.id);
        if record.awaits_late_usage() {
            self.late.push(record.clone());
        }
        let place = self.records.iter().position(|own| own.id == record.id);
        match (place, record.next_invoicing_at()) {
            (Some(i), Some(_)) => self.records[i] = record,
            (Some(i), None) => drop(self.records.remove(i)),
            (None, Some(_)) => self.records.push(record),
            (None, None) => {}
        }
    }

    /// Keeps a new subscription and its records, in the store and here.
    pub fn add(
        &mut self,
        tx: &mut dyn Transaction,
        subscription: Subscription,
        records: Vec<BillingRecord>,
    ) -> Result<(), Error> {
        tx.subscriptions().insert(&subscription)?;
        tx.billing_records().insert(self.customer.key, &records)?;
        self.records.extend(records);
        self.subscriptions.insert(subscription.id, subscription);
        Ok(())
    }
}

/// The subscriptions that an access check looks at: those that run at `now` and have all of `filters`, taken as
/// renewed where their renewal is due but not yet made, each with what it is to.
pub(super) fn considered(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    filters: &SubscriptionFilters,
    now: OffsetDateTime,
) -> Result<Vec<(Subscription, Rc<Offer>)>, Error> {
    let mut catalog = Catalog::default();
    let mut considered = Vec::new();
    for held in tx.subscriptions().list_current(customer, now)? {
        let offer = catalog.offer(tx, held.version)?;
        let subscription = held.as_renewed_at(now, offer.plan.duration, offer.version.anchors);
        if subscription.status(now) == SubscriptionStatus::Active && filters.is_subset_of(&subscription.filters) {
            considered.push((subscription, offer));
        }
    }
    Ok(considered)
}

fn no_subscription(id: SubscriptionId) -> Error {
    StoreError::Internal(format!("the store holds a billing record without its subscription {id}")).into()
}

impl Catalog {
    /// The plan version and what belongs to it.
    pub fn offer(&mut self, tx: &mut dyn Transaction, id: PlanVersionId) -> Result<Rc<Offer>, Error> {
        if let Some(offer) = self.0.get(&id) {
            return Ok(offer.clone());
        }
        let version = tx.plans().get_version(id)?;
        let plan = tx.plans().get(version.plan)?;
        let currency = super::find_currency(tx, &version.currency_code)?;
        let mut metrics = BTreeMap::new();
        for metric in version.metrics() {
            metrics.insert(metric, tx.metrics().get(metric)?);
        }
        let offer = Rc::new(Offer { plan, version, currency, metrics });
        self.0.insert(id, offer.clone());
        Ok(offer)
    }
}

impl Offer {
    /// The version as invoices and access checks refer to it.
    pub fn brief(&self) -> PlanVersionBrief {
        PlanVersionBrief {
            plan_name: self.version.name(&self.plan).to_owned(),
            plan_id: self.plan.id,
            version_id: self.version.id,
            version: self.version.number,
        }
    }
}
