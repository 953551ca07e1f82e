//! The hour that is being counted, from its first event to the first of a later one.

use std::cell::Cell;

use billing_domain::event::Event;
use billing_domain::metric::{Aggregation, Measure, Metric};
use billing_domain::period::Period;
use billing_domain::store::{EventIngest, Window};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::build;
use billing_domain::usage::{UsageRequest, fold};
use billing_store::PgStore;
use billing_store::testing::{TestStore, count_statements, deltas_written_again, statements_sent};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use time::macros::{date, datetime, time};
use time::{Duration, OffsetDateTime, Time};

use crate::sql::{execute, query};
use crate::usage::World;

const DAY: time::Date = date!(2024 - 02 - 29);
const OPEN: &str = "SELECT to_char(hour AT TIME ZONE 'UTC', 'HH24:MI') || ' ' || (delta.value ->> 0) AS value
    FROM hot_buckets, json_each(deltas) delta ORDER BY 1";
const CLOSED: &str =
    "SELECT to_char(bucket AT TIME ZONE 'UTC', 'HH24:MI') || '+' || bucket_hours || ' ' || event_count AS value
    FROM usage_rollup ORDER BY bucket_hours, bucket";

fn at(time: Time) -> OffsetDateTime {
    DAY.with_time(time).assume_utc()
}

fn event(id: usize, time: Time) -> Event {
    let amount = format!(r#"{{"amount": {}.25}}"#, id * 7 % 5);
    Event { properties: build::properties(&amount), ..build::event("acme", "call", &id.to_string(), at(time)) }
}

#[test]
fn an_hour_is_open_until_a_later_one_begins() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    let metric = world.new_metric(Measure::Counter(Aggregation::Count));
    #[rustfmt::skip]
    let steps: [(Time, Time, &[&str], &[&str], &str); 8] = [
        (time!(12:10), time!(12:05),    &["12:00 1"], &[],                                 "the first event opens its hour"),
        (time!(12:30), time!(12:00),    &["12:00 2"], &[],                                 "it goes on, to its first instant"),
        (time!(12:30), time!(11:59:59), &["12:00 2"], &["11:00+1 1", "00:00+24 1"],        "late events never open an hour"),
        (time!(12:30), time!(13:00),    &["12:00 2"], &["11:00+1 1", "13:00+1 1", "00:00+24 2"], "nor do those that come early"),
        (time!(13:00), time!(13:00),    &["13:00 1"], &["11:00+1 1", "12:00+1 2", "13:00+1 1", "00:00+24 4"], "the next hour closes it"),
        (time!(13:20), time!(12:40),    &["13:00 1"], &["11:00+1 1", "12:00+1 3", "13:00+1 1", "00:00+24 5"], "what is closed is not opened again"),
        (time!(12:50), time!(12:45),    &["13:00 1"], &["11:00+1 1", "12:00+1 4", "13:00+1 1", "00:00+24 6"], "nor by a process whose clock is behind"),
        (time!(17:00), time!(17:59:59.999999), &["17:00 1"], &["11:00+1 1", "12:00+1 4", "13:00+1 2", "00:00+24 7"], "hours without events are passed over"),
    ];
    for (sent, (now, time, open, closed, why)) in steps.into_iter().enumerate() {
        world.set_clock(at(now));
        let events = [event(sent, time)];
        store.ingest(world.organization, &events, Window::Open).expect("taken in");
        assert_eq!(query(store.url(), OPEN), open, "{why}");
        assert_eq!(query(store.url(), CLOSED), closed, "{why}");
        let day = Period::new(at(Time::MIDNIGHT), at(Time::MIDNIGHT) + Duration::DAY).expect("a period");
        let request = UsageRequest::current(world.customer, metric.clone(), SubscriptionFilters::none(), day);
        let usage = world.catalog(|tx| tx.events().usages(std::slice::from_ref(&request)));
        assert_eq!(usage[0].event_count, sent as u64 + 1, "{why}");
    }
}

