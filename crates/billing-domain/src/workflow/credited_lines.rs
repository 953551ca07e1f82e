//! What billing remembers of an invoice's lines, while credit notes take something back of them.
//!
//! It is the memory that voids use: what a note takes back is forgiven, so that it is not charged again, and give-backs that come by
//! themselves, of fees that are cancelled or usage that falls, never exceed what notes left.

use std::collections::BTreeMap;

use bigdecimal::{BigDecimal, Signed, Zero};
use time::OffsetDateTime;

use crate::charge::{BillingRecord, UsageBilling};
use crate::credit_note::{CreditNote, LinePart, is_creditable};
use crate::decimal::divide;
use crate::error::Error;
use crate::id::{BillingRecordId, CustomerKey, InvoiceId, SubscriptionId};
use crate::invoice::{AdjustmentBasis, Invoice, LineItem, Trace};
use crate::store::{CreditNoteFilter, PageRequest, Transaction};
use crate::subscription::{Settled, Subscription};
use crate::tax::TaxedAmounts;

/// The lines of one invoice, what was credited of them, and the subscriptions and billing records behind them.
#[derive(Clone)]
pub(super) struct CreditedLines {
    customer: CustomerKey,
    lines: Vec<LineItem>,
    decimals: u8,
    /// By place on the invoice, from 0.
    credited: BTreeMap<usize, LinePart>,
    /// Each, and whether its price is adjusted.
    subscriptions: BTreeMap<SubscriptionId, (Subscription, bool)>,
    records: BTreeMap<BillingRecordId, BillingRecord>,
}

/// The customer's credit notes that were not voided, of one invoice or of all.
///
/// # Errors
/// [`Error::Store`].
pub(super) fn standing_notes(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    invoice: Option<InvoiceId>,
) -> Result<Vec<CreditNote>, Error> {
    let filter = CreditNoteFilter { customer: Some(customer), invoice };
    let (mut page, mut all) = (PageRequest::first(), Vec::new());
    loop {
        let found = tx.invoices().list_credit_notes(&filter, &page)?;
        all.extend(found.items.into_iter().filter(CreditNote::stands));
        page.after = found.next;
        if page.after.is_none() {
            return Ok(all);
        }
    }
}

impl CreditedLines {
    /// Of an invoice.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn load(tx: &mut dyn Transaction, invoice: &Invoice) -> Result<Self, Error> {
        let customer = invoice.customer;
        let (mut subscriptions, mut records) = (BTreeMap::new(), BTreeMap::new());
        for id in invoice.lines.iter().filter_map(|line| line.subscription) {
            if subscriptions.contains_key(&id) {
                continue;
            }
            let subscription = tx.subscriptions().get(customer, id)?;
            let is_adjusted = tx.plans().get_version(subscription.version)?.price_adjustment.is_some();
            subscriptions.insert(id, (subscription, is_adjusted));
            records.extend(tx.billing_records().list(customer, id)?.into_iter().map(|record| (record.id, record)));
        }
        let mut credited: BTreeMap<usize, LinePart> = BTreeMap::new();
        let notes = standing_notes(tx, customer, Some(invoice.id))?;
        for line in notes.iter().flat_map(|note| &note.lines) {
            credited.entry(line.line.place() - 1).or_default().add(&line.part);
        }
        let (lines, decimals) = (invoice.lines.clone(), invoice.currency.decimals);
        Ok(Self { customer, lines, decimals, credited, subscriptions, records })
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// What a line charged that is creditable, whatever was credited of it; 0 of others.
    pub fn charged(&self, place: usize) -> BigDecimal {
        self.line(place).map(|line| line.amount.clone()).unwrap_or_default()
    }

    fn line(&self, place: usize) -> Option<&LineItem> {
        self.lines.get(place).filter(|line| is_creditable(line))
    }

