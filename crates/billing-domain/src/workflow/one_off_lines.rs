//! Puts one-off lines on invoices.

use time::OffsetDateTime;

use super::account::Account;
use super::draft_lines::Draft;
use crate::currency::Currency;
use crate::error::Error;
use crate::invoice::{BillingType, LineItem, Trace, add_tax};
use crate::one_off_line::OneOffLine;
use crate::subscription::Settled;

/// Puts what waits on the drafts in its currency, taxed at `taxed_at`, and takes it off the customer. Whether there was any.
///
/// # Errors
/// [`Error::TaxRate`].
pub(super) fn take_waiting(
    account: &mut Account,
    drafts: &mut [Draft],
    taxed_at: OffsetDateTime,
) -> Result<bool, Error> {
    let waiting = std::mem::take(&mut account.customer.one_off_lines);
    let (mut left, before) = (Vec::new(), waiting.len());
    for line in waiting {
        match drafts.iter_mut().find(|draft| draft.currency.code == line.currency_code) {
            Some(draft) => draft.lines.push(line_of(account, &line, &draft.currency, taxed_at)?),
            None => left.push(line),
        }
    }
    let is_any = left.len() < before;
    account.customer.one_off_lines = left;
    Ok(is_any)
}

/// The line of an invoice that is dated `taxed_at`.
///
/// # Errors
/// [`Error::TaxRate`].
pub(super) fn line_of(
    account: &mut Account,
    line: &OneOffLine,
    currency: &Currency,
    taxed_at: OffsetDateTime,
) -> Result<LineItem, Error> {
    let trace = Trace::OneOff {
        one_off_line_id: line.id,
        quantity: line.quantity.clone(),
        unit_amount: line.unit_amount.clone(),
        is_taxed: line.is_taxed,
        created_at: line.created_at,
    };
    let mut item = LineItem {
        period: line.period,
        quantity: line.quantity.clone(),
        billing_type: BillingType::OneTime,
        ..LineItem::of_invoice(&line.name, line.amount.clone(), taxed_at, trace)
    };
    tax(account, &mut item, currency.decimals, taxed_at)?;
    Ok(item)
}

/// A one-off line as another invoice bills it, dated `taxed_at`; other lines as they are.
///
/// # Errors
/// [`Error::TaxRate`].
pub(super) fn billed_anew(
    account: &mut Account,
    line: &LineItem,
    currency: &Currency,
    taxed_at: OffsetDateTime,
) -> Result<LineItem, Error> {
    let mut line = line.clone();
    if line.is_one_off() {
        line.adjustments.clear();
        line.amount = line.base.clone();
        tax(account, &mut line, currency.decimals, taxed_at)?;
    }
    Ok(line)
}

/// Adds sales tax at the rate of the day; there is no other line that it would be rounded together with.
fn tax(account: &mut Account, line: &mut LineItem, decimals: u8, at: OffsetDateTime) -> Result<(), Error> {
    if !matches!(line.trace, Trace::OneOff { is_taxed: true, .. }) {
        return Ok(());
    }
    account.has_taxed = true;
    if let Some(rate) = account.tax_rate(at)? {
        let taxable = line.amount.clone();
        add_tax(line, &taxable, (&rate.rate, Some(rate.provider)), &mut Settled::default(), decimals);
    }
    Ok(())
}
