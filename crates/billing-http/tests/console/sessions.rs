//! Signing in and out, cookies, and forms that somebody else has made.

use billing_domain::user::Role;
use billing_http::client_address::Network;
use billing_http::first_link::FirstLink;

use super::{Browser, PASSWORD, token, user};
use crate::support::World;

const ADA: &str = "ada@acme.example";

fn world() -> World {
    let world = World::new();
    user(&world, ADA, world.organization, Role::Owner);
    world
}

#[test]
fn a_session_begins_and_ends() {
    let world = world();
    let nobody = Browser::new(&world);
    let answer = nobody.get("/console/invoices/?status=paid");
    assert_eq!(answer.status, 303);
    assert_eq!(answer.header("location"), "/console/sign-in/?to=%2Fconsole%2Finvoices%2F%3Fstatus%3Dpaid");
    assert_eq!(nobody.get("/").header("location"), "/console/");
    let ada = Browser::signed_in(&world, ADA);
    let page = ada.get("/console/");
    assert_eq!(page.status, 200, "{}", page.text);
    let stolen = ada.cookies.borrow().clone();
    let answer = ada.post("/console/sign-out/", &[("form_token", &token(&page))]);
    assert_eq!((answer.status, answer.header("location")), (303, "/console/sign-in/"));
    assert!(!ada.cookies.borrow().contains_key("session"), "the cookie goes");
    *ada.cookies.borrow_mut() = stolen;
    assert_eq!(ada.get("/console/").status, 303, "and what it opened too, whoever still has it");
}

#[test]
fn cookies_are_for_the_service_alone() {
    let world = world();
    let browser = Browser::new(&world);
    let answer = browser.sign_in(ADA, PASSWORD);
    let cookies: Vec<&str> =
        answer.headers.get_all("set-cookie").iter().map(|cookie| cookie.to_str().expect("text")).collect();
    let session = cookies.iter().find(|cookie| cookie.starts_with("session=")).expect("a session");
    for attribute in ["HttpOnly", "SameSite=Lax", "Path=/"] {
        assert!(session.contains(attribute), "{attribute}: {session}");
    }
    assert!(!session.contains("Secure") && !session.contains("Domain"), "plain HTTP, this host only: {session}");
    let trusting = World::with(|settings| {
        settings.trusted_proxies = vec!["127.0.0.1".parse::<Network>().expect("an address")];
    });
    user(&trusting, ADA, trusting.organization, Role::Owner);
    let mut behind = Browser::new(&trusting);
    behind.headers = vec![("x-forwarded-proto", "https".to_owned()), ("x-forwarded-for", "203.0.113.9".to_owned())];
    assert_eq!(behind.sign_in(ADA, PASSWORD).status, 303);
    assert!(behind.cookies.borrow().contains_key("__Host-session"), "{:?}", behind.cookies);
    assert_eq!(behind.get("/console/").status, 200);
    let mut liar = Browser::new(&world);
    liar.headers = vec![("x-forwarded-proto", "https".to_owned())];
    liar.sign_in(ADA, PASSWORD);
    assert!(liar.cookies.borrow().contains_key("session"), "who is not trusted is not believed");
}

#[test]
fn signing_in_makes_another_session() {
    let world = world();
    let ada = Browser::signed_in(&world, ADA);
    let before = ada.cookies.borrow()["session"].clone();
    assert_eq!(ada.sign_in(ADA, PASSWORD).status, 303);
    let after = ada.cookies.borrow()["session"].clone();
    assert_ne!(before, after);
    let old = Browser::new(&world);
    old.cookies.borrow_mut().insert("session".to_owned(), before);
    assert_eq!(old.get("/console/").status, 303, "the one before is over");
    let (prefix, _) = after.split_once('.').expect("a key");
    let guess = Browser::new(&world);
    guess.cookies.borrow_mut().insert("session".to_owned(), format!("{prefix}.{}", "a".repeat(32)));
    assert_eq!(guess.get("/console/").status, 303, "the part that is shown opens nothing");
}

#[test]
fn sessions_are_over_after_a_while() {
    let world = world();
    #[rustfmt::skip]
    let cases = [
        // changed,                                        status, why
        ("seen_at = now() - interval '119 minutes'",       200,    "rested for less than two hours"),
        ("seen_at = now() - interval '121 minutes'",       303,    "rested for longer"),
        ("created_at = now() - interval '721 minutes'",    303,    "twelve hours old"),
    ];
    for (change, status, why) in cases {
        let ada = Browser::signed_in(&world, ADA);
        assert_eq!(ada.get("/console/").status, 200);
        world.sql(&format!("UPDATE user_sessions SET {change}"));
        assert_eq!(ada.get("/console/").status, status, "{why}");
    }
}

