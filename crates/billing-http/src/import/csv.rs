//! Files of comma-separated values (RFC 4180), whose first row names the columns.

use std::collections::BTreeSet;
use std::io::BufRead;

use anyhow::{Context, bail};
use billing_domain::event::Event;
use serde_json::{Number, Value, json};

use super::place::{Bytes, Place};
use super::record::{RECORD_BYTES_MAX, Record, read_object, text_of};
use crate::body::scan;

/// The columns that there must be.
const NEEDED: [&str; 4] = ["customer_id", "event_name", "idempotency_id", "time_created"];
/// The column that has all properties, as a JSON object.
const PROPERTIES: &str = "properties";

/// The rows of a file.
pub struct Rows {
    bytes: Bytes,
    columns: Vec<String>,
}

/// A row as it stands there.
struct Row {
    begins: Place,
    text: Vec<u8>,
    /// Its fields, or what is wrong with its quotes.
    fields: Result<Vec<Vec<u8>>, String>,
}

impl Row {
    fn is_empty(&self) -> bool {
        self.text.iter().all(u8::is_ascii_whitespace)
    }
}

impl Rows {
    /// Reads the row that names the columns.
    ///
    /// # Errors
    /// When the file cannot be read, or that row lacks a column, has one twice, or one without a name.
    pub fn new(reader: Box<dyn BufRead>) -> anyhow::Result<Self> {
        let mut rows = Self { bytes: Bytes::new(reader), columns: Vec::new() };
        let first = rows.row()?.context("the file is empty; the first line of a CSV names its columns")?;
        let fields = first.fields.map_err(anyhow::Error::msg)?;
        let columns: Vec<String> = fields.into_iter().map(|name| text_of(name).trim().to_owned()).collect();
        for needed in NEEDED {
            if !columns.iter().any(|name| name == needed) {
                bail!(
                    "line 1 names no column {needed}; a CSV has the columns {}, with commas between them, and one for each property",
                    NEEDED.join(", ")
                );
            }
        }
        let mut seen = BTreeSet::new();
        for (i, name) in columns.iter().enumerate() {
            if name.is_empty() {
                bail!("line 1: the {}. column has no name", i + 1);
            }
            if !seen.insert(name) {
                bail!("line 1 names the column {name} twice");
            }
        }
        let own = columns.iter().find(|name| !NEEDED.contains(&name.as_str()) && *name != PROPERTIES);
        if let (Some(own), true) = (own, seen.contains(&PROPERTIES.to_owned())) {
            bail!("line 1 names the column {PROPERTIES}, which has all properties, and the column {own} beside it");
        }
        rows.columns = columns;
        Ok(rows)
    }

    /// The next row that is not empty.
    ///
    /// # Errors
    /// When the file cannot be read, or a row is too long.
    pub fn next_record(&mut self) -> anyhow::Result<Option<Record>> {
        while let Some(row) = self.row()? {
            if !row.is_empty() {
                let event = row.fields.and_then(|fields| self.event(fields, row.begins));
                return Ok(Some(Record { line: row.begins.line, text: text_of(row.text), event }));
            }
        }
        Ok(None)
    }

    fn event(&self, fields: Vec<Vec<u8>>, begins: Place) -> Result<Event, String> {
        if fields.len() != self.columns.len() {
            return Err(format!("It has {} fields, and line 1 names {} columns", fields.len(), self.columns.len()));
        }
        let mut parts: Vec<String> = Vec::with_capacity(NEEDED.len() + 1);
        let mut properties: Vec<String> = Vec::new();
        for (name, field) in self.columns.iter().zip(fields) {
            let text = String::from_utf8(field).map_err(|_| format!("The column {name} is not UTF-8"))?;
            let key = json!(name);
            match name.as_str() {
                _ if text.is_empty() => {}
                PROPERTIES if scan(&text).is_err() => return Err(format!("The column {PROPERTIES} is no JSON object")),
                PROPERTIES => parts.push(format!("{key}:{text}")),
                needed if NEEDED.contains(&needed) => parts.push(format!("{key}:{}", json!(text))),
                _ => properties.push(format!("{key}:{}", value(&text))),
            }
        }
        if !properties.is_empty() {
            parts.push(format!("\"{PROPERTIES}\":{{{}}}", properties.join(",")));
        }
        read_object(&format!("{{{}}}", parts.join(",")), begins)
    }

