//! The billing run: bills the customers that are due, whoever starts it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::panic::resume_unwind;
use std::thread;

use anyhow::{Context, bail};
use billing_domain::billing_run::{AfterFailure, after_failure};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{Leased, Parked, Scope, Store};
use billing_domain::workflow::{Progress, WORKER_WORK_MAX, bill_customer_partly, park_billing};
use billing_domain::{Error, TaxNeed};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::backend::Backend;
use crate::taxes::{Job, Taxes, Undone};

/// How long a leased customer is nobody else's.
const LEASE: Duration = Duration::minutes(5);
/// How long a customer is left alone at most who needs a tax rate, while enough of their organization waits for some: by then they may
/// need none any more.
const TAX_WAIT_MAX: Duration = Duration::hours(1);
/// Customers leased at once.
const LEASED_MAX: u32 = 20;
/// Parked customers that a run names at its end.
const PARKED_SHOWN_MAX: u32 = 100;
/// Threads that bill in one process: while one waits for its commit, another works.
pub const THREADS: usize = 4;

/// What a run has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BillingRun {
    /// Customers whose billing is up to date.
    pub billed: u64,
    /// Customers whose billing failed.
    pub failed: u64,
    /// Customers who wait for a tax rate that nobody was asked for, because their organization's provider is busy or rests.
    pub unasked: u64,
}

/// What a run does about customers whose tax rates only an organization's own provider knows.
#[derive(Clone, Copy)]
pub enum Asking<'t> {
    /// Nothing: their billing fails.
    Nobody,
    /// It asks, and waits for the answer.
    Now(&'t Taxes),
    /// It leaves them to whoever asks, and goes on with others.
    Later(&'t Taxes),
}

impl Asking<'_> {
    /// Of whom enough waits to be asked for: nobody more of theirs who needs a rate could be billed now.
    fn full(self) -> Vec<OrganizationId> {
        match self {
            Self::Later(taxes) => taxes.full(),
            Self::Nobody | Self::Now(_) => Vec::new(),
        }
    }
}

impl BillingRun {
    /// Bills a few of the customers that are due, by `until` when it is given; whether there may be more.
    ///
    /// # Errors
    /// When no customers could be leased. What goes wrong with one customer is noted with it, and the others go on.
    pub fn take_some(
        &mut self,
        backend: &dyn Backend,
        asking: Asking<'_>,
        until: Option<OffsetDateTime>,
    ) -> Result<bool, Error> {
        let due = backend.lease_due(LEASED_MAX, LEASE, until, &asking.full())?;
        let mut by_organization: BTreeMap<OrganizationId, Vec<Leased>> = BTreeMap::new();
        for one in &due {
            by_organization.entry(one.organization).or_default().push(*one);
        }
        for (organization, some) in by_organization {
            self.bill(backend, asking, (organization, &some), until);
        }
        // One transaction of each, and not in a batch: it would be left out there, for what it is about is long ago.
        let catching_up = backend.lease_catching_up(LEASED_MAX, LEASE, until, &asking.full())?;
        for one in &catching_up {
            self.bill(backend, asking, (one.organization, &[*one]), until);
        }
        Ok(!(due.is_empty() && catching_up.is_empty()))
    }

    /// Bills these customers, each as far as one transaction goes; what is left of a customer comes up again.
    fn bill(
        &mut self,
        backend: &dyn Backend,
        asking: Asking<'_>,
        (organization, some): (OrganizationId, &[Leased]),
        until: Option<OffsetDateTime>,
    ) {
        let customers: Vec<CustomerKey> = some.iter().map(|one| one.customer).collect();
        let mut on_the_way = BTreeSet::new();
        let results = backend.run_each(organization, &customers, &mut |tx, customer, now| {
            let until = until.map_or(now, |until| until.min(now));
            // Tried again, a customer may arrive who did not before.
            match bill_customer_partly(tx, customer, until, WORKER_WORK_MAX)? {
                Progress::Arrived => on_the_way.remove(&customer),
                Progress::OnTheWay => on_the_way.insert(customer),
            };
            Ok(())
        });
        let mut without_room = Vec::new();
        for (one, result) in some.iter().zip(results) {
            match (result, asking) {
                (Err(Error::TaxRate(_)), Asking::Later(taxes)) => {
                    without_room.extend((!taxes.later(Job::Bill(*one))).then_some(*one));
                }
                (Err(Error::TaxRate(_)), Asking::Now(taxes)) => {
                    // Not asked is not failed: it comes up again when its lease is over, and nobody comes back to it within this run.
                    self.count(bill_leased(backend, taxes, one, until).unwrap_or(Outcome::Unasked));
                }
                (result, _) => self.count(settle(backend, one, result.map(|()| on_the_way.contains(&one.customer)))),
            }
        }
        if !without_room.is_empty()
            && let Err(error) = backend.wait_for_tax(&without_room, TAX_WAIT_MAX)
        {
            // Their leases run out, and they come up again.
            log::error!(organization:%, error:%; "that customers wait for tax rates could not be noted");
        }
    }

    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Arrived => self.billed += 1,
            Outcome::OnTheWay => {}
            Outcome::Failed => self.failed += 1,
            Outcome::Unasked => self.unasked += 1,
        }
    }
}

