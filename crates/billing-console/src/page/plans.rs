//! The list of plans.

use maud::html;

use super::{is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::{show, text};

const NEW: &str = "/console/plans/new/";

/// `GET /console/plans/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let list = visit.list(paged("/api/plans/", visit)).await?;
    let plans = show::items(&list.value);
    let content = html! {
        h1 { (text::PLANS) }
        @if is_open_to(visit.viewer.role, Method::Get, NEW) { p { a.button href=(NEW) { (text::NEW_PLAN) } } }
        @if plans.is_empty() { p.empty { (text::NO_PLANS) } } @else { div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::NAME) } th { (text::DURATION) } th.right { (text::VERSIONS) }
                th.right { (text::ACTIVE_SUBSCRIPTIONS) }
            } }
            tbody { @for plan in plans { tr {
                td.long { a href={ "/console/plans/" (escaped(&show::plain(&plan["plan_id"]))) "/" } {
                    (show::plain(&plan["plan_name"]))
                } }
                td { (show::or_none(&plan["plan_duration"])) }
                td.right { (show::plain(&plan["num_versions"])) }
                td.right { (show::number(&plan["active_subscriptions"])) }
            } } }
        } } }
        (pager("/console/plans/", is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(text::PLANS.to_owned(), content))
}
