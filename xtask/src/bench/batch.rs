//! Requests with events, cheap to make: the server works on the same processors as whoever sends them.

use std::sync::atomic::{AtomicU64, Ordering};

use time::OffsetDateTime;
use time::macros::format_description;

use super::stage::KEY;
use super::{load, scrambled};

/// Customers that send events.
pub const CUSTOMERS: u64 = 1_000;

/// How customers share the events.
#[derive(Clone, Copy)]
pub enum Spread {
    /// Each sends as many as the others.
    Uniform,
    /// The most eager one sends the most: the nth in proportion to 1/n.
    Zipf,
}

impl Spread {
    fn customer(self, random: u64) -> u64 {
        match self {
            Self::Uniform => random % CUSTOMERS,
            // With u uniform in [0, 1), N^u is distributed like that.
            Self::Zipf => {
                let part = (random >> 11) as f64 / (1_u64 << 53) as f64;
                (CUSTOMERS as f64).powf(part) as u64 % CUSTOMERS
            }
        }
    }

    /// How figures call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "Zipf",
        }
    }
}

/// A number that no other run of this process has, to make ids of.
pub fn next_run() -> u64 {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    RUNS.fetch_add(1, Ordering::Relaxed)
}

/// An event's own number: of its run, its sender, the sender's `n`th request, and its place in that.
///
/// # Panics
/// When there are more of them than have room, since ids would come twice.
pub fn event_number(run: u64, sender: u64, n: u64, place: u64) -> u64 {
    assert!(run < 1 << 16 && sender < 1 << 8 && n < 1 << 24 && place < 1 << 16, "no number is left for an event");
    run << 48 | sender << 40 | n << 16 | place
}

/// A second that has just ended, so that no instant in it is ahead of now, and without its fraction:
/// `2026-01-31T23:59:58`.
pub fn last_second() -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    (OffsetDateTime::now_utc() - time::Duration::SECOND).format(format).expect("a time has all these parts")
}

/// Requests with events that nobody sent before. All have one shape, of which only digits change, so that a request is
/// made out of the one before.
pub struct Batch {
    run: u64,
    size: u64,
    spread: Spread,
    /// One event, with the comma behind it.
    event: String,
    /// Where in it the digits begin that change.
    customer: usize,
    id: usize,
    fraction: usize,
    amount: usize,
}

impl Batch {
    /// With this many events in each request, dated in the second before now, counted by this many metrics.
    pub fn new(size: u64, spread: Spread, metrics: u32) -> Self {
        let mut event = format!("{{\"event_name\":\"event_{metrics}\"");
        let mut digits = |before: &str, count: usize| {
            event.push_str(before);
            event.extend(std::iter::repeat_n('0', count));
            event.len() - count
        };
        let customer = digits(",\"customer_id\":\"customer-", 3);
        let id = digits("\",\"idempotency_id\":\"", 16);
        let fraction = digits(&format!("\",\"time_created\":\"{}.", last_second()), 6);
        let amount = digits("Z\",\"properties\":{\"amount\":", 2);
        digits(",\"region\":\"eu\"}},", 0);
        Self { run: next_run(), size, spread, event, customer, id, fraction, amount }
    }

    /// Makes the `n`th request of a client out of any other of this batch, or of nothing.
    pub fn make(&self, client: usize, n: u64, request: &mut Vec<u8>) {
        const END: &str = "]}";
        if request.is_empty() {
            let events = self.event.repeat(usize::try_from(self.size).unwrap_or_default());
            *request = load::post("/api/track/", KEY, &format!("{{\"batch\":[{}{END}", events.trim_end_matches(',')));
        }
        // The last event has no comma behind it.
        let events = request.len() - END.len() + 1 - self.event.len() * self.size as usize;
        for (place, event) in (0..self.size).zip(request[events..].chunks_mut(self.event.len())) {
            let number = event_number(self.run, client as u64, n, place);
            let random = scrambled(number);
            put::<10>(&mut event[self.customer..][..3], self.spread.customer(random));
            put::<16>(&mut event[self.id..][..16], number);
            put::<10>(&mut event[self.fraction..][..6], random % 1_000_000);
            let amount = &mut event[self.amount..][..2];
            put::<10>(amount, random / 1_000_000 % 100);
            if amount[0] == b'0' {
                amount[0] = b' ';
            }
        }
    }
}

/// Writes a number with so many digits.
fn put<const BASE: u64>(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number % BASE) as usize];
        number /= BASE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    fn events(request: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(request).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        let body: Value = serde_json::from_str(body).expect("JSON");
        body["batch"].as_array().expect("a batch").clone()
    }

    #[test]
    fn a_request_made_of_another_is_the_one_made_of_nothing() {
        for size in [1, 3, 100] {
            for spread in [Spread::Uniform, Spread::Zipf] {
                let batch = Batch::new(size, spread, 5);
                let mut kept = Vec::new();
                for (client, n) in [(0, 0), (63, 9_999_999), (1, 7), (0, 0)] {
                    let mut fresh = Vec::new();
                    batch.make(client, n, &mut fresh);
                    batch.make(client, n, &mut kept);
                    assert_eq!(kept, fresh);
                    assert_eq!(events(&kept).len() as u64, size);
                }
            }
        }
    }

    #[test]
    fn no_id_comes_twice_in_any_run() {
        let mut ids = BTreeSet::new();
        let mut request = Vec::new();
        for _ in 0..3 {
            let batch = Batch::new(20, Spread::Zipf, 0);
            for (client, n) in (0..4).flat_map(|client| (0..5).map(move |n| (client, n))) {
                batch.make(client, n, &mut request);
                for event in events(&request) {
                    assert!(ids.insert(event["idempotency_id"].to_string()), "{event} came before");
                }
            }
        }
        assert_eq!(ids.len(), 3 * 4 * 5 * 20);
    }

    #[test]
    fn events_differ_in_customer_time_and_amount() {
        let mut request = Vec::new();
        Batch::new(1_000, Spread::Uniform, 5).make(0, 0, &mut request);
        let events = events(&request);
        let different = |field: &dyn Fn(&Value) -> String| events.iter().map(field).collect::<BTreeSet<_>>().len();
        assert!(different(&|event| event["customer_id"].to_string()) > 500);
        assert!(different(&|event| event["time_created"].to_string()) > 900);
        assert_eq!(different(&|event| event["properties"]["amount"].to_string()), 100);
        assert!(events.iter().all(|event| event["event_name"] == "event_5"));
    }

    #[test]
    #[should_panic(expected = "no number is left")]
    fn numbers_that_have_no_room_are_not_cut_off() {
        event_number(0, 1 << 8, 0, 0);
    }
}