    /// What a credit note can still take back of a line: what neither notes nor give-backs by later invoices took.
    ///
    /// - **Units:** whole minor units, at least 0.
    pub fn left(&mut self, place: usize) -> BigDecimal {
        let Some(line) = self.line(place).cloned() else { return BigDecimal::zero() };
        let (whole, before) = (LinePart::whole(&line), self.credited.get(&place).cloned().unwrap_or_default());
        let mut left = &whole.amount - &before.amount;
        // How much further a part of the line may go, when no more than `kept` is left of what it is a part of.
        let decimals = self.decimals;
        let keep = |left: BigDecimal, of: &BigDecimal, so_far: &BigDecimal, kept: &BigDecimal| {
            if !of.is_positive() || so_far + kept >= *of {
                return left;
            }
            let whole_units = divide(&(&whole.amount * (so_far + kept)), of).with_scale(i64::from(decimals));
            left.min(whole_units - &before.amount)
        };
        let kept_base = self.billed(&line).map(|billed| billed.kept());
        if let Some(kept) = kept_base.filter(|_| line.base.is_positive()) {
            left = keep(left, &whole.base, &before.base, &kept);
        }
        let Some((subscription, is_adjusted)) = line.subscription.and_then(|id| self.subscriptions.get(&id)) else {
            return left;
        };
        let Settled { adjustment, tax } = &subscription.settled;
        let kept_tax = &tax.given - &tax.forgiven;
        let kept_net =
            &adjustment.charges + &adjustment.given - &adjustment.forgiven.charges - &adjustment.forgiven.given;
        left = keep(left, &whole.tax, &before.tax, &kept_tax);
        if *is_adjusted {
            left = keep(left, &whole.net(), &before.net(), &kept_net);
        }
        let fits = |left: &BigDecimal| {
            let next = whole.next(&before, left, decimals);
            next.tax <= kept_tax && (!is_adjusted || next.net() <= kept_net)
        };
        // Rounding moves a part by a minor unit.
        let unit = BigDecimal::new(1.into(), i64::from(decimals));
        let fewer = (0..3).map(|units| &left - &unit * BigDecimal::from(units));
        fewer.filter(BigDecimal::is_positive).find(fits).unwrap_or_default()
    }

    /// Takes `amount` back of a line, at most what is [left](Self::left).
    pub fn credit(&mut self, place: usize, amount: &BigDecimal) -> LinePart {
        let Some(line) = self.line(place).cloned() else { return LinePart::default() };
        let before = self.credited.entry(place).or_default();
        let part = LinePart::whole(&line).next(before, amount, self.decimals);
        before.add(&part);
        if let Some((subscription, is_adjusted)) = line.subscription.and_then(|id| self.subscriptions.get_mut(&id)) {
            let record = line.record.and_then(|id| self.records.get_mut(&id));
            forgive(&line, &part, &mut subscription.settled, record, *is_adjusted);
        }
        part
    }

    /// Gives a part of a line back that was billed and is too much, as a line on the next invoice would: `wanted`, as far as that
    /// much is [left](Self::left).
    pub fn give_back(&mut self, place: usize, wanted: &LinePart) -> LinePart {
        let left = self.left(place);
        let Some(line) = self.line(place).cloned() else { return LinePart::default() };
        let before = self.credited.entry(place).or_default();
        let whole = LinePart::whole(&line);
        let part = match wanted.amount <= left && whole.has_left(before, wanted) {
            true => wanted.clone(),
            false => whole.next(before, &left.min(wanted.amount.clone()), self.decimals),
        };
        before.add(&part);
        self.remember_given(&line, &part, Given::Back);
        part
    }

    /// Undoes [`CreditedLines::give_back`]: what was given back is looked at again at `again_at`, at the latest.
    pub fn take_again(&mut self, place: usize, part: &LinePart, again_at: Option<OffsetDateTime>) {
        let Some(line) = self.lines.get(place).cloned() else { return };
        self.remember_given(&line, part, Given::Again);
        let Some(record) = line.record.and_then(|id| self.records.get_mut(&id)) else { return };
        match record.usage {
            UsageBilling::Here => look_again(record, again_at),
            UsageBilling::HandedOn if record.invoicing_instants.is_empty() => {
                record.invoicing_instants.extend(again_at);
            }
            UsageBilling::HandedOn | UsageBilling::Dropped => {}
        }
    }

    /// Moves what was given of a line's charge, of the adjustment and of the tax.
    fn remember_given(&mut self, line: &LineItem, part: &LinePart, given: Given) {
        let rate = rate_of(line);
        let signed = |amount: &BigDecimal| if given == Given::Back { -amount } else { amount.clone() };
        if let Some(billed) = self.billed(line) {
            billed.given += signed(&part.base);
            given.move_taxed(&mut billed.taxed, &rate, &part.base);
        }
        let Some((subscription, is_adjusted)) = line.subscription.and_then(|id| self.subscriptions.get_mut(&id)) else {
            return;
        };
        let Settled { adjustment, tax } = &mut subscription.settled;
        given.move_taxed(&mut tax.taxed, &rate, &part.net());
        tax.exact += signed(&part.net()) * &rate * BigDecimal::new(1.into(), 2);
        tax.given += signed(&part.tax);
        if *is_adjusted {
            adjustment.charges += signed(&part.base);
            adjustment.given += signed(&(part.net() - &part.base));
        }
    }

