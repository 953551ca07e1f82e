//! A test clock: let time pass, and see which invoices come.

use maud::html;

use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const LIST: &str = "/console/test_clocks/";
const FIELDS: [Field; 1] = [Field::new("frozen_time", text::ADVANCE_TO, Input::Instant).required()];

/// `GET /console/test_clocks/{test_clock_id}/`
///
/// # Errors
/// When there is no such clock.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let clock = visit.get(format!("/api/test_clocks/{}/", escaped(&visit.id))).await?;
    let name = show::plain(&clock["name"]);
    let is_ready = clock["status"] == "ready";
    let form = Form {
        fields: &[(FIELDS[0], show::plain(&clock["frozen_time"]))],
        button: text::ADVANCE,
        is_danger: false,
        back: ("/console/invoices/", text::INVOICES),
    };
    let content = html! {
        nav.path { a href=(LIST) { (text::TEST_CLOCKS) } }
        h1.long { (name) " " (show::badge(clock["status"].as_str().unwrap_or_default())) }
        dl.facts {
            div { dt { (text::CLOCK_TIME) } dd { (show::instant(&clock["frozen_time"], &visit.viewer.zone)) } }
            div { dt { (text::ID) } dd.long { code { (show::plain(&clock["test_clock_id"])) } } }
        }
        p { (text::TEST_CLOCK_EXPLAINED) }
        @if is_ready { (form.render(visit)) } @else { p.empty { (text::CLOCK_IS_BUSY) } }
    };
    Ok(Outcome::Page(name, content))
}

/// `POST /console/test_clocks/{test_clock_id}/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    visit.post(format!("/api/test_clocks/{id}/advance/"), body(visit, &FIELDS)?).await?;
    Ok(Outcome::Go(format!("{LIST}{id}/")))
}
