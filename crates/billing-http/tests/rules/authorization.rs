//! Who may call what.

use billing_domain::api_key::{ApiKey, KeyKind, KeyScopes};
use billing_domain::store::{Scope, Store};
use billing_http::caller::KeyText;
use billing_http::endpoint::Access;
use billing_http::error::CHALLENGE;
use billing_http::routes;
use serde_json::json;
use time::{Duration, OffsetDateTime};

use crate::support::{Answer, Field, World, event, now};
use billing_store::testing::count_statements;

const PUBLIC: &[&str] = &[
    "/livez",
    "/readyz",
    "/openapi.json",
    "/metrics",
    "/",
    "/docs/",
    "/docs/page.css",
    "/docs/page.js",
    "/docs/icon.svg",
    "/docs/errors",
    "/api/healthcheck/",
];

/// A key that ended a second ago.
fn expired_key(world: &World) -> String {
    let key = KeyText::generate().expect("randomness");
    let digest = world.opened.pepper.digest(&key);
    let now = OffsetDateTime::now_utc();
    let store: &dyn Store = &world.opened.store;
    let row = ApiKey {
        kind: KeyKind::ApiKey,
        prefix: key.prefix().to_owned(),
        organization: world.organization,
        name: "expired".to_owned(),
        digest,
        created_at: now - Duration::DAY,
        expires_at: Some(now - Duration::SECOND),
        scopes: KeyScopes::default(),
        last_used_at: None,
    };
    store.run_for(&Scope::Catalog(world.organization), |tx, _| tx.api_keys().insert(&row)).expect("a key");
    key.reveal().to_owned()
}

fn without_request_id(answer: &Answer) -> serde_json::Value {
    let mut body = answer.json();
    body["request_id"] = json!(null);
    body
}

#[test]
fn every_route_but_the_public_ones_needs_a_valid_key() {
    let world = World::new();
    let (prefix, _) = world.key.split_once('.').expect("a key");
    let wrong_secret = format!("{prefix}.{}", "a".repeat(32));
    let unknown = format!("{}.{}", "z".repeat(8), "a".repeat(32));
    let expired = expired_key(&world);
    let other = world.other_key();
    let token = |key: &str| format!("Token {key}");
    let (foreign, bearer, garbage) = (token(&other), format!("Bearer {}", world.key), token("abc"));
    let key = world.key.as_str();
    #[rustfmt::skip]
    let cases: Vec<(Vec<(&str, &str)>, &str, &str)> = vec![
        // headers,                                              code,                    why
        (vec![],                                                 "not_authenticated",     "no key"),
        (vec![("X-API-KEY", "")],                                "not_authenticated",     "an empty key"),
        (vec![("X-API-KEY", "nonsense")],                        "not_authenticated",     "no key at all"),
        (vec![("X-API-KEY", &wrong_secret)],                     "not_authenticated",     "a wrong secret behind a known prefix"),
        (vec![("X-API-KEY", &unknown)],                          "not_authenticated",     "an unknown prefix"),
        (vec![("X-API-KEY", &expired)],                          "not_authenticated",     "an expired key"),
        (vec![("X-API-KEY", key), ("X-API-KEY", key)],           "not_authenticated",     "two keys"),
        (vec![("X-API-KEY", key), ("Authorization", &bearer)],   "authentication_failed", "another scheme beside the key"),
        (vec![("X-API-KEY", key), ("Authorization", &garbage)],  "authentication_failed", "a token that is none"),
        (vec![("X-API-KEY", key), ("Authorization", &foreign)],  "authentication_failed", "a token of another organization"),
    ];
    for endpoint in routes::table() {
        let method = endpoint.method.as_str();
        let is_public = PUBLIC.contains(&endpoint.path);
        assert_eq!(endpoint.access == Access::Public, is_public, "{}", endpoint.path);
        let path = endpoint.path.replace(['{', '}'], "x");
        for (headers, code, why) in &cases {
            let answer = world.send(method, &path, headers, b"");
            if is_public {
                assert_eq!(answer.status, 200, "{method} {path}: {why}");
                continue;
            }
            assert_eq!((answer.status, answer.error().as_str()), (401, *code), "{method} {path}: {why}");
            assert_eq!(answer.header("www-authenticate"), CHALLENGE);
        }
    }
}