#[test]
fn who_knows_only_what_is_shown_keeps_no_session_alive() {
    let world = world();
    let ada = Browser::signed_in(&world, ADA);
    let key = ada.cookies.borrow()["session"].clone();
    world.sql("UPDATE user_sessions SET seen_at = now() - interval '119 minutes'");
    let guess = Browser::new(&world);
    let (prefix, _) = key.split_once('.').expect("a key");
    guess.cookies.borrow_mut().insert("session".to_owned(), format!("{prefix}.{}", "a".repeat(32)));
    assert_eq!(guess.get("/console/").status, 303);
    world.sql("UPDATE user_sessions SET seen_at = seen_at - interval '2 minutes'");
    assert_eq!(ada.get("/console/").status, 303, "it has rested for more than two hours");
}

#[test]
fn a_page_that_asks_for_a_part_of_itself_keeps_no_session_alive() {
    let world = world();
    let mut ada = Browser::signed_in(&world, ADA);
    ada.headers = vec![("hx-request", "true".to_owned())];
    world.sql("UPDATE user_sessions SET seen_at = now() - interval '119 minutes'");
    let page = ada.get("/console/");
    assert_eq!(page.status, 200);
    assert!(page.text.contains("id=\"figures\" hx-get=\"\" hx-trigger=\"every 15s\""), "{}", page.text);
    world.sql("UPDATE user_sessions SET seen_at = seen_at - interval '2 minutes'");
    let over = ada.get("/console/invoices/?status=paid");
    assert_eq!(
        (over.status, over.header("hx-redirect")),
        (401, "/console/sign-in/?to=%2Fconsole%2Finvoices%2F%3Fstatus%3Dpaid")
    );
    assert!(over.text.is_empty(), "no form where a part should be: {}", over.text);
}

#[test]
fn wrong_passwords_are_told_alike_and_counted() {
    let world = world();
    let browser = Browser::new(&world);
    let wrong = browser.sign_in(ADA, "wrong");
    let unknown = browser.sign_in("nobody@acme.example", "wrong");
    assert_eq!((wrong.status, unknown.status), (401, 401));
    let without_names = |answer: &crate::support::Answer| answer.text.replace("nobody@acme.example", ADA);
    assert_eq!(without_names(&wrong), without_names(&unknown), "nobody learns who is a user");
    let statuses: Vec<u16> = (0..7).map(|_| browser.sign_in(ADA, "wrong").status).collect();
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429, 429]);
    assert_eq!(browser.sign_in(ADA, PASSWORD).status, 429, "the right one neither, for a while");
    user(&world, "bob@acme.example", world.organization, Role::Reader);
    assert_eq!(browser.sign_in("bob@acme.example", PASSWORD).status, 303, "but others may");
}

#[test]
fn forms_of_others_do_nothing() {
    let world = world();
    let (ada, other) = (Browser::signed_in(&world, ADA), Browser::signed_in(&world, ADA));
    let foreign = token(&other.get("/console/"));
    for fields in [vec![], vec![("form_token", "")], vec![("form_token", foreign.as_str())]] {
        assert_eq!(ada.post("/console/sign-out/", &fields).status, 403, "{fields:?}");
    }
    assert_eq!(ada.get("/console/").status, 200, "still signed in");
    let blank = Browser::new(&world);
    let answer = blank.post("/console/sign-in/", &[("email", ADA), ("password", PASSWORD)]);
    assert_eq!(answer.status, 403, "nobody is signed in by a form from elsewhere");
    assert!(!blank.cookies.borrow().contains_key("session"));
    let own = token(&ada.get("/console/"));
    let mut json = Browser::new(&world);
    json.cookies = ada.cookies.clone();
    json.headers = vec![("content-type", "text/plain".to_owned())];
    assert_eq!(json.post("/console/sign-out/", &[("form_token", &own)]).status, 403, "what is no form is none");
}

#[test]
fn sessions_are_listed_and_ended_by_their_user() {
    let world = world();
    user(&world, "bob@acme.example", world.organization, Role::Owner);
    let (laptop, phone) = (Browser::signed_in(&world, ADA), Browser::signed_in(&world, ADA));
    let bob = Browser::signed_in(&world, "bob@acme.example");
    let list = laptop.get("/console/sessions/");
    assert_eq!(list.text.matches("/console/sessions/").count(), 3, "two of hers, and the link: {}", list.text);
    let prefix = |browser: &Browser| browser.cookies.borrow()["session"][..8].to_owned();
    assert!(!list.text.contains(&laptop.cookies.borrow()["session"]), "the cookie itself is not shown");
    let form = [("form_token", token(&list))];
    let form = form.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(laptop.post(&format!("/console/sessions/{}/", prefix(&bob)), &form).status, 303);
    assert_eq!(bob.get("/console/").status, 200, "another's stays");
    assert_eq!(laptop.post(&format!("/console/sessions/{}/", prefix(&phone)), &form).status, 303);
    assert_eq!((phone.get("/console/").status, laptop.get("/console/").status), (303, 200));
}

