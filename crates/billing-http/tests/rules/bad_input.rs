//! Bad input of every kind: the right code, and nothing written.

use serde_json::{Value, json};

use crate::support::{Field, World, now, plan_body, version_body};

#[test]
fn bodies_that_cannot_be_read_are_refused_alike_everywhere() {
    let world = World::new();
    let clock = world.clock("2024-01-01");
    let metric = world.metric();
    let plan = world.plan(&metric);
    let before = world.snapshot();
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(40), "]".repeat(40));
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(70_000));
    #[rustfmt::skip]
    let bodies: Vec<(&[u8], &str, u16, &str)> = vec![
        // body,                             code,                    status, why
        (b"{",                               "parse_error",           400, "half an object"),
        (b"{\"a\":NaN}",                     "parse_error",           400, "no JSON value"),
        (b"{\"a\":01}",                      "parse_error",           400, "no JSON number"),
        (b"{}{}",                            "parse_error",           400, "two values"),
        (b"\xef\xbb\xbf{}",                  "parse_error",           400, "a byte order mark"),
        (b"{\"a\":1,\"a\":2}",               "duplicate_json_key",    400, "a key twice"),
        (b"{\"a\":1,\"\\u0061\":2}",         "duplicate_json_key",    400, "a key twice, once escaped"),
        (b"{\"a\":\"\\u0000\"}",             "invalid_encoding",      400, "a NUL"),
        (b"{\"a\":\"\\ud800\"}",             "invalid_encoding",      400, "half a surrogate pair"),
        (b"{\"a\":\"\xff\"}",                "invalid_encoding",      400, "not UTF-8"),
        (deep.as_bytes(),                    "json_too_deep",         400, "too deep"),
        (large.as_bytes(),                   "payload_too_large",     413, "too large"),
        (b"[]",                              "incorrect_type",        400, "a list"),
        (b"null",                            "incorrect_type",        400, "null"),
        (b"7",                               "incorrect_type",        400, "a number"),
    ];
    let posts = [
        "/api/metrics/".to_owned(),
        "/api/features/".to_owned(),
        "/api/plans/".to_owned(),
        format!("/api/plans/{plan}/versions/"),
        "/api/customers/".to_owned(),
        "/api/subscriptions/".to_owned(),
        "/api/test_clocks/".to_owned(),
        format!("/api/test_clocks/{clock}/advance/"),
        "/api/currencies/".to_owned(),
        "/api/api_keys/".to_owned(),
    ];
    let patches = ["/api/organization/".to_owned()];
    let paths = posts.iter().map(|path| ("POST", path)).chain(patches.iter().map(|path| ("PATCH", path)));
    for (method, path) in paths {
        for (body, code, status, why) in &bodies {
            let answer = world.write(method, path, body);
            assert_eq!((answer.status, answer.error().as_str()), (*status, *code), "{method} {path}: {why}");
        }
        for content_type in ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"]
        {
            let headers = [("X-API-KEY", world.key.as_str()), ("Content-Type", content_type)];
            let answer = world.send(method, path, &headers, b"{}");
            assert_eq!(
                (answer.status, answer.error().as_str()),
                (415, "unsupported_media_type"),
                "{path} {content_type}"
            );
        }
    }
    assert_eq!(world.snapshot(), before, "nothing was written");
}

