//! Users over the API, and the page that takes an invitation.

use billing_domain::user::Role;
use serde_json::{Value, json};

use crate::console::{Browser, PASSWORD, token, user};
use crate::support::{Answer, Field, World};

const ADA: &str = "ada@acme.example";
const BOB: &str = "bob@acme.example";

fn world() -> World {
    let world = World::new();
    user(&world, ADA, world.organization, Role::Owner);
    world
}

impl World {
    fn with_key(&self, method: &str, path: &str, body: &Value) -> Answer {
        let headers = [("X-API-KEY", self.key.as_str()), ("Content-Type", "application/json")];
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, path, &headers[..if body.is_null() { 1 } else { 2 }], text.as_bytes())
    }

    fn id_of(&self, email: &str) -> String {
        let users = self.get("/api/users/").ok(200);
        let found = users.as_array().expect("a list").iter().find(|one| one["email"] == email).cloned();
        found.unwrap_or_else(|| panic!("no {email} in {users}")).id("user_id")
    }

    fn invite(&self, email: &str, role: &str) -> String {
        let made = self.post("/api/users/invite/", &json!({"email": email, "role": role})).ok(201);
        made["link"].as_str().expect("a link").to_owned()
    }
}

/// All that the database keeps of invitations.
fn kept(world: &World) -> String {
    #[derive(diesel::QueryableByName)]
    struct Row {
        #[diesel(sql_type = diesel::sql_types::Text)]
        row: String,
    }
    let query =
        "SELECT t::text AS row FROM user_invitations t UNION ALL SELECT t::text FROM organization_audit_entries t
        UNION ALL SELECT t::text FROM idempotency_keys t";
    let rows: Vec<Row> = diesel::RunQueryDsl::load(diesel::sql_query(query), &mut world.pg()).expect("rows");
    assert!(rows.len() >= 2, "there is something");
    rows.into_iter().map(|row| row.row).collect()
}

fn accept(browser: &Browser, link: &str, password: &str) -> Answer {
    let form = browser.get(link);
    assert_eq!(form.status, 200, "{}", form.text);
    browser.post(link, &[("form_token", &token(&form)), ("password", password)])
}

