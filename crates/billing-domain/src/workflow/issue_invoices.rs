//! Issues invoices for records that are due: lines, tax, totals, number.

use std::collections::BTreeMap;
use std::rc::Rc;

use bigdecimal::{BigDecimal, Zero};
use time::OffsetDateTime;

use super::account::{Account, Offer};
use crate::charge::{BillingRecord, Charge, Charged};
use crate::currency::Currency;
use crate::error::{Error, StoreError};
use crate::invoice::{self, BilledTo, Invoice, LineItem, PaymentStatus, Seller};
use crate::metric::Metric;
use crate::plan::Component;
use crate::store::Transaction;
use crate::subscription::Subscription;
use crate::usage::{Usage, UsageRequest};

/// The lines of one invoice to be.
pub(super) struct Draft {
    pub currency: Currency,
    pub lines: Vec<LineItem>,
}

/// Bills the records that `due` selects as of the billing instant `at`: one invoice for each currency, issued
/// at `issued_at`; none where there is no line.
///
/// # Errors
/// [`Error::Store`].
pub(super) fn issue_invoices(
    tx: &mut dyn Transaction,
    account: &mut Account,
    due: &dyn Fn(&BillingRecord) -> bool,
    at: OffsetDateTime,
    issued_at: OffsetDateTime,
) -> Result<(), Error> {
    let mut selected: Vec<_> = extract(&mut account.records, due);
    let drafts = draft_lines(tx, account, &mut selected, at)?;
    for record in &mut selected {
        record.pass(at);
        tx.billing_records().update(account.customer.key, record)?;
        if let Some(subscription) = account.subscriptions.get(&record.subscription) {
            tx.subscriptions().update(subscription)?;
        }
    }
    account.records.extend(selected.into_iter().filter(|record| record.next_invoicing_at().is_some()));
    for draft in drafts {
        issue(tx, account, draft, issued_at)?;
    }
    Ok(())
}

fn extract(records: &mut Vec<BillingRecord>, due: &dyn Fn(&BillingRecord) -> bool) -> Vec<BillingRecord> {
    let (selected, others) = std::mem::take(records).into_iter().partition(due);
    *records = others;
    selected
}

fn issue(tx: &mut dyn Transaction, account: &Account, draft: Draft, issued_at: OffsetDateTime) -> Result<(), Error> {
    let (organization, customer) = (&account.organization, &account.customer);
    let amount: BigDecimal = draft.lines.iter().map(|line| &line.amount).sum();
    let id = tx.new_uuid().into();
    let sequence = tx.invoices().next_sequence()?;
    tx.invoices().insert(&Invoice {
        id,
        number: invoice::number(issued_at, sequence),
        customer: customer.key,
        billed_to: BilledTo {
            customer_id: customer.id.to_string(),
            name: customer.name.clone(),
            email: customer.email.clone(),
            address: customer.billing_address.clone(),
        },
        seller: Seller { name: organization.name.clone(), address: organization.address.clone() },
        currency: draft.currency,
        issued_at,
        due_at: organization.due_at(issued_at),
        payment_status: if amount.is_zero() { PaymentStatus::Paid } else { PaymentStatus::Unpaid },
        lines: draft.lines,
        amount,
    })
}

/// Bills `records` in memory as of `at` and returns the lines, by currency code. All usage is read at once.
pub(super) fn draft_lines(
    tx: &mut dyn Transaction,
    account: &mut Account,
    records: &mut [BillingRecord],
    at: OffsetDateTime,
) -> Result<Vec<Draft>, Error> {
    let offers = records.iter().map(|record| account.offer(tx, record.version)).collect::<Result<Vec<_>, _>>()?;
    let mut requests = Vec::new();
    for (record, offer) in records.iter().zip(&offers) {
        if let Some(request) = usage_request(account, record, offer, at)? {
            requests.push(request);
        }
    }
    let mut usages = tx.events().usages(&requests)?.into_iter();
    let mut drafts = BTreeMap::new();
    for (record, offer) in records.iter_mut().zip(&offers) {
        let usage = if bills_usage(record, offer, at) { usages.next() } else { None };
        let lines = lines_of(account, record, offer, usage.as_ref(), at)?;
        if !lines.is_empty() {
            let currency = || Draft { currency: offer.currency.clone(), lines: Vec::new() };
            let draft = drafts.entry(offer.currency.code.clone()).or_insert_with(currency);
            draft.lines.extend(lines);
        }
    }
    Ok(drafts.into_values().collect())
}

