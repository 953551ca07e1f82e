#![forbid(unsafe_code)]
//! A pure billing engine: plans, tiers, metered usage, subscriptions, invoices and the access rule.
//!
//! Nothing here performs I/O, reads a clock, or touches a float: the caller brings the instant and the
//! store, and the same code runs behind a web service, inside another program and in a unit test. Amounts are
//! exact decimals until an invoice line rounds them once, and every line carries a trace from which anybody can
//! compute it again.
//!
//! Every pricing rule is in `docs/pricing.md` with examples that tests compute.
//!
//! # Price a plan in ten lines
//!
//! ```
//! use billing_domain::decimal::plain;
//! use billing_domain::simulate::{Offer, Simulation, tiers};
//! use time::macros::datetime;
//!
//! let starter = Offer::monthly("Starter")
//!     .fee("base", "30")
//!     .count("api_call", tiers().free_to("500").per_unit("0.01"));
//! let year = Simulation::between(datetime!(2026-01-01 0:00 UTC), datetime!(2027-01-01 0:00 UTC))
//!     .steadily("api_call", 25); // events a day
//!
//! let bill = year.price(&starter)?;
//! assert_eq!(plain(&bill.total()), "391.25"); // 12 fees of 30, and 3,125 calls beyond the free ones
//! assert_eq!(bill.invoices().count(), 13); // a fee in advance each month, usage a month later
//! # Ok::<(), billing_domain::Error>(())
//! ```
//!
//! # Three uses
//!
//! **Deployed.** A service gives the engine a durable [`Store`](store::Store), its own clock and its users. It opens
//! a transaction, runs a [`workflow`] in it and commits; this is how the server of this repository works, and the
//! [example below](#a-customers-first-month) is all there is to it.
//!
//! **Embedded.** A program that has subscriptions of its own takes the parts it needs. They are plain values
//! without a store: [`tier::TierSchedule`] prices a quantity, [`period::Cadence`] and [`period::Interval`] say when
//! periods end, [`charge::BillingRecord`] bills a charge bit by bit, [`money::spread`] splits an amount,
//! [`credit::drawdown_plan`] chooses credits.
//!
//! ```
//! use billing_domain::BigDecimal;
//! use billing_domain::decimal::plain;
//! use billing_domain::period::{Anchors, Cadence, PlanDuration};
//! use billing_domain::simulate::tiers;
//! use time::macros::datetime;
//!
//! let schedule = tiers().free_to("50").per_unit_to("100", "0.01").per_unit("0.005").build()?;
//! let rating = schedule.rate(&BigDecimal::from(150));
//! assert_eq!((plain(&rating.amount).as_str(), rating.walk.len()), ("0.75", 3)); // three tiers were entered
//!
//! let start = datetime!(2026-01-31 0:00 UTC);
//! let months = Cadence::new(start, PlanDuration::Monthly, Anchors::NONE);
//! let (february, march) = (months.period(0).period, months.period(1).period);
//! assert_eq!(february.end(), datetime!(2026-02-28 0:00 UTC));
//! assert_eq!(march.end(), datetime!(2026-03-31 0:00 UTC)); // nothing drifts
//!
//! let used = february.cut_at(datetime!(2026-02-07 0:00 UTC));
//! assert_eq!(plain(&used.fraction_of(&february).of(&BigDecimal::from(30))), "7.5"); // 7 of 28 days
//! # Ok::<(), billing_domain::FieldErrors>(())
//! ```
//!
//! **Simulation.** [`simulate`] runs the same workflows on events that happened, and compares two plans on them
//! before anybody pays: `examples/what_if.rs` does so on real usage.
//!
//! # A customer's first month
//!
//! ```
//! use billing_domain::decimal::plain;
//! use billing_domain::event::{Event, Properties};
//! use billing_domain::id::CustomerKey;
//! use billing_domain::memory::MemoryStore;
//! use billing_domain::metric::{Aggregation, MetricFilters};
//! use billing_domain::period::PlanDuration;
//! use billing_domain::plan::{ChargeBehavior, ChargeTiming};
//! use billing_domain::simulate::tiers;
//! use billing_domain::store::{EventIngest, InvoiceFilter, PageRequest, Scope, Store, Window};
//! use billing_domain::subscription::SubscriptionFilters;
//! use billing_domain::workflow::*;
//! use time::Duration;
//! use time::macros::datetime;
//!
//! // Any `Store` would do; the clock of this one stands where it is set.
//! let new_year = datetime!(2026-01-01 0:00 UTC);
//! let memory = MemoryStore::at(new_year);
//! let organization = memory.new_organization();
//! let store: &dyn Store = &memory;
//!
//! // The catalogue: an organization, a metric, and a plan of 30 a month and 0.01 a call beyond 500.
//! let plan = store.run_for(&Scope::Catalog(organization), |tx, now| {
//!     create_organization(tx, &CreateOrganization { name: "Acme".to_owned() }, now)?;
//!     let calls = CreateMetric {
//!         name: None,
//!         event_name: "api_call".to_owned(),
//!         measure: Aggregation::Count.into(),
//!         filters: MetricFilters::default(),
//!         is_cost_metric: false,
//!     };
//!     let calls = create_metric(tx, &calls, now)?;
//!     let component = NewComponent {
//!         metric: calls.id,
//!         tiers: tiers().free_to("500").per_unit("0.01").build()?,
//!         invoicing_interval: None,
//!         reset_interval: None,
//!         prepaid_charge: None,
//!     };
//!     let fee = NewRecurringCharge {
//!         name: "base".to_owned(),
//!         amount: 30.into(),
//!         timing: ChargeTiming::InAdvance,
//!         behavior: ChargeBehavior::Prorate,
//!         invoicing_interval: None,
//!         reset_interval: None,
//!     };
//!     let version = NewPlanVersion {
//!         components: vec![component],
//!         recurring_charges: vec![fee],
//!         ..NewPlanVersion::empty("USD")
//!     };
//!     let plan = CreatePlan {
//!         name: "Starter".to_owned(),
//!         description: None,
//!         duration: Some(PlanDuration::Monthly),
//!         tags: Vec::new(),
//!         external_links: Vec::new(),
//!         initial_version: Some(version),
//!     };
//!     Ok(create_plan(tx, &plan, now)?.0.id)
//! })?;
//!
//! // A customer subscribes: the fee is invoiced at once.
//! let customer = "ada".parse()?;
//! let key = CustomerKey::derive(organization, &customer);
//! let scope = Scope::Customer(organization, key);
//! store.run_for(&scope, |tx, now| {
//!     create_customer(tx, &CreateCustomer::new(customer.clone(), "ada@example.com"), now)?;
//!     let subscription = CreateSubscription {
//!         customer: customer.clone(),
//!         version: VersionChoice::Plan(plan),
//!         start: now,
//!         end: None,
//!         auto_renew: true,
//!         is_new: true,
//!         filters: SubscriptionFilters::none(),
//!         metadata: serde_json::Map::new(),
//!         prepaid_units: Vec::new(),
//!     };
//!     create_subscription(tx, &subscription, now)
//! })?;
//!
//! // Events come in while the month goes by.
//! let events: Vec<Event> = (0..620)
//!     .map(|hour| Event {
//!         customer: customer.clone(),
//!         name: "api_call".to_owned(),
//!         idempotency_id: format!("call-{hour}"),
//!         time_created: new_year + Duration::hours(hour),
//!         properties: Properties::new(),
//!     })
//!     .collect();
//! memory.ingest(organization, &events, Window::Open)?;
//!
//! // At its end the subscription renews, and half an hour later the invoice is there.
//! memory.set_now(datetime!(2026-02-01 0:30 UTC));
//! store.run_for(&scope, |tx, now| bill_customer(tx, key, now))?;
//! let invoices = store.run_for(&scope, |tx, _| tx.invoices().list(&InvoiceFilter::default(), &PageRequest::first()))?;
//! let latest = &invoices.items[0];
//! assert_eq!((latest.number.as_str(), latest.lines.len()), ("260201-000002", 2));
//! assert_eq!(plain(&latest.amount), "31.2"); // February's fee, and 120 calls of January at 0.01
//! # Ok::<(), billing_domain::Error>(())
//! ```
//!
//! # Module map
//!
//! | what | where |
//! |---|---|
//! | numbers, rounding, currencies | [`decimal`], [`money`], [`currency`] |
//! | time: periods, intervals, zones | [`period`], [`timezone`] |
//! | what is sold | [`plan`], [`addon`], [`tier`], [`metric`], [`adjustment`]; looked up: [`catalog`] |
//! | what happened | [`event`], [`usage`] |
//! | who pays | [`organization`], [`customer`], [`subscription`], [`address`], [`country`] |
//! | what is charged | [`charge`], [`tax`], [`credit`], [`invoice`], [`credit_note`], [`payment`], [`statement`], [`billing_run`] |
//! | whether they may | [`access`] |
//! | what is told of it, and to whom | [`message`], [`usage_alert`], [`webhook`] |
//! | what the system does | [`workflow`], [`test_clock`] |
//! | where it is kept | [`store`], and [`memory`], which is complete |
//! | trying prices out | [`simulate`] |
//! | ids, limits on text, fixed sets of words, what can go wrong | [`id`], [`text`], [`choice`], [`error`] |
//!
//! # Features
//!
//! | feature | what comes with it |
//! |---|---|
//! | `service` (default) | what a service needs beside billing: API keys, idempotent requests, the queue of due customers, questions and events that many send at once |
//! | `custom-sql` (default) | metrics that are defined by a query, and the parser for it; without it such a metric is refused |
//! | `testing` | builders for tests; with the other two, a contract that any store can be held to |
//!
//! With the feature `testing` there are builders for tests and a contract that any store can be held to.
//!
//! # Invariants
//!
//! - **Exact.** No float is on any path. Only an invoice line is rounded, once, half away from zero.
//! - **Whole.** What is given in parts (a charge over several invoices, a discount over lines, tax) adds up to the
//!   rounded whole; an invoice is the sum of its lines.
//! - **Half-open.** A period is `[start, end)` in whole microseconds UTC; periods of a subscription tile its time.
//! - **Deterministic.** The same store, command and instant give the same answer; billing in steps, late, or twice is
//!   billing at once.
//! - **All or nothing.** A workflow that fails leaves no trace in its store.
//! - **Explained.** A line can be computed again from its [`Trace`](invoice::Trace) alone.
//! - **Alone.** A transaction belongs to one organization and reaches no other.

