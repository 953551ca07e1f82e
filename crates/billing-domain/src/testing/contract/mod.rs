//! The contract of a store: what every implementation of the traits in [`crate::store`] must pass.
//!
//! ```
//! use billing_domain::memory::MemoryStore;
//! use billing_domain::testing::contract::{Harness, all};
//! use time::macros::datetime;
//!
//! let store = MemoryStore::at(datetime!(2026-03-31 12:00 UTC));
//! let harness = Harness::of(&store);
//! for (name, case) in all().into_iter().filter(|(name, _)| name.starts_with("transaction::")) {
//!     println!("{name}");
//!     case(&harness);
//! }
//! ```

mod addon;
mod approval;
mod audit;
mod billing_queue;
mod billing_record;
mod books_audit;
mod catalog;
mod credit;
mod credit_note;
mod custom_usage;
mod customer;
mod event;
mod event_correction;
mod idempotency;
mod identity;
mod invoice;
mod job;
mod member;
mod message;
mod one_off_line;
mod organization;
mod overview;
mod payment;
mod plan;
mod subscription;
mod tenancy;
mod test_clock;
mod together;
mod transaction;
mod usage;
mod usage_alert;
mod user;
mod webhook;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};

use time::OffsetDateTime;

use super::build::{self, Ids};
use crate::customer::Customer;
use crate::error::Error;
use crate::id::{CustomerKey, OrganizationId};
use crate::idempotency::IdempotencyStore;
use crate::plan::{Plan, PlanVersion};
use crate::store::{
    AlertQueue, ApiKeyLookup, BillingQueue, BooksAuditQueue, Deliveries, EventIngest, Feeds, JobQueue, Overviews,
    Scope, Store, Transaction, Users,
};

/// A store under test, seen from all its sides.
#[derive(Clone, Copy)]
pub struct Harness<'s> {
    /// Its transactions.
    pub store: &'s (dyn Store + 's),
    /// Its way in for events.
    pub ingest: &'s dyn EventIngest,
    /// Its keys.
    pub keys: &'s dyn ApiKeyLookup,
    /// Its queue of due customers.
    pub queue: &'s dyn BillingQueue,
    /// Its answers to requests that come again.
    pub answers: &'s dyn IdempotencyStore,
    /// Its feeds.
    pub feeds: &'s dyn Feeds,
    /// Its webhook endpoints, as whoever delivers sees them.
    pub deliveries: &'s dyn Deliveries,
    /// Whose figures are held against its usage alerts.
    pub alerts: &'s dyn AlertQueue,
    /// Its jobs, as whoever does them sees them.
    pub jobs: &'s dyn JobQueue,
    /// Its audits of the books, as whoever carries them out sees them.
    pub books_audits: &'s dyn BooksAuditQueue,
    /// How organizations stand.
    pub overviews: &'s dyn Overviews,
    /// The people who sign in.
    pub users: &'s dyn Users,
}

