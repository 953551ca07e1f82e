//! Webhook endpoints and attempts as answers show them.

use billing_domain::id::{MessageId, WebhookEndpointId};
use billing_domain::message::MessageType;
use billing_domain::webhook::{DeliveryAttempt, EndpointStatus, WebhookEndpoint};

use crate::wire::{Instant, view, words_of};

words_of! { EndpointStatus, MessageType }

view! {
    /// Where messages are sent.
    EndpointView {
        /// Its id.
        webhook_endpoint_id: WebhookEndpointId,
        /// What is called.
        url: String,
        /// Types of the messages that are sent; all when empty.
        event_types: Vec<MessageType>,
        /// What it is for.
        description: Option<String>,
        /// Whether messages are sent.
        status: EndpointStatus,
        /// Why they are not, when the organization has not said so itself.
        disabled_reason: Option<String>,
        /// What verifies the `v1a` signatures of messages: `whpk_` and an ed25519 public key in base64.
        public_key: String,
        /// Since when every attempt has failed; null: the last one has not.
        failing_since: Option<Instant>,
        /// When it was made.
        created_on: Instant,
    }
}

impl From<&WebhookEndpoint> for EndpointView {
    fn from(endpoint: &WebhookEndpoint) -> Self {
        Self {
            webhook_endpoint_id: endpoint.id,
            url: endpoint.url.clone(),
            event_types: endpoint.event_types.clone(),
            description: endpoint.description.clone(),
            status: endpoint.status,
            disabled_reason: endpoint.disabled_reason.clone(),
            public_key: endpoint.public_key.clone(),
            failing_since: endpoint.failing_since.map(Instant),
            created_on: Instant(endpoint.created_at),
        }
    }
}

view! {
    /// A webhook endpoint with a new secret.
    NewSecretView {
        ..endpoint: EndpointView,
        /// What verifies the `v1` signatures of messages: `whsec_` and 32 bytes in base64. It is shown this once.
        secret: String,
    }
}

view! {
    /// One attempt to deliver a message.
    AttemptView {
        /// The message.
        message_id: MessageId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// When it was made, in real time.
        at: Instant,
        /// The HTTP status of the answer; null: there was none.
        status: Option<u32>,
        /// How long it took, in milliseconds.
        duration_ms: u32,
        /// The first kilobyte of the answer; without one, why there was none.
        answer: String,
    }
}

impl From<&DeliveryAttempt> for AttemptView {
    fn from(attempt: &DeliveryAttempt) -> Self {
        Self {
            message_id: attempt.message,
            attempt: attempt.attempt,
            at: Instant(attempt.at),
            status: attempt.status.map(u32::from),
            duration_ms: attempt.duration_ms,
            answer: attempt.answer.clone(),
        }
    }
}

view! {
    /// What came of trying an endpoint.
    TestView {
        /// The id of the message that was sent.
        message_id: MessageId,
        /// The HTTP status of the answer; null: there was none.
        status: Option<u32>,
        /// How long it took, in milliseconds.
        duration_ms: u32,
        /// The first kilobyte of the answer; without one, why there was none.
        answer: String,
    }
}

impl From<&DeliveryAttempt> for TestView {
    fn from(attempt: &DeliveryAttempt) -> Self {
        let AttemptView { message_id, status, duration_ms, answer, .. } = attempt.into();
        Self { message_id, status, duration_ms, answer }
    }
}
