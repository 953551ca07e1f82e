//! Two bills side by side.

use std::collections::BTreeSet;
use std::fmt;

use bigdecimal::BigDecimal;

use super::Bill;

/// What each customer would pay before and after; its `Display` is a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// By customer id.
    pub rows: Vec<ComparisonRow>,
    /// All customers together.
    pub total: ComparisonRow,
}

/// One line of a comparison, in major units.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComparisonRow {
    /// Who.
    pub customer: String,
    /// What they pay before.
    pub before: BigDecimal,
    /// What they pay after.
    pub after: BigDecimal,
}

impl ComparisonRow {
    /// How much more they pay after.
    pub fn difference(&self) -> BigDecimal {
        &self.after - &self.before
    }
}

impl Comparison {
    pub(super) fn of(before: &Bill, after: &Bill) -> Self {
        let (before, after) = (before.totals(), after.totals());
        let customers: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let row = |customer| ComparisonRow {
            customer: format!("{customer}"),
            before: before.get(customer).cloned().unwrap_or_default(),
            after: after.get(customer).cloned().unwrap_or_default(),
        };
        let total =
            ComparisonRow { customer: "total".to_owned(), before: before.values().sum(), after: after.values().sum() };
        Self { rows: customers.into_iter().map(row).collect(), total }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<16} {:>12} {:>12} {:>12}", "customer", "before", "after", "difference")?;
        for row in self.rows.iter().chain([&self.total]) {
            let [before, after, difference] =
                [&row.before, &row.after, &row.difference()].map(|amount| amount.with_scale(2).to_plain_string());
            writeln!(f, "{:<16} {before:>12} {after:>12} {difference:>12}", row.customer)?;
        }
        Ok(())
    }
}
