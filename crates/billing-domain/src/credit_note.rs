//! Credit notes: documents that take back a part of what an issued invoice charged, line by line.
//!
//! A note never changes but for being voided. What of a line was credited has that line's tax: the parts of all notes on a line are
//! portions, so that notes which together credit a whole line take back exactly its base and its tax.
//!
//! Source: `docs/pricing.md`, "Credit notes".

use bigdecimal::{BigDecimal, Signed, Zero};
use time::OffsetDateTime;

use crate::decimal::divide;
use crate::id::{CreditId, CreditNoteId, CustomerKey, InvoiceId, LineId};
use crate::invoice::{self, AdjustmentKind, LineItem, Trace};
use crate::money::round_half_away_from_zero;

pub use crate::invoice::{CreditNoteBrief, Settlement};

/// An issued credit note. Nothing on it ever changes but whether it is voided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditNote {
    /// Its id.
    pub id: CreditNoteId,
    /// `CN-YYMMDD-NNNNNN`: the UTC day of issue and a sequence of the organization without gaps.
    pub number: String,
    /// Whose it is.
    pub customer: CustomerKey,
    /// The invoice that it takes back from.
    pub invoice: InvoiceId,
    /// What it is in: the invoice's currency.
    pub currency_code: String,
    /// When it was issued, in the customer's own time.
    pub issued_at: OffsetDateTime,
    /// The sum of its lines, with tax, above 0.
    pub amount: BigDecimal,
    /// What of the amount was not due any more: it became [`CreditNote::credit`], or was refunded outside.
    pub credited: BigDecimal,
    /// Where the money goes.
    pub settlement: Settlement,
    /// The credit that it became.
    pub credit: Option<CreditId>,
    /// Why it was issued.
    pub reason: String,
    /// What names a refund outside: a bank's or a card processor's id.
    pub reference: Option<String>,
    /// What is credited, line by line.
    pub lines: Vec<CreditNoteLine>,
    /// Whether it settles what corrected events make too much of what the lines charged: a part of the price comes back, as it would
    /// with the next invoice. Otherwise it waives a part of the price, whatever that is.
    pub is_correction: bool,
    /// When it was voided.
    pub voided_at: Option<OffsetDateTime>,
}

/// What of one line of the invoice is credited, in whole minor units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditNoteLine {
    /// The line.
    pub line: LineId,
    /// How much, and what of it is base and tax.
    pub part: LinePart,
}

/// A part of the amount of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinePart {
    /// With adjustments and tax.
    pub amount: BigDecimal,
    /// What of the line's base.
    pub base: BigDecimal,
    /// What of the line's tax.
    pub tax: BigDecimal,
}

/// A credit note that is to be issued: its number comes with the issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCreditNote(CreditNote);

impl NewCreditNote {
    /// Of a note; its number does not count.
    pub fn new(note: CreditNote) -> Self {
        Self(note)
    }

    /// The note without its number.
    pub fn unnumbered(&self) -> &CreditNote {
        &self.0
    }

    /// The note, when it is the `sequence`th of its organization.
    pub fn numbered(self, sequence: u64) -> CreditNote {
        let number = format!("{NUMBER_PREFIX}{}", invoice::number(self.0.issued_at, sequence));
        CreditNote { number, ..self.0 }
    }
}

/// What the numbers of credit notes begin with.
const NUMBER_PREFIX: &str = "CN-";

impl CreditNote {
    /// What its invoice says of it.
    pub fn brief(&self) -> CreditNoteBrief {
        CreditNoteBrief {
            id: self.id,
            number: self.number.clone(),
            amount: self.amount.clone(),
            settlement: self.settlement,
            issued_at: self.issued_at,
            voided_at: self.voided_at,
        }
    }

    /// Whether it was not voided.
    pub fn stands(&self) -> bool {
        self.voided_at.is_none()
    }
}

