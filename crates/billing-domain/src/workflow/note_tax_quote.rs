//! Notes what an organization's own tax provider said of a customer. It was asked by whoever runs the workflows, outside of any
//! transaction.

use bigdecimal::BigDecimal;
use time::{Duration, OffsetDateTime};

use super::check_tax_rate::check_tax_rate;
use super::update_customer::told_to_providers;
use crate::customer::Customer;
use crate::error::{Error, FieldError};
use crate::id::CustomerKey;
use crate::organization::Organization;
use crate::store::Transaction;
use crate::tax::{QUOTES_MAX, TaxHook, TaxOutcome, TaxQuote};

/// What a provider is to be asked: all that it may look at.
#[derive(Clone, Debug)]
pub struct TaxQuestion {
    /// The customer.
    pub customer: Customer,
    /// Where to ask.
    pub hook: TaxHook,
    /// When the invoice is dated, in the customer's time.
    pub at: OffsetDateTime,
}

/// What the organization's own provider is to be asked about a customer; `None` when it is not to be asked any more.
///
/// # Errors
/// [`Error::NotFound`] for the customer.
pub fn tax_question(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    at: OffsetDateTime,
) -> Result<Option<TaxQuestion>, Error> {
    let Organization { tax_hook, .. } = tx.organizations().get()?;
    let customer = tx.customers().get(customer)?;
    Ok(tax_hook.map(|hook| TaxQuestion { customer, hook, at }))
}

/// What a provider said, and how long that is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaxAnswer {
    /// What it said.
    pub outcome: TaxOutcome,
    /// The end of the time that it is good for, if it said so.
    pub valid_until: Option<OffsetDateTime>,
}

impl TaxAnswer {
    /// A rate in percent.
    ///
    /// # Errors
    /// Why it can be none.
    pub fn of_rate(rate: BigDecimal, valid_until: Option<OffsetDateTime>) -> Result<Self, FieldError> {
        check_tax_rate(&rate)?;
        Ok(Self { outcome: TaxOutcome::Rate(rate), valid_until })
    }
}

/// Notes the answer to a question with the customer, unless the customer or the organization would be asked about otherwise by now:
/// then it answers nothing, and whoever needs the rate asks again.
///
/// # Errors
/// [`Error::NotFound`] for the customer.
pub fn note_tax_quote(tx: &mut dyn Transaction, question: &TaxQuestion, answer: &TaxAnswer) -> Result<(), Error> {
    let hook = tx.organizations().get()?.tax_hook.map(|hook| hook.id);
    let mut customer = tx.customers().get(question.customer.key)?;
    if hook != Some(question.hook.id) || told_to_providers(&customer) != told_to_providers(&question.customer) {
        return Ok(());
    }
    let at = question.at;
    let longest = match answer.outcome {
        TaxOutcome::Failed(_) => TaxQuote::FAILURE_TIME,
        TaxOutcome::Rate(_) | TaxOutcome::NoRate => TaxQuote::TIME_MAX,
    };
    let said = answer.valid_until.unwrap_or(at + TaxQuote::USUAL_TIME);
    // For the invoice that asked it is good in any case.
    let until = said.clamp(at + Duration::minutes(1), at + longest);
    let quote = TaxQuote { hook: question.hook.id, from: at, until, outcome: answer.outcome.clone() };
    let quotes = &mut customer.tax_quotes;
    // What failed before for this day is answered by this, whatever it says.
    quotes.retain(|known| known.from != at && !known.is_failure_at(at));
    let surplus = (quotes.len() + 1).saturating_sub(QUOTES_MAX);
    quotes.drain(..surplus);
    quotes.push(quote);
    tx.customers().update(&customer)
}
