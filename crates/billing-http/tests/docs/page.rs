//! The interactive page, and its examples run as it runs them.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::api_key::Fingerprint;
use billing_domain::store::Users;
use billing_domain::user::Role;
use billing_http::demo::{Client, Commits, Demo};
use billing_http::docs::{Example, examples};
use billing_http::endpoint::{Access, Endpoint};
use billing_http::routes;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use crate::support::{Answer, World};

/// Runs examples the way the page does: what they refer to first.
struct Runner<'w> {
    world: &'w World,
    calls: BTreeMap<String, Endpoint>,
    examples: BTreeMap<String, Example>,
    /// Keeps what is unique apart.
    count: u32,
}

impl Runner<'_> {
    fn run(&mut self, id: &str, done: &mut BTreeMap<String, Value>) -> Answer {
        let example = self.examples.get(id).cloned().unwrap_or_default();
        let path = self.resolve(json!(example.path), done);
        let query = self.resolve(json!(example.query), done);
        let body = example.body.map(|body| self.resolve(body, done));
        done.extend(body.clone().map(|body| (format!("{id}!"), body)));
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let call = self.calls.get(id).unwrap_or_else(|| panic!("no call {id}"));
        let mut url = call.path.to_owned();
        for name in call.path_parameters() {
            assert!(path.get(name).is_some_and(|value| !value.is_null()), "{id}: nothing for {name}");
            url = url.replace(&format!("{{{name}}}"), &text(&path[name]));
        }
        let known: BTreeSet<&str> = call.query_parameters().map(|parameter| parameter.name).collect();
        let pairs: Vec<String> = query
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| {
                assert!(known.contains(name.as_str()), "{id}: there is no parameter {name}");
                format!("{name}={}", text(value).replace(' ', "%20").replace('+', "%2B"))
            })
            .collect();
        if !pairs.is_empty() {
            url = format!("{url}?{}", pairs.join("&"));
        }
        let method = call.method.to_string();
        assert_eq!(body.is_some(), call.request.is_some(), "{id}: a body where one is taken");
        self.world.write(&method, &url, body.map_or_else(Vec::new, |body| body.to_string().into_bytes()).as_slice())
    }

    fn resolve(&mut self, value: Value, done: &mut BTreeMap<String, Value>) -> Value {
        match value {
            Value::Array(items) => items.into_iter().map(|item| self.resolve(item, done)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.into_iter().map(|(name, item)| (name, self.resolve(item, done))).collect())
            }
            Value::String(text) => self.resolve_text(&text, done),
            other => other,
        }
    }

    fn resolve_text(&mut self, text: &str, done: &mut BTreeMap<String, Value>) -> Value {
        let rest = text.strip_prefix('@');
        let part = |mark: char| rest.and_then(|rest| rest.split_once(mark));
        let Some((id, pointer)) = part('#').or_else(|| part('!')) else {
            self.count += 1;
            let instant = |days| (OffsetDateTime::now_utc() + Duration::days(days)).format(&Rfc3339).expect("a time");
            let today = &instant(0)[..10];
            let unique = format!("{:08}", self.count);
            let text = text.replace("@now", &instant(0)).replace("@soon", &instant(20));
            return text.replace("@today", today).replace("@unique", &unique).into();
        };
        if !done.contains_key(id) {
            let answer = self.run(id, done);
            assert!(answer.status < 300, "{id}: {}", answer.text);
            done.insert(id.to_owned(), serde_json::from_str(&answer.text).expect("json"));
        }
        let place = if text.contains('!') { format!("{id}!") } else { id.to_owned() };
        let found = done[&place].pointer(pointer).cloned();
        found.unwrap_or_else(|| panic!("{text} points at nothing in {}", done[&place]))
    }
}

