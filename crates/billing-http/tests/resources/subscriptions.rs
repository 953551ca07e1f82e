//! Subscriptions: dates, choices, and which of them a list keeps.

use serde_json::{Value, json};
use time::Duration;

use crate::support::{Field, World, ago, now};

#[test]
fn dates_are_read_by_one_rule() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-01-01");
    #[rustfmt::skip]
    let cases = [
        // start,                        end,                                start shown,              end shown,                        why
        ("2024-01-15",                   None,                               "2024-01-15T00:00:00Z",   "2024-02-14T23:59:59.999999Z",    "a month from a day"),
        ("2024-01-31",                   None,                               "2024-01-31T00:00:00Z",   "2024-02-28T23:59:59.999999Z",    "a month from the 31st in a leap year"),
        ("2024-01-15T13:30:00Z",         None,                               "2024-01-15T13:30:00Z",   "2024-02-15T13:29:59.999999Z",    "a month from an instant"),
        ("2024-01-15T13:30:00+02:00",    None,                               "2024-01-15T11:30:00Z",   "2024-02-15T11:29:59.999999Z",    "an offset"),
        ("2024-01-15",                   Some("2024-03-31"),                 "2024-01-15T00:00:00Z",   "2024-03-31T23:59:59.999999Z",    "an end of its own holds its day"),
        ("2024-01-15",                   Some("2024-03-31T23:59:59Z"),       "2024-01-15T00:00:00Z",   "2024-03-31T23:59:59.999999Z",    "the last second is the day's end"),
        ("2024-01-15",                   Some("2024-03-31T12:00:00Z"),       "2024-01-15T00:00:00Z",   "2024-03-31T12:00:00Z",           "another time is the last instant inside"),
    ];
    for (i, (start, end, start_shown, end_shown, why)) in cases.into_iter().enumerate() {
        let customer = format!("c{i}");
        world.customer_at(&customer, &clock);
        let mut body = json!({"customer_id": customer, "plan_id": plan, "start_date": start});
        if let Some(end) = end {
            body["end_date"] = json!(end);
        }
        let made = world.post("/api/subscriptions/", &body).ok(200);
        assert_eq!(
            (made.id("start_date"), made.id("end_date")),
            (start_shown.to_owned(), end_shown.to_owned()),
            "{why}"
        );
        // Sending back what was received makes the same again.
        let other = format!("d{i}");
        world.customer_at(&other, &clock);
        let body = json!({"customer_id": other, "plan_id": plan, "start_date": made["start_date"], "end_date": made["end_date"]});
        let again = world.post("/api/subscriptions/", &body).ok(200);
        assert_eq!(
            (again["start_date"].clone(), again["end_date"].clone()),
            (made["start_date"].clone(), made["end_date"].clone()),
            "{why}"
        );
    }
}

#[test]
fn both_ways_to_create_take_a_plan_or_a_version() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let version = world.get(&format!("/api/plans/{plan}/")).ok(200)["versions"][0].id("version_id");
    let clock = world.clock("2024-01-01");
    for (n, path) in ["/api/subscriptions/", "/api/subscriptions/add/"].into_iter().enumerate() {
        for (named, id) in [("plan_id", &plan), ("version_id", &version)] {
            let customer = format!("{named} {n}");
            let body = json!({"customer_id": customer, "email": format!("{named}{n}@acme.io"), "test_clock_id": clock});
            world.post("/api/customers/", &body).ok(201);
            let body = json!({"customer_id": customer, "start_date": "2024-01-01", named: id});
            let made = world.post(path, &body).ok(200);
            assert_eq!(
                (&made["billing_plan"]["plan_id"], &made["billing_plan"]["version_id"]),
                (&json!(plan), &json!(version))
            );
            assert_eq!((&made["auto_renew"], &made["is_new"]), (&json!(true), &json!(true)), "unless said otherwise");
            assert_eq!((&made["metadata"], &made["subscription_filters"]), (&json!({}), &json!([])));
            let filters = json!([{"property_name": "env", "value": "prod"}]);
            let body = json!({"customer_id": customer, "start_date": "2024-02-01", "end_date": "2024-02-10", named: id,
                "auto_renew": false, "is_new": false, "metadata": {"crm": [1]}, "subscription_filters": filters});
            world
                .post(
                    &format!("/api/subscriptions/{}/update/", made.id("subscription_id")),
                    &json!({"turn_off_auto_renew": true}),
                )
                .ok(200);
            let made = world.post(path, &body).ok(200);
            for name in ["auto_renew", "is_new", "metadata", "subscription_filters"] {
                assert_eq!(made[name], body[name], "{name} as it was said");
            }
            assert_eq!(made["end_date"], "2024-02-10T23:59:59.999999Z");
        }
        #[rustfmt::skip]
        let faults = [
            (json!({"plan_id": plan, "version_id": version}), "plan_id",    "not_allowed_together", "two of one"),
            (json!({}),                                       "plan_id",    "required",             "neither"),
            (json!({"version_id": plan}),                     "version_id", "invalid",              "a plan in the place of a version"),
        ];
        for (mut body, attr, code, why) in faults {
            (body["customer_id"], body["start_date"]) = (json!("plan_id 0"), json!("2024-01-01"));
            assert!(world.post(path, &body).faults().contains(&(attr.to_owned(), code.to_owned())), "{path}: {why}");
        }
    }
}

