//! Plans and which of them a list keeps.

use serde_json::{Value, json};

use crate::support::{Field, World, now, plan_body, version_body};

fn names(answer: &Value) -> Vec<String> {
    answer.as_array().expect("a list").iter().map(|plan| plan.id("plan_name")).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn filters_keep_plans_and_versions() {
    let world = World::new();
    let metric = world.metric();
    world.customer("acme");
    let version = |changes: Value| {
        let mut body = version_body(&metric);
        for (name, value) in changes.as_object().expect("an object") {
            body[name] = value.clone();
        }
        body
    };
    let make = |name: &str, duration: &str, tags: &[&str], versions: &[Value]| {
        let body = json!({"plan_name": name, "plan_duration": duration, "tags": tags});
        let plan = world.post("/api/plans/", &body).ok(201).id("plan_id");
        for version in versions {
            world.post(&format!("/api/plans/{plan}/versions/"), version).ok(201);
        }
        plan
    };
    let usd = version(json!({}));
    let eur = version(json!({"currency_code": "EUR"}));
    let custom = version(json!({"target_customers": ["acme"]}));
    let coming = version(json!({"active_from": "2199-01-01"}));
    let dormant = version(json!({"active_from": null, "currency_code": "CHF"}));
    let over = version(json!({"active_from": "2020-01-01", "active_to": "2021-01-01", "currency_code": "GBP"}));
    let mixed = make("Mixed", "monthly", &["Paid", "new"], &[usd.clone(), eur, custom]);
    make("Yearly", "yearly", &["paid"], &[usd]);
    make("Later", "quarterly", &[], &[coming, dormant]);
    make("Old", "monthly", &["old"], &[over]);
    make("Bare", "monthly", &["paid"], &[]);

    #[rustfmt::skip]
    let cases = [
        // query,                                             plans,                                      why
        ("",                                                  vec!["Old", "Later", "Yearly", "Mixed"],    "newest first; one without versions is left out"),
        ("duration=monthly",                                  vec!["Old", "Mixed"],                       "by duration"),
        ("include_tags=paid",                                 vec!["Yearly", "Mixed"],                    "tags have no case"),
        ("include_tags=old&include_tags=NEW",                 vec!["Old", "Mixed"],                       "any of several"),
        ("include_tags_all=paid,new",                         vec!["Mixed"],                              "all of several"),
        ("exclude_tags[]=paid&exclude_tags[]=old",            vec!["Later"],                              "none of several"),
        ("version_currency_code=EUR",                         vec!["Mixed"],                              "by currency"),
        ("version_currency_code=JPY",                         vec![],                                     "no version in it"),
        ("version_custom_type=custom_only",                   vec!["Mixed"],                              "custom versions"),
        ("version_custom_type=public_only",                   vec!["Old", "Later", "Yearly", "Mixed"],    "public versions"),
        ("duration=quarterly",                                vec!["Later"],                              "another duration"),
        ("duration=yearly",                                   vec!["Yearly"],                             "the third"),
        ("version_custom_type=all",                           vec!["Old", "Later", "Yearly", "Mixed"],    "both, as when it is left out"),
        ("version_status=active,not_started,ended",           vec!["Old", "Later", "Yearly", "Mixed"],    "all three, as when it is left out"),
        ("version_status=active",                             vec!["Yearly", "Mixed"],                    "to be had now"),
        ("version_status=not_started",                        vec!["Later"],                              "not yet, or never so far"),
        ("version_status=ended",                              vec!["Old"],                                "no longer"),
        ("version_status=ended&version_status=not_started",   vec!["Old", "Later"],                       "either"),
        ("version_status=active&version_currency_code=GBP",   vec![],                                     "one version must match all"),
    ];
    for (query, expected, why) in cases {
        assert_eq!(names(&world.get(&format!("/api/plans/?{query}")).ok(200)), expected, "{query}: {why}");
    }
    let kept = |query: &str| {
        let plan = world.get(&format!("/api/plans/{mixed}/?{query}")).ok(200);
        (
            plan["versions"].as_array().expect("a list").len(),
            plan["num_versions"].clone(),
            plan["active_version"].clone(),
        )
    };
    assert_eq!(kept(""), (3, json!(2), json!(2)));
    assert_eq!(kept("version_currency_code=EUR"), (1, json!(2), json!(2)), "counts are over all versions");
    assert_eq!(kept("version_custom_type=custom_only").0, 1);
    assert_eq!(kept("version_custom_type=public_only").0, 2);
    assert_eq!(kept("version_custom_type=all&version_status=active").0, 3);
    assert_eq!(world.get(&format!("/api/plans/{mixed}/?version_status=ended")).error(), "not_found");
    #[rustfmt::skip]
    let faults = [
        // query,                       attr,                     code
        ("duration=weekly",             "duration",               "invalid_choice"),
        ("version_custom_type=some",    "version_custom_type",    "invalid_choice"),
        ("version_status=active,gone",  "version_status",       "invalid_choice"),
        ("version_currency_code=XXX",   "version_currency_code",  "does_not_exist"),
    ];
    for (query, attr, code) in faults {
        let answer = world.get(&format!("/api/plans/?{query}"));
        assert_eq!(answer.faults(), [(attr.to_owned(), code.to_owned())], "{query}");
        if attr.starts_with("version_") {
            let answer = world.get(&format!("/api/plans/{mixed}/?{query}"));
            assert_eq!(answer.faults(), [(attr.to_owned(), code.to_owned())], "one plan, {query}");
        }
    }
}

#[test]
fn a_new_version_takes_the_place_of_the_old() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.post("/api/plans/", &plan_body("Starter", &metric)).ok(201);
    assert_eq!((plan["active_version"].clone(), plan["versions"][0]["status"].clone()), (json!(1), json!("active")));
    let path = format!("/api/plans/{}/", plan.id("plan_id"));
    let second = world.post(&format!("{path}versions/"), &version_body(&metric)).ok(201);
    assert_eq!(second["version"], json!(2));
    assert!(second.id("version_id").starts_with("plan_version_"));
    let shown = world.get(&path).ok(200);
    assert_eq!((&shown["active_version"], &shown["num_versions"]), (&json!(2), &json!(2)));
    assert_eq!(shown["versions"][0]["status"], "inactive", "nobody holds the first");
    assert_eq!(shown["display_version"]["version_id"], second["version_id"]);
}

