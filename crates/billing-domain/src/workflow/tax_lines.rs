//! Sales tax on the lines of an invoice to be.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Signed};
use time::OffsetDateTime;

use super::account::Account;
use crate::charge::BillingRecord;
use crate::currency::Currency;
use crate::error::Error;
use crate::id::BillingRecordId;
use crate::invoice::{LineItem, add_tax};
use crate::money::spread;
use crate::subscription::Settled;
use crate::tax::{TaxRate, TaxedAmount};

/// Adds sales tax to the lines of subscriptions: at the rate of the day of issue, for what comes late at the rate of what was billed
/// of the same record, and for what takes back at the rates of what it takes back.
///
/// # Errors
/// [`Error::TaxRate`]; [`Error::Store`].
pub(super) fn tax_lines(
    account: &mut Account,
    currency: &Currency,
    lines: &mut [LineItem],
    records: &mut [BillingRecord],
    issued_at: OffsetDateTime,
) -> Result<(), Error> {
    let today = account.tax_rate(issued_at)?;
    let mut records: BTreeMap<BillingRecordId, &mut BillingRecord> =
        records.iter_mut().map(|record| (record.id, record)).collect();
    // What is charged comes first: it may be what the invoice takes back by an adjustment.
    let (charged, taken_back): (Vec<_>, Vec<_>) = lines.iter_mut().partition(|line| !line.amount.is_negative());
    for line in charged.into_iter().chain(taken_back) {
        let Some(id) = line.subscription else { continue };
        let record = line.record.and_then(|id| records.get_mut(&id)).map(|record| &mut **record);
        tax_line(line, record, &mut account.subscription_mut(id)?.settled, today.as_ref(), currency.decimals);
    }
    Ok(())
}

fn tax_line(
    line: &mut LineItem,
    mut record: Option<&mut BillingRecord>,
    settled: &mut Settled,
    today: Option<&TaxRate>,
    decimals: u8,
) {
    let today_or_none = today.map(|today| today.rate.clone()).unwrap_or_default();
    let late = record.as_ref().and_then(|record| record.tax_rate.clone().filter(|_| record.awaits_late_usage()));
    let charged = late.clone().unwrap_or_else(|| today_or_none.clone());
    let mut taken = Vec::new();
    if let Some(record) = &mut record {
        let before = record.tax_rate.clone().unwrap_or_else(|| today_or_none.clone());
        if !line.base.is_negative() {
            record.tax_rate = Some(charged.clone());
        }
        if let Some(billed) = record.billed_by(&line.trace) {
            if line.base.is_negative() {
                taken = billed.taxed.take_back(&-&line.base, &before);
            } else if line.base.is_positive() {
                billed.taxed.add(&charged, &line.base);
            }
        }
    }
    let taxable = line.amount.clone();
    if !taxable.is_negative() {
        settled.tax.taxed.add(&charged, &taxable);
        // What was not taxed then is not taxed now.
        let provider = today.filter(|_| late.is_none()).map(|today| today.provider);
        if provider.is_some() || late.is_some_and(|rate| rate.is_positive()) {
            add_tax(line, &taxable, (&charged, provider), settled, decimals);
        }
        return;
    }
    if taken.is_empty() {
        let back = settled.tax.taxed.take_back(&-taxable, &today_or_none);
        return tax_back(line, &back, settled, decimals);
    }
    let sizes: Vec<BigDecimal> = taken.iter().map(|part| part.amount.clone()).collect();
    for (part, taxable) in taken.iter().zip(spread(&taxable, &sizes, decimals)) {
        let back = settled.tax.taxed.take_back_at(&part.rate, &-taxable);
        tax_back(line, &back, settled, decimals);
    }
}

/// Takes tax back with what it was charged on; what was not taxed then is not taxed now.
fn tax_back(line: &mut LineItem, taken: &[TaxedAmount], settled: &mut Settled, decimals: u8) {
    for part in taken.iter().filter(|part| part.rate.is_positive()) {
        add_tax(line, &-&part.amount, (&part.rate, None), settled, decimals);
    }
}
