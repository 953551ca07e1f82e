//! Who holds a version of a plan, by when that ends.

use maud::{Markup, html};
use serde_json::Value;

use super::export::{self, Export};
use super::plan::{how_many_hold, plan_path, read};
use super::plan_version::{called, find};
use super::{customer_path, is_first, paged};
use crate::api::Failure;
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// The columns of the table to keep, in the order of [`row`].
const COLUMNS: [&str; 7] =
    ["customer_id", "customer_name", "email", "subscription_id", "start_date", "end_date", "auto_renew"];

fn row(holder: &Value) -> [String; 7] {
    let [customer, name, email] = export::fields(&holder["customer"], ["customer_id", "customer_name", "email"]);
    let [id, start, end, renews] = export::fields(holder, ["subscription_id", "start_date", "end_date", "auto_renew"]);
    [customer, name, email, id, start, end, renews]
}

/// `GET /console/plans/{plan_id}/holders/?version=`: without a version of the newest.
///
/// # Errors
/// When there is no such plan or version.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let plan = read(visit).await?;
    let versions = show::items(&plan["versions"]);
    let version = match visit.query.get("version") {
        Some(id) => find(versions, id)?,
        None => versions.last().ok_or_else(Failure::not_found)?,
    };
    let id = escaped(&show::plain(&version["version_id"]));
    let list = format!("/api/plan_versions/{id}/holders/");
    if export::is_wanted(visit) {
        return Export { name: "holders", list: &list, at_once: 1_000, columns: COLUMNS, row }.table(visit).await;
    }
    let holders = visit.list(paged(&list, visit)).await?;
    let here = holders_path(&plan, version);
    let title = format!("{}: {}", show::plain(&plan["plan_name"]), called(version));
    let content = html! {
        nav.path { a.long href=(plan_path(&plan)) { (show::plain(&plan["plan_name"])) } }
        h1.long { (text::HOLDERS_OF) " " (called(version)) }
        p.quiet { (how_many_hold(version)) }
        (table(show::items(&holders.value)))
        (pager(&here, is_first(visit), holders.next.as_deref()))
        (export::link(&here))
    };
    Ok(Outcome::Page(title, content))
}

/// Where the holders of a version are shown.
pub(super) fn holders_path(plan: &Value, version: &Value) -> String {
    format!("{}holders/?version={}", plan_path(plan), escaped(&show::plain(&version["version_id"])))
}

fn table(holders: &[Value]) -> Markup {
    html! {
        @if holders.is_empty() { p.empty { (text::NO_HOLDERS) } } @else { div.scroll tabindex="0" { table {
            thead { tr { th { (text::CUSTOMER) } th { (text::EMAIL) } th { (text::PERIOD) } th { (text::STATUS) } } }
            tbody { @for one in holders {
                @let customer = &one["customer"];
                tr {
                    td.long { a href=(customer_path(&show::plain(&customer["customer_id"]))) { (show::name(customer)) } }
                    td.long { (show::or_none(&customer["email"])) }
                    td { (show::days(&one["start_date"], &one["end_date"])) }
                    td { @if one["auto_renew"] == true { (text::RENEWS) } @else { (text::ENDS) } }
                }
            } }
        } } }
    }
}
