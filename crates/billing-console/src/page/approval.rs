//! One request for a second person: what it is about, and the decision.

use maud::{Markup, html};
use serde_json::{Value, json};

use super::approvals::{amount, path_of, what};
use super::{customer_path, invoice_path};
use crate::api::Failure;
use crate::form::{Field, Form, Input, body, empty};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

const LIST: &str = "/console/approvals/";
const REASON: Field = Field::new("reason", text::REASON, Input::Text(1_000)).required().hint(text::DECLINE_HINT);

/// `GET /console/approvals/{approval_id}/`
///
/// # Errors
/// When there is no such request.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let approval = get(visit).await?;
    let subject = subject(visit, &approval).await;
    let here = path_of(&approval);
    let state = approval["state"].as_str().unwrap_or_default();
    let by = &approval["requested_by"];
    let is_own = by["type"] == "user" && by["name"] == visit.viewer.email.as_str();
    let form = Form { fields: &[], button: text::APPROVE, is_danger: true, back: (LIST, text::BACK) };
    let content = html! {
        nav.path { a href=(LIST) { (text::APPROVALS) } }
        h1 { (what(&approval)) }
        @if state == "waiting" && is_own { div.notice { p { (text::WAITS_FOR_ANOTHER) } } }
        (facts(&approval, &visit.viewer.zone))
        (subject)
        @match (state, is_own) {
            ("waiting", true) => { p.links { a.button href={ (here) "withdraw/" } { (text::WITHDRAW) } } }
            ("waiting", false) => {
                p { (text::APPROVE_EXPLAINED) }
                (form.render(visit))
                p.links { a href={ (here) "decline/" } { (text::DECLINE) } }
            }
            ("approved", false) => { p { (text::APPROVED_EXPLAINED) } (form.render(visit)) }
            _ => {}
        }
    };
    Ok(Outcome::Page(what(&approval), content))
}

async fn get(visit: &Visit<'_>) -> Result<Value, Failure> {
    visit.get(format!("/api/approvals/{}/", escaped(&visit.id))).await
}

fn facts(approval: &Value, zone: &ViewerZone) -> Markup {
    let by = |person: &Value| html! { (show::plain(&person["name"])) @if person["type"] == "api_key" { " (" (text::API_KEY) ")" } };
    html! {
        dl.facts {
            div { dt { (text::AMOUNT) } dd { (amount(approval)) } }
            div { dt { (text::STATUS) } dd { (show::badge(&show::plain(&approval["state"]))) } }
            div { dt { (text::ASKED_BY) } dd.long { (by(&approval["requested_by"])) } }
            div { dt { (text::ASKED_AT) } dd { (show::instant(&approval["requested_at"], zone)) } }
            @if approval["state"] == "waiting" {
                div { dt { (text::WAITS_UNTIL) } dd { (show::instant(&approval["expires_at"], zone)) } }
            }
            @if !approval["decided_by"].is_null() {
                div { dt { (text::DECIDED_BY) } dd.long { (by(&approval["decided_by"])) } }
                div { dt { (text::DECIDED_AT) } dd { (show::instant(&approval["decided_at"], zone)) } }
            }
            @if let Some(reason) = approval["reason"].as_str() { div { dt { (text::REASON) } dd.long { (reason) } } }
            @if let Some(code) = approval["outcome_code"].as_str() {
                div { dt { (text::WHY_FAILED) } dd.long { code { (code) } } }
            }
        }
    }
}

/// What the call is about: the invoice, credit or credit note that it names, and what it was sent with.
async fn subject(visit: &Visit<'_>, approval: &Value) -> Markup {
    let path = approval["path"].as_str().unwrap_or_default();
    let parts: Vec<&str> = path.split(['/', '?']).filter(|part| !part.is_empty()).collect();
    let named = |noun: &str| (parts.get(1) == Some(&noun)).then(|| parts.get(2).map(|id| (*id).to_owned())).flatten();
    let body = &approval["body"];
    let invoice = named("invoices").or_else(|| body["invoice_id"].as_str().map(escaped));
    let about = match (invoice, named("credits"), named("credit_notes")) {
        (Some(id), ..) => visit.get(format!("/api/invoices/{id}/")).await.map(|invoice| of_invoice(&invoice)),
        (_, Some(id), _) => visit.get(format!("/api/credits/{id}/")).await.map(|credit| of_credit(&credit)),
        (.., Some(id)) => visit.get(format!("/api/credit_notes/{id}/")).await.map(|note| of_note(&note)),
        _ => Ok(html! {}),
    };
    html! {
        // What is not there any more is not shown; approving says so.
        @if let Ok(about) = about { (about) }
        @if let Some(fields) = body.as_object().filter(|fields| !fields.is_empty()) {
            section {
                h2 { (text::SENT_WITH) }
                dl.facts { @for (name, value) in fields {
                    div { dt { code { (name) } } dd.long { @if value.is_object() || value.is_array() { code { (value) } } @else { (show::or_none(value)) } } }
                } }
            }
        }
    }
}

