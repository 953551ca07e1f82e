//! Values of the API as people read them. Every digit that the API gives is shown.

use billing_domain::currency::Currency;
use maud::{Markup, html};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::text;
use crate::zone::{ViewerZone, utc};

/// The text of a field: that of a JSON text or number, and nothing for what is missing.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A field that may be missing.
pub fn or_none(value: &Value) -> Markup {
    match plain(value) {
        text if text.is_empty() => html! { span.quiet { (text::NONE) } },
        text => html! { (text) },
    }
}

/// A number with its thousands apart: `-1234.5` is `-1,234.5`.
pub fn number(value: &Value) -> String {
    grouped(&plain(value), 0)
}

/// Thousands apart, and at least so many decimals; no digit is taken away.
fn grouped(digits: &str, decimals: usize) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("\u{2212}", rest));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("{sign}{digits}");
    }
    let mut shown = String::from(sign);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    if decimals > 0 || !part.is_empty() {
        shown.push('.');
        shown.push_str(part);
        shown.extend(std::iter::repeat_n('0', decimals.saturating_sub(part.len())));
    }
    shown
}

/// The code of a currency, as views have it: an object, or the code itself.
pub fn code(currency: &Value) -> String {
    plain(if currency.is_object() { &currency["code"] } else { currency })
}

/// An amount with the digits that its currency is written with, more where there are more.
pub fn amount(value: &Value, currency: &Value) -> Markup {
    let code = code(currency);
    let decimals = Currency::iso_4217(&code).map_or(0, |known| known.decimals as usize);
    let digits = plain(value);
    let is_negative = digits.starts_with('-');
    html! {
        span.amount.negative[is_negative] { (grouped(&digits, decimals)) " " span.unit { (code) } }
    }
}

/// An instant to the minute as clocks in the viewer's zone show it, and in UTC with all of its digits where one points.
pub fn instant(value: &Value, zone: &ViewerZone) -> Markup {
    instant_to(value, zone, "2026-01-01T00:00".len())
}

/// The same to the second.
pub fn second(value: &Value, zone: &ViewerZone) -> Markup {
    instant_to(value, zone, "2026-01-01T00:00:00".len())
}

fn instant_to(value: &Value, zone: &ViewerZone, characters: usize) -> Markup {
    let whole = plain(value);
    match OffsetDateTime::parse(&whole, &Rfc3339) {
        Ok(instant) => {
            let local = zone.local(instant);
            html! {
                time datetime={ (utc(instant).replacen(' ', "T", 1).replace(" UTC", "Z")) } title=(utc(instant)) {
                    (local.get(..characters).unwrap_or_default().replace('T', " "))
                }
            }
        }
        Err(_) => html! { (or_none(value)) },
    }
}

/// The day of an instant or date, as the API says it: those of documents and periods are the same for everybody.
pub fn day(value: &Value) -> Markup {
    let whole = plain(value);
    match whole.get(..10) {
        Some(day) => html! { time datetime=(whole) title=(whole) { (day) } },
        None => html! { (or_none(value)) },
    }
}

/// Two days, from and to.
pub fn days(from: &Value, to: &Value) -> Markup {
    html! { span.period { (day(from)) " \u{2013} " (day(to)) } }
}

/// A status, marked by what it asks of people.
pub fn badge(status: &str) -> Markup {
    let kind = match status {
        "paid" | "active" | "enabled" | "ready" | "done" | "clean" => "good",
        "unpaid" | "waiting" | "running" | "approved" | "not_started" | "advancing" | "grandfathered" | "retiring" => {
            "open"
        }
        "overdue" | "failed" | "disabled" | "parked" | "breached" => "bad",
        _ => "rest",
    };
    html! { span class={ "badge " (kind) } { (status.replace('_', " ")) } }
}

/// A length in microseconds as days, hours, minutes, seconds.
pub fn length(microseconds: &Value) -> String {
    let Some(total) = microseconds.as_i64().filter(|total| *total >= 0) else { return plain(microseconds) };
    let units = [(86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "min"), (1_000_000, "s"), (1, "\u{b5}s")];
    let mut rest = total;
    let mut shown = Vec::new();
    for (size, name) in units {
        if rest >= size {
            shown.push(format!("{} {name}", rest / size));
            rest %= size;
        }
    }
    if shown.is_empty() { "0 s".to_owned() } else { shown.join(" ") }
}