impl<'s> Harness<'s> {
    /// One store, which is all of them.
    pub fn of<S>(store: &'s S) -> Self
    where
        S: Store
            + EventIngest
            + ApiKeyLookup
            + BillingQueue
            + IdempotencyStore
            + Feeds
            + Deliveries
            + AlertQueue
            + JobQueue
            + BooksAuditQueue
            + Overviews
            + Users,
    {
        Self {
            store,
            ingest: store,
            keys: store,
            queue: store,
            answers: store,
            feeds: store,
            deliveries: store,
            alerts: store,
            jobs: store,
            books_audits: store,
            overviews: store,
            users: store,
        }
    }
}

/// One case of the contract. It makes organizations of its own, so cases may share a store.
pub type Case = fn(&Harness<'_>);

macro_rules! cases {
    ($($module:ident { $($case:ident,)* })*) => {
        /// Every case, by name.
        pub fn all() -> Vec<(&'static str, Case)> {
            vec![$($((concat!(stringify!($module), "::", stringify!($case)), $module::$case as Case),)*)*]
        }
    };
}

cases! {
    transaction {
        commits_on_ok,
        leaves_no_trace_on_err,
        leaves_no_trace_of_a_refusal,
        is_alone_with_its_customer,
        works_on_each_as_if_alone,
        sees_what_was_reached,
        is_alone_with_its_catalog,
        gives_whole_microseconds,
        gives_new_ids,
    }
    idempotency {
        keeps_effects_and_answer_together,
        keeps_the_answer_of_a_refusal_alone,
        keeps_nothing_of_an_error,
        takes_a_key_once,
        takes_a_key_once_among_twins,
        keeps_keys_apart_by_organization,
        keeps_the_first_of_two_answers,
        forgets_only_what_is_old,
    }
    organization {
        keeps_every_setting,
        updates_all_but_filter_keys,
        adds_filter_keys_once,
        adds_filter_keys_side_by_side,
        keeps_api_keys,
        notes_which_keys_were_used,
        keeps_access_tokens_apart_from_keys,
        keeps_currencies,
    }
    catalog {
        keeps_metrics,
        keeps_aggregations_and_filters,
        updates_metrics,
        shows_changes_at_once,
        takes_filter_keys_back,
        shows_changes_to_questions_at_once,
        keeps_features,
    }
    plan {
        keeps_plans,
        lists_plans_newest_first,
        keeps_every_part_of_a_version,
        lists_versions,
        updates_versions,
        updates_and_deletes_plans,
        knows_what_is_held,
        counts_active_subscriptions,
        lists_who_holds_a_version,
        judges_subscriptions_by_their_customers_time,
    }
    addon {
        keeps_addons,
        attaches_addons,
    }
    message {
        keeps_messages_in_one_order,
        undoes_messages_with_their_facts,
        lists_messages_of_a_customer,
        keeps_feeds_apart,
        drops_old_messages,
        notes_what_falls_due,
    }
    audit {
        keeps_every_field,
        keeps_what_was_done_alone,
        keeps_changes_beside_messages,
        lists_newest_first,
        filters,
        belongs_to_one_organization,
    }
    member {
        keeps_members,
        ends_sessions_of_members,
        keeps_invitations,
    }
    identity {
        signs_up_and_links,
        takes_links_away,
        gives_roles_by_groups,
        waits_for_whoever_was_sent,
    }
    usage_alert {
        keeps_alerts,
        fires_once,
        marks_whoever_may_have_reached_one,
        marks_whoever_is_to_be_looked_at_again,
    }
    webhook {
        keeps_endpoints,
        keeps_what_waits,
        keeps_endpoints_apart,
        leases_endpoints_to_one_at_a_time,
    }
    together {
        finds_keys,
        takes_events,
        takes_events_from_whoever_has_a_valid_key,
        answers_questions,
        answers_whoever_has_a_valid_key,
        works_for_whoever_has_a_valid_key,
    }
    overview {
        sums_what_was_invoiced,
        counts_who_is_due,
        tells_of_recent_events,
    }
    user {
        keeps_users_and_their_roles,
        changes_roles_and_passwords,
        keeps_time_zones,
        keeps_sessions,
        switches_sessions,
        ends_sessions,
    }
    test_clock {
        keeps_clocks,
        sets_the_time_of_its_customers,
        lists_its_customers,
        lists_the_versions_that_they_hold,
        lists_advancing_clocks,
        lists_who_catches_up,
    }
    customer {
        keeps_every_field,
        lists_in_pages,
        refuses_a_taken_id,
        refuses_a_taken_email,
        never_goes_back_in_time,
        tells_the_times_of_many,
        updates_and_deletes,
        notes_who_is_catching_up,
        finds_by_how_they_begin,
    }
    subscription {
        keeps_every_field,
        lists_by_start,
        lists_what_is_current,
        lists_of_many_customers,
        updates,
        saves_changed_and_new_together,
        hides_what_was_replaced,
        refuses_an_overlap,
        allows_what_does_not_overlap,
        counts_invoicings_of_a_day,
    }
    billing_record {
        keeps_every_field,
        lists_open_records_in_order,
        saves_new_and_changed_together,
        lists_all_of_one_subscription,
        lists_open_records_of_many,
        says_what_is_fully_billed,
    }
    billing_queue {
        leases_what_is_due,
        leaves_those_who_wait_for_tax_alone,
        puts_off_what_fails,
        leaves_out_what_is_not_due,
        leaves_out_test_clocks,
        leases_those_who_catch_up_apart,
        tells_how_far_billing_is_behind,
    }
    one_off_line {
        finds_and_lists_what_is_billed,
    }
    invoice {
        counts_without_gaps,
        keeps_every_line,
        lists_newest_first,
        lists_by_customer_and_status,
        lists_of_many_customers,
        lists_the_newest_of_each_customer,
        sums_what_is_due,
        lists_by_the_days_of_charges,
    }
    payment {
        keeps_every_field,
        moves_what_is_paid,
        refuses_what_was_noted,
        refuses_a_voided_invoice,
        is_noted_once,
    }
    credit_note {
        keeps_every_field,
        lists_by_age,
        takes_no_more_than_a_line,
        settles_its_invoice,
        is_another_tenants,
        numbers_without_a_gap,
    }
    credit {
        keeps_every_entry,
        lists_by_age,
        updates_description_and_expiry,
        is_drawn_once,
    }
    event {
        stores_each_event_once,
        says_how_far_usage_saw,
        knows_an_id_across_months,
        keeps_ids_apart_by_customer,
        accepts_its_window,
        accepts_anything_when_open,
        says_what_is_missing,
        lists_the_newest_first,
        lists_an_id_of_anybody,
        needs_an_organization,
    }
    event_correction {
        moves_every_figure,
        stays_known_and_readable,
        says_that_it_saw_more,
        corrects_all_or_nothing,
        tells_what_was_seen,
    }
    approval {
        keeps_approvals,
    }
    books_audit {
        keeps_audits,
        one_at_a_time,
        drops_what_is_old,
    }
    job {
        keeps_jobs,
        are_one_workers,
        count_what_they_corrected,
    }
    usage {
        counts_and_adds_up,
        respects_edges,
        applies_filters,
        counts_what_came_before_the_metric,
        reads_numbers_as_the_domain_does,
        compares_text_as_the_domain_does,
        answers_in_order,
        agrees_with_the_fold,
    }
    custom_usage {
        runs_queries,
        sees_what_is_dated_before_the_end,
        says_why_there_is_no_result,
        sees_one_customer_of_one_organization,
        is_asked_apart,
    }
    tenancy {
        hides_the_catalog,
        hides_what_customers_own,
        hides_events,
    }
}

/// An organization of one case's own.
struct Tenant<'h> {
    harness: &'h Harness<'h>,
    id: OrganizationId,
    ids: RefCell<Ids>,
}

impl<'h> Tenant<'h> {
    fn new(harness: &'h Harness<'h>) -> Self {
        static SEED: AtomicU32 = AtomicU32::new(1);
        let mut ids = Ids::new(SEED.fetch_add(1, Ordering::Relaxed));
        let id = ids.next();
        let tenant = Self { harness, id, ids: RefCell::new(ids) };
        tenant.catalog(|tx, now| tx.organizations().insert(&build::organization(id, now)));
        tenant
    }

