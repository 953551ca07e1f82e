//! A customer: what it holds, uses, owes and has to its credit.

use maud::{Markup, html};
use serde_json::Value;

use super::cancel_addon::ADDON;
use super::credit::{credit_name, credit_path};
use super::timeline::timeline_path;
use super::usage::usage_path;
use super::{alerts, audit_log, customer_path, invoice_table, timeline};
use crate::api::Failure;
use crate::layout::failed_part;
use crate::route::{Method, Outcome, is_open_to};
use crate::visit::{Visit, escaped};
use crate::{show, text};

const CREDITS_SHOWN: u32 = 50;
/// The latest of what happened, and the latest changes by people and programs.
const MESSAGES_SHOWN: u32 = 10;
const CHANGES_SHOWN: u32 = 10;
/// As many alerts as an organization may have.
const ALERTS_LOOKED_AT: u32 = 1_000;
const LOG: &str = "/console/audit_log/";
/// Most plans of one customer whose metrics are shown, and most metrics.
const PLANS_LOOKED_AT: usize = 10;
const METRICS_LOOKED_AT: usize = 30;
const CREDIT: &str = "/console/customers/{customer_id}/credit/";
const ONE_OFF_LINES: &str = "/console/customers/{customer_id}/one_off_lines/";
pub(super) const VOID_CREDIT: &str = "/console/credits/{credit_id}/void/";
const SUBSCRIBE: &str = "/console/customers/{customer_id}/subscribe/";
/// What is done with a subscription: where, and how it is called.
const CHANGES: [(&str, &str); 5] = [
    ("switch_plan", text::SWITCH),
    ("addons", text::ADDON),
    ("prepaid_units", text::UNITS_LINK),
    ("update", text::END_LINK),
    ("cancel", text::CANCEL),
];

type Part = Result<Value, Failure>;

/// `GET /console/customers/{customer_id}/`
///
/// # Errors
/// When there is no such customer; each part fails by itself.
pub async fn show<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let id = escaped(&visit.id);
    let customer = visit.get(format!("/api/customers/{id}/")).await?;
    let usage = usage(visit, &id, show::items(&customer["subscriptions"])).await;
    let draft = visit.get(format!("/api/customers/{id}/draft_invoice/")).await;
    let credits = visit.get(format!("/api/credits/?customer_id={id}&limit={CREDITS_SHOWN}")).await;
    let may = |path| is_open_to(visit.viewer.role, Method::Get, path);
    let messages = visit.get(format!("/api/customers/{id}/messages/?limit={MESSAGES_SHOWN}")).await;
    let alerts = visit.get(format!("/api/usage_alerts/?limit={ALERTS_LOOKED_AT}")).await;
    let changes = match may(LOG) {
        true => Some(visit.get(format!("/api/audit_log/?customer_id={id}&limit={CHANGES_SHOWN}")).await),
        false => None,
    };
    let invoices = show::items(&customer["invoices"]);
    let title = show::name(&customer);
    let content = html! {
        nav.path { a href="/console/customers/" { (text::CUSTOMERS) } }
        h1.long { (title) }
        (head(&customer))
        p.links {
            a href={ (customer_path(&visit.id)) "events/" } { (text::EVENTS) }
            a href={ (customer_path(&visit.id)) "statement/" } { (text::STATEMENT) }
            @if may(ONE_OFF_LINES) { a href={ (customer_path(&visit.id)) "one_off_lines/" } { (text::ONE_OFF_LINES) } }
        }
        section {
            h2 { (text::SUBSCRIPTIONS) }
            (subscriptions(show::items(&customer["subscriptions"]), may(SUBSCRIBE)))
            p.links { @if may(SUBSCRIBE) {
                a href={ (customer_path(&visit.id)) "subscribe/" } { (text::NEW_SUBSCRIPTION) }
            } }
        }
        section { h2 { (text::USAGE) } (part(&usage, |usage| usage_table(&visit.id, usage))) }
        section { h2 { (text::DRAFT) } (part(&draft, |draft| drafts(show::items(&draft["invoices"]), text::NO_DRAFT))) }
        section {
            h2 { (text::INVOICES) }
            @if invoices.is_empty() { p.empty { (text::NO_INVOICES) } } @else { (invoice_table(invoices, false)) }
        }
        section {
            h2 { (text::CREDITS) }
            (part(&credits, |credits| credit_table(credits, may(VOID_CREDIT))))
            p.links {
                a href={ (customer_path(&visit.id)) "credits/" } { (text::ALL_CREDITS) }
                @if may(CREDIT) { a href={ (customer_path(&visit.id)) "credit/" } { (text::GIVE_CREDIT) } }
            }
        }
        section {
            h2 { (text::ALERTS_OF_CUSTOMER) }
            (part(&alerts, |all| about(all, &customer, may(alerts::DELETE))))
        }
        section {
            h2 { (text::TIMELINE) }
            (part(&messages, |messages| timeline::table(show::items(messages), &visit.viewer.zone)))
            p.links { a href=(timeline_path(&visit.id)) { (text::WHOLE_TIMELINE) } }
        }
        @if let Some(changes) = &changes { section {
            h2 { (text::LATEST_CHANGES) }
            (part(changes, |changes| html! {
                @if show::items(changes).is_empty() { p.empty { (text::NO_ENTRIES_OF_LOG) } }
                @for entry in show::items(changes) { (audit_log::line(entry, &visit.viewer.zone)) }
            }))
            p.links { a href={ (LOG) "?customer_id=" (id) } { (text::ALL_CHANGES) } }
        } }
    };
    Ok(Outcome::Page(title.to_owned(), content))
}

