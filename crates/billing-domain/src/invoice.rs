//! Invoices: lines, totals, and the trace that explains each line.

use bigdecimal::{BigDecimal, Zero};
use serde::{Deserialize, Serialize};
use time::{Date, OffsetDateTime};

use crate::adjustment::{PriceAdjustment, Span};
use crate::credit::Drawdown;
use crate::currency::Currency;
use crate::decimal;
use crate::id::{BillingRecordId, CreditId, CustomerKey, InvoiceId, MetricId, PlanId, PlanVersionId, SubscriptionId};
use crate::metric::{CategoricalFilter, MetricType, NumericFilter};
use crate::organization::Address;
use crate::period::{Fraction, Period};
use crate::plan::{self, ChargeBehavior, ChargeTiming};
use crate::subscription::{FlatFeeBehavior, Settled, SubscriptionFilters};
use crate::tier::Rating;

/// An issued invoice. Nothing on it ever changes but its payment status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoice {
    /// Its id.
    pub id: InvoiceId,
    /// `YYMMDD-NNNNNN`: the UTC day of issue and a sequence of the organization without gaps.
    pub number: String,
    /// Whose it is.
    pub customer: CustomerKey,
    /// The customer as it was on the day of issue.
    pub billed_to: BilledTo,
    /// The organization as it was on the day of issue.
    pub seller: Seller,
    /// Everything on it is in this currency.
    pub currency: Currency,
    /// When it was issued.
    pub issued_at: OffsetDateTime,
    /// When it falls due.
    pub due_at: Option<OffsetDateTime>,
    /// Where its payment stands.
    pub payment_status: PaymentStatus,
    /// What is charged, line by line.
    pub lines: Vec<LineItem>,
    /// The sum of the lines' amounts.
    pub amount: BigDecimal,
}

/// An invoice without its lines and its customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvoiceSummary {
    /// [`Invoice::id`].
    pub id: InvoiceId,
    /// [`Invoice::number`].
    pub number: String,
    /// [`Invoice::customer`].
    pub customer: CustomerKey,
    /// [`Invoice::seller`].
    pub seller: Seller,
    /// [`Invoice::currency`].
    pub currency: Currency,
    /// [`Invoice::issued_at`].
    pub issued_at: OffsetDateTime,
    /// [`Invoice::due_at`].
    pub due_at: Option<OffsetDateTime>,
    /// [`Invoice::payment_status`].
    pub payment_status: PaymentStatus,
    /// The first day that its charges are for; the day of issue when it has none.
    pub start_date: Date,
    /// The last day that its charges are for; the day of issue when it has none.
    pub end_date: Date,
    /// [`Invoice::amount`].
    pub amount: BigDecimal,
}

/// The customer on an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BilledTo {
    /// The caller's own id.
    pub customer_id: String,
    /// Display name.
    pub name: Option<String>,
    /// E-mail address.
    pub email: Option<String>,
    /// Billing address.
    pub address: Option<Address>,
}

/// The organization on an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seller {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Option<Address>,
}

/// Where the payment of an invoice stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaymentStatus {
    /// A preview; never kept.
    Draft,
    /// Withdrawn.
    Voided,
    /// Paid, or nothing to pay.
    Paid,
    /// Awaiting payment.
    Unpaid,
}

impl PaymentStatus {
    /// Every status.
    pub const ALL: &'static [Self] = &[Self::Draft, Self::Voided, Self::Paid, Self::Unpaid];

    /// The text on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Voided => "voided",
            Self::Paid => "paid",
            Self::Unpaid => "unpaid",
        }
    }
}

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

/// When a line is billed relative to the time it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BillingType {
    /// After it.
    InArrears,
    /// While it goes on.
    Intermediate,
    /// Before it.
    InAdvance,
    /// It is for no time.
    OneTime,
}

impl BillingType {
    /// Every type.
    pub const ALL: &'static [Self] = &[Self::InArrears, Self::Intermediate, Self::InAdvance, Self::OneTime];