/// Whether credit notes can take something back of a line: of one that charges for something. What was paid for a credit is got back by
/// voiding the credit's invoice, and what an invoice turned into a credit is no charge.
pub fn is_creditable(line: &LineItem) -> bool {
    let is_charge = !matches!(line.trace, Trace::CreditPurchase { .. } | Trace::CreditGranted { .. });
    is_charge && line.amount.is_positive()
}

impl LinePart {
    /// All of a line.
    pub fn whole(line: &LineItem) -> Self {
        let is_tax = |kind| kind == AdjustmentKind::SalesTax;
        let taxes = line.adjustments.iter().filter(|adjustment| is_tax(adjustment.kind()));
        let tax = taxes.map(|adjustment| &adjustment.amount).sum();
        Self { amount: line.amount.clone(), base: line.base.clone(), tax }
    }

    /// What of it is price, with adjustments and without tax.
    pub fn net(&self) -> BigDecimal {
        &self.amount - &self.tax
    }

    /// Whether no more is wanted of it, in amount, base and tax, than `before` left.
    pub fn has_left(&self, before: &Self, wanted: &Self) -> bool {
        let fits = |whole: &BigDecimal, before: &BigDecimal, wanted: &BigDecimal| {
            !wanted.is_negative() && before + wanted <= *whole
        };
        fits(&self.amount, &before.amount, &wanted.amount)
            && fits(&self.base, &before.base, &wanted.base)
            && fits(&self.tax, &before.tax, &wanted.tax)
            // What is left by the end is all of each.
            && (before.amount != &self.amount - &wanted.amount
                || (&before.base + &wanted.base, &before.tax + &wanted.tax) == (self.base.clone(), self.tax.clone()))
    }

    /// Adds another part of the same line.
    pub fn add(&mut self, other: &Self) {
        self.amount += &other.amount;
        self.base += &other.base;
        self.tax += &other.tax;
    }

    /// The next part of `amount` of a line of which `before` was credited: base and tax in proportion, rounded as running sums, so that
    /// parts which add up to the line's amount add up to its base and tax.
    ///
    /// - **Units:** major units; `amount` in whole minor units, at most what `before` left.
    /// - **Errors:** none.
    /// - **Source:** `docs/pricing.md`, "Credit notes".
    ///
    /// ```
    /// use billing_domain::credit_note::LinePart;
    /// use billing_domain::{decimal::plain, BigDecimal};
    ///
    /// let cents = |n: i32| BigDecimal::new(n.into(), 2);
    /// let line = LinePart { amount: cents(119), base: cents(100), tax: cents(19) };
    /// let mut before = LinePart::default();
    /// let taxes = [cents(40), cents(40), cents(39)].map(|amount| {
    ///     let next = line.next(&before, &amount, 2);
    ///     before.add(&next);
    ///     plain(&next.tax)
    /// });
    /// // 6.386..., 12.773... and 19 cents so far.
    /// assert_eq!(taxes, ["0.06", "0.07", "0.06"]);
    /// assert_eq!(before, line);
    /// ```
    #[must_use]
    pub fn next(&self, before: &Self, amount: &BigDecimal, decimals: u8) -> Self {
        let left = Self {
            amount: &self.amount - &before.amount,
            base: &self.base - &before.base,
            tax: &self.tax - &before.tax,
        };
        let so_far = &before.amount + amount;
        let tax = share(&self.tax, &so_far, &self.amount, decimals) - &before.tax;
        // Notes that were voided in between leave the running sum where no sequence of notes would have brought it.
        let least = (amount - left.net()).max(BigDecimal::zero());
        let tax = tax.min(amount.clone().min(left.tax.clone())).max(least);
        let net_so_far = before.net() + amount - &tax;
        let base = share(&self.base, &net_so_far, &self.net(), decimals) - &before.base;
        let (lowest, highest) =
            if left.base.is_negative() { (left.base, BigDecimal::zero()) } else { (BigDecimal::zero(), left.base) };
        Self { amount: amount.clone(), base: base.min(highest).max(lowest), tax }
    }
}