/// The alerts that are about the customer.
fn about(all: &Value, customer: &Value, may_delete: bool) -> Markup {
    let held = show::items(&customer["subscriptions"]).iter();
    let versions: Vec<&Value> = held.map(|one| &one["billing_plan"]["version_id"]).collect();
    let alerts = alerts::about(all, customer["customer_id"].as_str().unwrap_or_default(), &versions);
    html! {
        @if alerts.is_empty() { p.empty { (text::NO_ALERTS_OF_CUSTOMER) } } @else { (alerts::table(&alerts, may_delete)) }
    }
}

fn part(read: &Part, shown: impl FnOnce(&Value) -> Markup) -> Markup {
    match read {
        Ok(value) => shown(value),
        Err(failure) => failed_part(failure),
    }
}

fn head(customer: &Value) -> Markup {
    let address = &customer["billing_address"];
    let address = if address.is_null() { &customer["address"] } else { address };
    let lines = ["line1", "line2", "postal_code", "city", "state", "country"].map(|field| show::plain(&address[field]));
    let address = lines.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ");
    html! {
        dl.facts {
            div { dt { (text::ID) } dd.long { code { (show::plain(&customer["customer_id"])) } } }
            div { dt { (text::EMAIL) } dd.long { (show::or_none(&customer["email"])) } }
            @for due in show::items(&customer["total_amounts_due"]) {
                div { dt { (text::AMOUNT_DUE) } dd { (show::amount(&due["amount"], &due["currency"])) } }
            }
            div { dt { (text::TIMEZONE) } dd { (show::plain(&customer["timezone"])) } }
            @if !address.is_empty() { div { dt { (text::ADDRESS) } dd.long { (address) } } }
            @if !customer["test_clock_id"].is_null() { div { dt { (text::STATUS) } dd { (text::TEST_CLOCK) } } }
            @if customer["catching_up"] == true { div { dt { (text::STATUS) } dd { (text::CATCHING_UP) } } }
        }
        @if let Some(failed) = customer["tax_failure"].as_str() {
            div.notice.bad { p { (text::TAX_FAILURE) ": " (failed) } }
        }
    }
}

