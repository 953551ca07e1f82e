//! What forms send, and what comes of it: each does what the call of the API does, once.

use std::time::{Duration, Instant};

use billing_domain::user::Role;
use serde_json::{Value, json};

use super::{Browser, hidden, token, user};
use crate::resources::reissues::{newest, void_calls, with_calls};
use crate::support::{Answer, Field, World, ago};

const OWNER: &str = "owner@acme.example";

/// A world with a customer who has a plan and an unpaid invoice, and an owner: the invoice.
fn world() -> (World, String) {
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(time::Duration::days(1))});
    world.post("/api/subscriptions/", &body).ok(200);
    let invoice = world.get("/api/invoices/").ok(200)[0].id("invoice_id");
    user(&world, OWNER, world.organization, Role::Owner);
    (world, invoice)
}

/// Fills a form in and sends it, twice: the second time is a double click. What the first came to.
pub(super) fn fill(browser: &Browser, path: &str, fields: &[(&str, &str)]) -> Answer {
    let page = browser.get(path);
    assert_eq!(page.status, 200, "{path}: {}", page.text);
    for (name, _) in fields {
        assert!(page.text.contains(&format!("name=\"{name}\"")), "{path} has no field {name}: {}", page.text);
    }
    let (token, once) = (token(&page), hidden(&page, "once"));
    let mut all = vec![("form_token", token.as_str()), ("once", once.as_str())];
    all.extend_from_slice(fields);
    let answer = browser.post(path, &all);
    browser.post(path, &all);
    answer
}

pub(super) fn list(world: &World, path: &str) -> Vec<Value> {
    world.get(path).ok(200).as_array().expect("a list").clone()
}

#[test]
fn a_credit_is_given_and_voided() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let path = "/console/customers/acme/credit/";
    let filled = [
        ("amount", "12.3400"),
        ("currency_code", "USD"),
        ("description", "<i>sorry</i>"),
        ("expires_at", "2031-05-01T10:30"),
    ];
    assert_eq!(fill(&owner, path, &filled).header("location"), "/console/customers/acme/");
    let credits = list(&world, "/api/credits/?customer_id=acme");
    assert_eq!(credits.len(), 1, "once: {credits:?}");
    assert_eq!(
        (credits[0]["amount"].to_string().as_str(), &credits[0]["expires_at"]),
        ("12.34", &json!("2031-05-01T10:30:00Z"))
    );
    let page = owner.get("/console/customers/acme/").text;
    assert!(page.contains("&lt;i&gt;sorry&lt;/i&gt;") && page.contains("12.34"), "{page}");
    let id = credits[0].id("credit_id");
    fill(&owner, &format!("/console/credits/{id}/void/"), &[]);
    assert_eq!(world.get(&format!("/api/credits/{id}/")).ok(200)["status"], "inactive");
    let form = owner.get(path);
    for (amount, currency) in [("-1", "USD"), ("x", "USD"), ("1", "usd"), ("", "USD")] {
        let fields = [
            ("form_token", token(&form)),
            ("once", hidden(&form, "once")),
            ("amount", amount.into()),
            ("currency_code", currency.into()),
        ];
        let refused = owner.post(path, &fields.each_ref().map(|(name, value)| (*name, value.as_str())));
        assert_eq!(refused.status, 400, "{amount} {currency}: {}", refused.text);
    }
    assert_eq!(list(&world, "/api/credits/?customer_id=acme&status=active").len(), 0);
}

#[test]
fn a_credit_note_takes_back_and_is_voided() {
    let (world, invoice) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let before = world.get(&format!("/api/invoices/{invoice}/")).ok(200);
    let path = format!("/console/invoices/{invoice}/");
    let filled = [("amount", "1.50"), ("settlement", "balance"), ("reason", "too much")];
    assert_eq!(fill(&owner, &format!("{path}credit_notes/"), &filled).header("location"), path);
    let notes = list(&world, &format!("/api/credit_notes/?invoice_id={invoice}"));
    assert_eq!(notes.len(), 1, "once: {notes:?}");
    let page = owner.get(&path).text;
    assert!(page.contains(&notes[0].id("credit_note_number")), "{page}");
    let after = world.get(&format!("/api/invoices/{invoice}/")).ok(200);
    assert_ne!(before["amount_due"], after["amount_due"]);
    let note = notes[0].id("credit_note_id");
    assert_eq!(fill(&owner, &format!("/console/credit_notes/{note}/void/"), &[]).header("location"), path);
    let due = world.get(&format!("/api/invoices/{invoice}/")).ok(200)["amount_due"].clone();
    assert_eq!(due, before["amount_due"]);
    assert!(!owner.get(&path).text.contains("/console/credit_notes/"), "a voided one is not voided again");
}

