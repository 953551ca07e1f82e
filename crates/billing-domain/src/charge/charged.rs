//! What a record puts on an invoice: fees by time, prepaid units, usage.

use bigdecimal::{BigDecimal, Zero};
use time::OffsetDateTime;

use super::BillingRecord;
use crate::custom_sql::CustomFailure;
use crate::invoice::{BillingType, MetricTrace, Trace};
use crate::metric::{AggregationKind, MeasureFields, Metric};
use crate::period::Period;
use crate::plan::{ChargeBehavior, ChargeTiming, Component, RecurringCharge};
use crate::subscription::{FlatFeeBehavior, Subscription, SubscriptionFilters};
use crate::usage::SeenUsage;

/// What a record puts on an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The time it is for.
    pub period: Period,
    /// Units charged for, or copies of a fee when more than one.
    pub quantity: Option<BigDecimal>,
    /// When it is billed relative to its time.
    pub billing_type: BillingType,
    /// In whole minor units.
    pub amount: BigDecimal,
    /// How it came about.
    pub trace: Trace,
}

impl BillingRecord {
    /// Bills a fee by time at `at`; `None` when nothing is left to bill. How the subscription was cancelled may
    /// say what the fee comes to, whatever its own behaviour.
    pub fn charge_recurring(
        &mut self,
        charge: &RecurringCharge,
        subscription: &Subscription,
        decimals: u8,
        at: OffsetDateTime,
    ) -> Option<Charged> {
        let quantity = subscription.quantity;
        let cancelled = subscription.flat_fee_behavior();
        let is_kept = cancelled == Some(FlatFeeBehavior::ChargeFull);
        let (window, billing_type) = match charge.timing {
            ChargeTiming::InAdvance => (self.period, BillingType::InAdvance),
            // What it would have come to at its end, although the subscription ends before.
            ChargeTiming::InArrears if is_kept => (self.period, self.billing_type(at)),
            ChargeTiming::InArrears => (self.window(at), self.billing_type(at)),
        };
        let fraction = window.fraction_of(&self.full);
        let whole = &charge.amount * BigDecimal::from(quantity);
        let is_full = charge.behavior == ChargeBehavior::Full && cancelled != Some(FlatFeeBehavior::ChargeProrated);
        let charged_before = if is_full { self.charged_before_switch.clone() } else { BigDecimal::zero() };
        let exact = match (cancelled, charge.behavior) {
            (Some(FlatFeeBehavior::Refund), _) => BigDecimal::zero(),
            // What never began costs nothing.
            _ if window.is_empty() => BigDecimal::zero(),
            (Some(FlatFeeBehavior::ChargeProrated), _) | (_, ChargeBehavior::Prorate) => fraction.of(&whole),
            (_, ChargeBehavior::Full) => (whole - &charged_before).max(BigDecimal::zero()),
        };
        let rounding = self.billed.up_to(exact, decimals);
        (!rounding.amount.is_zero()).then(|| Charged {
            period: self.period,
            quantity: (quantity > 1).then(|| BigDecimal::from(quantity)),
            billing_type,
            amount: rounding.amount.clone(),
            trace: Trace::RecurringCharge {
                charge_name: charge.name.clone(),
                unit_amount: charge.amount.clone(),
                quantity,
                charge_timing: charge.timing,
                charge_behavior: charge.behavior,
                flat_fee_behavior: cancelled,
                window,
                fraction,
                charged_before_switch: charged_before,
                rounding,
            },
        })
    }

    /// What `full` fees of its interval come to up to and with this one when it ends at `until`: a fee that takes its place is
    /// not charged for it again.
    pub fn full_fee_so_far(
        &self,
        charge: &RecurringCharge,
        subscription: &Subscription,
        until: OffsetDateTime,
    ) -> BigDecimal {
        let before = self.charged_before_switch.clone();
        if charge.behavior == ChargeBehavior::Prorate || self.period.cut_at(until).is_empty() {
            return before;
        }
        before.max(&charge.amount * BigDecimal::from(subscription.quantity))
    }

    /// Bills the prepaid units; `None` when there are none or nothing is left to bill.
    pub fn charge_prepaid(
        &mut self,
        component: &Component,
        metric: &Metric,
        filters: &SubscriptionFilters,
        decimals: u8,
    ) -> Option<Charged> {
        let behavior = component.prepaid_charge.as_ref()?.behavior;
        let (exact, segments) = self.prepaid_price(component);
        let period = self.period;
        let prepaid = self.prepaid.as_mut()?;
        let rounding = prepaid.billed.up_to(exact, decimals);
        (!rounding.amount.is_zero()).then(|| Charged {
            period,
            quantity: prepaid.segments.last().map(|segment| segment.units.clone()),
            billing_type: BillingType::InAdvance,
            amount: rounding.amount.clone(),
            trace: Trace::PrepaidUsageCharge {
                metric: metric_trace(metric, filters),
                charge_behavior: behavior,
                segments,
                rounding,
            },
        })
    }

