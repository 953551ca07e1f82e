//! The walk through the tiers.

use bigdecimal::{BigDecimal, Signed, Zero};
use serde::{Deserialize, Serialize};

use super::{BatchRounding, Tier, TierPrice, TierSchedule};
use crate::decimal;

/// What a quantity costs, and how it came to that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rating {
    /// The sum of the steps' amounts: major units, unrounded.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
    /// Every tier entered, in order; in bulk the one that prices.
    pub walk: Vec<TierStep>,
}

choices! {
    /// What kind of price a tier charges.
    pub StepKind {
        /// Nothing.
        Free = "free",
        /// Once, when entered.
        Flat = "flat",
        /// By batches.
        PerUnit = "per_unit",
    }
}

/// One tier's part in a rating, enough to compute it again: [`TierStep::recomputed`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TierStep {
    /// Which tier, from 0.
    #[serde(with = "decimal::integer")]
    pub tier: usize,
    /// What kind of price it charges.
    pub kind: StepKind,
    /// The tier's start as written down.
    #[serde(with = "decimal::number")]
    pub range_start: BigDecimal,
    /// The tier's end, if it has one.
    #[serde(with = "decimal::optional_number", default)]
    pub range_end: Option<BigDecimal>,
    /// The metric units priced in this tier.
    #[serde(with = "decimal::number")]
    pub quantity: BigDecimal,
    /// For `per_unit`: how many batches that is, after its rounding.
    #[serde(with = "decimal::optional_number", default)]
    pub batches: Option<BigDecimal>,
    /// For `per_unit` the price of a batch, for `flat` the price of the tier.
    #[serde(with = "decimal::optional_number", default)]
    pub cost_per_batch: Option<BigDecimal>,
    /// For `per_unit`: the metric units in a batch.
    #[serde(with = "decimal::optional_number", default)]
    pub metric_units_per_batch: Option<BigDecimal>,
    /// For `per_unit`: how a part of a batch counted.
    #[serde(default)]
    pub batch_rounding: Option<BatchRounding>,
    /// What the tier charges: major units, unrounded.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
}

impl TierStep {
    fn new(index: usize, tier: &Tier, quantity: BigDecimal) -> Self {
        let mut step = Self {
            tier: index,
            kind: StepKind::Free,
            range_start: tier.range_start.clone(),
            range_end: tier.range_end.clone(),
            quantity,
            batches: None,
            cost_per_batch: None,
            metric_units_per_batch: None,
            batch_rounding: None,
            amount: BigDecimal::zero(),
        };
        match &tier.price {
            TierPrice::Free => {}
            TierPrice::Flat { cost } => {
                step.kind = StepKind::Flat;
                step.cost_per_batch = Some(cost.clone());
            }
            TierPrice::PerUnit { cost_per_batch, metric_units_per_batch, batch_rounding } => {
                let rounding = batch_rounding.unwrap_or(BatchRounding::NoRounding);
                step.kind = StepKind::PerUnit;
                step.batches = Some(rounding.batches(&step.quantity, metric_units_per_batch));
                step.cost_per_batch = Some(cost_per_batch.clone());
                step.metric_units_per_batch = Some(metric_units_per_batch.clone());
                step.batch_rounding = *batch_rounding;
            }
        }
        step.amount = step.recomputed();
        step
    }

    /// The amount again, from the other fields alone: cost x batches, where parts of a batch are multiplied
    /// before they are divided.
    pub fn recomputed(&self) -> BigDecimal {
        let zero = BigDecimal::zero();
        let cost = self.cost_per_batch.as_ref().unwrap_or(&zero);
        match (self.kind, self.batch_rounding) {
            (StepKind::Free, _) => zero,
            (StepKind::Flat, _) => cost.clone(),
            (StepKind::PerUnit, None | Some(BatchRounding::NoRounding)) => {
                let units = self.metric_units_per_batch.as_ref().unwrap_or(&zero);
                decimal::divide(&(cost * &self.quantity), units)
            }
            (StepKind::PerUnit, Some(_)) => cost * self.batches.as_ref().unwrap_or(&zero),
        }
    }
}

impl TierSchedule {
    /// The price of `quantity` units: each tier prices only the units inside it; in bulk the one tier that
    /// holds the quantity prices all of it.
    ///
    /// - **Units:** `quantity` in metric units (for example API calls); the result in major units of the
    ///   currency, unrounded. Round once, on the invoice line.
    /// - **Errors:** none. A bad schedule was refused by [`TierSchedule::new`].
    /// - **Source:** `docs/pricing.md`, "Tiers" and "Bulk".
    ///
    /// A quantity on a boundary is wholly in the lower tier. Nothing is charged beyond the last end. A negative
    /// quantity (more taken back than used) is priced as 0, where a first flat tier still charges.
    pub fn rate(&self, quantity: &BigDecimal) -> Rating {
        let zero = BigDecimal::zero();
        let quantity = if quantity.is_negative() { &zero } else { quantity };
        let walk = if self.is_bulk() { self.bulk_step(quantity) } else { self.graduated_steps(quantity) };
        let amount = walk.iter().map(|step| &step.amount).sum();
        Rating { amount, walk }
    }

    fn graduated_steps(&self, quantity: &BigDecimal) -> Vec<TierStep> {
        let mut edge = BigDecimal::zero();
        let mut walk = Vec::new();
        for (index, tier) in self.tiers().iter().enumerate() {
            if index > 0 && *quantity <= edge {
                break;
            }
            let upper = tier.range_end.as_ref().map_or(quantity, |end| end.min(quantity));
            walk.push(TierStep::new(index, tier, upper - &edge));
            edge.clone_from(upper);
        }
        walk
    }

    fn bulk_step(&self, quantity: &BigDecimal) -> Vec<TierStep> {
        let holds = |tier: &Tier| tier.range_end.as_ref().is_none_or(|end| quantity <= end);
        let last = self.tiers().len() - 1;
        let index = self.tiers().iter().position(holds).unwrap_or(last);
        let tier = &self.tiers()[index];
        let priced = tier.range_end.as_ref().map_or(quantity, |end| end.min(quantity));
        vec![TierStep::new(index, tier, priced.clone())]
    }
}
