//! Holds what a customer costs against what it pays, day by day.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Zero};
use time::{Date, OffsetDateTime};

use super::account::Account;
use super::daily_usage::{DailyUsage, daily_usages, days_of};
use super::draft_lines::{Part, draft_lines};
use crate::currency::Currency;
use crate::customer::{Customer, CustomerId};
use crate::decimal;
use crate::error::{Error, FieldCode, FieldError};
use crate::id::{BillingRecordId, CustomerKey, MetricId};
use crate::invoice::{AdjustmentBasis, LineItem, PaymentStatus, Trace};
use crate::metric::Metric;
use crate::money::round_half_away_from_zero;
use crate::period::{Fraction, Period};
use crate::store::{InvoiceFilter, PageRequest, Transaction};
use crate::subscription::SubscriptionFilters;

/// Most days in one answer.
pub const ANALYZED_DAYS_MAX: usize = 366;
/// Decimals of everything in an answer.
const DECIMALS: u8 = 10;

/// The question.
#[derive(Clone, Debug)]
pub struct AnalyzeCosts {
    /// Who.
    pub customer: CustomerId,
    /// The first UTC day.
    pub start: Date,
    /// The last UTC day.
    pub end: Date,
}

/// The answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CostAnalysis {
    /// What revenue is in; charges in other currencies are left out.
    pub currency: Currency,
    /// Every day asked for.
    pub days: Vec<AnalyzedDay>,
    /// The costs of all days.
    pub total_cost: BigDecimal,
    /// The revenue of all days.
    pub total_revenue: BigDecimal,
}

/// One day.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AnalyzedDay {
    /// Which.
    pub date: Date,
    /// What each cost metric comes to that costs anything, oldest first.
    pub costs: Vec<(Metric, BigDecimal)>,
    /// What was earned.
    pub revenue: BigDecimal,
}

impl CostAnalysis {
    /// What part of the revenue is left after costs; 0 without revenue.
    pub fn profit_margin(&self) -> BigDecimal {
        self.profit_by(&self.total_revenue)
    }

    /// What comes on top of the costs, as a part of them; 0 without costs.
    pub fn markup(&self) -> BigDecimal {
        self.profit_by(&self.total_cost)
    }

    fn profit_by(&self, divisor: &BigDecimal) -> BigDecimal {
        let profit = &self.total_revenue - &self.total_cost;
        round_half_away_from_zero(&decimal::divide(&profit, divisor), DECIMALS)
    }
}

/// Holds a customer's costs, which are the daily usage of the organization's cost metrics, against the revenue: every
/// charge, invoiced or accrued up to now, with its price adjustments and without tax, in the customer's currency, over
/// the time that it is for. A fee is earned evenly; usage is earned as it was used.
///
/// # Errors
/// [`Error::NotFound`] for the customer; an `end_date` before the start or beyond [`ANALYZED_DAYS_MAX`] days.
pub fn analyze_costs(
    tx: &mut dyn Transaction,
    command: &AnalyzeCosts,
    _now: OffsetDateTime,
) -> Result<CostAnalysis, Error> {
    let key = CustomerKey::derive(tx.organization(), &command.customer);
    let customer = tx.customers().get(key)?;
    let range = range_of(command)?;
    let now = tx.customers().now(customer.key)?;
    let currency = super::find_currency(tx, &customer.default_currency_code)?;
    let dates: Vec<Date> = days_of(&range).into_iter().map(|(date, _)| date).collect();
    let mut costs: BTreeMap<Date, Vec<(Metric, BigDecimal)>> = BTreeMap::new();
    for (metric, daily) in costs_of(tx, customer.key, &range, now)? {
        for (date, cost) in in_portions(&dates, &daily).into_iter().filter(|(_, cost)| !cost.is_zero()) {
            costs.entry(date).or_default().push((metric.clone(), cost));
        }
    }
    let revenue = in_portions(&dates, &revenue_of(tx, &customer, &range, now)?);
    let days: Vec<AnalyzedDay> = revenue
        .into_iter()
        .map(|(date, revenue)| AnalyzedDay { date, costs: costs.remove(&date).unwrap_or_default(), revenue })
        .collect();
    let total_cost = days.iter().flat_map(|day| &day.costs).map(|(_, cost)| cost).sum();
    let total_revenue = days.iter().map(|day| &day.revenue).sum();
    Ok(CostAnalysis { currency, days, total_cost, total_revenue })
}

