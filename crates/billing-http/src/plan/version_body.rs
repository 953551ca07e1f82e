//! What a plan version is made from.

use bigdecimal::BigDecimal;
use billing_domain::customer::CustomerId;
use billing_domain::id::{FeatureId, MetricId};
use billing_domain::period::{AnchorError, Anchors, Interval, IntervalUnit};
use billing_domain::plan::{ChargeBehavior, ChargeTiming, PrepaidCharge, PriceAdjustment, PriceAdjustmentKind};
use billing_domain::tier::{BatchRounding, StepKind, Tier, TierFault, TierFaultCode, TierPrice, TierSchedule};
use billing_domain::workflow::{ActiveFrom, MakeActiveType, NewComponent, NewPlanVersion, NewRecurringCharge};
use billing_domain::{FieldCode, FieldError, FieldErrors};

use crate::wire::{Instant, Number, Patch, body, read_through, words_of};

words_of! { MakeActiveType }

body! {
    /// A new plan version.
    PlanVersionBody {
        /// Its number; one more than the highest when missing.
        optional version: u32,
        /// A name in place of the plan's.
        optional localized_name: String,
        /// What it is.
        optional description: String,
        /// Code of the currency that everything in it is priced in.
        required currency_code: String,
        /// What is charged by usage.
        optional components: Vec<NewComponent>,
        /// What is charged by time.
        optional recurring_charges: Vec<Fee>,
        /// Ids of the features it grants.
        optional features: Vec<FeatureId>,
        /// What makes every period dearer or cheaper as a whole.
        optional price_adjustment: PriceAdjustment,
        /// The day of the month, 1 to 31, that periods are aligned to.
        optional day_anchor: u8,
        /// The month, 1 to 12, that quarters and years are aligned to.
        optional month_anchor: u8,
        /// Ids of the customers it is made for; none: it is public.
        optional target_customers: Vec<CustomerId>,
        /// From when on it can be subscribed to: at once when missing, not yet when null.
        patch active_from: Instant,
        /// Until when it can be subscribed to.
        optional active_to: Instant,
        /// What becomes of the versions it takes the place of; `replace_on_renewal` when missing.
        optional make_active_type: MakeActiveType,
    }
}

impl PlanVersionBody {
    fn read(self) -> Result<NewPlanVersion, FieldErrors> {
        let anchors = Anchors::new(self.day_anchor, self.month_anchor).map_err(|error| {
            let attr = match error {
                AnchorError::Day => "day_anchor",
                AnchorError::Month => "month_anchor",
            };
            FieldErrors(vec![FieldError::new(attr, FieldCode::Invalid, error.to_string())])
        })?;
        Ok(NewPlanVersion {
            number: self.version,
            localized_name: self.localized_name,
            description: self.description,
            currency_code: self.currency_code,
            components: self.components.unwrap_or_default(),
            recurring_charges: fees(self.recurring_charges, ChargeBehavior::Prorate),
            features: self.features.unwrap_or_default(),
            price_adjustment: self.price_adjustment,
            anchors,
            target_customers: self.target_customers.unwrap_or_default(),
            active_from: match self.active_from {
                Patch::Keep => ActiveFrom::Now,
                Patch::Clear => ActiveFrom::NotStarted,
                Patch::Set(Instant(instant)) => ActiveFrom::At(instant),
            },
            active_to: self.active_to.map(|Instant(instant)| instant),
            make_active_type: self.make_active_type.unwrap_or(MakeActiveType::ReplaceOnRenewal),
        })
    }
}

body! {
    /// A metered part of a plan version.
    ComponentBody {
        /// What is metered.
        required metric_id: MetricId,
        /// What it costs, in order.
        required tiers: Vec<Tier>,
        /// Whether the one tier that holds the whole quantity prices all of it.
        optional bulk_pricing_enabled: bool,
        /// How often it is invoiced; once a period when missing.
        optional invoicing_interval_unit: IntervalUnit,
        /// So many units; 1 when missing.
        optional invoicing_interval_count: u32,
        /// How often usage starts again from zero; once a period when missing.
        optional reset_interval_unit: IntervalUnit,
        /// So many units; 1 when missing.
        optional reset_interval_count: u32,
        /// Units paid for in advance.
        optional prepaid_charge: PrepaidCharge,
    }
}

