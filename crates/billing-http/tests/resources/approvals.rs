//! A second person for what is above the limit: what waits, who decides, and that it is done once.

use std::thread;

use billing_domain::user::Role;
use serde_json::{Value, json};

use crate::console::{Browser, token, user};
use crate::support::{Answer, Field, World, ago};

const ANN: &str = "ann@acme.example";
const BOB: &str = "bob@acme.example";
const CREDITS: &str = "/api/credits/";

/// A world with a limit of 100, and two people who may decide.
fn world() -> World {
    let world = World::new();
    world.customer("acme");
    limit(&world, &json!(100)).ok(200);
    user(&world, ANN, world.organization, Role::Owner);
    user(&world, BOB, world.organization, Role::Finance);
    world
}

fn limit(world: &World, limit: &Value) -> Answer {
    world.write("PATCH", "/api/organization/", json!({"approval_limit": limit}).to_string().as_bytes())
}

fn credit(amount: &str) -> String {
    format!(r#"{{"customer_id": "acme", "amount": {amount}, "currency_code": "USD"}}"#)
}

/// Has a credit of 100.01 wait: the request.
fn waiting(world: &World) -> String {
    world.post_text(CREDITS, &credit("100.01")).ok(202).id("approval_id")
}

fn credits(world: &World) -> usize {
    world.get("/api/credits/?customer_id=acme").ok(200).as_array().expect("a list").len()
}

fn approval(world: &World, id: &str) -> Value {
    world.get(&format!("/api/approvals/{id}/")).ok(200)
}

fn state(world: &World, id: &str) -> String {
    approval(world, id)["state"].as_str().expect("a state").to_owned()
}

/// Sends a form of a page about a request.
fn decide(browser: &Browser, id: &str, act: &str, reason: &str) -> Answer {
    let token = token(&browser.get("/console/"));
    let fields = [("form_token", token.as_str()), ("once", "1"), ("reason", reason)];
    browser.post(&format!("/console/approvals/{id}/{act}"), &fields)
}

fn log(world: &World, query: &str) -> Vec<Value> {
    world.get(&format!("/api/audit_log/?{query}")).ok(200).as_array().expect("a list").clone()
}

#[test]
fn what_is_above_the_limit_waits_for_another_person() {
    let world = world();
    #[rustfmt::skip]
    let cases = [
        // amount,   status, why
        ("99.99",    201,    "below"),
        ("100",      201,    "at the limit"),
        ("100.00",   201,    "written otherwise"),
        ("100.01",   202,    "a cent above"),
    ];
    for (amount, status, why) in cases {
        world.post_text(CREDITS, &credit(amount)).ok(status);
        assert_eq!(credits(&world), if status == 202 { 3 } else { credits(&world) }, "{why}");
    }
    let waiting = world.get("/api/approvals/?state=waiting").ok(200);
    let one = &waiting[0];
    assert_eq!(
        (&one["state"], &one["operation"], &one["method"], &one["path"], one["amount"].to_string().as_str()),
        (&json!("waiting"), &json!("create_credit"), &json!("POST"), &json!(CREDITS), "100.01")
    );
    assert_eq!(one["body"]["amount"].to_string(), "100.01");
    assert_eq!((&one["currency_code"], &one["requested_by"]["type"]), (&json!("USD"), &json!("api_key")));
    let id = one.id("approval_id");
    assert_eq!(approval(&world, &id), *one);
    let asked = log(&world, &format!("id={id}"));
    assert_eq!(
        (asked.len(), &asked[0]["operation"], &asked[0]["kind"]),
        (1, &json!("create_credit"), &json!("approval"))
    );

    let bob = Browser::signed_in(&world, BOB);
    let page = bob.get(&format!("/console/approvals/{id}/")).text;
    assert!(page.contains("Approve") && page.contains("100.01"), "{page}");
    assert_eq!(decide(&bob, &id, "", "").header("location"), format!("/console/approvals/{id}/"));
    let done = approval(&world, &id);
    assert_eq!(
        (&done["state"], &done["outcome_status"], &done["outcome_code"]),
        (&json!("done"), &json!(201), &Value::Null)
    );
    assert_eq!(done["decided_by"]["name"], BOB);
    assert_eq!(credits(&world), 4);
    let made = &log(&world, "kind=credit&limit=1")[0];
    assert_eq!((&made["operation"], &made["actor_name"]), (&json!("create_credit"), &json!(BOB)));
    assert_eq!(made["after"]["approval"]["approval_id"], id, "{made}");
    assert_eq!(made["after"]["approval"]["requested_by"]["id"], world.key[..8], "who asked");
    assert!(log(&world, &format!("id={id}")).iter().any(|entry| entry["operation"] == "approve_approval"));
}

#[test]
fn whatever_gives_away_or_takes_waits() {
    let world = world();
    let plan = world.plan(&world.metric());
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(time::Duration::days(1))});
    world.post("/api/subscriptions/", &body).ok(200);
    let invoice = world.get("/api/invoices/").ok(200)[0].id("invoice_id");
    let credit = world.post_text(CREDITS, &credit("50")).ok(201).id("credit_id");
    let note = json!({"invoice_id": invoice, "amount": "0.5", "reason": "down", "settlement": "balance"});
    let credit_note = world.post("/api/credit_notes/", &note).ok(201).id("credit_note_id");
    let line = json!({"name": "Set-up", "amount": 5});
    let lines = "/api/customers/acme/one_off_lines/";
    let line = world.post(lines, &line).ok(201).id("one_off_line_id");
    limit(&world, &json!("0.1")).ok(200);
    let number = world.get(&format!("/api/invoices/{invoice}/")).ok(200)["invoice_number"].clone();
    #[rustfmt::skip]
    let calls = [
        ("POST",   format!("/api/credits/{credit}/void/"),            json!({})),
        ("POST",   "/api/credit_notes/".to_owned(),                   note),
        ("POST",   format!("/api/credit_notes/{credit_note}/void/"),  json!({})),
        ("POST",   format!("/api/invoices/{invoice}/payments/"),      json!({"amount": 5000})),
        ("POST",   "/api/payments/".to_owned(),                       json!({"invoice_number": number, "amount": 5000})),
        ("DELETE", format!("{lines}{line}/"),                         Value::Null),
        ("PATCH",  "/api/organization/".to_owned(),                   json!({"approval_limit": 5})),
        ("PATCH",  "/api/organization/".to_owned(),                   json!({"approval_limit": null})),
    ];
    let before = world.get(&format!("/api/invoices/{invoice}/")).ok(200);
    for (method, path, body) in &calls {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let asked = world.write(method, path, body.as_bytes()).ok(202);
        assert_eq!((&asked["method"], &asked["path"]), (&json!(method), &json!(path)), "{asked}");
    }
    assert_eq!(world.get(&format!("/api/invoices/{invoice}/")).ok(200), before, "nothing is done");
    assert_eq!(world.get("/api/organization/").ok(200)["approval_limit"].to_string(), "0.1");
    let waiting = world.get("/api/approvals/?state=waiting").ok(200);
    assert_eq!(waiting.as_array().map(Vec::len), Some(calls.len()));
    let bob = Browser::signed_in(&world, BOB);
    for one in waiting.as_array().expect("a list") {
        let id = one.id("approval_id");
        assert_eq!(bob.get(&format!("/console/approvals/{id}/")).status, 200, "{one}");
        decide(&bob, &id, "", "");
    }
    // The newest is approved first, and pays the invoice: it takes no second payment.
    let decided = world.get("/api/approvals/").ok(200);
    let outcomes = decided.as_array().expect("a list").iter().rev();
    let outcomes = outcomes.map(|one| (one["path"].clone(), one["state"].clone(), one["outcome_code"].clone()));
    let expected = calls.iter().map(|(_, path, _)| match path.ends_with("/payments/") && path != "/api/payments/" {
        true => (json!(path), json!("failed"), json!("invalid_state")),
        false => (json!(path), json!("done"), Value::Null),
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[test]
fn an_invoice_is_voided_by_two_or_by_one_but_once() {
    let world = world();
    let plan = world.plan(&world.metric());
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": ago(time::Duration::days(1))});
    world.post("/api/subscriptions/", &body).ok(200);
    let invoice = world.get("/api/invoices/").ok(200)[0].id("invoice_id");
    limit(&world, &json!(1)).ok(200);
    let void = format!("/api/invoices/{invoice}/void/");
    let waits = world.post(&void, &json!({})).ok(202).id("approval_id");
    let again = world.post(&void, &json!({"rebill": true})).ok(202).id("approval_id");
    let bob = Browser::signed_in(&world, BOB);
    let page = bob.get(&format!("/console/approvals/{waits}/")).text;
    assert!(page.contains(&format!("/console/invoices/{invoice}/")), "what it is about: {page}");
    decide(&bob, &waits, "", "");
    assert_eq!(
        (
            state(&world, &waits).as_str(),
            world.get(&format!("/api/invoices/{invoice}/")).ok(200)["payment_status"].as_str()
        ),
        ("done", Some("voided"))
    );
    // The books have changed meanwhile.
    decide(&bob, &again, "", "");
    let failed = approval(&world, &again);
    assert_eq!((&failed["state"], &failed["outcome_code"]), (&json!("failed"), &json!("invalid_state")));
}

#[test]
fn nobody_decides_alone() {
    let world = world();
    let ann = Browser::signed_in(&world, ANN);
    let form = ann.get("/console/customers/acme/credit/");
    let (token, once) = (token(&form), crate::console::hidden(&form, "once"));
    let fields = [("form_token", token.as_str()), ("once", once.as_str()), ("amount", "500"), ("currency_code", "USD")];
    let led = ann.post("/console/customers/acme/credit/", &fields);
    let path = led.header("location").to_owned();
    let id = path.strip_prefix("/console/approvals/").expect("to the request").trim_end_matches('/').to_owned();
    assert_eq!(ann.post("/console/customers/acme/credit/", &fields).header("location"), path, "once for the form");
    let page = ann.get(&path).text;
    assert!(page.contains("Nothing is done yet") && !page.contains(">Approve<"), "{page}");
    assert!(ann.get("/console/").text.contains("waiting for a second person"), "home says so");
    for act in ["", "decline/"] {
        assert_eq!(decide(&ann, &id, act, "mine").status, 403, "{act}: forged");
    }
    for role in [Role::Support, Role::Developer, Role::Reader] {
        let email = format!("{role}@acme.example");
        user(&world, &email, world.organization, role);
        let other = Browser::signed_in(&world, &email);
        assert_eq!(other.get(&path).status, 403, "{role}");
        assert_eq!(decide(&other, &id, "", "").status, 403, "{role}");
    }
    for act in ["approve", "decline"] {
        let answer = world.post(&format!("/api/approvals/{id}/{act}/"), &json!({"reason": "x"}));
        assert_eq!(answer.status, 404, "no key decides: there is no such call");
    }
    assert_eq!(world.write("DELETE", &format!("/api/approvals/{id}/"), b"").error(), "second_person_needed");
    assert_eq!((state(&world, &id).as_str(), credits(&world)), ("waiting", 0));
    let bob = Browser::signed_in(&world, BOB);
    assert_eq!(decide(&bob, &id, "decline/", " ").status, 400, "a reason is needed");
    decide(&bob, &id, "decline/", "too <b>much</b>");
    let declined = approval(&world, &id);
    assert_eq!((&declined["state"], &declined["reason"]), (&json!("declined"), &json!("too <b>much</b>")));
    assert_eq!(decide(&bob, &id, "", "").status, 409);
    assert!(ann.get(&path).text.contains("too &lt;b&gt;much&lt;/b&gt;"));
    assert_eq!(credits(&world), 0);
}

#[test]
fn other_organizations_know_nothing_of_it() {
    let world = world();
    let (id, key) = (waiting(&world), world.other_key());
    assert_eq!(world.get_as(&key, "/api/approvals/").ok(200), json!([]));
    let path = format!("/api/approvals/{id}/");
    assert_eq!(world.get_as(&key, &path).status, 404);
    assert_eq!(world.send("DELETE", &path, &[("X-API-KEY", &key)], b"").status, 404);
    let (other, _) = world.opened.create_organization("Another", None).expect("an organization");
    user(&world, "eve@other.example", other, Role::Owner);
    let eve = Browser::signed_in(&world, "eve@other.example");
    assert_eq!(decide(&eve, &id, "", "").status, 404);
    assert_eq!((state(&world, &id).as_str(), credits(&world)), ("waiting", 0));
}

#[test]
fn a_request_is_withdrawn_and_expires() {
    let world = world();
    let bob = Browser::signed_in(&world, BOB);
    let (one, two) = (waiting(&world), waiting(&world));
    let path = format!("/api/approvals/{one}/");
    assert_eq!(world.write("DELETE", &path, b"").status, 204);
    assert_eq!(world.write("DELETE", &path, b"").error(), "invalid_state");
    assert_eq!((state(&world, &one).as_str(), decide(&bob, &one, "", "").status), ("withdrawn", 409));
    world.sql("UPDATE approvals SET requested_at = requested_at - interval '7 days', expires_at = expires_at - interval '7 days'");
    assert_eq!((state(&world, &two).as_str(), decide(&bob, &two, "", "").status), ("expired", 409));
    assert_eq!(world.get("/api/approvals/?state=waiting").ok(200), json!([]));
    assert_eq!(world.get("/api/approvals/?state=expired").ok(200)[0].id("approval_id"), two);
    assert_eq!(credits(&world), 0);
}

#[test]
fn a_request_with_a_key_waits_once() {
    let world = world();
    let send = |amount: &str| {
        let headers =
            [("X-API-KEY", world.key.as_str()), ("Content-Type", "application/json"), ("Idempotency-Key", "k1")];
        world.send("POST", CREDITS, &headers, credit(amount).as_bytes())
    };
    let first = send("500");
    let replayed = send("500");
    assert_eq!((first.status, replayed.status, &replayed.text), (202, 202, &first.text));
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    assert_eq!(send("501").error(), "idempotency_key_reused");
    assert_eq!(world.get("/api/approvals/").ok(200).as_array().map(Vec::len), Some(1));
    let id = first.ok(202).id("approval_id");
    decide(&Browser::signed_in(&world, BOB), &id, "", "");
    assert_eq!(send("500").text, first.text, "it is answered as it was");
    assert_eq!((state(&world, &id).as_str(), credits(&world)), ("done", 1));
    let limits =
        [limit(&world, &json!(500)), limit(&world, &json!(500))].map(|answer| answer.ok(202).id("approval_id"));
    assert_eq!(limits[0], limits[1], "what takes no key comes to the same");
}

#[test]
fn whoever_approves_and_however_often_it_is_done_once() {
    let world = world();
    user(&world, "carl@acme.example", world.organization, Role::Owner);
    for _ in 0..3 {
        let before = credits(&world);
        let id = waiting(&world);
        let browsers =
            [BOB, BOB, ANN, "carl@acme.example"].map(|email| Browser::signed_in(&world, email).cookies.take());
        let statuses: Vec<u16> = thread::scope(|scope| {
            let approving = |cookies| {
                let (world, id) = (&world, &id);
                scope.spawn(move || {
                    let browser = Browser::new(world);
                    browser.cookies.replace(cookies);
                    decide(&browser, id, "", "").status
                })
            };
            let all = browsers.map(approving);
            all.into_iter().map(|one| one.join().expect("an answer")).collect()
        });
        assert!(statuses.contains(&303) && statuses.iter().all(|status| [303, 409].contains(status)), "{statuses:?}");
        assert_eq!((state(&world, &id).as_str(), credits(&world)), ("done", before + 1));
    }
}

#[test]
fn a_service_that_dies_in_between_goes_on_when_it_is_approved_again() {
    let mut world = world();
    let id = waiting(&world);
    // Dead before the call: it was approved, and nothing was done.
    world.sql(
        "UPDATE approvals SET state = 'approved', decider_kind = 'user', decider_id = 'user_1', decider_name = 'x',
            decided_at = now()",
    );
    world.restart();
    let approve = |world: &World| decide(&Browser::signed_in(world, BOB), &id, "", "").status;
    assert_eq!((approve(&world), state(&world, &id).as_str(), credits(&world)), (303, "done", 1));
    // Dead behind the call: it was done, and nobody has noted it.
    world.sql("UPDATE approvals SET state = 'approved', outcome_status = NULL");
    world.restart();
    assert_eq!((approve(&world), state(&world, &id).as_str(), credits(&world)), (303, "done", 1));
}

#[test]
fn the_limit_is_raised_by_two() {
    let world = world();
    let bob = Browser::signed_in(&world, BOB);
    let raise = limit(&world, &json!(200)).ok(202);
    assert_eq!((raise["amount"].to_string().as_str(), &raise["currency_code"]), ("200", &Value::Null));
    let off = limit(&world, &Value::Null).ok(202).id("approval_id");
    let together = json!({"approval_limit": 300, "organization_name": "New"});
    let together = world.write("PATCH", "/api/organization/", together.to_string().as_bytes());
    assert_eq!((together.status, together.error().as_str()), (400, "not_allowed_together"), "{}", together.text);
    let is = || world.get("/api/organization/").ok(200)["approval_limit"].to_string();
    assert_eq!(is(), "100");
    decide(&bob, &raise.id("approval_id"), "", "");
    assert_eq!(is(), "200");
    limit(&world, &json!("150.5")).ok(200);
    assert_eq!(is(), "150.5", "one person makes it tighter");
    decide(&bob, &off, "", "");
    assert_eq!(is(), "null");
    world.post_text(CREDITS, &credit("1000000")).ok(201);
    // By the form of the owner's page.
    limit(&world, &json!(10)).ok(200);
    let ann = Browser::signed_in(&world, ANN);
    let form = ann.get("/console/settings/approval_limit/");
    let fields = [("form_token", token(&form)), ("once", "1".to_owned()), ("approval_limit", String::new())];
    let led = ann.post("/console/settings/approval_limit/", &fields.each_ref().map(|(a, b)| (*a, b.as_str())));
    assert!(led.header("location").starts_with("/console/approvals/"), "{}", led.text);
    assert_eq!(is(), "10");
}