#[test]
fn a_wrong_key_looks_like_an_unknown_one() {
    let world = World::new();
    let (prefix, _) = world.key.split_once('.').expect("a key");
    let wrong = format!("{prefix}.{}", "a".repeat(32));
    let unknown = format!("{}.{}", "z".repeat(8), "a".repeat(32));
    let ping = |key: &str| world.send("GET", "/api/ping/", &[("X-API-KEY", key)], b"");
    let answers = [ping(&wrong), ping(&unknown), ping(&expired_key(&world))];
    for answer in &answers {
        assert_eq!(without_request_id(answer), without_request_id(&answers[0]));
    }
}

#[test]
fn a_key_says_whose_it_is() {
    let world = World::new();
    let token = format!("token {}", world.key);
    let answer = world.get("/api/ping/").ok(200);
    assert_eq!(answer, json!({"organization_id": world.organization}));
    let both = [("x-api-key", world.key.as_str()), ("Authorization", token.as_str())];
    assert_eq!(world.send("GET", "/api/ping", &both, b"").ok(200), answer, "a token of one's own, and no final slash");
}

#[test]
fn keys_are_made_listed_replaced_and_deleted() {
    let world = World::new();
    let made = world.post("/api/api_keys/", &json!({"name": "ci", "expires_at": "2199-01-01"})).ok(201);
    let (key, prefix) = (made.id("key"), made.id("prefix"));
    assert_eq!(key[..8], prefix);
    assert_eq!(made["expires_at"], "2199-01-01T00:00:00Z");
    let ping = |key: &str| world.send("GET", "/api/ping/", &[("X-API-KEY", key)], b"").status;
    assert_eq!(ping(&key), 200);
    let listed = world.get("/api/api_keys/").text;
    assert!(listed.contains(&prefix) && !listed.contains(&key[9..]), "lists do not have the secret");

    let renewed = world.write("POST", &format!("/api/api_keys/{prefix}/regenerate/"), b"").ok(201);
    assert_eq!((ping(&key), ping(&renewed.id("key"))), (401, 200), "the old key is worthless at once");
    assert_eq!((&renewed["name"], &renewed["expires_at"]), (&made["name"], &made["expires_at"]));

    let path = format!("/api/api_keys/{}/", renewed.id("prefix"));
    assert_eq!(world.write("DELETE", &path, b"").status, 204);
    assert_eq!(ping(&renewed.id("key")), 401);
    assert_eq!(world.write("DELETE", &path, b"").error(), "not_found");
    let expired = expired_key(&world);
    let before = world.snapshot();
    let refused = world.write("POST", &format!("/api/api_keys/{}/regenerate/", &expired[..8]), b"");
    assert_eq!(
        (refused.status, refused.error().as_str()),
        (409, "invalid_state"),
        "the new one would be worthless too"
    );
    assert_eq!(world.snapshot(), before, "it is still listed, and still expired");
    let past = world.post("/api/api_keys/", &json!({"name": "x", "expires_at": "2020-01-01"}));
    assert_eq!(past.faults(), [("expires_at".to_owned(), "invalid".to_owned())]);
}

