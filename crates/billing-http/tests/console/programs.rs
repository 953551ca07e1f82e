//! What other programs are connected by, as the console sees to it: API keys and webhook endpoints.

use billing_domain::user::Role;
use serde_json::json;

use super::forms::{fill, list};
use super::{Browser, user};
use crate::receiver::Receiver;
use crate::resources::webhooks;
use crate::support::{Answer, Field, World};

const OWNER: &str = "owner@acme.example";

fn owner_of(world: &World) -> Browser {
    user(world, OWNER, world.organization, Role::Owner);
    Browser::signed_in(world, OWNER)
}

/// What a page shows in one piece, to be copied.
fn shown(page: &Answer) -> String {
    assert_eq!(page.status, 200, "{}", page.text);
    let text = page.text.split_once("<pre tabindex=\"0\">").and_then(|(_, text)| text.split_once("</pre>"));
    text.unwrap_or_else(|| panic!("nothing is shown: {}", page.text)).0.to_owned()
}

#[test]
fn a_key_is_shown_once_replaced_and_deleted() {
    let world = World::new();
    let owner = owner_of(&world);
    let path = "/console/api_keys/new/";
    let before = list(&world, "/api/api_keys/").len();
    let refused = fill(&owner, path, &[("name", "of nothing")]);
    assert!(refused.status == 400 && refused.text.contains("Choose at least one"), "{}", refused.text);
    assert_eq!(list(&world, "/api/api_keys/").len(), before, "a key that may do nothing is not one that may do all");
    let filled =
        [("name", "<b>meter</b>"), ("scopes", "ingest"), ("scopes", "read"), ("expires_at", "2031-05-01T10:30")];
    let key = shown(&fill(&owner, path, &filled));
    let keys = list(&world, "/api/api_keys/");
    let made: Vec<_> = keys.iter().filter(|key| key["name"] == "<b>meter</b>").collect();
    assert_eq!((made.len(), keys.len()), (1, before + 1), "once: {keys:?}");
    assert_eq!(
        (&made[0]["scopes"], &made[0]["expires_at"]),
        (&json!(["read", "ingest"]), &json!("2031-05-01T10:30:00Z"))
    );
    assert_eq!(world.get_as(&key, "/api/metrics/").status, 200, "it may read");
    let customer = json!({"customer_id": "acme", "email": "acme@acme.io"}).to_string();
    let headers = [("X-API-KEY", key.as_str()), ("Content-Type", "application/json")];
    let refused = world.send("POST", "/api/customers/", &headers, customer.as_bytes());
    assert_eq!((refused.status, refused.error().as_str()), (403, "missing_scope"), "and no more than was chosen");
    let prefix = made[0].id("prefix");
    let listed = owner.get("/console/api_keys/").text;
    assert!(listed.contains("&lt;b&gt;meter") && listed.contains(&prefix), "{listed}");
    assert!(!listed.contains(&key), "its text is kept nowhere");
    let replaced = shown(&fill(&owner, &format!("/console/api_keys/{prefix}/regenerate/"), &[]));
    let reads = |key: &str| world.get_as(key, "/api/metrics/").status;
    assert_eq!((reads(&key), reads(&replaced)), (401, 200), "the new one in the place of the old one");
    let keys = list(&world, "/api/api_keys/");
    let made = keys.iter().find(|key| key["name"] == "<b>meter</b>").expect("it is there");
    assert_eq!((keys.len(), &made["scopes"]), (before + 1, &json!(["read", "ingest"])), "{keys:?}");
    let path = format!("/console/api_keys/{}/delete/", made.id("prefix"));
    assert_eq!(fill(&owner, &path, &[]).header("location"), "/console/api_keys/");
    assert_eq!((reads(&replaced), list(&world, "/api/api_keys/").len()), (401, before));
    assert_eq!(owner.get(&path).status, 404, "there is nothing to delete any more");
    let logged = list(&world, "/api/audit_log/").iter().filter(|entry| entry.to_string().contains(OWNER)).count();
    assert_eq!(logged, 3, "made, replaced and deleted by a person");
}

#[test]
fn an_endpoint_is_tried_disabled_and_given_another_secret() {
    let (world, receiver) = (webhooks::world(), Receiver::new());
    let owner = owner_of(&world);
    let endpoint = webhooks::register(&world, &receiver, json!({"event_types": ["customer.created"]}));
    let here = format!("/console/webhooks/{}/", endpoint.id("webhook_endpoint_id"));
    let offered = owner.get(&here).text;
    for way in ["test", "replay", "rotate_secret", "disable", "delete"] {
        assert!(offered.contains(&format!("{here}{way}/")), "{way}: {offered}");
    }
    let taken = fill(&owner, &format!("{here}test/"), &[]);
    assert!(taken.status == 200 && taken.text.contains("It took the message"), "{}", taken.text);
    assert!(receiver.wait_for(1)[0].is_signed_with(endpoint["secret"].as_str().expect("a secret")));
    receiver.answers("418 I'm a teapot", "<script>alert(1)</script>");
    let not_taken = fill(&owner, &format!("{here}test/"), &[]);
    assert!(not_taken.text.contains("did not take") && not_taken.text.contains("418"), "{}", not_taken.text);
    assert!(not_taken.text.contains("&lt;script&gt;alert(1)"), "what it answers is text: {}", not_taken.text);
    let secret = shown(&fill(&owner, &format!("{here}rotate_secret/"), &[]));
    assert!(secret.starts_with("whsec_") && !owner.get(&here).text.contains(&secret), "shown once");
    let messages = receiver.received().len();
    receiver.answers("204 No Content", "");
    fill(&owner, &format!("{here}test/"), &[]);
    let signed = receiver.wait_for(messages + 1);
    let last = signed.last().expect("a message");
    assert!(last.is_signed_with(&secret) && last.is_signed_with(endpoint["secret"].as_str().expect("a secret")));
    assert_eq!(fill(&owner, &format!("{here}disable/"), &[]).header("location"), here);
    let status = || list(&world, "/api/webhook_endpoints/")[0]["status"].clone();
    assert_eq!(status(), "disabled");
    assert!(owner.get(&here).text.contains(&format!("{here}enable/")));
    assert_eq!(fill(&owner, &format!("{here}enable/"), &[]).header("location"), here);
    assert_eq!(status(), "enabled");
    assert_eq!(fill(&owner, &format!("{here}delete/"), &[]).header("location"), "/console/webhooks/");
    assert!(list(&world, "/api/webhook_endpoints/").is_empty());
}