#[test]
fn a_one_off_line_is_charged_and_taken_away() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let path = "/console/customers/acme/one_off_lines/";
    assert!(owner.get("/console/customers/acme/").text.contains(path), "the customer leads there");
    let filled = [("name", "Set-up <i>"), ("quantity", "1.5"), ("unit_amount", "80.01"), ("is_taxed", "false")];
    assert_eq!(fill(&owner, path, &filled).header("location"), path);
    let waiting = list(&world, "/api/customers/acme/one_off_lines/");
    assert_eq!(waiting.len(), 1, "once: {waiting:?}");
    assert_eq!((waiting[0]["amount"].to_string().as_str(), &waiting[0]["is_taxed"]), ("120.02", &json!(false)));
    let page = owner.get(path).text;
    assert!(page.contains("Set-up &lt;i&gt;") && page.contains("120.02"), "{page}");
    let remove = format!("{path}remove/?line={}", waiting[0].id("one_off_line_id"));
    assert!(page.contains(&remove), "{page}");
    assert_eq!(fill(&owner, &remove, &[]).header("location"), path);
    assert_eq!(list(&world, "/api/customers/acme/one_off_lines/").len(), 0);
    assert_eq!(owner.get(&remove).status, 404, "it is gone");

    let filled = [("name", "Device"), ("amount", "19.99"), ("currency_code", "USD"), ("invoice_now", "true")];
    let invoice = fill(&owner, path, &filled).header("location").to_owned();
    assert!(invoice.starts_with("/console/invoices/"), "{invoice}");
    assert!(owner.get(&invoice).text.contains("Device"), "its invoice is shown");
    assert_eq!(list(&world, "/api/customers/acme/one_off_lines/?billed=true").len(), 1, "once");
    for (amount, quantity) in [("", ""), ("1", "2"), ("-1", ""), ("x", "")] {
        let refused = fill(&owner, path, &[("name", "x"), ("amount", amount), ("quantity", quantity)]);
        assert_eq!(refused.status, 400, "{amount} {quantity}: {}", refused.text);
    }
}

#[test]
fn corrections_are_looked_at_and_given_back() {
    let world = World::new();
    with_calls(&world);
    user(&world, OWNER, world.organization, Role::Owner);
    let owner = Browser::signed_in(&world, OWNER);
    let path = format!("/console/invoices/{}/", newest(&world).id("invoice_id"));
    let page = format!("{path}corrections/");
    let untouched = owner.get(&page).text;
    assert!(untouched.contains("nothing to give back") && !untouched.contains("name=\"reason\""), "{untouched}");
    void_calls(&world, 0..4);
    assert!(owner.get(&path).text.contains(&page), "the invoice leads there");
    let before = world.snapshot();
    let owed = owner.get(&page).text;
    assert!(world.snapshot() == before, "looking writes nothing");
    for figure in ["27.5", "2.2", "on the next invoice"] {
        assert!(owed.contains(figure), "{figure}: {owed}");
    }
    let filled = [("settlement", "balance"), ("reason", "a test <run>")];
    assert_eq!(fill(&owner, &page, &filled).header("location"), path);
    let notes = list(&world, "/api/credit_notes/");
    assert_eq!(notes.len(), 1, "once: {notes:?}");
    assert_eq!((&notes[0]["amount"], &notes[0]["corrections"]), (&json!(2.2), &json!(true)));
    assert!(owner.get(&page).text.contains("nothing to give back"));
}

#[test]
fn an_invoice_is_billed_anew() {
    let world = World::new();
    with_calls(&world);
    user(&world, OWNER, world.organization, Role::Owner);
    let owner = Browser::signed_in(&world, OWNER);
    let old = newest(&world).id("invoice_id");
    void_calls(&world, 0..4);
    let old_path = format!("/console/invoices/{old}/");
    let answer = fill(&owner, &format!("{old_path}void/"), &[("rebill", "true")]);
    let invoices = list(&world, "/api/invoices/?customer_id=acme");
    let new = invoices.iter().find(|invoice| invoice["replaces"] == old.as_str()).expect("another invoice");
    assert_eq!(invoices.iter().filter(|invoice| !invoice["replaces"].is_null()).count(), 1, "once");
    assert_eq!(new["amount"], 25.3, "20 and six calls, with tax");
    let new_path = format!("/console/invoices/{}/", new.id("invoice_id"));
    assert_eq!(answer.header("location"), new_path);
    assert!(owner.get(&new_path).text.contains(&old_path) && owner.get(&old_path).text.contains(&new_path));
    assert_eq!(owner.get(&format!("{old_path}corrections/")).status, 409, "a voided invoice owes nothing");
}