#[test]
fn a_key_opens_nothing_any_more_once_it_is_gone() {
    let world = World::new();
    let metric = world.metric();
    world.customer("acme");
    let sent = event("acme", "sent", &now()).to_string();
    let (access, nobody) = (
        format!("/api/metric_access/?customer_id=acme&metric_id={metric}"),
        format!("/api/metric_access/?customer_id=nobody&metric_id={metric}"),
    );
    #[rustfmt::skip]
    let cases: Vec<(&str, &str, String, u16, &str)> = vec![
        // method, path,                   body,                   before, why
        ("GET",    "/api/ping/",           String::new(),          200,    "the key is looked up first"),
        ("POST",   "/api/track/",          sent.clone(),           201,    "the key is looked at when events are stored"),
        ("POST",   "/api/track",           sent.clone(),           201,    "all of them known"),
        ("POST",   "/api/events/",         sent.clone(),           201,    "the other call that stores events"),
        ("GET",    "/api/events/?customer_id=acme", String::new(), 200,    "the transaction looks at the key"),
        ("POST",   "/api/track/",          "nonsense".to_owned(),  400,    "a body that is refused"),
        ("POST",   "/api/track/",          "{\"batch\":[]}".into(), 400,    "nothing to store"),
        ("POST",   "/api/track/",          "{\"batch\":1}".into(),  400,    "a field that is refused"),
        ("GET",    &access,                String::new(),          200,    "the key is looked at with the customer"),
        ("GET",    &nobody,                String::new(),          400,    "a customer that does not exist"),
        ("GET",    "/api/metric_access/",  String::new(),          400,    "a query that is refused"),
    ];
    let names = ["deleted here", "deleted by another process"];
    for name in names {
        for (method, path, body, before, why) in &cases {
            let made = world.post("/api/api_keys/", &json!({"name": name})).ok(201);
            let (key, prefix) = (made.id("key"), made.id("prefix"));
            let send = || world.send(method, path, &json_headers(&key), body.as_bytes());
            let ping = || world.send("GET", "/api/ping/", &[("X-API-KEY", &key)], b"").status;
            assert_eq!(ping(), 200);
            assert_eq!(send().status, *before, "{method} {path}: {why}");
            assert_eq!(send().status, *before, "{method} {path}: {why}");
            match name == names[0] {
                true => drop(world.write("DELETE", &format!("/api/api_keys/{prefix}/"), b"")),
                false => world.sql(&format!("DELETE FROM api_keys WHERE prefix = '{prefix}'")),
            }
            for answer in [send(), send()] {
                assert_eq!((answer.status, answer.error().as_str()), (401, "not_authenticated"), "{path}: {why}");
                assert_eq!(answer.header("www-authenticate"), CHALLENGE);
            }
            assert_eq!(ping(), 401);
        }
    }
}

#[test]
fn an_event_is_not_stored_for_a_key_that_is_gone() {
    let world = World::new();
    let made = world.post("/api/api_keys/", &json!({"name": "short"})).ok(201);
    let (key, prefix) = (made.id("key"), made.id("prefix"));
    let send = |id: &str| {
        let body = event("acme", id, &now()).to_string();
        world.send("POST", "/api/track/", &json_headers(&key), body.as_bytes()).status
    };
    assert_eq!((send("first"), send("second")), (201, 201));
    world.sql(&format!("UPDATE api_keys SET expires_at = clock_timestamp() WHERE prefix = '{prefix}'"));
    assert_eq!(send("third"), 401);
    let listed = world.get("/api/events/?customer_id=acme").text;
    assert!(listed.contains("second") && !listed.contains("third"), "{listed}");
}

