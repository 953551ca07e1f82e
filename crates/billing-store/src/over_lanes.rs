//! A transaction about customers of several lanes: the catalogue is its own, and of customers each lane is asked by itself.
//!
//! Each question is a snapshot of its lane. What belongs together of one customer is in one lane; of two lanes nobody sees one
//! instant. Nothing of a customer's is changed here: that is done in a transaction of its lane.

use std::collections::BTreeMap;
use std::sync::Arc;

use bigdecimal::BigDecimal;
use billing_domain::audit::{AuditEntry, AuditFilter, Change};
use billing_domain::charge::BillingRecord;
use billing_domain::credit::CreditLedger;
use billing_domain::credit_note::{CreditNote, NewCreditNote};
use billing_domain::custom_sql::{CustomFailure, CustomUsageRequest};
use billing_domain::customer::Customer;
use billing_domain::event::{EventCorrection, KeptEvent};
use billing_domain::id::{
    CreditId, CreditNoteId, CustomerKey, InvoiceId, MessageId, OrganizationId, PlanId, PlanVersionId, SubscriptionId,
    TestClockId, UsageAlertId,
};
use billing_domain::invoice::{Invoice, InvoiceSummary, NewInvoice, PaymentStatus};
use billing_domain::message::Message;
use billing_domain::payment::Payment;
use billing_domain::plan::{Plan, PlanVersion};
use billing_domain::store::{
    AddonRepo, ApiKeyRepo, AuditRepo, BillingRecordRepo, CreditNoteFilter, CreditRepo, CurrencyRepo, CustomerRepo,
    EventFilter, EventRepo, FeatureRepo, FeedPage, FeedRequest, HeldVersion, InvoiceFilter, InvoiceRepo, MemberRepo,
    MessageRepo, MetricRepo, OrganizationRepo, Page, PageRequest, PlanRepo, Renderer, SubscriptionRepo, TestClockRepo,
    Transaction, UsageAlertRepo, WebhookRepo,
};
use billing_domain::subscription::Subscription;
use billing_domain::test_clock::TestClock;
use billing_domain::usage::{SeenUsage, UsageRequest};
use billing_domain::usage_alert::{Firing, UsageAlert};
use billing_domain::{Error, Noun, StoreError};
use time::{Date, OffsetDateTime};
use uuid::Uuid;

use crate::cached::CachedTransaction;
use crate::custom_sql::{Attempts, Budget};
use crate::lanes::Lane;
use crate::pg::deadline;
use crate::pg::error::Failure;
use crate::repo::audit;
use crate::repo::credit_note::cursor_of;
use crate::repo::customer::{list_key_of, page_of};
use crate::repo::invoice::Cursor;
use crate::repo::message::{Entry, placed};
use crate::shared::Shared;
use crate::transaction::{PgTransaction, hand_on, repositories};

/// A transaction of the catalogue that asks all lanes about customers.
pub(crate) struct OverLanes<'t, 'c> {
    inner: CachedTransaction<'t, 'c>,
    /// What is left for custom metrics, whichever lane they are about.
    custom_budget: Option<Budget>,
}

/// Methods that change what a customer owns.
macro_rules! refuse {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            fn $name(&mut self, $($argument: $type),*) -> Result<$result, Error> {
                $(let _ = $argument;)*
                Err(StoreError::Internal(concat!(stringify!($name), " of a customer outside of its lane").to_owned()).into())
            }
        )*
    };
}