    /// The text on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InArrears => "in_arrears",
            Self::Intermediate => "intermediate",
            Self::InAdvance => "in_advance",
            Self::OneTime => "one_time",
        }
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
        /// What they cost after adjustment, unrounded.
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

/// What an amount was added to a line for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdjustmentKind {
    /// Sales tax.
    SalesTax,
    /// The plan version's price adjustment.
    PlanAdjustment,
}

impl AdjustmentKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::SalesTax, Self::PlanAdjustment];

    /// The text on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SalesTax => "sales_tax",
            Self::PlanAdjustment => "plan_adjustment",
        }
    }
}

/// How an exact amount became whole minor units: `amount` = round(`exact_so_far`) - `given_before`.
///
/// The parts of one charge are rounded together, so that what was given always adds up to the rounded whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounding {
    /// All of the charge up to and with this line, unrounded.
    #[serde(with = "decimal::number")]
    pub exact_so_far: BigDecimal,
    /// What earlier lines of the same charge gave.
    #[serde(with = "decimal::number")]
    pub given_before: BigDecimal,
    /// Decimals of the currency's minor unit; ties go away from zero.
    #[serde(with = "decimal::integer")]
    pub decimals: u8,
    /// The result.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
}

/// How a line came about: enough to compute it again by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Trace {
    /// A fee by time: `unit_amount` x `quantity` x `fraction` (or the whole when `charge_behavior` is full).
    RecurringCharge {
        /// The charge.
        charge_name: String,
        /// What one full interval costs.
        #[serde(with = "decimal::number")]
        unit_amount: BigDecimal,
        /// The subscription's quantity.
        #[serde(with = "decimal::integer")]
        quantity: u32,
        /// Before or after the time it is for.
        charge_timing: ChargeTiming,
        /// Whether a cut interval costs less.
        charge_behavior: ChargeBehavior,
        /// What the cancellation of the subscription said instead.
        #[serde(default)]
        flat_fee_behavior: Option<FlatFeeBehavior>,
        /// The time charged so far.
        window: Period,
        /// `window` as a part of the full interval, in microseconds.
        fraction: Fraction,
        /// From exact to minor units.
        rounding: Rounding,
    },
    /// Usage: the price of `quantity` by the tiers, less what was prepaid.
    UsageCharge {
        /// What was metered.
        metric: MetricTrace,
        /// The events' time.
        window: Period,
        /// How many events stand behind the quantity.
        #[serde(with = "decimal::integer")]
        event_count: u64,
        /// The usage since the start of the window.
        #[serde(with = "decimal::number")]
        quantity: BigDecimal,
        /// What was billed of it when the time was over; there only on a line for events that arrived later.
        #[serde(default, with = "decimal::optional_number", skip_serializing_if = "Option::is_none")]
        billed_before: Option<BigDecimal>,
        /// The walk through the tiers.
        rating: Rating,
        /// What the prepaid units cost; usage is charged only beyond it.
        #[serde(with = "decimal::number")]
        prepaid_amount: BigDecimal,
        /// From exact to minor units.
        rounding: Rounding,
    },
    /// Nothing: the custom metric had no usable result. The usage is billed when it has one.
    UsageNotBilled {
        /// What was metered.
        metric: MetricTrace,
        /// The events' time.
        window: Period,
        /// Why there is no result.
        reason: String,
    },
    /// Units paid in advance: the price of each segment's units, prorated when the charge says so.
    PrepaidUsageCharge {
        /// What is metered.
        metric: MetricTrace,
        /// Whether a cut interval costs less.
        charge_behavior: ChargeBehavior,
        /// The units and their time.
        segments: Vec<PrepaidSegmentTrace>,
        /// From exact to minor units.
        rounding: Rounding,
    },
    /// No charge of its own: it carries a price adjustment where no other line can.
    PlanAdjustment,
    /// Credits that paid a part of the invoice, in the order in which they were drawn.
    CreditApplied {
        /// Which, and how much.
        drawdowns: Vec<Drawdown>,
    },
    /// What the customer pays for a credit.
    CreditPurchase {
        /// The credit.
        credit_id: CreditId,
    },
    /// The invoice came to less than nothing: the difference became a credit.
    CreditGranted {
        /// The credit.
        credit_id: CreditId,
    },
}

