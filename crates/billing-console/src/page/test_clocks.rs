//! The list of test clocks: what time it is there.

use maud::html;

use super::{is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// `GET /console/test_clocks/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let list = visit.list(paged("/api/test_clocks/", visit)).await?;
    let clocks = show::items(&list.value);
    let content = html! {
        h1 { (text::TEST_CLOCKS) }
        p.links { a.button href="/console/test_clocks/new/" { (text::NEW_TEST_CLOCK) } }
        @if clocks.is_empty() { p.empty { (text::NO_TEST_CLOCKS) } } @else { div.scroll tabindex="0" { table {
            thead { tr { th { (text::NAME) } th { (text::CLOCK_TIME) } th { (text::STATUS) } } }
            tbody { @for clock in clocks { tr {
                td.long {
                    a href={ "/console/test_clocks/" (escaped(&show::plain(&clock["test_clock_id"]))) "/" } {
                        (show::plain(&clock["name"]))
                    }
                }
                td { (show::instant(&clock["frozen_time"], &visit.viewer.zone)) }
                td { (show::badge(clock["status"].as_str().unwrap_or_default())) }
            } } }
        } } }
        (pager("/console/test_clocks/", is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(text::TEST_CLOCKS.to_owned(), content))
}