/// Whether usage of the record is due at `at`: not at its very start, where only prepaid units are billed.
fn bills_usage(record: &BillingRecord, offer: &Offer, at: OffsetDateTime) -> bool {
    let is_component = matches!(offer.version.charge(record.charge), Some(Charge::Component(_)));
    is_component && at > record.period.start()
}

fn usage_request(
    account: &Account,
    record: &BillingRecord,
    offer: &Offer,
    at: OffsetDateTime,
) -> Result<Option<UsageRequest>, Error> {
    let Some(Charge::Component(component)) = offer.version.charge(record.charge) else { return Ok(None) };
    if !bills_usage(record, offer, at) {
        return Ok(None);
    }
    Ok(Some(UsageRequest {
        customer: account.customer.key,
        metric: metric_of(offer, component)?.clone(),
        filters: subscription_of(account, record)?.filters.clone(),
        period: record.window(at),
    }))
}

fn lines_of(
    account: &mut Account,
    record: &mut BillingRecord,
    offer: &Rc<Offer>,
    usage: Option<&Usage>,
    at: OffsetDateTime,
) -> Result<Vec<LineItem>, Error> {
    let decimals = offer.currency.decimals;
    let subscription = subscription_of(account, record)?;
    let mut charged = Vec::new();
    match offer.version.charge(record.charge) {
        Some(Charge::Recurring(charge)) => {
            let name = format!("{} Flat Fee", offer.version.name(&offer.plan));
            let fee = record.charge_recurring(charge, subscription.quantity, decimals, at);
            charged.extend(fee.map(|fee| (name, fee)));
        }
        Some(Charge::Component(component)) => {
            let metric = metric_of(offer, component)?;
            let filters = &subscription.filters;
            let prepaid = record.charge_prepaid(component, metric, filters, decimals);
            charged.extend(prepaid.map(|prepaid| (format!("{} Prepaid Units", metric.name), prepaid)));
            if let Some(usage) = usage {
                let used = record.charge_usage(component, metric, filters, usage, decimals, at);
                charged.push((metric.name.clone(), used));
            }
        }
        None => return Err(broken("a billing record whose charge its plan version does not have")),
    }
    let rate = account.customer.tax_rate.clone().or_else(|| account.organization.tax_rate.clone());
    let Some(subscription) = account.subscriptions.get_mut(&record.subscription) else {
        return Err(broken("a billing record without its subscription"));
    };
    Ok(charged
        .into_iter()
        .map(|(name, charged)| {
            let mut line = line_of(name, charged, record, offer, subscription);
            subscription.settled.charges += &line.base;
            if let Some(rate) = &rate {
                line.add_tax(rate, &mut subscription.settled, decimals);
            }
            line
        })
        .collect())
}

fn line_of(
    name: String,
    charged: Charged,
    record: &BillingRecord,
    offer: &Offer,
    subscription: &Subscription,
) -> LineItem {
    LineItem {
        name,
        period: charged.period,
        quantity: charged.quantity,
        billing_type: charged.billing_type,
        subscription: Some(subscription.id),
        record: Some(record.id),
        plan: Some(offer.brief()),
        filters: subscription.filters.clone(),
        base: charged.amount.clone(),
        adjustments: Vec::new(),
        amount: charged.amount,
        trace: charged.trace,
    }
}

fn metric_of<'o>(offer: &'o Offer, component: &Component) -> Result<&'o Metric, Error> {
    offer.metrics.get(&component.metric).ok_or_else(|| broken("a component without its metric"))
}

fn subscription_of<'a>(account: &'a Account, record: &BillingRecord) -> Result<&'a Subscription, Error> {
    let found = account.subscriptions.get(&record.subscription);
    found.ok_or_else(|| broken("a billing record without its subscription"))
}

fn broken(what: &str) -> Error {
    StoreError::Internal(format!("the store holds {what}")).into()
}
