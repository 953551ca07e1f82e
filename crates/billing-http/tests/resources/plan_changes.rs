//! Changing and deleting plans and versions over HTTP.

use serde_json::{Value, json};

use crate::support::{Field, World, now, version_body};

fn patch(world: &World, path: &str, body: &Value) -> crate::support::Answer {
    world.write("PATCH", path, body.to_string().as_bytes())
}

#[test]
fn a_plan_is_renamed_and_deleted() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let path = format!("/api/plans/{plan}/");
    let body = json!({"plan_name": "Gold", "plan_description": "better", "tags": ["EU"],
        "external_links": [{"source": "stripe", "external_plan_id": "p_1"}]});
    let changed = patch(&world, &path, &body).ok(200);
    for (name, value) in body.as_object().expect("an object") {
        assert_eq!(&changed[name], value);
    }
    assert_eq!(world.get("/api/plans/?include_tags=eu").ok(200), json!([changed]));
    assert_eq!(patch(&world, &path, &json!({"plan_description": null})).ok(200)["plan_name"], "Gold");
    #[rustfmt::skip]
    let faults = [
        // body,                             attr,            code,      why
        (json!({"plan_name": null}),         "plan_name",     "null",    "a plan has a name"),
        (json!({"plan_name": ""}),           "plan_name",     "blank",   "a plan has a name"),
        (json!({"plan_duration": "yearly"}), "plan_duration", "invalid", "periods are counted by it"),
        (json!({"tags": "eu"}),              "tags",          "not_a_list", "a list"),
    ];
    for (body, attr, code, why) in faults {
        assert_eq!(patch(&world, &path, &body).faults(), [(attr.to_owned(), code.to_owned())], "{why}");
    }

    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    let id = world.post("/api/subscriptions/", &body).ok(200).id("subscription_id");
    let delete = || world.post(&format!("{path}delete/"), &json!({}));
    assert_eq!((delete().status, delete().error()), (400, "invalid_operation".to_owned()), "somebody holds it");
    world.post(&format!("/api/subscriptions/{id}/cancel/"), &json!({})).ok(200);
    let deleted = delete().ok(200);
    assert_eq!((&deleted["plan_id"], &deleted["plan_name"]), (&json!(plan), &json!("Gold")));
    assert_eq!((world.get(&path).status, delete().status), (404, 404));
    assert_eq!(world.get("/api/plans/").ok(200), json!([]));
    let shown = world.get(&format!("/api/subscriptions/{id}/")).ok(200);
    assert_eq!(shown["billing_plan"]["plan_name"], "Gold", "what was subscribed to it still says so");
}

#[test]
fn a_version_changes_in_all_but_its_prices() {
    let world = World::new();
    let metric = world.metric();
    let (plan, other) = (world.plan(&metric), world.plan(&metric));
    world.customer("acme");
    let first = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"][0].clone();
    let mut body = version_body(&metric);
    body["active_from"] = Value::Null;
    let second = world.post(&format!("/api/plans/{plan}/versions/"), &body).ok(201);
    assert_eq!((&first["status"], &second["status"]), (&json!("active"), &json!("not_started")));
    let path = |version: &Value| format!("/api/plan_versions/{}/", version.id("version_id"));

    let named =
        patch(&world, &path(&second), &json!({"localized_name": "Zweite", "target_customers": ["acme"]})).ok(200);
    assert_eq!((&named["plan_name"], &named["target_customers"][0]["customer_id"]), (&json!("Zweite"), &json!("acme")));
    let custom = world.get(&format!("/api/plans/{plan}/?version_custom_type=custom_only")).ok(200);
    assert_eq!(custom["versions"], json!([named]));
    patch(&world, &path(&second), &json!({"localized_name": null, "target_customers": []})).ok(200);

    patch(&world, &path(&first), &json!({"active_from": "2024-01-01"})).ok(200);
    let started = patch(&world, &path(&second), &json!({"active_from": now()})).ok(200);
    assert_eq!(started["status"], "active");
    let old = world.get(&format!("/api/plans/{plan}/?version_status=ended")).ok(200)["versions"][0].clone();
    assert_eq!((&old["version_id"], &old["replace_with"]), (&first["version_id"], &second["version_id"]));
    assert_eq!(old["status"], "inactive", "nobody is subscribed to it");
    assert_eq!(patch(&world, &path(&old), &json!({"transition_to": other})).ok(200)["transition_to"], json!(other));
    let cleared = patch(&world, &path(&old), &json!({"transition_to": null, "replace_with": null})).ok(200);
    assert_eq!((&cleared["transition_to"], &cleared["replace_with"]), (&Value::Null, &Value::Null));

    let foreign = world.get(&format!("/api/plans/{other}/")).ok(200)["versions"][0].id("version_id");
    let nobody = format!("plan_{}", "0".repeat(32));
    #[rustfmt::skip]
    let faults = [
        // body,                                                                attr,                 code,             why
        (json!({"replace_with": foreign}),                                      "replace_with",       "invalid",        "of another plan"),
        (json!({"replace_with": format!("plan_version_{}", "0".repeat(32))}),   "replace_with",       "does_not_exist", "unknown"),
        (json!({"transition_to": plan}),                                        "transition_to",      "invalid",        "its own plan"),
        (json!({"transition_to": nobody}),                                      "transition_to",      "does_not_exist", "unknown"),
        (json!({"target_customers": ["nobody"]}),                               "target_customers.0", "does_not_exist", "unknown"),
        (json!({"target_customers": ["acme", "acme"]}),                         "target_customers.1", "unique",         "twice"),
        (json!({"active_to": "2020-01-01"}),                                    "active_to",          "min_value",      "before the start"),
        (json!({"localized_name": ""}),                                         "localized_name",     "blank",          "no name is null"),
    ];
    for (body, attr, code, why) in faults {
        assert_eq!(patch(&world, &path(&second), &body).faults(), [(attr.to_owned(), code.to_owned())], "{why}");
    }

    let deleted = world.post(&format!("{}delete/", path(&old)), &json!({})).ok(200);
    assert_eq!(deleted["status"], "deleted");
    let left = world.get(&format!("/api/plans/{plan}/")).ok(200);
    assert_eq!(left["versions"].as_array().map(Vec::len), Some(1));
    assert_eq!(patch(&world, &path(&old), &json!({})).error(), "not_found");
    let subscribe = json!({"customer_id": "acme", "version_id": old["version_id"], "start_date": now()[..10]});
    let refused = world.post("/api/subscriptions/", &subscribe).faults();
    assert_eq!(refused, [("version_id".to_owned(), "does_not_exist".to_owned())]);
}

#[test]
fn one_number_may_be_in_several_currencies() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let mut body = version_body(&metric);
    body["version"] = json!(1);
    body["currency_code"] = json!("EUR");
    let path = format!("/api/plans/{plan}/versions/");
    assert_eq!(world.post(&path, &body).ok(201)["version"], json!(1));
    assert_eq!(world.post(&path, &body).error(), "duplicate_resource");
    let shown = world.get(&format!("/api/plans/{plan}/")).ok(200);
    assert_eq!((&shown["num_versions"], shown["versions"].as_array().map(Vec::len)), (&json!(1), Some(2)));
    let euros = world.get(&format!("/api/plans/{plan}/?version_currency_code=EUR")).ok(200);
    assert_eq!(euros["versions"].as_array().map(Vec::len), Some(1));
}