    /// The next row; quotes may hold commas, line breaks and, doubled, quotes.
    fn row(&mut self) -> anyhow::Result<Option<Row>> {
        let begins = self.bytes.place;
        let (mut text, mut fields, mut field) = (Vec::new(), Vec::new(), Vec::new());
        let (mut state, mut quote, mut fault) = (State::Begins, begins, None);
        loop {
            let place = self.bytes.place;
            let Some(byte) = self.bytes.take()? else {
                if text.is_empty() {
                    return Ok(None);
                }
                if state == State::Quoted {
                    // Who knows how many rows are within it.
                    bail!("the quote at {quote} is not closed: nothing from line {} on was read", begins.line);
                }
                break;
            };
            if byte == b'\n' && state != State::Quoted {
                break;
            }
            text.push(byte);
            if text.len() > RECORD_BYTES_MAX {
                let why = if state == State::Quoted {
                    format!("; the quote at {quote} may not be closed")
                } else {
                    String::new()
                };
                bail!("{begins}: the row that begins here is longer than {RECORD_BYTES_MAX} bytes{why}");
            }
            state = match (state, byte) {
                (State::Begins, b'"') => {
                    quote = place;
                    State::Quoted
                }
                (State::Quoted, b'"') => State::Closed,
                (State::Closed, b'"') => {
                    field.push(b'"');
                    State::Quoted
                }
                (State::Begins | State::Plain | State::Closed, b',') => {
                    fields.push(std::mem::take(&mut field));
                    State::Begins
                }
                // Before the end of the line.
                (State::Closed, b'\r') => State::Closed,
                (State::Closed, _) => {
                    fault.get_or_insert_with(|| {
                        format!("Behind the quote that closes before {place} is neither comma nor end")
                    });
                    State::Plain
                }
                (State::Begins, byte) => {
                    field.push(byte);
                    State::Plain
                }
                (state, byte) => {
                    field.push(byte);
                    state
                }
            };
        }
        if state != State::Closed && field.last() == Some(&b'\r') {
            field.pop();
        }
        fields.push(field);
        Ok(Some(Row { begins, text, fields: fault.map_or(Ok(fields), Err) }))
    }
}

/// Where one is within a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Begins,
    Plain,
    Quoted,
    /// Behind a quote that closes, unless it is the first of two.
    Closed,
}

