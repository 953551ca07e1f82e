//! One-off lines: something that is charged once and belongs to no subscription.
//!
//! What waits for the customer's next invoice is kept with the customer, and can be taken away again; what is billed is a line of that
//! invoice, and nowhere else.
//!
//! Source: `docs/pricing.md`, "One-off lines".

use bigdecimal::BigDecimal;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::decimal;
use crate::id::OneOffLineId;
use crate::period::{Period, instant};

/// Most lines of a customer that wait.
pub const WAITING_MAX: usize = 100;

/// Something that is charged once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneOffLine {
    /// Its id.
    pub id: OneOffLineId,
    /// What it is for: the name of its line.
    pub name: String,
    /// How much was sold, where it is priced by the unit.
    #[serde(with = "decimal::optional_number")]
    pub quantity: Option<BigDecimal>,
    /// What one of it costs, in major units.
    #[serde(with = "decimal::optional_number")]
    pub unit_amount: Option<BigDecimal>,
    /// What it comes to before tax, in whole minor units; above 0.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
    /// What it is billed in.
    pub currency_code: String,
    /// Whether sales tax is added, at the rate of the invoice's day.
    pub is_taxed: bool,
    /// The time that it is for; empty, at the moment at which it was made, where it is for none.
    pub period: Period,
    /// When it was made, in the customer's own time.
    #[serde(with = "instant")]
    pub created_at: OffsetDateTime,
}
