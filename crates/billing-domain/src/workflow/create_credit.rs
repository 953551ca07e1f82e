//! Grants a credit, and invoices what the customer pays for it.

use bigdecimal::{BigDecimal, Signed, Zero};
use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::{finish_due, process_due};
use super::find_currency;
use super::find_currency::look_up_currency;
use super::issue_invoices::issue_alone;
use super::second_person::hold_above_limit;
use crate::credit::{Credit, CreditError, CreditLedger};
use crate::customer::CustomerId;
use crate::decimal;
use crate::error::{Error, FieldCode, FieldErrors};
use crate::faults::look_up_now;
use crate::id::CustomerKey;
use crate::invoice::{LineItem, Trace};
use crate::message::MessageType;
use crate::period::instant;
use crate::store::Transaction;
use crate::text;

/// A new credit.
#[derive(Clone, Debug)]
pub struct CreateCredit {
    /// Whose.
    pub customer: CustomerId,
    /// How much it is worth, in major units.
    pub amount: BigDecimal,
    /// The currency it pays invoices in.
    pub currency_code: String,
    /// What it is for.
    pub description: Option<String>,
    /// From when on it pays invoices; `None`: from now on.
    pub effective_at: Option<OffsetDateTime>,
    /// From when on it does not; `None`: never.
    pub expires_at: Option<OffsetDateTime>,
    /// What the customer pays for it; 0 when it is given.
    pub amount_paid: BigDecimal,
    /// What the customer pays in.
    pub amount_paid_currency_code: Option<String>,
}

/// Grants a credit. Something paid for it is invoiced at once, without tax, and not paid from other credits.
///
/// # Errors
/// Every bad field; [`Refusal::TestClockAdvancing`](crate::Refusal::TestClockAdvancing),
/// [`CatchingUp`](crate::Refusal::CatchingUp).
pub fn create_credit(
    tx: &mut dyn Transaction,
    command: &CreateCredit,
    now: OffsetDateTime,
) -> Result<CreditLedger, Error> {
    let key = CustomerKey::derive(tx.organization(), &command.customer);
    command.faults(tx)?.finish(())?;
    let mut account = Account::load(tx, key, now)?;
    account.refuse_while_on_the_way(tx)?;
    let paid_in = match &command.amount_paid_currency_code {
        Some(code) if !command.amount_paid.is_zero() => Some(find_currency(tx, code)?),
        _ => None,
    };
    hold_above_limit(tx, &command.amount, &command.currency_code)?;
    finish_due(tx, &mut account, now)?;

    let credit = Credit {
        id: tx.new_uuid().into(),
        currency_code: command.currency_code.clone(),
        amount: command.amount.clone(),
        amount_paid: command.amount_paid.clone(),
        amount_paid_currency_code: paid_in.as_ref().map(|currency| currency.code.clone()),
        description: command.description.clone(),
        effective_at: command.effective_at.map_or(now, instant::whole),
        expires_at: command.expires_at.map(instant::whole),
        created_at: now,
    };
    let ledger = CreditLedger::grant(credit, tx.new_uuid().into()).map_err(field_error)?;
    tx.credits().insert(key, &ledger)?;
    account.untold.credit(MessageType::CreditCreated, now, ledger.clone());
    if let Some(currency) = paid_in {
        let amount = currency.round(&command.amount_paid);
        let name = format!("Credit Grant: {}{}", currency.symbol, decimal::plain(&amount));
        let line = LineItem::of_invoice(&name, amount, now, Trace::CreditPurchase { credit_id: ledger.credit().id });
        issue_alone(tx, &mut account, currency, line, now)?;
    }
    account.credits.insert(ledger.credit().id, ledger.clone());
    process_due(tx, &mut account, now)?;
    Ok(ledger)
}

impl CreateCredit {
    fn faults(&self, tx: &mut dyn Transaction) -> Result<FieldErrors, Error> {
        let mut errors = FieldErrors::default();
        let now = look_up_now(&mut errors, tx, &self.customer)?;
        check(self, now, &mut errors);
        look_up_currency(&mut errors, "currency_code", tx, &self.currency_code)?;
        if let Some(code) = &self.amount_paid_currency_code {
            look_up_currency(&mut errors, "amount_paid_currency_code", tx, code)?;
        }
        Ok(errors)
    }
}

/// What can be told without looking anything up.
fn check(command: &CreateCredit, now: OffsetDateTime, errors: &mut FieldErrors) {
    if !command.amount.is_positive() {
        errors.push("amount", FieldCode::MinValue, "Amount must be greater than 0.");
    }
    if command.amount_paid.is_negative() {
        errors.push("amount_paid", FieldCode::MinValue, "Ensure this value is greater than or equal to 0.");
    }
    if let Some(description) = &command.description {
        errors.keep("description", text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX));
    }
    if command.expires_at.is_some_and(|at| at <= command.effective_at.unwrap_or(now).max(now)) {
        errors.push("expires_at", FieldCode::Invalid, "A credit must expire after it becomes effective, and not yet.");
    }
    if command.amount_paid.is_positive() && command.amount_paid_currency_code.is_none() {
        let detail = "What is paid needs a currency.";
        errors.push("amount_paid_currency_code", FieldCode::Required, detail);
    }
}

fn field_error(error: CreditError) -> Error {
    crate::FieldError::new("amount", FieldCode::Invalid, error.to_string()).into()
}