#[macro_use]
pub mod choice;

pub mod access;
pub mod addon;
pub mod address;
pub mod adjustment;
#[cfg(feature = "service")]
pub mod api_key;
pub mod approval;
pub mod audit;
pub mod billing_run;
#[cfg(feature = "service")]
pub mod books_audit;
pub mod catalog;
pub mod charge;
pub mod country;
pub mod credit;
pub mod credit_note;
pub mod currency;
pub mod custom_sql;
pub mod customer;
pub mod decimal;
pub mod error;
pub mod event;
mod faults;
pub mod id;
#[cfg(feature = "service")]
pub mod idempotency;
pub mod invoice;
pub mod job;
pub mod memory;
pub mod message;
mod message_type;
pub mod metric;
pub mod money;
pub mod nearest;
pub mod one_off_line;
pub mod organization;
pub mod payment;
pub mod period;
pub mod plan;
pub mod simulate;
pub mod statement;
pub mod store;
pub mod subscription;
pub mod tax;
pub mod test_clock;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
pub mod tier;
pub mod timezone;
pub mod usage;
pub mod usage_alert;
#[cfg(feature = "service")]
pub mod user;
pub mod webhook;
pub mod workflow;

pub use bigdecimal::BigDecimal;
pub use error::{Error, FieldCode, FieldError, FieldErrors, HeldAmount, Noun, Refusal, StoreError, TaxNeed};

/// The examples of the README are tests too.
#[cfg(all(doctest, feature = "service", feature = "custom-sql"))]
#[doc = include_str!("../README.md")]
struct Readme;