#[test]
fn somebody_is_invited_and_signs_in() {
    let world = world();
    let link = world.invite(" Bob@Acme.example", "finance");
    let secret = link.trim_matches('/').rsplit('.').next().expect("a secret");
    assert!(!kept(&world).contains(secret), "the link is kept nowhere");
    let browser = Browser::new(&world);
    let form = browser.get(&link);
    assert!(form.text.contains(BOB) && form.text.contains("finance"), "{}", form.text);
    let short = browser.post(&link, &[("form_token", &token(&form)), ("password", "short")]);
    assert_eq!(short.status, 400);
    let foreign = Browser::new(&world).post(&link, &[("form_token", &token(&form)), ("password", PASSWORD)]);
    assert_eq!(foreign.status, 403, "a form that was made for another browser");
    let done = accept(&browser, &link, PASSWORD);
    assert_eq!((done.status, done.header("location")), (303, "/console/"), "{}", done.text);
    assert_eq!(browser.get("/console/").status, 200);
    assert_eq!(Browser::new(&world).get(&link).status, 404, "once");
    Browser::signed_in(&world, BOB);
    let users = world.get("/api/users/").ok(200);
    let shown: Vec<(&str, &str)> = users
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| (one["email"].as_str().unwrap_or_default(), one["role"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(shown, [(ADA, "owner"), (BOB, "finance")]);
    let log = world.get("/api/audit_log/?kind=user").ok(200);
    assert_eq!((&log[0]["operation"], &log[0]["actor_name"]), (&json!("accept_invitation"), &json!(BOB)));
    let log = world.get("/api/audit_log/?operation=invite_user").ok(200);
    assert_eq!(log[0]["after"]["link"], "[redacted]");
}

#[test]
fn invitations_end() {
    let world = world();
    let first = world.invite(BOB, "reader");
    let second = world.invite(BOB, "owner");
    let nobody = Browser::new(&world);
    assert_eq!(nobody.get(&first).status, 404, "a later one takes its place");
    assert_eq!(nobody.get(&second).status, 200);
    let guess = format!("{}{}/", &second[..second.len() - 33], "a".repeat(32));
    assert_eq!(nobody.get(&guess).status, 404, "the part that is shown opens nothing");
    world
        .sql("UPDATE user_invitations SET created_at = created_at - interval '7 days', expires_at = clock_timestamp()");
    assert_eq!(nobody.get(&second).status, 404, "after seven days");
    let taken = world.post("/api/users/invite/", &json!({"email": ADA, "role": "reader"}));
    assert_eq!(taken.error(), "duplicate_resource");
    let wrong = world.post("/api/users/invite/", &json!({"email": "nobody", "role": "king"}));
    assert_eq!(wrong.faults(), [("role".to_owned(), "invalid_choice".to_owned())]);
    let wrong = world.post("/api/users/invite/", &json!({"email": "nobody", "role": "owner"}));
    assert_eq!(wrong.faults()[0].0, "email");
}

#[test]
fn an_invitation_gives_nobody_anothers_account() {
    let world = world();
    let (elsewhere, key) = world.opened.create_organization("Elsewhere", None).expect("an organization");
    user(&world, BOB, elsewhere, Role::Owner);
    let link = world.invite(BOB, "reader");
    let browser = Browser::new(&world);
    // Whoever has the link and not the password gets nothing.
    let refused = accept(&browser, &link, "some other password");
    assert_eq!(refused.status, 401, "{}", refused.text);
    assert_eq!(accept(&browser, &link, PASSWORD).status, 303);
    assert_eq!(world.get("/api/users/").ok(200).as_array().map(Vec::len), Some(2));
    // Gone here, there as before.
    assert_eq!(world.with_key("DELETE", &format!("/api/users/{}/", world.id_of(BOB)), &Value::Null).status, 204);
    let there = world.get_as(key.reveal(), "/api/users/").ok(200);
    assert_eq!((&there[0]["email"], &there[0]["role"]), (&json!(BOB), &json!("owner")));
    assert_eq!(browser.get("/console/").status, 303, "the session went with the membership");
}

#[test]
fn an_organization_always_has_an_owner() {
    let world = world();
    let ada = format!("/api/users/{}/", world.id_of(ADA));
    let demoted = world.with_key("PATCH", &ada, &json!({"role": "reader"}));
    assert_eq!((demoted.status, demoted.error().as_str()), (400, "invalid_operation"));
    assert_eq!(world.with_key("DELETE", &ada, &Value::Null).error(), "invalid_operation");
    assert_eq!(world.with_key("PATCH", &ada, &json!({"role": "owner"})).status, 200, "nothing changes");
    user(&world, BOB, world.organization, Role::Owner);
    let bob = Browser::signed_in(&world, BOB);
    assert_eq!(bob.get("/console/").status, 200);
    assert_eq!(world.with_key("PATCH", &ada, &json!({"role": "support"})).ok(200)["role"], "support");
    assert_eq!(
        world.with_key("DELETE", &format!("/api/users/{}/", world.id_of(BOB)), &Value::Null).error(),
        "invalid_operation"
    );
    let log = world.get("/api/audit_log/?operation=update_user&limit=1").ok(200);
    assert_eq!((&log[0]["before"]["role"], &log[0]["after"]["role"]), (&json!("owner"), &json!("support")));
}

#[test]
fn sessions_are_seen_and_ended() {
    let world = world();
    let ada = Browser::signed_in(&world, ADA);
    let sessions = format!("/api/users/{}/sessions/", world.id_of(ADA));
    let open = world.get(&sessions).ok(200);
    let prefix = open[0].id("prefix");
    assert!(ada.cookies.borrow()["session"].starts_with(&prefix), "{open}");
    assert!(!open.to_string().contains(ada.cookies.borrow()["session"].split_once('.').expect("a key").1));
    let one = format!("{sessions}{prefix}/");
    assert_eq!(world.with_key("DELETE", &one, &Value::Null).status, 204);
    assert_eq!(world.with_key("DELETE", &one, &Value::Null).status, 404);
    assert_eq!(ada.get("/console/").status, 303, "signed out");
    assert_eq!(world.get(&sessions).ok(200), json!([]));
    assert_eq!(world.get("/api/users/user_00000000000000000000000000000000/sessions/").status, 404);
}
