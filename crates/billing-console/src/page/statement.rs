//! A customer's documents and payments in order.

use maud::html;

use super::customer_path;
use crate::api::Failure;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// `GET /console/customers/{customer_id}/statement/`
///
/// # Errors
/// Those of the statement.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let statement = visit.get(format!("/api/customers/{}/statement/", escaped(&visit.id))).await?;
    let entries = show::items(&statement["entries"]);
    let content = html! {
        nav.path { a href=(customer_path(&visit.id)) { (show::name(&statement["customer"])) } }
        h1 { (text::STATEMENT) }
        section.cards {
            @for balance in show::items(&statement["balances"]) {
                div.card {
                    h2 { (text::BALANCE) }
                    p.figure { (show::amount(&balance["closing_balance"], &balance["currency"])) }
                    p.quiet {
                        (text::DUE) " " (show::amount(&balance["closing_due"], &balance["currency"])) ", "
                        (text::CREDIT_CHANGE) " " (show::amount(&balance["closing_credit"], &balance["currency"]))
                    }
                }
            }
        }
        @if entries.is_empty() { p.empty { (text::NO_ENTRIES) } } @else {
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { (text::AT) } th { (text::KIND) } th { (text::INVOICE) }
                    th.right { (text::DUE) } th.right { (text::CREDIT_CHANGE) } th.right { (text::BALANCE) }
                } }
                tbody {
                    @for entry in entries {
                        tr {
                            td { (show::instant(&entry["at"], &visit.viewer.zone)) }
                            td { (show::plain(&entry["kind"]).replace('_', " ")) }
                            td { @if let Some(number) = entry["invoice_number"].as_str() {
                                a href={ "/console/invoices/" (escaped(number)) "/" } { (number) }
                            } }
                            td.right { (show::amount(&entry["due_change"], &entry["currency_code"])) }
                            td.right { (show::amount(&entry["credit_change"], &entry["currency_code"])) }
                            td.right { (show::amount(&entry["balance"], &entry["currency_code"])) }
                        }
                    }
                }
            } }
        }
    };
    Ok(Outcome::Page(format!("{}: {}", text::STATEMENT, visit.id), content))
}
