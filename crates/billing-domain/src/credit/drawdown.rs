//! Which credits pay an invoice.

use std::cmp::Ordering;

use bigdecimal::{BigDecimal, Signed};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Credit, CreditLedger};
use crate::currency::Currency;
use crate::decimal;
use crate::id::CreditId;

/// One credit's share of an invoice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drawdown {
    /// The credit.
    #[serde(rename = "credit_id")]
    pub credit: CreditId,
    /// What it pays, in whole minor units, above 0.
    #[serde(with = "decimal::number")]
    pub amount: BigDecimal,
}

/// Which credits pay `due` on an invoice issued at `issued_at`, in the order they are drawn.
///
/// - **Order:** earliest expiry first and those without one last; then the highest cost basis, which is what
///   was paid for a unit of it; then the earliest effective; then by id.
/// - **Only:** credits of the invoice's currency, effective by the issue date and not expired then.
/// - **Units:** major units. Drawdowns are whole minor units; a remainder smaller than that stays.
/// - **Errors:** none. Nothing is drawn for an invoice of 0 or less.
/// - **Source:** `docs/pricing.md`, "Credits".
///
/// The drawdowns add up to `due` or to all that may be drawn, whichever is less. The plan changes nothing:
/// record it with [`CreditLedger::draw`].
pub fn drawdown_plan<'l>(
    ledgers: impl IntoIterator<Item = &'l CreditLedger>,
    due: &BigDecimal,
    currency: &Currency,
    issued_at: OffsetDateTime,
) -> Vec<Drawdown> {
    let usable =
        |ledger: &&CreditLedger| ledger.credit().currency_code == currency.code && ledger.credit().is_usable(issued_at);
    let mut ledgers: Vec<&CreditLedger> = ledgers.into_iter().filter(usable).collect();
    ledgers.sort_by(|left, right| order(left.credit(), right.credit()));
    let mut open = due.clone();
    let mut plan = Vec::new();
    for ledger in ledgers {
        // Cut, not rounded: a credit never pays more than is on it.
        let whole = ledger.remaining().with_scale(i64::from(currency.decimals));
        let amount = whole.min(open.clone());
        if amount.is_positive() {
            open -= &amount;
            plan.push(Drawdown { credit: ledger.credit().id, amount });
        }
    }
    plan
}

fn order(left: &Credit, right: &Credit) -> Ordering {
    let expiry = |credit: &Credit| (credit.expires_at.is_none(), credit.expires_at);
    let rest = |credit: &Credit| (credit.effective_at, credit.id);
    expiry(left)
        .cmp(&expiry(right))
        .then_with(|| compare_cost_basis(right, left))
        .then_with(|| rest(left).cmp(&rest(right)))
}

/// Paid / amount, compared by products: a quotient might not end. Amounts are above 0.
fn compare_cost_basis(left: &Credit, right: &Credit) -> Ordering {
    (&left.amount_paid * &right.amount).cmp(&(&right.amount_paid * &left.amount))
}
