//! Builders: values that are valid as they are, for tests to change what they are about.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use serde_json::Value;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::addon::{Addon, AddonTerms, BillingFrequency, InvoiceWhen, plan_of};
#[cfg(feature = "service")]
use crate::api_key::{ApiKey, KeyKind, KeyScopes};
use crate::charge::{Billed, BillingRecord, ChargeRef, UsageBilling};
use crate::credit::{Credit, CreditLedger};
use crate::currency::Currency;
use crate::customer::{Customer, CustomerFields};
use crate::event::{Event, Properties};
use crate::id::{AddonId, CustomerKey, InvoiceId, MetricId, OrganizationId, PaymentId};
use crate::invoice::{BilledTo, LineItem, NewInvoice, Seller, Trace};
use crate::metric::{Aggregation, Metric, MetricFilters};
use crate::organization::Organization;
use crate::payment::{Payment, PaymentKind};
use crate::period::{Anchors, Calendar, Period, PlanDuration};
use crate::plan::{ChargeBehavior, ChargeTiming, Component, Feature, Plan, PlanVersion, RecurringCharge};
use crate::subscription::{Settled, Subscription, SubscriptionFilters};
use crate::test_clock::{TestClock, TestClockStatus};
use crate::testing::world::{decimal, tiers};

/// Distinct ids, in ascending order.
#[derive(Debug)]
pub struct Ids {
    next: u128,
}

impl Ids {
    /// Ids that no other `seed` gives.
    pub fn new(seed: u32) -> Self {
        Self { next: u128::from(seed) << 64 }
    }

    /// The next one.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next<T: From<Uuid>>(&mut self) -> T {
        self.next += 1;
        Uuid::from_u128(self.next).into()
    }
}

/// `[start, start + days)`.
///
/// # Panics
/// When `days` is negative.
pub fn days_from(start: OffsetDateTime, days: i64) -> Period {
    Period::new(start, start + Duration::days(days)).expect("a period")
}

/// A JSON object, every number as it is written.
///
/// # Panics
/// When it is not an object.
pub fn object(json: &str) -> serde_json::Map<String, Value> {
    serde_json::from_str(json).expect("a JSON object")
}

/// The properties of an event.
///
/// # Panics
/// When they are not a JSON object.
pub fn properties(json: &str) -> Properties {
    json.parse().expect("a JSON object")
}

/// An organization with every setting at its default.
pub fn organization(id: OrganizationId, now: OffsetDateTime) -> Organization {
    Organization::new(id, "Acme", now)
}

#[cfg(feature = "service")]
/// A key that never expires.
pub fn api_key(organization: OrganizationId, prefix: &str, now: OffsetDateTime) -> ApiKey {
    ApiKey {
        kind: KeyKind::ApiKey,
        prefix: prefix.to_owned(),
        organization,
        name: "key".to_owned(),
        digest: vec![7; 32],
        created_at: now,
        expires_at: None,
        scopes: KeyScopes::default(),
        last_used_at: None,
    }
}

/// A metric that counts events.
pub fn count_metric(ids: &mut Ids, event_name: &str, now: OffsetDateTime) -> Metric {
    let id: MetricId = ids.next();
    Metric {
        id,
        name: format!("{event_name} {id}"),
        event_name: event_name.to_owned(),
        measure: Aggregation::Count.into(),
        filters: MetricFilters::default(),
        is_cost_metric: false,
        created_at: now,
        archived_at: None,
    }
}

/// A metric that adds up the property `amount`.
pub fn sum_metric(ids: &mut Ids, event_name: &str, now: OffsetDateTime) -> Metric {
    let aggregation = Aggregation::Sum { property_name: "amount".to_owned() };
    Metric { measure: aggregation.into(), ..count_metric(ids, event_name, now) }
}

/// A feature.
pub fn feature(ids: &mut Ids, name: &str) -> Feature {
    Feature { id: ids.next(), name: name.to_owned(), description: None }
}

/// A monthly plan.
pub fn plan(ids: &mut Ids, name: &str, now: OffsetDateTime) -> Plan {
    Plan {
        id: ids.next(),
        name: name.to_owned(),
        description: None,
        duration: Some(PlanDuration::Monthly),
        tags: Vec::new(),
        external_links: Vec::new(),
        created_at: now,
        deleted_at: None,
    }
}

/// A component that charges 0.01 a unit beyond ten free ones.
pub fn component(ids: &mut Ids, metric: MetricId) -> Component {
    Component {
        id: ids.next(),
        metric,
        tiers: tiers(&[("0", "10", "free"), ("10", "", "0.01")]),
        invoicing_interval: None,
        reset_interval: None,
        prepaid_charge: None,
    }
}

/// A fee of 12.50 a period, in advance, prorated.
pub fn recurring_charge(ids: &mut Ids, name: &str) -> RecurringCharge {
    RecurringCharge {
        id: ids.next(),
        name: name.to_owned(),
        amount: decimal("12.50"),
        timing: ChargeTiming::InAdvance,
        behavior: ChargeBehavior::Prorate,
        invoicing_interval: None,
        reset_interval: None,
    }
}

/// The first version of `plan`, public and active, in US dollars, with one fee and no component.
pub fn plan_version(ids: &mut Ids, plan: &Plan, now: OffsetDateTime) -> PlanVersion {
    PlanVersion {
        id: ids.next(),
        plan: plan.id,
        number: 1,
        localized_name: None,
        description: None,
        currency_code: "USD".to_owned(),
        components: Vec::new(),
        recurring_charges: vec![recurring_charge(ids, "base")],
        features: Vec::new(),
        price_adjustment: None,
        anchors: Anchors::NONE,
        target_customers: Vec::new(),
        active_from: Some(now),
        active_to: None,
        replace_with: None,
        transition_to: None,
        created_at: now,
        deleted_at: None,
    }
}

