//! Reads a customer's statement.

use time::OffsetDateTime;

use crate::error::{Error, FieldCode, FieldError};
use crate::id::CustomerKey;
use crate::invoice::PaymentStatus;
use crate::statement::Statement;
use crate::store::Transaction;

/// Most entries in one statement.
pub const STATEMENT_ENTRIES_MAX: usize = 10_000;

/// Whose, and of what time.
#[derive(Clone, Debug)]
pub struct ReadStatement {
    /// Whose.
    pub customer: CustomerKey,
    /// The first instant; `None`: since ever.
    pub from: Option<OffsetDateTime>,
    /// The first instant behind it; `None`: for ever.
    pub to: Option<OffsetDateTime>,
}

/// Everything that came into the customer's books within a time.
///
/// # Errors
/// [`Error::NotFound`]; `to` before `from`, or more than [`STATEMENT_ENTRIES_MAX`] entries between them.
pub fn read_statement(tx: &mut dyn Transaction, command: &ReadStatement) -> Result<Statement, Error> {
    if command.from.zip(command.to).is_some_and(|(from, to)| to < from) {
        return Err(FieldError::new("to", FieldCode::MinValue, "The end lies before the start.").into());
    }
    tx.customers().get(command.customer)?;
    let invoices = tx.invoices().list_of(&[command.customer], PaymentStatus::ALL, u32::MAX)?;
    let credits = tx.credits().list(command.customer)?;
    let payments = tx.invoices().list_payments(command.customer, None)?;
    let statement = Statement::new(&invoices, &credits, &payments, (command.from, command.to));
    if statement.entries.len() > STATEMENT_ENTRIES_MAX {
        let detail = format!("There are more than {STATEMENT_ENTRIES_MAX} entries: ask for a shorter time.");
        return Err(FieldError::new("from", FieldCode::MinValue, detail).into());
    }
    Ok(statement)
}
