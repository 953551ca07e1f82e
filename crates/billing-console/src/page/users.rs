//! Who may sign in, and as what.

use maud::html;

use super::{is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// `GET /console/users/`
///
/// # Errors
/// Those of the list.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let list = visit.list(paged("/api/users/", visit)).await?;
    let users = show::items(&list.value);
    let content = html! {
        h1 { (text::USERS) }
        p.links { a.button href="/console/users/invite/" { (text::INVITE) } }
        div.scroll tabindex="0" { table {
            thead { tr { th { (text::EMAIL) } th { (text::ROLE) } th { span.hidden { (text::CHANGE_ROLE) } } th { span.hidden { (text::REMOVE_USER) } } } }
            tbody { @for user in users { tr {
                td.long { (show::plain(&user["email"])) }
                td { (show::plain(&user["role"])) }
                @let (id, email) = (escaped(&show::plain(&user["user_id"])), escaped(&show::plain(&user["email"])));
                td.right {
                    a href={ "/console/users/" (id) "/role/?email=" (email) "&role=" (show::plain(&user["role"])) } {
                        (text::CHANGE_ROLE)
                    }
                }
                td.right { a href={ "/console/users/" (id) "/remove/?email=" (email) } { (text::REMOVE_USER) } }
            } } }
        } }
        (pager("/console/users/", is_first(visit), list.next.as_deref()))
    };
    Ok(Outcome::Page(text::USERS.to_owned(), content))
}
