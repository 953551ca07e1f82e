//! People at work, in a real browser: from what somebody asks to the answer on the screen.

use billing_domain::user::Role;
use serde_json::{Value, json};

use super::browser::Driver;
use super::user;
use crate::resources::reissues::{newest, with_calls};
use crate::support::{Field, World};

/// Why is this invoice so high? From an address to the very events.
#[test]
fn finance_goes_from_an_address_to_the_events_of_a_line() {
    let world = World::new();
    with_calls(&world);
    user(&world, "finance@acme.example", world.organization, Role::Finance);
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in("finance@acme.example");
    driver.write("#search", "acme@acme.io\n");
    driver.arrives("/console/customers/acme/");
    let invoice = newest(&world);
    driver.click(&format!("main a[href='/console/invoices/{}/']", invoice.id("invoice_id")));
    driver.arrives("/console/invoices/");
    let explained = world.get(&format!("/api/invoices/{}/explain/", invoice.id("invoice_id"))).ok(200);
    let lines = explained["line_items"].as_array().expect("lines");
    assert!(lines.len() >= 2, "a fee and usage: {explained}");
    let opened = "return [...document.querySelectorAll('details.line')].map(one => (one.open = true, one.textContent))";
    let shown = driver.script(opened);
    assert_eq!(shown.as_array().map(Vec::len), Some(lines.len()), "every line: {shown}");
    for (line, shown) in lines.iter().zip(shown.as_array().expect("texts")) {
        let figures = [&line["amount"], &line["trace"]["rounding"]["exact_so_far"]].map(ToString::to_string);
        for figure in figures.iter().filter(|figure| *figure != "null") {
            assert!(shown.as_str().is_some_and(|shown| shown.contains(figure)), "{figure} to the digit: {shown}");
        }
    }
    driver.photograph("line-opened");
    let usage = lines.iter().find(|line| line["trace"]["rating"].is_object()).expect("usage");
    driver.click(&format!("a[href$='line={}']", usage.id("line_id")));
    driver.arrives("/console/customers/acme/events/");
    let events = driver.script("return document.querySelectorAll('main a[href*=\"event/?idempotency_id=\"]').length");
    assert_eq!(events, 10, "the very events");
    driver.photograph("events-of-a-line");
}

/// A test clock: a slider that advances, and the invoices that come.
#[test]
fn a_developer_slides_a_clock_and_sees_the_invoices_come() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    let clock = world.clock("2024-01-01");
    world.customer_at("timed", &clock);
    world
        .post("/api/subscriptions/", &json!({"customer_id": "timed", "plan_id": plan, "start_date": "2024-01-01"}))
        .ok(200);
    user(&world, "dev@acme.example", world.organization, Role::Developer);
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in("dev@acme.example");
    driver.open("/console/test_clocks/");
    driver.click(&format!("main a[href='/console/test_clocks/{clock}/']"));
    driver.arrives(&format!("/console/test_clocks/{clock}/"));
    let before = world.get("/api/invoices/?customer_id=timed").ok(200).as_array().expect("a list").len();
    let rows = "document.querySelectorAll('main table tbody tr').length";
    assert_eq!(driver.script(&format!("return {rows}")), before);
    driver.photograph("test-clock");
    // Its keys move it, as everybody's do who has no mouse.
    driver.script("document.querySelector('#days').focus()");
    driver.write("#days", "\u{e011}\u{e014}");
    let says = "return document.querySelector('output').textContent";
    assert_eq!(driver.script(says), "2 days: 2024-01-03 00:00", "it says what it comes to");
    driver.script("const days = document.querySelector('#days'); days.value = 62; days.dispatchEvent(new Event('input', {bubbles: true}))");
    assert_eq!(driver.script(says), "62 days: 2024-03-03 00:00");
    driver.script("window.isTheSamePage = false; document.querySelector('#days').form.requestSubmit()");
    driver.waits("window.isTheSamePage === undefined");
    driver.script("window.isTheSamePage = true");
    driver.waits(&format!("document.querySelector('#days') && {rows} >= {before} + 2"));
    assert_eq!(driver.script("return window.isTheSamePage"), true, "they came while it was looked at");
    assert!(driver.script("return document.querySelector('main').textContent").to_string().contains("2024-03-03"));
    let due = world.get(&format!("/api/invoices/?test_clock_id={clock}")).ok(200).as_array().expect("a list").len();
    assert_eq!(driver.script(&format!("return {rows}")), due, "all of them are there");
    driver.photograph("test-clock-advanced");
}

/// Figures change while somebody looks, and once nobody is signed in any more the page says so by itself.
#[test]
fn home_is_looked_at_again_until_its_session_ends() {
    let world = World::new();
    user(&world, "owner@acme.example", world.organization, Role::Owner);
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in("owner@acme.example");
    driver.open("/console/");
    driver.script("window.isTheSamePage = true; document.querySelector('#figures').isOld = true");
    driver.waits("document.querySelector('#figures') && !document.querySelector('#figures').isOld");
    assert_eq!(driver.script("return window.isTheSamePage"), true, "nothing else was loaded anew");
    assert_eq!(driver.script("return document.querySelectorAll('head style').length"), 0, "nothing writes styles");
    world.sql("DELETE FROM user_sessions");
    driver.arrives("/console/sign-in/");
}