#[test]
fn another_organization_is_opened_by_another_cookie() {
    let (world, list) = (World::new(), "/console/organizations/");
    let [second, third] = ["Second", "Third"].map(|name| world.opened.create_organization(name, None).expect("made").0);
    user(&world, ADA, world.organization, Role::Owner);
    user(&world, "eve@third.example", third, Role::Owner);
    world.customer("only-at-first");
    let ada = Browser::signed_in(&world, ADA);
    assert!(!ada.get("/console/").text.contains(list), "there is nowhere else to go");
    user(&world, ADA, second, Role::Reader);
    let (home, offered) = (ada.get("/console/"), ada.get(list));
    assert!(home.text.contains(&format!("href=\"{list}\"")), "{}", home.text);
    assert!(offered.text.contains(&second.to_string()) && !offered.text.contains(&third.to_string()));
    let [old, old_cookie] = [token(&home), ada.cookies.borrow()["session"].clone()];
    let switch = |token: &str, to: &str| ada.post(list, &[("form_token", token), ("organization_id", to)]);
    let refused =
        [switch("", &second.to_string()), switch(&old, &third.to_string()), switch(&old, "nothing"), switch(&old, "")];
    assert_eq!(refused.map(|answer| answer.status), [403, 404, 404, 404]);
    assert_eq!(ada.get("/console/customers/only-at-first/").status, 200, "nothing has happened");
    let gone = switch(&old, &second.to_string());
    assert_eq!((gone.status, gone.header("location")), (303, "/console/"), "{}", gone.text);
    let there = ada.get("/console/");
    assert!(there.text.contains("Second") && there.text.contains("reader"), "{}", there.text);
    assert_eq!(ada.get("/console/customers/only-at-first/").status, 404, "it is the other one's");
    assert_eq!(ada.get("/console/users/").status, 403, "by the role that she has here");
    // A page that was open before belongs to the organization that it was made for.
    assert_eq!(switch(&old, &world.organization.to_string()).status, 403);
    let thief = Browser::new(&world);
    thief.cookies.borrow_mut().insert("session".to_owned(), old_cookie);
    assert_eq!(thief.get("/console/").status, 303, "the old cookie opens nothing");
}

#[test]
fn the_first_link_makes_one_owner() {
    let mut path = String::new();
    let mut world = World::new();
    world.stop();
    let (link, opens) = FirstLink::new(world.organization, std::time::Instant::now()).expect("randomness");
    path.push_str(&opens);
    world.change_settings(|settings| settings.first_link = Some(std::sync::Arc::new(link)));
    world.start();
    let [first, second] = [Browser::new(&world), Browser::new(&world)];
    assert_eq!(first.get("/console/welcome/abcdefgh.x/").status, 404);
    let forms = [&first, &second].map(|browser| token(&browser.get(&path)));
    let fields = |token: &str, password: &str| {
        [("form_token", token.to_owned()), ("email", "Own@Acme.example".to_owned()), ("password", password.to_owned())]
    };
    let send = |browser: &Browser, token: &str, password: &str| {
        let fields = fields(token, password);
        browser.post(&path, &fields.each_ref().map(|(name, value)| (*name, value.as_str())))
    };
    assert_eq!(send(&first, &forms[0], "short").status, 400, "and the link stays");
    assert_eq!(send(&first, &forms[1], PASSWORD).status, 403, "another browser's form");
    assert_eq!(send(&first, &forms[0], PASSWORD).status, 303);
    assert_eq!(first.get("/console/").status, 200, "signed in at once");
    assert_eq!(send(&second, &forms[1], PASSWORD).status, 404, "once");
    assert_eq!(second.get(&path).status, 404);
    assert_eq!(second.sign_in("own@acme.example", PASSWORD).status, 303, "by an address in whatever case");
}

#[test]
fn without_a_console_there_are_no_pages() {
    let world = World::with(|settings| settings.has_console = false);
    let browser = Browser::new(&world);
    assert_eq!(browser.get("/").status, 200, "where one starts");
    for path in ["/console/", "/console/sign-in/", "/console/invoices/", "/console/icon.svg"] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
}
