//! A small world for tests: one organization in a [`MemoryStore`], and every workflow within reach.

use std::cell::Cell;

use bigdecimal::BigDecimal;
use serde_json::json;
use time::OffsetDateTime;

use crate::addon::{Addon, AddonTerms};
use crate::customer::CustomerId;
use crate::error::Error;
use crate::event::{Event, Ingested};
use crate::id::{AddonId, CustomerKey, MetricId, OrganizationId, PlanId, SubscriptionId};
use crate::invoice::{Adjustment, Invoice, Trace};
use crate::memory::MemoryStore;
use crate::metric::{Aggregation, Metric, MetricFilters};
use crate::period::PlanDuration;
use crate::plan::{ChargeBehavior, ChargeTiming, PrepaidCharge};
use crate::store::{EventIngest, InvoiceFilter, PageRequest, Scope, Store, Transaction, Window};
use crate::subscription::{Subscription, SubscriptionFilters};
use crate::tier::{Tier, TierPrice, TierSchedule};
use crate::workflow::{
    AddonChoice, AttachAddon, CheckMetricAccess, CheckedAccess, CreateAddon, CreateCustomer, CreateMetric,
    CreateOrganization, CreatePlan, CreateSubscription, NewComponent, NewPlanVersion, NewRecurringCharge,
    OrganizationPatch, Progress, VersionChoice, attach_addon, bill_customer, bill_customer_partly, check_metric_access,
    create_addon, create_customer, create_metric, create_organization, create_plan, create_subscription,
    update_organization,
};

/// One organization in memory.
pub struct World {
    /// The store.
    pub store: MemoryStore,
    /// The organization.
    pub organization: OrganizationId,
    events_sent: Cell<u64>,
}

/// A decimal from its text.
///
/// # Panics
/// When the text is not a decimal.
pub fn decimal(text: &str) -> BigDecimal {
    text.parse().expect("a decimal")
}

/// Tiers from rows of range start, range end (empty: open) and price: `free`, `flat 5`, `0.01`, or `5 per 100`.
///
/// # Panics
/// When a row cannot be read or the tiers do not fit together.
pub fn tiers(rows: &[(&str, &str, &str)]) -> TierSchedule {
    let tiers = rows.iter().map(|(start, end, price)| Tier {
        range_start: decimal(start),
        range_end: (!end.is_empty()).then(|| decimal(end)),
        price: match price.split_whitespace().collect::<Vec<_>>()[..] {
            ["free"] => TierPrice::Free,
            ["flat", cost] => TierPrice::Flat { cost: decimal(cost) },
            [cost] => per_unit(cost, "1"),
            [cost, "per", units] => per_unit(cost, units),
            _ => panic!("not a price: {price}"),
        },
    });
    TierSchedule::new(tiers.collect(), false).expect("tiers that fit together")
}

fn per_unit(cost: &str, units: &str) -> TierPrice {
    TierPrice::PerUnit { cost_per_batch: decimal(cost), metric_units_per_batch: decimal(units), batch_rounding: None }
}

/// A component that is billed once a period.
pub fn component(metric: MetricId, tiers: TierSchedule) -> NewComponent {
    NewComponent { metric, tiers, invoicing_interval: None, reset_interval: None, prepaid_charge: None }
}

/// A component with prepaid units; `units` empty: the subscription must say how many.
pub fn prepaid_component(metric: MetricId, tiers: TierSchedule, units: &str, behavior: ChargeBehavior) -> NewComponent {
    let units = (!units.is_empty()).then(|| decimal(units));
    NewComponent { prepaid_charge: Some(PrepaidCharge { units, behavior }), ..component(metric, tiers) }
}

/// A prorated fee that is charged once a period.
pub fn fee(amount: &str, timing: ChargeTiming) -> NewRecurringCharge {
    NewRecurringCharge {
        name: "base".to_owned(),
        amount: decimal(amount),
        timing,
        behavior: ChargeBehavior::Prorate,
        invoicing_interval: None,
        reset_interval: None,
    }
}

