//! Tiers written down as they are read aloud.

use crate::decimal;
use crate::error::{FieldCode, FieldErrors};
use crate::tier::{BatchRounding, Tier, TierPrice, TierSchedule};

/// The beginning of a schedule: say tier after tier how far it goes and what it costs.
///
/// Quantities and prices are decimal text, so that nothing is lost on the way.
///
/// ```
/// use billing_domain::decimal::plain;
/// use billing_domain::simulate::tiers;
/// use billing_domain::BigDecimal;
///
/// let schedule = tiers().free_to("50").per_unit_to("100", "0.01").per_unit("0.005").build()?;
/// assert_eq!(plain(&schedule.rate(&BigDecimal::from(150)).amount), "0.75");
/// // Surprising: usage beyond the last tier's end costs nothing. That end is the limit of access.
/// let limited = tiers().per_unit_to("100", "0.01").build()?;
/// assert_eq!(plain(&limited.rate(&BigDecimal::from(150)).amount), "1");
/// # Ok::<(), billing_domain::FieldErrors>(())
/// ```
pub fn tiers() -> TierBuilder {
    TierBuilder { tiers: Vec::new(), bulk: false, errors: FieldErrors::default() }
}

/// A schedule in the making; see [`tiers`].
#[derive(Clone, Debug)]
pub struct TierBuilder {
    tiers: Vec<Tier>,
    bulk: bool,
    errors: FieldErrors,
}

impl TierBuilder {
    /// From where the last tier ended up to `end`, nothing is charged.
    #[must_use]
    pub fn free_to(self, end: &str) -> Self {
        self.tier(Some(end), |_| TierPrice::Free)
    }

    /// From where the last tier ended without end, nothing is charged.
    #[must_use]
    pub fn free(self) -> Self {
        self.tier(None, |_| TierPrice::Free)
    }

    /// Up to `end`, each unit (or batch) costs `price`.
    #[must_use]
    pub fn per_unit_to(self, end: &str, price: &str) -> Self {
        self.tier(Some(end), |builder| builder.per_unit_price(price))
    }

    /// Without end, each unit (or batch) costs `price`.
    #[must_use]
    pub fn per_unit(self, price: &str) -> Self {
        self.tier(None, |builder| builder.per_unit_price(price))
    }

    /// Up to `end`, the tier costs `price` once, as soon as it is entered.
    #[must_use]
    pub fn flat_to(self, end: &str, price: &str) -> Self {
        self.tier(Some(end), |builder| TierPrice::Flat { cost: builder.number(price) })
    }

    /// Without end, the tier costs `price` once, as soon as it is entered.
    #[must_use]
    pub fn flat(self, price: &str) -> Self {
        self.tier(None, |builder| TierPrice::Flat { cost: builder.number(price) })
    }

    /// The price of the tier said last is for a batch of `units`, and not for each unit.
    ///
    /// ```
    /// use billing_domain::simulate::tiers;
    /// use billing_domain::tier::BatchRounding::RoundUp;
    ///
    /// let dear_then_cheap = tiers().per_unit_to("20000", "6").in_batches_of("1000", RoundUp).per_unit("0.002");
    /// assert!(dear_then_cheap.build().is_ok());
    /// // Where there is no price for units before it, it would price what nobody meant: the schedule is refused.
    /// assert!(tiers().in_batches_of("1000", RoundUp).per_unit("2").build().is_err());
    /// assert!(tiers().flat("2").in_batches_of("1000", RoundUp).build().is_err());
    /// ```
    #[must_use]
    pub fn in_batches_of(mut self, units: &str, rounding: BatchRounding) -> Self {
        let units = self.number(units);
        match self.tiers.last_mut().map(|tier| &mut tier.price) {
            Some(TierPrice::PerUnit { metric_units_per_batch, batch_rounding: batch @ None, .. }) => {
                (*metric_units_per_batch, *batch) = (units, Some(rounding));
            }
            _ => {
                let detail = "Batches are said once, behind the price for units that they are of.";
                self.errors.push(self.tiers.len().to_string(), FieldCode::Invalid, detail);
            }
        }
        self
    }

    /// The one tier that holds the quantity prices all of it.
    #[must_use]
    pub fn bulk(mut self) -> Self {
        self.bulk = true;
        self
    }

    /// The schedule.
    ///
    /// # Errors
    /// Text that is not a decimal, or tiers that do not fit together.
    pub fn build(self) -> Result<TierSchedule, FieldErrors> {
        let mut errors = self.errors;
        match TierSchedule::new(self.tiers, self.bulk) {
            Ok(schedule) => errors.finish(schedule),
            Err(faults) => {
                for fault in faults {
                    errors.push(format!("{}.{}", fault.tier, fault.field), FieldCode::Invalid, fault.detail);
                }
                Err(errors)
            }
        }
    }

    fn tier(mut self, end: Option<&str>, price: impl FnOnce(&mut Self) -> TierPrice) -> Self {
        let range_start = self.tiers.last().and_then(|last| last.range_end.clone()).unwrap_or_default();
        let price = price(&mut self);
        let range_end = end.map(|end| self.number(end));
        self.tiers.push(Tier { range_start, range_end, price });
        self
    }

    fn per_unit_price(&mut self, price: &str) -> TierPrice {
        let cost_per_batch = self.number(price);
        TierPrice::PerUnit { cost_per_batch, metric_units_per_batch: 1.into(), batch_rounding: None }
    }

    fn number(&mut self, text: &str) -> bigdecimal::BigDecimal {
        decimal::parse(text).unwrap_or_else(|error| {
            self.errors.push(self.tiers.len().to_string(), FieldCode::Invalid, format!("{text:?}: {error}"));
            bigdecimal::BigDecimal::default()
        })
    }
}
