//! What may not be done with values of some types.

use crate::custom_sql::program::Type;
use crate::custom_sql::refusal::{CustomSqlError, Position};

/// Refuses the properties as a whole: only one of them has a value.
pub(super) fn refuse_properties(of: Type, position: Option<Position>) -> Result<(), CustomSqlError> {
    match of {
        Type::Properties => Err(CustomSqlError::new(position, "The properties as a whole are good for ->> alone.")),
        _ => Ok(()),
    }
}

/// Refuses what has no order.
pub(super) fn refuse_uncomparable(of: Type, position: Option<Position>) -> Result<(), CustomSqlError> {
    match of {
        Type::Number | Type::Text | Type::Time => Ok(()),
        Type::Bool | Type::Properties => {
            Err(CustomSqlError::new(position, "Only numbers, texts and times are compared and put in order."))
        }
    }
}