    /// Bills the usage of [`BillingRecord::window`]: the price of all of it, less what was prepaid and billed.
    pub fn charge_usage(
        &mut self,
        component: &Component,
        metric: &Metric,
        filters: &SubscriptionFilters,
        seen: &SeenUsage,
        decimals: u8,
        at: OffsetDateTime,
    ) -> Charged {
        let SeenUsage { usage, last_arrival } = seen;
        let rating = component.tiers.rate(&usage.quantity);
        let prepaid_amount = self.prepaid_in_all(component);
        let exact = (&rating.amount - &prepaid_amount).max(BigDecimal::zero());
        let billed_before = self.awaits_late_usage().then(|| self.billed.quantity.clone());
        let quantity = &usage.quantity - &self.billed.quantity;
        let rounding = self.billed.up_to(exact, decimals);
        self.billed.quantity.clone_from(&usage.quantity);
        Charged {
            period: self.period,
            quantity: Some(quantity),
            billing_type: self.billing_type(at),
            amount: rounding.amount.clone(),
            trace: Trace::UsageCharge {
                metric: metric_trace(metric, filters),
                window: self.window(at),
                event_count: usage.event_count,
                last_arrival: *last_arrival,
                quantity: usage.quantity.clone(),
                billed_before,
                rating,
                prepaid_amount,
                rounding,
            },
        }
    }

    /// Bills what late events change of a price that was billed: all of the usage at the same prices, less what was
    /// billed, which may be less than nothing. `None`, and nothing changes, when it comes to less than a minor unit.
    pub fn charge_late_usage(
        &mut self,
        component: &Component,
        metric: &Metric,
        filters: &SubscriptionFilters,
        usage: &SeenUsage,
        decimals: u8,
    ) -> Option<Charged> {
        let before = self.billed.clone();
        let charged = self.charge_usage(component, metric, filters, usage, decimals, self.period.end());
        if charged.amount.is_zero() {
            self.billed = before;
            return None;
        }
        Some(charged)
    }

    /// Takes back what was billed of usage that a switch handed on; `None` when nothing is left to take back.
    pub fn take_usage_back(
        &mut self,
        metric: &Metric,
        filters: &SubscriptionFilters,
        decimals: u8,
        at: OffsetDateTime,
    ) -> Option<Charged> {
        let rounding = self.billed.up_to(BigDecimal::zero(), decimals);
        (!rounding.amount.is_zero()).then(|| Charged {
            period: self.period,
            quantity: Some(-std::mem::take(&mut self.billed.quantity)),
            billing_type: self.billing_type(at),
            amount: rounding.amount.clone(),
            trace: Trace::UsageHandedOn { metric: metric_trace(metric, filters), window: self.period, rounding },
        })
    }

    /// Puts on the invoice that usage was not billed, and why.
    pub fn leave_unbilled(
        &self,
        metric: &Metric,
        filters: &SubscriptionFilters,
        failure: &CustomFailure,
        at: OffsetDateTime,
    ) -> Charged {
        let trace = Trace::UsageNotBilled {
            metric: metric_trace(metric, filters),
            window: self.window(at),
            reason: failure.to_string(),
        };
        let billing_type = self.billing_type(at);
        Charged { period: self.period, quantity: None, billing_type, amount: BigDecimal::zero(), trace }
    }

    fn billing_type(&self, at: OffsetDateTime) -> BillingType {
        if at < self.period.end() { BillingType::Intermediate } else { BillingType::InArrears }
    }
}

fn metric_trace(metric: &Metric, filters: &SubscriptionFilters) -> MetricTrace {
    let MeasureFields { metric_type, aggregation_type, property_name, event_type, granularity, proration, custom_sql } =
        metric.measure.fields();
    MetricTrace {
        metric_id: metric.id,
        metric_name: metric.name.clone(),
        event_name: metric.event_name.clone(),
        metric_type: metric_type.as_str().to_owned(),
        aggregation_type: aggregation_type.unwrap_or(AggregationKind::Count).as_str().to_owned(),
        property_name,
        event_type: event_type.map(|event_type| event_type.as_str().to_owned()),
        granularity: granularity.map(|granularity| granularity.as_str().to_owned()),
        proration: proration.map(|proration| proration.as_str().to_owned()),
        custom_sql,
        numeric_filters: metric.filters.numeric_filters.clone(),
        categorical_filters: metric.filters.categorical_filters.clone(),
        subscription_filters: filters.clone(),
    }
}
