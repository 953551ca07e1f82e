//! Audits of the books: the last result, having them audited now, and what was found before.

use maud::{Markup, html};
use serde_json::Value;

use super::{is_first, paged};
use crate::api::Failure;
use crate::form::Form;
use crate::layout::{pager, part};
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::zone::ViewerZone;
use crate::{show, text};

const HERE: &str = "/console/books/";
const RUN: &str = "/console/books/run/";

/// `GET /console/books/`: the last audit with what it found, and those before it.
///
/// # Errors
/// Those of the calls.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let list = visit.list(paged("/api/books_audits/", visit)).await?;
    let audits = show::items(&list.value);
    let last = match audits.first().filter(|_| is_first(visit)) {
        Some(last) => Some(visit.get(api_path(&show::plain(&last["books_audit_id"]))).await?),
        None => None,
    };
    let before = &audits[usize::from(last.is_some()).min(audits.len())..];
    let is_running = last.as_ref().is_some_and(|last| last["state"] == "running");
    let may_run = is_open_to(visit.viewer.role, Method::Post, RUN) && !is_running;
    let zone = &visit.viewer.zone;
    let audits = html! {
        @if may_run { p.links { a.button href=(RUN) { (text::AUDIT_NOW) } } }
        @if let Some(last) = &last { (result(last, zone)) }
        @else if audits.is_empty() { p.empty { (text::NEVER_AUDITED) } }
        @if !before.is_empty() { section {
            h2 { (text::AUDITS_BEFORE) }
            (table(before, zone))
        } }
        (pager(HERE, is_first(visit), list.next.as_deref()))
    };
    let content = html! {
        h1 { (text::BOOKS) }
        p.quiet { (text::BOOKS_HINT) }
        (part("audits", 1, is_running, &audits))
    };
    Ok(Outcome::Page(text::BOOKS.to_owned(), content))
}

/// `GET /console/books/{books_audit_id}/`
///
/// # Errors
/// When there is no such audit.
pub async fn one<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let audit = visit.get(api_path(&visit.id)).await?;
    let content = html! {
        nav.path { a href=(HERE) { (text::BOOKS) } }
        h1 { (text::BOOKS_AUDIT) }
        (part("audit", 1, audit["state"] == "running", &result(&audit, &visit.viewer.zone)))
    };
    Ok(Outcome::Page(text::BOOKS_AUDIT.to_owned(), content))
}

/// `GET /console/books/run/`
///
/// # Errors
/// None but those of every page.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let form = Form { fields: &[], button: text::AUDIT_NOW, is_danger: false, back: (HERE, text::BACK) };
    let content = html! {
        nav.path { a href=(HERE) { (text::BOOKS) } }
        h1 { (text::AUDIT_THE_BOOKS) }
        p { (text::AUDIT_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::AUDIT_THE_BOOKS.to_owned(), content))
}

/// `POST /console/books/run/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    visit.post("/api/books_audits/", Value::Null).await?;
    Ok(Outcome::Go(HERE.to_owned()))
}

fn api_path(id: &str) -> String {
    format!("/api/books_audits/{}/", escaped(id))
}

/// How an audit ended, or how far it is, and what it found.
fn result(audit: &Value, zone: &ViewerZone) -> Markup {
    let state = audit["state"].as_str().unwrap_or_default();
    let breaches = show::items(&audit["breaches"]);
    let in_all = &audit["breaches_found"];
    html! {
        section {
            dl.facts {
                div { dt { (text::ASKED_FOR_AT) } dd { (show::instant(&audit["requested_at"], zone)) } }
                @if !audit["finished_at"].is_null() {
                    div { dt { (text::ENDED_AT) } dd { (show::instant(&audit["finished_at"], zone)) } }
                }
                @if !audit["failure"].is_null() {
                    div { dt { (text::REASON) } dd.long { (show::plain(&audit["failure"])) } }
                }
            }
            div.cards.small {
                div.card.alarm[matches!(state, "breached" | "failed")] {
                    h2 { (text::RESULT) }
                    p.figure { (verdict(state)) }
                    @if state == "running" { p.quiet { a href="" { (text::LOOK_AGAIN) } } }
                }
                div.card { h2 { (text::CHECKS_DONE) } p.figure { (show::number(&audit["checks_done"])) } }
                div.card { h2 { (text::BREACHES) } p.figure { (show::number(in_all)) } }
            }
            @if !breaches.is_empty() {
                h2 { (text::WHAT_IS_WRONG) }
                p { (text::BREACHES_HINT) }
                div.scroll tabindex="0" { table {
                    thead { tr { th { (text::CHECK) } th { (text::ABOUT) } th { (text::PROBLEM) } } }
                    tbody { @for breach in breaches { tr {
                        td.long { (show::plain(&breach["check"]).replace('_', " ")) }
                        td.long { (show::plain(&breach["subject"])) }
                        td.long { (show::plain(&breach["problem"])) }
                    } } }
                } }
                @if show::number(in_all) != breaches.len().to_string() { p.hint { (text::MORE_BREACHES) } }
            }
        }
    }
}

/// An audit's state as what it says about the books.
fn verdict(state: &str) -> &str {
    match state {
        "running" => text::AUDIT_RUNNING,
        "clean" => text::AUDIT_CLEAN,
        "breached" => text::AUDIT_BREACHED,
        "failed" => text::AUDIT_FAILED,
        other => other,
    }
}

fn table(audits: &[Value], zone: &ViewerZone) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::ASKED_FOR_AT) } th { (text::ENDED_AT) } th { (text::STATUS) } th.right { (text::BREACHES) }
            } }
            tbody { @for audit in audits { tr {
                td { a href={ (HERE) (escaped(&show::plain(&audit["books_audit_id"]))) "/" } {
                    (show::instant(&audit["requested_at"], zone))
                } }
                td { (show::instant(&audit["finished_at"], zone)) }
                td { (show::badge(&show::plain(&audit["state"]))) }
                td.right { (show::number(&audit["breaches_found"])) }
            } } }
        } }
    }
}