/// `whole` in the proportion of `part` to `of`, rounded.
fn share(whole: &BigDecimal, part: &BigDecimal, of: &BigDecimal, decimals: u8) -> BigDecimal {
    if of.is_zero() {
        return BigDecimal::zero();
    }
    round_half_away_from_zero(&divide(&(whole * part), of), decimals)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decimal::plain;
    use crate::decimal::tests::{laws, number_of};

    fn part(amount: &str, base: &str, tax: &str) -> LinePart {
        LinePart { amount: number_of(amount), base: number_of(base), tax: number_of(tax) }
    }

    #[test]
    fn parts_have_the_tax_of_their_line() {
        #[rustfmt::skip]
        let cases: [(LinePart, &[&str], u8, &[(&str, &str)], &str); 6] = [
            // line,                          credited,               decimals, (base, tax),                              why
            (part("120", "100", "20"),        &["12", "108"],         2, &[("10", "2"), ("90", "18")],                    "twenty percent"),
            (part("1.19", "1", "0.19"),       &["0.4", "0.4", "0.39"], 2, &[("0.34", "0.06"), ("0.33", "0.07"), ("0.33", "0.06")], "running sums: 6.39, 12.77, 19 cents"),
            (part("108", "100", "18"),        &["54", "54"],          2, &[("50", "9"), ("50", "9")],                     "a discount of 10 belongs to the base in proportion"),
            (part("11", "10", "1"),           &["3", "3", "5"],       0, &[("3", "0"), ("2", "1"), ("5", "0")],           "yen are not split"),
            (part("30", "30", "0"),           &["0.01"],              2, &[("0.01", "0")],                                "no tax"),
            (part("60", "-40", "10"),         &["30", "30"],          2, &[("-20", "5"), ("-20", "5")],                   "an adjustment made a charge of what came back"),
        ];
        for (line, credited, decimals, expected, why) in cases {
            let mut before = LinePart::default();
            let found: Vec<_> = credited
                .iter()
                .map(|amount| {
                    let next = line.next(&before, &number_of(amount), decimals);
                    before.add(&next);
                    (plain(&next.base), plain(&next.tax))
                })
                .collect();
            let found: Vec<_> = found.iter().map(|(base, tax)| (base.as_str(), tax.as_str())).collect();
            assert_eq!(found, expected, "{why}");
        }
    }

    proptest! {
        #![proptest_config(laws())]

        #[test]
        fn notes_on_a_line_add_up_to_it_whichever_are_voided(
            (base, adjustment, tax) in (1..5_000_i64, -4_000..2_000_i64, 0..1_500_i64),
            cuts in prop::collection::vec((1..3_000_i64, any::<bool>()), 0..12),
        ) {
            let cents = |cents: i64| BigDecimal::new(cents.into(), 2);
            let net = (base + adjustment).max(1);
            let line = LinePart { amount: cents(net + tax), base: cents(base), tax: cents(tax) };
            let mut standing: Vec<LinePart> = Vec::new();
            for (cut, is_voided) in cuts {
                let mut before = LinePart::default();
                standing.iter().for_each(|part| before.add(part));
                let amount = cents(cut).min(&line.amount - &before.amount);
                if amount.is_positive() {
                    standing.push(line.next(&before, &amount, 2));
                }
                if is_voided && !standing.is_empty() {
                    standing.remove(0);
                }
            }
            let mut all = LinePart::default();
            standing.iter().for_each(|part| all.add(part));
            let last = line.next(&all, &(&line.amount - &all.amount), 2);
            for part in standing.iter().chain([&last]) {
                prop_assert!(!part.tax.is_negative() && !part.base.is_negative() && !part.net().is_negative(), "{part:?}");
            }
            all.add(&last);
            prop_assert_eq!(all, line);
        }
    }
}
