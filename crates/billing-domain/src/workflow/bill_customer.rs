//! Brings a customer's billing up to an instant: renewals, expiries, scheduled invoices and invoices past due, in order.

use std::collections::BTreeSet;

use bigdecimal::Zero;
use time::{Duration, OffsetDateTime, UtcOffset};

use super::account::Account;
use super::draft_lines::Part;
use super::issue_invoices::{bill_due, issue_drafts};
use super::renew_subscription::renew_subscription;
use crate::billing_run::check_bound;
use crate::charge::BillingRecord;
use crate::error::{Error, Refusal, TaxNeed};
use crate::id::{CreditId, CustomerKey, InvoiceId, SubscriptionId};
use crate::message::MessageType;
use crate::store::Transaction;

/// Processes everything of `customer` that is due up to and with `until`, in order, and notes when the next
/// thing is. Doing it again, in steps, or late gives the same invoices.
///
/// # Errors
/// [`Error::NotFound`] for the customer; [`Error::Store`].
pub fn bill_customer(tx: &mut dyn Transaction, customer: CustomerKey, until: OffsetDateTime) -> Result<(), Error> {
    // What awaits renewal is listed whenever it ended, so the beginning of the list is `until` itself.
    let mut account = Account::load(tx, customer, until)?;
    process_some(tx, &mut account, (until, usize::MAX), UnknownRate::Fails).map(drop)
}

/// Renewals, expiries, scheduled invoices, invoices past due and billing records made, all told, that one call does of what is due: a year of
/// months or a month of days is done at once, within about half a second. The rest is left to the billing run.
pub const CALL_WORK_MAX: usize = 250;

/// As much of what a worker does in one transaction: it is short, for locks and turns are held until it ends.
pub const WORKER_WORK_MAX: usize = 50;

/// [`bill_customer`] that goes no further than about `work_max` renewals, expiries, scheduled invoices and billing records
/// made: what falls due at one instant is done whole. Doing it again until it has arrived gives the same invoices as doing
/// all at once. Until then the customer is [catching up](crate::customer::Customer::catching_up).
///
/// # Errors
/// As [`bill_customer`].
pub fn bill_customer_partly(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    until: OffsetDateTime,
    work_max: usize,
) -> Result<Progress, Error> {
    let mut account = Account::load(tx, customer, until)?;
    process_some(tx, &mut account, (until, work_max), UnknownRate::Ends)
}

/// How far billing has come that is done in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All that was due is done.
    Arrived,
    /// There is more to do.
    OnTheWay,
}

/// [`finish_due`] before a call about one subscription: the one to change. When its renewal was due and only now is made,
/// that is what it was renewed to, so that the call does not depend on whether the run came by before it.
pub(super) fn finish_due_of(
    tx: &mut dyn Transaction,
    account: &mut Account,
    id: SubscriptionId,
    now: OffsetDateTime,
) -> Result<SubscriptionId, Error> {
    let is_renewed_here = account.is_renewal_due(id, now);
    finish_due(tx, account, now)?;
    let ended = account.subscriptions.get(&id).filter(|_| is_renewed_here);
    Ok(ended.and_then(|ended| account.successor(ended, now)).unwrap_or(id))
}

/// Processes all that is due before a call changes anything.
///
/// # Errors
/// [`Refusal::CatchingUp`] when that is more than a call does: the billing run is behind, and has to come by first.
/// [`Error::TaxRate`]: as long as the call may fail nothing is kept, so what is due is done whole, once all rates are known.
pub(super) fn finish_due(tx: &mut dyn Transaction, account: &mut Account, now: OffsetDateTime) -> Result<(), Error> {
    match process_some(tx, account, (now, CALL_WORK_MAX), UnknownRate::Fails)? {
        Progress::Arrived => Ok(()),
        Progress::OnTheWay => Err(Refusal::CatchingUp.into()),
    }
}

