//! Webhook endpoints: where messages are sent, and when again after a failure.

use time::{Duration, OffsetDateTime};

use crate::error::{FieldCode, FieldErrors};
use crate::id::{MessageId, WebhookEndpointId};
use crate::message_type::MessageType;
use crate::text;

/// Most endpoints of one organization.
pub const ENDPOINTS_MAX: usize = 16;
/// How long an endpoint may fail before it is disabled, and a message before it is given up.
pub const FAILING_MAX: Duration = Duration::days(5);
/// How long the secret before still signs when there is another one.
pub const OLD_SECRET_VALID: Duration = Duration::days(1);
/// Longest wait that an endpoint can ask for.
pub const RETRY_AFTER_MAX: Duration = Duration::days(1);
/// Most bytes that are kept of an answer.
pub const ANSWER_KEPT_BYTES_MAX: usize = 1_024;

/// How long after each failed attempt the next one is made; after the last of them, each time as long again.
const WAITS: [Duration; 7] = [
    Duration::seconds(5),
    Duration::minutes(5),
    Duration::minutes(30),
    Duration::hours(2),
    Duration::hours(5),
    Duration::hours(10),
    Duration::hours(24),
];

choices! {
    /// Whether messages are sent to an endpoint.
    pub EndpointStatus {
        /// They are.
        Enabled = "enabled",
        /// They are not, until somebody enables it again.
        Disabled = "disabled",
    }
}

/// Where messages are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// Its id.
    pub id: WebhookEndpointId,
    /// What is called.
    pub url: String,
    /// Types of the messages that are sent; none: all.
    pub event_types: Vec<MessageType>,
    /// What it is for.
    pub description: Option<String>,
    /// What verifies the public signatures of messages.
    pub public_key: String,
    /// What messages are signed with, sealed: nobody who reads the database can sign.
    pub secret: Vec<u8>,
    /// The secret before, sealed, and until when it signs too.
    pub old_secret: Option<(Vec<u8>, OffsetDateTime)>,
    /// Whether messages are sent.
    pub status: EndpointStatus,
    /// Why they are not, when it was not the organization that said so.
    pub disabled_reason: Option<String>,
    /// Since when every attempt has failed; `None`: the last one has not.
    pub failing_since: Option<OffsetDateTime>,
    /// The position in the feed up to which messages were sent, or wait to be sent again.
    pub position: u64,
    /// How often it was sent back to a position: a turn that was read before that does not move it on.
    pub replays: u64,
    /// When it was made, in real time.
    pub created_at: OffsetDateTime,
}

impl WebhookEndpoint {
    /// Whether messages of this type are sent to it.
    pub fn wants(&self, message_type: MessageType) -> bool {
        self.event_types.is_empty() || self.event_types.contains(&message_type)
    }

    /// What is wrong with what is said of it, but for the URL.
    pub fn faults(&self) -> FieldErrors {
        let mut errors = FieldErrors::default();
        if let Some(description) = &self.description {
            errors.keep("description", text::check_length(description, text::DESCRIPTION_CHARACTERS_MAX));
        }
        for (i, wanted) in self.event_types.iter().enumerate() {
            if self.event_types[..i].contains(wanted) {
                errors.push(format!("event_types.{i}"), FieldCode::Unique, "This type is named twice.");
            }
        }
        errors
    }
}

/// A message that waits to be sent to an endpoint outside of the order of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingDelivery {
    /// The message.
    pub message: MessageId,
    /// Its position in the feed.
    pub position: u64,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is tried next.
    pub next_at: OffsetDateTime,
    /// When it was tried first; `None`: it was not.
    pub first_at: Option<OffsetDateTime>,
}

impl PendingDelivery {
    /// The message at a position of the feed, which is to be sent at `next_at` for the first time.
    pub fn new(position: u64, message: MessageId, next_at: OffsetDateTime) -> Self {
        Self { message, position, attempts: 0, next_at, first_at: None }
    }

    /// After so many attempts, of which the first was made at `first_at`.
    pub fn after(self, attempts: u32, first_at: Option<OffsetDateTime>) -> Self {
        Self { attempts, first_at, ..self }
    }

