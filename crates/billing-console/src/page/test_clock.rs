//! A test clock: let time pass, and see which invoices come.

use maud::{Markup, html};
use serde_json::Value;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::invoice_table;
use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::layout::{form_token, part};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const LIST: &str = "/console/test_clocks/";
const FIELDS: [Field; 1] = [Field::new("frozen_time", text::ADVANCE_TO, Input::Instant).required()];
/// How far the slider goes: a quarter of a year.
const DAYS_MAX: u16 = 92;
/// Where the slider stands at first: the next month.
const DAYS: u16 = 31;
/// Invoices that are shown, the latest.
const INVOICES: u8 = 20;

/// `GET /console/test_clocks/{test_clock_id}/`
///
/// # Errors
/// When there is no such clock.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let clock = visit.get(format!("/api/test_clocks/{id}/")).await?;
    let invoices = visit.get(format!("/api/invoices/?test_clock_id={id}&limit={INVOICES}")).await?;
    let invoices = show::items(&invoices);
    let (name, status) = (show::plain(&clock["name"]), clock["status"].as_str().unwrap_or_default());
    let is_advancing = status == "advancing";
    let clock_and_invoices = html! {
        h1.long { (name) " " (show::badge(status)) }
        dl.facts {
            div { dt { (text::CLOCK_TIME) } dd { (show::instant(&clock["frozen_time"], &visit.viewer.zone)) } }
            div { dt { (text::ID) } dd.long { code { (show::plain(&clock["test_clock_id"])) } } }
        }
        p { (text::TEST_CLOCK_EXPLAINED) }
        @if is_advancing {
            p.empty role="status" { (text::CLOCK_IS_BUSY) " " a href="" { (text::LOOK_AGAIN) } }
        } @else {
            @if status == "failed" { div.notice.bad { p { (text::CLOCK_HAS_FAILED) } } }
            (ways_to_advance(visit, &clock["frozen_time"]))
        }
        section {
            h2 { (text::INVOICES_AT_CLOCK) }
            @if invoices.is_empty() { p.empty { (text::NO_INVOICES_AT_CLOCK) } } @else { (invoice_table(invoices, true)) }
        }
    };
    let content = html! {
        nav.path { a href=(LIST) { (text::TEST_CLOCKS) } }
        (part("clock", 1, is_advancing, &clock_and_invoices))
    };
    Ok(Outcome::Page(name, content))
}

/// A slider of days, and a field for any time. What a position of the slider comes to is said beside it by the script.
fn ways_to_advance(visit: &Visit<'_>, frozen_time: &Value) -> Markup {
    let now = show::plain(frozen_time);
    let form = Form {
        fields: &[(FIELDS[0], now.clone())],
        button: text::ADVANCE_TO,
        is_danger: false,
        back: (LIST, text::BACK),
    };
    html! {
        form.act method="post" {
            (form_token(&visit.viewer.form_token))
            input type="hidden" name="once" value=(visit.once);
            input type="hidden" name="from" value=(now);
            label for="days" { (text::DAYS_TO_PASS) }
            input id="days" name="days" type="range" min="1" max=(DAYS_MAX) value=(DAYS) data-from=(now)
                data-zone=(visit.viewer.zone.name()) aria-describedby="days-are";
            output id="days-are" for="days" { (text::ONE_TO_MANY_DAYS) }
            button type="submit" { (text::ADVANCE) }
        }
        (form.render(visit))
    }
}

/// `POST /console/test_clocks/{test_clock_id}/`: by days, or to a time.
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let mut body = body(visit, &FIELDS)?;
    if let Some((from, days)) = visit.form.get("from").zip(visit.form.get("days")) {
        body.insert("frozen_time".to_owned(), later(from, days)?.into());
    }
    visit.post(format!("/api/test_clocks/{id}/advance/"), body).await?;
    Ok(Outcome::Go(format!("{LIST}{id}/")))
}

/// An instant so many days after another: after the one that was shown, so that a form that is sent again asks for the same.
fn later(instant: &str, days: &str) -> Result<String, Failure> {
    let wrong = || Failure::new(400, "invalid", text::ONE_TO_MANY_DAYS).at("days");
    let days = days.parse::<u16>().ok().filter(|days| (1..=DAYS_MAX).contains(days)).ok_or_else(wrong)?;
    let instant = OffsetDateTime::parse(instant, &Rfc3339).map_err(|_| wrong())?;
    let later = instant.checked_add(Duration::days(i64::from(days))).ok_or_else(wrong)?;
    later.format(&Rfc3339).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_added_and_nothing_else() {
        #[rustfmt::skip]
        let cases = [
            // from,                    days,    to,                              why
            ("2024-01-31T12:00:00Z",    "1",     Some("2024-02-01T12:00:00Z"),    "a day"),
            ("2024-01-01T00:00:00Z",    "92",    Some("2024-04-02T00:00:00Z"),    "a quarter, over a leap day"),
            ("2024-01-01T00:00:00Z",    "93",    None,                            "more than the slider has"),
            ("2024-01-01T00:00:00Z",    "0",     None,                            "time goes on"),
            ("2024-01-01T00:00:00Z",    "-1",    None,                            "and never back"),
            ("2024-01-01T00:00:00Z",    "1.5",   None,                            "the slider has whole days"),
            ("9999-12-31T00:00:00Z",    "92",    None,                            "time ends there"),
        ];
        for (from, days, to, why) in cases {
            assert_eq!(later(from, days).ok().as_deref(), to, "{why}");
        }
    }
}
