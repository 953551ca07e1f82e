//! Shows what correcting all events that match would change, by doing it.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::finish_due;
use super::correct_events::{Reasons, carry_out};
use super::correct_matching_events::{EVENTS_PER_STEP, check_order, matching};
use super::draft_invoice::draft_of;
use crate::error::Error;
use crate::event::KeptEvent;
use crate::id::CustomerKey;
use crate::invoice::Trace;
use crate::job::CorrectionOrder;
use crate::store::{PageRequest, Transaction};

/// What correcting events changes of one customer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MatchingPreview {
    /// Events that are not as they are to be.
    pub events: u64,
    /// Whether that is all: there may be more events than were asked for, and queries of custom metrics do not see what is undone.
    pub is_complete: bool,
    /// What changes in money, by the code of the currency.
    pub changes: BTreeMap<String, MoneyChange>,
}

/// What changes in money, in major units with tax; below 0: it is less.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoneyChange {
    /// What the next invoice bills more, or gives back, of time that was invoiced before.
    pub invoiced: BigDecimal,
    /// What the time that is not invoiced yet comes to more, or less, as of now.
    pub open: BigDecimal,
}

/// Corrects at most `events_max` events of a customer that match, and says what drafts of the customer's next invoices say otherwise then.
/// It is for [`Store::try_for_key`](crate::store::Store), which undoes all of it: what it does is done.
///
/// # Errors
/// As [`correct_events`](super::correct_events).
pub fn preview_matching_corrections(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    (order, events_max): (&CorrectionOrder, u64),
    now: OffsetDateTime,
) -> Result<MatchingPreview, Error> {
    let mut account = Account::load(tx, customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    finish_due(tx, &mut account, now)?;
    let (before, has_custom) = charged(tx, customer, now)?;
    let mut preview = MatchingPreview { is_complete: true, ..MatchingPreview::default() };
    let filter = matching(tx, customer, &order.selection)?;
    let reasons = Reasons { by: order.by.clone(), reason: order.reason.clone(), job: None };
    let mut page = PageRequest { limit: EVENTS_PER_STEP, after: None };
    loop {
        let found = tx.events().list(&filter, &page)?;
        let changed = |before: KeptEvent| order.change.of(&before).map(|after| (before, after));
        let mut plan: Vec<(KeptEvent, KeptEvent)> = found.items.into_iter().filter_map(changed).collect();
        let room = events_max - preview.events;
        if plan.len() as u64 > room {
            plan.truncate(usize::try_from(room).unwrap_or_default());
            preview.is_complete = false;
        }
        preview.events += plan.len() as u64;
        carry_out(tx, &mut account, &plan, (&reasons, order.beyond_window), now)?;
        page.after = found.next;
        if page.after.is_none() || !preview.is_complete {
            break;
        }
    }
    preview.is_complete &= !has_custom;
    for (code, after) in charged(tx, customer, now)?.0 {
        let before = before.get(&code).cloned().unwrap_or_default();
        let change = MoneyChange { invoiced: after.invoiced - before.invoiced, open: after.open - before.open };
        preview.changes.insert(code, change);
    }
    Ok(preview)
}

/// The customers who have events that match, of the first `customers_max` that there are, and whether those are all customers.
///
/// # Errors
/// As [`order_corrections`](super::order_corrections).
pub fn customers_with_matching_events(
    tx: &mut dyn Transaction,
    order: &CorrectionOrder,
    customers_max: u32,
) -> Result<(Vec<CustomerKey>, bool), Error> {
    check_order(tx, order)?;
    if let Some(customer) = &order.selection.customer {
        return Ok((vec![CustomerKey::derive(tx.organization(), customer)], true));
    }
    let all = tx.customers().list(&PageRequest { limit: customers_max, after: None })?;
    let mut found = Vec::new();
    for customer in all.items {
        let filter = matching(tx, customer.key, &order.selection)?;
        let mut page = PageRequest { limit: 1, after: None };
        loop {
            let events = tx.events().list(&filter, &page)?;
            page.after = events.next;
            if !events.items.is_empty() {
                found.push(customer.key);
                break;
            }
            if page.after.is_none() {
                break;
            }
        }
    }
    Ok((found, all.next.is_none()))
}

/// What drafts of the customer's next invoices charge for subscriptions, by currency, and whether custom metrics are among it.
fn charged(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    now: OffsetDateTime,
) -> Result<(BTreeMap<String, MoneyChange>, bool), Error> {
    let customer = tx.customers().get(customer)?;
    let (mut charged, mut has_custom): (BTreeMap<String, MoneyChange>, _) = (BTreeMap::new(), false);
    for draft in draft_of(tx, &customer, false, now)? {
        let sums = charged.entry(draft.currency.code).or_default();
        for line in draft.lines.into_iter().filter(|line| line.subscription.is_some()) {
            if let Trace::UsageCharge { metric, .. } | Trace::UsageNotBilled { metric, .. } = &line.trace {
                has_custom |= metric.custom_sql.is_some();
            }
            match line.trace {
                Trace::UsageCharge { billed_before: Some(_), .. } => sums.invoiced += line.amount,
                _ => sums.open += line.amount,
            }
        }
    }
    Ok((charged, has_custom))
}