    /// What becomes of it when an attempt fails at `now`: tried again after the next wait, prolonged by `jitter` (thousandths of a
    /// tenth, up to 1,000) and not before what the endpoint asks for; `None`: it is given up.
    pub fn failed(&self, now: OffsetDateTime, jitter: u16, retry_after: Option<Duration>) -> Option<Self> {
        let first_at = self.first_at.unwrap_or(now);
        if now - first_at >= FAILING_MAX {
            return None;
        }
        let wait = WAITS[(self.attempts as usize).min(WAITS.len() - 1)];
        let spread: Duration = wait * i32::from(jitter.min(1_000)) / 10_000;
        let wait = wait + spread;
        let wait = wait.max(retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
        Some(Self { attempts: self.attempts + 1, next_at: now + wait, first_at: Some(first_at), ..self.clone() })
    }
}

/// One attempt to deliver a message to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryAttempt {
    /// The message.
    pub message: MessageId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// When it was made, in real time.
    pub at: OffsetDateTime,
    /// The HTTP status of the answer; `None`: there was none.
    pub status: Option<u16>,
    /// How long it took, in milliseconds.
    pub duration_ms: u32,
    /// The beginning of the answer, at most [`ANSWER_KEPT_BYTES_MAX`] bytes; without one, why there was none.
    pub answer: String,
}

impl DeliveryAttempt {
    /// The `attempt`th at delivering a message, made at `at`, with what came of it.
    pub fn new(
        (message, attempt): (MessageId, u32),
        at: OffsetDateTime,
        status: Option<u16>,
        duration_ms: u32,
        answer: &str,
    ) -> Self {
        Self { message, attempt, at, status, duration_ms, answer: beginning(answer) }
    }

    /// Whether the endpoint took the message.
    pub fn is_delivered(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether the endpoint says that it is gone for good.
    pub fn is_gone(&self) -> bool {
        self.status == Some(410)
    }
}

/// As much of a text as is kept; NUL is none that a database would keep.
fn beginning(text: &str) -> String {
    let mut end = text.len().min(ANSWER_KEPT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use uuid::Uuid;

    use super::*;

    const NOW: OffsetDateTime = datetime!(2026-01-01 0:00 UTC);

    #[test]
    fn what_fails_is_tried_again_for_five_days() {
        let mut pending = PendingDelivery::new(1, Uuid::nil().into(), NOW);
        let mut waits = Vec::new();
        let mut now = NOW;
        while let Some(next) = pending.failed(now, 0, None) {
            waits.push(next.next_at - now);
            now = next.next_at;
            pending = next;
        }
        let hours = Duration::hours;
        let expected =
            [Duration::seconds(5), Duration::minutes(5), Duration::minutes(30), hours(2), hours(5), hours(10)];
        assert_eq!(waits[..6], expected);
        assert_eq!(waits[6..], [hours(24); 5], "then each day, until five days after the first");
        assert!(now - NOW >= FAILING_MAX && now - NOW < FAILING_MAX + Duration::DAY);
    }

    #[test]
    fn a_wait_is_spread_and_as_long_as_the_endpoint_asks_for() {
        let fresh = PendingDelivery::new(1, Uuid::nil().into(), NOW);
        let wait = |jitter, retry_after| fresh.failed(NOW, jitter, retry_after).expect("tried again").next_at - NOW;
        #[rustfmt::skip]
        let cases = [
            // jitter, the endpoint asks for,        wait,                         why
            (0,        None,                         Duration::milliseconds(5_000), "the first wait"),
            (1_000,    None,                         Duration::milliseconds(5_500), "a tenth longer at most"),
            (60_000,   None,                         Duration::milliseconds(5_500), "and no more"),
            (0,        Some(Duration::seconds(1)),   Duration::milliseconds(5_000), "not shorter"),
            (0,        Some(Duration::seconds(90)),  Duration::seconds(90),         "as long as it asks for"),
            (0,        Some(Duration::days(90)),     Duration::DAY,                 "within bounds"),
        ];
        for (jitter, retry_after, expected, why) in cases {
            assert_eq!(wait(jitter, retry_after), expected, "{why}");
        }
    }

    #[test]
    fn answers_are_cut_between_characters() {
        let attempt = DeliveryAttempt::new((Uuid::nil().into(), 1), NOW, Some(204), 3, &"ü\0".repeat(600));
        assert!(attempt.answer.len() <= ANSWER_KEPT_BYTES_MAX && !attempt.answer.contains('\0'));
        assert!(attempt.is_delivered() && !attempt.is_gone());
    }
}
