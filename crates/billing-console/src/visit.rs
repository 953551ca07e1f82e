//! One request of a person's.

use std::cell::RefCell;

use billing_domain::user::Role;
use maud::html;
use serde_json::Value;

use crate::api::{Answer, Api, Failure, Verb};
use crate::route::Outcome;
use crate::text;
use crate::zone::ViewerZone;

/// Fields of a form or of a query, in their order.
#[derive(Clone, Debug, Default)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// The fields of a text as browsers send it: `a=b&c=d`, escaped.
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(name, value)| (unescaped(name, true), unescaped(value, true))).collect())
    }

    /// The first value of a field, without space around it; nothing when it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    }
}

/// A text out of a URL. What is not UTF-8 becomes a sign that stands for it; a `+` is a space only in a form.
pub fn unescaped(text: &str, is_form: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (byte, hex) {
            (b'%', Some(value)) => {
                bytes.push(value);
                rest = &behind[2..];
                continue;
            }
            (b'+', _) if is_form => bytes.push(b' '),
            _ => bytes.push(byte),
        }
        rest = behind;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A text as one part of a path or query.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Who looks.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// Their address.
    pub email: String,
    /// What they are in the organization.
    pub role: Role,
    /// Its name.
    pub organization_name: String,
    /// Whether they belong to other organizations as well.
    pub has_others: bool,
    /// The time zone that they read and write instants in.
    pub zone: ViewerZone,
    /// What every form of theirs carries, so that nobody else's does anything.
    pub form_token: String,
}

/// One request: who looks, and at what.
pub struct Visit<'v> {
    /// The service.
    pub api: &'v dyn Api,
    /// Who looks.
    pub viewer: &'v Viewer,
    /// The part of the path that is named in braces, unescaped.
    pub id: String,
    /// The path, as the browser shows it.
    pub path: String,
    /// The query.
    pub query: Fields,
    /// The form, of an action.
    pub form: Fields,
    /// A text that no other request has: the key under which a form that is made now is done once.
    pub once: String,
    /// What was asked of the service so far, as a shell would ask it.
    pub asked: RefCell<Vec<String>>,
}

impl Visit<'_> {
    /// The value that a call answers.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn get(&self, path: impl Into<String>) -> Result<Value, Failure> {
        Ok(self.list(path).await?.value)
    }

    /// A list, with where it goes on.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn list(&self, path: impl Into<String>) -> Result<Answer, Failure> {
        let path = path.into();
        self.note(Verb::Get, &path, &Value::Null);
        self.api.get(path).await
    }

    /// What a call answers that is a POST and changes nothing.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn ask(&self, path: impl Into<String>) -> Result<Value, Failure> {
        self.ask_with(path, Value::Null).await
    }

    /// The same of a call that takes a body.
    ///
    /// # Errors
    /// Those of the call.
    pub async fn ask_with(&self, path: impl Into<String>, body: impl Into<Value>) -> Result<Value, Failure> {
        let (path, body) = (path.into(), body.into());
        self.note(Verb::Post, &path, &body);
        Ok(self.api.send(Verb::Post, path, body, format!("console-{}", self.once)).await?.value)
    }

    /// Has something done, once for the form that was sent.
    ///
    /// # Errors
    /// Those of the call; without the key of a form.
    pub async fn post(&self, path: impl Into<String>, body: impl Into<Value>) -> Result<Value, Failure> {
        self.has_done(Verb::Post, path.into(), body.into()).await
    }

    /// Has something changed.
    ///
    /// # Errors
    /// Those of the call; without the key of a form.
    pub async fn patch(&self, path: impl Into<String>, body: impl Into<Value>) -> Result<Value, Failure> {
        self.has_done(Verb::Patch, path.into(), body.into()).await
    }

    /// Has something taken away.
    ///
    /// # Errors
    /// Those of the call; without the key of a form.
    pub async fn delete(&self, path: impl Into<String>) -> Result<(), Failure> {
        self.has_done(Verb::Delete, path.into(), Value::Null).await.map(drop)
    }

    async fn has_done(&self, verb: Verb, path: String, body: Value) -> Result<Value, Failure> {
        let once = self.form.get("once").ok_or_else(|| Failure::new(400, "invalid", text::FORM_IS_BROKEN))?;
        self.note(verb, &path, &body);
        Ok(self.api.send(verb, path, body, format!("console-{once}")).await?.value)
    }

    fn note(&self, verb: Verb, path: &str, body: &Value) {
        self.asked.borrow_mut().push(curl(verb, path, body));
    }

    /// A page with the calls that it was made of below it, for whoever wants to ask for the same without the console.
    pub fn telling_calls(&self, outcome: Outcome) -> Outcome {
        let asked = self.asked.borrow();
        match outcome {
            Outcome::Page(title, content) if !asked.is_empty() => {
                let content = html! {
                    (content)
                    details.curl {
                        summary { (text::BY_CURL) }
                        p.quiet { (text::BY_CURL_HINT) }
                        pre tabindex="0" { (asked.join("\n")) }
                    }
                };
                Outcome::Page(title, content)
            }
            outcome => outcome,
        }
    }
}