/// Processes what is due of a customer before a call that is not about their subscriptions. A customer that was
/// deleted has nothing due, but what they left can still be settled.
///
/// # Errors
/// [`Refusal::TestClockAdvancing`], [`Refusal::CatchingUp`].
pub(super) fn catch_up(tx: &mut dyn Transaction, customer: CustomerKey, now: OffsetDateTime) -> Result<(), Error> {
    match tx.customers().get(customer) {
        Err(Error::NotFound(_)) => return Ok(()),
        found => drop(found?),
    }
    let mut account = Account::load(tx, customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    finish_due(tx, &mut account, now)
}

/// [`catch_up`] before what is known of a customer changes. An invoice that waits for a tax provider that failed goes on waiting: what
/// the provider did not like may be just what is to be changed. So it is tried again at once, and not after the wait of its last failure.
///
/// # Errors
/// As [`catch_up`].
pub(super) fn catch_up_or_wait(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut account = Account::load(tx, customer, now)?;
    if waits_for_provider(&account, now) {
        let due_at = next_step(&account).map(|(at, _)| at);
        return tx.customers().set_billing_due(customer, due_at);
    }
    account.refuse_while_on_the_way(tx)?;
    match process_some(tx, &mut account, (now, CALL_WORK_MAX), UnknownRate::Waits)? {
        Progress::OnTheWay if !waits_for_provider(&account, now) => Err(Refusal::CatchingUp.into()),
        _ => Ok(()),
    }
}

/// [`catch_up`] before a call that billing does not look at: an invoice whose tax rate is unknown is left to the billing run, and nobody is
/// asked for it. Whether something is left.
///
/// # Errors
/// [`Refusal::TestClockAdvancing`], [`Refusal::CatchingUp`].
pub(super) fn catch_up_but_taxes(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    now: OffsetDateTime,
) -> Result<bool, Error> {
    match tx.customers().get(customer) {
        Err(Error::NotFound(_)) => return Ok(false),
        found => drop(found?),
    }
    let mut account = Account::load(tx, customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    // The queue keeps the wait of a provider that failed.
    if waits_for_provider(&account, now) {
        return Ok(true);
    }
    match process_some(tx, &mut account, (now, CALL_WORK_MAX), UnknownRate::Leaves)? {
        Progress::Arrived => Ok(false),
        Progress::OnTheWay => match next_step(&account).map_or(Ok(()), |(at, step)| check_rate(&account, step, at)) {
            Err(Error::TaxRate(_)) => Ok(true),
            other => other.and(Err(Refusal::CatchingUp.into())),
        },
    }
}

/// Whether what is due first is an invoice whose tax rate the provider was asked for in vain.
fn waits_for_provider(account: &Account, now: OffsetDateTime) -> bool {
    let due = next_step(account).filter(|(at, _)| *at <= now);
    let rate = due.map_or(Ok(()), |(at, step)| check_rate(account, step, at));
    matches!(rate, Err(Error::TaxRate(need)) if need.failure.is_some())
}

/// Processes what a call has made due, as far as one call goes. The rest is left to the billing run or the clock's worker.
pub(super) fn process_due(tx: &mut dyn Transaction, account: &mut Account, now: OffsetDateTime) -> Result<(), Error> {
    process_some(tx, account, (now, CALL_WORK_MAX), UnknownRate::Ends).map(drop)
}

/// What becomes of billing at an invoice whose tax rate is still to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownRate {
    /// It ends there, so that what was done before is kept: invoices whose rates were asked for, and where there was no answer
    /// whatever it is. Otherwise it fails, and does all of it again when there is one.
    Ends,
    /// It fails as a whole.
    Fails,
    /// It fails as a whole, but where there was no answer the invoice is left to the billing run: the customer is not
    /// catching up for that.
    Waits,
    /// It ends there, and the invoice is left to the billing run without anybody being asked: the customer is not catching up
    /// for that.
    Leaves,
}

impl UnknownRate {
    fn may_end(self, need: &TaxNeed, is_begun: bool, has_invoiced: bool) -> bool {
        match self {
            Self::Ends if need.failure.is_some() => is_begun,
            Self::Ends => has_invoiced,
            Self::Fails => false,
            Self::Waits => need.failure.is_some(),
            Self::Leaves => true,
        }
    }
}

/// Processes what is due up to and with `until`, and ends behind the instant at which it has done as much as `work_max`, or
/// before an invoice whose tax rate is unknown.
pub(super) fn process_some(
    tx: &mut dyn Transaction,
    account: &mut Account,
    (until, work_max): (OffsetDateTime, usize),
    at_unknown_rate: UnknownRate,
) -> Result<Progress, Error> {
    account.load_falling_due(tx)?;
    let made_before = account.records_made;
    let (mut steps, mut invoices, mut reached) = (0, 0, None);
    let mut progress = Progress::Arrived;
    while let Some((at, step)) = next_step(account).filter(|(at, _)| *at <= until) {
        let work = steps + (account.records_made - made_before);
        if work >= work_max && reached.is_some_and(|reached| reached < at) {
            progress = Progress::OnTheWay;
            break;
        }
        let may_end = |need: &TaxNeed| at_unknown_rate.may_end(need, steps > 0, invoices > 0);
        if !take_step_or_end(tx, account, (at, step), &may_end)? {
            progress = Progress::OnTheWay;
            break;
        }
        steps += 1;
        invoices += usize::from(matches!(step, Step::Invoice(_)));
        reached = reached.max(Some(at));
    }
    account.save(tx)?;
    let next_at = next_step(account).map(|(at, _)| at);
    let key = account.customer.key;
    let instant = match (progress, reached) {
        // What was past when it fell due does not take the customer back.
        (Progress::OnTheWay, Some(reached)) => reached.max(tx.customers().now(key)?),
        _ => until,
    };
    tx.customers().advance_instant_and_queue(key, instant, next_at)?;
    if !matches!(at_unknown_rate, UnknownRate::Waits | UnknownRate::Leaves) {
        note_catching_up(tx, account, progress, next_at)?;
    }
    account.tell(tx, instant)?;
    Ok(progress)
}

/// Takes a step, unless its tax rate is unknown and billing may end before it: then the account is as it was before. Whether it took it.
fn take_step_or_end(
    tx: &mut dyn Transaction,
    account: &mut Account,
    (at, step): (OffsetDateTime, Step),
    may_end: &dyn Fn(&TaxNeed) -> bool,
) -> Result<bool, Error> {
    // Whether a line needs the rate is known when the lines are. Up to there nothing is written.
    let before = match check_rate(account, step, at) {
        Err(Error::TaxRate(need)) => may_end(&need).then(|| account.clone()),
        _ => None,
    };
    match (take_step(tx, account, step, at), before) {
        (Err(Error::TaxRate(_)), Some(before)) => {
            *account = before;
            Ok(false)
        }
        (taken, _) => taken.map(|()| true),
    }
}

/// The error of a step that is an invoice whose tax rate is unknown, if it needs one.
fn check_rate(account: &Account, step: Step, at: OffsetDateTime) -> Result<(), Error> {
    let Step::Invoice(instant) = step else { return Ok(()) };
    let due = |record: &BillingRecord| record.next_due_at() == Some(instant);
    let issued_at = issued_at(account, &subscriptions_of(account, &due), at)?;
    account.tax_rate(issued_at).map(drop)
}

/// Notes when a customer begins to catch up, and when they have: nothing is due any more up to their own now. That of a
/// customer whose clock advances is the instant reached, so they only catch up with what was past before.
fn note_catching_up(
    tx: &mut dyn Transaction,
    account: &mut Account,
    progress: Progress,
    next_at: Option<OffsetDateTime>,
) -> Result<(), Error> {
    let (key, before) = (account.customer.key, account.customer.catching_up);
    if !before && progress == Progress::Arrived {
        return Ok(());
    }
    let now = tx.customers().now(key)?;
    let catching_up = next_at.is_some_and(|next_at| next_at <= now);
    if catching_up != before {
        tx.customers().set_catching_up(key, catching_up)?;
        account.customer.catching_up = catching_up;
    }
    Ok(())
}

fn take_step(tx: &mut dyn Transaction, account: &mut Account, step: Step, at: OffsetDateTime) -> Result<(), Error> {
    match step {
        Step::Renew(subscription) => renew_subscription(tx, account, subscription),
        Step::ExpireCredit(credit) => expire_credit(tx, account, credit, at),
        Step::PastDue(invoice) => note_past_due(tx, account, invoice, at),
        Step::Invoice(instant) => {
            let due = |record: &BillingRecord| record.next_due_at() == Some(instant);
            let subscriptions = subscriptions_of(account, &due);
            let issued_at = issued_at(account, &subscriptions, at)?;
            let all = |record: &BillingRecord| due(record).then_some(Part::All);
            let drafts = bill_due(tx, account, &all, (instant, at), issued_at)?;
            count_invoicing(tx, account, &subscriptions, at)?;
            issue_drafts(tx, account, drafts, issued_at)
        }
    }
}

/// Something that falls due by time alone. Of two at the same instant, renewal comes first: the new period's
/// charges in advance belong on the same invoice as the old period's usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Renew(SubscriptionId),
    ExpireCredit(CreditId),
    /// The invoice of a billing instant, cut when late events have had their time.
    Invoice(OffsetDateTime),
    /// An invoice has fallen due that nobody has paid.
    PastDue(InvoiceId),
}

