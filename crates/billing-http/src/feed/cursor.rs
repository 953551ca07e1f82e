//! Cursors: how far somebody has read.

use std::fmt;
use std::str::FromStr;

use billing_domain::{FieldCode, FieldErrors};
use serde_json::Value;

use crate::wire::{Described, FromJson, Schema, Schemas};

/// How the text of a cursor begins: the version of what follows, one position for each place where messages are kept.
const VERSION: &str = "1:";

/// How far the feed was read. Opaque to clients: another version may hold several positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(u64);

impl Cursor {
    /// Behind a position.
    pub fn at(position: u64) -> Self {
        Self(position)
    }

    /// The position that was read last.
    pub fn position(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{VERSION}{}", self.0);
        text.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The text is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCursor;

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let pair = |pair: &[u8]| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        };
        let bytes: Vec<u8> = text.as_bytes().chunks(2).map(pair).collect::<Option<_>>().ok_or(BadCursor)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| BadCursor)?;
        let position: i64 = text.strip_prefix(VERSION).and_then(|position| position.parse().ok()).ok_or(BadCursor)?;
        u64::try_from(position).map(Self).map_err(|_| BadCursor)
    }
}

impl FromJson for Cursor {
    fn from_json(value: Value) -> Result<Self, FieldErrors> {
        let text = String::from_json(value)?;
        text.parse().map_err(|BadCursor| {
            let mut errors = FieldErrors::default();
            errors.push("", FieldCode::Invalid, "This cursor is not one that an answer gave.");
            errors
        })
    }
}

impl Described for Cursor {
    fn describe(schemas: &mut Schemas) -> Schema {
        String::describe(schemas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_as_they_are_written() {
        for position in [0, 1, 42, i64::MAX as u64] {
            assert_eq!(Cursor::at(position).to_string().parse(), Ok(Cursor(position)));
        }
        for text in ["", "x", "31", "313a2d31", "323a31", "313a", "é"] {
            assert_eq!(text.parse::<Cursor>(), Err(BadCursor), "{text}");
        }
    }
}
