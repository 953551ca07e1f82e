//! One customer at work: everything of theirs that billing looks at, read once and changed in one place.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use time::{Duration, OffsetDateTime};

use super::untold::Untold;
use crate::billing_run::LOOK_BACK;
use crate::catalog::{Catalog, Offer};
use crate::charge::BillingRecord;
use crate::credit::CreditLedger;
use crate::customer::Customer;
use crate::error::{Error, Refusal, StoreError, TaxNeed};
use crate::id::{CreditId, CustomerKey, InvoiceId, PlanVersionId, SubscriptionId};
use crate::organization::Organization;
use crate::store::Transaction;
use crate::subscription::{Subscription, SubscriptionStatus};
use crate::tax::{TaxQuote, TaxRate, TaxSources, flat_rate};
use crate::test_clock::TestClockStatus;

/// Longer than it takes to store an event that was accepted.
const CLOSING_GRACE_MIN: Duration = Duration::minutes(5);

/// A customer's open records and the subscriptions behind them, with the catalogue they are priced by.
#[derive(Clone)]
pub(super) struct Account {
    pub organization: Organization,
    pub customer: Customer,
    /// Subscriptions that run, await renewal, have a record here, or ended lately.
    pub subscriptions: BTreeMap<SubscriptionId, Subscription>,
    /// All subscriptions that end after this instant are among them.
    complete_after: OffsetDateTime,
    /// Records with an invoicing instant to come, in order of making.
    pub records: Vec<BillingRecord>,
    /// Records that are billed and may still get late events.
    pub late: Vec<BillingRecord>,
    /// Credits that have something left.
    pub credits: BTreeMap<CreditId, CreditLedger>,
    /// What has been looked up of the catalogue.
    pub catalog: Catalog,
    /// Billing records made since it was loaded.
    pub records_made: usize,
    /// What the organization's own tax provider has said. Of [`Customer::tax_quotes`], failures are dropped that were used.
    tax_quotes: Vec<TaxQuote>,
    /// Whether a line was taxed at the rate of its day.
    pub has_taxed: bool,
    /// Unpaid invoices that were not noted as past due, with the instants at which they fall due.
    /// `None`: that was not looked at.
    pub falling_due: Option<BTreeMap<InvoiceId, OffsetDateTime>>,
    /// What became true and was not told yet.
    pub untold: Untold,
    unsaved: Unsaved,
}

/// What is not yet in the store as it is here: it is written in a few statements, however much of it there is.
#[derive(Clone, Default)]
struct Unsaved {
    /// Subscriptions that the store does not have.
    new: BTreeSet<SubscriptionId>,
    /// Subscriptions that it has otherwise.
    changed: BTreeSet<SubscriptionId>,
    /// Records that it does not have or has otherwise, in order of making.
    records: Vec<BillingRecord>,
}

impl Account {
    /// Reads what there is of `customer` at `now`.
    pub fn load(tx: &mut dyn Transaction, customer: CustomerKey, now: OffsetDateTime) -> Result<Self, Error> {
        let organization = tx.organizations().get()?;
        let records = tx.billing_records().list_open(customer)?;
        let complete_after = now - LOOK_BACK;
        let current = tx.subscriptions().list_current(customer, complete_after)?;
        let mut subscriptions: BTreeMap<_, _> =
            current.into_iter().map(|subscription| (subscription.id, subscription)).collect();
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
        Ok(Self {
            organization,
            tax_quotes: customer.tax_quotes.clone(),
            customer,
            subscriptions,
            complete_after,
            records,
            late,
            credits,
            catalog: Catalog::default(),
            records_made: 0,
            has_taxed: false,
            falling_due: None,
            untold: Untold::default(),
            unsaved: Unsaved::default(),
        })
    }

