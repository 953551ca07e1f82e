//! What surrounds a page.

use maud::{DOCTYPE, Markup, html};

use crate::api::Failure;
use crate::asset;
use crate::route::{Method, is_open_to};
use crate::text;
use crate::visit::Viewer;

/// What stands in the navigation of whoever may open it: path, and text.
const NAVIGATION: [(&str, &str); 16] = [
    ("/console/", text::HOME),
    ("/console/customers/", text::CUSTOMERS),
    ("/console/invoices/", text::INVOICES),
    ("/console/approvals/", text::APPROVALS),
    ("/console/billing_run/", text::BILLING_RUN),
    ("/console/books/", text::BOOKS),
    ("/console/plans/", text::PLANS),
    ("/console/events/", text::EVENTS),
    ("/console/metrics/", text::METRICS),
    ("/console/alerts/", text::ALERTS),
    ("/console/webhooks/", text::WEBHOOKS),
    ("/console/test_clocks/", text::TEST_CLOCKS),
    ("/console/audit_log/", text::AUDIT_LOG),
    ("/console/api_keys/", text::API_KEYS),
    ("/console/users/", text::USERS),
    ("/console/settings/", text::SETTINGS),
];

/// What a customer has, of which there is no list of its own: it stands under the customers.
const OF_CUSTOMERS: [&str; 2] = ["/console/subscriptions/", "/console/credits/"];

/// A part of a page. While it is `on_its_way` it is asked for again every so many seconds and shown as it is then: until it comes without
/// that. Without a script it stays as it is. What asks is no person and keeps no session alive.
pub fn part(id: &str, seconds: u32, on_its_way: bool, content: &Markup) -> Markup {
    html! {
        @if on_its_way {
            div id=(id) hx-get="" hx-trigger={ "every " (seconds) "s" } hx-select={ "#" (id) } hx-swap="outerHTML" { (content) }
        } @else {
            div id=(id) { (content) }
        }
    }
}

/// The id of what comes last, and has nothing in it: an element is there for whoever waits for it as soon as it begins.
const PAGE_END: &str = "page-end";

/// A document, whose body may be of a class.
fn document(title: &str, class: Option<&str>, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " \u{b7} " (text::PRODUCT) }
                link rel="icon" href=(asset::ICON_PATH);
                link rel="stylesheet" href=(asset::STYLE_PATH);
                // Nothing is shown until all is there: the rows of a table that come later move the columns of those before.
                link rel="expect" href={ "#" (PAGE_END) } blocking="render";
                meta name="htmx-config" content=(asset::HTMX_SETTINGS);
                script defer src=(asset::SCRIPT_PATH) {}
                script defer src=(asset::HTMX_PATH) integrity=(asset::HTMX_DIGEST) {}
            }
            body class=[class] {
                (content)
                span id=(PAGE_END) hidden {}
            }
        }
    };
    page.into_string()
}

/// A page of somebody who is signed in. `path` is the page's own.
pub fn page(viewer: &Viewer, path: &str, title: &str, main: &Markup) -> String {
    let is_of_customers = OF_CUSTOMERS.iter().any(|of| path.starts_with(of));
    let is_here = |to: &str| match to {
        "/console/" => path == to,
        "/console/customers/" => path.starts_with(to) || is_of_customers,
        "/console/invoices/" => path.starts_with(to) || path.starts_with("/console/credit_notes/"),
        _ => path.starts_with(to),
    };
    let content = html! {
        a.skip href="#content" { (text::SKIP) }
        header.head {
            a.product href="/console/" { (viewer.organization_name) }
            form.search role="search" action="/console/search/" method="get" {
                label.hidden for="search" { (text::SEARCH) }
                input id="search" type="search" name="q" placeholder=(text::SEARCH_HINT) maxlength="300"
                    aria-keyshortcuts="/" autocomplete="off";
            }
            details.account {
                summary { (viewer.email) }
                div.menu {
                    p { (viewer.role.as_str()) " \u{b7} " (viewer.organization_name) }
                    @if viewer.has_others { a href="/console/organizations/" { (text::SWITCH_ORGANIZATION) } }
                    a href="/console/time_zone/" { (text::YOUR_TIME_ZONE) }
                    a href="/console/identities/" { (text::WAYS_TO_SIGN_IN) }
                    a href="/console/sessions/" { (text::SESSIONS) }
                    a href="/docs/" { (text::API_DOCUMENTS) }
                    form method="post" action="/console/sign-out/" {
                        (form_token(&viewer.form_token))
                        button.quiet type="submit" { (text::SIGN_OUT) }
                    }
                }
            }
        }
        nav.main aria-label=(text::NAVIGATION) {
            ul {
                @for (to, name) in NAVIGATION.into_iter().filter(|(to, _)| is_open_to(viewer.role, Method::Get, to)) {
                    li { a href=(to) aria-current=[is_here(to).then_some("page")] { (name) } }
                }
            }
        }
        main id="content" { (main) }
        footer { (text::TIMES_ARE_IN) " " a href="/console/time_zone/" { (viewer.zone.name()) } ". " (text::CSV_IS_UTC) }
    };
    document(title, None, &content)
}

/// A page of nobody in particular: signing in, and what comes before.
pub fn bare(title: &str, content: &Markup) -> String {
    document(title, Some("bare"), &html! { main id="content" { h1 { (title) } (content) } })
}

/// What a form carries so that nobody else's does anything.
pub fn form_token(token: &str) -> Markup {
    html! { input type="hidden" name="form_token" value=(token); }
}

/// A failure as the content of a page: its title and what can be said about it.
pub fn failure(failure: &Failure, reference: &str) -> (&'static str, Markup) {
    let title = match failure.status {
        404 => text::NOT_FOUND_TITLE,
        403 => text::FORBIDDEN_TITLE,
        _ => text::FAILED_TITLE,
    };
    let content = html! {
        h1 { (title) }
        div.notice.bad role="alert" {
            p { (failure.detail) }
            @if failure.status >= 500 || failure.status == 429 { p { (text::TRY_AGAIN) } }
            p.quiet { (text::REFERENCE) " " code { (reference) } }
        }
        p { a href="/console/" { (text::HOME) } }
    };
    (title, content)
}

/// A part of a page that failed by itself.
pub fn failed_part(failure: &Failure) -> Markup {
    html! { div.notice.bad { p { (text::SECTION_FAILED) " " (failure.detail) } } }
}

/// The way to the rest of a list. `path` has the query but for the cursor.
pub fn pager(path: &str, is_first: bool, next: Option<&str>) -> Markup {
    let joint = if path.contains('?') { '&' } else { '?' };
    html! {
        @if !is_first || next.is_some() {
            nav.pager aria-label=(text::NEXT) {
                @if !is_first { a href=(path) { (text::PREVIOUS) } }
                @if let Some(cursor) = next {
                    a rel="next" href={ (path) (joint) "cursor=" (crate::visit::escaped(cursor)) } { (text::NEXT) }
                }
            }
        }
    }
}