/// A public version in US dollars, active at once.
pub fn version(recurring_charges: Vec<NewRecurringCharge>, components: Vec<NewComponent>) -> NewPlanVersion {
    NewPlanVersion { recurring_charges, components, ..NewPlanVersion::empty("USD") }
}

/// A subscription of `customer` to `plan` from `start` for as long as the plan lasts.
pub fn subscription(customer: &str, plan: PlanId, start: OffsetDateTime) -> CreateSubscription {
    CreateSubscription {
        customer: customer.parse().expect("a customer id"),
        version: VersionChoice::Plan(plan),
        start,
        end: None,
        auto_renew: true,
        is_new: true,
        filters: SubscriptionFilters::none(),
        metadata: serde_json::Map::new(),
        prepaid_units: Vec::new(),
    }
}

/// Subscription filters from pairs of property name and value.
///
/// # Panics
/// When the pairs are refused.
pub fn filters(pairs: &[(&str, &str)]) -> SubscriptionFilters {
    let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    SubscriptionFilters::new(owned).expect("valid filters")
}

impl World {
    /// A world with an organization and a clock that stands at `now`.
    ///
    /// # Panics
    /// As all methods here: when a workflow refuses what a test takes for granted.
    pub fn at(now: OffsetDateTime) -> Self {
        let store = MemoryStore::at(now);
        let organization = store.new_organization();
        let world = Self { store, organization, events_sent: Cell::new(0) };
        let command = CreateOrganization { name: "Acme".to_owned() };
        world.catalog(|tx, now| create_organization(tx, &command, now)).expect("an organization");
        world
    }

