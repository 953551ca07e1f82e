//! Taking a usage alert away: asked first.

use maud::html;

use super::alerts::{threshold, watched};
use crate::api::Failure;
use crate::form::Form;
use crate::route::Outcome;
use crate::text;
use crate::visit::{Visit, escaped};

const LIST: &str = "/console/alerts/";

/// `GET /console/alerts/{usage_alert_id}/delete/`
///
/// # Errors
/// When there is no such alert.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let alert = visit.get(format!("/api/usage_alerts/{}/", escaped(&visit.id))).await?;
    let form = Form { fields: &[], button: text::DELETE_ALERT, is_danger: true, back: (LIST, text::KEEP) };
    let content = html! {
        nav.path { a href=(LIST) { (text::ALERTS) } }
        h1 { (text::DELETE_ALERT) }
        dl.facts {
            div { dt { (text::WATCHED) } dd.long { (watched(&alert)) } }
            div { dt { (text::THRESHOLD) } dd { (threshold(&alert)) } }
        }
        p { (text::DELETE_ALERT_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::DELETE_ALERT.to_owned(), content))
}

/// `POST /console/alerts/{usage_alert_id}/delete/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.delete(format!("/api/usage_alerts/{}/", escaped(&visit.id))).await?;
    Ok(Outcome::Go(LIST.to_owned()))
}