/// A copy of `body` with the value at `pointer` replaced, or removed.
fn changed(body: &Value, pointer: &str, value: Option<Value>) -> Value {
    let mut body = body.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    match (body.pointer_mut(parent).expect("a parent"), value) {
        (Value::Object(fields), Some(value)) => drop(fields.insert(name.to_owned(), value)),
        (Value::Object(fields), None) => drop(fields.remove(name)),
        (Value::Array(list), Some(value)) => list[name.parse::<usize>().expect("an index")] = value,
        (parent, _) => panic!("{parent}"),
    }
    body
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn bad_fields_are_named_and_nothing_is_written() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    world.customer("acme");
    let feature = world.post("/api/features/", &json!({"feature_name": "mfa"})).ok(201).id("feature_id");
    let before = world.snapshot();
    let number = |text: &str| serde_json::from_str::<Value>(text).expect("a number");
    let bodies = [
        ("/api/metrics/", json!({"event_name": "e", "aggregation_type": "sum", "property_name": "p"})),
        ("/api/plans/", plan_body("P", &metric)),
        (
            "/api/customers/",
            json!({"customer_id": "c", "email": "c@b.io", "billing_address":
            {"city": "Bern", "country": "CH", "line1": "1", "postal_code": "3000"}}),
        ),
        ("/api/subscriptions/", json!({"customer_id": "acme", "plan_id": plan, "start_date": now()[..10]})),
        ("/api/currencies/", json!({"code": "CREDITS", "name": "Credits", "symbol": "cr"})),
        ("/api/test_clocks/", json!({"name": "c", "frozen_time": "2024-01-01"})),
        ("/api/api_keys/", json!({"name": "c"})),
        ("/api/features/", json!({"feature_name": "sso"})),
        ("/api/addons/", json!({"addon_name": "A", "currency_code": "USD", "billing_frequency": "one_time"})),
    ];
    let [metrics, plans, customers, subscriptions, currencies, clocks, keys, features, addons] = &bodies;
    let tier = "/initial_version/components/0/tiers/1";
    let long = "x".repeat(6_000);
    #[rustfmt::skip]
    let cases: Vec<(&(&str, Value), String, Option<Value>, &str, &str)> = vec![
        // body,        field,                              value,                          attr,                                              code
        (metrics,       "/event_name".into(),               None,                           "event_name",                                      "required"),
        (metrics,       "/event_name".into(),               Some(json!(null)),              "event_name",                                      "required"),
        (metrics,       "/event_name".into(),               Some(json!("")),                "event_name",                                      "blank"),
        (metrics,       "/event_name".into(),               Some(json!("a\nb")),            "event_name",                                      "invalid"),
        (metrics,       "/event_name".into(),               Some(json!("x".repeat(256))),   "event_name",                                      "max_length"),
        (metrics,       "/event_name".into(),               Some(json!(7)),                 "event_name",                                      "incorrect_type"),
        (metrics,       "/metric_type".into(),              Some(json!("histogram")),       "metric_type",                                     "invalid_choice"),
        (metrics,       "/aggregation_type".into(),         Some(json!("median")),          "aggregation_type",                                "invalid_choice"),
        (metrics,       "/aggregation_type".into(),         Some(json!("latest ")),         "aggregation_type",                                "invalid_choice"),
        (metrics,       "/metric_type".into(),              Some(json!("histogram")),          "metric_type",                                     "invalid_choice"),
        (metrics,       "/property_name".into(),            None,                           "property_name",                                   "required"),
        (metrics,       "/granularity".into(),              Some(json!("days")),            "granularity",                                     "invalid_choice"),
        (metrics,       "/custom_sql".into(),               Some(json!("SELECT 1")),        "custom_sql",                                      "invalid_choice"),
        (metrics,       "/property_name".into(),            Some(json!("")),                "property_name",                                   "required"),
        (metrics,       "/numeric_filters".into(),          Some(json!({})),                "numeric_filters",                                 "not_a_list"),
        (metrics,       "/numeric_filters".into(),          Some(json!([{"operator": "gt", "comparison_value": 1}])), "numeric_filters.0.property_name", "required"),
        (metrics,       "/numeric_filters".into(),          Some(json!([{"property_name": "", "operator": "gt", "comparison_value": 1}])), "numeric_filters.0.property_name", "blank"),
        (metrics,       "/numeric_filters".into(),          Some(json!([{"property_name": "n", "operator": "isin", "comparison_value": 1}])), "numeric_filters.0.operator", "invalid_choice"),
        (metrics,       "/numeric_filters".into(),          Some(json!([{"property_name": "n", "operator": "eq", "comparison_value": "x"}])), "numeric_filters.0.comparison_value", "invalid"),
        (metrics,       "/numeric_filters".into(),          Some(json!([{"property_name": "n", "operator": "eq", "comparison_value": number("1e400")}])), "numeric_filters.0.comparison_value", "max_whole_digits"),
        (metrics,       "/numeric_filters".into(),          Some(json!(vec![json!({"property_name": "n", "operator": "eq", "comparison_value": 1}); 21])), "numeric_filters", "list_too_long"),
        (metrics,       "/categorical_filters".into(),      Some(json!([{"property_name": "n", "operator": "gt", "comparison_value": ["a"]}])), "categorical_filters.0.operator", "invalid_choice"),
        (metrics,       "/categorical_filters".into(),      Some(json!([{"property_name": "n", "operator": "isin", "comparison_value": "a"}])), "categorical_filters.0.comparison_value", "not_a_list"),
        (metrics,       "/categorical_filters".into(),      Some(json!([{"property_name": "n", "operator": "isin", "comparison_value": []}])), "categorical_filters.0.comparison_value", "empty"),
        (metrics,       "/categorical_filters".into(),      Some(json!([{"property_name": "n", "operator": "isin", "comparison_value": [1]}])), "categorical_filters.0.comparison_value.0", "incorrect_type"),
        (metrics,       "/categorical_filters".into(),      Some(json!([{"property_name": "n", "operator": "isin", "comparison_value": ["x".repeat(256)]}])), "categorical_filters.0.comparison_value.0", "max_length"),
        (metrics,       "/categorical_filters".into(),      Some(json!([{"property_name": "n", "operator": "isin", "comparison_value": vec!["a"; 101]}])), "categorical_filters.0.comparison_value", "list_too_long"),
        (plans,         "/plan_name".into(),                None,                           "plan_name",                                       "required"),
        (plans,         "/plan_description".into(),         Some(json!(long)),              "plan_description",                                "max_length"),
        (plans,         "/plan_duration".into(),            Some(json!("weekly")),          "plan_duration",                                   "invalid_choice"),
        (plans,         "/tags".into(),                     Some(json!("a")),               "tags",                                            "not_a_list"),
        (plans,         "/tags".into(),                     Some(json!(["a", null])),       "tags.1",                                          "null"),
        (plans,         "/external_links".into(),           Some(json!([{"source": "paypal", "external_plan_id": "x"}])), "external_links.0.source", "invalid_choice"),
        (plans,         "/initial_version/currency_code".into(), Some(json!("XXX")),        "initial_version.currency_code",                   "does_not_exist"),
        (plans,         "/initial_version/day_anchor".into(), Some(json!(32)),              "initial_version.day_anchor",                      "invalid"),
        (plans,         "/initial_version/features".into(), Some(json!(["feature_1"])),     "initial_version.features.0",                      "invalid"),
        (plans,         "/initial_version/features".into(), Some(json!([feature, feature])), "initial_version.features.1",                     "unique"),
        (plans,         "/initial_version/target_customers".into(), Some(json!(["acme", "acme"])), "initial_version.target_customers.1",       "unique"),
        (plans,         "/initial_version/version".into(),  Some(json!(0)),                 "initial_version.version",                         "min_value"),
        (plans,         "/initial_version/price_adjustment".into(), Some(json!({"price_adjustment_name": "x", "price_adjustment_type": "price_override", "price_adjustment_amount": -5})), "initial_version.price_adjustment.price_adjustment_amount", "min_value"),
        (plans,         "/initial_version/price_adjustment".into(), Some(json!({"price_adjustment_name": "x", "price_adjustment_description": long, "price_adjustment_type": "fixed", "price_adjustment_amount": -5})), "initial_version.price_adjustment.price_adjustment_description", "max_length"),
        (addons,        "/features".into(),                 Some(json!([feature, feature])), "features.1",                                     "unique"),
        (plans,         "/initial_version/target_customers".into(), Some(json!(["nobody"])), "initial_version.target_customers.0",             "does_not_exist"),
        (plans,         "/initial_version/active_to".into(), Some(json!("2000-01-01")),     "initial_version.active_to",                       "min_value"),
        (plans,         "/initial_version/recurring_charges/0/amount".into(), Some(json!(-1)), "initial_version.recurring_charges.0.amount",   "min_value"),
        (plans,         "/initial_version/recurring_charges/0/amount".into(), Some(number("1e999999999")), "initial_version.recurring_charges.0.amount", "max_whole_digits"),
        (plans,         "/initial_version/recurring_charges/0/amount".into(), Some(number("0.0000000000000001")), "initial_version.recurring_charges.0.amount", "max_decimal_places"),
        (plans,         "/initial_version/recurring_charges/0/reset_interval_count".into(), Some(json!(2)), "initial_version.recurring_charges.0.reset_interval_unit", "required"),
        (plans,         "/initial_version/components/0/metric_id".into(), Some(json!("nonsense")), "initial_version.components.0.metric_id",   "invalid"),
        (plans,         "/initial_version/components/0/tiers".into(), Some(json!([])),      "initial_version.components.0.tiers",              "empty"),
        (plans,         "/initial_version/components/0/invoicing_interval_unit".into(), Some(json!("hour")), "initial_version.components.0.invoicing_interval_unit", "invalid_choice"),
        (plans,         format!("{tier}/range_start"),      Some(json!(12)),                "initial_version.components.0.tiers.1.range_start", "invalid"),
        (plans,         format!("{tier}/range_end"),        Some(json!(10)),                "initial_version.components.0.tiers.1.range_end",  "invalid"),
        (plans,         format!("{tier}/cost_per_batch"),   Some(json!(-1)),                "initial_version.components.0.tiers.1.cost_per_batch", "min_value"),
        (plans,         format!("{tier}/cost_per_batch"),   None,                           "initial_version.components.0.tiers.1.cost_per_batch", "required"),
        (plans,         format!("{tier}/metric_units_per_batch"), Some(json!(0)),           "initial_version.components.0.tiers.1.metric_units_per_batch", "min_value"),
        (plans,         format!("{tier}/type"),             Some(json!("stairs")),          "initial_version.components.0.tiers.1.type",       "invalid_choice"),
        (customers,     "/customer_id".into(),              Some(json!("a\u{7}")),          "customer_id",                                     "invalid"),
        (customers,     "/email".into(),                    Some(json!("not-an-email")),    "email",                                           "invalid"),
        (customers,     "/email".into(),                    None,                           "email",                                           "required"),
        (customers,     "/default_currency_code".into(),    Some(json!("XXX")),             "default_currency_code",                           "does_not_exist"),
        (customers,     "/billing_address/country".into(),  Some(json!("XX")),              "billing_address.country",                         "invalid_choice"),
        (customers,     "/billing_address/city".into(),     None,                           "billing_address.city",                            "required"),
        (customers,     "/tax_rate".into(),                 Some(json!(1000)),              "tax_rate",                                        "max_value"),
        (customers,     "/timezone".into(),                 Some(json!("Mars/Olympus")),    "timezone",                                        "invalid_choice"),
        (customers,     "/payment_provider".into(),         Some(json!("stripe")),          "payment_provider_id",                             "required"),
        (customers,     "/payment_provider".into(),         Some(json!("nope")),            "payment_provider",                                "invalid_choice"),
        (customers,     "/properties".into(),               Some(json!({"n": number("1e999999")})), "properties",                              "max_whole_digits"),
        (customers,     "/properties".into(),               Some(json!({"n": "x".repeat(20_000)})), "properties",                              "max_length"),
        (customers,     "/test_clock_id".into(),            Some(json!(format!("test_clock_{}", "0".repeat(32)))), "test_clock_id",                "does_not_exist"),
        (subscriptions, "/customer_id".into(),              Some(json!("nobody")),          "customer_id",                                     "does_not_exist"),
        (subscriptions, "/start_date".into(),               None,                           "start_date",                                      "required"),
        (subscriptions, "/start_date".into(),               Some(json!("yesterday")),       "start_date",                                      "invalid"),
        (subscriptions, "/start_date".into(),               Some(json!("1900-01-01")),      "start_date",                                      "min_value"),
        (subscriptions, "/end_date".into(),                 Some(json!("2000-01-01")),      "end_date",                                        "invalid"),
        (subscriptions, "/plan_id".into(),                  None,                           "plan_id",                                         "required"),
        (subscriptions, "/plan_id".into(),                  Some(json!(format!("plan_{}", "0".repeat(32)))), "plan_id",                        "does_not_exist"),
        (subscriptions, "/version_id".into(),               Some(json!(format!("plan_version_{}", "0".repeat(32)))), "plan_id",                "not_allowed_together"),
        (subscriptions, "/auto_renew".into(),               Some(json!(1)),                 "auto_renew",                                      "incorrect_type"),
        (subscriptions, "/subscription_filters".into(),     Some(json!([{"property_name": "a"}])), "subscription_filters.0.value",             "required"),
        (subscriptions, "/subscription_filters".into(),     Some(json!([{"property_name": "a", "value": "1"}, {"property_name": "a", "value": "2"}])), "subscription_filters.1.property_name", "unique"),
        (subscriptions, "/metadata".into(),                 Some(json!([])),                "metadata",                                        "incorrect_type"),
        (subscriptions, "/component_fixed_charges_initial_units".into(), Some(json!([{"metric_id": metric, "units": 1}])), "component_fixed_charges_initial_units.0.metric_id", "does_not_exist"),
        (currencies,    "/code".into(),                     Some(json!("TOO LONG BY FAR")), "code",                                            "max_length"),
        (currencies,    "/decimals".into(),                 Some(json!(16)),                "decimals",                                        "max_value"),
        (clocks,        "/frozen_time".into(),              Some(json!("2300-01-01")),      "frozen_time",                                     "max_value"),
        (keys,          "/name".into(),                     Some(json!(" ")),               "name",                                            "blank"),
        (features,      "/feature_name".into(),             Some(json!({})),                "feature_name",                                    "incorrect_type"),
    ];
    for ((path, body), field, value, attr, code) in cases {
        let answer = world.post(path, &changed(body, &field, value.clone()));
        assert_eq!(answer.status, 400, "{path} {field} {value:?}: {}", answer.text);
        assert_eq!(answer.faults(), [(attr.to_owned(), code.to_owned())], "{path} {field} {value:?}");
    }
    assert_eq!(world.snapshot(), before, "nothing was written");
    for (path, body) in &bodies {
        let answer = world.post(path, body);
        assert!(matches!(answer.status, 200 | 201), "what was changed for the worse is good itself: {}", answer.text);
    }
}

