//! Files with all events in one JSON array, read element by element: the whole need not fit into memory.

use std::io::BufRead;

use anyhow::{Context, bail};

use super::place::{Bytes, Place};
use super::record::{RECORD_BYTES_MAX, ReadEvent, Record, text_of};

/// The elements of an array.
pub struct Elements {
    bytes: Bytes,
    is_first: bool,
    is_over: bool,
}

impl Elements {
    /// From the first one on.
    ///
    /// # Errors
    /// When the file cannot be read, or does not begin with a bracket.
    pub fn new(reader: Box<dyn BufRead>) -> anyhow::Result<Self> {
        let mut bytes = Bytes::new(reader);
        loop {
            let place = bytes.place;
            match bytes.take()? {
                Some(b'[') => return Ok(Self { bytes, is_first: true, is_over: false }),
                Some(byte) if byte.is_ascii_whitespace() => {}
                _ => bail!("{place}: a JSON array begins with `[`; for one event on each line say --format jsonl"),
            }
        }
    }

    /// The next one, read by `read`.
    ///
    /// # Errors
    /// When the file cannot be read, an element has no end, or something stands behind the array.
    pub fn next_record(&mut self, read: ReadEvent) -> anyhow::Result<Option<Record>> {
        if self.is_over {
            return Ok(None);
        }
        let Some((place, element)) = self.element()? else { return Ok(None) };
        let text = text_of(element);
        let event = match text.trim_ascii_end() {
            "" => Err("An element is missing".to_owned()),
            text => read(text, place),
        };
        // An element need not be the only one of its line.
        let event = event.map_err(|reason| format!("{reason} (the element at {place})"));
        Ok(Some(Record { line: place.line, text, event }))
    }

