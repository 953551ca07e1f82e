//! The tax of what was corrected: of each subscription no more comes back at a rate than was charged at it, and since tax is rounded on
//! each document, all of it is within one minor unit for each line and each part of a credit note that there is of it.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Signed};
use billing_domain::credit_note::CreditNote;
use billing_domain::invoice::{AdjustmentBasis, AdjustmentKind, Invoice, LineItem, PaymentStatus};
use billing_domain::testing::world::decimal;

/// What documents say of the tax of one subscription.
#[derive(Debug, Default)]
struct Taxed {
    /// What of it is billed.
    given: BigDecimal,
    /// What of it is taxed, by its rate.
    taxable: BTreeMap<BigDecimal, BigDecimal>,
    /// Lines, and parts of credit notes.
    roundings: i64,
}

impl Taxed {
    fn add(&mut self, given: &BigDecimal, rates: &[(BigDecimal, BigDecimal)]) {
        self.given += given;
        self.roundings += 1;
        for (rate, taxable) in rates {
            *self.taxable.entry(rate.normalized()).or_default() += taxable;
        }
    }
}

pub fn tax_of(line: &LineItem) -> BigDecimal {
    let taxes = line.adjustments.iter().filter(|adjustment| adjustment.kind() == AdjustmentKind::SalesTax);
    taxes.map(|adjustment| &adjustment.amount).sum()
}

/// The rates of a line, and what each is of.
pub fn rates_of(line: &LineItem) -> Vec<(BigDecimal, BigDecimal)> {
    let taxes = line.adjustments.iter().filter_map(|adjustment| match &adjustment.basis {
        AdjustmentBasis::SalesTax { rate, taxable, .. } => Some((rate * decimal("0.01"), taxable.clone())),
        AdjustmentBasis::PlanAdjustment { .. } => None,
    });
    taxes.collect()
}

/// Of all documents of a customer.
pub fn taxes_come_to_their_rates(invoices: &[Invoice], notes: &[CreditNote]) {
    let mut taxes = BTreeMap::<_, Taxed>::new();
    for invoice in invoices.iter().filter(|invoice| invoice.payment_status != PaymentStatus::Voided) {
        for (id, line) in invoice.named_lines() {
            let Some(subscription) = line.subscription else { continue };
            let taxed = taxes.entry(subscription).or_default();
            let rates = rates_of(line);
            taxed.add(&tax_of(line), &rates);
            let credited = notes.iter().filter(|note| note.stands()).flat_map(|note| &note.lines);
            for part in credited.filter(|part| part.line == id).map(|credited| &credited.part) {
                // What charges has one.
                let rate = rates.first().map(|(rate, _)| (rate.clone(), -part.net()));
                taxed.add(&-&part.tax, rate.as_slice());
            }
        }
    }
    for (id, taxed) in &taxes {
        let exact: BigDecimal = taxed.taxable.iter().map(|(rate, taxable)| rate * taxable).sum();
        let bound = BigDecimal::new(taxed.roundings.into(), 2);
        assert!((&taxed.given - &exact).abs() <= bound, "{id}: {exact} {taxed:?}");
        assert!(!taxed.given.is_negative(), "{id}: {taxed:?}");
        assert!(!taxed.taxable.values().any(BigDecimal::is_negative), "{id}: {taxed:?}");
    }
}