fn next_step(account: &Account) -> Option<(OffsetDateTime, Step)> {
    let grace = account.organization.invoice_grace();
    let closing = account.closing_grace();
    let renewals = account
        .subscriptions
        .values()
        .filter(|subscription| subscription.awaits_renewal() && !subscription.is_addon())
        .map(|subscription| (subscription.period.end(), Step::Renew(subscription.id)));
    let scheduled = |records: &'_ [BillingRecord], grace: Duration| -> Vec<(OffsetDateTime, Step)> {
        let instants = records.iter().filter_map(BillingRecord::next_due_at);
        instants.map(|instant| (instant + grace, Step::Invoice(instant))).collect()
    };
    let invoices = scheduled(&account.records, grace).into_iter().chain(scheduled(&account.late, closing));
    let expiries = account
        .credits
        .values()
        .filter(|ledger| !ledger.remaining().is_zero())
        .filter_map(|ledger| Some((ledger.credit().expires_at?, Step::ExpireCredit(ledger.credit().id))));
    let falling_due = account.falling_due.iter().flatten().map(|(invoice, due_at)| (*due_at, Step::PastDue(*invoice)));
    renewals.chain(invoices).chain(expiries).chain(falling_due).min()
}

/// When an invoice for these subscriptions is dated that fell due at `at`: then, but not before the calls were made that
/// began them. What was past already bears the instant of the call.
fn issued_at(account: &Account, subscriptions: &[SubscriptionId], at: OffsetDateTime) -> Result<OffsetDateTime, Error> {
    let began = subscriptions.iter().map(|id| Ok(account.subscription(*id)?.chain_began_at));
    let began = began.collect::<Result<Vec<_>, Error>>()?;
    Ok(began.into_iter().fold(at, OffsetDateTime::max))
}