impl ComponentBody {
    fn read(self) -> Result<NewComponent, FieldErrors> {
        let mut errors = FieldErrors::default();
        let tiers = TierSchedule::new(self.tiers, self.bulk_pricing_enabled.unwrap_or(false));
        let tiers = tiers.map_err(|faults| FieldErrors(faults.into_iter().map(field_error).collect()));
        let tiers = errors.keep_all("", tiers);
        let invoicing = interval("invoicing", self.invoicing_interval_unit, self.invoicing_interval_count);
        let reset = interval("reset", self.reset_interval_unit, self.reset_interval_count);
        match (tiers, errors.keep("", invoicing), errors.keep("", reset)) {
            (Some(tiers), Some(invoicing_interval), Some(reset_interval)) => {
                let (metric, prepaid_charge) = (self.metric_id, self.prepaid_charge);
                Ok(NewComponent { metric, tiers, invoicing_interval, reset_interval, prepaid_charge })
            }
            _ => Err(errors),
        }
    }
}

/// Every so many units; `which` is the front part of the fields' names.
fn interval(which: &str, unit: Option<IntervalUnit>, count: Option<u32>) -> Result<Option<Interval>, FieldError> {
    match (unit, count) {
        (None, None) => Ok(None),
        (None, Some(_)) => {
            let detail = "A count needs a unit.";
            Err(FieldError::new(format!("{which}_interval_unit"), FieldCode::Required, detail))
        }
        (Some(unit), count) => Interval::new(unit, count.unwrap_or(1)).map(Some).map_err(|error| {
            FieldError::new(format!("{which}_interval_count"), FieldCode::MinValue, error.to_string())
        }),
    }
}

body! {
    /// A price for a range of quantities.
    TierBody {
        /// How it is priced.
        required r#type: StepKind,
        /// Where it starts: 0 for the first, else the end before it or one more.
        required range_start: Number,
        /// The last quantity inside; without end when missing.
        optional range_end: Number,
        /// For `per_unit` the price of a batch, for `flat` the price of the tier.
        optional cost_per_batch: Number,
        /// For `per_unit`: metric units in a batch; 1 when missing.
        optional metric_units_per_batch: Number,
        /// For `per_unit`: how a part of a batch counts; as a part when missing.
        optional batch_rounding_type: BatchRounding,
    }
}

impl TierBody {
    fn read(self) -> Result<Tier, FieldErrors> {
        let cost = self.cost_per_batch.map(|Number(cost)| cost).ok_or_else(|| {
            FieldErrors(vec![FieldError::new("cost_per_batch", FieldCode::Required, "This field is required.")])
        });
        let price = match self.r#type {
            StepKind::Free => TierPrice::Free,
            StepKind::Flat => TierPrice::Flat { cost: cost? },
            StepKind::PerUnit => TierPrice::PerUnit {
                cost_per_batch: cost?,
                metric_units_per_batch: self.metric_units_per_batch.map_or(BigDecimal::from(1), |Number(units)| units),
                batch_rounding: self.batch_rounding_type,
            },
        };
        let range_end = self.range_end.map(|Number(end)| end);
        Ok(Tier { range_start: self.range_start.0, range_end, price })
    }
}

fn field_error(fault: TierFault) -> FieldError {
    let code = match fault.code {
        TierFaultCode::Required => FieldCode::Empty,
        TierFaultCode::TooMany => FieldCode::ListTooLong,
        TierFaultCode::Negative | TierFaultCode::NotPositive => FieldCode::MinValue,
        TierFaultCode::FirstNotZero
        | TierFaultCode::Gap
        | TierFaultCode::Overlap
        | TierFaultCode::EmptyRange
        | TierFaultCode::OpenEndNotLast => FieldCode::Invalid,
    };
    let attr = match fault.field {
        "tiers" => "tiers".to_owned(),
        field => format!("tiers.{}.{field}", fault.tier),
    };
    FieldError::new(attr, code, fault.detail)
}

