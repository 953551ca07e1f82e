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
use crate::tax::{TaxProvider, TaxRate, TaxedAmount};

/// Adds sales tax to the lines of subscriptions: at the rate of the day of issue, for what comes late at the rate of what was billed
/// of the same record, for what is issued anew and came back since at the rate at which it did, and for what takes back at the rates of
/// what it takes back.
///
/// # Errors
/// [`Error::TaxRate`], where a line needs the rate of the day; [`Error::Store`].
pub(super) fn tax_lines(
    account: &mut Account,
    currency: &Currency,
    lines: &mut [LineItem],
    records: &mut [BillingRecord],
    issued_at: OffsetDateTime,
) -> Result<(), Error> {
    let mut records: BTreeMap<BillingRecordId, &mut BillingRecord> =
        records.iter_mut().map(|record| (record.id, record)).collect();
    let needs_rate = |line: &LineItem| {
        let record = line.record.and_then(|id| records.get(&id)).map(|record| &**record);
        line.subscription.is_some() && line.amount.is_positive() && rate_before(record, line).is_none()
    };
    // Nobody is asked, and nothing waits, for a rate that nothing is taxed at.
    let today = if lines.iter().any(needs_rate) {
        account.has_taxed = true;
        Today::Known(account.tax_rate(issued_at)?)
    } else {
        account.tax_rate_unasked(issued_at).map_or(Today::Unasked, Today::Known)
    };
    // What is charged comes first: it may be what the invoice takes back by an adjustment.
    let (charged, taken_back): (Vec<_>, Vec<_>) = lines.iter_mut().partition(|line| !line.amount.is_negative());
    for line in charged.into_iter().chain(taken_back) {
        let Some(id) = line.subscription else { continue };
        let record = line.record.and_then(|id| records.get_mut(&id)).map(|record| &mut **record);
        tax_line(line, record, &mut account.subscription_mut(id)?.settled, &today, currency.decimals);
    }
    Ok(())
}

/// The rate of the day of issue.
enum Today {
    /// It is known; `None`: there is no tax.
    Known(Option<TaxRate>),
    /// Somebody would have to be asked, and no line needs it.
    Unasked,
}

impl Today {
    /// In percent; 0 where there is no tax.
    fn percent(&self) -> Option<BigDecimal> {
        match self {
            Self::Known(rate) => Some(rate.as_ref().map(|rate| rate.rate.clone()).unwrap_or_default()),
            Self::Unasked => None,
        }
    }

    fn provider(&self) -> Option<TaxProvider> {
        match self {
            Self::Known(rate) => rate.as_ref().map(|rate| rate.provider),
            Self::Unasked => None,
        }
    }
}

/// The rate that a line of a record has from what was billed before: of what comes late the one that was billed last, and of what is
/// issued anew the one at which later invoices gave back of it.
fn rate_before(record: Option<&BillingRecord>, line: &LineItem) -> Option<BigDecimal> {
    let record = record?;
    let owed = record.billed_as(&line.trace).and_then(|billed| billed.taxed.owed_rate());
    let late = record.tax_rate.as_ref().filter(|_| record.awaits_late_usage());
    owed.or(late).cloned()
}

fn tax_line(
    line: &mut LineItem,
    mut record: Option<&mut BillingRecord>,
    settled: &mut Settled,
    today: &Today,
    decimals: u8,
) {
    let today_or_none = today.percent().unwrap_or_default();
    let before = rate_before(record.as_deref(), line);
    let known = before.clone().or_else(|| today.percent());
    let charged = known.clone().unwrap_or_default();
    let mut taken = Vec::new();
    if let Some(record) = &mut record {
        let otherwise = record.tax_rate.clone().unwrap_or_else(|| today_or_none.clone());
        if !line.base.is_negative() && known.is_some() {
            record.tax_rate = known;
        }
        if let Some(billed) = record.billed_by(&line.trace) {
            if line.base.is_negative() {
                taken = billed.taxed.take_back(&-&line.base, &otherwise);
            } else if line.base.is_positive() {
                billed.taxed.add(&charged, &line.base);
            }
        }
    }
    let taxable = line.amount.clone();
    if !taxable.is_negative() {
        settled.tax.taxed.add(&charged, &taxable);
        // What was not taxed then is not taxed now.
        let provider = today.provider().filter(|_| before.is_none());
        if provider.is_some() || before.is_some_and(|rate| rate.is_positive()) {
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