fn range_of(command: &AnalyzeCosts) -> Result<Period, Error> {
    let fault = |code, detail: String| Error::from(FieldError::new("end_date", code, detail));
    let days = (command.end - command.start).whole_days() + 1;
    if days < 1 {
        return Err(fault(FieldCode::MinValue, "The end is before the start.".to_owned()));
    }
    if usize::try_from(days).unwrap_or(usize::MAX) > ANALYZED_DAYS_MAX {
        return Err(fault(FieldCode::MaxValue, format!("These are more than {ANALYZED_DAYS_MAX} days.")));
    }
    let (start, end) = (command.start.midnight().assume_utc(), command.end.midnight().assume_utc());
    Period::new(start, end.saturating_add(time::Duration::DAY))
        .map_err(|_| fault(FieldCode::MinValue, "The end is before the start.".to_owned()))
}

/// The daily usage of every cost metric.
fn costs_of(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    range: &Period,
    now: OffsetDateTime,
) -> Result<Vec<(Metric, BTreeMap<Date, BigDecimal>)>, Error> {
    let mut metrics = tx.metrics().list()?;
    metrics.retain(|metric| metric.is_cost_metric);
    let question =
        |metric: &Metric| DailyUsage { metric: metric.clone(), filters: SubscriptionFilters::none(), period: *range };
    let questions: Vec<_> = metrics.iter().map(question).collect();
    let daily = daily_usages(tx, customer, &questions, now)?;
    Ok(metrics.into_iter().zip(daily).collect())
}

/// A charge, and how it is earned over its time.
struct Earning {
    amount: BigDecimal,
    period: Period,
    /// As this metric was used; `None`: evenly.
    usage: Option<(MetricId, SubscriptionFilters)>,
}

/// The revenue of each day of `range`, and of others.
fn revenue_of(
    tx: &mut dyn Transaction,
    customer: &Customer,
    range: &Period,
    now: OffsetDateTime,
) -> Result<BTreeMap<Date, BigDecimal>, Error> {
    let mut earnings = earnings_of(tx, customer, now)?;
    earnings.retain(|earning| earning.period.is_empty() || earning.period.overlaps(range));
    let mut questions = Vec::new();
    for earning in &earnings {
        if let Some((metric, filters)) = &earning.usage {
            let metric = tx.metrics().get(*metric)?;
            questions.push(DailyUsage { metric, filters: filters.clone(), period: earning.period });
        }
    }
    let mut daily = daily_usages(tx, customer.key, &questions, now)?.into_iter();
    let mut revenue: BTreeMap<Date, BigDecimal> = BTreeMap::new();
    for earning in earnings {
        let weights = earning.usage.as_ref().and_then(|_| daily.next()).unwrap_or_default();
        for (date, amount) in spread(&earning, &weights) {
            *revenue.entry(date).or_default() += amount;
        }
    }
    Ok(revenue)
}

