//! W3C's trace context: which trace of a caller's a request belongs to.

use actix_web::http::header::{HeaderMap, HeaderName};
use uuid::Uuid;

/// The header that says it of a request.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header that says of an answer which part of the trace it was (Trace Context, level 2).
pub const TRACERESPONSE: HeaderName = HeaderName::from_static("traceresponse");
/// How long a `traceparent` of version 00 is; later ones may be longer.
const LENGTH: usize = 55;
/// The flag of a trace that the caller keeps.
const SAMPLED: u8 = 1;

/// A place in a trace, all in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The whole.
    pub trace_id: String,
    /// The caller's part of it, that this one is below.
    pub parent_id: String,
    /// This part.
    pub span_id: String,
    is_sampled: bool,
}

impl Trace {
    /// What a request says of itself, if it says it well: as the specification has it, anything else is as good as nothing.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT);
        let text = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
        let known = text.get(..LENGTH)?;
        let mut parts = known.split('-');
        let [version, trace_id, parent_id, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let is_of_version = match version {
            "00" => text.len() == LENGTH,
            "ff" => false,
            _ => matches!(text.as_bytes().get(LENGTH), None | Some(b'-')),
        };
        let is_well_said =
            is_hex(version, 2) && is_hex(trace_id, 32) && is_hex(parent_id, 16) && is_hex(flags, 2) && is_of_version;
        let is_any = |id: &str| id.bytes().any(|byte| byte != b'0');
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (is_well_said && parts.next().is_none() && is_any(trace_id) && is_any(parent_id)).then(|| Self {
            trace_id: trace_id.to_owned(),
            parent_id: parent_id.to_owned(),
            span_id: new_span(),
            is_sampled: flags & SAMPLED == SAMPLED,
        })
    }

    /// The value of [`TRACERESPONSE`].
    pub fn response(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.is_sampled))
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The random half of an id.
fn new_span() -> String {
    Uuid::now_v7().simple().to_string().split_off(16)
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::HeaderValue;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    fn read(values: &[&str]) -> Option<Trace> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, HeaderValue::from_str(value).expect("a header"));
        }
        Trace::of(&headers)
    }

    #[test]
    fn a_trace_is_taken_over_if_it_is_well_said() {
        let good = format!("00-{TRACE}-{PARENT}-01");
        #[rustfmt::skip]
        let cases = [
            // header,                                                   taken, why
            (good.clone(),                                               true,  "the specification's example"),
            (format!("00-{TRACE}-{PARENT}-00"),                          true,  "not sampled"),
            (format!("cc-{TRACE}-{PARENT}-01-what-comes"),               true,  "a later version, with more behind it"),
            (format!("cc-{TRACE}-{PARENT}-01"),                          true,  "a later version"),
            (format!("cc-{TRACE}-{PARENT}-01x"),                         false, "more, not set apart"),
            (format!("00-{TRACE}-{PARENT}-01-more"),                     false, "more than this version has"),
            (format!("00-{}-{PARENT}-01", "0".repeat(32)),               false, "no trace"),
            (format!("00-{TRACE}-{}-01", "0".repeat(16)),                false, "no parent"),
            (good.to_uppercase(),                                        false, "capitals"),
            (format!("ff-{TRACE}-{PARENT}-01"),                          false, "a version that is none"),
            (format!("0-{TRACE}-{PARENT}-001"),                          false, "as long, but other parts"),
            ("00-4bf92f35-00f067aa0ba902b7-01".to_owned(),               false, "too short"),
            (String::new(),                                              false, "nothing"),
        ];
        for (value, taken, why) in cases {
            assert_eq!(read(&[&value]).is_some(), taken, "{value}: {why}");
        }
        assert_eq!(read(&[&good, &good]), None, "twice");
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn the_answer_names_a_part_of_its_own() {
        for (flags, answered) in [("01", "01"), ("00", "00"), ("03", "01"), ("fe", "00")] {
            let trace = read(&[&format!("00-{TRACE}-{PARENT}-{flags}")]).expect("a trace");
            assert_eq!((trace.trace_id.as_str(), trace.parent_id.as_str()), (TRACE, PARENT));
            assert!(is_hex(&trace.span_id, 16) && trace.span_id != PARENT);
            assert_eq!(trace.response(), format!("00-{TRACE}-{}-{answered}", trace.span_id));
        }
        let spans: std::collections::BTreeSet<_> = (0..100).map(|_| new_span()).collect();
        assert_eq!(spans.len(), 100);
    }
}
