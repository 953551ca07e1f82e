//! What pages show, what they carry, and what they cost.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use billing_console::{Method, asset, table};
use billing_domain::user::Role;
use billing_store::testing::count_statements;
use serde_json::{Value, json};
use sha2::{Digest, Sha384};

use super::{Browser, assert_light, user};
use crate::resources::reissues::{newest, void_calls, with_calls};
use crate::support::{Field, World, ago, event, now, version_body};

const ADA: &str = "ada@acme.example";
const MARKUP: &str = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>";

/// A world with one customer who has a plan and an invoice: the invoice's number.
fn world_with_an_invoice() -> (World, String) {
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(time::Duration::days(1))});
    world.post("/api/subscriptions/", &body).ok(200);
    let number = world.get("/api/invoices/").ok(200)[0].id("invoice_number");
    user(&world, ADA, world.organization, Role::Owner);
    (world, number)
}

#[test]
fn pages_load_nothing_and_run_nothing_of_others() {
    let (world, _) = world_with_an_invoice();
    let ada = Browser::signed_in(&world, ADA);
    let own = table().iter().filter(|row| row.method == Method::Get && !row.path.contains('{')).map(|row| row.path);
    let mut paths: Vec<&str> = own.collect();
    paths.extend([
        "/console/organizations/",
        "/console/sessions/",
        "/console/time_zone/",
        "/console/sign-in/",
        "/console/customers/nobody/",
        "/console/nothing/at/all/",
    ]);
    for path in paths {
        let page = ada.get(path);
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"), "{path}: {policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(page.header(name), value, "{path}: {name}");
        }
        for never in ["<script>", " style=", " onclick=", "http://", "https://", "src=\"//", "javascript:"] {
            assert!(!page.text.contains(never), "{path}: {never}");
        }
        let ids: Vec<&str> = page.text.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let different: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), different.len(), "{path}: an id stands twice: {ids:?}");
        assert!(waits_for_its_end(&page.text), "{path} is shown before it is there");
        for forms in page.text.split("<form").skip(1).filter(|form| form.contains("method=\"post\"")) {
            assert!(forms.contains("name=\"form_token\""), "{path}: a form without its token");
        }
    }
}

/// Whether a page is shown only once all of it is there. An element is there for whoever waits for it as soon as it begins, so it is an
/// empty one behind all others.
fn waits_for_its_end(page: &str) -> bool {
    let awaited = page.split_once("rel=\"expect\" href=\"#").and_then(|(_, rest)| rest.split('"').next());
    awaited.is_some_and(|id| page.ends_with(&format!("<span id=\"{id}\" hidden></span></body></html>")))
}

#[test]
fn a_page_of_nobody_is_shown_once_it_is_there() {
    let page = Browser::new(&world_with_an_invoice().0).get("/console/sign-in/").text;
    assert!(waits_for_its_end(&page), "{page}");
}

/// A browser runs nothing but the file that was published, and that may do nothing that the policy forbids.
#[test]
fn htmx_is_the_file_that_was_published() {
    let (world, _) = world_with_an_invoice();
    let ada = Browser::signed_in(&world, ADA);
    let page = ada.get("/console/").text;
    let script = format!("<script defer src=\"{}\" integrity=\"{}\">", asset::HTMX_PATH, asset::HTMX_DIGEST);
    assert!(page.contains(&script), "{page}");
    let file = ada.get(asset::HTMX_PATH).text;
    let digest = BASE64.encode(Sha384::digest(file.as_bytes()));
    assert_eq!(asset::HTMX_DIGEST, format!("sha384-{digest}"));
    let settings: Value = serde_json::from_str(asset::HTMX_SETTINGS).expect("JSON");
    for setting in ["includeIndicatorStyles", "allowEval", "allowScriptTags"] {
        assert_eq!(settings[setting], false, "{setting}");
    }
    assert!(page.contains("&quot;allowEval&quot;:false"), "the page has them: {page}");
}