#[test]
fn nothing_is_shown_or_made_for_a_key_that_is_gone() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    world.customer("acme");
    let made = world.post("/api/api_keys/", &json!({"name": "short"})).ok(201);
    let (key, prefix) = (made.id("key"), made.id("prefix"));
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()}).to_string();
    let send = |method: &str, path: &str, body: &str, claim: Option<&str>| {
        let plain = json_headers(&key);
        let headers: Vec<_> = plain.into_iter().chain(claim.map(|claim| ("Idempotency-Key", claim))).collect();
        world.send(method, path, &headers, body.as_bytes())
    };
    let list = "/api/subscriptions/?customer_id=acme";
    #[rustfmt::skip]
    let cases = [
        // method, path,                        body,      claim,       why
        ("POST",  "/api/subscriptions/",        &*body,    None,        "the transaction looks at the key"),
        ("POST",  "/api/subscriptions/",        &*body,    Some("one"), "it is looked up before the claim"),
        ("POST",  "/api/subscriptions/",        "{}",      None,        "faults are not told either"),
        ("POST",  "/api/subscriptions/",        "{}",      Some("two"), "nor kept"),
        ("PATCH", "/api/customers/acme/",       "{}",      None,        "what changes nothing is refused as well"),
        ("GET",   list,                         "",        None,        "what is shown"),
        ("GET",   "/api/customers/nobody/",     "",        None,        "whether there is anything"),
        ("GET",   "/api/invoices/?customer_id=acme", "",   None,        "invoices of one"),
        ("GET",   "/api/invoices/",             "",        None,        "invoices of all"),
    ];
    for (method, path, body, claim, why) in cases {
        // Known as valid, each time.
        world.sql(&format!("UPDATE api_keys SET expires_at = NULL WHERE prefix = '{prefix}'"));
        send("GET", list, "", None).ok(200);
        world.sql(&format!("UPDATE api_keys SET expires_at = clock_timestamp() WHERE prefix = '{prefix}'"));
        let answer = send(method, path, body, claim);
        assert_eq!((answer.status, answer.error()), (401, "not_authenticated".to_owned()), "{method} {path}: {why}");
    }
    let held = world.get(&format!("{list}&status=active,ended,not_started")).ok(200);
    assert_eq!(held, json!([]), "nothing was made");
    world.post("/api/subscriptions/", &serde_json::from_str(&body).expect("JSON")).ok(200);
}

#[test]
fn what_is_asked_all_day_has_no_look_up_of_its_own() {
    count_statements();
    let world = World::new();
    let metric = world.metric();
    world.customer("acme");
    let access = format!("/api/metric_access/?customer_id=acme&metric_id={metric}");
    let known = event("acme", "known", &now()).to_string();
    let token = format!("Token {}", world.key);
    let look_ups = |method: &str, path: &str, body: &str| {
        let plain = json_headers(&world.key);
        // A token beside the key has both looked up, here once, for they are the same.
        let with_token = [plain[0], plain[1], ("Authorization", token.as_str())];
        let statements = |headers: &[(&str, &str)]| {
            world.statements(|| {
                let answer = world.send(method, path, headers, body.as_bytes());
                assert!(answer.status < 300, "{}", answer.text);
                answer
            })
        };
        statements(&with_token) - statements(&plain)
    };
    world.post("/api/track/", &event("acme", "known", &now())).ok(201);
    assert_eq!(look_ups("GET", "/api/ping/", ""), 0, "both ways it is looked up once");
    assert_eq!(look_ups("POST", "/api/track/", &known), 1);
    assert_eq!(look_ups("POST", "/api/events/", &known), 1);
    assert_eq!(look_ups("GET", "/api/events/?customer_id=acme", ""), 1);
    assert_eq!(look_ups("GET", &access, ""), 1);
}

#[test]
fn a_key_is_remembered_as_long_as_it_is_valid() {
    count_statements();
    let world = World::new();
    let known = event("acme", "known", &now()).to_string();
    let made = world.post("/api/api_keys/", &json!({"name": "short"})).ok(201);
    let (key, prefix) = (made.id("key"), made.id("prefix"));
    let send = |key: &str| world.send("POST", "/api/track/", &json_headers(key), known.as_bytes());
    assert_eq!((send(&key).status, send(&key).status), (201, 201));
    let wrong = format!("{prefix}.{}", "a".repeat(32));
    let (of_right, of_wrong) = (world.statements(|| send(&key)), world.statements(|| send(&wrong)));
    assert_eq!((of_wrong, send(&wrong).status), (1, 401), "one that does not match is looked up");
    let of_both = world.statements(|| {
        send(&wrong);
        send(&key)
    });
    assert_eq!(of_both, of_wrong + of_right, "it makes nobody forget the right one");
    world.sql(&format!("DELETE FROM api_keys WHERE prefix = '{prefix}'"));
    assert_eq!(send(&key).status, 401);
    assert_eq!(world.statements(|| send(&key)), 1, "a refused one is not tried with others' events again");
}

