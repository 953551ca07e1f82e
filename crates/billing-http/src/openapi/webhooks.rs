//! The messages that webhook endpoints get, as the document describes them.

use billing_domain::message::MessageType;
use serde_json::{Map, Value, json};

use crate::wire::{Schema, Schemas};

/// A message of one type.
pub struct Webhook {
    /// Its type.
    pub message_type: MessageType,
    /// When it is told, for people.
    pub meaning: &'static str,
    /// Describes what it says in `data`.
    pub data: fn(&mut Schemas) -> Schema,
}

/// Messages of all types.
pub struct Webhooks {
    /// Describes what all of them have.
    pub message: fn(&mut Schemas) -> Schema,
    /// Those of each type.
    pub each: Vec<Webhook>,
}

/// The headers of a message: each with its type, and what it holds.
#[rustfmt::skip]
const HEADERS: [(&str, &str, &str); 5] = [
    ("webhook-id",           "string",  "The message's `id`, the same however often it is sent."),
    ("webhook-timestamp",    "integer", "When this attempt was made, in seconds since 1970, of real time."),
    ("webhook-signature",    "string",  "Signatures of `{id}.{timestamp}.{body}`, apart by spaces: `v1,` HMAC-SHA256 and `v1a,` ed25519, in base64."),
    ("Billing-Organization", "string",  "The organization whose message it is."),
    ("Billing-Version",      "string",  "The version of this interface that it is written in."),
];

/// What is said of webhooks, by the types of their messages.
pub(super) fn described(webhooks: &Webhooks, schemas: &mut Schemas) -> Value {
    let all = json!((webhooks.message)(schemas));
    let headers: Vec<Value> = HEADERS
        .iter()
        .map(|(name, kind, meaning)| {
            json!({"name": name, "in": "header", "required": true, "description": meaning, "schema": {"type": kind}})
        })
        .collect();
    let of_type = |webhook: &Webhook| {
        let name = webhook.message_type.as_str();
        let own = json!({
            "type": "object",
            "properties": {"type": {"type": "string", "const": name}, "data": json!((webhook.data)(schemas))},
        });
        let operation = json!({
            "operationId": format!("receive_{}", name.replace('.', "_")),
            "summary": webhook.meaning,
            "description": "Sent to the organization's webhook endpoints that want messages of this type, signed by the \
                Standard Webhooks specification. Answer within 15 seconds.",
            "tags": ["webhook_endpoints"],
            "security": [],
            "parameters": headers.clone(),
            "requestBody": {
                "required": true,
                "content": {"application/json": {"schema": {"allOf": [all.clone(), own]}}},
            },
            "responses": {
                "2XX": {"description": "It is taken, and not sent again."},
                "410": {"description": "There is nobody any more: the endpoint is disabled."},
                "default": {"description": "It is sent again, for five days."},
            },
        });
        (name.to_owned(), json!({"post": operation}))
    };
    Value::Object(webhooks.each.iter().map(of_type).collect::<Map<_, _>>())
}
