//! Roles and tenants against every page and action of the table: nobody gets more than is theirs.

use billing_console::{Method, table};
use billing_domain::user::Role;

use super::{Browser, token, user};
use crate::samples::Fixture;
use crate::support::World;

/// The path of a row with an object of the fixture's for what is named in it.
fn filled(path: &str, fixture: &Fixture) -> String {
    ["customer", "invoice", "subscription", "plan"].iter().fold(path.to_owned(), |path, noun| {
        let name = format!("{{{noun}_id}}");
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
                }
                Method::Post => {
                    assert_eq!(browser.post(&path, &[]).status, 403, "{role} {path}: without a token nobody does it");
                    if !may {
                        let forged = [("form_token", own.as_str()), ("once", "1"), ("amount", "1")];
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
        let may_cancel = has_money || *role == Role::Support;
        assert_eq!(is_offered("/console/customers/{customer_id}/", "/cancel/\""), may_cancel, "{role}");
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
                let ids = ["{invoice_id}", "{subscription_id}", "{plan_id}"];
                if ids.iter().any(|id| row.path.contains(id)) || row.path == "/console/customers/{customer_id}/" {
                    assert_eq!(answer.status, 404, "{path}");
                }
            }
            Method::Post => {
                let fields = [("form_token", own.as_str()), ("once", &path[path.len() - 40..]), ("amount", "1")];
                assert_eq!(eve.post(&path, &fields).status, 404, "{path}");
            }
        }
    }
    let after = world.get_as(&first.key, &format!("/api/invoices/{}/", first.id("invoice")));
    assert_eq!(before.text, after.text);
}
