//! Sending one message to one endpoint.

use std::time::Instant;

use billing_domain::id::{MessageId, OrganizationId};
use billing_domain::webhook::{DeliveryAttempt, WebhookEndpoint};
use billing_outbound::{Answer, Client, Destination, Message, Secret, Session, TIMEOUT};
use time::{Duration, OffsetDateTime};

use super::seal::Sealer;

/// The version of the interface that messages are written in.
const API_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The time while messages are sent: what it was at the beginning, and what has passed since.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began_at: OffsetDateTime,
    began: Instant,
}

impl Clock {
    /// It is `now`.
    pub fn at(now: OffsetDateTime) -> Self {
        Self { began_at: now, began: Instant::now() }
    }

    /// What has passed since then.
    pub fn elapsed(&self) -> std::time::Duration {
        self.began.elapsed()
    }

    /// The time.
    pub fn now(&self) -> OffsetDateTime {
        let now = self.began_at + self.elapsed();
        // As the database keeps it.
        now.replace_nanosecond(now.microsecond() * 1_000).unwrap_or(now)
    }
}

/// A message that is to be sent.
pub struct Letter<'l> {
    /// Which.
    pub message: MessageId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// What is sent.
    pub body: &'l [u8],
}

/// What came of sending it.
pub struct Outcome {
    /// The attempt, as it is kept.
    pub attempt: DeliveryAttempt,
    /// When it was over.
    pub ended_at: OffsetDateTime,
    /// How long the endpoint asks to be left alone.
    pub retry_after: Option<Duration>,
}

/// An endpoint that is called, and what signs for it.
pub struct Addressee {
    organization: String,
    destination: Result<Destination, String>,
    secrets: Vec<Secret>,
}

impl Addressee {
    /// An organization's endpoint at an instant: the secret before signs until its time is over.
    pub fn new(
        client: &Client,
        sealer: &Sealer,
        (organization, endpoint): (OrganizationId, &WebhookEndpoint),
        now: OffsetDateTime,
    ) -> Self {
        let old = endpoint.old_secret.as_ref().filter(|(_, until)| *until > now).map(|(sealed, _)| sealed);
        let sealed = std::iter::once(&endpoint.secret).chain(old);
        let destination = Destination::parse(&endpoint.url, client.reach()).map_err(|error| error.to_string());
        Self {
            organization: organization.to_string(),
            destination,
            secrets: sealed.filter_map(|sealed| sealer.open(endpoint.id, sealed)).collect(),
        }
    }

    /// Posts a message. Blocks as long as the endpoint takes, within bounds.
    pub fn send(&self, session: &Session, letter: &Letter<'_>, clock: &Clock) -> Outcome {
        let (began_at, began) = (clock.now(), Instant::now());
        let answered = self.post(session, letter, began_at);
        let duration_ms = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
        let (status, text, retry_after) = match answered {
            Ok(Answer { status, body, retry_after, .. }) => {
                let text = String::from_utf8_lossy(&body).into_owned();
                (Some(status), text, retry_after.and_then(|wait| Duration::try_from(wait).ok()))
            }
            Err(reason) => (None, reason, None),
        };
        let made = (letter.message, letter.attempt);
        let attempt = DeliveryAttempt::new(made, began_at, status, duration_ms, &self.without_secrets(text));
        Outcome { attempt, ended_at: clock.now(), retry_after }
    }

    /// What an endpoint answers is kept and shown, and one that repeats its secret must not have that shown.
    fn without_secrets(&self, text: String) -> String {
        if !text.contains(Secret::PREFIX) {
            return text;
        }
        self.secrets.iter().fold(text, |text, secret| text.replace(&secret.reveal(), "whsec_***"))
    }

    fn post(&self, session: &Session, letter: &Letter<'_>, now: OffsetDateTime) -> Result<Answer, String> {
        let destination = self.destination.as_ref().map_err(Clone::clone)?;
        if self.secrets.is_empty() {
            return Err("its secret cannot be read: was the key pepper changed?".to_owned());
        }
        let id = letter.message.to_string();
        let message = Message { id: &id, timestamp: now.unix_timestamp(), body: letter.body };
        let secrets: Vec<&Secret> = self.secrets.iter().collect();
        let signed = Secret::sign_with(&secrets, &message);
        let mut headers = vec![
            ("content-type", "application/json"),
            ("billing-version", API_VERSION),
            ("billing-organization", self.organization.as_str()),
        ];
        headers.extend(signed.as_pairs());
        session.post(destination, &headers, letter.body, TIMEOUT).map_err(|failure| failure.to_string())
    }
}