/// What came of the billing of one customer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that was due is done.
    Arrived,
    /// There is more: it comes up again.
    OnTheWay,
    /// It did not work, which is noted.
    Failed,
    /// It waits for a tax rate that nobody was asked for.
    Unasked,
}

/// Bills a leased customer in a transaction of its own, asking for the tax rates that it needs.
///
/// # Errors
/// What was not asked for, and nothing done: it is to be tried again.
pub fn bill_leased(
    backend: &dyn Backend,
    taxes: &Taxes,
    one: &Leased,
    until: Option<OffsetDateTime>,
) -> Result<Outcome, TaxNeed> {
    let store: &dyn Store = backend;
    let scope = Scope::Customer(one.organization, one.customer);
    let billed = taxes.asking(store, one.organization, || {
        store.run_for(&scope, |tx, now| {
            let until = until.map_or(now, |until| until.min(now));
            bill_customer_partly(tx, one.customer, until, WORKER_WORK_MAX)
        })
    });
    let billed = match billed {
        Ok(progress) => Ok(progress == Progress::OnTheWay),
        Err(Undone::Failed(error)) => Err(error),
        Err(Undone::NotAsked(need)) => return Err(need),
    };
    Ok(settle(backend, one, billed))
}

/// Notes why a customer could not be billed, when it could not; otherwise whether there is more to do.
fn settle(backend: &dyn Backend, one: &Leased, billed: Result<bool, Error>) -> Outcome {
    match billed {
        Ok(true) => Outcome::OnTheWay,
        Ok(false) => {
            log::info!(organization:% = one.organization, customer_key:% = one.customer.uuid(); "customer billed");
            Outcome::Arrived
        }
        Err(error) => {
            put_off(backend, one, &error);
            Outcome::Failed
        }
    }
}

fn put_off(backend: &dyn Backend, one: &Leased, error: &Error) {
    let (organization, customer, failures) = (one.organization, one.customer.uuid(), one.failures + 1);
    let noted = match after_failure(error, one.failures) {
        AfterFailure::NotCounted => {
            log::warn!(organization:%, customer_key:% = customer, error:%; "billing interrupted");
            return;
        }
        AfterFailure::TryAgain(wait) => {
            log::error!(
                organization:%, customer_key:% = customer, failures, retry_in:% = wait, error:%;
                "billing failed"
            );
            backend.put_off(one, &error.to_string(), wait)
        }
        AfterFailure::Park => {
            log::error!(organization:%, customer_key:% = customer, failures, error:%; "billing parked");
            let (store, reason): (&dyn Store, String) = (backend, error.to_string());
            let scope = Scope::Customer(organization, one.customer);
            let told = store.run_for(&scope, |tx, now| park_billing(tx, one, &reason, now));
            told.or_else(|error| park_untold(store, one, &reason, &error))
        }
    };
    if let Err(error) = noted {
        // The lease runs out and the customer comes up again.
        log::error!(organization:%, customer_key:% = customer, error:%; "a billing failure could not be noted");
    }
}

/// Parks the billing of a customer of whom nothing can be told, for instance because their rows cannot be read: that must not
/// keep them in the queue for ever. What another attempt may mend is left to it.
fn park_untold(store: &dyn Store, one: &Leased, reason: &str, untold: &Error) -> Result<(), Error> {
    if after_failure(untold, one.failures) == AfterFailure::NotCounted {
        return Err(untold.clone());
    }
    log::error!(
        organization:% = one.organization, customer_key:% = one.customer.uuid(), error:% = untold;
        "billing parked, but nobody could be told"
    );
    let scope = Scope::Customer(one.organization, one.customer);
    store.run_for(&scope, |tx, _| tx.customers().park_billing(one.customer, one.failures, reason).map(drop))
}