    /// What the customer holds that ends after `instant` or still awaits renewal. The store is asked only about what is
    /// longer ago than what was read.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn current(&mut self, tx: &mut dyn Transaction, instant: OffsetDateTime) -> Result<Vec<Subscription>, Error> {
        if instant < self.complete_after {
            self.save(tx)?;
            return tx.subscriptions().list_current(self.customer.key, instant);
        }
        Ok(self.subscriptions.values().filter(|subscription| subscription.is_current(instant)).cloned().collect())
    }

    /// The tax rate of an invoice dated `issued_at`; `None`: there is no tax.
    ///
    /// # Errors
    /// [`Error::TaxRate`] when the organization's own provider is to be asked for it first.
    pub fn tax_rate(&self, issued_at: OffsetDateTime) -> Result<Option<TaxRate>, Error> {
        let need = |failure| Error::TaxRate(TaxNeed { customer: self.customer.key, at: issued_at, failure });
        self.tax_sources(&self.tax_quotes).rate(issued_at).map_err(need)
    }

    /// [`Account::tax_rate`] where nobody is asked for it, whatever they may have said before.
    pub fn tax_rate_unasked(&self, issued_at: OffsetDateTime) -> Option<Option<TaxRate>> {
        self.tax_sources(&[]).rate(issued_at).ok()
    }

    /// Forgets that the provider had no answer for `issued_at`, now that something was billed without: whoever bills next asks again.
    /// Here it is still known, for all that this transaction bills of that day.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn drop_tax_failure(&mut self, tx: &mut dyn Transaction, issued_at: OffsetDateTime) -> Result<(), Error> {
        let quotes = &mut self.customer.tax_quotes;
        let before = quotes.len();
        quotes.retain(|quote| !quote.is_failure_at(issued_at));
        if quotes.len() == before { Ok(()) } else { tx.customers().update(&self.customer) }
    }

    fn tax_sources<'s>(&'s self, quotes: &'s [TaxQuote]) -> TaxSources<'s> {
        let (organization, customer) = (&self.organization, &self.customer);
        let mut providers = customer.fields.tax_providers.clone();
        providers
            .extend(organization.tax_providers.iter().filter(|later| !customer.fields.tax_providers.contains(later)));
        TaxSources {
            providers,
            flat_rate: flat_rate(customer.fields.tax_rate.as_ref(), organization.tax_rate.as_ref()),
            hook: organization.tax_hook.as_ref(),
            quotes,
            on_failure: organization.on_tax_failure,
        }
    }

    /// How long after the last event of a time was accepted that time is looked at for the last time: no sooner than an
    /// event that was accepted is stored.
    pub fn closing_grace(&self) -> Duration {
        self.organization.invoice_grace().max(CLOSING_GRACE_MIN)
    }

    /// Refuses while the customer's test clock is on its way, and while what fell due in the past is still being billed:
    /// books are kept in order.
    ///
    /// # Errors
    /// [`Refusal::TestClockAdvancing`], [`Refusal::CatchingUp`].
    pub fn refuse_while_on_the_way(&self, tx: &mut dyn Transaction) -> Result<(), Error> {
        if let Some(clock) = self.customer.test_clock {
            match tx.test_clocks().get(clock)?.status {
                TestClockStatus::Advancing => return Err(Refusal::TestClockAdvancing.into()),
                TestClockStatus::Ready | TestClockStatus::Failed => {}
            }
        }
        if self.customer.catching_up { Err(Refusal::CatchingUp.into()) } else { Ok(()) }
    }

    /// [`Subscription::check_open`] that says which subscription goes on in the place of one that was renewed.
    ///
    /// # Errors
    /// Those of [`Subscription::check_open`]; [`Refusal::AlreadyRenewed`].
    pub fn check_open(&self, subscription: &Subscription, now: OffsetDateTime) -> Result<(), Error> {
        match subscription.check_open(now) {
            Err(Error::Refused(Refusal::AlreadyEnded)) => match self.successor(subscription, now) {
                Some(successor) => Err(Refusal::AlreadyRenewed(successor).into()),
                None => Err(Refusal::AlreadyEnded.into()),
            },
            checked => checked,
        }
    }

    /// Whether the renewal of a subscription is due, but not yet made.
    pub fn is_renewal_due(&self, id: SubscriptionId, now: OffsetDateTime) -> bool {
        let due = self
            .subscriptions
            .get(&id)
            .filter(|subscription| subscription.awaits_renewal() && !subscription.is_addon());
        due.is_some_and(|due| due.status(now) == SubscriptionStatus::Ended)
    }

    /// The subscription that runs at `now` in the place of one that ended, after any renewals and switches. `None` where a
    /// renewal went on with another plan: beside others of the same instant nothing would tell which one it is.
    pub fn successor(&self, ended: &Subscription, now: OffsetDateTime) -> Option<SubscriptionId> {
        let mut last = ended;
        while last.status(now) == SubscriptionStatus::Ended {
            // Of one plan and one set of filters there is but one at a time.
            let renews = |subscription: &&Subscription| {
                subscription.period.start() == last.period.end()
                    && subscription.plan == last.plan
                    && subscription.filters == last.filters
                    && !subscription.is_new
                    && !subscription.is_addon()
            };
            last = match last.replaced_by {
                Some(next) => self.subscriptions.get(&next)?,
                None if last.is_renewed => self.subscriptions.values().find(renews)?,
                None => return None,
            };
        }
        Some(last.id)
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

    /// Has a subscription at work, however long ago it ended.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Store`].
    pub fn load_subscription(&mut self, tx: &mut dyn Transaction, id: SubscriptionId) -> Result<(), Error> {
        if !self.subscriptions.contains_key(&id) {
            let found = tx.subscriptions().get(self.customer.key, id)?;
            self.subscriptions.insert(id, found);
        }
        Ok(())
    }

    /// Takes all records out: those with an invoicing instant to come, and those that wait for late events.
    pub fn take_records(&mut self) -> Vec<BillingRecord> {
        let mut records = std::mem::take(&mut self.records);
        records.append(&mut self.late);
        records
    }

    /// The add-ons that are attached to a subscription and have not ended at `now`.
    pub fn attached(&self, parent: SubscriptionId, now: OffsetDateTime) -> Vec<Subscription> {
        let addons = self.subscriptions.values().filter(|subscription| subscription.parent == Some(parent));
        addons.filter(|addon| addon.status(now) != SubscriptionStatus::Ended).cloned().collect()
    }

    /// Puts a changed record in the place of the one before, so that lines keep their order; one that has nothing
    /// to come is not at work.
    pub fn replace(&mut self, record: BillingRecord) {
        self.late.retain(|other| other.id != record.id);
        if record.awaits_late_usage() {
            self.late.push(record.clone());
        }
        let place = self.records.iter().position(|other| other.id == record.id);
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
        self.add_unsaved(subscription, records);
        self.save(tx)
    }

    /// [`Account::add`] that leaves the store for [`Account::save`].
    pub fn add_unsaved(&mut self, subscription: Subscription, records: Vec<BillingRecord>) {
        self.records_made += records.len();
        self.unsaved.new.insert(subscription.id);
        self.unsaved.records.extend(records.iter().cloned());
        self.records.extend(records);
        self.subscriptions.insert(subscription.id, subscription);
    }

    /// Puts a changed subscription in the place of the one before, and leaves the store for [`Account::save`].
    pub fn change_unsaved(&mut self, subscription: Subscription) {
        self.mark_changed(subscription.id);
        self.subscriptions.insert(subscription.id, subscription);
    }

    /// Has a subscription, as it will be then, written by [`Account::save`].
    pub fn mark_changed(&mut self, id: SubscriptionId) {
        if !self.unsaved.new.contains(&id) {
            self.unsaved.changed.insert(id);
        }
    }

    /// Has a record written by [`Account::save`].
    pub fn write_unsaved(&mut self, record: BillingRecord) {
        match self.unsaved.records.iter_mut().find(|unsaved| unsaved.id == record.id) {
            Some(unsaved) => *unsaved = record,
            None => self.unsaved.records.push(record),
        }
    }

    /// Looks at what falls due, unless that was done.
    pub fn load_falling_due(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        if self.falling_due.is_none() {
            self.falling_due = Some(tx.invoices().list_falling_due(self.customer.key)?.into_iter().collect());
        }
        Ok(())
    }

    /// Writes what is not yet in the store.
    pub fn save(&mut self, tx: &mut dyn Transaction) -> Result<(), Error> {
        let Unsaved { new, changed, records } = std::mem::take(&mut self.unsaved);
        if !(new.is_empty() && changed.is_empty()) {
            let with_ids = |ids: BTreeSet<SubscriptionId>| -> Result<Vec<Subscription>, Error> {
                ids.into_iter().map(|id| self.subscription(id).cloned()).collect()
            };
            tx.subscriptions().save(&with_ids(new)?, &with_ids(changed)?)?;
        }
        if !records.is_empty() {
            tx.billing_records().save(self.customer.key, &records)?;
        }
        Ok(())
    }
}

fn no_subscription(id: SubscriptionId) -> Error {
    StoreError::Internal(format!("the store holds a billing record without its subscription {id}")).into()
}