#[test]
fn no_body_is_an_object_without_fields() {
    let world = World::new();
    let key = ("X-API-KEY", world.key.as_str());
    let json = ("Content-Type", "application/json");
    for headers in [vec![key], vec![key, json]] {
        let needed = world.send("POST", "/api/features/", &headers, b"");
        assert_eq!(needed.faults(), [("feature_name".to_owned(), "required".to_owned())]);
        let unchanged = world.send("PATCH", "/api/organization/", &headers, b"").ok(200);
        assert_eq!(unchanged, world.get("/api/organization/").ok(200));
        let tracked = world.send("POST", "/api/track/", &headers, b"");
        assert_eq!((tracked.status, tracked.json()["success"].clone()), (400, json!("none")));
    }
}

#[test]
fn what_can_be_shown_can_be_asked_for_without_its_body() {
    let world = World::new();
    let head = world.send("HEAD", "/api/ping/", &[("X-API-KEY", world.key.as_str())], b"");
    assert_eq!((head.status, head.header("content-type"), head.text.as_str()), (200, "application/json", ""));
    assert_eq!(world.send("HEAD", "/readyz", &[], b"").status, 200);
    assert_eq!(world.send("HEAD", "/api/track/", &[("X-API-KEY", world.key.as_str())], b"").status, 405);
    assert_eq!(world.send("HEAD", "/api/ping/", &[], b"").status, 401);
}