fn of_invoice(invoice: &Value) -> Markup {
    let customer = &invoice["customer"];
    html! {
        section {
            h2 { (text::INVOICE) " " a href=(invoice_path(invoice)) { (show::plain(&invoice["invoice_number"])) } }
            dl.facts {
                div { dt { (text::BILLED_TO) } dd.long {
                    a href=(customer_path(&show::plain(&customer["customer_id"]))) { (show::name(customer)) }
                } }
                div { dt { (text::TOTAL) } dd { (show::amount(&invoice["amount"], &invoice["currency"])) } }
                div { dt { (text::AMOUNT_DUE) } dd { (show::amount(&invoice["amount_due"], &invoice["currency"])) } }
            }
        }
    }
}

fn of_credit(credit: &Value) -> Markup {
    let customer = &credit["customer"];
    html! {
        section {
            h2 { (text::A_CREDIT) }
            dl.facts {
                div { dt { (text::CUSTOMER) } dd.long {
                    a href=(customer_path(&show::plain(&customer["customer_id"]))) { (show::name(customer)) }
                } }
                div { dt { (text::AMOUNT) } dd { (show::amount(&credit["amount"], &credit["currency"])) } }
                div { dt { (text::REMAINING) } dd { (show::amount(&credit["amount_remaining"], &credit["currency"])) } }
            }
        }
    }
}

fn of_note(note: &Value) -> Markup {
    html! {
        section {
            h2 { (text::A_CREDIT_NOTE) " " (show::plain(&note["credit_note_number"])) }
            dl.facts {
                div { dt { (text::INVOICE) } dd.long { a href=(invoice_path(note)) { (show::plain(&note["invoice_number"])) } } }
                div { dt { (text::AMOUNT) } dd { (show::amount(&note["amount"], &note["currency"])) } }
                div { dt { (text::REASON) } dd.long { (show::plain(&note["reason"])) } }
            }
        }
    }
}

/// `POST /console/approvals/{approval_id}/`: approves the request, and shows what came of it.
///
/// # Errors
/// Those of the call.
pub async fn approve<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    decide(visit, "approve", json!(null)).await
}

async fn decide<'v>(visit: &'v Visit<'v>, verb: &str, body: Value) -> Result<Outcome, Failure> {
    let decided = visit.post(format!("/api/approvals/{}/{verb}/", escaped(&visit.id)), body).await?;
    Ok(Outcome::Go(path_of(&decided)))
}

/// `GET /console/approvals/{approval_id}/decline/`
///
/// # Errors
/// When there is no such request.
pub async fn ask_decline<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let approval = get(visit).await?;
    let here = path_of(&approval);
    let fields = empty(&[REASON]);
    let form = Form { fields: &fields, button: text::DECLINE, is_danger: false, back: (&here, text::BACK) };
    let content = html! {
        nav.path { a href=(here) { (what(&approval)) } }
        h1 { (text::DECLINE_REQUEST) }
        (facts(&approval, &visit.viewer.zone))
        (form.render(visit))
    };
    Ok(Outcome::Page(text::DECLINE_REQUEST.to_owned(), content))
}

/// `POST /console/approvals/{approval_id}/decline/`
///
/// # Errors
/// Those of the call.
pub async fn decline<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    decide(visit, "decline", body(visit, &[REASON])?.into()).await
}

/// `GET /console/approvals/{approval_id}/withdraw/`
///
/// # Errors
/// When there is no such request.
pub async fn ask_withdrawal<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let approval = get(visit).await?;
    let here = path_of(&approval);
    let form = Form { fields: &[], button: text::WITHDRAW, is_danger: false, back: (&here, text::BACK) };
    let content = html! {
        nav.path { a href=(here) { (what(&approval)) } }
        h1 { (text::WITHDRAW_REQUEST) }
        (facts(&approval, &visit.viewer.zone))
        (form.render(visit))
    };
    Ok(Outcome::Page(text::WITHDRAW_REQUEST.to_owned(), content))
}

/// `POST /console/approvals/{approval_id}/withdraw/`
///
/// # Errors
/// Those of the call.
pub async fn withdraw<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let path = format!("/api/approvals/{}/", escaped(&visit.id));
    visit.delete(path).await?;
    Ok(Outcome::Go(format!("/console/approvals/{}/", escaped(&visit.id))))
}