#[test]
fn names_made_of_markup_stay_text() {
    let (world, _) = world_with_an_invoice();
    let long = "n".repeat(10_000);
    for (id, name) in [("markup", MARKUP), ("long", &long[..])] {
        let body = json!({"customer_id": id, "customer_name": name, "email": format!("{id}@acme.io")});
        let made = world.post("/api/customers/", &body);
        // A name that is too long is refused by the API; then there is nothing to show.
        assert!(made.status == 201 || (id == "long" && made.status == 400), "{}", made.text);
    }
    let ada = Browser::signed_in(&world, ADA);
    let query = "/console/search/?q=%3Cscript%3Ealert(1)%3C/script%3Enothing%22";
    for path in ["/console/customers/", "/console/customers/markup/", query] {
        let page = ada.get(path);
        assert_eq!(page.status, 200);
        assert!(!page.text.contains("<script>alert") && !page.text.contains("<img"), "{path}: {}", page.text);
        assert!(page.text.contains("&lt;script&gt;alert(1)"), "{path}: it is shown, as text");
    }
}

#[test]
fn an_invoice_opens_to_what_explain_says() {
    let (world, number) = world_with_an_invoice();
    let ada = Browser::signed_in(&world, ADA);
    let page = ada.get(&format!("/console/invoices/{number}/")).text;
    let explained = world.get(&format!("/api/invoices/{number}/explain/")).ok(200);
    for line in explained["line_items"].as_array().expect("lines") {
        assert!(page.contains(line["name"].as_str().expect("a name")), "{line}");
        let exact = line["trace"]["rounding"]["exact_so_far"].to_string();
        assert!(page.contains(&exact), "{exact}: {page}");
    }
    let found = ada.get(&format!("/console/search/?q={number}"));
    assert!(found.header("location").starts_with("/console/invoices/invoice_"), "found by its number");
    assert_eq!(ada.get("/console/search/?q=acme").header("location"), "/console/customers/acme/");
    assert_eq!(ada.get("/console/search/?q=4%40acme.io").header("location"), "/console/customers/acme/");
    assert_eq!(ada.get("/console/search/?q=nobody").status, 200);
    assert_eq!(ada.get("/console/search/?q=ACM").header("location"), "/console/customers/acme/", "the only one");
    world.post("/api/customers/", &json!({"customer_id": "x", "customer_name": "Acme <b>", "email": "x@x.io"})).ok(201);
    let several = ada.get("/console/search/?q=acm");
    assert!(several.status == 200 && several.text.contains("/console/customers/x/"), "{}", several.text);
    assert!(several.text.contains("Acme &lt;b&gt;") && several.text.contains("/console/customers/acme/"));
}

#[test]
fn an_event_is_found_by_its_id_and_finds_are_grouped() {
    let (world, number) = world_with_an_invoice();
    world.customer("other");
    let batch = [event("acme", "one", &now()), event("acme", "two", &now()), event("other", "two", &now())];
    world.post("/api/track/", &json!({"batch": batch})).ok(201);
    world.post("/api/track/", &event("acme", &number, &now())).ok(201);
    world.post("/api/track/", &event("acme", "other", &now())).ok(201);
    let ada = Browser::signed_in(&world, ADA);
    let to = ada.get("/console/search/?q=one").header("location").to_owned();
    assert!(to.starts_with("/console/customers/acme/event/?idempotency_id=one&"), "{to}");
    assert_eq!(ada.get(&to).status, 200, "the receipt is there");
    let events = |page: &str| page.matches("/event/?idempotency_id=").count();
    let two = ada.get("/console/search/?q=two");
    assert_eq!((two.status, events(&two.text)), (200, 2), "two customers': {}", two.text);
    let both = ada.get(&format!("/console/search/?q={number}"));
    let has_invoice = both.text.contains("href=\"/console/invoices/invoice_");
    assert_eq!((both.status, events(&both.text), has_invoice), (200, 1, true), "{}", both.text);
    let both = ada.get("/console/search/?q=other");
    let has_customer = both.text.contains("href=\"/console/customers/other/\"");
    assert_eq!((both.status, events(&both.text), has_customer), (200, 1, true), "{}", both.text);

    user(&world, "eve@second.example", world.opened.create_organization("Second", None).expect("made").0, Role::Owner);
    let eve = Browser::signed_in(&world, "eve@second.example").get("/console/search/?q=one");
    assert_eq!((eve.status, events(&eve.text)), (200, 0), "another tenant's is not found: {}", eve.text);
}