/// An audit ends while somebody looks.
#[test]
fn an_audit_ends_while_it_is_looked_at() {
    let world = World::new();
    user(&world, "owner@acme.example", world.organization, Role::Owner);
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in("owner@acme.example");
    driver.open("/console/books/run/");
    driver.click("form.act button");
    driver.arrives("/console/books/");
    driver.waits("document.querySelector('main').textContent.includes('Everything adds up')");
    assert_eq!(
        driver.script("return document.querySelectorAll('main [hx-get]').length"),
        0,
        "nothing is asked any more"
    );
}

/// What is shown once, and what an endpoint answered: pages that no link leads to.
#[test]
fn an_owner_makes_a_key_and_tries_an_endpoint() {
    let world = World::new();
    let hook = json!({"url": "https://hooks.invalid/", "event_types": ["webhook_endpoint.disabled"]});
    let endpoint = world.post("/api/webhook_endpoints/", &hook).ok(201).id("webhook_endpoint_id");
    user(&world, "owner@acme.example", world.organization, Role::Owner);
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in("owner@acme.example");
    driver.open("/console/api_keys/");
    driver.click("main a[href='/console/api_keys/new/']");
    driver.arrives("/console/api_keys/new/");
    driver.write("[name=name]", "meter");
    driver.click("[name=scopes][value=ingest]");
    driver.click("form.act button");
    driver.waits("document.querySelector('main pre')");
    let key = driver.script("return document.querySelector('main pre').textContent");
    assert_eq!(world.get_as(key.as_str().expect("a key"), "/api/metrics/").status, 403, "it may do what was chosen");
    driver.photograph("key-made");
    driver.open(&format!("/console/webhooks/{endpoint}/test/"));
    driver.click("form.act button");
    driver.waits("document.querySelector('h1').textContent.includes('did not take')");
    driver.photograph("endpoint-tried");
}

/// What support may not do is not offered, not done by a form of their own making, and not by a cookie of before.
#[test]
fn support_sees_no_void_and_a_stolen_cookie_is_worth_nothing() {
    let world = World::new();
    with_calls(&world);
    user(&world, "sam@acme.example", world.organization, Role::Support);
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in("sam@acme.example");
    let path = format!("/console/invoices/{}/", newest(&world).id("invoice_id"));
    driver.open(&path);
    let voids = "return document.querySelectorAll('main a[href*=\"/void/\"], main form[action*=\"/void/\"]').length";
    assert_eq!(driver.script(voids), 0, "nothing is offered");
    let forged = format!(
        "const token = document.querySelector('[name=form_token]').value;
        const body = new URLSearchParams({{form_token: token, once: 'forged', reason: 'forged'}});
        return fetch('{path}void/', {{method: 'POST', body}}).then(answer => answer.status)"
    );
    assert_eq!(driver.script(&forged), 403, "nor done");
    assert_ne!(newest(&world)["payment_status"], "voided");
    let cookies = driver.devtools("Network.getCookies", &json!({}))["cookies"].clone();
    let stolen: Vec<Value> = cookies.as_array().into_iter().flatten().cloned().collect();
    assert!(stolen.iter().any(|cookie| cookie["httpOnly"] == true), "{stolen:?}");
    assert_eq!(driver.script("return document.cookie"), "", "no script sees them");
    driver.script("document.querySelector('form[action=\"/console/sign-out/\"]').requestSubmit()");
    driver.arrives("/console/sign-in/");
    for cookie in &stolen {
        let url = format!("http://{}/", world.addr());
        let kept = json!({"name": cookie["name"], "value": cookie["value"], "url": url, "httpOnly": true});
        driver.devtools("Network.setCookie", &kept);
    }
    driver.open(&path);
    driver.arrives("/console/sign-in/");
    let asks = driver.script("return [location.search.includes('to='), document.querySelectorAll('.head').length]");
    assert_eq!(asks, json!([true, 0]), "it asks who is there, and shows nothing");
}

/// The longest names that the interface takes, in one piece, stay in their place.
#[test]
fn long_names_stay_in_their_place() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    let longest = (1..=10_000).rev().step_by(50).find(|length| {
        let body = json!({"customer_id": "long", "customer_name": "W".repeat(*length), "email": "long@acme.io"});
        world.post("/api/customers/", &body).status == 201
    });
    assert!(longest >= Some(100), "names may be long: {longest:?}");
    world
        .post("/api/subscriptions/", &json!({"customer_id": "long", "plan_id": plan, "start_date": "2026-01-01"}))
        .ok(200);
    user(&world, "finance@acme.example", world.organization, Role::Finance);
    let Some(driver) = Driver::start(format!("http://{}", world.addr())) else { return };
    driver.sign_in("finance@acme.example");
    for (name, path) in
        [("list", "/console/customers/"), ("customer", "/console/customers/long/"), ("invoices", "/console/invoices/")]
    {
        driver.open(path);
        assert!(driver.script("return document.body.textContent").to_string().contains("WWWW"), "{path} shows it");
        driver.photograph(&format!("long-{name}"));
    }
}
