//! Previews the invoice a customer would get now. Nothing is kept.

use std::collections::BTreeSet;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::account::Account;
use super::bundle::Bundle;
use super::draft_lines::{Draft, Part, draft_lines};
use super::one_off_lines::take_waiting;
use crate::charge::BillingRecord;
use crate::currency::Currency;
use crate::customer::{Customer, CustomerId};
use crate::error::Error;
use crate::id::{CustomerKey, InvoiceId, SubscriptionId};
use crate::invoice::LineItem;
use crate::store::Transaction;
use crate::subscription::Subscription;

/// Whose invoice is previewed, and how far.
#[derive(Clone, Debug)]
pub struct DraftInvoice {
    /// The customer.
    pub customer: CustomerId,
    /// Whether the fees in advance of the periods to come are on it.
    pub include_next_period: bool,
}

/// The preview.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DraftInvoices {
    /// The customer.
    pub customer: Customer,
    /// One invoice for each currency.
    pub invoices: Vec<DraftedInvoice>,
}

/// An invoice that will never be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DraftedInvoice {
    /// An id of its own that names nothing.
    pub id: InvoiceId,
    /// Everything on it is in this currency.
    pub currency: Currency,
    /// When it would be issued.
    pub issued_at: OffsetDateTime,
    /// When it would fall due.
    pub due_at: Option<OffsetDateTime>,
    /// Its lines, by subscription.
    pub lines: Vec<LineItem>,
    /// The sum of its lines.
    pub amount: BigDecimal,
}

/// Previews the next invoice of each of the customer's subscriptions, as it would be now: what falls due at the next
/// instant of each, with the usage up to now, and what is charged in advance of the time that begins there. Late usage
/// comes along. A microsecond before that instant, without later events, it is the invoice then issued, before credits.
///
/// # Errors
/// [`Error::NotFound`] for the customer.
pub fn draft_invoice(
    tx: &mut dyn Transaction,
    command: &DraftInvoice,
    _now: OffsetDateTime,
) -> Result<DraftInvoices, Error> {
    let key = CustomerKey::derive(tx.organization(), &command.customer);
    let customer = tx.customers().get(key)?;
    let now = tx.customers().now(key)?;
    let invoices = draft_of(tx, &customer, command.include_next_period, now)?;
    Ok(DraftInvoices { customer, invoices })
}

/// What [`draft_invoice`] answers of a customer at their `now`.
pub(super) fn draft_of(
    tx: &mut dyn Transaction,
    customer: &Customer,
    include_next_period: bool,
    now: OffsetDateTime,
) -> Result<Vec<DraftedInvoice>, Error> {
    let mut account = Account::load(tx, customer.key, now)?;
    let mut records = account.late.clone();
    let mut renewing = Vec::new();
    for subscription in account.subscriptions.values() {
        let next = Next::of(&account, subscription);
        records.extend(next.records.into_iter().filter(|record| include_next_period || record.period.start() <= now));
        renewing.extend(next.renews.then(|| subscription.clone()));
    }
    if include_next_period {
        records.extend(next_periods(tx, &mut account, &renewing)?);
    }
    records.sort_by_key(|record| record.id);
    let to_come: BTreeSet<_> =
        records.iter().filter(|record| record.period.start() > now).map(|record| record.id).collect();
    let mut drafts = draft_lines(tx, &mut account, &mut records, &|_| Part::All, (now, Some(now)))?;
    for line in drafts.iter_mut().flat_map(|draft| &mut draft.lines) {
        if line.record.is_some_and(|record| to_come.contains(&record)) {
            line.name = format!("{} - Next Period", line.name);
        }
    }
    add_one_offs(tx, &mut account, &mut drafts, now)?;
    let due_at = account.organization.due_at(now);
    let invoices = drafts.into_iter().map(|draft| DraftedInvoice {
        id: tx.new_uuid().into(),
        issued_at: now,
        due_at,
        amount: draft.lines.iter().map(|line| &line.amount).sum(),
        currency: draft.currency,
        lines: draft.lines,
    });
    Ok(invoices.collect())
}

/// One-off lines that wait are on the next invoice in their currency, whatever else is on it.
fn add_one_offs(
    tx: &mut dyn Transaction,
    account: &mut Account,
    drafts: &mut Vec<Draft>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    for code in account.customer.one_off_lines.iter().map(|line| &line.currency_code) {
        if !drafts.iter().any(|draft| draft.currency.code == *code) {
            let currency = super::find_currency(tx, code)?;
            drafts.push(Draft { currency, lines: Vec::new(), replaces: None });
        }
    }
    take_waiting(account, drafts, now).map(drop)
}

/// What falls due next of one subscription.
struct Next {
    records: Vec<BillingRecord>,
    /// Whether its renewal does.
    renews: bool,
}

impl Next {
    fn of(account: &Account, subscription: &Subscription) -> Self {
        let open = account.records.iter().filter(|record| record.subscription == subscription.id);
        let renewal =
            Some(subscription.period.end()).filter(|_| subscription.awaits_renewal() && !subscription.is_addon());
        let instant = open.clone().filter_map(BillingRecord::next_invoicing_at).chain(renewal).min();
        let records = open.filter(|record| record.next_invoicing_at() == instant).cloned().collect();
        Self { records, renews: renewal.is_some() && renewal == instant }
    }
}

/// What is charged in advance of the periods that these subscriptions renew to. Their successors are put into the account.
fn next_periods(
    tx: &mut dyn Transaction,
    account: &mut Account,
    renewing: &[Subscription],
) -> Result<Vec<BillingRecord>, Error> {
    let held: Vec<_> = account.subscriptions.values().cloned().collect();
    let mut records = Vec::new();
    for current in renewing {
        let bundle = Bundle::load(tx, &mut account.catalog, current, &held)?;
        let Some(next) = bundle.renewed(tx, &mut account.catalog)? else { continue };
        let start = next.base.subscription.period.start();
        for part in next.parts() {
            let mut subscription = part.subscription.clone();
            subscription.id = SubscriptionId::from(tx.new_uuid());
            let fresh = part.offer.records_of(tx, &subscription)?.into_iter();
            records.extend(fresh.filter(|record| record.next_invoicing_at() == Some(start)));
            account.subscriptions.insert(subscription.id, subscription);
        }
    }
    Ok(records)
}