/// Bills everybody who is due by `until`, otherwise by now, and says on standard error how far it is.
///
/// # Errors
/// When the store fails, when a customer's billing failed, or when customers are parked.
pub fn run_to_the_end(
    backend: &dyn Backend,
    asking: Asking<'_>,
    until: Option<OffsetDateTime>,
) -> anyhow::Result<BillingRun> {
    let done = run_all(backend, asking, until)?;
    done.is_all_right().map(|()| done.run)
}

/// What a run has done, and who is left alone after it.
#[derive(Debug)]
pub struct Done {
    /// What it has done.
    pub run: BillingRun,
    /// How many customers are parked.
    pub parked: u64,
    /// The first of them.
    pub parked_shown: Vec<Parked>,
}

impl Done {
    /// Whether nobody's billing failed, nobody waits for a tax rate, and nobody is parked.
    ///
    /// # Errors
    /// That it is not so, with the reasons.
    pub fn is_all_right(&self) -> anyhow::Result<()> {
        let Self { run, parked, parked_shown } = self;
        if run.failed > 0 || run.unasked > 0 || *parked > 0 {
            let reasons = reasons(parked_shown)?;
            let waiting = match run.unasked {
                0 => String::new(),
                some => format!(", {some} wait for a tax provider that was not asked (run it again)"),
            };
            bail!(
                "{} customers billed, {} failed, {parked} parked{waiting}; the log says more{reasons}",
                run.billed,
                run.failed
            );
        }
        Ok(())
    }

    /// All of it as JSON.
    ///
    /// # Errors
    /// None but those of the formatter of times.
    pub fn json(&self) -> anyhow::Result<Value> {
        let mut parked = Vec::new();
        for Parked { organization, customer, due_at, failures, reason } in &self.parked_shown {
            parked.push(json!({
                "organization_id": organization.to_string(), "customer_id": customer.as_str(),
                "due_at": due_at.format(&Rfc3339)?, "failures": failures, "reason": reason,
            }));
        }
        Ok(
            json!({"billed": self.run.billed, "failed": self.run.failed, "waiting_for_tax": self.run.unasked, "parked": self.parked, "parked_customers": parked}),
        )
    }
}

/// [`run_to_the_end`], whatever became of each customer.
///
/// # Errors
/// When the store fails.
pub fn run_all(backend: &dyn Backend, asking: Asking<'_>, until: Option<OffsetDateTime>) -> anyhow::Result<Done> {
    let progress = progress_bar(backend.backlog()?.customers);
    let work = || {
        let mut run = BillingRun::default();
        let mut before = 0;
        while run.take_some(backend, asking, until)? {
            let done = run.billed + run.failed + run.unasked;
            progress.inc(done - before);
            before = done;
        }
        Ok::<_, Error>(run)
    };
    let runs: Result<Vec<BillingRun>, Error> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    progress.finish_and_clear();
    let runs = runs.context("what was billed up to here is kept; run it again to go on")?;
    let sum = |of: fn(&BillingRun) -> u64| runs.iter().map(of).sum();
    let run =
        BillingRun { billed: sum(|run| run.billed), failed: sum(|run| run.failed), unasked: sum(|run| run.unasked) };
    let parked = backend.backlog()?.parked;
    let parked_shown = if parked > 0 { backend.list_parked(PARKED_SHOWN_MAX)? } else { Vec::new() };
    Ok(Done { run, parked, parked_shown })
}

/// A line for each of these customers.
fn reasons(parked: &[Parked]) -> anyhow::Result<String> {
    let mut reasons = String::new();
    for Parked { organization, customer, due_at, failures, reason } in parked {
        let due_at = due_at.format(&Rfc3339)?;
        write!(
            reasons,
            "\nparked: {customer} of {organization}, due since {due_at}, failed {failures} times: {reason}"
        )?;
    }
    Ok(reasons)
}

fn progress_bar(customers: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} customers {per_sec} {eta}");
    let bar = ProgressBar::new(customers);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
