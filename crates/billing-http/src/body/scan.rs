//! One look over a JSON text before it is parsed, for what parsers let pass.
//!
//! Parsers take the last of two equal keys, where a proxy or a signature may have seen the first; they nest until the
//! stack or a limit of their own ends; they hand over `\u0000`, which no text column can keep.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::error::codes::{self, Code};

/// Deepest nesting of objects and lists.
pub const DEPTH_MAX: usize = 32;
/// So many keys of an object are compared one by one.
const KEYS_COMPARED: usize = 16;

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonFault {
    /// It is not JSON.
    Malformed,
    /// An object has a key twice.
    DuplicateKey,
    /// It nests deeper than [`DEPTH_MAX`].
    TooDeep,
    /// It is not UTF-8, or a string in it has a NUL or half a surrogate pair.
    Encoding,
}

impl JsonFault {
    /// Its row in the table of codes.
    pub fn code(self) -> &'static Code {
        match self {
            Self::Malformed => &codes::PARSE_ERROR,
            Self::DuplicateKey => &codes::DUPLICATE_JSON_KEY,
            Self::TooDeep => &codes::JSON_TOO_DEEP,
            Self::Encoding => &codes::INVALID_ENCODING,
        }
    }
}

/// Checks that `text` has none of the faults that can be seen without knowing what it is for.
///
/// Brackets, strings, keys and commas are checked; the spelling of numbers and words is left to the parser.
///
/// # Errors
/// The first [`JsonFault`] in the text.
pub fn scan(text: &str) -> Result<(), JsonFault> {
    let mut scanner = Scanner { text, at: 0, keys: Vec::new() };
    scanner.value(0)?;
    scanner.space();
    if scanner.at == text.len() { Ok(()) } else { Err(JsonFault::Malformed) }
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
    /// The first ones of each object that is open: behind those of the object that it is in.
    keys: Vec<Cow<'t, str>>,
}

