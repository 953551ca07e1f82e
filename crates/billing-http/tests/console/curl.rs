//! What pages say of the calls that they are made of: each can be made by a shell.

use std::process::Command;

use billing_console::{Method, table};
use billing_domain::user::Role;

use super::who_may::filled;
use super::{Browser, user};
use crate::samples::Fixture;
use crate::support::World;

/// The calls that a page tells, as text.
fn told(page: &str) -> Vec<String> {
    let Some((_, rest)) = page.split_once("<details class=\"curl\">") else { return Vec::new() };
    let calls = rest.split_once("<pre tabindex=\"0\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let text = calls.expect("calls").0.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&amp;", "&").lines().map(str::to_owned).collect()
}

#[test]
fn the_calls_of_every_page_can_be_made_by_a_shell() {
    let world = World::new();
    let fixture = Fixture::new(&world, "First");
    user(&world, "owner@first.example", fixture.organization, Role::Owner);
    let owner = Browser::signed_in(&world, "owner@first.example");
    let (mut pages, mut made) = (0, 0);
    for row in table().iter().filter(|row| row.method == Method::Get) {
        let path = filled(row.path, &fixture);
        let calls = told(&owner.get(&path).text);
        pages += usize::from(!calls.is_empty());
        // A page says the same of what others ask for; one of its kind is enough.
        for call in calls.iter().take(4) {
            let shell = Command::new("bash")
                .args(["-c", &format!("{call} -s -o /dev/null -w '%{{http_code}}'")])
                .env("URL", format!("http://{}", world.addr()))
                .env("KEY", &fixture.key)
                .output()
                .expect("bash");
            let status = String::from_utf8_lossy(&shell.stdout).into_owned();
            assert!(status.starts_with('2'), "{path}: {call}: {status} {}", String::from_utf8_lossy(&shell.stderr));
            made += 1;
        }
    }
    assert!(pages > 50 && made > 60, "{pages} pages told {made} calls");
}

#[test]
fn nothing_is_told_where_nothing_was_asked_or_done() {
    let world = World::new();
    user(&world, "owner@acme.example", world.organization, Role::Owner);
    let owner = Browser::signed_in(&world, "owner@acme.example");
    assert!(told(&owner.get("/console/users/invite/").text).is_empty());
    assert!(told(&owner.get("/console/customers/nobody/").text).is_empty(), "an error page");
    let calls = told(&owner.get("/console/customers/").text);
    assert!(calls.iter().any(|call| call.contains("\"$URL\"'/api/customers/")), "{calls:?}");
    let all = calls.join("\n");
    assert!(!all.contains(&world.key) && all.contains("$KEY"), "it has nobody's key in it: {all}");
}
