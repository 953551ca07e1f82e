//! The forms that a file of events may have, and its records one after the other.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use clap::ValueEnum;
use flate2::read::MultiGzDecoder;

use super::array::Elements;
use super::csv::Rows;
use super::lines::Lines;
use super::record::{ReadEvent, Record, read_cloud, read_object};

/// How a file begins that says that it is UTF-8.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// How the events of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EventForm {
    /// One JSON object on each line.
    Jsonl,
    /// A JSON array of objects.
    Json,
    /// Rows with commas between their fields; the first one names the columns.
    Csv,
    /// CloudEvents only, one on each line or all in a JSON array; among the objects of the first two forms they are known too.
    Cloudevents,
}

impl EventForm {
    /// What the name of a file says. A `.json` may hold an array, or one object on each line as well.
    pub fn of(file: &Path) -> Option<Self> {
        let extension = |path: &Path| path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
        let outer = extension(file)?;
        let inner = if outer == "gz" { extension(&file.with_extension(""))? } else { outer };
        match inner.as_str() {
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// The records of a file.
pub enum Records {
    /// One on each line.
    Lines(Lines, ReadEvent),
    /// Elements of a JSON array.
    Elements(Elements, ReadEvent),
    /// Rows.
    Rows(Rows),
}

impl Records {
    /// The records of a file, compressed or not. Without a `form` the file's name says it, otherwise its first character.
    ///
    /// # Errors
    /// When the file cannot be read, or does not begin as one of that form.
    pub fn of(file: impl Read + 'static, name: &Path, form: Option<EventForm>) -> anyhow::Result<Self> {
        let mut reader = decompressed(file)?;
        if reader.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
            reader.consume(BYTE_ORDER_MARK.len());
        }
        let is_array = reader.fill_buf()?.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
        Ok(match form {
            Some(EventForm::Csv) => Self::Rows(Rows::new(reader)?),
            Some(EventForm::Json) => Self::Elements(Elements::new(reader)?, read_object),
            Some(EventForm::Jsonl) => Self::Lines(Lines::new(reader), read_object),
            Some(EventForm::Cloudevents) if is_array => Self::Elements(Elements::new(reader)?, read_cloud),
            Some(EventForm::Cloudevents) => Self::Lines(Lines::new(reader), read_cloud),
            None => match EventForm::of(name) {
                Some(EventForm::Csv) => Self::Rows(Rows::new(reader)?),
                Some(EventForm::Json) if is_array => Self::Elements(Elements::new(reader)?, read_object),
                _ => Self::Lines(Lines::new(reader), read_object),
            },
        })
    }

    /// The next one.
    ///
    /// # Errors
    /// When the file cannot be read any further: it breaks off, or a record has no end.
    pub fn next_record(&mut self) -> anyhow::Result<Option<Record>> {
        match self {
            Self::Lines(lines, read) => lines.next_record(*read),
            Self::Elements(elements, read) => elements.next_record(*read),
            Self::Rows(rows) => rows.next_record(),
        }
    }
}

fn decompressed(file: impl Read + 'static) -> anyhow::Result<Box<dyn BufRead>> {
    let mut buffered = BufReader::new(file);
    let is_gzip = buffered.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(match is_gzip {
        true => Box::new(BufReader::new(MultiGzDecoder::new(buffered))),
        false => Box::new(buffered),
    })
}
