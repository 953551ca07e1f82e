//! Changes description and expiry of a credit.

use time::OffsetDateTime;

use super::account::Account;
use super::bill_customer::{finish_due, process_due};
use crate::credit::{CreditError, CreditLedger};
use crate::error::{Error, FieldCode, FieldError, FieldErrors, Refusal};
use crate::id::{CreditId, CustomerKey};
use crate::period::instant;
use crate::store::Transaction;
use crate::text;

/// What to change; `None` leaves a field as it is, the inner `None` clears it.
#[derive(Clone, Debug)]
pub struct UpdateCredit {
    /// Whose.
    pub customer: CustomerKey,
    /// Which.
    pub credit: CreditId,
    /// What it is for.
    pub description: Option<Option<String>>,
    /// From when on it pays no invoices.
    pub expires_at: Option<Option<OffsetDateTime>>,
}

/// Changes an active credit.
///
/// # Errors
/// [`Refusal::CreditNotActive`], [`Refusal::CreditExpiryInPast`]; an expiry before the credit is effective.
pub fn update_credit(
    tx: &mut dyn Transaction,
    command: &UpdateCredit,
    now: OffsetDateTime,
) -> Result<CreditLedger, Error> {
    command.check()?;
    let mut account = Account::load(tx, command.customer, now)?;
    account.refuse_while_on_the_way(tx)?;
    finish_due(tx, &mut account, now)?;
    let mut ledger = tx.credits().get(command.customer, command.credit)?;
    let expires_at = command.expires_at.map(|at| at.map(instant::whole));
    ledger.update(command.description.clone(), expires_at, now).map_err(|error| match error {
        CreditError::NotActive => Refusal::CreditNotActive.into(),
        CreditError::ExpiryInPast => Refusal::CreditExpiryInPast.into(),
        other => Error::from(FieldError::new("expires_at", FieldCode::Invalid, other.to_string())),
    })?;
    tx.credits().update(command.customer, &ledger)?;
    account.credits.insert(command.credit, ledger.clone());
    process_due(tx, &mut account, now)?;
    Ok(ledger)
}

impl UpdateCredit {
    /// What is wrong whatever the credit is.
    fn check(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if let Some(Some(description)) = &self.description {
            errors.keep("description", text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX));
        }
        errors.finish(())
    }
}
