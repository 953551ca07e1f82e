//! Lines of a head end with CR and LF. The HTTP library takes LF alone for an end, too, and a proxy before the service may not: what is one
//! field to the one would be two to the other, and an answer could go to another client than it was asked for by.

use std::sync::atomic::{AtomicU8, Ordering};

/// What the library takes for no head: it answers 400 and closes the connection.
const NO_HEAD: u8 = 0;

/// How far a head was read.
#[derive(Debug)]
pub struct HeadLines(AtomicU8);

/// Nothing of it, or nobody knows what came before: an LF is let pass.
const BEGIN: u8 = 0;
/// Within a line.
const LINE: u8 = 1;
/// Behind the CR of a line.
const LINE_CR: u8 = 2;
/// Where a line begins.
const NEXT: u8 = 3;
/// Behind a CR with which a line begins.
const NEXT_CR: u8 = 4;
/// What comes is not of the head any more.
const OVER: u8 = 5;

impl HeadLines {
    pub fn new() -> Self {
        Self(AtomicU8::new(BEGIN))
    }

    /// The next head is to come.
    pub fn begin(&self) {
        self.0.store(BEGIN, Ordering::Relaxed);
    }

    /// Spoils what came of a head for the library where a line ends with LF alone.
    pub fn check(&self, bytes: &mut [u8]) {
        let mut at = self.0.load(Ordering::Relaxed);
        for byte in bytes {
            at = match (at, *byte) {
                (OVER, _) => break,
                (LINE | NEXT, b'\n') => {
                    *byte = NO_HEAD;
                    OVER
                }
                (BEGIN | LINE_CR, b'\n') => NEXT,
                (NEXT_CR, b'\n') => OVER,
                (NEXT, b'\r') => NEXT_CR,
                (_, b'\r') => LINE_CR,
                _ => LINE,
            };
        }
        self.0.store(at, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_line_feed_alone_spoils_a_head() {
        #[rustfmt::skip]
        let cases = [
            // pieces of what comes,                                         is spoilt, why
            (&["GET / HTTP/1.1\r\nHost: x\r\n\r\n"][..],                     false,     "an ordinary head"),
            (&["GET / HTTP/1.1\r", "\nHost: x\r\n", "\r", "\n"],             false,     "in pieces"),
            (&["\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"],                     false,     "an empty line before it"),
            (&["POST / HTTP/1.1\r\n\r\n{\n}\n"],                             false,     "a body has lines of its own"),
            (&["POST / HTTP/1.1\r\n\r\n", "{\n}\n"],                         false,     "a body that comes later, too"),
            (&["\nrest: of a head\r\n\r\n"],                                 false,     "nobody knows what came before"),
            (&["GET / HTTP/1.1\nHost: x\r\n\r\n"],                           true,      "the first line"),
            (&["GET / HTTP/1.1\r\nA: b\nHost: x\r\n\r\n"],                   true,      "a field"),
            (&["GET / HTTP/1.1\r\nHost: x\r\n\n"],                           true,      "the last line"),
            (&["GET / HTTP/1.1\r\nA: b", "\nHost: x\r\n\r\n"],               true,      "at the beginning of a piece"),
            (&["GET / HTTP/1.1\r\nA: b\r\r\nHost: x\n\r\n"],                 true,      "behind another line with too many CR"),
        ];
        for (pieces, is_spoilt, why) in cases {
            let lines = HeadLines::new();
            let mut came = Vec::new();
            for piece in pieces {
                let mut bytes = piece.as_bytes().to_vec();
                lines.check(&mut bytes);
                came.extend(bytes);
            }
            assert_eq!(came != pieces.concat().into_bytes(), is_spoilt, "{pieces:?}: {why}");
            assert_eq!(came.contains(&NO_HEAD), is_spoilt, "{pieces:?}: {why}");
        }
    }
}
