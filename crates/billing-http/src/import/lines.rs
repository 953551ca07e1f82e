//! Files with one event on each line.

use std::io::{BufRead, Read};

use super::place::Place;
use super::record::{RECORD_BYTES_MAX, ReadEvent, Record, text_of};

/// What the report shows of a line that is too long.
const SHOWN_BYTES_MAX: usize = 1_000;

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
    /// When the file cannot be read.
    pub fn next_record(&mut self, read: ReadEvent) -> anyhow::Result<Option<Record>> {
        loop {
            self.line += 1;
            let mut line = Vec::new();
            self.reader.by_ref().take(RECORD_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                return Ok(None);
            }
            if line.len() > RECORD_BYTES_MAX {
                // Refused as any other that is no event: what comes behind it can be.
                self.reader.skip_until(b'\n')?;
                line.truncate(SHOWN_BYTES_MAX);
                let reason = format!("It is longer than {RECORD_BYTES_MAX} bytes, of which these are the first");
                return Ok(Some(Record { line: self.line, event: Err(reason), text: text_of(line) }));
            }
            let text = text_of(line);
            if !text.trim().is_empty() {
                let event = read(&text, Place { line: self.line, column: 1 });
                return Ok(Some(Record { line: self.line, event, text }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_refused_and_what_comes_behind_it_is_read() {
        let text = format!("short\n{}\nshort\n", "x".repeat(3 * RECORD_BYTES_MAX));
        let mut lines = Lines::new(Box::new(BufReader::new(Cursor::new(text))));
        let mut read = Vec::new();
        while let Some(Record { line, event, text }) =
            lines.next_record(|_, _| Err("no event".to_owned())).expect("readable")
        {
            read.push((line, text.trim_end().len(), event.expect_err("refused")));
        }
        let too_long = format!("It is longer than {RECORD_BYTES_MAX} bytes, of which these are the first");
        let short = |line| (line, 5, "no event".to_owned());
        assert_eq!(read, [short(1), (2, SHOWN_BYTES_MAX, too_long), short(3)]);
    }
}