    /// Where the next element begins, and what stands there up to its comma or the end of the array.
    fn element(&mut self) -> anyhow::Result<Option<(Place, Vec<u8>)>> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let (mut element, mut begins) = (Vec::new(), None);
        let (mut open, mut is_text, mut is_escaped) = (Vec::new(), false, false);
        loop {
            let place = self.bytes.place;
            let byte = self.bytes.take()?;
            let byte = byte.with_context(|| format!("the array breaks off behind {}", begins.unwrap_or(place)))?;
            match byte {
                _ if is_text => {
                    is_text = is_escaped || byte != b'"';
                    is_escaped = !is_escaped && byte == b'\\';
                }
                b']' if open.is_empty() => {
                    self.end()?;
                    let is_empty = is_first && begins.is_none();
                    return Ok((!is_empty).then_some((begins.unwrap_or(place), element)));
                }
                b',' if open.is_empty() => return Ok(Some((begins.unwrap_or(place), element))),
                b'"' => is_text = true,
                b'{' => open.push(b'}'),
                b'[' => open.push(b']'),
                b'}' | b']' if open.pop() != Some(byte) => {
                    bail!("{place}: this bracket closes nothing that is open");
                }
                byte if byte.is_ascii_whitespace() && begins.is_none() => continue,
                _ => {}
            }
            let begins = begins.get_or_insert(place);
            element.push(byte);
            if element.len() > RECORD_BYTES_MAX {
                bail!("{begins}: the element that begins here is longer than {RECORD_BYTES_MAX} bytes");
            }
        }
    }

    /// Behind the array there is nothing.
    fn end(&mut self) -> anyhow::Result<()> {
        self.is_over = true;
        loop {
            let place = self.bytes.place;
            match self.bytes.take()? {
                None => return Ok(()),
                Some(byte) if byte.is_ascii_whitespace() => {}
                Some(_) => bail!("{place}: something stands behind the array"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;
    use crate::import::record::read_object;

    /// The line of each element and its event's id or what is wrong; and what ended the reading, if it was a fault.
    fn read(text: &str) -> (Vec<(u64, Result<String, String>)>, Option<String>) {
        let mut found = Vec::new();
        let elements = Elements::new(Box::new(BufReader::new(Cursor::new(text.to_owned()))));
        let mut elements = match elements {
            Ok(elements) => elements,
            Err(error) => return (found, Some(error.to_string())),
        };
        loop {
            match elements.next_record(read_object) {
                Ok(Some(Record { line, event, .. })) => found.push((line, event.map(|event| event.idempotency_id))),
                Ok(None) => return (found, None),
                Err(error) => return (found, Some(error.to_string())),
            }
        }
    }

    fn event(id: &str) -> String {
        format!(
            r#"{{"customer_id":"acme","event_name":"call","idempotency_id":"{id}","time_created":"2024-04-01","properties":{{"a":["[,]","\\\""]}}}}"#
        )
    }

    #[test]
    fn elements_are_found_wherever_they_stand() {
        let ok = |line: u64, id: &str| (line, Ok(id.to_owned()));
        let (a, b) = (event("a"), event("b"));
        #[rustfmt::skip]
        let cases = [
            // file,                                       elements,                       why
            ("[]".to_owned(),                              vec![],                         "none"),
            (format!("[{a},{b}]"),                         vec![ok(1, "a"), ok(1, "b")],   "in one line"),
            (format!(" \n[\n  {a}\n  ,\n{b}\n]\n\n"),      vec![ok(3, "a"), ok(5, "b")],   "each on its own"),
            (format!("[{}]", a.replace(':', ":\n")),       vec![ok(1, "a")],               "over several lines"),
        ];
        for (text, expected, why) in cases {
            assert_eq!(read(&text), (expected, None), "{why}");
        }
        let cloud =
            r#"[{"specversion":"1.0","id":"1","source":"s","type":"call","subject":"acme","time":"2024-04-01"}]"#;
        assert_eq!(read(cloud), (vec![ok(1, "s 1")], None), "a CloudEvent says that it is one");
    }

    #[test]
    fn a_bad_element_is_told_with_its_place_and_spoils_no_other() {
        let (a, b) = (event("a"), event("b"));
        #[rustfmt::skip]
        let cases = [
            // element,                 reason,                                                             why
            ("{}",                      "No idempotency_id provided: this is no event; send an event, a list of events, or {\"batch\": [..]} with a list of them (the element at line 2, column 1)", "no event"),
            ("{\"a\":\n +1}",           "This is not JSON: line 3, column 2 (the element at line 2, column 1)", "not JSON"),
            ("{\"a\":1,\"a\":2}",       "An object in the body has the same key twice. (the element at line 2, column 1)", "a key twice"),
            ("",                        "An element is missing (the element at line 2, column 1)",          "nothing"),
            ("7",                       "Invalid event (the element at line 2, column 1)",                  "a number"),
        ];
        for (element, reason, why) in cases {
            let (found, fault) = read(&format!("[{a},\n{element},{b}]"));
            assert_eq!((found.len(), fault), (3, None), "{why}: {found:?}");
            assert_eq!(found[1], (2, Err(reason.to_owned())), "{why}");
        }
    }

    #[test]
    fn an_array_that_is_none_ends_the_reading() {
        let a = event("a");
        #[rustfmt::skip]
        let cases = [
            // file,                          read before, said
            (String::new(),                   0, "line 1, column 1: a JSON array begins with `[`"),
            ("\n {}".to_owned(),              0, "line 2, column 2: a JSON array begins with `[`"),
            (format!("[{a},\n {a}"),          1, "the array breaks off behind line 2, column 2"),
            ("[".to_owned(),                  0, "the array breaks off behind line 1, column 2"),
            (format!("[{a},\n{{\"b\":1]"),    1, "line 2, column 7: this bracket closes nothing that is open"),
            (format!("[{a}]\n,{a}"),          0, "line 2, column 1: something stands behind the array"),
            (format!("[\"{}", "a".repeat(RECORD_BYTES_MAX)), 0, "line 1, column 2: the element that begins here is longer"),
        ];
        for (text, before, said) in cases {
            let (found, fault) = read(&text);
            let fault = fault.expect(said);
            assert!(found.len() == before && fault.starts_with(said), "{said}: {found:?} {fault}");
        }
    }
}