#[test]
fn a_token_goes_beside_a_key_and_is_worthless_alone() {
    let world = World::new();
    let made = world.post("/api/access_tokens/", &json!({"name": "ci", "expires_at": "2199-01-01"})).ok(201);
    let (token, prefix) = (made.id("token"), made.id("prefix"));
    assert_eq!(token[..8], prefix);
    let listed = world.get("/api/access_tokens/");
    assert_eq!(listed.ok(200)[0]["name"], "ci");
    assert!(!listed.text.contains(&token[9..]), "the secret is shown once");
    assert_eq!(world.get("/api/api_keys/").ok(200).as_array().expect("a list").len(), 1, "it is no API key");

    let beside = |key: &str, authorization: &str| {
        world.send("GET", "/api/plans/", &[("X-API-KEY", key), ("Authorization", authorization)], b"")
    };
    let key = world.key.as_str();
    let other = world.other_key();
    let theirs =
        world.send("POST", "/api/access_tokens/", &json_headers(&other), br#"{"name": "x"}"#).ok(201).id("token");
    #[rustfmt::skip]
    let cases = [
        // key,     Authorization,                      code,                           why
        (key,       format!("Token {token}"),           None,                           "a token of the organization"),
        (key,       format!("token {token}"),           None,                           "schemes have no case"),
        (key,       format!("Token {key}"),             None,                           "the key itself"),
        (key,       format!("Token {theirs}"),          Some("authentication_failed"),  "another organization's token"),
        (key,       format!("Token {token}x"),          Some("authentication_failed"),  "no token at all"),
        (key,       format!("Token {prefix}.{}", "a".repeat(32)), Some("authentication_failed"), "a wrong secret"),
        (key,       format!("Bearer {token}"),          Some("authentication_failed"),  "another scheme"),
        (key,       token.clone(),                      Some("authentication_failed"),  "no scheme"),
        (&token,    format!("Token {token}"),           Some("not_authenticated"),      "a token in the place of the key"),
        (&token,    format!("Token {key}"),             Some("not_authenticated"),      "the two swapped"),
    ];
    for (key, authorization, code, why) in &cases {
        let answer = beside(key, authorization);
        match code {
            None => assert_eq!(answer.status, 200, "{why}: {}", answer.text),
            Some(code) => assert_eq!((answer.status, answer.error().as_str()), (401, *code), "{why}"),
        }
    }
    assert_eq!(world.send("GET", "/api/plans/", &[("X-API-KEY", &token)], b"").status, 401, "alone");

    let foreign = world.send("DELETE", &format!("/api/access_tokens/{prefix}/"), &json_headers(&other), b"");
    assert_eq!(foreign.error(), "not_found", "another organization's");
    assert_eq!(
        world.write("DELETE", &format!("/api/api_keys/{prefix}/"), b"").error(),
        "not_found",
        "it is no API key"
    );
    assert_eq!(world.write("DELETE", &format!("/api/access_tokens/{}/", &key[..8]), b"").error(), "not_found");
    assert_eq!(world.write("DELETE", &format!("/api/access_tokens/{prefix}/"), b"").status, 204);
    assert_eq!(beside(key, &format!("Token {token}")).error(), "authentication_failed", "from the next request on");
    assert_eq!(world.write("DELETE", &format!("/api/access_tokens/{prefix}/"), b"").error(), "not_found");

    let in_a_second = OffsetDateTime::now_utc() + Duration::seconds(1);
    let expires_at = in_a_second.format(&time::format_description::well_known::Rfc3339).expect("an instant");
    let short =
        world.post("/api/access_tokens/", &json!({"name": "short", "expires_at": expires_at})).ok(201).id("token");
    assert_eq!(beside(key, &format!("Token {short}")).status, 200);
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    assert_eq!(beside(key, &format!("Token {short}")).error(), "authentication_failed", "expired");
}

fn json_headers(key: &str) -> [(&str, &str); 2] {
    [("X-API-KEY", key), ("Content-Type", "application/json")]
}