/// A metric as it was when a line was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricTrace {
    /// Its id.
    pub metric_id: MetricId,
    /// Its name.
    pub metric_name: String,
    /// The events it counts.
    pub event_name: String,
    /// How it looks at them. Traces made before there was more than one way do not say so.
    #[serde(default = "counter")]
    pub metric_type: String,
    /// How they are aggregated.
    pub aggregation_type: String,
    /// What of them is aggregated.
    pub property_name: Option<String>,
    /// What the property of a gauge's event is.
    #[serde(default)]
    pub event_type: Option<String>,
    /// What one unit of a gauge is per, or the window of a rate.
    #[serde(default)]
    pub granularity: Option<String>,
    /// The buckets that a gauge is weighed by.
    #[serde(default)]
    pub proration: Option<String>,
    /// The query of a custom metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_sql: Option<String>,
    /// Which of them count, by the numbers they have.
    pub numeric_filters: Vec<NumericFilter>,
    /// Which of them count, by the texts they have.
    pub categorical_filters: Vec<CategoricalFilter>,
    /// Which of them count for the subscription.
    pub subscription_filters: SubscriptionFilters,
}

fn counter() -> String {
    MetricType::Counter.as_str().to_owned()
}

/// Prepaid units over a part of a reset interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrepaidSegmentTrace {
    /// The part.
    pub window: Period,
    /// It as a part of the full interval.
    pub fraction: Fraction,
    /// The walk through the tiers for its units.
    pub rating: Rating,
}

impl Invoice {
    /// What can be said of it without its lines.
    pub fn summary(&self) -> InvoiceSummary {
        InvoiceSummary {
            id: self.id,
            number: self.number.clone(),
            customer: self.customer,
            seller: self.seller.clone(),
            currency: self.currency.clone(),
            issued_at: self.issued_at,
            due_at: self.due_at,
            payment_status: self.payment_status,
            start_date: self.charged().map(|period| period.start()).min().unwrap_or(self.issued_at).date(),
            end_date: self.charged().map(|period| period.last_instant()).max().unwrap_or(self.issued_at).date(),
            amount: self.amount.clone(),
        }
    }

    fn charged(&self) -> impl Iterator<Item = Period> {
        self.lines.iter().filter(|line| line.subscription.is_some()).map(|line| line.period)
    }
}

/// The invoice number of `sequence` on the UTC day of `issued_at`.
pub fn number(issued_at: OffsetDateTime, sequence: u64) -> String {
    let (year, month, day) = issued_at.to_offset(time::UtcOffset::UTC).to_calendar_date();
    format!("{:02}{:02}{:02}-{sequence:06}", year.rem_euclid(100), u8::from(month), day)
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
            target: rule.target(&settled.adjustment.charges, span),
            given_before: before.given.clone(),
        };
        line.adjust(portion, basis);
    }
}

/// Adds sales tax of `rate` percent on base and price adjustment of a line. The taxes of one subscription are
/// rounded together, line after line, so that they add up to the rounded tax of the whole.
pub fn add_tax(line: &mut LineItem, rate: &BigDecimal, settled: &mut Settled, decimals: u8) {
    let taxable = line.amount.clone();
    let given_before = settled.tax.given.clone();
    let amount = settled.tax.portion(&taxable, rate, decimals);
    let exact_so_far = settled.tax.exact.clone();
    let rounding = Rounding { exact_so_far, given_before, decimals, amount: amount.clone() };
    line.adjust(amount, AdjustmentBasis::SalesTax { rate: rate.clone(), taxable, rounding });
}