/// Methods about one customer, which its lane answers.
macro_rules! in_its_lane {
    ($repository:ident => $(fn $name:ident($customer:ident: CustomerKey $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        $(
            fn $name(&mut self, $customer: CustomerKey $(, $argument: $type)*) -> Result<$result, Error> {
                self.of($customer, |tx| tx.$repository().$name($customer $(, $argument)*))
            }
        )*
    };
}

impl<'t, 'c> OverLanes<'t, 'c> {
    /// Of a transaction of the catalogue.
    pub(crate) fn new(inner: CachedTransaction<'t, 'c>) -> Self {
        let custom_budget = inner.inner.custom_budget();
        Self { inner, custom_budget }
    }

    fn shared(&self) -> &'c Shared {
        self.inner.inner.shared
    }

    /// Asks one lane, in a snapshot of it.
    fn ask<T>(
        &mut self,
        lane: &Lane,
        mut work: impl FnMut(&mut PgTransaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (shared, organization) = (self.shared(), self.inner.inner.organization);
        let (mut left, mut has_run_custom) = (self.custom_budget, false);
        let attempts = Attempts::default();
        let asked = lane.pool.read_together(|pg| {
            attempts.expect_another()?;
            deadline::check()?;
            let tx = PgTransaction::new(pg, shared, organization, Some(lane));
            let mut tx = tx.with_custom_budget(self.custom_budget);
            let result = work(&mut tx);
            left = tx.custom_budget();
            has_run_custom |= tx.has_run_custom();
            attempts.note(tx.has_run_custom(), tx.verdict(result))
        });
        self.custom_budget = left;
        if has_run_custom {
            self.inner.inner.note_custom();
        }
        asked.map_err(Failure::into_error)
    }

    /// Asks the lane of a customer.
    fn of<T>(
        &mut self,
        customer: CustomerKey,
        work: impl FnMut(&mut PgTransaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.ask(self.shared().lanes.of(customer), work)
    }

    /// Asks every lane, by number.
    fn each<T>(&mut self, mut work: impl FnMut(&mut PgTransaction<'_>) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        self.shared().lanes.all().iter().map(|lane| self.ask(lane, &mut work)).collect()
    }

    /// Asks one lane after the other until one has it.
    fn find<T>(
        &mut self,
        noun: Noun,
        mut work: impl FnMut(&mut PgTransaction<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        for lane in self.shared().lanes.all() {
            match self.ask(lane, &mut work) {
                Err(Error::NotFound(_)) => {}
                found => return found,
            }
        }
        Err(Error::NotFound(noun))
    }

    /// Asks the lanes of some customers, each about its own.
    fn of_each<T>(
        &mut self,
        customers: &[CustomerKey],
        mut work: impl FnMut(&mut PgTransaction<'_>, &[CustomerKey]) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let apart = self.shared().lanes.apart(customers.iter().copied(), |customer| *customer);
        let ask = |(lane, placed): (&Lane, Vec<(usize, CustomerKey)>)| {
            let customers: Vec<CustomerKey> = placed.into_iter().map(|(_, customer)| customer).collect();
            self.ask(lane, |tx| work(tx, &customers))
        };
        apart.into_iter().map(ask).collect()
    }

    /// Asks the lanes of what some requests are about, each about its own; the answers are in the order of the requests.
    fn of_requests<R: Clone, T>(
        &mut self,
        requests: &[R],
        customer: impl Fn(&R) -> CustomerKey,
        mut work: impl FnMut(&mut PgTransaction<'_>, &[R]) -> Result<Vec<T>, Error>,
    ) -> Result<Vec<T>, Error> {
        let apart = self.shared().lanes.apart(requests.iter().cloned(), customer);
        let mut answers = Vec::with_capacity(requests.len());
        for (lane, placed) in apart {
            let (places, requests): (Vec<usize>, Vec<R>) = placed.into_iter().unzip();
            answers.extend(places.into_iter().zip(self.ask(lane, |tx| work(tx, &requests))?));
        }
        answers.sort_unstable_by_key(|(place, _)| *place);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }
}

impl Transaction for OverLanes<'_, '_> {
    fn organization(&self) -> OrganizationId {
        self.inner.organization()
    }

    fn new_uuid(&mut self) -> Uuid {
        self.inner.new_uuid()
    }

    repositories! { self =>
        plans: PlanRepo,
        test_clocks: TestClockRepo,
        customers: CustomerRepo,
        subscriptions: SubscriptionRepo,
        billing_records: BillingRecordRepo,
        invoices: InvoiceRepo,
        credits: CreditRepo,
        events: EventRepo,
        messages: MessageRepo,
        usage_alerts: UsageAlertRepo,
        audit_log: AuditRepo,
    }

    repositories! { inner =>
        organizations: OrganizationRepo,
        api_keys: ApiKeyRepo,
        currencies: CurrencyRepo,
        metrics: MetricRepo,
        features: FeatureRepo,
        addons: AddonRepo,
        webhooks: WebhookRepo,
        members: MemberRepo,
    }
}

impl OverLanes<'_, '_> {
    /// The messages at these places, each from its lane; those of the organization's own are with the catalogue.
    fn load_messages(&mut self, entries: &[Entry]) -> Result<Vec<Message>, Error> {
        let mut found = self.inner.inner.load_own_messages(entries)?;
        let of_customers = entries.iter().filter_map(|(position, key, id)| Some((*position, (*key)?, *id)));
        let apart = self.shared().lanes.apart(of_customers, |(_, key, _)| CustomerKey::from(*key));
        for (lane, placed) in apart {
            let entries: Vec<Entry> =
                placed.into_iter().map(|(_, (position, key, id))| (position, Some(key), id)).collect();
            found.extend(self.ask(lane, |tx| tx.load_messages(&entries))?);
        }
        Ok(found)
    }
}

impl MessageRepo for OverLanes<'_, '_> {
    fn renderer(&self) -> Arc<dyn Renderer> {
        self.inner.inner.renderer()
    }

    fn new_id(&mut self) -> MessageId {
        self.inner.inner.messages().new_id()
    }

    /// Of a fact of the organization's own.
    fn insert(&mut self, message: Message) -> Result<(), Error> {
        MessageRepo::insert(self.inner.inner, message)
    }

    fn get(&mut self, id: MessageId) -> Result<Message, Error> {
        let entries = self.inner.inner.find_entries(&[id])?;
        self.load_messages(&entries)?.pop().ok_or(Error::NotFound(Noun::Message))
    }

    fn list(&mut self, wanted: &FeedRequest) -> Result<FeedPage, Error> {
        let entries = self.inner.inner.list_entries(wanted)?;
        let messages = self.load_messages(&entries.entries)?;
        entries.page(messages)
    }

    fn list_by_id(&mut self, ids: &[MessageId]) -> Result<Vec<(u64, Message)>, Error> {
        let entries = self.inner.inner.find_entries(ids)?;
        let messages = self.load_messages(&entries)?;
        placed(entries, messages)
    }
}

impl AuditRepo for OverLanes<'_, '_> {
    /// Of something of the organization's own.
    fn insert(&mut self, change: Change) -> Result<(), Error> {
        AuditRepo::insert(self.inner.inner, change)
    }

    fn list(&mut self, filter: &AuditFilter, page: &PageRequest) -> Result<Page<AuditEntry>, Error> {
        let after = page.after.as_deref().map(audit::Cursor::parse).transpose()?;
        let mut found = match filter.customer {
            Some(customer) => self.of(customer, |tx| tx.list_changes(false, filter, after, page.limit))?,
            None => {
                // The organization's own are seen from every lane: one of them tells.
                let first = self.shared().lanes.all().first().map(|lane| lane.number);
                let of_lane = |tx: &mut PgTransaction<'_>| {
                    let own = tx.lane.map(|lane| lane.number) == first;
                    tx.list_changes(own, filter, after, page.limit)
                };
                self.each(of_lane)?.concat()
            }
        };
        found.sort_by_key(|entry| std::cmp::Reverse(audit::Cursor::of(entry)));
        Ok(audit::audit_page(found, page.limit))
    }
}

impl PlanRepo for OverLanes<'_, '_> {
    fn is_held(&mut self, plan: PlanId, version: Option<PlanVersionId>, now: OffsetDateTime) -> Result<bool, Error> {
        Ok(self.each(|tx| tx.plans().is_held(plan, version, now))?.contains(&true))
    }

    fn active_subscriptions(&mut self, now: OffsetDateTime) -> Result<BTreeMap<PlanVersionId, u64>, Error> {
        let mut active = BTreeMap::new();
        for (version, count) in self.each(|tx| tx.plans().active_subscriptions(now))?.into_iter().flatten() {
            *active.entry(version).or_default() += count;
        }
        Ok(active)
    }

    hand_on! { plans =>
        fn insert(plan: &Plan) -> ();
        fn get(id: PlanId) -> Plan;
        fn get_even_deleted(id: PlanId) -> Plan;
        fn update(plan: &Plan) -> ();
        fn list() -> Vec<Plan>;
        fn insert_version(version: &PlanVersion) -> ();
        fn get_version(id: PlanVersionId) -> PlanVersion;
        fn list_versions(plan: Option<PlanId>) -> Vec<PlanVersion>;
        fn update_version(version: &PlanVersion) -> ();
    }
}

impl TestClockRepo for OverLanes<'_, '_> {
    fn list_customers(&mut self, id: TestClockId) -> Result<Vec<CustomerKey>, Error> {
        // Lanes are ranges of keys, so they are in order.
        Ok(self.each(|tx| tx.test_clocks().list_customers(id))?.concat())
    }

    fn list_versions(&mut self, id: TestClockId, instant: OffsetDateTime) -> Result<Vec<HeldVersion>, Error> {
        let mut held: BTreeMap<PlanVersionId, HeldVersion> = BTreeMap::new();
        for version in self.each(|tx| tx.test_clocks().list_versions(id, instant))?.into_iter().flatten() {
            let known = held.entry(version.version).or_insert(version);
            known.renews |= version.renews;
            known.ends_at = known.ends_at.max(version.ends_at);
        }
        Ok(held.into_values().collect())
    }

    hand_on! { test_clocks =>
        fn insert(clock: &TestClock) -> ();
        fn get(id: TestClockId) -> TestClock;
        fn list() -> Vec<TestClock>;
        fn update(clock: &TestClock) -> ();
    }
}

impl CustomerRepo for OverLanes<'_, '_> {
    fn list(&mut self, page: &PageRequest) -> Result<Page<Customer>, Error> {
        let after = page.after.as_deref().map(list_key_of).transpose()?;
        let mut found = self.each(|tx| tx.list_customers(after, page.limit))?.concat();
        found.sort_unstable_by_key(|(key, _)| *key);
        let found = found.into_iter().map(|(key, customer)| (key.simple().to_string(), customer));
        Ok(page_of(found.collect(), page.limit))
    }

    hand_on! { customers =>
        fn find_by_email(email: &str) -> Option<CustomerKey>;
    }

    fn nows(&mut self, keys: &[CustomerKey]) -> Result<Vec<OffsetDateTime>, Error> {
        self.of_requests(keys, |key| *key, |tx, keys| tx.customers().nows(keys))
    }

    in_its_lane! { customers =>
        fn get(key: CustomerKey) -> Customer;
        fn get_even_deleted(key: CustomerKey) -> Customer;
        fn now(key: CustomerKey) -> OffsetDateTime;
    }

    refuse! {
        fn insert(customer: &Customer) -> ();
        fn update(customer: &Customer) -> ();
        fn advance_instant(key: CustomerKey, instant: OffsetDateTime) -> ();
        fn set_billing_due(key: CustomerKey, due_at: Option<OffsetDateTime>) -> ();
        fn set_catching_up(key: CustomerKey, catching_up: bool) -> ();
        fn park_billing(key: CustomerKey, failures: u32, reason: &str) -> bool;
        fn advance_instant_and_queue(key: CustomerKey, instant: OffsetDateTime, due_at: Option<OffsetDateTime>) -> ();
    }
}

impl SubscriptionRepo for OverLanes<'_, '_> {
    fn customer_of(&mut self, id: SubscriptionId) -> Result<CustomerKey, Error> {
        self.find(Noun::Subscription, |tx| tx.subscriptions().customer_of(id))
    }

    fn list_with_billing(&mut self, customers: &[CustomerKey]) -> Result<Vec<(Subscription, bool)>, Error> {
        let mut all = self.of_each(customers, |tx, some| tx.subscriptions().list_with_billing(some))?.concat();
        all.sort_by_key(|(subscription, _)| (subscription.period.start(), subscription.id));
        Ok(all)
    }

    in_its_lane! { subscriptions =>
        fn get(customer: CustomerKey, id: SubscriptionId) -> Subscription;
        fn list(customer: CustomerKey) -> Vec<Subscription>;
        fn list_current(customer: CustomerKey, instant: OffsetDateTime) -> Vec<Subscription>;
    }

    refuse! {
        fn insert(subscription: &Subscription) -> ();
        fn update(subscription: &Subscription) -> ();
        fn save(new: &[Subscription], changed: &[Subscription]) -> ();
        fn count_invoicing(customer: CustomerKey, subscriptions: &[SubscriptionId], day: Date) -> Vec<u32>;
    }
}

impl BillingRecordRepo for OverLanes<'_, '_> {
    fn list_open_of(&mut self, customers: &[CustomerKey]) -> Result<Vec<BillingRecord>, Error> {
        Ok(self.of_each(customers, |tx, some| tx.billing_records().list_open_of(some))?.concat())
    }

    in_its_lane! { billing_records =>
        fn list_open(customer: CustomerKey) -> Vec<BillingRecord>;
        fn list(customer: CustomerKey, subscription: SubscriptionId) -> Vec<BillingRecord>;
    }

    refuse! {
        fn insert(customer: CustomerKey, records: &[BillingRecord]) -> ();
        fn update(customer: CustomerKey, record: &BillingRecord) -> ();
        fn save(customer: CustomerKey, records: &[BillingRecord]) -> ();
    }
}

impl InvoiceRepo for OverLanes<'_, '_> {
    fn list_by_id(&mut self, ids: &[(CustomerKey, InvoiceId)]) -> Result<Vec<Invoice>, Error> {
        let apart = self.shared().lanes.apart(ids.iter().copied(), |(customer, _)| *customer);
        let mut found = Vec::with_capacity(ids.len());
        for (lane, placed) in apart {
            let ids: Vec<_> = placed.into_iter().map(|(_, id)| id).collect();
            found.extend(self.ask(lane, |tx| tx.invoices().list_by_id(&ids))?);
        }
        Ok(found)
    }

    in_its_lane! { invoices =>
        fn list_falling_due(customer: CustomerKey) -> Vec<(InvoiceId, OffsetDateTime)>;
    }

    fn get(&mut self, id: InvoiceId) -> Result<Invoice, Error> {
        self.find(Noun::Invoice, |tx| tx.invoices().get(id))
    }

    fn list_of(
        &mut self,
        customers: &[CustomerKey],
        statuses: &[PaymentStatus],
        each: u32,
    ) -> Result<Vec<InvoiceSummary>, Error> {
        let mut all = self.of_each(customers, |tx, some| tx.invoices().list_of(some, statuses, each))?.concat();
        all.sort_by_key(|invoice| std::cmp::Reverse((invoice.issued_at, invoice.id)));
        Ok(all)
    }

    fn due_of(
        &mut self,
        customers: &[CustomerKey],
    ) -> Result<BTreeMap<CustomerKey, BTreeMap<String, BigDecimal>>, Error> {
        Ok(self.of_each(customers, |tx, some| tx.invoices().due_of(some))?.into_iter().flatten().collect())
    }

    fn list(&mut self, filter: &InvoiceFilter, page: &PageRequest) -> Result<Page<Invoice>, Error> {
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let mut found = match filter.customer {
            Some(customer) => self.of(customer, |tx| tx.list_invoices(filter, after, page.limit))?,
            None => self.each(|tx| tx.list_invoices(filter, after, page.limit))?.concat(),
        };
        found.sort_by_key(|invoice| std::cmp::Reverse(Cursor::of(invoice)));
        let found = found.into_iter().map(|invoice| (Cursor::of(&invoice).to_text(), invoice));
        Ok(page_of(found.collect(), page.limit))
    }

    fn get_credit_note(&mut self, id: CreditNoteId) -> Result<CreditNote, Error> {
        self.find(Noun::CreditNote, |tx| tx.invoices().get_credit_note(id))
    }

    fn list_credit_notes(&mut self, filter: &CreditNoteFilter, page: &PageRequest) -> Result<Page<CreditNote>, Error> {
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let mut found = match filter.customer {
            Some(customer) => self.of(customer, |tx| tx.load_credit_notes(filter, after, page.limit))?,
            None => self.each(|tx| tx.load_credit_notes(filter, after, page.limit))?.concat(),
        };
        found.sort_by_key(|note| std::cmp::Reverse(cursor_of(note)));
        let found = found.into_iter().map(|note| (cursor_of(&note).to_text(), note));
        Ok(page_of(found.collect(), page.limit))
    }

    hand_on! { invoices => fn find_by_number(number: &str) -> Option<InvoiceId>; }

    in_its_lane! { invoices => fn list_payments(customer: CustomerKey, invoice: Option<InvoiceId>) -> Vec<Payment>; }

    refuse! {
        fn note_past_due(customer: CustomerKey, id: InvoiceId, at: OffsetDateTime) -> ();
        fn issue(invoice: NewInvoice) -> ();
        fn update(invoice: &Invoice) -> ();
        fn add_payment(customer: CustomerKey, payment: &Payment) -> ();
        fn add_credit_note(note: NewCreditNote) -> CreditNote;
        fn void_credit_note(customer: CustomerKey, id: CreditNoteId, at: OffsetDateTime) -> ();
    }
}

impl CreditRepo for OverLanes<'_, '_> {
    fn customer_of(&mut self, id: CreditId) -> Result<CustomerKey, Error> {
        self.find(Noun::Credit, |tx| tx.credits().customer_of(id))
    }

    in_its_lane! { credits =>
        fn get(customer: CustomerKey, id: CreditId) -> CreditLedger;
        fn list(customer: CustomerKey) -> Vec<CreditLedger>;
        fn list_open(customer: CustomerKey) -> Vec<CreditLedger>;
    }

    refuse! {
        fn insert(customer: CustomerKey, ledger: &CreditLedger) -> ();
        fn update(customer: CustomerKey, ledger: &CreditLedger) -> ();
    }
}

impl EventRepo for OverLanes<'_, '_> {
    fn seen_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error> {
        self.of_requests(requests, |request| request.customer, |tx, some| tx.events().seen_usages(some))
    }

    fn warm_up(&mut self, requests: &[UsageRequest]) -> Result<(), Error> {
        let warm_up = |tx: &mut PgTransaction<'_>, some: &[UsageRequest]| {
            tx.events().warm_up(some)?;
            Ok(vec![(); some.len()])
        };
        self.of_requests(requests, |request| request.customer, warm_up).map(drop)
    }

    fn seen_custom_usages(
        &mut self,
        requests: &[CustomUsageRequest],
    ) -> Result<Vec<Result<SeenUsage, CustomFailure>>, Error> {
        self.of_requests(requests, |request| request.customer, |tx, some| tx.events().seen_custom_usages(some))
    }

    fn list(&mut self, filter: &EventFilter, page: &PageRequest) -> Result<Page<KeptEvent>, Error> {
        self.of(filter.customer, |tx| tx.events().list(filter, page))
    }

    in_its_lane! { events =>
        fn find(customer: CustomerKey, ids: &[String]) -> Vec<KeptEvent>;
        fn list_corrections(customer: CustomerKey, idempotency_id: &str) -> Vec<EventCorrection>;
    }

    refuse! {
        fn correct(customer: CustomerKey, corrections: &[EventCorrection]) -> ();
    }

    fn missing(
        &mut self,
        customer: Option<CustomerKey>,
        ids: &[String],
        since: OffsetDateTime,
    ) -> Result<Vec<String>, Error> {
        if let Some(owner) = customer {
            return self.of(owner, |tx| tx.events().missing(customer, ids, since));
        }
        let mut missing = ids.to_vec();
        for lane in self.shared().lanes.all() {
            missing = self.ask(lane, |tx| tx.events().missing(None, &missing, since))?;
        }
        Ok(missing)
    }
}

impl UsageAlertRepo for OverLanes<'_, '_> {
    hand_on! { usage_alerts =>
        fn insert(alert: &UsageAlert) -> ();
        fn get(id: UsageAlertId) -> UsageAlert;
        fn list() -> Vec<UsageAlert>;
        fn delete(id: UsageAlertId) -> ();
    }

    refuse! {
        fn has_fired(firing: &Firing) -> bool;
        fn insert_firing(firing: &Firing, at: OffsetDateTime) -> ();
        fn mark(customer: CustomerKey) -> ();
    }
}
