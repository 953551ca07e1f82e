//! Why a text is not a custom query: where, what, and what would be.

use std::fmt;

#[cfg(feature = "custom-sql")]
use sqlparser::tokenizer::{Location, Span};

/// Why a text is not taken as a custom query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CustomSqlError {
    /// The place in the text; `None`: it is about the whole.
    pub position: Option<Position>,
    /// What is wrong, and what is allowed in its place.
    pub message: String,
}

/// A place in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The character in it.
    pub column: u64,
}

impl fmt::Display for CustomSqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
            write!(f, "Line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(feature = "custom-sql")]
impl Position {
    /// Where a part of the syntax tree begins, if the parser noted it.
    pub(super) fn of(span: Span) -> Option<Self> {
        Self::at(span.start)
    }

    /// A place that the tokenizer noted.
    pub(super) fn at(location: Location) -> Option<Self> {
        (location.line > 0).then_some(Self { line: location.line, column: location.column })
    }
}

impl CustomSqlError {
    /// About the whole text.
    pub(super) fn whole(message: impl Into<String>) -> Self {
        Self { position: None, message: message.into() }
    }

    /// About a place.
    pub(super) fn new(position: Option<Position>, message: impl Into<String>) -> Self {
        Self { position, message: message.into() }
    }
}

/// A piece of the caller's text for a message: short, and without anything that cannot be printed.
pub(super) fn excerpt(text: &str) -> String {
    const CHARACTERS_MAX: usize = 40;
    let mut short: String = text.chars().take(CHARACTERS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        short.push_str("..");
    }
    short
}