#[test]
fn lists_are_kept_as_tables() {
    let (world, number) = world_with_an_invoice();
    let named = json!({"customer_id": "=1+1", "customer_name": "Say \"hi\", @all", "email": "+x@acme.io"});
    world.post("/api/customers/", &named).ok(201);
    let ada = Browser::signed_in(&world, ADA);
    let table = |path: &str, name: &str| {
        let answer = ada.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert_eq!(answer.header("content-type"), "text/csv; charset=utf-8; header=present", "{path}");
        assert_eq!(answer.header("content-disposition"), format!("attachment; filename=\"{name}\""), "{path}");
        let lines: Vec<String> = answer.text.split_terminator("\r\n").map(str::to_owned).collect();
        lines
    };
    let customers = table("/console/customers/?format=csv", "customers.csv");
    assert_eq!(customers[0], "customer_id,customer_name,email,plans,amounts_due");
    let invoice = &world.get("/api/invoices/").ok(200)[0];
    let of = |begin: &str| customers.iter().find(|line| line.starts_with(begin)).cloned().unwrap_or_default();
    assert_eq!(of("acme,"), format!("acme,,4@acme.io,Starter,{} USD", invoice["amount_due"]));
    assert_eq!(of("'=1+1,"), "'=1+1,\"Say \"\"hi\"\", @all\",'+x@acme.io,,", "nothing is a formula");
    let invoices = table("/console/invoices/?format=csv&status=unpaid", "invoices.csv");
    assert_eq!(invoices.len(), 2, "{invoices:?}");
    let end = format!(",USD,{},{},{}", invoice["amount"], invoice["amount_due"], invoice.id("invoice_id"));
    assert!(invoices[1].starts_with(&format!("{number},")) && invoices[1].ends_with(&end), "{invoices:?}");
    assert_eq!(table("/console/invoices/?format=csv&status=voided", "invoices.csv").len(), 1, "the filter applies");
    let log = table("/console/audit_log/?format=csv&kind=customer", "audit_log.csv");
    assert_eq!(log.len(), 3, "who made the two customers: {log:?}");
    let credit =
        json!({"customer_id": "acme", "amount": "12.30", "currency_code": "USD", "description": "=sorry, again"});
    let credit = world.post("/api/credits/", &credit).ok(201).id("credit_id");
    world.post("/api/credits/", &json!({"customer_id": "=1+1", "amount": 1, "currency_code": "USD"})).ok(201);
    let credits = table("/console/customers/acme/credits/?format=csv", "credits.csv");
    assert_eq!(credits.len(), 2, "one customer's: {credits:?}");
    assert!(credits[1].starts_with(&format!("{credit},acme,,\"'=sorry, again\",")), "{credits:?}");
    assert!(credits[1].ends_with(",,active,USD,12.3,12.3,0"), "{credits:?}");
    let note = json!({"invoice_id": invoice.id("invoice_id"), "amount": "1.50", "settlement": "balance", "reason": "too \"much\""});
    let note = world.post("/api/credit_notes/", &note).ok(201);
    let notes = table("/console/credit_notes/?format=csv", "credit_notes.csv");
    let begin = format!("{},{},,acme,{number},", note.id("credit_note_number"), note.id("issue_date"));
    let end = format!(",USD,1.5,{},{},{}", note["tax"], note["amount_credited"], note.id("credit_note_id"));
    assert!(notes.len() == 2 && notes[1].starts_with(&begin) && notes[1].ends_with(&end), "{notes:?} {note}");
    assert!(notes[1].contains(",\"too \"\"much\"\"\",balance,,USD,"), "{notes:?}");
    for (page, link) in [
        ("/console/customers/acme/credits/", "/console/customers/acme/credits/?format=csv"),
        ("/console/customers/acme/", "/console/customers/acme/credits/"),
        ("/console/credit_notes/", "/console/credit_notes/?format=csv"),
        ("/console/invoices/", "/console/credit_notes/"),
        ("/console/customers/", "/console/customers/?format=csv"),
        ("/console/invoices/?status=unpaid", "/console/invoices/?status=unpaid&amp;format=csv"),
        ("/console/audit_log/?kind=customer", "/console/audit_log/?kind=customer&amp;format=csv"),
    ] {
        let shown = ada.get(page).text;
        assert!(shown.contains(&format!("href=\"{link}\"")), "{page} leads there: {shown}");
    }
    user(&world, "sam@acme.example", world.organization, Role::Support);
    let sam = Browser::signed_in(&world, "sam@acme.example");
    assert_eq!(sam.get("/console/audit_log/?format=csv").status, 403, "who may not look may not keep");
}

