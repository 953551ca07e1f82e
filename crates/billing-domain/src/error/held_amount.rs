//! What a call gives away or takes that one person may not do alone.

use bigdecimal::BigDecimal;

/// What a held call comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldAmount {
    /// How much, in major units; of a change of the limit: the new one, where there is one.
    pub amount: Option<BigDecimal>,
    /// In which currency; `None`: it is a limit.
    pub currency_code: Option<String>,
}