    /// Makes something that needs ids.
    fn build<T>(&self, make: impl FnOnce(&mut Ids) -> T) -> T {
        make(&mut self.ids.borrow_mut())
    }

    fn run<T>(
        &self,
        scope: &Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.harness.store.run_for(scope, work)
    }

    /// Work on the catalogue that must succeed.
    fn catalog<T>(&self, work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>) -> T {
        self.run(&Scope::Catalog(self.id), work).expect("work on the catalogue")
    }

    /// Work on a customer that must succeed.
    fn customer<T>(
        &self,
        key: CustomerKey,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> T {
        self.try_customer(key, work).expect("work on a customer")
    }

    /// Work on a customer.
    fn try_customer<T>(
        &self,
        key: CustomerKey,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.run(&Scope::Customer(self.id, key), work)
    }

    /// A look that must succeed.
    fn look<T>(&self, work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error>) -> T {
        self.run(&Scope::Organization(self.id), work).expect("a look")
    }

    /// A customer that exists, in real time.
    fn new_customer(&self, id: &str) -> Customer {
        let key = build::customer(self.id, id, OffsetDateTime::UNIX_EPOCH).key;
        self.customer(key, |tx, now| {
            let customer = build::customer(self.id, id, now);
            tx.customers().insert(&customer)?;
            Ok(customer)
        })
    }

    /// A plan with one version, kept.
    fn new_plan(&self, name: &str) -> (Plan, PlanVersion) {
        self.catalog(|tx, now| {
            let plan = self.build(|ids| build::plan(ids, name, now));
            let version = self.build(|ids| build::plan_version(ids, &plan, now));
            tx.plans().insert(&plan)?;
            tx.plans().insert_version(&version)?;
            Ok((plan, version))
        })
    }

    /// The present instant.
    fn now(&self) -> OffsetDateTime {
        self.look(|_, now| Ok(now))
    }
}