/// Each statement is a round trip. Counted with one customer and with 300 more: no page asks about each of them. With so many the lists
/// are as long as they get, and are weighed.
#[test]
fn no_page_costs_more_with_more_customers() {
    count_statements();
    let (world, number) = world_with_an_invoice();
    let ada = Browser::signed_in(&world, ADA);
    let invoice = format!("/console/invoices/{number}/");
    let usage =
        format!("/console/customers/acme/usage/?metric_id={}", world.get("/api/metrics/").ok(200)[0].id("metric_id"));
    let plan = world.get("/api/plans/").ok(200)[0].id("plan_id");
    let compared = format!("/console/plans/{plan}/compare/");
    #[rustfmt::skip]
    let cases = [
        // path,                                    most, why
        ("/console/",                               12,   "the session, webhooks, invoices, events, what waits for a second person"),
        ("/console/customers/",                     12,   "the session; customers, what they hold, owe, and were billed"),
        ("/console/search/?q=nobody%20there",      26,   "the session; an id, a number, an address, beginnings, an event"),
        ("/console/customers/acme/",                34,   "the session; itself, its plan, usage, draft, credits, what happened"),
        ("/console/invoices/",                      8,    "the session, the list"),
        ("/console/credit_notes/",                  8,    "the session, the list"),
        ("/console/customers/acme/credits/",        16,   "the session, the customer, the list"),
        (&*invoice,                                 14,   "the session; itself, explained, its payments"),
        (&*usage,                                   24,   "the session; the customer, usage, access"),
        ("/console/billing_run/",                   10,   "the session, the overview, the queue"),
        ("/console/plans/",                         12,   "the session, the list"),
        (&*compared,                                16,   "the session, the plan"),
        ("/console/metrics/",                       8,    "the session, the list"),
        ("/console/customers/acme/event/?idempotency_id=e", 20, "the session, the event, its lines, metrics"),
        ("/console/customers/acme/events/",         12,   "the session, events, metrics"),
        ("/console/customers/acme/statement/",      12,   "the session, documents, payments, credits"),
        ("/console/customers/acme/timeline/",       16,   "the session, the customer, messages and their invoices"),
    ];
    let is_listed = |path: &str| cases.iter().any(|(listed, ..)| *listed == path);
    let others = table().iter().filter(|row| row.method == Method::Get && !row.path.contains('{'));
    let others: Vec<&str> = others.map(|row| row.path).filter(|path| !is_listed(path)).collect();
    let cases = cases.into_iter().chain(others.into_iter().map(|path| (path, 12, "the session, a list")));
    let cases: Vec<_> = cases.collect();
    let count = || -> Vec<u64> { cases.iter().map(|(path, ..)| world.statements(|| ada.get(path))).collect() };
    let few = count();
    world.copy_customers(300);
    let many = count();
    for (((path, most, why), few), many) in cases.iter().zip(few).zip(many) {
        assert!(many <= few, "{path}: {many} statements, {few} with one customer");
        assert!(few <= *most, "{path}: {few} statements, at most {most}: {why}");
        assert_light(path, &ada.get(path).text);
    }
}

