//! Whether a customer may use a metric.

use serde_json::json;

use crate::support::{Field, World, event, now};

#[test]
fn usage_counts_at_once_and_the_limit_ends_access() {
    let world = World::new();
    let metric = world.metric();
    let mut plan = crate::support::plan_body("Tiny", &metric);
    plan["initial_version"]["components"][0]["tiers"] = json!([{"type": "free", "range_start": 0, "range_end": 3}]);
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    world.customer("acme");
    let path = format!("/api/metric_access/?customer_id=acme&metric_id={metric}");
    let before = world.get(&path).ok(200);
    assert_eq!((&before["access"], &before["access_per_subscription"]), (&json!(false), &json!([])), "no subscription");

    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    for (count, access) in [(0, true), (1, true), (2, true), (3, false), (4, false)] {
        if count > 0 {
            world.post("/api/track/", &event("acme", &format!("e{count}"), &now())).ok(201);
        }
        let answer = world.get(&path).ok(200);
        let considered = &answer["access_per_subscription"][0];
        assert_eq!(answer["access"], json!(access), "after {count}");
        assert_eq!(considered["metric_usage"], json!(count));
        assert_eq!((&considered["metric_free_limit"], &considered["metric_total_limit"]), (&json!(3), &json!(3)));
    }
}

/// Zeros for usage and limits would read like "no allowance".
#[test]
fn a_subscription_without_the_metric_says_so_and_has_no_say() {
    let world = World::new();
    let metric = world.metric();
    let other = world.post("/api/metrics/", &json!({"event_name": "upload"})).ok(201).id("metric_id");
    let (plan, without) = (world.plan(&metric), world.plan(&other));
    world.customer("acme");
    for plan in [&without, &plan] {
        let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    let answer = world.get(&format!("/api/metric_access/?customer_id=acme&metric_id={metric}")).ok(200);
    let considered = answer["access_per_subscription"].as_array().expect("a list");
    assert_eq!((&answer["access"], considered.len()), (&json!(true), 2));
    for row in considered {
        let has_metric = row["subscription"]["plan"]["plan_id"] == json!(plan);
        assert_eq!(row["has_metric"], json!(has_metric), "{row}");
        assert_eq!(row["metric_total_limit"], json!(if has_metric { 1000 } else { 0 }), "{row}");
    }
}

#[test]
fn filters_choose_subscriptions_in_every_spelling() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    world.customer("acme");
    for region in ["eu", "us"] {
        let filters = json!([{"property_name": "region", "value": region}]);
        let body =
            json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10], "subscription_filters": filters});
        world.post("/api/subscriptions/", &body).ok(200);
    }
    let mut used = event("acme", "e1", &now());
    used["properties"] = json!({"region": "eu"});
    world.post("/api/track/", &used).ok(201);
    let path = format!("/api/metric_access/?customer_id=acme&metric_id={metric}");
    assert_eq!(world.get(&path).ok(200)["access_per_subscription"].as_array().map(Vec::len), Some(2));
    #[rustfmt::skip]
    let spellings = [
        "subscription_filters=%5B%7B%22property_name%22%3A%22region%22%2C%22value%22%3A%22eu%22%7D%5D",
        "subscription_filters%5B%5D=%7B%22property_name%22%3A%22region%22%2C%22value%22%3A%22eu%22%7D",
        "subscription_filters%5B0%5Dproperty_name=region&subscription_filters%5B0%5Dvalue=eu",
    ];
    for spelling in spellings {
        let answer = world.get(&format!("{path}&{spelling}")).ok(200);
        let considered = answer["access_per_subscription"].as_array().expect("a list");
        assert_eq!(considered.len(), 1, "{spelling}");
        assert_eq!(considered[0]["subscription"]["subscription_filters"][0]["value"], "eu");
        assert_eq!(considered[0]["metric_usage"], json!(1));
    }
    let absent =
        world.get(&format!("{path}&subscription_filters%5B0%5Dproperty_name=a&subscription_filters%5B0%5Dvalue=b"));
    assert_eq!(absent.ok(200)["access"], json!(false), "no subscription has that filter");
}