#[test]
fn an_endpoint_is_made_and_its_secret_shown_once() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let path = "/console/webhooks/new/";
    assert!(owner.get("/console/webhooks/").text.contains(path));
    let filled = [
        ("url", "https://hooks.example/in?a=1&b"),
        ("event_types", "invoice.created, invoice.paid"),
        ("description", "<b>books</b>"),
    ];
    let made = fill(&owner, path, &filled);
    assert!(made.status == 200 && made.text.contains("whsec_"), "{}", made.text);
    let endpoints = list(&world, "/api/webhook_endpoints/");
    assert_eq!(endpoints.len(), 1, "once: {endpoints:?}");
    assert_eq!(endpoints[0]["event_types"], json!(["invoice.created", "invoice.paid"]));
    let shown = owner.get(&format!("/console/webhooks/{}/", endpoints[0].id("webhook_endpoint_id"))).text;
    assert!(shown.contains("&lt;b&gt;books") && !shown.contains("whsec_"), "{shown}");
    for (url, types) in [("ftp://x", ""), ("https://hooks.example/", "invoice.nonsense")] {
        let refused = fill(&owner, path, &[("url", url), ("event_types", types)]);
        assert_eq!(refused.status, 400, "{url} {types}: {}", refused.text);
    }
}

#[test]
fn somebody_is_taken_out() {
    let (world, _) = world();
    user(&world, "leaver@acme.example", world.organization, Role::Support);
    let (owner, leaver) = (Browser::signed_in(&world, OWNER), Browser::signed_in(&world, "leaver@acme.example"));
    let users = list(&world, "/api/users/");
    let of = |email: &str| users.iter().find(|user| user["email"] == email).expect("a user").id("user_id");
    let path = format!("/console/users/{}/remove/", of("leaver@acme.example"));
    assert!(owner.get("/console/users/").text.contains(&path));
    assert_eq!(fill(&owner, &path, &[]).header("location"), "/console/users/");
    assert_eq!(list(&world, "/api/users/").len(), 1);
    assert_eq!(leaver.get("/console/").status, 303, "signed out at once");
    let last = fill(&owner, &format!("/console/users/{}/remove/", of(OWNER)), &[]);
    assert_eq!(last.status, 400, "the last owner stays: {}", last.text);
}

#[test]
fn an_alert_is_made_and_deleted() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let filled = [("kind", "spend"), ("threshold", "99.5"), ("currency_code", "USD"), ("customer_id", "acme")];
    assert_eq!(fill(&owner, "/console/alerts/new/", &filled).header("location"), "/console/alerts/");
    let alerts = list(&world, "/api/usage_alerts/");
    assert_eq!(alerts.len(), 1, "once: {alerts:?}");
    assert!(owner.get("/console/alerts/").text.contains("99.50"));
    let id = alerts[0].id("usage_alert_id");
    assert_eq!(fill(&owner, &format!("/console/alerts/{id}/delete/"), &[]).header("location"), "/console/alerts/");
    assert!(list(&world, "/api/usage_alerts/").is_empty());
}