#[test]
fn rules_refuse_with_codes_of_their_own() {
    let world = World::new();
    let metric = world.metric();
    let plan = world.plan(&metric);
    world.customer("acme");
    let start = now()[..10].to_owned();
    let subscribe = |plan: &str| {
        world.post("/api/subscriptions/", &json!({"customer_id": "acme", "plan_id": plan, "start_date": start}))
    };
    subscribe(&plan).ok(200);
    let before = world.snapshot();

    let overlap = subscribe(&plan);
    assert_eq!((overlap.status, overlap.error().as_str()), (409, "overlapping_plans"));
    let duplicate = world.post("/api/customers/", &json!({"customer_id": "acme", "email": "new@acme.io"}));
    assert_eq!((duplicate.status, duplicate.error().as_str()), (400, "duplicate_resource"));
    assert_eq!(duplicate.json()["validation_errors"], json!([]));
    let in_use = world.write("POST", &format!("/api/metrics/{metric}/archive/"), b"");
    assert_eq!((in_use.status, in_use.error().as_str()), (400, "invalid_operation"));
    let known = world.post("/api/currencies/", &json!({"code": "USD", "name": "x", "symbol": "x"}));
    assert_eq!((known.status, known.error().as_str()), (400, "duplicate_resource"));
    assert_eq!(world.snapshot(), before, "nothing was written");

    let empty =
        world.post("/api/plans/", &json!({"plan_name": "Empty", "plan_duration": "monthly"})).ok(201).id("plan_id");
    assert_eq!(subscribe(&empty).error(), "no_matching_plan_version");
    let mut other = version_body(&metric);
    other["currency_code"] = json!("EUR");
    let mut third = other.clone();
    third["currency_code"] = json!("CHF");
    for version in [&other, &third] {
        world.post(&format!("/api/plans/{empty}/versions/"), version).ok(201);
    }
    assert_eq!(subscribe(&empty).error(), "no_matching_plan_version", "neither currency is the customer's");
    let mut prepaid = plan_body("Prepaid", &metric);
    prepaid["initial_version"]["components"][0]["prepaid_charge"] = json!({"charge_behavior": "full"});
    let prepaid = world.post("/api/plans/", &prepaid).ok(201).id("plan_id");
    assert_eq!(subscribe(&prepaid).error(), "prepayment_cant_determine_units");
}