fn metrics_of_every_aggregation(world: &World<'_>) -> Vec<Metric> {
    let property_name = || "amount".to_owned();
    let aggregations = [
        Aggregation::Count,
        Aggregation::Sum { property_name: property_name() },
        Aggregation::Average { property_name: property_name() },
        Aggregation::Max { property_name: property_name() },
        Aggregation::Min { property_name: property_name() },
        Aggregation::Latest { property_name: property_name() },
    ];
    aggregations.into_iter().map(|aggregation| world.new_metric(Measure::Counter(aggregation))).collect()
}

/// Usage of each metric is what the events add to it.
fn assert_counted(world: &World<'_>, metrics: &[Metric], events: &[Event], why: &str) {
    let hour = Period::new(at(time!(12:00)), at(time!(13:00))).expect("a period");
    let request =
        |metric: &Metric| UsageRequest::current(world.customer, metric.clone(), SubscriptionFilters::none(), hour);
    let requests: Vec<UsageRequest> = metrics.iter().map(request).collect();
    let found = world.catalog(|tx| tx.events().usages(&requests));
    for (request, found) in requests.iter().zip(found) {
        assert_eq!(found, fold(request, events), "{:?} {why}", request.metric.measure);
    }
}

#[test]
fn every_aggregation_goes_on_where_it_stopped() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    let metrics = metrics_of_every_aggregation(&world);
    world.set_clock(datetime!(2024-02-29 12:30 UTC));
    // The fourth is the latest: of the two of one instant it has the greater id.
    let times = [time!(12:10), time!(12:40), time!(12:05), time!(12:50), time!(12:50), time!(12:20)];
    let ids = [1, 2, 3, 5, 4, 6];
    let events: Vec<Event> = ids.into_iter().zip(times).map(|(id, time)| event(id, time)).collect();
    for sent in 0..events.len() {
        store.ingest(world.organization, &events[sent..=sent], Window::Open).expect("taken in");
        assert_counted(&world, &metrics, &events[..=sent], &format!("after event {sent}"));
        assert_eq!(query(store.url(), "SELECT count(*)::text AS value FROM usage_rollup"), ["0"], "all in one row");
    }
}

const METRIC: &str = "0b6f7a10-94a7-4a53-b0c4-5f0d1c2e3a4b";

/// What SQL tells of deltas.
fn told(store: &TestStore, deltas: &str) -> Vec<String> {
    let deltas = deltas.replace('\'', "''");
    let told = format!(
        "SELECT (event_count, sum, max, min, latest, latest_at AT TIME ZONE 'UTC', latest_id)::text AS value
        FROM deltas_of_hour('{deltas}', '{METRIC}')"
    );
    query(store.url(), &told)
}

