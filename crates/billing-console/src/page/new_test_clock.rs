//! Making a test clock.

use maud::html;

use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const LIST: &str = "/console/test_clocks/";
const FIELDS: [Field; 2] = [
    Field::new("name", text::NAME, Input::Text(200)).required().hint(text::CLOCK_NAME_HINT),
    Field::new("frozen_time", text::STANDS_AT, Input::Instant).required(),
];

/// `GET /console/test_clocks/new/`
///
/// # Errors
/// None.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let fields = crate::form::empty(&FIELDS);
    let form = Form { fields: &fields, button: text::NEW_TEST_CLOCK, is_danger: false, back: (LIST, text::BACK) };
    let content = html! {
        nav.path { a href=(LIST) { (text::TEST_CLOCKS) } }
        h1 { (text::NEW_TEST_CLOCK) }
        p { (text::NEW_TEST_CLOCK_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::NEW_TEST_CLOCK.to_owned(), content))
}

/// `POST /console/test_clocks/new/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let made = visit.post("/api/test_clocks/", body(visit, &FIELDS)?).await?;
    Ok(Outcome::Go(format!("{LIST}{}/", escaped(&show::plain(&made["test_clock_id"])))))
}
