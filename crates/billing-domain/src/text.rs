//! Text: how long a name, an id or a description may be, what it may contain, and how it is read out of JSON.

use std::borrow::Cow;

use crate::error::{FieldCode, FieldError};

/// Longest id chosen by a caller (customer id, event name, idempotency id, property name), in characters.
pub const ID_CHARACTERS_MAX: usize = 255;
/// Longest name, in characters.
pub const NAME_CHARACTERS_MAX: usize = 1_000;
/// Longest description, in characters.
pub const DESCRIPTION_CHARACTERS_MAX: usize = 5_000;
/// Longest e-mail address, in characters (RFC 5321).
pub const EMAIL_CHARACTERS_MAX: usize = 254;

/// Checks an id chosen by a caller: 1 to 255 characters, none of them a control character.
///
/// # Errors
/// What is wrong, with an empty `attr` for the caller to fill in.
pub fn check_id(text: &str) -> Result<(), FieldError> {
    check(text, ID_CHARACTERS_MAX)?;
    if text.chars().any(char::is_control) {
        return Err(FieldError::new("", FieldCode::Invalid, "Control characters are not allowed."));
    }
    Ok(())
}

/// Checks that `text` has at least one visible character and at most `characters_max` in all.
///
/// # Errors
/// What is wrong, with an empty `attr` for the caller to fill in.
pub fn check(text: &str, characters_max: usize) -> Result<(), FieldError> {
    if text.trim().is_empty() {
        return Err(FieldError::new("", FieldCode::Blank, "This field may not be blank."));
    }
    check_length(text, characters_max)
}

/// Checks only the length; empty text passes.
///
/// # Errors
/// [`FieldCode::MaxLength`] with an empty `attr`.
pub fn check_length(text: &str, characters_max: usize) -> Result<(), FieldError> {
    if text.chars().count() > characters_max {
        let detail = format!("Ensure this field has no more than {characters_max} characters.");
        return Err(FieldError::new("", FieldCode::MaxLength, detail));
    }
    Ok(())
}

/// Checks an e-mail address: something, one `@`, a dotted or plain host, no white space.
///
/// # Errors
/// What is wrong, with an empty `attr` for the caller to fill in.
pub fn check_email(text: &str) -> Result<(), FieldError> {
    check(text, EMAIL_CHARACTERS_MAX)?;
    let shaped = text.split_once('@').is_some_and(|(local, host)| {
        !local.is_empty()
            && !host.is_empty()
            && !host.contains('@')
            && !host.starts_with('.')
            && !host.ends_with('.')
            && !host.contains("..")
            && host.contains('.')
    });
    if !shaped || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(FieldError::new("", FieldCode::Invalid, "Enter a valid email address."));
    }
    Ok(())
}

/// The text that a JSON value, without space around it, is; `None` when it is something else.
pub fn of_json(json: &str) -> Option<Cow<'_, str>> {
    let inside = json.strip_prefix('"')?.strip_suffix('"')?;
    match inside.contains('\\') {
        false => Some(inside.into()),
        true => serde_json::from_str::<String>(json).ok().map(Cow::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_addresses_that_can_be_delivered_to() {
        #[rustfmt::skip]
        let cases = [
            // address,              accepted, why
            ("a@acme.io",            true,  "the usual form"),
            ("a.b+c@mail.acme.io",   true,  "dots, tags, sub-domains"),
            ("acme.io",              false, "no @"),
            ("@acme.io",             false, "nobody"),
            ("a@",                   false, "nowhere"),
            ("a@b@acme.io",          false, "two hosts"),
            ("a b@acme.io",          false, "white space"),
            ("a@acme",               false, "no top-level domain"),
            ("a@acme..io",           false, "an empty label"),
        ];
        for (address, accepted, why) in cases {
            assert_eq!(check_email(address).is_ok(), accepted, "{address}: {why}");
        }
    }

    #[test]
    fn ids_hold_no_control_characters() {
        assert!(check_id("a/b c.d@e").is_ok());
        for bad in ["", " ", "a\nb", "a\u{0}b"] {
            assert!(check_id(bad).is_err(), "{bad:?}");
        }
        assert!(check_id(&"é".repeat(255)).is_ok(), "characters are counted, not bytes");
        assert!(check_id(&"é".repeat(256)).is_err());
    }

    #[test]
    fn text_out_of_json() {
        #[rustfmt::skip]
        let cases = [
            // json,           text,            why
            (r#""a b""#,       Some("a b"),     "as it stands"),
            (r#""""#,          Some(""),        "an empty one"),
            (r#""a\"\u0062""#, Some("a\"b"),    "escapes are resolved"),
            (r#""\ud83d""#,    None,            "half a pair of surrogates is no text"),
            (r#"""#,           None,            "a quote alone"),
            ("7",              None,            "a number"),
            ("null",           None,            "nothing"),
            (r#"["a"]"#,       None,            "a list"),
        ];
        for (json, text, why) in cases {
            assert_eq!(of_json(json).as_deref(), text, "{why}");
        }
    }
}