#[test]
fn gains_are_lists_up_to_the_last_figure_that_is_needed() {
    let store = TestStore::in_one_lane();
    #[rustfmt::skip]
    let cases = [
        // delta,                                  what SQL tells,             why
        ("[12]",                                  "(12,0,,,,,)",              "a count"),
        ("[0]",                                   "(0,0,,,,,)",               "nothing, as said"),
        ("[9223372036854775807]",                 "(9223372036854775807,0,,,,,)", "as many as there can be"),
        ("[2,34.5]",                              "(2,34.5,,,,,)",            "a sum, an average"),
        ("[2,-34.5]",                             "(2,-34.5,,,,,)",           "that is below nothing"),
        ("[2,12345678901234567890.123456789012345678901234567891]",
                                                  "(2,12345678901234567890.123456789012345678901234567891,,,,,)", "more digits than a float has"),
        ("[2,0,0.25]",                            "(2,0,0.25,,,,)",           "the greatest"),
        ("[2,0,0]",                               "(2,0,0,,,,)",              "which is a number also when it is 0"),
        ("[2,0,null,-7]",                         "(2,0,,-7,,,)",             "the least"),
        ("[2,0,null,0]",                          "(2,0,,0,,,)",              "0, too"),
        (r#"[2,0,null,null,[1.5,"2024-02-29T12:50:00.000001Z","it's \"é\""]]"#,
                                                  r#"(2,0,,,1.5,"2024-02-29 12:50:00.000001","it's ""é""")"#, "the latest with its id"),
        (r#"[4,1,2,-3,[-4,"2024-02-29T12:50:00Z",""]]"#,
                                                  r#"(4,1,2,-3,-4,"2024-02-29 12:50:00","")"#, "everything"),
    ];
    for (delta, sql, why) in cases {
        let deltas = format!(r#"{{"{}":{delta},"ffffffffffff4fffbfffffffffffffff":[3]}}"#, METRIC.replace('-', ""));
        assert_eq!(deltas_written_again(&deltas).expect("deltas"), deltas, "{why}");
        assert_eq!(told(&store, &deltas), [sql], "{why}: {deltas}");
    }
    for without in ["{}", r#"{"ffffffffffff4fffbfffffffffffffff":[3]}"#] {
        assert_eq!(told(&store, without), [""; 0], "nothing is added: {without}");
    }
    for no_deltas in ["[]", r#"{"x":[1]}"#, r#"{"ffffffffffff4fffbfffffffffffffff":[]}"#] {
        assert!(deltas_written_again(no_deltas).is_err(), "{no_deltas}");
    }
}

/// The figures of a delta as SQL has them, and as they are written, to the last place.
fn delta() -> impl Strategy<Value = (String, String)> {
    let number = || prop::option::of("-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?");
    let at = "2024-0[1-9]-[12][0-9]T[01][0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?Z";
    let latest = prop::option::of(("-?[1-9][0-9]{0,30}(\\.[0-9]{1,30})?", at, "[^\\x00]{0,12}"));
    (0..=i64::MAX, number(), number(), number(), latest).prop_map(|(event_count, sum, max, min, latest)| {
        let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let null = || "NULL".to_owned();
        let json_of = |figure: &Option<String>| figure.clone().unwrap_or_else(|| "null".to_owned());
        let sum = sum.unwrap_or_else(|| "0".to_owned());
        let mut json = format!("[{event_count},{sum},{},{}", json_of(&max), json_of(&min));
        if let Some((number, at, id)) = &latest {
            json += &format!(r#",[{number},"{at}",{}]"#, serde_json::Value::from(id.as_str()));
        }
        let [max, min] = [max, min].map(|figure| figure.unwrap_or_else(null));
        let [number, at, id] =
            latest.map_or_else(|| [null(), null(), null()], |(number, at, id)| [number, text(&at), text(&id)]);
        let figures = format!(
            "{event_count}::bigint, {sum}::numeric, {max}::numeric, {min}::numeric,
            {number}::numeric, {at}::timestamptz, {id}::text"
        );
        (figures, json + "]")
    })
}

#[test]
fn sql_tells_of_deltas_what_the_program_knows() {
    let store = TestStore::in_one_lane();
    let law = |deltas: Vec<(String, String)>| {
        let text = |json: &str| json.replace('\'', "''");
        let rows: Vec<String> = deltas
            .iter()
            .map(|(figures, delta)| {
                let whole = format!(r#"{{"{}":{delta}}}"#, METRIC.replace('-', ""));
                let rewritten = deltas_written_again(&whole).expect("deltas");
                assert_eq!(deltas_written_again(&rewritten).expect("deltas"), rewritten, "what is written is read");
                format!("SELECT '{}'::json, '{}'::json, {figures}", text(&whole), text(&rewritten))
            })
            .collect();
        let differing = format!(
            "SELECT known::text || ', ' || told::text || ', ' || told_of_whole::text AS value
            FROM ({}) known (whole, rewritten, event_count, sum, max, min, latest, latest_at, latest_id)
            LEFT JOIN LATERAL deltas_of_hour(known.rewritten, '{METRIC}') told ON true
            LEFT JOIN LATERAL deltas_of_hour(known.whole, '{METRIC}') told_of_whole ON true
            CROSS JOIN LATERAL (
                SELECT known.event_count, known.sum, known.max, known.min, known.latest, known.latest_at, known.latest_id
            ) figures
            WHERE told IS DISTINCT FROM figures OR told_of_whole IS DISTINCT FROM figures
            LIMIT 1",
            rows.join(" UNION ALL ")
        );
        assert_eq!(query(store.url(), &differing), [""; 0]);
        Ok(())
    };
    let mut runner = TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(8) });
    runner.run(&prop::collection::vec(delta(), 1..60), law).expect("a law");
}

#[test]
fn what_is_filled_in_is_not_counted_in_the_hot_bucket_too() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    world.set_clock(at(time!(12:30)));
    let send = |id, time| store.ingest(world.organization, &[event(id, time)], Window::Open).expect("taken in");
    send(1, time!(12:05));
    let metric = world.new_metric(Measure::Counter(Aggregation::Count));
    send(2, time!(12:20));
    assert_eq!(query(store.url(), OPEN), ["12:00 1"], "the first came before the metric");
    while store.catch_up().expect("filled in") {}
    assert_eq!(query(store.url(), CLOSED), ["12:00+1 2", "00:00+24 2"]);
    assert_eq!(query(store.url(), OPEN), [""; 0], "closed before it was counted again");
    send(3, time!(12:25));
    let hour = Period::new(at(time!(12:00)), at(time!(13:00))).expect("a period");
    let request = UsageRequest::current(world.customer, metric, SubscriptionFilters::none(), hour);
    assert_eq!(world.catalog(|tx| tx.events().usages(std::slice::from_ref(&request)))[0].event_count, 3);
}

#[test]
fn what_a_process_remembers_of_an_hour_is_never_trusted() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    world.new_metric(Measure::Counter(Aggregation::Count));
    world.set_clock(at(time!(12:30)));
    let other = PgStore::connect(store.url(), 2).expect("connected");
    let sent = Cell::new(0);
    let send = |by: &PgStore| {
        sent.set(sent.get() + 1);
        by.ingest(world.organization, &[event(sent.get(), time!(12:05))], Window::Open).expect("taken in");
    };
    let written_otherwise = |sql: &str| execute(store.url(), sql).expect("written");
    #[rustfmt::skip]
    let steps: [(&dyn Fn(), bool, &[&str], &str); 9] = [
        (&|| (), false,                                                                  &["12:00 1"], "the first"),
        (&|| (), false,                                                                  &["12:00 2"], "remembered"),
        (&|| (), true,                                                                   &["12:00 3"], "read by another process"),
        (&|| (), false,                                                                  &["12:00 4"], "written by the other one since"),
        (&|| (), true,                                                                   &["12:00 5"], "and the other way round"),
        (&|| written_otherwise("UPDATE hot_buckets SET deltas = replace(deltas::text, '[5]', '[50]')::json"), true,
                                                                                         &["12:00 51"], "written by somebody else"),
        (&|| written_otherwise("DELETE FROM hot_buckets"), true,                          &["12:00 1"], "not there any more"),
        (&|| (), true,                                                                   &["12:00 2"], "opened again"),
        (&|| (), false,                                                                  &["12:00 3"], "by the other one"),
    ];
    for (before, is_others, open, why) in steps {
        // Long enough for both to believe what they remember again.
        for customer in 0..101 {
            let event = |by: &str| {
                build::event(&format!("c{customer}"), "other", &format!("{} {by}", sent.get()), at(time!(12:05)))
            };
            for (by, name) in [(&*store, "a"), (&other, "b")] {
                by.ingest(world.organization, &[event(name)], Window::Open).expect("taken in");
            }
        }
        before();
        send(if is_others { &other } else { &store });
        assert_eq!(query(store.url(), OPEN), open, "{why}");
    }
}

#[test]
fn a_hot_bucket_is_not_read_again() {
    count_statements();
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    world.new_metric(Measure::Counter(Aggregation::Count));
    world.set_clock(at(time!(12:30)));
    let sent = |id| {
        let before = statements_sent(store.url());
        store.ingest(world.organization, &[event(id, time!(12:05))], Window::Open).expect("taken in");
        statements_sent(store.url()) - before
    };
    sent(1);
    // BEGIN, key ranges, version, whose clock it is, events, the hot bucket.
    assert_eq!([sent(2), sent(3)], [6, 6]);
    execute(store.url(), "UPDATE hot_buckets SET deltas = deltas").expect("written");
    // All of it twice, the second time with the hour read; and read for a while after.
    assert_eq!([sent(4), sent(5)], [6 + 7, 7]);
}