/// What a property is, as JSON: a number if it is written as one, with its digits; true or false; otherwise text.
fn value(text: &str) -> String {
    let may_be_number =
        text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && !text.ends_with(char::is_whitespace);
    match text {
        "true" | "false" => text.to_owned(),
        // With an exponent it is rather a name in hexadecimal digits: 4e77.
        _ if may_be_number && !text.contains(['e', 'E']) && serde_json::from_str::<Number>(text).is_ok() => {
            text.to_owned()
        }
        _ => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    fn rows(text: &str) -> anyhow::Result<Rows> {
        Rows::new(Box::new(BufReader::new(Cursor::new(text.to_owned()))))
    }

    /// The line of each row, and its event, shortly, or what is wrong.
    fn read(text: &str) -> Vec<(u64, Result<String, String>)> {
        let mut rows = rows(text).expect("columns");
        let mut found = Vec::new();
        while let Some(Record { line, event, .. }) = rows.next_record().expect("readable") {
            let shown = event.map(|event| {
                format!("{} {} {} {}", event.customer, event.name, event.idempotency_id, event.properties.as_json())
            });
            found.push((line, shown));
        }
        found
    }

    const NAMES: &str = "idempotency_id,customer_id,event_name,time_created";

    #[test]
    fn fields_are_what_they_are_written_as() {
        #[rustfmt::skip]
        let cases = [
            // field,                       property,                        why
            ("1.50",                        Some("1.50"),                    "a number with its digits"),
            ("-12345678901234567890.1",     Some("-12345678901234567890.1"), "longer than a float's"),
            ("\"7\"",                       Some("7"),                       "some writers quote everything"),
            ("007",                         Some("\"007\""),                 "no number of JSON: digits that mean something else"),
            ("+5",                          Some("\"+5\""),                  "nor is this"),
            ("NaN",                         Some("\"NaN\""),                 "nor this"),
            ("5 ",                          Some("\"5 \""),                  "nor with a space"),
            ("4e77",                        Some("\"4e77\""),              "a name in hexadecimal digits"),
            ("true",                        Some("true"),                    "yes or no"),
            ("",                            None,                            "nothing"),
            ("\"\"",                        None,                            "nothing, in quotes"),
            ("\"a, \"\"b\"\"\"",            Some("\"a, \\\"b\\\"\""),         "a comma and quotes"),
            ("\"a\nb\"",                    Some("\"a\\nb\""),               "two lines"),
            ("5\" pipe",                    Some("\"5\\\" pipe\""),           "a quote within"),
        ];
        for (field, property, why) in cases {
            let expected = property.map_or("{}".to_owned(), |property| format!("{{\"p\":{property}}}"));
            let expected = vec![(2, Ok(format!("acme call 1 {expected}")))];
            for end in ["", "\n", "\r\n", "\n\n"] {
                let text = format!("{NAMES},p\n1,acme,call,2024-04-01,{field}{end}");
                assert_eq!(read(&text), expected, "{why}: {text:?}");
            }
        }
        let whole = format!("{NAMES},properties\r\n1,acme,call,2024-04-01,\"{{\"\"n\"\":1.50}}\"\r\n");
        assert_eq!(read(&whole), [(2, Ok("acme call 1 {\"n\":1.50}".to_owned()))], "all properties in one column");
    }

    #[test]
    fn a_bad_row_is_told_with_its_line_and_column_and_spoils_no_other() {
        let good = "1,acme,call,2024-04-01,5";
        #[rustfmt::skip]
        let cases = [
            // row,                                   reason,                                                                    why
            ("2,acme,call,soon,5",                    "Invalid time_created: send a date and time, as 2024-01-31T12:00:00Z",     "a time that is none"),
            ("2,,call,2024-04-01,5",                  "No customer_id provided",                                                 "nobody's"),
            ("2,acme,call,2024-04-01",                "It has 4 fields, and line 1 names 5 columns",                             "too few"),
            ("2,acme,call,2024-04-01,1,000",          "It has 6 fields, and line 1 names 5 columns",                             "too many"),
            ("2,acme,\"call\"x,2024-04-01,5",         "Behind the quote that closes before line 3, column 14 is neither comma nor end", "text behind a quote"),
        ];
        for (row, reason, why) in cases {
            let text = format!("{NAMES},n\n{good}\n{row}\n{good}\n");
            let ok = || Ok("acme call 1 {\"n\":5}".to_owned());
            assert_eq!(read(&text), [(2, ok()), (3, Err(reason.to_owned())), (4, ok())], "{why}");
        }
        let mut open = rows(&format!("{NAMES},n\n{good}\n2,acme,\"call,2024-04-01,5\n{good}\n")).expect("columns");
        assert!(open.next_record().is_ok_and(|row| row.is_some()));
        let refused = open.next_record().err().expect("rows are within the quote").to_string();
        assert_eq!(refused, "the quote at line 3, column 8 is not closed: nothing from line 3 on was read");
        let open = format!("{NAMES},n\n2,\"{}", good.repeat(RECORD_BYTES_MAX / good.len() + 1));
        let refused = rows(&open).and_then(|mut rows| rows.next_record()).err().expect("too long").to_string();
        assert!(refused.contains("line 2, column 1") && refused.contains("quote at line 2, column 3"), "{refused}");
        let properties = read(&format!("{NAMES},properties\n2,acme,call,2024-04-01,{{\n"));
        assert_eq!(properties, [(2, Err("The column properties is no JSON object".to_owned()))]);
    }

    #[test]
    fn the_first_line_names_the_columns() {
        #[rustfmt::skip]
        let cases = [
            // first line,                                            said,                           why
            ("",                                                      "the file is empty",            "nothing"),
            ("customer_id,event_name,time_created",                   "no column idempotency_id",     "one is missing"),
            ("idempotency_id;customer_id;event_name;time_created",    "with commas between them",     "another separator"),
            ("idempotency_id,customer_id,event_name,time_created,n,n", "the column n twice",          "one is there twice"),
            ("idempotency_id,customer_id,event_name,time_created,",   "the 5. column has no name",    "one has no name"),
            ("idempotency_id,customer_id,event_name,time_created,n,properties", "the column n beside it", "properties twice"),
        ];
        for (names, said, why) in cases {
            let refused = rows(names).err().expect(why).to_string();
            assert!(refused.contains(said), "{why}: {refused}");
        }
    }
}