    /// Undoes [`CreditedLines::credit`]. What did not come back because of it does at `again_at`.
    pub fn undo(&mut self, place: usize, part: &LinePart, again_at: Option<OffsetDateTime>) {
        let Some(line) = self.lines.get(place).cloned() else { return };
        let Some((subscription, is_adjusted)) = line.subscription.and_then(|id| self.subscriptions.get_mut(&id)) else {
            return;
        };
        let rate = rate_of(&line);
        let settled = &mut subscription.settled;
        settled.tax.taxed.restore(&rate, &part.net());
        settled.tax.forgiven -= &part.tax;
        if *is_adjusted {
            settled.adjustment.forgiven.charges -= &part.base;
            settled.adjustment.forgiven.given -= part.net() - &part.base;
        }
        let record = line.record.and_then(|id| self.records.get_mut(&id)).filter(|_| line.base.is_positive());
        let Some(record) = record else { return };
        let decimals = self.decimals;
        let is_above_price = record.billed_by(&line.trace).is_some_and(|billed| {
            billed.unforgive(&rate, &part.base);
            billed.is_above_price(decimals)
        });
        if is_above_price && record.invoicing_instants.is_empty() {
            record.late_until = None;
            record.invoicing_instants.extend(again_at);
        } else if matches!(line.trace, Trace::UsageCharge { .. }) && record.usage == UsageBilling::Here {
            // What was billed last need not be what its events say today: a note for corrections may have settled the rest.
            look_again(record, again_at);
        }
    }

    /// Writes what is remembered of the subscriptions and billing records.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn save(&self, tx: &mut dyn Transaction) -> Result<(), Error> {
        let named: Vec<_> = self.lines.iter().filter_map(|line| line.record).collect();
        for record in self.records.values().filter(|record| named.contains(&record.id)) {
            tx.billing_records().update(self.customer, record)?;
        }
        self.subscriptions.values().try_for_each(|(subscription, _)| tx.subscriptions().update(subscription))
    }

    fn billed(&mut self, line: &LineItem) -> Option<&mut crate::charge::Billed> {
        self.records.get_mut(&line.record?)?.billed_by(&line.trace)
    }
}

/// Has the usage of a record that was billed to its end counted again, at `again_at` at the latest.
fn look_again(record: &mut BillingRecord, again_at: Option<OffsetDateTime>) {
    if record.invoicing_instants.is_empty() {
        record.late_until = record.late_until.max(again_at);
    }
}

/// Which way a part goes that was billed and was too much.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Back,
    Again,
}

impl Given {
    fn move_taxed(self, taxed: &mut TaxedAmounts, rate: &BigDecimal, amount: &BigDecimal) {
        match self {
            Self::Back => drop(taxed.take_back_at(rate, amount)),
            Self::Again => taxed.restore(rate, amount),
        }
    }
}

/// A part of what a line charged is not charged again and does not come back.
pub(super) fn forgive(
    line: &LineItem,
    part: &LinePart,
    settled: &mut Settled,
    record: Option<&mut BillingRecord>,
    is_adjusted: bool,
) {
    let rate = rate_of(line);
    // A line that takes back, and charges more by its adjustment, gave nothing that its record could take back.
    let record = record.filter(|_| line.base.is_positive());
    if let Some(billed) = record.and_then(|record| record.billed_by(&line.trace)) {
        billed.forgive(&rate, &part.base);
    }
    settled.tax.taxed.take_back_at(&rate, &part.net());
    if is_adjusted {
        settled.adjustment.forgiven.charges += &part.base;
        settled.adjustment.forgiven.given += part.net() - &part.base;
    }
    settled.tax.forgiven += &part.tax;
}

/// The sales tax of a line that charges, in percent: it has one rate.
fn rate_of(line: &LineItem) -> BigDecimal {
    let rates = line.adjustments.iter().filter_map(|adjustment| match &adjustment.basis {
        AdjustmentBasis::SalesTax { rate, .. } => Some(rate.clone()),
        AdjustmentBasis::PlanAdjustment { .. } => None,
    });
    rates.into_iter().next().unwrap_or_default()
}
