//! Previews the invoice a customer would get now. Nothing is kept.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::account::Account;
use super::bundle::Bundle;
use super::draft_lines::{Draft, Part, draft_lines};
use crate::charge::BillingRecord;
use crate::currency::Currency;
use crate::customer::{Customer, CustomerId};
use crate::error::Error;
use crate::id::{CustomerKey, InvoiceId, SubscriptionId};
use crate::invoice::LineItem;
use crate::plan::ChargeTiming;
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
pub struct DraftInvoices {
    /// The customer.
    pub customer: Customer,
    /// One invoice for each currency.
    pub invoices: Vec<DraftedInvoice>,
}

/// An invoice that will never be.
#[derive(Clone, Debug)]
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

/// Previews what the customer would be billed if all of their subscriptions were invoiced now.
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
    let mut account = Account::load(tx, key, now)?;
    let mut records: Vec<BillingRecord> = account.late.iter().chain(&account.records).cloned().collect();
    records.retain(|record| record.period.start() <= now);
    let mut drafts = draft_lines(tx, &mut account, &mut records, Part::All, now)?;
    if command.include_next_period {
        add_next_periods(tx, &mut account, &mut drafts)?;
    }
    let due_at = account.organization.due_at(now);
    let invoices = drafts.into_iter().map(|draft| DraftedInvoice {
        id: tx.new_uuid().into(),
        issued_at: now,
        due_at,
        amount: draft.lines.iter().map(|line| &line.amount).sum(),
        currency: draft.currency,
        lines: draft.lines,
    });
    Ok(DraftInvoices { customer, invoices: invoices.collect() })
}

fn add_next_periods(tx: &mut dyn Transaction, account: &mut Account, drafts: &mut Vec<Draft>) -> Result<(), Error> {
    let renewing: Vec<Subscription> =
        account.subscriptions.values().filter(|own| own.awaits_renewal() && !own.is_addon()).cloned().collect();
    let held: Vec<_> = account.subscriptions.values().cloned().collect();
    for current in renewing {
        let bundle = Bundle::load(tx, &mut account.catalog, &current, &held)?;
        let Some(next) = bundle.renewed(tx, &mut account.catalog)? else { continue };
        let start = next.base.subscription.period.start();
        let mut records = Vec::new();
        for part in next.parts() {
            let mut subscription = part.subscription.clone();
            subscription.id = SubscriptionId::from(tx.new_uuid());
            let version = &part.offer.version;
            let in_advance = |record: &BillingRecord| {
                let charge = version.recurring_charges.iter().find(|charge| record.charge.is(charge.id));
                charge.is_some_and(|charge| charge.timing == ChargeTiming::InAdvance)
            };
            let own = part.offer.records_of(tx, &subscription)?.into_iter();
            records.extend(own.filter(|own| own.next_invoicing_at() == Some(start) && in_advance(own)));
            account.subscriptions.insert(subscription.id, subscription);
        }
        for mut draft in draft_lines(tx, account, &mut records, Part::All, start)? {
            for line in &mut draft.lines {
                line.name = format!("{} - Next Period", line.name);
            }
            match drafts.iter_mut().find(|other| other.currency == draft.currency) {
                Some(other) => other.lines.append(&mut draft.lines),
                None => drafts.push(draft),
            }
        }
    }
    Ok(())
}