body! {
    /// Units of a component that are paid for in advance.
    PrepaidChargeBody {
        /// How many; when missing, each subscription must say.
        optional units: Number,
        /// Whether a cut interval costs less; `prorate` when missing.
        optional charge_behavior: ChargeBehavior,
    }
}

impl PrepaidChargeBody {
    fn read(self) -> Result<PrepaidCharge, FieldErrors> {
        let behavior = self.charge_behavior.unwrap_or(ChargeBehavior::Prorate);
        Ok(PrepaidCharge { units: self.units.map(|Number(units)| units), behavior })
    }
}

body! {
    /// A part of a plan version that is charged by time.
    RecurringChargeBody {
        /// Its name, unique in the version.
        required name: String,
        /// What one full interval costs.
        required amount: Number,
        /// Whether it is charged before or after the time it is for.
        required charge_timing: ChargeTiming,
        /// Whether a cut interval costs less; when missing `full` in an add-on that is charged once (`one_time`), otherwise `prorate`.
        optional charge_behavior: ChargeBehavior,
        /// How often it is invoiced; once a period when missing.
        optional invoicing_interval_unit: IntervalUnit,
        /// So many units; 1 when missing.
        optional invoicing_interval_count: u32,
        /// How often it is charged anew; once a period when missing.
        optional reset_interval_unit: IntervalUnit,
        /// So many units; 1 when missing.
        optional reset_interval_count: u32,
    }
}

/// A recurring charge that was read. What it costs when nobody has said its behaviour depends on what it is part of.
#[derive(Clone, Debug)]
pub struct Fee {
    charge: NewRecurringCharge,
    is_behavior_said: bool,
}

/// The recurring charges of a body, which behave by `default` unless they say otherwise.
pub fn fees(read: Option<Vec<Fee>>, default: ChargeBehavior) -> Vec<NewRecurringCharge> {
    let settled = |Fee { charge, is_behavior_said }| {
        let behavior = if is_behavior_said { charge.behavior } else { default };
        NewRecurringCharge { behavior, ..charge }
    };
    read.unwrap_or_default().into_iter().map(settled).collect()
}

impl RecurringChargeBody {
    fn read(self) -> Result<Fee, FieldErrors> {
        let mut errors = FieldErrors::default();
        let invoicing = interval("invoicing", self.invoicing_interval_unit, self.invoicing_interval_count);
        let reset = interval("reset", self.reset_interval_unit, self.reset_interval_count);
        let (invoicing_interval, reset_interval) = (errors.keep("", invoicing), errors.keep("", reset));
        let charge = NewRecurringCharge {
            name: self.name,
            amount: self.amount.0,
            timing: self.charge_timing,
            behavior: self.charge_behavior.unwrap_or(ChargeBehavior::Prorate),
            invoicing_interval: invoicing_interval.flatten(),
            reset_interval: reset_interval.flatten(),
        };
        errors.finish(Fee { charge, is_behavior_said: self.charge_behavior.is_some() })
    }
}

body! {
    /// What makes every period dearer or cheaper as a whole.
    PriceAdjustmentBody {
        /// Its name, as invoices show it.
        required price_adjustment_name: String,
        /// What it is.
        optional price_adjustment_description: String,
        /// How the amount is meant.
        required price_adjustment_type: PriceAdjustmentKind,
        /// Percent, or an amount; negative is a discount.
        required price_adjustment_amount: Number,
    }
}

impl PriceAdjustmentBody {
    fn read(self) -> Result<PriceAdjustment, FieldErrors> {
        Ok(PriceAdjustment {
            name: self.price_adjustment_name,
            description: self.price_adjustment_description,
            kind: self.price_adjustment_type,
            amount: self.price_adjustment_amount.0,
        })
    }
}

read_through! {
    NewPlanVersion = PlanVersionBody;
    NewComponent = ComponentBody;
    Tier = TierBody;
    PrepaidCharge = PrepaidChargeBody;
    Fee = RecurringChargeBody;
    PriceAdjustment = PriceAdjustmentBody;
}