#[test]
fn a_clock_is_advanced() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let clock = world.post("/api/test_clocks/", &json!({"name": "2024", "frozen_time": "2024-01-01"})).ok(201);
    let id = clock.id("test_clock_id");
    let body = json!({"customer_id": "timed", "email": "timed@acme.io", "test_clock_id": id});
    world.post("/api/customers/", &body).ok(201);
    let plan = list(&world, "/api/plans/")[0].id("plan_id");
    let body = json!({"customer_id": "timed", "plan_id": plan, "start_date": "2024-01-01"});
    world.post("/api/subscriptions/", &body).ok(200);
    let before = list(&world, "/api/invoices/?customer_id=timed").len();
    let path = format!("/console/test_clocks/{id}/");
    assert_eq!(fill(&owner, &path, &[("frozen_time", "2024-03-01T12:00")]).header("location"), path);
    world.advance_done(&id);
    assert!(owner.get(&path).text.contains("2024-03-01 12:00"));
    let invoices = list(&world, "/api/invoices/?customer_id=timed");
    assert!(invoices.len() > before, "what came due is invoiced");
    for invoice in &invoices {
        assert!(owner.get(&path).text.contains(&invoice.id("invoice_number")), "and shown: {invoice}");
    }
    let slide = |days: &str| {
        let from = hidden(&owner.get(&path), "from");
        fill(&owner, &path, &[("from", &from), ("days", days)])
    };
    assert_eq!(slide("31").header("location"), path);
    world.advance_done(&id);
    let stands = || world.get(&format!("/api/test_clocks/{id}/")).ok(200)["frozen_time"].clone();
    assert_eq!(stands(), "2024-04-01T12:00:00Z", "once, however often it is sent");
    assert_eq!(slide("93").status, 400, "the slider has no such day");
    assert_eq!(stands(), "2024-04-01T12:00:00Z");
    let made =
        fill(&owner, "/console/test_clocks/new/", &[("name", "<i>2030</i>"), ("frozen_time", "2030-01-01T00:00")]);
    let clocks = list(&world, "/api/test_clocks/");
    assert_eq!(clocks.len(), 2, "once: {clocks:?}");
    assert_eq!(made.header("location"), format!("/console/test_clocks/{}/", clocks[1].id("test_clock_id")));
    let page = owner.get(made.header("location")).text;
    assert!(page.contains("&lt;i&gt;2030") && page.contains("None yet."), "{page}");
}

#[test]
fn somebody_is_invited_and_becomes_something_else() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let invited = fill(&owner, "/console/users/invite/", &[("email", "new@acme.example"), ("role", "support")]);
    assert!(invited.status == 200 && invited.text.contains("/console/invitation/"), "{}", invited.text);
    user(&world, "new@acme.example", world.organization, Role::Support);
    let users = list(&world, "/api/users/");
    let new = users.iter().find(|user| user["email"] == "new@acme.example").expect("there");
    let path = format!("/console/users/{}/role/", new.id("user_id"));
    assert_eq!(fill(&owner, &path, &[("role", "finance")]).header("location"), "/console/users/");
    let users = list(&world, "/api/users/");
    assert!(users.iter().any(|user| user["email"] == "new@acme.example" && user["role"] == "finance"), "{users:?}");
}

#[test]
fn settings_are_kept_and_emptied() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let path = "/console/settings/";
    let filled = [
        ("organization_name", "Acme & Sons"),
        ("timezone", "Europe/Berlin"),
        ("tax_rate", "19"),
        ("payment_grace_period", "14"),
        ("invoice_grace_minutes", "45"),
    ];
    assert_eq!(fill(&owner, path, &filled).header("location"), path);
    let organization = world.get("/api/organization/").ok(200);
    assert_eq!(organization["tax_rate"].to_string(), "19");
    assert_eq!(
        (&organization["payment_grace_period"], &organization["timezone"]),
        (&json!(14), &json!("Europe/Berlin"))
    );
    assert_eq!(organization["invoice_grace_minutes"], 45);
    fill(&owner, path, &[("organization_name", "Acme & Sons"), ("tax_rate", ""), ("payment_grace_period", "")]);
    let organization = world.get("/api/organization/").ok(200);
    assert!(organization["tax_rate"].is_null() && organization["payment_grace_period"].is_null(), "{organization}");
    assert_eq!(organization["timezone"], "Europe/Berlin", "what was not sent stays");
    // The zone that times are in stands at the foot of every page.
    let log = |query: &str| {
        owner.get(&format!("/console/audit_log/?{query}")).text.split("<footer").next().unwrap_or_default().to_owned()
    };
    let changed = log("operation=update_organization");
    assert!(changed.contains(OWNER) && changed.contains("Europe/Berlin"), "{changed}");
    assert!(!log("actor=nobody").contains("Europe/Berlin"));
}

#[test]
fn messages_are_sent_again() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let hook = world.post("/api/webhook_endpoints/", &json!({"url": "https://hooks.invalid/"})).ok(201);
    let path = format!("/console/webhooks/{}/", hook.id("webhook_endpoint_id"));
    assert!(owner.get("/console/webhooks/").text.contains(&path));
    assert_eq!(fill(&owner, &format!("{path}replay/"), &[("since", "2026-01-01T00:00")]).header("location"), path);
}