impl<'t> Scanner<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonFault> {
        self.space();
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(JsonFault::Malformed)
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonFault> {
        self.space();
        match self.peek().ok_or(JsonFault::Malformed)? {
            b'{' | b'[' if depth == DEPTH_MAX => Err(JsonFault::TooDeep),
            b'{' => self.object(depth + 1),
            b'[' => self.list(depth + 1),
            b'"' => self.string().map(drop),
            _ => self.token(),
        }
    }

    /// A number or a word.
    fn token(&mut self) -> Result<(), JsonFault> {
        let start = self.at;
        while let Some(b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.') = self.peek() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(JsonFault::Malformed) }
    }

    fn list(&mut self, depth: usize) -> Result<(), JsonFault> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth)?;
            if !self.goes_on(b']')? {
                return Ok(());
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), JsonFault> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let first = self.keys.len();
        let mut further = HashSet::new();
        loop {
            self.space();
            let key = self.key()?;
            let compared = &self.keys[first..];
            if compared.contains(&key) {
                return Err(JsonFault::DuplicateKey);
            } else if compared.len() < KEYS_COMPARED {
                self.keys.push(key);
            } else if !further.insert(key) {
                return Err(JsonFault::DuplicateKey);
            }
            self.expect(b':')?;
            self.value(depth)?;
            if !self.goes_on(b'}')? {
                self.keys.truncate(first);
                return Ok(());
            }
        }
    }

    fn key(&mut self) -> Result<Cow<'t, str>, JsonFault> {
        let key = match self.string()? {
            (raw, false) => Cow::from(raw),
            // "\u0061" and "a" are one key.
            (raw, true) => {
                serde_json::from_str::<String>(&format!("\"{raw}\"")).map_err(|_| JsonFault::Malformed)?.into()
            }
        };
        // A JSON parser that keeps every digit marks its numbers with such keys: nobody else may.
        if key.starts_with("$serde_json::private::") { Err(JsonFault::Malformed) } else { Ok(key) }
    }

    /// Behind an element: whether another follows.
    fn goes_on(&mut self, closing: u8) -> Result<bool, JsonFault> {
        self.space();
        let byte = self.peek().ok_or(JsonFault::Malformed)?;
        self.at += 1;
        match byte {
            b',' => Ok(true),
            byte if byte == closing => Ok(false),
            _ => Err(JsonFault::Malformed),
        }
    }

    /// A string; answers what is between its quotes, and whether it has escapes.
    fn string(&mut self) -> Result<(&'t str, bool), JsonFault> {
        if self.peek() != Some(b'"') {
            return Err(JsonFault::Malformed);
        }
        self.at += 1;
        let (start, mut escaped) = (self.at, false);
        loop {
            let plain = self.text.as_bytes()[self.at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20));
            self.at += plain.ok_or(JsonFault::Malformed)?;
            match self.text.as_bytes()[self.at] {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ => return Err(JsonFault::Malformed),
            }
        }
        let inside = &self.text[start..self.at];
        self.at += 1;
        Ok((inside, escaped))
    }

    fn escape(&mut self) -> Result<(), JsonFault> {
        self.at += 1;
        let kind = self.peek().ok_or(JsonFault::Malformed)?;
        self.at += 1;
        if kind != b'u' {
            return if b"\"\\/bfnrt".contains(&kind) { Ok(()) } else { Err(JsonFault::Malformed) };
        }
        match self.unit()? {
            0 | 0xDC00..=0xDFFF => Err(JsonFault::Encoding),
            0xD800..=0xDBFF => {
                if !self.text[self.at..].starts_with("\\u") {
                    return Err(JsonFault::Encoding);
                }
                self.at += 2;
                if matches!(self.unit()?, 0xDC00..=0xDFFF) { Ok(()) } else { Err(JsonFault::Encoding) }
            }
            _ => Ok(()),
        }
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Result<u32, JsonFault> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(JsonFault::Malformed)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(JsonFault::Malformed);
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| JsonFault::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_what_parsers_let_pass() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        let keys = |last: &str| {
            let many: Vec<String> = (0..40).map(|i| format!("\"k{i}\":{i}")).collect();
            format!("{{{},\"{last}\":0}}", many.join(","))
        };
        #[rustfmt::skip]
        let cases = [
            // text,                                      fault,                          why
            (r#"{"a":1,"b":{"a":2},"c":[{"a":3}]}"#.to_owned(), None,                     "the same key in different objects"),
            (r#"{"a":1,"a":2}"#.to_owned(),               Some(JsonFault::DuplicateKey),  "twice in one object"),
            ("{\"a\":1,\"\\u0061\":2}".to_owned(),        Some(JsonFault::DuplicateKey),  "twice, once with an escape"),
            (r#"[{"x":[{"a":1,"a":2}]}]"#.to_owned(),     Some(JsonFault::DuplicateKey),  "twice, deep inside"),
            (keys("k40"),                                 None,                           "many keys"),
            (keys("k3"),                                  Some(JsonFault::DuplicateKey),  "twice among many"),
            (deep(DEPTH_MAX),                             None,                           "as deep as allowed"),
            (deep(DEPTH_MAX + 1),                         Some(JsonFault::TooDeep),       "one deeper"),
            ("[".repeat(100_000),                         Some(JsonFault::TooDeep),       "far deeper, and never closed"),
            ("[\"\\u0000\"]".to_owned(),                  Some(JsonFault::Encoding),      "a NUL"),
            ("{\"\\u0000\":1}".to_owned(),                Some(JsonFault::Encoding),      "a NUL in a key"),
            (r#"["\ud83d\ude00"]"#.to_owned(),            None,                           "a surrogate pair"),
            (r#"["\ud83d"]"#.to_owned(),                  Some(JsonFault::Encoding),      "half a pair"),
            (r#"["\ude00\ud83d"]"#.to_owned(),            Some(JsonFault::Encoding),      "a pair the wrong way round"),
            (r#"["\\u0000"]"#.to_owned(),                 None,                           "an escaped backslash, no NUL"),
            (r#"["\x"]"#.to_owned(),                      Some(JsonFault::Malformed),     "no such escape"),
            ("[\"a\nb\"]".to_owned(),                     Some(JsonFault::Malformed),     "a raw line break in a string"),
            (r#"{"a":1,}"#.to_owned(),                    Some(JsonFault::Malformed),     "a comma too many"),
            ("[1 2]".to_owned(),                          Some(JsonFault::Malformed),     "a comma too few"),
            ("{} {}".to_owned(),                          Some(JsonFault::Malformed),     "two values"),
            ("\u{feff}{}".to_owned(),                     Some(JsonFault::Malformed),     "a byte order mark"),
            (String::new(),                               Some(JsonFault::Malformed),     "nothing"),
            (r#"{"$serde_json::private::Number":"1"}"#.to_owned(), Some(JsonFault::Malformed), "a key of the parser's own"),
            (" { \"a\" : [ 1 , -2.5e3 , null ] } ".to_owned(), None,                      "space anywhere"),
        ];
        for (text, fault, why) in cases {
            assert_eq!(scan(&text).err(), fault, "{:.40}: {why}", text);
        }
    }
}