#[test]
fn a_line_opens_to_its_events_and_an_event_to_its_lines() {
    let world = World::new();
    with_calls(&world);
    void_calls(&world, 0..1);
    user(&world, ADA, world.organization, Role::Reader);
    let ada = Browser::signed_in(&world, ADA);
    let invoice = ada.get(&format!("/console/invoices/{}/", newest(&world).id("invoice_id"))).text;
    let link = invoice.split("href=\"").find(|link| link.contains("events/?line=")).expect("a way to the events");
    let link = link.split('"').next().expect("an end");
    let events = ada.get(link);
    assert_eq!(
        (events.status, events.text.matches("event/?idempotency_id=").count()),
        (200, 10),
        "as the line saw them"
    );
    let receipt =
        events.text.split("href=\"").find(|link| link.contains("event/?idempotency_id=")).expect("a way to a receipt");
    let receipt = ada.get(&receipt.split('"').next().expect("an end").replace("&amp;", "&"));
    assert_eq!(receipt.status, 200, "{}", receipt.text);
    assert!(receipt.text.contains(&newest(&world).id("invoice_number")), "the invoice is shown: {}", receipt.text);
    let list = "/console/customers/acme/events/";
    let count = |query: &str| ada.get(&format!("{list}?{query}")).text.matches("event/?idempotency_id=").count();
    let all = count("");
    assert_eq!((count("state=voided"), count("state=counted")), (1, all - 1), "kept to what has become of them");
    assert_eq!(count("event_name=no_such_thing"), 0);
    let bad = ada.get(&format!("{list}?from=2024-05-01&to=2024-04-01"));
    assert!(bad.status == 200 && bad.text.contains("notice bad"), "{}", bad.text);
    assert_eq!(ada.get("/console/customers/acme/event/?idempotency_id=nothing").status, 404);
}

#[test]
fn home_tells_what_counts_for_nothing_and_leads_there() {
    let world = World::new();
    world.customer("acme");
    user(&world, ADA, world.organization, Role::Reader);
    let ada = Browser::signed_in(&world, ADA);
    assert!(!ada.get("/console/").text.contains("Events that count for nothing"), "nothing came");
    let mut typed = event("acme", "1", &now());
    typed["event_name"] = json!("api <b>&calls");
    world.post("/api/track/", &json!({"batch": [typed, event("ac/ne", "2", &now())]})).ok(201);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let home = loop {
        let home = ada.get("/console/").text;
        if home.contains("Events that count for nothing") {
            break home;
        }
        assert!(std::time::Instant::now() < until, "{home}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    // For wide screens and for phones; a minute without events has no bar.
    let bars = home.matches("<rect").count();
    assert!([2, 4].contains(&bars), "a bar a minute: {home}");
    assert!(home.contains("api &lt;b&gt;&amp;calls") && !home.contains("<b>&calls"), "{home}");
    for (query, shown) in [("acme/events/?event_name=api%20%3Cb%3E%26calls", ">1<"), ("ac%2Fne/events/", ">2<")] {
        let path = format!("/console/customers/{query}");
        assert!(home.contains(&format!("href=\"{path}\"")), "{path}: {home}");
        let events = ada.get(&path);
        assert_eq!((events.status, events.text.contains(shown)), (200, true), "{path}: {}", events.text);
    }
}

#[test]
fn usage_is_drawn_by_day_and_adds_up() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-03-30");
    world.customer_at("acme", &clock);
    world
        .post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-03-30"}))
        .ok(200);
    world.advance(&clock, "2024-04-02T12:00:00Z");
    let used = [("2024-03-30T01:00:00Z", 3), ("2024-03-31T23:30:00Z", 2), ("2024-04-01T00:00:00Z", 5)];
    let events = used.iter().flat_map(|(at, count)| (0..*count).map(move |n| event("acme", &format!("{at} {n}"), at)));
    world.post("/api/track/", &json!({"batch": events.collect::<Vec<_>>()})).ok(201);
    user(&world, ADA, world.organization, Role::Reader);
    let ada = Browser::signed_in(&world, ADA);
    let customer = ada.get("/console/customers/acme/").text;
    let path = format!("/console/customers/acme/usage/?metric_id={metric}");
    assert!(customer.contains(&format!("href=\"{path}\"")), "the customer leads there: {customer}");
    let page = ada.get(&path);
    assert_eq!(page.status, 200, "{}", page.text);
    assert_eq!(
        page.text.matches("<rect").count(),
        2 * 3,
        "a bar a day that has events, on two pictures: {}",
        page.text
    );
    let row = |day: &str| page.text.split("<tr>").skip(1).find(|row| row.contains(day)).map(str::to_owned);
    for (day, quantity) in [("2024-03-30", 3), ("2024-03-31", 2), ("2024-04-01", 5), ("2024-04-02", 0)] {
        let row = row(&format!(">{day}<")).unwrap_or_else(|| panic!("no {day}: {}", page.text));
        assert!(row.contains(&format!("<td class=\"right\">{quantity}</td>")), "{day}: {row}");
    }
    assert!(page.text.contains("10 of 1,000") && page.text.contains("<meter"), "against the limit: {}", page.text);
    assert_eq!(ada.get("/console/customers/acme/usage/?metric_id=metric_00000000000000000000000000000001").status, 400);

    // A query of somebody's own is measured 31 times at most.
    let sql = "SELECT count(*) AS usage_qty FROM events";
    let custom = json!({"metric_type": "custom", "metric_name": "By query", "custom_sql": sql});
    let custom = world.post("/api/metrics/", &custom).ok(201).id("metric_id");
    let yearly = json!({"customer_id": "acme", "plan_id": world.plan(&metric), "start_date": "2024-02-01", "end_date": "2024-12-31"});
    world.post("/api/subscriptions/", &yearly).ok(200);
    let page = ada.get(&format!("/console/customers/acme/usage/?metric_id={custom}"));
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("Usage by month: By query"), "{}", page.text);
    assert_eq!(page.text.matches("<rect").count(), 2 * 2, "a bar a month that has events: {}", page.text);
}

