//! Signing in with an OpenID provider: who is let in, as whom, and with which roles.

use std::time::Duration;

use billing_domain::id::OrganizationId;
use billing_domain::store::Users;
use billing_domain::user::{Identity, Role};
use billing_http::client_address::Network;
use billing_http::openid::OpenIdSettings;
use serde_json::Value;

use super::browser::{Checker, Driver};
use super::openid_provider::{CLIENT_ID, CLIENT_SECRET, Person, Provider};
use super::{Browser, PASSWORD, token, user};
use crate::support::{Answer, World};

pub(crate) const START: &str = "/console/oidc/sign-in/";
const WAYS: &str = "/console/identities/";
const ADA: &str = "ada@acme.example";

pub(super) fn ada(groups: &[&'static str]) -> Person {
    Person { subject: "subject-of-ada", email: ADA, groups: groups.to_vec() }
}

/// A service with a provider: the groups `admins`, `finance` and `support` have roles at the first organization, and `second` has one
/// at the second.
pub(super) struct OpenIdWorld {
    pub world: World,
    pub provider: Provider,
    pub second: OrganizationId,
}

impl OpenIdWorld {
    pub fn new(person: Person) -> Self {
        Self::with(person, |_, _| {})
    }

    pub fn with(person: Person, tune: impl FnOnce(&mut billing_http::ServerSettings, &mut OpenIdSettings)) -> Self {
        let (mut world, provider) = (World::new(), Provider::new(person));
        let (first, second) = (world.organization, world.opened.create_organization("Second", None).expect("made").0);
        let roles =
            format!("admins={first}:owner,finance={first}:finance,support={first}:support,second={second}:reader");
        let client = (provider.issuer.as_str(), CLIENT_ID, CLIENT_SECRET);
        let mut openid = OpenIdSettings::new(client, &roles, "https://billing.example").expect("settings");
        openid.patience = Duration::from_secs(1);
        world.change_settings(|settings| {
            tune(settings, &mut openid);
            settings.openid = Some(openid);
        });
        world.restart();
        Self { world, provider, second }
    }

    /// Goes to the provider and comes back.
    pub fn come(&self, browser: &Browser) -> Answer {
        browser.get(&self.sent(browser))
    }

    /// Goes to the provider: the path and query to come back with.
    pub fn sent(&self, browser: &Browser) -> String {
        sent(browser, &self.provider)
    }

    /// Links the account at the provider with the user who is signed in.
    fn link(&self, browser: &Browser) -> Answer {
        let form = browser.get(WAYS);
        let leaving = browser.post("/console/identities/link/", &[("form_token", &token(&form))]);
        assert_eq!(leaving.status, 200, "{}", leaving.text);
        let url = leaving.header("refresh").strip_prefix("0; url=").expect("where to go");
        browser.get(&self.provider.visit(url))
    }

    fn roles(&self, email: &str) -> Vec<(OrganizationId, Role)> {
        let found = self.world.opened.store.find_user(email).expect("read");
        let memberships = found.into_iter().flat_map(|user| user.memberships);
        memberships.map(|one| (one.organization, one.role)).collect()
    }

    fn audit_log(&self, operation: &str) -> Vec<Value> {
        let list = self.world.get(&format!("/api/audit_log/?operation={operation}")).ok(200);
        list.as_array().expect("a list").clone()
    }
}

/// Goes to a provider: the path and query to come back with.
pub(crate) fn sent(browser: &Browser, provider: &Provider) -> String {
    let answer = browser.get(START);
    assert_eq!(answer.status, 303, "{}", answer.text);
    provider.visit(answer.header("location"))
}

pub(crate) fn is_signed_in(browser: &Browser) -> bool {
    browser.get("/console/").status == 200
}

#[test]
fn somebody_new_signs_up_by_a_group_and_is_known_by_their_subject() {
    let here = OpenIdWorld::new(ada(&["others", "finance"]));
    let world = &here.world;
    let browser = Browser::new(world);
    let form = browser.get("/console/sign-in/?to=%2Fconsole%2Fplans%2F");
    let host = here.provider.issuer.strip_prefix("http://").expect("a URL");
    assert!(form.text.contains(&format!("Sign in with {host}")), "{}", form.text);
    assert!(form.text.contains("/console/oidc/sign-in/?to=%2Fconsole%2Fplans%2F"), "{}", form.text);
    let answer = browser.get(&format!("{START}?to=%2Fconsole%2Fplans%2F"));
    let cookie = answer.header("set-cookie");
    for attribute in ["openid=", "HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=600"] {
        assert!(cookie.contains(attribute), "{attribute}: {cookie}");
    }
    let key = browser.cookies.borrow()["openid"].clone();
    assert!(!answer.header("location").contains(&key[9..]), "what opens the attempt is not sent along");
    let back = here.provider.visit(answer.header("location"));
    let answer = browser.get(&back);
    assert_eq!((answer.status, answer.header("location")), (303, "/console/plans/"), "{}", answer.text);
    assert!(!browser.cookies.borrow().contains_key("openid"), "it is over");
    assert!(is_signed_in(&browser));
    assert_eq!(here.roles(ADA), [(world.organization, Role::Finance)]);
    let entries = here.audit_log("sign_up");
    let entry = entries.first().expect("an entry");
    assert_eq!((entries.len(), entry["actor_type"].as_str()), (1, Some("identity_provider")), "{entry}");
    assert_eq!(
        (entry["actor_id"].as_str(), entry["actor_name"].as_str()),
        (Some(here.provider.issuer.as_str()), Some("subject-of-ada"))
    );
    assert_eq!(Browser::new(world).sign_in(ADA, "").status, 401, "there is no password");
    assert_eq!(Browser::new(world).sign_in(ADA, PASSWORD).status, 401);
    let id = world.opened.store.find_user(ADA).expect("read").expect("a user").id;
    user(world, "eve@acme.example", world.organization, Role::Owner);
    for email in ["ada.married@acme.example", "eve@acme.example"] {
        here.provider.vouches_for(Person { email, ..ada(&["finance"]) });
        let again = Browser::new(world);
        assert_eq!(here.come(&again).status, 303);
        assert!(again.get("/console/").text.contains(ADA), "she is who she was, whatever her address is: {email}");
        let identity = Identity { issuer: here.provider.issuer.clone(), subject: "subject-of-ada".to_owned() };
        let found = world.opened.store.find_linked(&identity).expect("read").expect("a user");
        assert_eq!((found.id, found.email.as_str()), (id, ADA));
    }
    assert_eq!(here.roles("eve@acme.example"), [(world.organization, Role::Owner)], "nobody was taken over");
    assert_eq!(here.audit_log("sign_up").len(), 1, "nor made");
}

#[test]
fn a_session_is_another_one_after_coming_back_and_cookies_are_for_the_host_alone() {
    let here = OpenIdWorld::with(ada(&["finance"]), |settings, _| {
        settings.trusted_proxies = vec!["127.0.0.1".parse::<Network>().expect("an address")];
    });
    let mut browser = Browser::new(&here.world);
    browser.headers = vec![("x-forwarded-proto", "https".to_owned()), ("x-forwarded-for", "203.0.113.9".to_owned())];
    let answer = browser.get(START);
    let cookie = answer.header("set-cookie");
    assert!(cookie.starts_with("__Host-openid=") && cookie.contains("Secure"), "{cookie}");
    assert!(!cookie.contains("Domain"), "{cookie}");
    assert_eq!(browser.get(&here.provider.visit(answer.header("location"))).status, 303);
    let before = browser.cookies.borrow()["__Host-session"].clone();
    assert_eq!(here.come(&browser).status, 303);
    let old = Browser::new(&here.world);
    old.cookies.borrow_mut().insert("session".to_owned(), before.clone());
    assert_ne!(browser.cookies.borrow()["__Host-session"], before);
    assert_eq!(old.get("/console/").status, 303, "the one before is over");
    let entry = here.audit_log("sign_up");
    assert_eq!(entry[0]["address"], "203.0.113.9", "as the proxy says: {entry:?}");
}

#[test]
fn whoever_has_no_role_gets_no_session() {
    let here = OpenIdWorld::new(ada(&["others"]));
    let world = &here.world;
    let browser = Browser::new(world);
    let answer = here.come(&browser);
    assert_eq!(answer.status, 403, "{}", answer.text);
    for told in [ADA, "oidc_no_role", "has no role here"] {
        assert!(answer.text.contains(told), "{told}: {}", answer.text);
    }
    assert!(!browser.cookies.borrow().contains_key("session") && !is_signed_in(&browser));
    assert!(world.opened.store.find_user(ADA).expect("read").is_none(), "nobody was made");
    #[rustfmt::skip]
    let cases: [(&str, &str, &str); 4] = [
        // email,               group,     why
        ("",                    "finance", "no address"),
        ("ada",                 "finance", "what is none"),
        ("ada@acme.example",    "others",  "no role"),
        ("unverified@acme.example", "finance", "nobody knows whose it is"),
    ];
    for (email, group, why) in cases {
        here.provider.vouches_for(Person { email, ..ada(&[]) });
        here.provider.forges(move |token| {
            token.claims["groups"] = group.into();
            if email.starts_with("unverified") {
                token.claims["email_verified"] = false.into();
            }
        });
        let browser = Browser::new(world);
        assert_eq!(here.come(&browser).status, 403, "{why}");
        assert!(!is_signed_in(&browser), "{why}");
    }
    assert_eq!(world.opened.store.list_members(world.organization).expect("read"), [], "nobody at all");
    here.provider.forges(|token| {
        token.claims["groups"] = "finance".into();
        token.claims["email_verified"] = "true".into();
    });
    here.provider.vouches_for(ada(&[]));
    assert_eq!(here.come(&Browser::new(world)).status, 303, "one group as text, and a truth as text, as some write it");
}

#[test]
fn roles_follow_the_groups_at_each_sign_in() {
    let here = OpenIdWorld::new(ada(&["finance"]));
    let (world, first, second) = (&here.world, here.world.organization, here.second);
    let third = world.opened.create_organization("Third", None).expect("made").0;
    user(world, "owner@acme.example", first, Role::Owner);
    assert_eq!(here.come(&Browser::new(world)).status, 303);
    user(world, ADA, third, Role::Developer);
    let by_hand = (third, Role::Developer);
    #[rustfmt::skip]
    let cases: [(&[&str], &[(OrganizationId, Role)], usize, &str); 6] = [
        // groups,                          roles,                                                   entries, why
        (&["finance"],                      &[(first, Role::Finance), by_hand],                      0,       "as before"),
        (&["support", "admins", "second"],  &[(first, Role::Owner), (second, Role::Reader), by_hand], 1,      "the most powerful one; another organization"),
        (&["support"],                      &[(first, Role::Support), by_hand],                      2,       "less than before, and nothing there"),
        (&[],                               &[by_hand],                                              3,       "what a person gave stays"),
        (&["admins"],                       &[(first, Role::Owner), by_hand],                        4,       "back again"),
        (&["others"],                       &[by_hand],                                              5,       "and gone"),
    ];
    for (groups, roles, entries, why) in cases {
        here.provider.vouches_for(ada(groups));
        assert_eq!(here.come(&Browser::new(world)).status, 303, "{why}");
        assert_eq!(here.roles(ADA), roles, "{why}");
        let log = here.audit_log("apply_group_role");
        assert_eq!(log.len(), entries, "{why}: {log:?}");
        assert!(log.iter().all(|entry| entry["actor_id"] == here.provider.issuer.as_str()), "{why}: {log:?}");
    }
    world.sql(&format!("DELETE FROM memberships WHERE organization_id = '{}'", third.uuid()));
    here.provider.vouches_for(ada(&["finance"]));
    let browser = Browser::new(world);
    assert_eq!(here.come(&browser).status, 303);
    here.provider.vouches_for(ada(&[]));
    let answer = here.come(&Browser::new(world));
    assert_eq!(answer.status, 403, "{}", answer.text);
    assert!(answer.text.contains("oidc_no_role"), "{}", answer.text);
    assert!(!is_signed_in(&browser), "what had no role any more ends everywhere, at once");
}

#[test]
fn the_last_owner_stays_whatever_groups_say() {
    let here = OpenIdWorld::new(ada(&["admins"]));
    let (world, first) = (&here.world, here.world.organization);
    assert_eq!(here.come(&Browser::new(world)).status, 303);
    for groups in [&["support"][..], &[]] {
        here.provider.vouches_for(ada(groups));
        assert_eq!(here.come(&Browser::new(world)).status, 303, "{groups:?}");
        assert_eq!(here.roles(ADA), [(first, Role::Owner)], "{groups:?}: nobody else owns it");
    }
    assert_eq!(here.audit_log("apply_group_role"), Vec::<Value>::new());
    user(world, "bob@acme.example", first, Role::Owner);
    assert_eq!(here.come(&Browser::new(world)).status, 403);
    assert_eq!(here.roles(ADA), [], "now somebody does");
}

#[test]
fn an_address_links_nothing_and_a_user_who_is_signed_in_does() {
    let here = OpenIdWorld::new(ada(&["admins"]));
    let (world, first) = (&here.world, here.world.organization);
    for email in [ADA, "bob@acme.example"] {
        user(world, email, first, Role::Reader);
    }
    let browser = Browser::new(world);
    let answer = here.come(&browser);
    assert_eq!(answer.status, 409, "{}", answer.text);
    for told in [ADA, "oidc_has_account", "Sign in with its password"] {
        assert!(answer.text.contains(told), "{told}: {}", answer.text);
    }
    assert!(!is_signed_in(&browser));
    assert_eq!(here.roles(ADA), [(first, Role::Reader)], "nothing has changed");
    let known = Browser::signed_in(world, ADA);
    assert!(known.get(WAYS).text.contains("is not linked with this one"));
    for fields in [vec![], vec![("form_token", "forged")]] {
        assert_eq!(known.post("/console/identities/link/", &fields).status, 403, "{fields:?}");
    }
    let answer = here.link(&known);
    assert_eq!((answer.status, answer.header("location")), (303, WAYS), "{}", answer.text);
    assert!(known.get(WAYS).text.contains("subject-of-ada"));
    assert_eq!(here.roles(ADA), [(first, Role::Reader)], "roles follow with the next time she signs in");
    let linked = here.audit_log("link_identity");
    assert_eq!((linked.len(), linked[0]["actor_name"].as_str()), (1, Some(ADA)), "{linked:?}");
    assert_eq!(linked[0]["after"]["subject"], "subject-of-ada");
    let bob = Browser::signed_in(world, "bob@acme.example");
    let answer = here.link(&bob);
    assert!(answer.status == 409 && answer.text.contains("oidc_linked_elsewhere"), "{}", answer.text);
    user(world, "owner@acme.example", first, Role::Owner);
    let by_provider = Browser::new(world);
    assert_eq!(here.come(&by_provider).status, 303);
    assert_eq!(here.roles(ADA), [(first, Role::Owner)]);
    let unlink = |browser: &Browser| {
        let form = browser.get(WAYS);
        browser.post("/console/identities/unlink/", &[("form_token", &token(&form))])
    };
    assert_eq!(by_provider.post("/console/identities/unlink/", &[]).status, 403, "not by somebody else's form");
    assert!(!by_provider.get(WAYS).text.contains("identities/unlink"), "what is refused is not offered");
    let refused = unlink(&by_provider);
    assert!(refused.status == 409 && refused.text.contains("cannot be unlinked"), "{}", refused.text);
    user(world, ADA, first, Role::Finance);
    assert_eq!(unlink(&by_provider).status, 303, "a person has given her a role, and she has a password");
    assert_eq!(here.audit_log("unlink_identity").len(), 1);
    assert_eq!(here.come(&Browser::new(world)).status, 409, "an address links nothing still");
    assert!(is_signed_in(&Browser::signed_in(world, ADA)));
}

#[test]
fn somebody_without_a_password_takes_an_invitation_by_their_session() {
    let here = OpenIdWorld::new(ada(&["finance"]));
    let world = &here.world;
    let browser = Browser::new(world);
    assert_eq!(here.come(&browser).status, 303);
    let key = world.opened.create_key(here.second, "another one", None).expect("a key");
    let body = br#"{"email": "ada@acme.example", "role": "support"}"#;
    let headers = [("X-API-KEY", key.reveal()), ("Content-Type", "application/json")];
    let made = world.send("POST", "/api/users/invite/", &headers, body).ok(201);
    let link = made["link"].as_str().expect("a link");
    let stranger = Browser::new(world);
    let form = stranger.get(link);
    for password in ["", PASSWORD] {
        let fields = [("form_token", token(&form)), ("password", password.to_owned())];
        let answer = stranger.post(link, &fields.each_ref().map(|(name, value)| (*name, value.as_str())));
        assert_eq!(answer.status, 401, "whoever has the link alone is nobody: {}", answer.text);
    }
    let form = browser.get(link);
    assert!(!form.text.contains("name=\"password\""), "{}", form.text);
    assert_eq!(browser.post(link, &[("form_token", &token(&form))]).status, 303);
    assert_eq!(here.roles(ADA), [(world.organization, Role::Finance), (here.second, Role::Support)]);
    here.provider.vouches_for(ada(&[]));
    assert_eq!(here.come(&Browser::new(world)).status, 303);
    assert_eq!(here.roles(ADA), [(here.second, Role::Support)], "which no group takes away");
}

#[test]
fn nobody_links_for_somebody_else() {
    let here = OpenIdWorld::new(ada(&["admins"]));
    let world = &here.world;
    for email in ["bob@acme.example", "eve@acme.example"] {
        user(world, email, world.organization, Role::Reader);
    }
    let bob = Browser::signed_in(world, "bob@acme.example");
    let form = bob.get(WAYS);
    let leaving = bob.post("/console/identities/link/", &[("form_token", &token(&form))]);
    let back = here.provider.visit(leaving.header("refresh").strip_prefix("0; url=").expect("where to go"));
    let eve = Browser::signed_in(world, "eve@acme.example");
    let answer = eve.get(&back);
    assert!(answer.status == 400 && answer.text.contains("oidc_expired"), "in another browser: {}", answer.text);
    eve.cookies.borrow_mut().insert("openid".to_owned(), bob.cookies.borrow()["openid"].clone());
    let answer = eve.get(&back);
    assert!(answer.status == 403 && answer.text.contains("oidc_not_signed_in"), "by another user: {}", answer.text);
    assert_eq!(here.audit_log("link_identity"), Vec::<Value>::new());
    let signed_out = Browser::new(world);
    *signed_out.cookies.borrow_mut() = bob.cookies.borrow().clone();
    assert_eq!(signed_out.get(&back).status, 400, "and it was taken");
}

#[test]
fn without_a_provider_there_is_nothing_of_it() {
    let world = World::new();
    user(&world, ADA, world.organization, Role::Owner);
    let browser = Browser::signed_in(&world, ADA);
    for path in [START, "/console/oidc/callback/?code=a&state=b"] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
    let ways = browser.get(WAYS);
    assert!(ways.text.contains("no provider is set up") && !ways.text.contains("identities/link"), "{}", ways.text);
    let link = browser.post("/console/identities/link/", &[("form_token", &token(&ways))]);
    assert_eq!(link.status, 404);
    assert!(!Browser::new(&world).get("/console/sign-in/").text.contains("oidc"));
}

/// Signs in with a real browser, through pages of both sides, and looks at the pages on the way.
#[test]
fn a_browser_signs_in_and_links_through_the_provider() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("its address");
    drop(listener);
    let here = OpenIdWorld::with(ada(&["others"]), |settings, openid| {
        settings.addr = addr;
        openid.redirect_url = format!("http://{addr}/console/oidc/callback/");
        openid.patience = Duration::from_secs(8);
    });
    here.provider.asks_people();
    user(&here.world, "bob@acme.example", here.world.organization, Role::Owner);
    let Some(driver) = Driver::start(format!("http://{addr}")) else { return };
    let checker = Checker::installed();
    let mut faults = Vec::new();
    let mut look = |name: &str| {
        driver.photograph(name);
        faults.extend(checker.iter().flat_map(|checker| checker.violations(&driver)));
    };
    let pass = |driver: &Driver| {
        driver.arrives("/authorize");
        driver.click("#go");
    };
    driver.open("/console/sign-in/");
    look("openid-sign-in");
    driver.click("a.button");
    pass(&driver);
    driver.arrives("/console/oidc/callback/");
    assert!(driver.script("return document.body.innerText").to_string().contains("has no role here"));
    look("openid-no-role");
    here.provider.vouches_for(ada(&["finance"]));
    driver.click("main a[href='/console/sign-in/']");
    driver.arrives("/console/sign-in/");
    driver.click("a.button");
    pass(&driver);
    driver.waits("location.pathname === '/console/'");
    assert!(driver.script("return document.body.innerText").to_string().contains(ADA));
    driver.open(WAYS);
    look("openid-linked");
    driver.script("document.querySelector('form[action=\"/console/sign-out/\"]').submit()");
    driver.arrives("/console/sign-in/");
    driver.write("#email", "bob@acme.example");
    driver.write("#password", PASSWORD);
    driver.click("button[type=submit]");
    driver.waits("location.pathname === '/console/'");
    driver.open(WAYS);
    look("openid-not-linked");
    here.provider.vouches_for(Person { subject: "subject-of-bob", email: "bob@elsewhere.example", groups: vec![] });
    driver.click("form[action='/console/identities/link/'] button");
    pass(&driver);
    driver.waits("location.pathname === '/console/identities/'");
    assert!(driver.script("return document.body.innerText").to_string().contains("subject-of-bob"));
    assert!(faults.is_empty(), "{faults:#?}");
}
