//! Events, listed.

use billing_domain::store::Overviews;
use billing_store::PgStore;
use serde_json::json;

use crate::support::{Field, World, event, now};

#[test]
fn events_are_listed_with_every_digit_and_what_they_do_not_count_for() {
    let world = World::new();
    let sum = json!({"event_name": "upload", "aggregation_type": "sum", "property_name": "mb"});
    let sum = world.post("/api/metrics/", &sum).ok(201).id("metric_id");
    let unique = json!({"event_name": "upload", "aggregation_type": "unique", "property_name": "user"});
    let unique = world.post("/api/metrics/", &unique).ok(201).id("metric_id");
    let count = world.post("/api/metrics/", &json!({"event_name": "upload"})).ok(201).id("metric_id");
    world.customer("new");
    let time = now();
    for (id, properties) in
        [("a", r#"{"mb":1.50000000000000000000000000001,"user":7}"#), ("b", r#"{"mb":"many","user":"x"}"#), ("c", "{}")]
    {
        let body = format!(
            r#"{{"customer_id":"new","event_name":"upload","idempotency_id":"{id}","time_created":"{time}","properties":{properties}}}"#
        );
        world.post_text("/api/track/", &body).ok(201);
    }
    world.post("/api/track/", &event("new", "d", &time)).ok(201);
    let answer = world.get("/api/events/?customer_id=new&limit=2");
    let first = answer.ok(200);
    let rest = world.get(&answer.next(&world).expect("a link")).ok(200);
    let ids = |list: &serde_json::Value| {
        list.as_array().expect("a list").iter().map(|event| event.id("idempotency_id")).collect::<Vec<_>>().concat()
    };
    assert_eq!((ids(&first).as_str(), ids(&rest).as_str()), ("dc", "ba"), "newest first");
    assert_eq!((&first[0]["unusable_for"], &first[0]["event_name"]), (&json!([]), &json!("api_call")));
    let counting: Vec<_> =
        [&first[0], &first[1], &rest[0], &rest[1]].iter().map(|row| row["counts_for"].clone()).collect();
    let all = json!([sum, unique, count]);
    assert_eq!(counting, [json!([]), json!([count]), json!([unique, count]), all], "each for what it can be used for");
    assert_eq!(first[1]["unusable_for"], json!([sum, unique]));
    assert_eq!(rest[0]["unusable_for"], json!([sum]));
    assert_eq!(rest[1]["unusable_for"], json!([]));
    assert_eq!(rest[1]["properties"]["mb"].to_string(), "1.50000000000000000000000000001");
    assert_eq!((rest[1].id("time_created"), rest[1].id("customer_id")), (time, "new".to_owned()));

    assert_eq!(ids(&world.get("/api/events/?customer_id=new&event_name=api_call").ok(200)), "d");
    assert_eq!(ids(&world.get("/api/events/?customer_id=new&idempotency_id=b").ok(200)), "b");
    assert_eq!(world.get("/api/events/?customer_id=nobody").ok(200), json!([]));
    for (query, attr, code) in [("", "customer_id", "required"), ("customer_id=new&cursor=x", "cursor", "invalid")] {
        let faults = world.get(&format!("/api/events/?{query}")).faults();
        assert_eq!(faults, [(attr.to_owned(), code.to_owned())]);
    }
    let other = world.other_key();
    let foreign = world.send("GET", "/api/events/?customer_id=new", &[("X-API-KEY", &other)], b"").ok(200);
    assert_eq!(foreign, json!([]), "another organization has none of them");
}

#[test]
fn an_id_is_found_whosever_it_is() {
    let world = World::new();
    let metric = world.metric();
    world.customer("c1");
    let sent = (0..60).map(|n| event(&format!("c{n}"), "same", &now())).chain([event("c7", "only", &now())]);
    world.post("/api/track/", &json!({"batch": sent.collect::<Vec<_>>()})).ok(201);
    let only = world.get("/api/events/?idempotency_id=only").ok(200);
    assert_eq!(only.as_array().map(Vec::len), Some(1));
    assert_eq!((only[0].id("customer_id"), &only[0]["counts_for"]), ("c7".to_owned(), &json!([])), "nobody is c7 yet");
    let first = world.get("/api/events/?idempotency_id=same");
    let second = world.get(&first.next(&world).expect("a link"));
    assert!(second.next(&world).is_none(), "that is all");
    let pages = [first.ok(200), second.ok(200)].map(|page| page.as_array().expect("a list").clone());
    let mut whose: Vec<String> = pages.concat().iter().map(|event| event.id("customer_id")).collect();
    assert_eq!((pages[0].len(), whose.len()), (50, 60), "each once");
    whose.sort();
    whose.dedup();
    assert_eq!(whose.len(), 60, "each once");
    let counting = pages.concat().into_iter().filter(|event| event["counts_for"] == json!([metric]));
    assert_eq!(counting.map(|event| event.id("customer_id")).collect::<Vec<_>>(), ["c1"], "the one who is there");
    for (query, found, why) in [
        ("idempotency_id=only&event_name=mail", 0, "the other parameters hold"),
        ("idempotency_id=only&state=voided", 0, "of what became of it"),
        ("idempotency_id=only&state=counted", 1, "as well"),
        ("idempotency_id=onl", 0, "the whole of it"),
        ("idempotency_id=same&customer_id=c3", 1, "of one customer"),
    ] {
        let list = world.get(&format!("/api/events/?{query}")).ok(200);
        assert_eq!(list.as_array().map(Vec::len), Some(found), "{query}: {why}");
    }
    let other = world.other_key();
    let foreign = world.send("GET", "/api/events/?idempotency_id=same", &[("X-API-KEY", &other)], b"").ok(200);
    assert_eq!(foreign, json!([]), "another organization has none of them");
}

#[test]
fn an_event_that_counts_for_nothing_says_so() {
    let world = World::new();
    let filters = json!([{"property_name": "region", "operator": "isin", "comparison_value": ["eu"]}]);
    let metric = json!({"event_name": "api_call", "categorical_filters": filters});
    let metric = world.post("/api/metrics/", &metric).ok(201).id("metric_id");
    let archived = json!({"metric_name": "archived", "event_name": "api_call"});
    let archived = world.post("/api/metrics/", &archived).ok(201).id("metric_id");
    world.post(&format!("/api/metrics/{archived}/archive/"), &json!({})).ok(200);
    world.customer("acme");
    let of = |customer: &str, name: &str, region: &str| {
        let mut event = event(customer, &format!("{customer} {name} {region}"), &now());
        event["event_name"] = json!(name);
        event["properties"] = json!({"region": region});
        event
    };
    #[rustfmt::skip]
    let cases = [
        // customer, name,       region, counts for,                 why
        ("acme",     "api_call", "eu",   json!([metric, archived]), "customer, name and filter are right; what is archived is billed still"),
        ("acme",     "api_call", "us",   json!([archived]),         "one metric filters it out"),
        ("acme",     "apicall",  "eu",   json!([]),                 "nothing counts that name"),
        ("acne",     "api_call", "eu",   json!([]),                 "there is no such customer"),
    ];
    let uncounted = || {
        let page = world.send("GET", "/metrics", &[], b"").text;
        ["event_name", "customer"].map(|reason| {
            let series = format!("billing_events_uncounted_total{{reason=\"{reason}\"}} ");
            let value = page.lines().find_map(|line| line.strip_prefix(&series)).expect("a counter");
            value.parse::<u32>().expect("a number")
        })
    };
    for (customer, name, region, counts, why) in cases {
        let event = of(customer, name, region);
        world.post("/api/track/", &event).ok(201);
        world.post("/api/track/", &event).ok(201);
        let id = event.id("idempotency_id").replace(' ', "%20");
        let row = &world.get(&format!("/api/events/?customer_id={customer}&idempotency_id={id}")).ok(200)[0];
        assert_eq!(row["counts_for"], counts, "{why}");
        assert_eq!(row["unusable_for"], json!([]), "{why}");
    }
    assert_eq!(uncounted(), [1, 1], "that of a name that nothing counts, and that of nobody, each once");

    world.post("/api/customers/", &json!({"customer_id": "acne", "email": "acne@acme.io"})).ok(201);
    let late = &world.get("/api/events/?customer_id=acne").ok(200)[0];
    assert_eq!(late["counts_for"], json!([metric, archived]), "it counts as soon as its customer is there");
    world.post("/api/track/", &of("acne", "api_call", "us")).ok(201);
    assert_eq!(uncounted(), [1, 1], "and is not among them any more");
    let other = world.other_key();
    let headers = [("X-API-KEY", other.as_str()), ("Content-Type", "application/json")];
    world.send("POST", "/api/track/", &headers, of("acme", "api_call", "eu").to_string().as_bytes()).ok(201);
    assert_eq!(uncounted(), [1, 2], "another organization has no such customer");

    let query = "SELECT COUNT(*) AS usage_qty FROM events WHERE event_name = 'apicall'";
    let custom = json!({"metric_name": "custom", "metric_type": "custom", "custom_sql": query});
    world.post("/api/metrics/", &custom).ok(201);
    world.post("/api/track/", &of("acme", "apicall", "eu later")).ok(201);
    world.post("/api/track/", &of("nobody", "apicall", "eu later")).ok(201);
    assert_eq!(uncounted(), [1, 3], "a custom query may look at any name, but not at nobody's");
}

#[test]
fn the_overview_tells_how_many_events_came_and_which_count_for_nothing() {
    let mut world = World::new();
    world.metric();
    world.customer("acme");
    let of = |customer: &str, name: &str, id: &str| {
        let mut event = event(customer, id, &now());
        event["event_name"] = json!(name);
        event
    };
    let batch = [
        of("acme", "api_call", "1"),
        of("acme", "apicall", "2"),
        of("acne", "api_call", "3"),
        of("acne", "api_call", "4"),
    ];
    world.post("/api/track/", &json!({"batch": batch})).ok(201);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let events = loop {
        let events = world.get("/api/overview/").ok(200)["events"].clone();
        if events["last_hour"] == 4 {
            break events;
        }
        assert!(events["last_hour"] == 0 && std::time::Instant::now() < until, "all of a call at once: {events}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert_eq!((&events["of_unknown_customers"], &events["of_unknown_names"]), (&json!(2), &json!(1)), "{events}");
    let minutes = events["by_minute"].as_array().expect("minutes");
    let of_minutes = |field: &str| minutes.iter().filter_map(|minute| minute[field].as_u64()).sum::<u64>();
    assert_eq!((minutes.len(), of_minutes("event_count"), of_minutes("uncounted_count")), (60, 4, 3), "{events}");
    let uncounted = events["uncounted"].as_array().expect("a list");
    let mut told: Vec<_> = uncounted
        .iter()
        .map(|one| {
            let told = ["reason", "customer_id", "event_name"].map(|field| one.id(field));
            (told, one["event_count"].as_u64())
        })
        .collect();
    told.sort();
    let expected = [
        (["unknown_customer", "acne", "api_call"].map(str::to_owned), Some(2)),
        (["unknown_event_name", "acme", "apicall"].map(str::to_owned), Some(1)),
    ];
    assert_eq!(told, expected);
    world.post("/api/customers/", &json!({"customer_id": "acne", "email": "acne@acme.io"})).ok(201);
    let left = world.get("/api/overview/").ok(200)["events"]["uncounted"].clone();
    assert_eq!(
        (left.as_array().map(Vec::len), left[0].id("event_name")),
        (Some(1), "apicall".to_owned()),
        "acne is known now"
    );
    let headers = [("X-API-KEY", &*world.other_key())];
    let other = world.send("GET", "/api/overview/", &headers, b"").ok(200);
    assert_eq!(
        (&other["events"]["last_hour"], &other["events"]["uncounted"]),
        (&json!(0), &json!([])),
        "another tenant's"
    );
    world.post("/api/track/", &of("acme", "api_call", "5")).ok(201);
    world.stop();
    let another = PgStore::connect(world.url(), 1).expect("another process");
    let minutes = another.recent_events(world.organization).expect("read").minutes;
    assert_eq!(minutes.iter().map(|minute| minute.stored).sum::<u64>(), 5, "whoever stops notes what it knows");
}

#[test]
fn events_of_a_time_are_listed() {
    let world = World::new();
    world.customer("acme");
    let start = time::OffsetDateTime::now_utc();
    let day = |ahead: i64| (start + time::Duration::days(ahead)).date();
    let (before, yesterday, today) = (day(-2), day(-1), day(0));
    for (id, time) in [
        ("a", format!("{before}T23:59:59.999999Z")),
        ("b", format!("{yesterday}T00:00:00Z")),
        ("c", format!("{yesterday}T23:59:59.999999Z")),
        ("d", format!("{today}T00:00:00Z")),
    ] {
        world.post("/api/track/", &event("acme", id, &time)).ok(201);
    }
    #[rustfmt::skip]
    let cases = [
        // from and to,                                                 found,  why
        (String::new(),                                                 "dcba", "all there is"),
        (format!("&from={yesterday}"),                                  "dcb",  "a day begins at its midnight"),
        (format!("&to={yesterday}"),                                    "cba",  "and is inside to its end"),
        (format!("&from={yesterday}&to={yesterday}"),                   "cb",   "one day"),
        (format!("&from={yesterday}T00:00:00Z&to={today}T00:00:00Z"),   "cb",   "an end is the first instant outside"),
        (format!("&from={yesterday}T00:00:00.000001Z&to={today}"),      "dc",   "to the microsecond"),
        (format!("&from={today}T00:00:00Z&to={today}T00:00:00Z"),       "",     "a time of no length"),
        (format!("&to={yesterday}&event_name=api_call&limit=1"),        "c",    "with other filters"),
        (format!("&to={yesterday}&event_name=upload"),                  "",     "which have their say"),
    ];
    for (query, found, why) in cases {
        let list = world.get(&format!("/api/events/?customer_id=acme{query}")).ok(200);
        let ids = list.as_array().expect("a list").iter().map(|event| event.id("idempotency_id"));
        assert_eq!(ids.collect::<String>(), found, "{query}: {why}");
    }
    // The link to the next page keeps to the time.
    let first = world.get(&format!("/api/events/?customer_id=acme&from={yesterday}&to={yesterday}&limit=1"));
    let second = world.get(&first.next(&world).expect("a link"));
    assert_eq!((second.ok(200)[0].id("idempotency_id").as_str(), second.next(&world)), ("b", None));
    #[rustfmt::skip]
    let bad = [
        // from and to,                            named,  code
        (format!("&from={today}&to={before}"),     "to",   "min_value"),
        ("&from=soon".to_owned(),                  "from", "invalid"),
        (format!("&to={today}&to={today}"),        "to",   "invalid"),
    ];
    for (query, attr, code) in bad {
        let faults = world.get(&format!("/api/events/?customer_id=acme{query}")).faults();
        assert_eq!(faults, [(attr.to_owned(), code.to_owned())], "{query}");
    }
}