#[test]
fn every_example_works_against_the_demo() {
    let world = World::new();
    let client = Client::new(&format!("http://{}", world.addr()), &world.key);
    let demo = Demo { client: &client, backend: &world.opened.store, organization: world.organization };
    demo.run(&Commits::all().expect("the file").of_every(25), &mut Vec::new()).expect("the demo");

    for name in ["ann", "bob"] {
        let email = format!("{name}@example.com");
        let store = &world.opened.store;
        store.put_user(&email, "$hash", world.organization, Role::Support).expect("a user");
        let user = store.find_user(&email).expect("read").expect("a user").id;
        let fingerprint = Fingerprint { prefix: format!("session{}", &name[..1]), digest: vec![0] };
        store.begin_session(&fingerprint, user, world.organization, "Browser").expect("a session");
    }
    // Something waits for a second person, whom the interface has not.
    let limit = world.write("PATCH", "/api/organization/", br#"{"approval_limit": 1000000}"#);
    assert_eq!(limit.status, 200, "{}", limit.text);
    let customer = world.get("/api/customers/?limit=1").ok(200)[0]["customer_id"].clone();
    let large = json!({"customer_id": customer, "amount": 2_000_000, "currency_code": "USD"});
    world.post("/api/credits/", &large).ok(202);
    let calls: BTreeMap<_, _> =
        routes::table().into_iter().map(|endpoint| (endpoint.operation_id(), endpoint)).collect();
    let ids: Vec<String> = calls.keys().cloned().collect();
    let mut runner = Runner { world: &world, calls, examples: examples(), count: 0 };
    assert!(runner.examples.len() > 40, "examples.json can be read");
    let unknown: Vec<_> = runner.examples.keys().filter(|id| !ids.contains(id)).collect();
    assert!(unknown.is_empty(), "examples of calls that there are not: {unknown:?}");
    let mut lacking = Vec::new();
    for id in &ids {
        let call = &runner.calls[id];
        let needs_one = call.request.is_some()
            || call.path_parameters().next().is_some()
            || call.parameters.iter().any(|parameter| parameter.required);
        if needs_one && !runner.examples.contains_key(id) {
            lacking.push(id.clone());
            continue;
        }
        let expected = call.answer.map_or(204, |(status, _)| status);
        let answer = runner.run(id, &mut BTreeMap::new());
        assert_eq!(answer.status, expected, "{id}: {}", answer.text);
    }
    assert!(lacking.is_empty(), "describe an example of each in src/docs/examples.json: {lacking:#?}");
}

/// Where everybody begins, and where errors lead to: pages for people, with a way on.
#[test]
fn the_first_page_and_the_codes_lead_to_the_interface() {
    // With a console `/` leads to that, and its form to sign in leads to the interface.
    let world = World::with(|settings| settings.has_console = false);
    let get = |path: &str| world.send("GET", path, &[], b"");
    for (path, part) in [("/", "<h1>"), ("/docs/errors", "id=\"not_found\"")] {
        let page = get(path);
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        for part in [part, "<main>", "href=\"/docs/\"", "href=\"/docs/page.css\"", "<html lang=\"en\">"] {
            assert!(page.text.contains(part), "{path} has no {part}");
        }
        let links = page.text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        for link in links.filter(|link| link.starts_with('/')) {
            assert_eq!(get(link).status, 200, "{path} leads to {link}");
        }
    }
    let page = get("/docs").text;
    let (_, without_script) = page.split_once("<noscript>").expect("a text for those without scripts");
    assert!(["/openapi.json", "/docs/errors", "X-API-KEY"].iter().all(|part| without_script.contains(part)));
    assert!(get("/docs/page.js").text.contains("sessionStorage"), "the key survives a reload");
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let world = World::new();
    let get = |path: &str| world.send("GET", path, &[], b"");
    let page = get("/docs");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!(get("/docs/").text, page.text);
    let assets: Vec<&str> = page.text.split(['"', '\'']).filter(|part| part.starts_with("/docs/page")).collect();
    assert_eq!(assets, ["/docs/page.css", "/docs/page.js"]);
    for path in ["/docs", "/docs/page.css", "/docs/page.js"] {
        let asset = get(path);
        assert_eq!(asset.status, 200, "{path}");
        assert!(!asset.text.contains("://"), "{path} names an address elsewhere");
        let policy = asset.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        for inline in ["<script>", "<style>", " style=", " onclick=", "innerHTML", "eval("] {
            assert!(!asset.text.contains(inline), "{path}: {inline} gets around the policy");
        }
    }
    let public = routes::table().into_iter().filter(|endpoint| endpoint.path.starts_with("/docs"));
    assert!(public.into_iter().all(|endpoint| endpoint.access == Access::Public));
}