#[test]
fn questions_are_checked() {
    let world = World::new();
    let metric = world.metric();
    world.customer("acme");
    let zeros = format!("metric_{}", "0".repeat(32));
    #[rustfmt::skip]
    let cases = [
        // query,                                                          faults,                                                   why
        (String::new(),                                                    vec![("customer_id", "required"), ("metric_id", "required")], "both at once"),
        (format!("customer_id=&metric_id={metric}"),                       vec![("customer_id", "required")],                        "an empty parameter"),
        (format!("customer_id=nobody&metric_id={metric}"),                 vec![("customer_id", "does_not_exist")],                  "an unknown customer"),
        (format!("customer_id=acme&metric_id={zeros}"),                    vec![("metric_id", "does_not_exist")],                    "an unknown metric"),
        ("customer_id=acme&metric_id=metric_abc".to_owned(),               vec![("metric_id", "invalid")],                           "no id"),
        (format!("customer_id=acme&customer_id=b&metric_id={metric}"),     vec![("customer_id", "invalid")],                         "twice"),
        (format!("customer_id=acme&metric_id={metric}&subscription_filters=x"), vec![("subscription_filters", "invalid")],           "no filters"),
    ];
    for (query, expected, why) in cases {
        let faults = world.get(&format!("/api/metric_access/?{query}")).faults();
        let expected: Vec<_> = expected.into_iter().map(|(attr, code)| (attr.to_owned(), code.to_owned())).collect();
        assert_eq!(faults, expected, "{why}");
    }
}

#[test]
fn a_feature_is_granted_by_the_plan() {
    let world = World::new();
    let feature = world.post("/api/features/", &json!({"feature_name": "sso"})).ok(201);
    let plan = json!({"plan_name": "Pro", "plan_duration": "monthly",
        "initial_version": {"currency_code": "USD", "features": [feature["feature_id"]]}});
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    world.customer("acme");
    let path = format!("/api/feature_access/?customer_id=acme&feature_id={}", feature.id("feature_id"));
    let none = world.get(&path).ok(200);
    assert_eq!((&none["access"], &none["access_per_subscription"]), (&json!(false), &json!([])));
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()});
    world.post("/api/subscriptions/", &body).ok(200);
    let granted = world.get(&path).ok(200);
    assert_eq!((&granted["access"], &granted["feature"]), (&json!(true), &feature));
    assert_eq!(granted["access_per_subscription"][0]["access"], json!(true));
    assert_eq!(granted["access_per_subscription"][0]["subscription"]["plan"]["plan_name"], "Pro");
    assert_eq!(world.get("/api/feature_access/?customer_id=acme").faults()[0].0, "feature_id");
}

#[test]
fn the_older_forms_of_the_checks_say_the_same() {
    let world = World::new();
    let metric = world.metric();
    let feature = world.post("/api/features/", &json!({"feature_name": "sso"})).ok(201).id("feature_id");
    let mut plan = crate::support::plan_body("Tiny", &metric);
    plan["initial_version"]["features"] = json!([feature]);
    let plan = world.post("/api/plans/", &plan).ok(201).id("plan_id");
    world.customer("acme");
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]});
    world.post("/api/subscriptions/", &body).ok(200);
    world.post("/api/track/", &event("acme", "e1", &now())).ok(201);

    let component = json!({"event_name": "api_call", "metric_name": world.get(&format!("/api/metrics/{metric}/"))
        .ok(200)["metric_name"], "metric_id": metric, "metric_usage": 1, "metric_free_limit": 10, "metric_total_limit": 1000});
    let usage = json!([{"plan_id": plan, "subscription_filters": [], "usage_per_component": [component]}]);
    let path = "/api/customer_metric_access/?customer_id=acme";
    assert_eq!(world.get(&format!("{path}&metric_id={metric}")).ok(200), usage);
    assert_eq!(world.get(&format!("{path}&event_name=api_call")).ok(200), usage);
    let path = "/api/customer_feature_access/?customer_id=acme&feature_name=sso";
    let granted = json!([{"feature_name": "sso", "plan_id": plan, "subscription_filters": [], "access": true}]);
    assert_eq!(world.get(path).ok(200), granted);

    #[rustfmt::skip]
    let cases = [
        // path,                                                                attr,           code,             why
        ("/api/customer_metric_access/?metric_id=1".to_owned(),                 "customer_id",  "required",       "whose"),
        ("/api/customer_metric_access/?customer_id=acme".to_owned(),            "metric_id",    "invalid",        "of what"),
        (format!("/api/customer_metric_access/?customer_id=acme&metric_id={metric}&event_name=api_call"),
                                                                                "metric_id",    "invalid",        "two of one"),
        ("/api/customer_metric_access/?customer_id=acme&event_name=x".to_owned(), "event_name", "does_not_exist", "nobody counts it"),
        (format!("/api/customer_metric_access/?customer_id=x&metric_id={metric}"), "customer_id", "does_not_exist", "nobody"),
        ("/api/customer_feature_access/?customer_id=acme".to_owned(),           "feature_name", "required",       "which"),
        ("/api/customer_feature_access/?customer_id=acme&feature_name=x".to_owned(), "feature_name", "does_not_exist", "no such feature"),
    ];
    for (path, attr, code, why) in cases {
        let faults = world.get(&path).faults();
        assert!(faults.contains(&(attr.to_owned(), code.to_owned())), "{path}: {why}: {faults:?}");
    }
}
