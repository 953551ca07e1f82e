//! Finds customers by what people remember of them.

use crate::customer::Customer;
use crate::error::{Error, FieldCode, FieldError};
use crate::store::{SearchedBy, Transaction};

/// Most customers that a search answers.
pub const FOUND_MAX: u32 = 100;
/// Most characters that are searched for: as many as the store's indexes hold.
const CHARACTERS_MAX: usize = 100;

/// Customers with this e-mail address, or whose id or name begins with `text`, letters of ASCII in either case: at most `limit`, in this
/// order, each once.
///
/// # Errors
/// `blank` and `max_length` at `search`; those of the store.
pub fn search_customers(tx: &mut dyn Transaction, text: &str, limit: u32) -> Result<Vec<Customer>, Error> {
    let text = text.trim();
    if text.is_empty() {
        return Err(FieldError::new("search", FieldCode::Blank, "This field may not be blank.").into());
    }
    if text.chars().count() > CHARACTERS_MAX {
        let detail = format!("Ensure this field has no more than {CHARACTERS_MAX} characters.");
        return Err(FieldError::new("search", FieldCode::MaxLength, detail).into());
    }
    let limit = limit.min(FOUND_MAX);
    let mut found = Vec::new();
    if let Some(key) = tx.customers().find_by_email(text)? {
        match tx.customers().get(key) {
            Err(Error::NotFound(_)) => {}
            customer => found.push(customer?),
        }
    }
    for by in [SearchedBy::Id, SearchedBy::Name] {
        for customer in tx.customers().search(by, text, limit)? {
            if !found.iter().any(|other: &Customer| other.key == customer.key) {
                found.push(customer);
            }
        }
    }
    found.truncate(limit as usize);
    Ok(found)
}
