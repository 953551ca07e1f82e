//! A line of an invoice, and what is added to its price.

use bigdecimal::{BigDecimal, Signed, Zero};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::trace::{Rounding, Trace};
use crate::adjustment::{PriceAdjustment, Span};
use crate::decimal;
use crate::id::{BillingRecordId, PlanId, PlanVersionId, SubscriptionId};
use crate::one_off_line::OneOffLine;
use crate::period::Period;
use crate::plan;
use crate::subscription::{Settled, SubscriptionFilters};
use crate::tax::{TaxProvider, TaxState};

/// One line of an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineItem {
    /// What it is for, in words.
    pub name: String,
    /// The time it is for.
    pub period: Period,
    /// How much was charged for: units of the metric, or copies of a fee when more than one.
    pub quantity: Option<BigDecimal>,
    /// When it is billed relative to its time.
    pub billing_type: BillingType,
    /// The subscription it belongs to.
    pub subscription: Option<SubscriptionId>,
    /// The billing record it belongs to.
    pub record: Option<BillingRecordId>,
    /// The plan version it is priced by, as it was named on the day of issue.
    pub plan: Option<PlanVersionBrief>,
    /// The subscription's filters.
    pub filters: SubscriptionFilters,
    /// Price before adjustments and tax, in whole minor units.
    pub base: BigDecimal,
    /// What was added to it.
    pub adjustments: Vec<Adjustment>,
    /// `base` and all adjustments.
    pub amount: BigDecimal,
    /// How it came about.
    pub trace: Trace,
}

/// A plan version as others refer to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanVersionBrief {
    /// The version's name, otherwise the plan's.
    pub plan_name: String,
    /// The plan.
    pub plan_id: PlanId,
    /// The version.
    pub version_id: PlanVersionId,
    /// The version's number.
    pub version: u32,
}

choices! {
    /// When a line is billed relative to the time it is for.
    pub BillingType {
        /// After it.
        InArrears = "in_arrears",
        /// While it goes on.
        Intermediate = "intermediate",
        /// Before it.
        InAdvance = "in_advance",
        /// It is for no time.
        OneTime = "one_time",
    }
}

/// An amount added to the base of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adjustment {
    /// How much, in whole minor units; negative lowers the line.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
    /// What for, and how the amount came about.
    pub basis: AdjustmentBasis,
}

/// How an adjustment came about: enough to compute it again by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AdjustmentBasis {
    /// `rate` percent of `taxable`, rounded together with the subscription's other lines.
    SalesTax {
        /// In percent.
        #[serde(with = "decimal::number")]
        rate: BigDecimal,
        /// Who knew the rate; `None` where it is the one of what was billed before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<TaxProvider>,
        /// Base and price adjustment of the line.
        #[serde(with = "decimal::number")]
        taxable: BigDecimal,
        /// From exact to minor units.
        rounding: Rounding,
    },
    /// The line's share of what brings the period's price to where the plan's adjustment wants it.
    PlanAdjustment {
        /// The adjustment's name.
        name: String,
        /// What it does.
        rule: PriceAdjustment,
        /// All charges of the period up to and with this invoice.
        #[serde(with = "decimal::number")]
        charges_so_far: BigDecimal,
        /// What they cost after adjustment, unrounded; not less than what voided invoices forgave.
        #[serde(with = "decimal::number")]
        target: BigDecimal,
        /// Adjustments of earlier invoices.
        #[serde(with = "decimal::number")]
        given_before: BigDecimal,
    },
}

impl Adjustment {
    /// What it is for.
    pub fn kind(&self) -> AdjustmentKind {
        match self.basis {
            AdjustmentBasis::SalesTax { .. } => AdjustmentKind::SalesTax,
            AdjustmentBasis::PlanAdjustment { .. } => AdjustmentKind::PlanAdjustment,
        }
    }
}

choices! {
    /// What an amount was added to a line for.
    pub AdjustmentKind {
        /// Sales tax.
        SalesTax = "sales_tax",
        /// The plan version's price adjustment.
        PlanAdjustment = "plan_adjustment",
    }
}

