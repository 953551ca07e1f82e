//! Tiers that fit together.

use bigdecimal::{BigDecimal, One, Signed, Zero};
use serde::{Deserialize, Serialize};

use super::{Tier, TierPrice};

/// Most tiers in one schedule.
pub const TIERS_MAX: usize = 100;

choices! {
    /// What can be wrong with a tier.
    pub TierFaultCode {
        /// There is no tier at all.
        Required = "required",
        /// There are more than [`TIERS_MAX`].
        TooMany = "too_many",
        /// A price is below zero.
        Negative = "negative",
        /// A batch has no units.
        NotPositive = "not_positive",
        /// The first tier does not start at 0.
        FirstNotZero = "first_not_zero",
        /// The tier starts after the end of the one before it, so some quantity has no price.
        Gap = "gap",
        /// The tier starts before the end of the one before it, so some quantity has two prices.
        Overlap = "overlap",
        /// The tier ends before it starts, or where it starts with nothing to price there.
        EmptyRange = "empty_range",
        /// A tier without end has another behind it.
        OpenEndNotLast = "open_end_not_last",
    }
}

/// One thing wrong with one tier.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierFault {
    /// Which tier, from 0. A fault of the list as a whole says 0 and names the field `tiers`.
    pub tier: usize,
    /// Which of its fields.
    pub field: &'static str,
    /// What is wrong.
    pub code: TierFaultCode,
    /// The same as a sentence.
    pub detail: String,
}

/// Tiers that start at 0, touch each other, and price every quantity once.
///
/// ```
/// use billing_domain::decimal::{parse, plain};
/// use billing_domain::tier::{Tier, TierPrice, TierSchedule};
///
/// let number = |text| parse(text).unwrap();
/// let free = Tier { range_start: number("0"), range_end: Some(number("50")), price: TierPrice::Free };
/// let cost_per_batch = number("0.01");
/// let price = TierPrice::PerUnit { cost_per_batch, metric_units_per_batch: number("1"), batch_rounding: None };
/// let rest = Tier { range_start: number("50"), range_end: None, price };
///
/// let schedule = TierSchedule::new(vec![free.clone(), rest.clone()], false).unwrap();
/// assert_eq!(plain(&schedule.rate(&number("50")).amount), "0"); // a boundary belongs to the lower tier
/// assert_eq!(plain(&schedule.rate(&number("51")).amount), "0.01");
///
/// // In bulk the tier that holds the quantity prices all of it, the free fifty too.
/// let bulk = TierSchedule::new(vec![free, rest], true).unwrap();
/// assert_eq!(plain(&bulk.rate(&number("51")).amount), "0.51");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct TierSchedule {
    tiers: Vec<Tier>,
    bulk: bool,
}

/// A schedule as written, not yet checked.
#[derive(Deserialize)]
struct Unchecked {
    tiers: Vec<Tier>,
    bulk: bool,
}

impl TryFrom<Unchecked> for TierSchedule {
    type Error = String;

    fn try_from(unchecked: Unchecked) -> Result<Self, String> {
        Self::restore(unchecked.tiers, unchecked.bulk).map_err(|faults| {
            let details: Vec<String> = faults.into_iter().map(|fault| fault.detail).collect();
            details.join(" ")
        })
    }
}

impl TierSchedule {
    /// Checks `tiers`, which must be in order; `bulk` makes the one tier that holds a quantity price all of it.
    ///
    /// # Errors
    /// Every [`TierFault`] there is, in the order of the tiers.
    pub fn new(tiers: Vec<Tier>, bulk: bool) -> Result<Self, Vec<TierFault>> {
        let faults = faults(&tiers);
        if faults.is_empty() { Ok(Self { tiers, bulk }) } else { Err(faults) }
    }

    /// [`TierSchedule::new`] of what was accepted before. A first tier of nothing, `0-0`, once was; it prices nothing and
    /// stays as it is, since prices that somebody agreed to never change.
    ///
    /// # Errors
    /// Every other [`TierFault`] there is.
    pub fn restore(tiers: Vec<Tier>, bulk: bool) -> Result<Self, Vec<TierFault>> {
        let mut faults = faults(&tiers);
        let once_accepted = |fault: &TierFault| {
            let is_first = fault.tier == 0 && fault.code == TierFaultCode::EmptyRange;
            is_first && tiers[0].range_end.as_ref() == Some(&tiers[0].range_start)
        };
        faults.retain(|fault| !once_accepted(fault));
        if faults.is_empty() { Ok(Self { tiers, bulk }) } else { Err(faults) }
    }