    /// Runs `work` on the catalogue.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn catalog<T>(
        &self,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let store: &dyn Store = &self.store;
        store.run_for(&Scope::Catalog(self.organization), work)
    }

    /// Runs `work` on one customer.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn on<T>(
        &self,
        customer: &str,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let store: &dyn Store = &self.store;
        store.run_for(&Scope::Customer(self.organization, self.key(customer)), work)
    }

    /// The key of a customer.
    pub fn key(&self, customer: &str) -> CustomerKey {
        let id: CustomerId = customer.parse().expect("a customer id");
        CustomerKey::derive(self.organization, &id)
    }

    /// Changes settings of the organization.
    pub fn set(&self, patch: &OrganizationPatch) {
        self.catalog(|tx, _| update_organization(tx, patch)).expect("settings");
    }

    /// A metric that counts the events of `event_name`, or sums a property of theirs.
    pub fn metric(&self, event_name: &str, sum_of: Option<&str>) -> Metric {
        let command = CreateMetric {
            name: None,
            event_name: event_name.to_owned(),
            measure: sum_of
                .map_or(Aggregation::Count, |name| Aggregation::Sum { property_name: name.to_owned() })
                .into(),
            filters: MetricFilters::default(),
            is_cost_metric: false,
        };
        self.catalog(|tx, now| create_metric(tx, &command, now)).expect("a metric")
    }

    /// A plan called `Pro` with one version.
    pub fn plan(&self, duration: Option<PlanDuration>, version: NewPlanVersion) -> PlanId {
        let command = CreatePlan {
            name: "Pro".to_owned(),
            description: None,
            duration,
            tags: Vec::new(),
            external_links: Vec::new(),
            initial_version: Some(version),
        };
        self.catalog(|tx, now| create_plan(tx, &command, now)).expect("a plan").0.id
    }

    /// An add-on called `Extra`.
    pub fn addon(&self, terms: AddonTerms, content: NewPlanVersion) -> Addon {
        let command = CreateAddon { name: "Extra".to_owned(), description: None, terms, content };
        self.catalog(|tx, now| create_addon(tx, &command, now)).expect("an add-on")
    }

    /// Attaches so many of the add-on.
    ///
    /// # Errors
    /// Those of [`attach_addon`].
    pub fn attach(
        &self,
        customer: &str,
        parent: SubscriptionId,
        addon: AddonId,
        quantity: u32,
    ) -> Result<Subscription, Error> {
        let command = AttachAddon {
            customer: self.key(customer),
            parent,
            addon: AddonChoice::Addon(addon),
            quantity,
            metadata: serde_json::Map::new(),
        };
        self.on(customer, |tx, now| attach_addon(tx, &command, now))
    }

    /// A customer in US dollars and UTC.
    pub fn customer(&self, id: &str) -> CustomerKey {
        let command = CreateCustomer::new(id.parse().expect("a customer id"), &format!("{id}@acme.io"));
        self.on(id, |tx, now| create_customer(tx, &command, now)).expect("a customer").key
    }

    /// Creates the subscription.
    ///
    /// # Errors
    /// Those of [`create_subscription`].
    pub fn subscribe(&self, command: &CreateSubscription) -> Result<Subscription, Error> {
        self.on(command.customer.as_str(), |tx, now| create_subscription(tx, command, now).map(|new| new.subscription))
    }

    /// Stores one event at `time` with the properties of a JSON object.
    pub fn track(&self, customer: &str, name: &str, time: OffsetDateTime, properties: &serde_json::Value) -> Ingested {
        self.events_sent.set(self.events_sent.get() + 1);
        let event = Event {
            customer: customer.parse().expect("a customer id"),
            name: name.to_owned(),
            idempotency_id: format!("event-{}", self.events_sent.get()),
            time_created: time,
            properties: properties.as_object().cloned().unwrap_or_default().into(),
        };
        self.store.ingest(self.organization, &[event], Window::Open).expect("an answer")[0]
    }

    /// Stores `count` events without properties at `time`.
    pub fn track_many(&self, customer: &str, name: &str, time: OffsetDateTime, count: u32) {
        for _ in 0..count {
            self.track(customer, name, time, &json!({}));
        }
    }

    /// Sets the clock and bills the customer up to it.
    pub fn advance(&self, customer: &str, now: OffsetDateTime) {
        self.store.set_now(now);
        let key = self.key(customer);
        self.on(customer, |tx, now| bill_customer(tx, key, now)).expect("billing");
    }

    /// [`World::advance`] in as many transactions as it takes when each does about `work_max` of work.
    pub fn advance_partly(&self, customer: &str, now: OffsetDateTime, work_max: usize) {
        self.store.set_now(now);
        let key = self.key(customer);
        let part = |tx: &mut dyn Transaction, now| bill_customer_partly(tx, key, now, work_max);
        while self.on(customer, part).expect("billing") == Progress::OnTheWay {}
    }

    /// Checks access now.
    ///
    /// # Errors
    /// Those of [`check_metric_access`].
    pub fn access(
        &self,
        customer: &str,
        metric: MetricId,
        filters: &SubscriptionFilters,
    ) -> Result<CheckedAccess, Error> {
        let customer = customer.parse().expect("a customer id");
        let command = CheckMetricAccess { customer, metric, filters: filters.clone() };
        let store: &dyn Store = &self.store;
        store.run_for(&Scope::Organization(self.organization), |tx, now| check_metric_access(tx, &command, now))
    }

    /// The customer's subscriptions, by start.
    pub fn subscriptions(&self, customer: &str) -> Vec<Subscription> {
        let key = self.key(customer);
        self.on(customer, |tx, _| tx.subscriptions().list(key)).expect("subscriptions")
    }

    /// One subscription of the customer.
    pub fn subscription(&self, customer: &str, id: SubscriptionId) -> Subscription {
        let key = self.key(customer);
        self.on(customer, |tx, _| tx.subscriptions().get(key, id)).expect("a subscription")
    }

    /// The customer's invoices, oldest first; the traces of their lines are checked to survive storage.
    pub fn invoices(&self, customer: &str) -> Vec<Invoice> {
        let filter = InvoiceFilter::of(self.key(customer));
        let page = self.on(customer, |tx, _| tx.invoices().list(&filter, &PageRequest::first())).expect("invoices");
        for line in page.items.iter().flat_map(|invoice| &invoice.lines) {
            let stored = serde_json::to_string(&(&line.trace, &line.adjustments)).expect("json");
            let read: (Trace, Vec<Adjustment>) = serde_json::from_str(&stored).expect("what was written");
            assert_eq!((&read.0, &read.1), (&line.trace, &line.adjustments));
        }
        page.items.into_iter().rev().collect()
    }
}