impl LineItem {
    /// A line of `amount` that belongs to the invoice as a whole.
    pub fn of_invoice(name: &str, amount: BigDecimal, at: OffsetDateTime, trace: Trace) -> Self {
        Self {
            name: name.to_owned(),
            period: Period::at(at),
            quantity: None,
            billing_type: BillingType::OneTime,
            subscription: None,
            record: None,
            plan: None,
            filters: SubscriptionFilters::none(),
            base: amount.clone(),
            adjustments: Vec::new(),
            amount,
            trace,
        }
    }

    /// The name of the recurring charge that it is for: the lines of all fees of a plan have one name, [`Self::name`].
    pub fn charge_name(&self) -> Option<&str> {
        match &self.trace {
            Trace::RecurringCharge { charge_name, .. } => Some(charge_name),
            _ => None,
        }
    }

    /// The one-off line that it bills, on an invoice in this currency; `None`: it bills something else.
    pub fn one_off_line(&self, currency_code: &str) -> Option<OneOffLine> {
        let Trace::OneOff { one_off_line_id, quantity, unit_amount, is_taxed, created_at } = &self.trace else {
            return None;
        };
        Some(OneOffLine {
            id: *one_off_line_id,
            name: self.name.clone(),
            quantity: quantity.clone(),
            unit_amount: unit_amount.clone(),
            amount: self.base.clone(),
            currency_code: currency_code.to_owned(),
            is_taxed: *is_taxed,
            period: self.period,
            created_at: *created_at,
        })
    }

    /// Whether it bills a one-off line.
    pub fn is_one_off(&self) -> bool {
        matches!(self.trace, Trace::OneOff { .. })
    }

    /// Whether it charges for something.
    pub fn charges(&self) -> bool {
        self.amount.is_positive() || (self.amount.is_zero() && self.base.is_positive())
    }

    /// Whether it takes back what was charged before.
    pub fn takes_back(&self) -> bool {
        self.amount.is_negative() || (self.amount.is_zero() && self.base.is_negative())
    }

    fn adjust(&mut self, amount: BigDecimal, basis: AdjustmentBasis) {
        self.amount += &amount;
        self.adjustments.push(Adjustment { amount, basis });
    }
}

/// Brings the price of a subscription's period to where the plan's adjustment wants it, spread over the lines
/// that the period has on this invoice. Charges and adjustments of the period then add up to that price.
///
/// # Panics
/// Never; a period without a line here is the caller's to give one.
pub fn adjust_price(
    lines: &mut [&mut LineItem],
    adjustment: &plan::PriceAdjustment,
    span: &Span,
    settled: &mut Settled,
    decimals: u8,
) {
    let rule = adjustment.rule();
    let before = settled.adjustment.clone();
    let charges: Vec<BigDecimal> = lines.iter().map(|line| line.base.clone()).collect();
    let portions = rule.portions(&charges, &mut settled.adjustment, span, decimals);
    for (line, portion) in lines.iter_mut().zip(portions) {
        if portion.is_zero() {
            continue;
        }
        let basis = AdjustmentBasis::PlanAdjustment {
            name: adjustment.name.clone(),
            rule: rule.clone(),
            charges_so_far: settled.adjustment.charges.clone(),
            target: rule.target_above(&settled.adjustment.charges, span, &before.forgiven),
            given_before: before.given.clone(),
        };
        line.adjust(portion, basis);
    }
}

/// Adds sales tax of a rate in percent, and whose it is, on `taxable`, which is base and price adjustment of a line or a part of them. The
/// taxes of one subscription are rounded together, line after line, so that they add up to the rounded tax of the whole.
pub fn add_tax(
    line: &mut LineItem,
    taxable: &BigDecimal,
    (rate, provider): (&BigDecimal, Option<TaxProvider>),
    settled: &mut Settled,
    decimals: u8,
) {
    let TaxState { given: given_before, forgiven, .. } = settled.tax.clone();
    let amount = settled.tax.portion(taxable, rate, decimals);
    let exact_so_far = settled.tax.exact.clone();
    let rounding = Rounding { exact_so_far, given_before, forgiven, decimals, amount: amount.clone() };
    let (rate, taxable) = (rate.clone(), taxable.clone());
    line.adjust(amount, AdjustmentBasis::SalesTax { rate, provider, taxable, rounding });
}
