//! Times in the viewer's zone: shown, and taken.

use billing_domain::user::Role;

use super::{Browser, hidden, token, user};
use crate::support::{Field, World};

const ADA: &str = "ada@acme.example";
const ZONE: &str = "/console/time_zone/";

fn choose(browser: &Browser, zone: &str) -> u16 {
    let page = browser.get(ZONE);
    browser.post(ZONE, &[("form_token", &token(&page)), ("timezone", zone)]).status
}

#[test]
fn times_are_shown_in_the_zone_that_somebody_has_chosen() {
    let world = World::new();
    world.write("PATCH", "/api/organization/", br#"{"timezone": "America/New_York"}"#).ok(200);
    let clock = world.clock("2024-03-30");
    let page = format!("/console/test_clocks/{clock}/");
    user(&world, ADA, world.organization, Role::Owner);
    user(&world, "bob@acme.example", world.organization, Role::Developer);
    let (ada, bob) = (Browser::signed_in(&world, ADA), Browser::signed_in(&world, "bob@acme.example"));
    let shows = |browser: &Browser, local: &str, why: &str| {
        let shown = browser.get(&page).text;
        let time = format!("<time datetime=\"2024-03-30T00:00:00Z\" title=\"2024-03-30 00:00:00 UTC\">{local}</time>");
        assert!(shown.contains(&time), "{why}: {time}: {shown}");
    };
    shows(&ada, "2024-03-29 20:00", "the organization's zone, until one is chosen");
    assert_eq!(choose(&ada, "Europe/Berlin"), 303);
    shows(&ada, "2024-03-30 01:00", "her own");
    shows(&Browser::signed_in(&world, ADA), "2024-03-30 01:00", "in another browser, too");
    shows(&bob, "2024-03-29 20:00", "nobody else's");
    assert!(bob.get(ZONE).text.contains("As the organization (America/New_York)"), "everybody may choose");
    assert_eq!(choose(&ada, "Europe/Berlinn"), 400, "no zone");
    assert_eq!(ada.post(ZONE, &[("form_token", "forged"), ("timezone", "UTC")]).status, 403);
    shows(&ada, "2024-03-30 01:00", "as before");
    let log = world.get("/api/audit_log/").ok(200)[0].id("timestamp");
    assert!(ada.get("/console/audit_log/?format=csv").text.contains(&log), "tables are in UTC for everybody");
    assert_eq!(choose(&ada, ""), 303);
    shows(&ada, "2024-03-29 20:00", "the organization's again");
}

#[test]
fn times_are_taken_in_the_zone_that_the_form_names() {
    let world = World::new();
    user(&world, ADA, world.organization, Role::Owner);
    let ada = Browser::signed_in(&world, ADA);
    assert_eq!(choose(&ada, "Europe/Berlin"), 303);
    #[rustfmt::skip]
    let cases = [
        // typed,               status, the clock then,           said,                                 why
        ("2024-03-31T01:59:59", 303,    "2024-03-31T00:59:59",    "",                                   "the last second of winter"),
        ("2024-03-31T02:30",    400,    "2024-03-30T00:00:00",    "clocks go forward over it in Europe/Berlin.", "there is no such time"),
        ("2024-03-31T03:00",    303,    "2024-03-31T01:00:00",    "",                                   "the first of summer"),
        ("2024-10-27T02:30",    400,    "2024-03-30T00:00:00",    "(2024-10-27 00:30:00 UTC and 2024-10-27 01:30:00 UTC)", "it comes twice"),
        ("2024-10-27T03:00",    303,    "2024-10-27T02:00:00",    "",                                   "the first of winter that comes once"),
    ];
    for (typed, status, then, said, why) in cases {
        let clock = world.clock("2024-03-30");
        let path = format!("/console/test_clocks/{clock}/");
        let form = ada.get(&path);
        assert!(form.text.contains("(Europe/Berlin)"), "the form says its zone: {}", form.text);
        let fields = [("form_token", &*token(&form)), ("once", &*hidden(&form, "once")), ("frozen_time", typed)];
        let answer = ada.post(&path, &fields);
        assert_eq!((answer.status, answer.text.contains(said)), (status, true), "{typed}: {why}: {}", answer.text);
        let shown = world.get(&format!("/api/test_clocks/{clock}/")).ok(200).id("frozen_time");
        assert!(shown.starts_with(then), "{typed}: {why}: {shown}");
    }
}

#[test]
fn days_of_a_filter_are_those_of_the_viewer() {
    let world = World::new();
    let clock = world.clock("2024-03-30");
    world.customer_at("acme", &clock);
    for at in ["2024-03-28T22:59:59Z", "2024-03-28T23:00:00Z", "2024-03-29T22:59:59Z", "2024-03-29T23:00:00Z"] {
        world.post("/api/track/", &crate::support::event("acme", at, at)).ok(201);
    }
    user(&world, ADA, world.organization, Role::Owner);
    let ada = Browser::signed_in(&world, ADA);
    let list = "/console/customers/acme/events/?from=2024-03-29&to=2024-03-29";
    let shown = || ada.get(list).text.matches("event/?idempotency_id=").count();
    assert_eq!(shown(), 2, "in UTC");
    assert_eq!(choose(&ada, "Europe/Berlin"), 303);
    let page = ada.get(list).text;
    assert!(["2024-03-29 00:00<", "2024-03-29 23:59<"].iter().all(|time| page.contains(time)), "{page}");
    assert_eq!(shown(), 2, "the day of Berlin: {page}");
    assert!(page.contains("value=\"2024-03-29\""), "the filter keeps what was typed: {page}");
}