/// What was invoiced, and what a bill would add now, each charge of a record in one.
fn earnings_of(tx: &mut dyn Transaction, customer: &Customer, now: OffsetDateTime) -> Result<Vec<Earning>, Error> {
    let mut lines = Vec::new();
    let filter = InvoiceFilter::of(customer.key);
    let mut page = PageRequest::first();
    loop {
        let part = tx.invoices().list(&filter, &page)?;
        for invoice in part.items {
            if invoice.payment_status != PaymentStatus::Voided
                && invoice.currency.code == customer.default_currency_code
            {
                lines.push((invoice.issued_at, invoice.lines));
            }
        }
        match part.next {
            Some(next) => page.after = Some(next),
            None => break,
        }
    }
    lines.sort_by_key(|(issued_at, _)| *issued_at);
    let mut lines: Vec<LineItem> = lines.into_iter().flat_map(|(_, lines)| lines).collect();
    let mut account = Account::load(tx, customer.key, now)?;
    let mut records: Vec<_> = account.late.iter().chain(&account.records).cloned().collect();
    records.retain(|record| record.period.start() <= now);
    for draft in draft_lines(tx, &mut account, &mut records, &|_| Part::All, (now, None))? {
        if draft.currency.code == customer.default_currency_code {
            lines.extend(draft.lines);
        }
    }
    Ok(earnings_from(lines))
}

fn earnings_from(lines: Vec<LineItem>) -> Vec<Earning> {
    let mut of_records: BTreeMap<(BillingRecordId, bool), Earning> = BTreeMap::new();
    let mut earnings = Vec::new();
    for line in lines {
        let taxes =
            line.adjustments.iter().filter(|adjustment| matches!(adjustment.basis, AdjustmentBasis::SalesTax { .. }));
        let amount = &line.amount - taxes.map(|tax| &tax.amount).sum::<BigDecimal>();
        let (period, usage) = match &line.trace {
            Trace::RecurringCharge { window, .. } => (*window, None),
            Trace::UsageCharge { metric, window, .. } | Trace::UsageHandedOn { metric, window, .. } => {
                (*window, Some((metric.metric_id, line.filters.clone())))
            }
            Trace::PrepaidUsageCharge { .. } | Trace::PlanAdjustment | Trace::OneOff { .. } => (line.period, None),
            // Nothing was earned, and credits move money that other lines earn.
            Trace::UsageNotBilled { .. } => continue,
            Trace::CreditApplied { .. } | Trace::CreditPurchase { .. } | Trace::CreditGranted { .. } => continue,
        };
        let Some(record) = line.record else {
            earnings.push(Earning { amount, period, usage });
            continue;
        };
        // Later lines of a record complete or take back the earlier ones: together they are for the latest's time.
        let is_prepaid = matches!(line.trace, Trace::PrepaidUsageCharge { .. });
        let new = || Earning { amount: BigDecimal::zero(), period, usage: usage.clone() };
        let earning = of_records.entry((record, is_prepaid)).or_insert_with(new);
        earning.amount += amount;
        earning.period = period;
    }
    earnings.extend(of_records.into_values());
    earnings
}

/// The part of the earning that each day has.
fn spread(earning: &Earning, weights: &BTreeMap<Date, BigDecimal>) -> Vec<(Date, BigDecimal)> {
    let sum: BigDecimal = weights.values().sum();
    if !sum.is_zero() {
        let part = |weight: &BigDecimal| decimal::divide(&(&earning.amount * weight), &sum);
        return weights.iter().map(|(date, weight)| (*date, part(weight))).collect();
    }
    let whole = earning.period.microseconds();
    if whole == 0 {
        return vec![(earning.period.start().date(), earning.amount.clone())];
    }
    let part = |day: Period| Fraction { numerator: day.microseconds(), denominator: whole }.of(&earning.amount);
    days_of(&earning.period).into_iter().map(|(date, day)| (date, part(day))).collect()
}

/// The values of `dates`, rounded as a running sum, so that they add up to the rounded whole.
fn in_portions(dates: &[Date], values: &BTreeMap<Date, BigDecimal>) -> Vec<(Date, BigDecimal)> {
    let (mut exact, mut given) = (BigDecimal::zero(), BigDecimal::zero());
    let portion = |date: &Date| {
        exact += values.get(date).cloned().unwrap_or_default();
        let portion = round_half_away_from_zero(&exact, DECIMALS) - &given;
        given += &portion;
        (*date, portion)
    };
    dates.iter().map(portion).collect()
}