/// The items of a list; none of what is no list.
pub fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// How somebody is called: by name, otherwise by id.
pub fn name(customer: &Value) -> &str {
    let text = |field: &str| customer[field].as_str().filter(|text| !text.is_empty());
    text("customer_name").or_else(|| text("customer_id")).unwrap_or_default()
}

/// Whether a number is written with no digit but 0.
pub fn is_zero(number: &Value) -> bool {
    !plain(number).contains(|digit: char| digit.is_ascii_digit() && digit != '0')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_digit_is_lost() {
        #[rustfmt::skip]
        let cases = [
            // digits,               currency, shown,                           why
            ("0",                     "USD",    "0.00",                          "two decimals are usual"),
            ("1234567.5",             "USD",    "1,234,567.50",                  "thousands apart, cents in full"),
            ("-41.37",                "EUR",    "\u{2212}41.37",                 "a real minus"),
            ("1000",                  "JPY",    "1,000",                         "yen have no decimals"),
            ("9.1",                   "KWD",    "9.100",                         "dinars have three"),
            ("0.000000000000001",     "USD",    "0.000000000000001",             "nothing is rounded away"),
            ("99999999999999999999",  "USD",    "99,999,999,999,999,999,999.00", "beyond any whole number of a machine"),
            ("12",                    "TOKENS", "12",                            "a unit of one's own as it comes"),
        ];
        for (digits, code, shown, why) in cases {
            let value: Value = serde_json::from_str(digits).expect("a number");
            let markup = amount(&value, &json!({"code": code})).into_string();
            assert!(markup.contains(&format!(">{shown} <")), "{digits} {code}: {why}: {markup}");
        }
    }

    #[test]
    fn instants_are_the_viewers_and_utc_beneath() {
        let zone = ViewerZone::new("two ahead", std::sync::Arc::new(time::macros::offset!(+2)));
        #[rustfmt::skip]
        let cases = [
            // value,                         beneath,                          shown,               why
            ("2026-01-01T00:30:59Z",          "2026-01-01 00:30:59 UTC",        "2026-01-01 02:30",  "to the minute"),
            ("2026-01-01T00:30:59.000120Z",   "2026-01-01 00:30:59.000120 UTC", "2026-01-01 02:30",  "every digit where one points"),
            ("2025-12-31T23:30:00+01:00",     "2025-12-31 22:30:00 UTC",        "2026-01-01 00:30",  "in another year already"),
        ];
        for (value, beneath, shown, why) in cases {
            let machine = beneath.replacen(' ', "T", 1).replace(" UTC", "Z");
            let expected = format!("<time datetime=\"{machine}\" title=\"{beneath}\">{shown}</time>");
            assert_eq!(instant(&json!(value), &zone).into_string(), expected, "{why}");
        }
    }

    #[test]
    fn lengths_are_exact() {
        #[rustfmt::skip]
        let cases = [
            // microseconds,       shown,             why
            (0_i64,                "0 s",             "nothing"),
            (2_678_400_000_000,    "31 d",            "a month of 31 days"),
            (86_400_000_001,       "1 d 1 \u{b5}s",   "to the last microsecond"),
            (3_661_000_000,        "1 h 1 min 1 s",   "each unit"),
        ];
        for (microseconds, shown, why) in cases {
            assert_eq!(length(&json!(microseconds)), shown, "{why}");
        }
    }

    #[test]
    fn what_is_missing_does_no_harm() {
        for value in [Value::Null, json!(""), json!("x"), json!({}), json!("\u{1F600}\u{1F600}\u{1F600}")] {
            for shown in
                [instant(&value, &ViewerZone::default()), day(&value), or_none(&value), amount(&value, &Value::Null)]
            {
                assert!(!shown.into_string().contains("<script"));
            }
        }
    }
}