#[test]
fn failed_billing_is_shown_and_tried_again() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let path = "/console/billing_run/";
    assert!(owner.get(path).text.contains("billing is due."), "nobody is due");
    let failed = "UPDATE billing_due SET due_at = now() - interval '1 day', failures = 9, is_parked = true,
        failure = 'no <luck>', claimed_until = now()";
    world.sql(failed);
    let page = owner.get(path).text;
    for shown in ["no &lt;luck&gt;", "parked", "/console/billing_run/acme/retry/"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let queue = world.get("/api/billing_queue/").ok(200);
    assert_eq!(queue["customers"][0]["failure"], "no <luck>", "{queue}");
    assert_eq!(fill(&owner, &format!("{path}acme/retry/"), &[]).header("location"), path);
    let queue = world.get("/api/billing_queue/").ok(200);
    let still = queue["customers"].as_array().expect("a list").iter().any(|one| one["failures"] != 0);
    assert!(!still, "it is tried again, or done: {queue}");
    let again = world.post("/api/billing_queue/acme/retry/", &Value::Null).ok(200);
    assert_eq!(again, json!({"customer_id": "acme", "had_failed": false}));
    assert_eq!(world.post("/api/billing_queue/nobody/retry/", &Value::Null).status, 404);
}

#[test]
fn books_are_audited_from_their_page() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let path = "/console/books/";
    assert!(owner.get(path).text.contains("Nobody has had the books audited yet."));
    let last = || {
        let began = Instant::now();
        loop {
            let last = world.get("/api/books_audits/").ok(200)[0].clone();
            if last["state"] != "running" {
                return last;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it does not end: {last}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    assert_eq!(fill(&owner, "/console/books/run/", &[]).header("location"), path);
    let clean = last();
    let page = owner.get(path).text;
    assert!(page.contains("Everything adds up") && page.contains("Audit now"), "{page}");
    world.sql("SET session_replication_role = replica; UPDATE invoices SET amount = amount + 1");
    fill(&owner, "/console/books/run/", &[]);
    assert_eq!(last()["state"], "breached");
    let page = owner.get(path).text;
    for shown in ["Something does not add up", "invoice is the sum of its lines", "its lines add up to"] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    let before = format!("{path}{}/", clean.id("books_audit_id"));
    assert!(page.contains(&before), "the one before is there too");
    assert!(owner.get(&before).text.contains("Everything adds up"));
    user(&world, "reader@acme.example", world.organization, Role::Reader);
    let reader = Browser::signed_in(&world, "reader@acme.example").get(path).text;
    assert!(reader.contains("Something does not add up") && !reader.contains("Audit now"), "readers look: {reader}");
}

#[test]
fn a_query_is_tried_and_stays_in_its_form() {
    let (world, _) = world();
    let owner = Browser::signed_in(&world, OWNER);
    let path = "/console/metrics/try/";
    assert!(owner.get("/console/metrics/").text.contains(path), "there is a way to it");
    for n in 0..3 {
        world
            .post("/api/track/", &crate::support::event("acme", &format!("<{n}>"), &ago(time::Duration::hours(1))))
            .ok(201);
    }
    let form = owner.get(path);
    assert!(form.text.contains("<textarea"), "{}", form.text);
    let own = token(&form);
    let start = ago(time::Duration::days(3));
    let sent = |query: &str| {
        let fields = [
            ("form_token", own.as_str()),
            ("once", "a"),
            ("custom_sql", query),
            ("customer_id", "acme"),
            ("start", &start[..10]),
        ];
        owner.post(path, &fields)
    };
    let query =
        "SELECT COUNT(*) AS usage_qty FROM events WHERE time_created >= start_date AND time_created <= end_date";
    let tried = sent(query);
    assert_eq!(tried.status, 200, "{}", tried.text);
    assert!(
        tried.text.contains("What it comes to") && tried.text.contains("<p class=\"figure\">3</p>"),
        "{}",
        tried.text
    );
    assert!(tried.text.contains("time_created &gt;= start_date"), "what was typed is still there");
    let wrong = sent("SELECT <b> FROM events");
    assert_eq!(wrong.status, 200, "{}", wrong.text);
    assert!(
        wrong.text.contains("cannot be read as a SELECT") && wrong.text.contains("SELECT &lt;b&gt; FROM events"),
        "{}",
        wrong.text
    );
    assert_eq!(world.get("/api/metrics/").ok(200).as_array().map(Vec::len), Some(1), "nothing is made");
}