/// An add-on of one fee that is charged once.
pub fn addon(ids: &mut Ids, name: &str, now: OffsetDateTime) -> Addon {
    let id: AddonId = ids.next();
    let terms = AddonTerms { billing_frequency: BillingFrequency::OneTime, invoice_when: InvoiceWhen::InvoiceOnAttach };
    let content = PlanVersion { plan: plan_of(id), ..plan_version(ids, &plan(&mut Ids::new(0), name, now), now) };
    Addon { id, name: name.to_owned(), description: None, terms, content, created_at: now }
}

/// A test clock that stands at `frozen_time`.
pub fn test_clock(ids: &mut Ids, frozen_time: OffsetDateTime, now: OffsetDateTime) -> TestClock {
    let status = TestClockStatus::Ready;
    TestClock { id: ids.next(), name: "clock".to_owned(), frozen_time, status, created_at: now }
}

/// A customer in real time with nothing but an id.
///
/// # Panics
/// When `id` is not one that a customer can have.
pub fn customer(organization: OrganizationId, id: &str, now: OffsetDateTime) -> Customer {
    let id = id.parse().expect("a customer id");
    Customer {
        key: CustomerKey::derive(organization, &id),
        organization,
        id,
        email: None,
        default_currency_code: "USD".to_owned(),
        tax_quotes: Vec::new(),
        one_off_lines: Vec::new(),
        timezone: "UTC".to_owned(),
        fields: CustomerFields::default(),
        test_clock: None,
        catching_up: false,
        created_at: now,
        deleted_at: None,
    }
}

/// A subscription to `version` over `period`, which renews.
pub fn subscription(ids: &mut Ids, customer: CustomerKey, version: &PlanVersion, period: Period) -> Subscription {
    Subscription {
        cancellation: None,
        uncancelled_end: None,
        carried_usage: BTreeMap::new(),
        replaced_by: None,
        parent: None,
        id: ids.next(),
        customer,
        plan: version.plan,
        version: version.id,
        period,
        full: period,
        calendar: Calendar::of_single_period(period.start()),
        chain_began_at: period.start(),
        auto_renew: true,
        is_renewed: false,
        is_new: true,
        quantity: 1,
        filters: SubscriptionFilters::none(),
        metadata: serde_json::Map::new(),
        prepaid_units: BTreeMap::new(),
        settled: Settled::default(),
        created_at: period.start(),
    }
}

/// A record of `charge` over the subscription's whole period, billed at its end.
pub fn billing_record(ids: &mut Ids, subscription: &Subscription, charge: ChargeRef) -> BillingRecord {
    BillingRecord {
        id: ids.next(),
        subscription: subscription.id,
        version: subscription.version,
        charge,
        period: subscription.period,
        full: subscription.full,
        invoicing_instants: vec![subscription.period.end()],
        late_until: None,
        billed: Billed::default(),
        tax_rate: None,
        charged_before_switch: BigDecimal::from(0),
        usage: UsageBilling::Here,
        prepaid: None,
    }
}

/// A line of `amount` that belongs to the invoice as a whole.
pub fn line(name: &str, amount: &str, at: OffsetDateTime) -> LineItem {
    LineItem::of_invoice(name, decimal(amount), at, Trace::PlanAdjustment)
}

/// An invoice in US dollars with these lines, to be issued.
///
/// # Panics
/// Never: there are US dollars.
pub fn invoice(ids: &mut Ids, customer: &Customer, issued_at: OffsetDateTime, lines: Vec<LineItem>) -> NewInvoice {
    let id: InvoiceId = ids.next();
    let billed_to = BilledTo { customer_id: customer.id.as_str().to_owned(), name: None, email: None, address: None };
    NewInvoice {
        id,
        customer: customer.key,
        billed_to,
        seller: Seller { name: "Acme".to_owned(), address: None },
        currency: Currency::iso_4217("USD").expect("US dollars"),
        issued_at,
        due_at: None,
        lines,
        replaces: None,
    }
}

/// A payment of an invoice, with a reference of its own.
pub fn payment(ids: &mut Ids, invoice: InvoiceId, amount: &str, now: OffsetDateTime) -> Payment {
    let id: PaymentId = ids.next();
    Payment {
        id,
        invoice,
        kind: PaymentKind::Payment,
        reverses: None,
        credit_note: None,
        amount: decimal(amount),
        credited: BigDecimal::default(),
        credit: None,
        at: now,
        method: None,
        reference: Some(id.to_string()),
        reason: None,
        noted_at: now,
    }
}

/// A credit of `amount` US dollars that never expires.
///
/// # Panics
/// When `amount` is not above 0.
pub fn credit(ids: &mut Ids, amount: &str, now: OffsetDateTime) -> CreditLedger {
    let credit = Credit {
        id: ids.next(),
        currency_code: "USD".to_owned(),
        amount: decimal(amount),
        amount_paid: BigDecimal::default(),
        amount_paid_currency_code: None,
        description: None,
        effective_at: now,
        expires_at: None,
        created_at: now,
    };
    CreditLedger::grant(credit, ids.next()).expect("a valid credit")
}

/// An event without properties.
///
/// # Panics
/// When `customer` is not an id that a customer can have.
pub fn event(customer: &str, name: &str, id: &str, time_created: OffsetDateTime) -> Event {
    Event {
        customer: customer.parse().expect("a customer id"),
        name: name.to_owned(),
        idempotency_id: id.to_owned(),
        time_created,
        properties: Properties::new(),
    }
}

/// A JSON value, every number as it is written.
///
/// # Panics
/// When it is not JSON.
pub fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