fn subscriptions(held: &[Value], may_change: bool) -> Markup {
    html! {
        @if held.is_empty() { p.empty { (text::NO_SUBSCRIPTIONS) } } @else { div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::PLAN) } th { (text::PERIOD) } th { (text::FILTERS) } th { (text::STATUS) }
                @if may_change { th { span.hidden { (text::CHANGE) } } }
            } }
            tbody { @for one in held {
                @let plan = &one["billing_plan"];
                @let id = show::plain(&one["subscription_id"]);
                tr {
                    td.long {
                        a href={ "/console/plans/" (escaped(&show::plain(&plan["plan_id"]))) "/" } {
                            (show::plain(&plan["plan_name"]))
                        }
                        " " span.quiet { "v" (show::plain(&plan["version"])) }
                        @for addon in show::items(&one["addons"]) {
                            @let name = show::plain(&addon["addon"]["addon_name"]);
                            div.quiet {
                                "+ " (name) " "
                                @if may_change { a href=(cancel_addon(&id, addon)) { (link_about(text::CANCEL, &name)) } }
                            }
                        }
                    }
                    td { (show::days(&one["start_date"], &one["end_date"])) }
                    td.long { (filters(&one["subscription_filters"])) }
                    td { @if one["auto_renew"] == true { (text::RENEWS) } @else { (text::ENDS) } }
                    @if may_change { td { div.acts {
                        @for (act, name) in CHANGES {
                            a href={ "/console/subscriptions/" (escaped(&id)) "/" (act) "/" } {
                                (link_about(name, &show::plain(&plan["plan_name"])))
                            }
                        }
                    } } }
                }
            } }
        } } }
    }
}

/// A link's text of which there are several, with what it is about for whoever hears it alone.
fn link_about(name: &str, about: &str) -> Markup {
    html! { (name) span.hidden { " " (about) } }
}

/// Where an attached add-on is cancelled.
fn cancel_addon(subscription: &str, attached: &Value) -> String {
    let attached = escaped(&show::plain(&attached[ADDON]));
    format!("/console/subscriptions/{}/addons/cancel/?{ADDON}={attached}", escaped(subscription))
}

fn filters(filters: &Value) -> String {
    let each = show::items(filters)
        .iter()
        .map(|one| format!("{} = {}", show::plain(&one["property_name"]), show::plain(&one["value"])));
    each.collect::<Vec<_>>().join(", ")
}

/// What the customer uses of each metric of its plans, with its name.
async fn usage(visit: &Visit<'_>, customer: &str, held: &[Value]) -> Part {
    let mut metrics: Vec<(String, String)> = Vec::new();
    let mut plans: Vec<String> = held.iter().map(|one| show::plain(&one["billing_plan"]["plan_id"])).collect();
    plans.sort_unstable();
    plans.dedup();
    for plan in plans.iter().take(PLANS_LOOKED_AT) {
        let plan = visit.get(format!("/api/plans/{}/", escaped(plan))).await?;
        for component in show::items(&plan["versions"]).iter().flat_map(|version| show::items(&version["components"])) {
            let metric = &component["billable_metric"];
            let named = (show::plain(&metric["metric_id"]), show::plain(&metric["metric_name"]));
            if !metrics.contains(&named) {
                metrics.push(named);
            }
        }
    }
    let mut rows = Vec::new();
    for (id, name) in metrics.iter().take(METRICS_LOOKED_AT) {
        let path = format!("/api/metric_access/?customer_id={customer}&metric_id={}", escaped(id));
        let access = visit.get(path).await?;
        for one in show::items(&access["access_per_subscription"]).iter().filter(|one| one["has_metric"] != false) {
            let mut row = one.clone();
            row["metric_name"] = Value::from(name.as_str());
            row["metric_id"] = Value::from(id.as_str());
            row["access"] = access["access"].clone();
            rows.push(row);
        }
    }
    Ok(Value::Array(rows))
}