#[test]
fn a_plan_alone_may_be_too_little_or_too_much() {
    let world = World::new();
    let metric = world.metric();
    for customer in ["acme", "other"] {
        let body = json!({"customer_id": customer, "email": format!("{customer}@acme.io")});
        world.post("/api/customers/", &body).ok(201);
    }
    let made_for = |customers: &[&str]| {
        let mut version = version_body(&metric);
        version["target_customers"] = json!(customers);
        version
    };
    let plan = |versions: &[Value]| {
        let plan =
            world.post("/api/plans/", &json!({"plan_name": "P", "plan_duration": "monthly"})).ok(201).id("plan_id");
        for version in versions {
            world.post(&format!("/api/plans/{plan}/versions/"), version).ok(201);
        }
        plan
    };
    #[rustfmt::skip]
    let cases = [
        // versions,                                                code,                               why
        (vec![],                                                    "no_matching_plan_version",         "there is none"),
        (vec![made_for(&["other"])],                                "plan_not_available_to_customer",   "it is made for another"),
        (vec![made_for(&["acme"]), made_for(&["acme", "other"])],   "ambiguous_plan_version",           "two are made for the customer"),
    ];
    for (versions, code, why) in cases {
        let before = world.snapshot().len();
        let body = json!({"customer_id": "acme", "plan_id": plan(&versions), "start_date": &now()[..10]});
        let refused = world.post("/api/subscriptions/", &body);
        assert_eq!((refused.status, refused.error().as_str()), (400, code), "{why}");
        assert_eq!(world.post("/api/subscriptions/add/", &body).error(), code, "{why}");
        assert_eq!(world.get("/api/subscriptions/?customer_id=acme").ok(200), json!([]), "{why}: nothing is half made");
        assert_eq!(world.snapshot().len(), before);
    }
}
