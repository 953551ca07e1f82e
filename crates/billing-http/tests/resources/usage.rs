//! Usage by time.

use serde_json::{Value, json};

use crate::support::{Field, World, event};

/// A customer in New York in the spring of 2024 with a call in each of three days around the change of clocks.
fn new_york() -> (World, String) {
    let world = World::new();
    let metric = world.metric();
    let clock = world.clock("2024-03-12T12:00:00Z");
    let body = json!({"customer_id": "acme", "email": "a@acme.io", "test_clock_id": clock,
        "timezone": "America/New_York"});
    world.post("/api/customers/", &body).ok(201);
    #[rustfmt::skip]
    let times = [
        "2024-03-09T05:00:00Z", // midnight in winter
        "2024-03-10T04:59:59.999999Z", // the last microsecond of the 9th
        "2024-03-10T05:00:00Z", // the first of the 10th
        "2024-03-11T03:59:59.999999Z", // the last of the 10th, in summer
        "2024-03-11T04:00:00Z",
        "2024-03-12T12:00:00Z", // now
    ];
    let events: Vec<Value> = (0..).zip(times).map(|(n, time)| event("acme", &format!("e{n}"), time)).collect();
    world.post("/api/track/", &json!({"batch": events})).ok(201);
    (world, metric)
}

fn windows(answer: &Value) -> Vec<(String, String, String)> {
    let all = answer["windows"].as_array().expect("windows").iter();
    all.map(|window| (window.id("start"), window.id("end"), window["quantity"].to_string())).collect()
}