fn usage_table(customer: &str, usage: &Value) -> Markup {
    let rows = show::items(usage);
    html! {
        @if rows.is_empty() { p.empty { (text::NO_USAGE) } } @else { div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::METRIC) } th { (text::PLAN) } th.right { (text::USED) }
                th.right { (text::FREE_UP_TO) } th.right { (text::LIMIT) } th { (text::MAY_USE_IT) }
            } }
            tbody { @for one in rows {
                @let held = &one["subscription"];
                tr {
                    td.long { a href=(usage_path(customer, &show::plain(&one["metric_id"]))) { (show::plain(&one["metric_name"])) } }
                    td.long { (show::plain(&held["plan"]["plan_name"])) " " span.quiet { (filters(&held["subscription_filters"])) } }
                    td.right { (show::number(&one["metric_usage"])) }
                    td.right { (show::number(&one["metric_free_limit"])) }
                    td.right {
                        @if one["metric_total_limit"].is_null() { span.quiet { (text::NO_LIMIT) } }
                        @else { (show::number(&one["metric_total_limit"])) }
                    }
                    td { (may_use(one)) }
                }
            } }
        } } }
    }
}

/// Whether the customer may use a metric now, and why.
fn may_use(one: &Value) -> Markup {
    let why = match (one["access"] == true, one["metric_total_limit"].is_null()) {
        (true, true) => text::WITHOUT_LIMIT,
        (true, false) => text::WITHIN_LIMIT,
        (false, _) => text::LIMIT_REACHED,
    };
    html! { @if one["access"] == true { (text::MAY) } @else { b.bad { (text::MAY_NOT) } } ", " span.quiet { (why) } }
}

/// Invoices that are not issued, in tables; `nothing` where there are none.
pub(super) fn drafts(invoices: &[Value], nothing: &str) -> Markup {
    html! {
        @if invoices.is_empty() { p.empty { (nothing) } }
        @for invoice in invoices {
            div.scroll tabindex="0" { table {
                thead { tr { th { (text::LINES) } th.right { (text::QUANTITY) } th.right { (text::AMOUNT) } } }
                tbody {
                    @for group in show::items(&invoice["line_items"]) {
                        @for line in show::items(&group["sub_items"]) { tr {
                            td.long {
                                (show::plain(&line["name"])) " "
                                span.quiet { (show::days(&line["start_date"], &line["end_date"])) }
                            }
                            td.right { (show::number(&line["quantity"])) }
                            td.right { (show::amount(&line["amount"], &invoice["currency"])) }
                        } }
                    }
                }
                tfoot { tr {
                    th colspan="2" { (text::TOTAL) }
                    td.right { (show::amount(&invoice["cost_due"], &invoice["currency"])) }
                } }
            } }
        }
    }
}

/// Credits in a table, with a way to void each that has something left.
pub(super) fn credit_table(credits: &Value, may_void: bool) -> Markup {
    let credits = show::items(credits);
    html! {
        @if credits.is_empty() { p.empty { (text::NO_CREDITS) } } @else { div.scroll tabindex="0" { table {
            thead { tr {
                th { (text::KIND) } th { (text::SINCE) } th { (text::EXPIRES) } th { (text::STATUS) }
                th.right { (text::AMOUNT) } th.right { (text::REMAINING) }
                @if may_void { th { span.hidden { (text::VOID) } } }
            } }
            tbody { @for one in credits { tr {
                td.long { a href=(credit_path(one)) { (credit_name(one)) } }
                td { (show::day(&one["effective_at"])) }
                td { @if one["expires_at"].is_null() { (text::NEVER) } @else { (show::day(&one["expires_at"])) } }
                td { (show::badge(one["status"].as_str().unwrap_or_default())) }
                td.right { (show::amount(&one["amount"], &one["currency"])) }
                td.right { (show::amount(&one["amount_remaining"], &one["currency"])) }
                @if may_void { td.right {
                    @if one["status"] == "active" {
                        a href={ (credit_path(one)) "void/" } { (text::VOID) }
                    }
                } }
            } } }
        } } }
    }
}
