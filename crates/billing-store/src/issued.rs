//! What this process has issued, for those who watch it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bigdecimal::BigDecimal;
use billing_domain::currency::Currency;

/// Stands for all currencies that organizations have made up: what watches a service must not have a series for each.
pub const OWN_CURRENCIES: &str = "own";

/// Invoices of one currency.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuedAmount {
    /// How many.
    pub invoices: u64,
    /// What they come to in all, in major units; nothing where the units of several organizations would be added up.
    pub amount: BigDecimal,
}

/// Counts invoices by the code of their currency.
#[derive(Default)]
pub(crate) struct Issued(Mutex<BTreeMap<String, IssuedAmount>>);

impl Issued {
    /// Counts an invoice that is there for good.
    pub(crate) fn count(&self, currency_code: &str, amount: &BigDecimal) {
        let is_known = Currency::iso_4217(currency_code).is_some();
        let mut all = self.lock();
        let of_currency = all.entry(if is_known { currency_code } else { OWN_CURRENCIES }.to_owned()).or_default();
        of_currency.invoices += 1;
        if is_known {
            of_currency.amount += amount;
        }
    }

    /// All so far, by code; `own` for those that organizations have made up.
    pub(crate) fn all(&self) -> BTreeMap<String, IssuedAmount> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, IssuedAmount>> {
        // Nobody panics half way through counting.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_added_up_exactly_by_currency() {
        let issued = Issued::default();
        for (code, amount) in [("USD", "0.1"), ("USD", "0.2"), ("JPY", "7"), ("POINTS", "5"), ("STARS", "6")] {
            issued.count(code, &amount.parse().expect("a number"));
        }
        let shown = |(code, issued): (String, IssuedAmount)| (code, issued.invoices, issued.amount.to_plain_string());
        let all: Vec<_> = issued.all().into_iter().map(shown).collect();
        let expected = [("JPY", 1, "7"), ("USD", 2, "0.3"), ("own", 2, "0")];
        assert_eq!(all, expected.map(|(code, invoices, amount)| (code.to_owned(), invoices, amount.to_owned())));
    }
}
