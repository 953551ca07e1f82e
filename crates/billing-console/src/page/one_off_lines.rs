//! What a customer is charged once: what waits for the next invoice, and a form for more.

use maud::{Markup, html};
use serde_json::Value;

use super::{customer_path, is_first, paged};
use crate::api::Failure;
use crate::form::{Field, Form, Input, body};
use crate::layout::pager;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

const FIELDS: [Field; 7] = [
    Field::new("name", text::NAME, Input::Text(200)).required().hint(text::ONE_OFF_NAME_HINT),
    Field::new("amount", text::AMOUNT, Input::Number).hint(text::ONE_OFF_AMOUNT_HINT),
    Field::new("quantity", text::QUANTITY, Input::Number),
    Field::new("unit_amount", text::PRICE_OF_ONE, Input::Number),
    Field::new("currency_code", text::CURRENCY, Input::Text(10)).hint(text::CURRENCY_HINT),
    Field::new(
        "is_taxed",
        text::SALES_TAX,
        Input::Choice(&[("true", text::TAX_ADDED), ("false", text::TAX_NOT_ADDED)]),
    ),
    Field::new(
        "invoice_now",
        text::BILLED_WHEN,
        Input::Choice(&[("false", text::WITH_NEXT_INVOICE), ("true", text::BILLED_AT_ONCE)]),
    ),
];
/// What stands for a line in a query.
const LINE: &str = "line";

fn list_path(customer: &str) -> String {
    format!("{}one_off_lines/", customer_path(customer))
}

fn calls(customer: &str) -> String {
    format!("/api/customers/{}/one_off_lines/", escaped(customer))
}

/// `GET /console/customers/{customer_id}/one_off_lines/`
///
/// # Errors
/// When there is no such customer.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let customer = visit.get(format!("/api/customers/{}/", escaped(&visit.id))).await?;
    let waiting = visit.list(paged(&calls(&visit.id), visit)).await?;
    let (here, list) = (customer_path(&visit.id), list_path(&visit.id));
    let fields = crate::form::empty(&FIELDS);
    let form = Form { fields: &fields, button: text::CHARGE_ONCE, is_danger: false, back: (&here, text::BACK) };
    let content = html! {
        nav.path { a href=(here) { (show::name(&customer)) } }
        h1 { (text::ONE_OFF_LINES) }
        p { (text::ONE_OFF_LINES_EXPLAINED) }
        (table(show::items(&waiting.value), &list))
        (pager(&list, is_first(visit), waiting.next.as_deref()))
        section { h2 { (text::CHARGE_ONCE) } (form.render(visit)) }
    };
    Ok(Outcome::Page(text::ONE_OFF_LINES.to_owned(), content))
}

fn table(lines: &[Value], here: &str) -> Markup {
    html! {
        @if lines.is_empty() { p.empty { (text::NO_ONE_OFF_LINES) } } @else { div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::NAME) } th { (text::SINCE) } th.right { (text::QUANTITY) } th.right { (text::PRICE_OF_ONE) }
                th.right { (text::AMOUNT) } th { span.hidden { (text::REMOVE_LINE) } }
            } }
            tbody { @for one in lines {
                @let currency = &one["currency"];
                tr {
                    td.long { (show::plain(&one["name"])) }
                    td { (show::day(&one["created_at"])) }
                    td.right { @if !one["quantity"].is_null() { (show::number(&one["quantity"])) } }
                    td.right { @if !one["unit_amount"].is_null() { (show::amount(&one["unit_amount"], currency)) } }
                    td.right { (show::amount(&one["amount"], currency)) }
                    td.right {
                        a href={ (here) "remove/?" (LINE) "=" (escaped(&show::plain(&one["one_off_line_id"]))) } {
                            (text::REMOVE_LINE)
                        }
                    }
                }
            } }
        } } }
    }
}

/// `POST /console/customers/{customer_id}/one_off_lines/`: leads to the invoice of a line that is billed at once.
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let made = visit.post(calls(&visit.id), body(visit, &FIELDS)?).await?;
    Ok(Outcome::Go(match made["invoice_id"].as_str() {
        Some(invoice) => format!("/console/invoices/{}/", escaped(invoice)),
        None => list_path(&visit.id),
    }))
}

/// `GET /console/customers/{customer_id}/one_off_lines/remove/?line=`
///
/// # Errors
/// When there is no such customer, or no such line of theirs.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let customer = visit.get(format!("/api/customers/{}/", escaped(&visit.id))).await?;
    let list = list_path(&visit.id);
    let Some(line) = visit.query.get(LINE) else {
        let content = html! { h1 { (text::REMOVE_LINE) } p.empty { (text::NO_LINE_NAMED) } p { a href=(list) { (text::ONE_OFF_LINES) } } };
        return Ok(Outcome::Page(text::REMOVE_LINE.to_owned(), content));
    };
    let line = visit.get(format!("{}{}/", calls(&visit.id), escaped(line))).await?;
    let form = Form { fields: &[], button: text::REMOVE_LINE, is_danger: true, back: (&list, text::KEEP) };
    let content = html! {
        nav.path { a href=(list) { (text::ONE_OFF_LINES) } }
        h1 { (text::REMOVE_LINE) }
        dl.facts {
            div { dt { (text::BILLED_TO) } dd.long { (show::name(&customer)) } }
            div { dt { (text::NAME) } dd.long { (show::plain(&line["name"])) } }
            div { dt { (text::AMOUNT) } dd { (show::amount(&line["amount"], &line["currency"])) } }
        }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::REMOVE_LINE.to_owned(), content))
}

/// `POST /console/customers/{customer_id}/one_off_lines/remove/?line=`
///
/// # Errors
/// Those of the call; when no line is named.
pub async fn remove<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let line = visit.query.get(LINE).ok_or_else(|| Failure::new(400, "invalid", text::FORM_IS_BROKEN))?;
    visit.delete(format!("{}{}/", calls(&visit.id), escaped(line))).await?;
    Ok(Outcome::Go(list_path(&visit.id)))
}
