//! What an invoice owes the truth: each line as it was billed and as today's events have it, and the way to give the difference back.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::credit_note::{TERMS, create};
use super::{customer_path, invoice_path};
use crate::api::Failure;
use crate::form::{Form, body};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// `GET /console/invoices/{invoice_id}/corrections/`
///
/// # Errors
/// When there is no such invoice, or it is voided.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let invoice = visit.get(format!("/api/invoices/{id}/")).await?;
    let preview = visit.ask(format!("/api/invoices/{id}/corrections/preview/")).await?;
    let (currency, here) = (&invoice["currency"], invoice_path(&invoice));
    let customer = &invoice["customer"];
    let gives_back = !show::is_zero(&preview["credit_note"]);
    let form = Form {
        fields: &crate::form::empty(&TERMS),
        button: text::CORRECT_BY_CREDIT_NOTE,
        is_danger: false,
        back: (&here, text::BACK),
    };
    let content = html! {
        nav.path { a href=(here) { (text::INVOICE) " " (show::plain(&invoice["invoice_number"])) } }
        h1 { (text::CORRECTIONS) }
        p { (text::CORRECTIONS_EXPLAINED) }
        dl.facts {
            div { dt { (text::BILLED_TO) } dd.long {
                a href=(customer_path(&show::plain(&customer["customer_id"]))) { (show::name(customer)) }
            } }
            div { dt { (text::TOTAL) } dd { (show::amount(&invoice["amount"], currency)) } }
            div { dt { (text::ON_NEXT_INVOICE) } dd { (show::amount(&preview["next_invoice"], currency)) } }
            div { dt { (text::BY_CREDIT_NOTE) } dd { (show::amount(&preview["credit_note"], currency)) } }
        }
        (table(show::items(&preview["line_items"]), currency))
        @if gives_back {
            section {
                h2 { (text::CORRECT_BY_CREDIT_NOTE) }
                p { (text::CORRECT_BY_CREDIT_NOTE_EXPLAINED) }
                (form.render(visit))
            }
        } @else { p.empty { (text::NOTHING_TO_GIVE_BACK) } p.links { a href=(here) { (text::BACK) } } }
    };
    Ok(Outcome::Page(text::CORRECTIONS.to_owned(), content))
}

fn table(lines: &[Value], currency: &Value) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::LINE) } th.right { (text::AMOUNT) } th.right { (text::CREDITED) } th.right { (text::UNITS_BILLED) }
                th.right { (text::UNITS_NOW) } th.right { (text::DIFFERENCE) } th { (text::OUTLOOK) }
            } }
            tbody { @for line in lines {
                @let usage = &line["usage"];
                tr {
                    td.long {
                        (show::plain(&line["name"])) " "
                        span.quiet { (show::days(&line["start_date"], &line["end_date"])) }
                    }
                    td.right { (show::amount(&line["amount"], currency)) }
                    td.right { (show::amount(&line["credited"], currency)) }
                    @if usage.is_null() { td.right {} td.right {} td.right {} td { span.quiet { (text::NOT_BY_EVENTS) } } } @else {
                        td.right { (show::number(&usage["quantity_billed"])) }
                        td.right { @if !usage["quantity"].is_null() { (show::number(&usage["quantity"])) } }
                        td.right { @if !usage["difference_with_tax"].is_null() {
                            (show::amount(&usage["difference_with_tax"], currency))
                        } }
                        td { (outlook(usage["outlook"].as_str().unwrap_or_default())) }
                    }
                }
            } }
        } }
    }
}

/// What becomes of a difference, in words.
fn outlook(word: &str) -> &str {
    match word {
        "next_invoice" => text::OUTLOOK_NEXT_INVOICE,
        "not_any_more" => text::OUTLOOK_NOT_ANY_MORE,
        "handed_on" => text::OUTLOOK_HANDED_ON,
        "dropped" => text::OUTLOOK_DROPPED,
        other => other,
    }
}

/// `POST /console/invoices/{invoice_id}/corrections/`
///
/// # Errors
/// When there is no such invoice; those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let mut body = body(visit, &TERMS)?;
    body.insert("corrections".to_owned(), json!(true));
    create(visit, body).await
}
