//! Totals: what events come to before a metric makes a quantity of them.

use bigdecimal::BigDecimal;

/// What the events of one metric come to, before its aggregation makes a quantity of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events that count.
    pub event_count: u64,
    /// Their numbers added up.
    pub sum: BigDecimal,
    /// The greatest of them.
    pub max: Option<BigDecimal>,
    /// The least of them.
    pub min: Option<BigDecimal>,
    /// That of the latest event.
    pub latest: Option<BigDecimal>,
    /// How many different texts there are.
    pub distinct: u64,
}
