//! Charges a customer for something once.

use bigdecimal::{BigDecimal, Signed};
use time::{Duration, OffsetDateTime};

use super::account::Account;
use super::bill_customer::{finish_due, process_due};
use super::draft_lines::Draft;
use super::find_currency;
use super::find_currency::look_up_currency;
use super::issue_invoices::issue;
use super::one_off_lines::line_of;
use super::tell::tell;
use crate::currency::Currency;
use crate::decimal::{INTEGER_DIGITS_MAX, ten_to_the};
use crate::error::{Error, FieldCode, FieldErrors};
use crate::id::{CustomerKey, InvoiceId, LineId};
use crate::message::{MessageType, Subject};
use crate::one_off_line::{OneOffLine, WAITING_MAX};
use crate::period::{Period, instant};
use crate::store::Transaction;
use crate::text;

/// What is charged once, and when.
#[derive(Clone, Debug)]
pub struct CreateOneOffLine {
    /// Whose.
    pub customer: CustomerKey,
    /// What it is for.
    pub name: String,
    /// What it comes to, or how that is to be computed.
    pub price: OneOffPrice,
    /// What it is billed in; `None`: the customer's default currency.
    pub currency_code: Option<String>,
    /// Whether sales tax is added.
    pub is_taxed: bool,
    /// The first instant that it is for, and the last; `None`: the moment at which it is made.
    pub time: Option<(OffsetDateTime, OffsetDateTime)>,
    /// Whether it is billed at once, on an invoice of its own.
    pub invoice_now: bool,
}

/// What a one-off line comes to before tax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OneOffPrice {
    /// So much, in major units.
    Amount(BigDecimal),
    /// So many at so much each: the product is rounded once.
    ByUnit {
        /// How many.
        quantity: BigDecimal,
        /// What one costs, in major units.
        unit_amount: BigDecimal,
    },
}

/// Charges a customer for something once: with their next invoice in its currency, or at once on an invoice of its own, of which the line
/// is answered.
///
/// # Errors
/// Every bad field, also where [`WAITING_MAX`] lines wait already; [`Error::NotFound`] for the customer; [`Error::TaxRate`];
/// [`Refusal::TestClockAdvancing`](crate::Refusal::TestClockAdvancing), [`Refusal::CatchingUp`](crate::Refusal::CatchingUp).
///
/// # Source
/// `docs/pricing.md`, "One-off lines".
pub fn create_one_off_line(
    tx: &mut dyn Transaction,
    command: &CreateOneOffLine,
    now: OffsetDateTime,
) -> Result<(OneOffLine, Option<LineId>), Error> {
    let customer = tx.customers().get(command.customer)?;
    let code = command.currency_code.as_ref().unwrap_or(&customer.default_currency_code);
    let mut errors = FieldErrors::default();
    look_up_currency(&mut errors, "currency_code", tx, code)?;
    errors.finish(())?;
    let currency = find_currency(tx, code)?;
    command.faults(&currency, customer.one_off_lines.len()).finish(())?;
    let mut account = Account::load(tx, command.customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    finish_due(tx, &mut account, now)?;

    let line = command.line(tx, &currency, now);
    let billed_on = match command.invoice_now {
        true => Some(bill_alone(tx, &mut account, &line, currency, now)?),
        false => {
            account.customer.one_off_lines.push(line.clone());
            tx.customers().update(&account.customer)?;
            None
        }
    };
    let subject = Subject::OneOffLine(Box::new(line.clone()), billed_on);
    tell(tx, &account.customer, (MessageType::OneOffLineCreated, now), &subject)?;
    process_due(tx, &mut account, now)?;
    Ok((line, billed_on))
}

/// Issues an invoice of the line alone; credits pay for it.
fn bill_alone(
    tx: &mut dyn Transaction,
    account: &mut Account,
    line: &OneOffLine,
    currency: Currency,
    now: OffsetDateTime,
) -> Result<LineId, Error> {
    let lines = vec![line_of(account, line, &currency, now)?];
    let id = InvoiceId::from(tx.new_uuid());
    issue(tx, account, id, Draft { currency, lines, replaces: None }, now)?;
    if std::mem::take(&mut account.has_taxed) {
        account.drop_tax_failure(tx, now)?;
    }
    Ok(LineId::new(id, 1))
}

impl CreateOneOffLine {
    fn faults(&self, currency: &Currency, waiting: usize) -> FieldErrors {
        let mut errors = FieldErrors::default();
        errors.keep("name", text::check(&self.name, text::NAME_CHARACTERS_MAX));
        match &self.price {
            OneOffPrice::Amount(amount) => {
                check_positive("amount", amount, &mut errors);
                if currency.round(amount) != *amount {
                    let detail = format!("Ensure that there are no more than {} decimal places.", currency.decimals);
                    errors.push("amount", FieldCode::MaxDecimalPlaces, detail);
                }
            }
            OneOffPrice::ByUnit { quantity, unit_amount } => {
                check_positive("quantity", quantity, &mut errors);
                check_positive("unit_amount", unit_amount, &mut errors);
                if quantity.is_positive() && unit_amount.is_positive() {
                    check_product(&self.amount(currency), &mut errors);
                }
            }
        }
        if self.time.is_some_and(|(start, end)| end < start) {
            errors.push("end_date", FieldCode::Invalid, "The last instant is not before the first.");
        }
        if !self.invoice_now && waiting >= WAITING_MAX {
            let detail = format!("{WAITING_MAX} lines wait for the next invoice: have this one billed at once.");
            errors.push("invoice_now", FieldCode::MaxLength, detail);
        }
        errors
    }

    fn amount(&self, currency: &Currency) -> BigDecimal {
        match &self.price {
            OneOffPrice::Amount(amount) => currency.round(amount),
            OneOffPrice::ByUnit { quantity, unit_amount } => currency.round(&(quantity * unit_amount)),
        }
    }

    fn line(&self, tx: &mut dyn Transaction, currency: &Currency, now: OffsetDateTime) -> OneOffLine {
        let (quantity, unit_amount) = match &self.price {
            OneOffPrice::Amount(_) => (None, None),
            OneOffPrice::ByUnit { quantity, unit_amount } => (Some(quantity.clone()), Some(unit_amount.clone())),
        };
        let whole = |(start, end)| Period::new(instant::whole(start), instant::whole(end) + Duration::MICROSECOND).ok();
        OneOffLine {
            id: tx.new_uuid().into(),
            name: self.name.clone(),
            quantity,
            unit_amount,
            amount: self.amount(currency),
            currency_code: currency.code.clone(),
            is_taxed: self.is_taxed,
            period: self.time.and_then(whole).unwrap_or_else(|| Period::at(now)),
            created_at: now,
        }
    }
}

fn check_positive(field: &str, amount: &BigDecimal, errors: &mut FieldErrors) {
    if !amount.is_positive() {
        errors.push(field, FieldCode::MinValue, "This must be greater than 0.");
    }
}

/// What a quantity and a price come to is an amount as one could have been named.
fn check_product(amount: &BigDecimal, errors: &mut FieldErrors) {
    if !amount.is_positive() {
        let detail = "The quantity at this price comes to less than half a minor unit.";
        errors.push("unit_amount", FieldCode::MinValue, detail);
    }
    if *amount >= BigDecimal::from(ten_to_the(INTEGER_DIGITS_MAX as u64)) {
        let detail = format!("The quantity at this price has more than {INTEGER_DIGITS_MAX} digits before the point.");
        errors.push("unit_amount", FieldCode::MaxValue, detail);
    }
}