#[test]
fn ids_in_paths_are_checked() {
    let world = World::new();
    #[rustfmt::skip]
    let cases = [
        // path,                            status, code,                 why
        ("/api/plans/plan_xyz/",            400,    "invalid",            "no id"),
        ("/api/invoices/invoice_xyz/",      400,    "invalid",            "neither id nor number"),
        ("/api/customers/%00/",             400,    "invalid",            "a control character"),
        ("/api/customers/nobody/",          404,    "not_found",          "nobody"),
        ("/api/customers//",                404,    "not_found",          "nothing"),
        ("/api/nope/",                      404,    "not_found",          "no such route"),
    ];
    for (path, status, code, why) in cases {
        let answer = world.get(path);
        assert_eq!((answer.status, answer.error().as_str()), (status, code), "{path}: {why}");
    }
    let long = world.get(&format!("/api/plans/?x={}", "y".repeat(9_000)));
    assert_eq!((long.status, long.error().as_str()), (414, "uri_too_long"));
    let many = world.get(&format!("/api/plans/?{}", "a=1&".repeat(101)));
    assert_eq!(many.faults()[0].1, "list_too_long");
    let put = world.write("PUT", "/api/plans/", b"{}");
    assert_eq!((put.status, put.error().as_str(), put.header("allow")), (405, "method_not_allowed", "GET, HEAD, POST"));
}