#[test]
fn prices_of_a_version_are_drawn_and_two_versions_compared() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let mut next = version_body(&metric);
    next["recurring_charges"][0]["amount"] = json!(12);
    next["components"][0]["tiers"][1]["cost_per_batch"] = json!("0.02");
    next["make_active_type"] = json!("grandfather");
    world.post(&format!("/api/plans/{plan}/versions/"), &next).ok(201);
    user(&world, ADA, world.organization, Role::Reader);
    let ada = Browser::signed_in(&world, ADA);
    let path = format!("/console/plans/{plan}/");
    let shown = ada.get(&path).text;
    assert!(shown.contains(&format!("href=\"{path}compare/\"")), "the plan leads there: {shown}");
    let link = shown.split("href=\"").find(|link| link.contains("/version/?version=")).expect("a way to the prices");
    let drawn = ada.get(link.split('"').next().expect("an end"));
    let lines = |page: &str| ["#1D4ED8", "#B45309"].map(|ink| page.matches(&format!("stroke=\"{ink}\"")).count());
    assert_eq!((drawn.status, lines(&drawn.text)), (200, [2, 0]), "on two pictures: {}", drawn.text);
    assert!(drawn.text.contains(">9.90 <"), "a thousand units, ten of them free: {}", drawn.text);

    let compared = ada.get(&format!("{path}compare/"));
    assert_eq!((compared.status, lines(&compared.text)), (200, [2, 2]), "{}", compared.text);
    let differs = |name: &str| {
        let row = compared.text.split("<tr>").find(|row| row.starts_with(&format!("<td class=\"long\">{name}")));
        row.unwrap_or_else(|| panic!("no row {name}: {}", compared.text)).contains("badge open\">differs")
    };
    let rows = ["base", "Tier 1", "Tier 2", "Currency", "Reset interval"].map(differs);
    assert_eq!(rows, [true, false, true, false, false], "{}", compared.text);
    let thousand = compared.text.split("<tr>").find(|row| row.starts_with("<td class=\"right\">1,000</td>"));
    let thousand = thousand.expect("the bound");
    assert!([">9.90 <", ">19.80 <"].iter().all(|price| thousand.contains(price)), "both prices: {thousand}");
    assert_eq!(thousand.matches(">9.90 <").count(), 2, "and what they differ by: {thousand}");

    let version = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"][0].id("version_id");
    let same = ada.get(&format!("{path}compare/?from={version}&to={version}")).text;
    assert!(same.contains("Nothing differs.") && !same.contains("badge open\">differs"), "{same}");
    for query in ["compare/?to=nothing", "version/?version=nothing"] {
        assert_eq!(ada.get(&format!("{path}{query}")).status, 404, "{query}");
    }
}
