//! Files with one event on each line.

use std::io::{BufRead, Read};

use anyhow::bail;

use super::place::Place;
use super::record::{RECORD_BYTES_MAX, ReadEvent, Record, text_of};

/// The lines of a file.
pub struct Lines {
    reader: Box<dyn BufRead>,
    line: u64,
}

impl Lines {
    /// From the first one on.
    pub fn new(reader: Box<dyn BufRead>) -> Self {
        Self { reader, line: 0 }
    }

    /// The next one that is not empty, read by `read`.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is too long.
    pub fn next_record(&mut self, read: ReadEvent) -> anyhow::Result<Option<Record>> {
        loop {
            self.line += 1;
            let mut line = Vec::new();
            self.reader.by_ref().take(RECORD_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Ok(None);
            }
            if line.len() > RECORD_BYTES_MAX {
                bail!("line {} is longer than {RECORD_BYTES_MAX} bytes", self.line);
            }
            let text = text_of(line);
            if !text.trim().is_empty() {
                let event = read(&text, Place { line: self.line, column: 1 });
                return Ok(Some(Record { line: self.line, event, text }));
            }
        }
    }
}