/// A call as a shell makes it, with the address of the service in `$URL` and an API key in `$KEY`.
fn curl(verb: Verb, path: &str, body: &Value) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let verb = match verb {
        Verb::Get => "",
        Verb::Post => "-X POST ",
        Verb::Patch => "-X PATCH ",
        Verb::Delete => "-X DELETE ",
    };
    let body = if body.is_null() {
        String::new()
    } else {
        format!(" -H 'Content-Type: application/json' -d {}", quoted(&body.to_string()))
    };
    format!("curl {verb}-H \"X-API-KEY: $KEY\" \"$URL\"{}{body}", quoted(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_are_told_as_a_shell_makes_them() {
        #[rustfmt::skip]
        let cases = [
            // call,                                                             told
            (curl(Verb::Get, "/api/invoices/?limit=9&status=paid", &Value::Null), r#"curl -H "X-API-KEY: $KEY" "$URL"'/api/invoices/?limit=9&status=paid'"#),
            (curl(Verb::Delete, "/api/api_keys/x/", &Value::Null),                r#"curl -X DELETE -H "X-API-KEY: $KEY" "$URL"'/api/api_keys/x/'"#),
            (curl(Verb::Post, "/api/it's/", &json!({"name": "$(rm) 'x'"})),       r#"curl -X POST -H "X-API-KEY: $KEY" "$URL"'/api/it'\''s/' -H 'Content-Type: application/json' -d '{"name":"$(rm) '\''x'\''"}'"#),
        ];
        for (call, told) in cases {
            assert_eq!(call, told);
        }
    }

    #[test]
    fn texts_go_through_a_url_and_back() {
        for text in ["plain", "a b+c", "50% off/é?&=#", "\u{1F600}", ""] {
            assert_eq!(unescaped(&escaped(text), false), text);
            assert_eq!(unescaped(&escaped(text), true), text);
        }
        #[rustfmt::skip]
        let cases = [
            // sent,       read,       why
            ("a+b",        "a b",      "a plus is a space in a form"),
            ("%2",         "%2",       "half an escape is none"),
            ("%zz",        "%zz",      "nor are other letters"),
            ("%ff",        "\u{FFFD}", "what is no text is shown as such"),
        ];
        for (sent, read, why) in cases {
            assert_eq!(unescaped(sent, true), read, "{sent}: {why}");
        }
    }

    #[test]
    fn forms_are_read_in_order() {
        let fields = Fields::parse("a=1&b=%20x%20&a=2&c&d=");
        assert_eq!(fields.get("a"), Some("1"));
        assert_eq!(fields.get("b"), Some("x"));
        assert_eq!([fields.get("c"), fields.get("d"), fields.get("e")], [None; 3]);
    }
}
