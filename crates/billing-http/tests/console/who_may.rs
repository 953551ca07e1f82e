//! Roles and tenants against every page and action of the table: nobody gets more than is theirs.

use billing_console::{Method, table};
use billing_domain::user::Role;

use super::{Browser, assert_light, token, user};
use crate::samples::Fixture;
use crate::support::World;

/// What is named in paths, and how the fixture calls it.
const NAMED: [(&str, &str); 14] = [
    ("approval_id", "approval"),
    ("books_audit_id", "books_audit"),
    ("customer_id", "customer"),
    ("invoice_id", "invoice"),
    ("subscription_id", "subscription"),
    ("plan_id", "plan"),
    ("metric_id", "metric"),
    ("credit_id", "credit"),
    ("credit_note_id", "credit_note"),
    ("usage_alert_id", "alert"),
    ("webhook_endpoint_id", "endpoint"),
    ("test_clock_id", "clock"),
    ("user_id", "user"),
    ("prefix", "key_prefix"),
];
/// Enough for any form.
const FILLED_IN: [(&str, &str); 11] = [
    ("amount", "1"),
    ("currency_code", "USD"),
    ("reason", "forged"),
    ("frozen_time", "2031-01-01T00:00"),
    ("since", "2026-01-01T00:00"),
    ("role", "owner"),
    ("kind", "spend"),
    ("threshold", "1"),
    ("url", "https://forged.example/"),
    ("start_date", "2026-01-01"),
    ("metric_id", "metric_00000000000000000000000000000001"),
];

/// The path of a row with an object of the fixture's for what is named in it.
pub(super) fn filled(path: &str, fixture: &Fixture) -> String {
    NAMED.iter().fold(path.to_owned(), |path, (named, noun)| {
        let name = format!("{{{named}}}");
        if path.contains(&name) { path.replace(&name, fixture.id(noun)) } else { path }
    })
}

#[test]
fn roles_open_and_do_what_the_table_says() {
    let world = World::new();
    let fixture = Fixture::new(&world, "First");
    for role in Role::ALL {
        let email = format!("{role}@first.example");
        user(&world, &email, fixture.organization, *role);
        let browser = Browser::signed_in(&world, &email);
        let own = token(&browser.get("/console/"));
        for row in table() {
            let path = filled(row.path, &fixture);
            let may = row.roles.contains(role);
            match row.method {
                Method::Get => {
                    let answer = browser.get(&path);
                    assert_eq!(answer.status, if may { 200 } else { 403 }, "{role} {path}: {}", answer.text);
                    assert_light(&path, &answer.text);
                }
                Method::Post => {
                    assert_eq!(browser.post(&path, &[]).status, 403, "{role} {path}: without a token nobody does it");
                    if !may {
                        let mut forged = vec![("form_token", own.as_str()), ("once", "1")];
                        forged.extend(FILLED_IN);
                        assert_eq!(browser.post(&path, &forged).status, 403, "{role} {path}: nor by hand");
                    }
                }
            }
        }
        let is_offered = |page: &str, link: &str| browser.get(&filled(page, &fixture)).text.contains(link);
        let invoice = "/console/invoices/{invoice_id}/";
        let has_money = [Role::Owner, Role::Finance].contains(role);
        assert_eq!(is_offered(invoice, "/void/\""), has_money, "{role}: what may not be done is not offered");
        assert_eq!(is_offered(invoice, "/payments/\""), has_money, "{role}");
        assert_eq!(is_offered("/console/plans/", "/plans/new/\""), has_money, "{role}: prices are money");
        assert_eq!(is_offered("/console/plans/{plan_id}/", "/new_version/\""), has_money, "{role}");
        let may_change = has_money || *role == Role::Support;
        for link in ["/cancel/\"", "/update/\"", "/switch_plan/\"", "/addons/\"", "/prepaid_units/\"", "/subscribe/\""]
        {
            assert_eq!(is_offered("/console/customers/{customer_id}/", link), may_change, "{role}: {link}");
        }
    }
}

#[test]
fn nothing_of_another_tenant_is_seen_or_done() {
    let world = World::new();
    let (first, second) = (Fixture::new(&world, "First"), Fixture::new(&world, "Second"));
    user(&world, "eve@second.example", second.organization, Role::Owner);
    let eve = Browser::signed_in(&world, "eve@second.example");
    let own = token(&eve.get("/console/"));
    let before = world.get_as(&first.key, &format!("/api/invoices/{}/", first.id("invoice")));
    for row in table() {
        let path = filled(row.path, &first).replace("acme", "only%20at%20First");
        let is_of_one = row.path.contains('{');
        match row.method {
            Method::Get => {
                let answer = eve.get(&path);
                // A statement or a list of events of somebody unknown may be empty; what it must not be is somebody's.
                assert!(is_of_one || answer.status == 200, "{path}: {}", answer.text);
                let theirs = ["invoice", "subscription", "plan", "metric"].map(|noun| first.id(noun));
                for id in theirs.iter().filter(|id| !path.contains(**id)) {
                    assert!(!answer.text.contains(*id), "{path} shows {id}");
                }
                let shown = ["event of First"].iter().any(|name| answer.text.contains(name));
                assert!(!shown, "{path}: {}", answer.text);
                // A user's role is asked for without a look at the user.
                let may_be_empty =
                    ["{customer_id}/events/", "{customer_id}/event/", "{customer_id}/statement/", "{user_id}"];
                if is_of_one && !may_be_empty.iter().any(|end| row.path.contains(end)) {
                    assert_eq!(answer.status, 404, "{path}");
                }
            }
            Method::Post if is_of_one => {
                let once = path.replace(|sign: char| !sign.is_ascii_alphanumeric(), "-");
                let mut fields = vec![("form_token", own.as_str()), ("once", &once[once.len().saturating_sub(40)..])];
                fields.extend(FILLED_IN);
                let answer = eve.post(&path, &fields);
                // Where an id is a field of the call, it is a field that names nobody.
                assert!([400, 404].contains(&answer.status), "{path}: {}", answer.text);
            }
            Method::Post => {}
        }
    }
    let after = world.get_as(&first.key, &format!("/api/invoices/{}/", first.id("invoice")));
    assert_eq!(before.text, after.text);
}