#[test]
fn a_list_keeps_what_it_is_asked_for() {
    let world = World::new();
    let metric = world.metric();
    let (plan, other) = (world.plan(&metric), world.plan(&metric));
    let clock = world.clock("2024-06-15");
    world.customer_at("acme", &clock);
    let filters = json!([{"property_name": "env", "value": "prod"}, {"property_name": "region", "value": "eu"}]);
    let make = |name: &str, body: Value| {
        let mut body = body;
        body["customer_id"] = json!("acme");
        body["metadata"] = json!({"name": name});
        world.post("/api/subscriptions/", &body).ok(200);
    };
    make("now", json!({"plan_id": plan, "start_date": "2024-06-01", "auto_renew": false}));
    make("later", json!({"plan_id": plan, "start_date": "2024-08-01", "auto_renew": false}));
    make(
        "filtered",
        json!({"plan_id": other, "start_date": "2024-06-10", "subscription_filters": filters, "auto_renew": false}),
    );
    #[rustfmt::skip]
    let cases = [
        // query,                                                        kept,                              why
        ("".to_owned(),                                                  vec!["now", "filtered"],           "active ones by default"),
        ("&status=not_started".to_owned(),                               vec!["later"],                     "by status"),
        ("&status=ended".to_owned(),                                     vec![],                            "none has ended"),
        ("&status[]=active&status[]=not_started".to_owned(),             vec!["now", "filtered", "later"],  "several, by start"),
        (format!("&plan_id={other}"),                                    vec!["filtered"],                  "by plan"),
        ("&status=active,not_started&range_start=2024-07-05".to_owned(), vec!["filtered", "later"],         "ending at or after"),
        ("&status=active,not_started&range_end=2024-06-01".to_owned(),   vec!["now"],                       "starting on or before that day"),
    ];
    for (query, expected, why) in &cases {
        assert_eq!(kept(&world, query), *expected, "{query}: {why}");
    }
    let one = "&subscription_filters[0]property_name=env&subscription_filters[0]value=prod";
    assert_eq!(kept(&world, one), ["filtered"], "those that have the filter, and perhaps more");
    let none = "&subscription_filters[0]property_name=env&subscription_filters[0]value=test";
    assert!(kept(&world, none).is_empty(), "another value");

    world.advance(&clock, "2024-09-15");
    assert_eq!(kept(&world, "&status=ended"), ["now", "filtered", "later"]);
    assert_eq!(
        world.get("/api/subscriptions/?customer_id=nobody").faults(),
        [("customer_id".to_owned(), "does_not_exist".to_owned())]
    );
    assert_eq!(world.get("/api/subscriptions/").faults(), [("customer_id".to_owned(), "required".to_owned())]);
}

fn kept(world: &World, query: &str) -> Vec<String> {
    let answer =
        world.get(&format!("/api/subscriptions/?customer_id=acme{}", query.replace('[', "%5B").replace(']', "%5D")));
    answer.ok(200).as_array().expect("a list").iter().map(|subscription| subscription["metadata"].id("name")).collect()
}

#[test]
fn a_renewal_is_a_new_subscription() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    let clock = world.clock("2024-01-01");
    world.customer_at("acme", &clock);
    let body = json!({"customer_id": "acme", "plan_id": plan, "start_date": "2024-01-01"});
    let first = world.post("/api/subscriptions/", &body).ok(200);
    world.advance(&clock, "2024-03-15");
    let all = world.get("/api/subscriptions/?customer_id=acme&status=active,ended").ok(200);
    let all = all.as_array().expect("a list");
    assert_eq!(all.len(), 3, "January, February, March");
    assert_eq!(all[0]["subscription_id"], first["subscription_id"]);
    assert_eq!((all[0]["is_new"].clone(), all[2]["is_new"].clone()), (json!(true), json!(false)));
    assert_eq!(all[2]["start_date"], "2024-03-01T00:00:00Z");
    let invoices = world.get("/api/invoices/?customer_id=acme&status=unpaid").ok(200);
    assert_eq!(invoices.as_array().map(Vec::len), Some(3));
    assert_eq!(world.get("/api/invoices/?customer_id=acme&status=draft").ok(200), json!([]));
    assert_eq!(world.get("/api/invoices/?payment_status=paid,voided").ok(200), json!([]));
    assert_eq!(world.get("/api/invoices/?status=gone").faults(), [("status".to_owned(), "invalid_choice".to_owned())]);
    assert_eq!(
        world.get("/api/invoices/?customer_id=x").faults(),
        [("customer_id".to_owned(), "does_not_exist".to_owned())]
    );
}

/// What was just made is shown without reading it again.
#[test]
fn what_is_answered_of_a_new_one_is_what_is_stored() {
    let world = World::new();
    let plan = world.plan(&world.metric());
    let (today, past) = (&*now(), &*ago(Duration::days(400)));
    #[rustfmt::skip]
    let cases = [
        // start, end,                              renews, why
        (today,   None,                             true,   "it runs, and its usage is to be invoiced"),
        (past,    None,                             true,   "it was renewed since, and all of it is billed"),
        (today,   Some(ago(Duration::days(-3))),    false,  "it ends early"),
    ];
    for (i, (start, end, renews, why)) in cases.into_iter().enumerate() {
        let customer = json!({"customer_id": format!("c{i}"), "email": format!("c{i}@acme.io"), "customer_name": "C"});
        let made = world.post("/api/customers/", &customer).ok(201);
        assert_eq!(made, world.get(&format!("/api/customers/c{i}/")).ok(200), "{why}");
        let mut body =
            json!({"customer_id": format!("c{i}"), "plan_id": plan, "start_date": start, "auto_renew": renews});
        if let Some(end) = end {
            body["end_date"] = json!(end);
        }
        let made = world.post("/api/subscriptions/", &body).ok(200);
        let stored = world.get(&format!("/api/subscriptions/{}/", made.id("subscription_id"))).ok(200);
        assert_eq!(made, stored, "{why}");
    }
}
