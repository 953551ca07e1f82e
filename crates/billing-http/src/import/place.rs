//! A place in a file.

use std::fmt;
use std::io::{self, BufRead};

/// A line and a column, both from 1; columns count bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which line.
    pub line: u64,
    /// Which byte of it.
    pub column: u64,
}

impl Place {
    /// Where a line and a column are that are counted, both from 1, from here on.
    pub fn further(self, line: u64, column: u64) -> Self {
        match line {
            ..=1 => Self { line: self.line, column: self.column + column.saturating_sub(1) },
            line => Self { line: self.line + line - 1, column },
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// The bytes of a file, each with its place.
pub struct Bytes {
    reader: Box<dyn BufRead>,
    /// Where the next one stands.
    pub place: Place,
}

impl Bytes {
    /// From the beginning.
    pub fn new(reader: Box<dyn BufRead>) -> Self {
        Self { reader, place: Place { line: 1, column: 1 } }
    }

    /// The next one, which is taken.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn take(&mut self) -> io::Result<Option<u8>> {
        let Some(byte) = self.reader.fill_buf()?.first().copied() else { return Ok(None) };
        self.reader.consume(1);
        self.place = match byte {
            b'\n' => Place { line: self.place.line + 1, column: 1 },
            _ => Place { column: self.place.column + 1, ..self.place },
        };
        Ok(Some(byte))
    }
}
