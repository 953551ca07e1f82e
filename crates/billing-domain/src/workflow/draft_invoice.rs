//! Previews the invoice a customer would get now. Nothing is kept.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::account::Account;
use super::draft_lines::{Draft, Part, draft_lines};
use crate::charge::{BillingRecord, records_of};
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
        account.subscriptions.values().filter(|own| own.awaits_renewal()).cloned().collect();
    for mut next in renewing {
        let current = account.offer(tx, next.version)?;
        let offer = match current.version.replace_with {
            Some(other) => account.offer(tx, other)?,
            None => current,
        };
        let Some(period) = next.next_period(offer.plan.duration, offer.version.anchors) else { continue };
        next.enter(&period);
        next.version = offer.version.id;
        next.id = SubscriptionId::from(tx.new_uuid());
        let start = next.period.start();
        let in_advance = |record: &BillingRecord| {
            let charge = offer.version.recurring_charges.iter().find(|charge| record.charge.is(charge.id));
            charge.is_some_and(|charge| charge.timing == ChargeTiming::InAdvance)
        };
        let mut records = records_of(&offer.version, &next, &mut || tx.new_uuid())?;
        records.retain(|record| record.next_invoicing_at() == Some(start) && in_advance(record));
        account.subscriptions.insert(next.id, next);
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