#[test]
fn windows_follow_the_customers_clocks() {
    let (world, metric) = new_york();
    let path = format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-03-09&end=2024-03-11");
    let days = world.get(&format!("{path}&window=day")).ok(200);
    let expected = [
        ("2024-03-09T05:00:00Z", "2024-03-10T05:00:00Z", "2"),
        ("2024-03-10T05:00:00Z", "2024-03-11T04:00:00Z", "2"),
        ("2024-03-11T04:00:00Z", "2024-03-12T04:00:00Z", "1"),
    ];
    assert_eq!(windows(&days), expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    let whole = json!({"start": "2024-03-09T05:00:00Z", "end": "2024-03-12T04:00:00Z", "quantity": 5,
        "event_count": 5});
    assert_eq!((&days["total"], &days["window"]), (&whole, &json!("day")));
    assert_eq!((days.id("timezone"), days.id("customer_id")), ("America/New_York".to_owned(), "acme".to_owned()));

    let undivided = world.get(&path).ok(200);
    assert_eq!((&undivided["windows"], &undivided["window"]), (&json!([whole]), &json!(null)));
    let hours = world.get(&format!("{path}&window=hour")).ok(200);
    assert_eq!(hours["windows"].as_array().map(Vec::len), Some(24 + 23 + 24));
    let utc = world.get(&format!("{path}&window=day&timezone=UTC")).ok(200);
    let quantities: Vec<_> = windows(&utc).into_iter().map(|(.., quantity)| quantity).collect();
    assert_eq!(quantities, ["1", "2", "2"]);
    let until_now = format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-02-10T12:00:00-05:00");
    let until_now = world.get(&format!("{until_now}&window=month")).ok(200);
    let expected = [
        ("2024-02-10T17:00:00Z", "2024-03-01T05:00:00Z", "0"),
        ("2024-03-01T05:00:00Z", "2024-03-12T12:00:00.000001Z", "6"),
    ];
    assert_eq!(windows(&until_now), expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
    for answer in [&days, &hours, &utc, &until_now] {
        let parts = std::iter::once(&answer["total"]).chain(answer["windows"].as_array().expect("windows"));
        for part in parts {
            let (start, end) = (part.id("start"), part.id("end"));
            let again = format!("/api/usage/?customer_id=acme&metric_id={metric}&start={start}&end={end}");
            assert_eq!(world.get(&again).ok(200)["total"], *part, "what an answer says can be asked");
        }
    }
}

/// Calls at the edges of an hour and of a day, in real time's past; the metric.
fn edges() -> (World, String) {
    let world = World::new();
    let metric = world.metric();
    let clock = world.clock("2024-03-20");
    world.customer_at("acme", &clock);
    let times =
        ["2024-03-01T11:59:59.999999Z", "2024-03-01T12:00:00Z", "2024-03-01T23:59:59.5Z", "2024-03-02T00:00:00Z"];
    let events: Vec<Value> = (0..).zip(times).map(|(n, time)| event("acme", &format!("e{n}"), time)).collect();
    world.post("/api/track/", &json!({"batch": events})).ok(201);
    (world, metric)
}

#[test]
fn an_end_is_the_first_instant_outside() {
    let (world, metric) = edges();
    #[rustfmt::skip]
    let cases = [
        // start,                  end,                            until,                          calls, why
        ("2024-03-01",             "2024-03-01T12:00:00Z",         "2024-03-01T12:00:00Z",         1,     "noon itself belongs to what follows"),
        ("2024-03-01",             "2024-03-01T12:00Z",            "2024-03-01T12:00:00Z",         1,     "without seconds"),
        ("2024-03-01",             "2024-03-01T14:00:00%2B02:00",  "2024-03-01T12:00:00Z",         1,     "by another clock"),
        ("2024-03-01",             "2024-03-01T12:00:00.000001Z",  "2024-03-01T12:00:00.000001Z",  2,     "and with it"),
        ("2024-03-01T12:00:00Z",   "2024-03-02T00:00:00Z",         "2024-03-02T00:00:00Z",         2,     "what follows, to midnight"),
        ("2024-03-01",             "2024-03-01",                   "2024-03-02T00:00:00Z",         3,     "a date is the whole day"),
        ("2024-03-01",             "2024-03-01T23:59:59Z",         "2024-03-02T00:00:00Z",         3,     "the end of the day, as many write it"),
        ("2024-03-01",             "2024-03-01T23:59:59.999Z",     "2024-03-02T00:00:00Z",         3,     "with any fraction"),
        ("2024-03-01",             "2024-03-01T23:59:59.999999Z",  "2024-03-02T00:00:00Z",         3,     "as end_date has it"),
        ("2024-03-01",             "2024-03-01T11:59:59.999999Z",  "2024-03-01T12:00:00Z",         1,     "as end_date has the end of another hour: the last microsecond inside"),
        ("2024-03-01",             "2024-03-02T00:00:00Z",         "2024-03-02T00:00:00Z",         3,     "midnight belongs to the day it begins"),
        ("2024-03-01T12:00:00Z",   "2024-03-01T12:00:00Z",         "2024-03-01T12:00:00Z",         0,     "no time at all"),
    ];
    for (start, end, until, calls, why) in cases {
        for window in ["", "&window=hour", "&window=day", "&window=month"] {
            let path = format!("/api/usage/?customer_id=acme&metric_id={metric}&start={start}&end={end}{window}");
            let answer = world.get(&path).ok(200);
            assert_eq!(
                (&answer["total"]["end"], &answer["total"]["quantity"]),
                (&json!(until), &json!(calls)),
                "{end}{window}: {why}"
            );
            let sum: u64 = answer["windows"]
                .as_array()
                .expect("windows")
                .iter()
                .filter_map(|window| window["quantity"].as_u64())
                .sum();
            assert_eq!(sum, calls, "{end}{window}: {why}");
        }
    }
}

#[test]
fn a_window_that_now_begins_is_shown_once_something_is_in_it() {
    let (world, metric) = edges();
    let days = |start: &str| {
        let path = format!("/api/usage/?customer_id=acme&metric_id={metric}&start={start}&window=day");
        let answer = world.get(&path).ok(200);
        let starts: Vec<String> = windows(&answer).into_iter().map(|(start, ..)| start[..10].to_owned()).collect();
        (starts.join(" "), answer["total"]["quantity"].to_string())
    };
    let shown = |starts: &str, calls: &str| (starts.to_owned(), calls.to_owned());
    assert_eq!(days("2024-03-18"), shown("2024-03-18 2024-03-19", "0"), "now is midnight: the 20th has nothing yet");
    assert_eq!(days("2024-03-20"), shown("2024-03-20", "0"), "the only window");
    world.post("/api/track/", &event("acme", "now", "2024-03-20T00:00:00Z")).ok(201);
    assert_eq!(days("2024-03-18"), shown("2024-03-18 2024-03-19 2024-03-20", "1"), "what happens now counts");
}

#[test]
fn questions_that_meet_count_no_event_twice() {
    let (world, metric) = edges();
    let usage = |start: &str, end: &str| {
        let path = format!("/api/usage/?customer_id=acme&metric_id={metric}&start={start}&end={end}&window=day");
        world.get(&path).ok(200)
    };
    #[rustfmt::skip]
    let chains: [(&[&str], &str); 3] = [
        (&["2024-03-01", "2024-03-01T12:00:00Z", "2024-03-03T00:00:00Z"],                                  "they meet at an event"),
        (&["2024-03-01", "2024-03-02T00:00:00Z", "2024-03-03T00:00:00Z"],                                  "they meet at midnight"),
        (&["2024-03-01", "2024-03-01T11:00:00Z", "2024-03-01T12:00:00Z", "2024-03-01T13:00:00Z", "2024-03-03T00:00:00Z"], "hour by hour"),
    ];
    for (instants, why) in chains {
        let (mut calls, mut before) = (0, None);
        for pair in instants.windows(2) {
            let answer = usage(pair[0], pair[1]);
            calls += answer["total"]["quantity"].as_u64().expect("a whole number");
            for (start, end, _) in windows(&answer) {
                assert!(before.is_none_or(|before: String| before == start), "{why}: windows tile");
                let at = |text: &str| {
                    time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339)
                        .expect("an instant")
                };
                assert!(
                    at(&end) - at(&start) >= time::Duration::HOUR,
                    "{why}: no window of a microsecond: {start} {end}"
                );
                before = Some(end);
            }
        }
        assert_eq!(calls, 4, "{why}");
    }
}

#[test]
fn usage_comes_as_csv_too() {
    let (world, metric) = new_york();
    let path = format!("/api/usage/?customer_id=acme&metric_id={metric}&start=2024-03-10&end=2024-03-11&window=day");
    let ask = |accept: &str| world.send("GET", &path, &[("X-API-KEY", &world.key), ("Accept", accept)], b"");
    let answer = ask("text/html, Text/CSV;q=0.9");
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/csv; charset=utf-8"));
    assert_eq!(answer.header("vary"), "Accept", "the same path has two forms");
    let expected = "start,end,quantity,event_count\r\n\
        2024-03-10T05:00:00Z,2024-03-11T04:00:00Z,2,2\r\n\
        2024-03-11T04:00:00Z,2024-03-12T04:00:00Z,1,1\r\n";
    assert_eq!(answer.text, expected);
    assert_eq!(ask("*/*").header("content-type"), "application/json");
}

#[test]
fn bad_questions_about_usage_are_named() {
    let (world, metric) = new_york();
    let ids = format!("customer_id=acme&metric_id={metric}");
    let absent = "metric_00000000000000000000000000000001";
    #[rustfmt::skip]
    let cases = [
        // query,                                                       attr,          code
        (format!("customer_id=nobody&metric_id={metric}&start=2024-01-01"), "customer_id", "does_not_exist"),
        (format!("customer_id=acme&metric_id={absent}&start=2024-01-01"), "metric_id",  "does_not_exist"),
        (ids.clone(),                                                   "start",       "required"),
        (format!("{ids}&start=yesterday"),                              "start",       "invalid"),
        (format!("{ids}&start=2024-01-02&end=2024-01-01T00:00:00Z"),    "end",         "min_value"),
        (format!("{ids}&start=2024-01-01&window=week"),                 "window",      "invalid_choice"),
        (format!("{ids}&start=2024-01-01&timezone=Mars%2FOlympus"),     "timezone",    "invalid_choice"),
        (format!("{ids}&start=2024-01-01&window=hour"),                 "end",         "max_value"),
        (format!("{ids}&start=2024-01-01&subscription_filters=x"),      "subscription_filters", "invalid"),
    ];
    for (query, attr, code) in cases {
        let faults = world.get(&format!("/api/usage/?{query}")).faults();
        assert_eq!(faults, [(attr.to_owned(), code.to_owned())], "{query}");
    }
    let faults = world.get("/api/usage/?start=x&window=y").faults();
    assert_eq!(faults.len(), 4, "all at once: {faults:?}");
}