    /// The tiers, in order.
    pub fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// Whether the one tier that holds a quantity prices all of it.
    pub fn is_bulk(&self) -> bool {
        self.bulk
    }

    /// What may be used for nothing: the first tier's end if that tier is free, else 0; none when it has no end.
    pub fn free_limit(&self) -> Option<BigDecimal> {
        match self.tiers.first() {
            Some(Tier { price: TierPrice::Free, range_end, .. }) => range_end.clone(),
            _ => Some(BigDecimal::zero()),
        }
    }

    /// What may be used at all: the last tier's end; none when it has no end.
    pub fn total_limit(&self) -> Option<BigDecimal> {
        self.tiers.last().and_then(|tier| tier.range_end.clone())
    }
}

/// Every fault of a list of tiers.
fn faults(tiers: &[Tier]) -> Vec<TierFault> {
    if tiers.is_empty() {
        return vec![fault(0, "tiers", TierFaultCode::Required, "At least one tier is required.")];
    }
    if tiers.len() > TIERS_MAX {
        let detail = format!("There can be no more than {TIERS_MAX} tiers.");
        return vec![fault(0, "tiers", TierFaultCode::TooMany, detail)];
    }
    let mut faults = Vec::new();
    for (index, tier) in tiers.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| tiers.get(index));
        range_faults(index, tier, before, index + 1 == tiers.len(), &mut faults);
        price_faults(index, &tier.price, &mut faults);
    }
    faults
}

fn range_faults(index: usize, tier: &Tier, before: Option<&Tier>, last: bool, faults: &mut Vec<TierFault>) {
    match before {
        None if !tier.range_start.is_zero() => {
            faults.push(fault(index, "range_start", TierFaultCode::FirstNotZero, "The first tier starts at 0."));
        }
        // A tier without end before this one is that tier's fault.
        Some(Tier { range_end: Some(end), .. }) if !touches(end, &tier.range_start) => {
            let code = if tier.range_start < *end { TierFaultCode::Overlap } else { TierFaultCode::Gap };
            let detail = "A tier starts where the one before it ends, or one unit later.";
            faults.push(fault(index, "range_start", code, detail));
        }
        _ => {}
    }
    match &tier.range_end {
        None if !last => {
            let detail = "Only the last tier may be without an end.";
            faults.push(fault(index, "range_end", TierFaultCode::OpenEndNotLast, detail));
        }
        Some(end) if is_empty(tier, end, before) => {
            let detail = "A tier ends after it starts.";
            faults.push(fault(index, "range_end", TierFaultCode::EmptyRange, detail));
        }
        _ => {}
    }
}

fn touches(end: &BigDecimal, next_start: &BigDecimal) -> bool {
    next_start == end || *next_start == end + BigDecimal::one()
}

/// Whether the tier has nothing to price. In whole units `4-4` behind `0-3` holds the fourth unit, and a first flat tier
/// `0-0` is a price for having the component at all; free or by the unit it would be no price of anything.
fn is_empty(tier: &Tier, end: &BigDecimal, before: Option<&Tier>) -> bool {
    match before.and_then(|before| before.range_end.as_ref()) {
        Some(edge) => *end < tier.range_start || end <= edge,
        None if matches!(tier.price, TierPrice::Flat { .. }) => *end < tier.range_start,
        None => *end <= tier.range_start,
    }
}

fn price_faults(index: usize, price: &TierPrice, faults: &mut Vec<TierFault>) {
    let (cost, units) = match price {
        TierPrice::Free => return,
        TierPrice::Flat { cost } => (cost, None),
        TierPrice::PerUnit { cost_per_batch, metric_units_per_batch, .. } => {
            (cost_per_batch, Some(metric_units_per_batch))
        }
    };
    if cost.is_negative() {
        faults.push(fault(index, "cost_per_batch", TierFaultCode::Negative, "A price is not below 0."));
    }
    if units.is_some_and(|units| !units.is_positive()) {
        let detail = "A batch has more than 0 units.";
        faults.push(fault(index, "metric_units_per_batch", TierFaultCode::NotPositive, detail));
    }
}

fn fault(tier: usize, field: &'static str, code: TierFaultCode, detail: impl Into<String>) -> TierFault {
    TierFault { tier, field, code, detail: detail.into() }
}