#[test]
fn a_number_with_too_many_decimals_is_told_how_many_are_taken() {
    let world = World::new();
    let metric = world.metric();
    #[rustfmt::skip]
    let cases = [
        // number,                    text,                                                              why
        ("0.30000000000000004",       "Ensure that there are no more than 15 decimal places; this number has 17.", "0.1 + 0.2 as floats print it"),
        ("\"0.30000000000000004\"",   "Ensure that there are no more than 15 decimal places; this number has 17.", "as text"),
        ("1e-16",                     "Ensure that there are no more than 15 decimal places; this number has 16.", "by its exponent"),
        ("-12.34567890123456780",     "Ensure that there are no more than 15 decimal places; this number has 16.", "a zero at the end is none"),
        ("1e-999999999",              "Ensure that there are no more than 15 decimal places; this number has 999999999.", "counted, not written out"),
    ];
    for (number, text, why) in cases {
        let body = plan_body("Starter", &metric).to_string().replace("\"amount\":9", &format!("\"amount\":{number}"));
        let answer = world.post_text("/api/plans/", &body);
        let attr = "initial_version.recurring_charges.0.amount";
        assert_eq!(answer.faults(), [(attr.to_owned(), "max_decimal_places".to_owned())], "{why}");
        assert_eq!(answer.json()["detail"], text, "{number}: {why}");
        assert_eq!(answer.json()["validation_errors"][0]["detail"], text, "{number}: {why}");
    }
}