/// The subscriptions with records that are due.
fn subscriptions_of(account: &Account, due: &dyn Fn(&BillingRecord) -> bool) -> Vec<SubscriptionId> {
    let records = account.records.iter().chain(&account.late).filter(|record| due(record));
    let subscriptions: BTreeSet<SubscriptionId> = records.map(|record| record.subscription).collect();
    subscriptions.into_iter().collect()
}

/// Stops billing that would go on and on, within one transaction or over many.
fn count_invoicing(
    tx: &mut dyn Transaction,
    account: &Account,
    subscriptions: &[SubscriptionId],
    due_at: OffsetDateTime,
) -> Result<(), Error> {
    let day = due_at.to_offset(UtcOffset::UTC).date();
    let counts = tx.subscriptions().count_invoicing(account.customer.key, subscriptions, day)?;
    for (subscription, count) in subscriptions.iter().zip(counts) {
        check_bound(*subscription, day, count)?;
    }
    Ok(())
}

/// Writes off what an expired credit has left.
fn expire_credit(
    tx: &mut dyn Transaction,
    account: &mut Account,
    credit: CreditId,
    at: OffsetDateTime,
) -> Result<(), Error> {
    let entry = tx.new_uuid().into();
    if let Some(mut ledger) = account.credits.remove(&credit) {
        let is_expired = ledger.expire(entry, at).is_some();
        tx.credits().update(account.customer.key, &ledger)?;
        if is_expired {
            account.untold.credit(MessageType::CreditExpired, at, ledger);
        }
    }
    Ok(())
}

/// Notes, once, that an invoice has fallen due at `at` and nobody has paid it.
fn note_past_due(
    tx: &mut dyn Transaction,
    account: &mut Account,
    invoice: InvoiceId,
    at: OffsetDateTime,
) -> Result<(), Error> {
    if let Some(falling_due) = &mut account.falling_due {
        falling_due.remove(&invoice);
    }
    tx.invoices().note_past_due(account.customer.key, invoice, at)?;
    account.untold.invoice(MessageType::InvoicePastDue, at, invoice);
    Ok(())
}
