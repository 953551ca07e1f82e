use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::*;
use crate::decimal::plain;
use crate::event::Event;
use crate::period::Period;
use crate::subscription::SubscriptionFilters;
use crate::testing::build::{Ids, event, properties};
use crate::testing::custom_sql::{ATTACKS, chain, costly};
use crate::usage::fold_custom;

const START: OffsetDateTime = datetime!(2026-03-01 0:00 UTC);

fn at(id: usize, name: &str, time: OffsetDateTime, json: &str) -> Event {
    Event { properties: properties(json), ..event("acme", name, &id.to_string(), time) }
}

/// The result of a query over events with these properties, an hour apart, in March 2026.
fn usage(sql: &str, events: &[&str]) -> Result<String, String> {
    let events: Vec<Event> =
        events.iter().enumerate().map(|(i, json)| at(i, "call", START + Duration::hours(i as i64), json)).collect();
    usage_of(sql, &events)
}

fn usage_of(sql: &str, events: &[Event]) -> Result<String, String> {
    let sql = CustomSql::parse(sql).map_err(|error| error.to_string())?;
    let period = Period::new(START, datetime!(2026-04-01 0:00 UTC)).expect("a month");
    let customer = CustomerKey::derive(Ids::new(1).next(), &"acme".parse().expect("an id"));
    let request = CustomUsageRequest { customer, sql, filters: SubscriptionFilters::none(), period };
    let usage = fold_custom(&request, events);
    usage.map(|usage| plain(&usage.quantity)).map_err(|failure| failure.to_string())
}

#[test]
fn known_queries_give_known_answers() {
    let foo_and_bar: Vec<&str> = [r#"{"test_property": "foo", "qty_property": 5}"#; 5]
        .into_iter()
        .chain([r#"{"test_property": "bar", "qty_property": 10}"#; 5])
        .collect();
    #[rustfmt::skip]
    let cases = [
        // query, answer, why
        ("SELECT COUNT(*) AS usage_qty FROM events", "10", "all events"),
        ("SELECT COUNT(DISTINCT properties ->> 'test_property') AS usage_qty FROM events", "2", "different texts"),
        ("SELECT MAX((properties ->> 'qty_property')::text::decimal) AS usage_qty FROM events
          WHERE properties ->> 'test_property' = 'foo'", "5", "the greatest of some"),
        ("WITH new_filter AS (
            SELECT properties ->> 'test_property' AS test_property,
                SUM((properties ->> 'qty_property')::text::decimal)
                OVER(PARTITION BY properties ->> 'test_property') AS qty_partition
            FROM events
          ), sum_per_partition AS (
            SELECT SUM(qty_partition) AS total_sum, test_property FROM new_filter
            GROUP BY test_property HAVING SUM(qty_partition) < 250
          )
          SELECT MAX(total_sum) AS usage_qty FROM sum_per_partition", "125", "sums of sums by partition"),
    ];
    for (sql, answer, why) in cases {
        assert_eq!(usage(sql, &foo_and_bar).as_deref(), Ok(answer), "{why}");
    }
}

#[test]
fn days_of_activity_are_counted() {
    let sql = "WITH experiment_key_days AS (
            SELECT properties ->> 'experiment_key' as experiment_key, date_trunc('day', time_created) AS day
            FROM events
            WHERE properties ->> 'status' = 'ok'
                AND (properties ->> 'volume')::text::decimal > 1000
                AND time_created < end_date
                AND date_trunc('day', time_created) > start_date - INTERVAL '2 days'
        ), second_table as (
            SELECT COUNT(DISTINCT day) AS num_days, experiment_key FROM experiment_key_days GROUP BY experiment_key
        )
        SELECT COUNT(*) AS usage_qty FROM second_table WHERE num_days >= 3";
    let day = |id, key: &str, day: i64, volume: u32| {
        let json = format!(r#"{{"experiment_key": "{key}", "status": "ok", "volume": {volume}}}"#);
        at(id, "refresh", START + Duration::days(day), &json)
    };
    let events = [
        day(1, "enough", -1, 2000), // One of two days before the start counts.
        day(2, "enough", 0, 2000),
        day(3, "enough", 1, 1001),
        day(4, "too early", -2, 2000),
        day(5, "too early", -1, 2000),
        day(6, "too early", 0, 2000),
        day(7, "too small", 3, 2000),
        day(8, "too small", 4, 2000),
        day(9, "too small", 5, 1000),
    ];
    assert_eq!(usage_of(sql, &events).as_deref(), Ok("1"));
}

#[test]
fn expressions_have_their_edges() {
    let events = [r#"{"n": 1, "t": "a"}"#, r#"{"n": "2.50", "t": "b"}"#, r#"{"t": "a%"}"#];
    #[rustfmt::skip]
    let cases = [
        // expression of aggregates, answer, why
        ("COUNT(properties ->> 'n')", "2", "null does not count"),
        ("SUM((properties ->> 'n')::numeric)", "3.5", "a numeric string is a number when cast"),
        ("AVG(CAST(properties ->> 'n' AS numeric))", "1.75", "of what is not null"),
        ("MIN((properties ->> 'n')::numeric) * 3", "3", "arithmetic on aggregates"),
        ("SUM((properties ->> 'none')::numeric)", "0", "of nothing is null, and null is 0"),
        ("COUNT(*) / 2", "1.5", "there is one kind of number"),
        ("SUM(1 / 3)", "1", "the dust of quotients is gone"),
        ("2 / 3 * 3 + 0 * COUNT(*)", "2", "here too"),
        ("COUNT(CASE WHEN (properties ->> 'n')::numeric > 1 THEN 1 END)", "1", "CASE without ELSE is null"),
        ("COUNT(CASE properties ->> 't' WHEN 'a' THEN 1 WHEN 'b' THEN NULL ELSE 2 END)", "2", "CASE with an operand"),
        ("SUM(COALESCE((properties ->> 'n')::numeric, 10))", "13.5", "COALESCE"),
        ("SUM(CASE WHEN NOT (properties ->> 'n')::numeric > 1 THEN 1 ELSE 0 END)", "1", "NOT unknown is unknown"),
        ("SUM(CASE WHEN properties ->> 'n' IS NULL OR 1 = 2 THEN 1 ELSE 0 END)", "1", "IS NULL"),
        ("SUM(CASE WHEN properties ->> 't' LIKE 'a\\%' THEN 1 ELSE 0 END)", "1", "an escaped sign is itself"),
        ("SUM(CASE WHEN properties ->> 't' LIKE 'a%' THEN 1 ELSE 0 END)", "2", "a sign that stands for any text"),
        ("SUM(CASE WHEN properties ->> 't' NOT LIKE '_' THEN 1 ELSE 0 END)", "1", "one that stands for a character"),
        ("SUM(CASE WHEN (properties ->> 'n')::numeric IN (1, 2.5, NULL) THEN 1 ELSE 0 END)", "2", "IN"),
        ("SUM(CASE WHEN (properties ->> 'n')::numeric NOT IN (7, NULL) THEN 1 ELSE 0 END)", "0", "NOT IN with NULL is never true"),
        ("SUM(CASE WHEN (properties ->> 'n')::numeric BETWEEN 1 AND 2 THEN 1 ELSE 0 END)", "1", "BETWEEN"),
        ("SUM(CASE WHEN time_created >= '2026-03-01T01:00Z' THEN 1 ELSE 0 END)", "2", "a text next to a time is a time"),
        ("SUM(CASE WHEN time_created > start_date + INTERVAL '1 hour' THEN 1 ELSE 0 END)", "1", "a time moved"),
        ("COUNT(DISTINCT date_trunc('day', time_created))", "1", "date_trunc"),
        ("COUNT(DISTINCT time_created::text)", "3", "times as texts"),
        ("SUM(CASE WHEN end_date = '2026-03-31 23:59:59.999999' THEN 1 ELSE 0 END)", "3", "end_date is the last instant inside"),
        ("SUM(CASE WHEN event_name = 'call' THEN 1 ELSE 0 END)", "3", "event_name"),
        ("(SELECT COUNT(*) FROM events WHERE properties ->> 't' = 'a') + COUNT(*)", "4", "a query that is one value"),
        ("SUM(TRY_CAST(properties ->> 't' AS numeric))", "0", "a text that is no number, asked for kindly"),
        ("-COUNT(*) + 3", "0", "zero is no negative number"),
    ];
    for (expression, answer, why) in cases {
        let sql = format!("SELECT {expression} AS usage_qty FROM events");
        assert_eq!(usage(&sql, &events).as_deref(), Ok(answer), "{expression}: {why}");
    }
}

#[test]
fn queries_have_their_parts() {
    let events = [r#"{"u": "a", "n": 1}"#, r#"{"u": "b", "n": 5}"#, r#"{"u": "a", "n": 3}"#, r#"{"n": 9}"#];
    #[rustfmt::skip]
    let cases = [
        // query, answer, why
        ("SELECT SUM(best) AS usage_qty FROM (SELECT MAX((properties ->> 'n')::numeric) AS best, properties ->> 'u' AS u
          FROM events GROUP BY u) AS t", "17", "GROUP BY the name of a column; null is a group"),
        ("SELECT SUM(best) AS usage_qty FROM (SELECT properties ->> 'u' AS u, MAX((properties ->> 'n')::numeric) AS best
          FROM events GROUP BY 1 HAVING properties ->> 'u' IS NOT NULL) t", "8", "by its number, and HAVING by the key"),
        ("SELECT SUM(n) AS usage_qty FROM (SELECT (properties ->> 'n')::numeric AS n,
          ROW_NUMBER() OVER (PARTITION BY properties ->> 'u' ORDER BY time_created DESC) AS place FROM events) AS t
          WHERE place = 1", "17", "the latest of each"),
        ("SELECT SUM(place) AS usage_qty FROM (SELECT RANK() OVER (ORDER BY properties ->> 'u') AS place FROM events) t",
          "9", "RANK: 1, 1, 3, and null last"),
        ("SELECT SUM(place) AS usage_qty FROM (SELECT DENSE_RANK() OVER (ORDER BY properties ->> 'u' DESC) AS place
          FROM events) t", "9", "DENSE_RANK: null first, then b, then twice a"),
        ("SELECT MAX(s) AS usage_qty FROM (SELECT SUM((properties ->> 'n')::numeric) OVER (ORDER BY time_created) AS s
          FROM events) t", "18", "a running sum"),
        ("SELECT SUM(s) AS usage_qty FROM (SELECT SUM((properties ->> 'n')::numeric) OVER (ORDER BY properties ->> 'u') AS s
          FROM events) t", "35", "equals share their running sum: 4, 4, 9, 18"),
        ("SELECT MAX(s) AS usage_qty FROM (SELECT SUM(SUM((properties ->> 'n')::numeric)) OVER () AS s FROM events
          GROUP BY properties ->> 'u') t", "18", "a window over groups"),
        ("SELECT SUM((properties ->> 'n')::numeric) OVER () AS usage_qty FROM events", "18", "equal rows are one answer"),
        ("SELECT COUNT(*) AS usage_qty FROM (SELECT * FROM events e WHERE e.properties ->> 'u' = 'a') x", "2", "*"),
        ("WITH a AS (SELECT * FROM events), b AS (SELECT properties ->> 'u' AS u FROM a)
          SELECT COUNT(u) AS usage_qty FROM b", "3", "one name uses the other"),
        ("SELECT COUNT(*) AS usage_qty FROM events HAVING COUNT(*) > 100", "0", "no rows are 0"),
        ("SELECT NULL::numeric AS usage_qty FROM events", "0", "null is 0"),
        ("SELECT COUNT(*) \"usage_qty\" FROM \"events\" WHERE TRUE;", "4", "quoted names, and one semicolon at the end"),
    ];
    for (sql, answer, why) in cases {
        assert_eq!(usage(sql, &events).as_deref(), Ok(answer), "{sql}: {why}");
    }
}

#[test]
fn a_result_that_is_no_quantity_is_a_failure() {
    let events = [r#"{"n": "x", "m": 0}"#, r#"{"n": 1, "m": -2}"#];
    #[rustfmt::skip]
    let cases = [
        // expression, failure, why
        ("SUM((properties ->> 'n')::numeric)", CustomFailure::Invalid, "a text that is no number"),
        ("MAX((properties ->> 'n')::numeric)", CustomFailure::Invalid, "it is the greatest"),
        ("MIN((properties ->> 'n')::numeric)", CustomFailure::Invalid, "nor does it get lost in the least"),
        ("SUM(1 / (properties ->> 'm')::numeric)", CustomFailure::Invalid, "a division by zero"),
        ("SUM((properties ->> 'm')::numeric)", CustomFailure::Negative, "below zero"),
        ("1000000000000000000 + COUNT(*)", CustomFailure::TooGreat, "too great"),
        ("1e30 * 1e30 * 1e30 * 1e30 + COUNT(*)", CustomFailure::Invalid, "a product beyond all measure"),
    ];
    for (expression, failure, why) in cases {
        let sql = format!("SELECT {expression} AS usage_qty FROM events");
        assert_eq!(usage(&sql, &events), Err(failure.to_string()), "{expression}: {why}");
    }
    let rows = usage("SELECT (properties ->> 'm')::numeric AS usage_qty FROM events", &events);
    assert_eq!(rows, Err(CustomFailure::Ambiguous.to_string()), "rows that differ");
}

#[test]
fn what_could_not_be_computed_is_seen_by_no_comparison() {
    let sql = "SELECT COUNT(*) AS usage_qty FROM events WHERE (properties ->> 'n')::numeric > 0";
    assert_eq!(usage(sql, &[r#"{"n": "x"}"#, r#"{"n": 2}"#]).as_deref(), Ok("1"));
}

#[test]
fn a_query_sees_the_past_but_not_what_comes_after() {
    let sql = "SELECT COUNT(*) AS usage_qty FROM events";
    let inside = "SELECT COUNT(*) AS usage_qty FROM events WHERE time_created BETWEEN start_date AND end_date";
    let us = Duration::microseconds(1);
    let end = datetime!(2026-04-01 0:00 UTC);
    let events =
        [at(1, "a", START - us, "{}"), at(2, "b", START, "{}"), at(3, "a", end - us, "{}"), at(4, "a", end, "{}")];
    assert_eq!(usage_of(sql, &events).as_deref(), Ok("3"));
    assert_eq!(usage_of(inside, &events).as_deref(), Ok("2"));
}

#[test]
fn refusals_say_where_and_what_is_allowed() {
    #[rustfmt::skip]
    let cases = [
        // query, beginning of the refusal, a part of it
        ("SELECT\n  lower(event_name) AS usage_qty FROM events", "Line 2, column 3: lower is not allowed", "COUNT, SUM"),
        ("SELECT COUNT(*) AS usage_qty FROM customers", "Line 1, column 35: There is no customers", "events"),
        ("SELECT COUNT(nothing) AS usage_qty FROM events", "Line 1, column 14: There is no column nothing", "time_created"),
        ("SELECT COUNT(*) AS usage_qty FROM events -- x", "Line 1, column 42: Comments", ""),
        ("SELECT SUM(event_name) AS usage_qty FROM events", "Line 1, column 8: This is a text where a number", "CAST"),
        ("SELECT COUNT(*) + event_name AS usage_qty FROM events", "Line 1, column 19: event_name must be in GROUP BY", ""),
        ("SELECT COUNT(*) AS usage_qty FROM events WHERE SUM(1) > 1", "Line 1, column 48: An aggregate is not allowed", "WHERE"),
        ("SELECT COUNT(*) AS usage_qty FROM events GROUP BY properties", "Line 1, column 51: The properties", "->>"),
        ("SELECT 'x'::numeric AS usage_qty FROM events", "Line 1, column 8: 'x' cannot be read as a number", ""),
        ("SELECT COUNT(*) AS usage FROM events", "Line 1, column 1: The query must have exactly one column", "usage_qty"),
    ];
    for (sql, beginning, part) in cases {
        let refusal = CustomSql::parse(sql).expect_err(sql).to_string();
        assert!(refusal.starts_with(beginning) && refusal.contains(part), "{sql}: {refusal}");
    }
}

#[test]
fn every_attack_is_refused() {
    assert!(ATTACKS.len() >= 60);
    let long = format!("SELECT COUNT(*) AS usage_qty FROM events WHERE event_name = '{}'", "x".repeat(10_000_000));
    let deep = format!("SELECT {}1{} AS usage_qty FROM events", "(".repeat(1_900), ")".repeat(1_900));
    let wide = format!("SELECT COUNT(*){} AS usage_qty FROM events", " + 1".repeat(900));
    let chain = format!("SELECT COUNT(*){} AS usage_qty FROM events", " + 1".repeat(200));
    let none = "SELECT COUNT(*) AS usage_qty FROM events WHERE event_name = '\0'".to_owned();
    let made =
        [("10 MB", long), ("brackets", deep), ("many parts", wide), ("long chain", chain), ("null character", none)];
    let made = made.iter().map(|(name, sql)| (*name, sql.as_str()));
    for (name, sql) in ATTACKS.iter().copied().chain(made) {
        let taken = CustomSql::parse(sql).and_then(|sql| sql.check());
        assert!(taken.is_err(), "{name}");
    }
}

#[test]
fn a_query_that_fails_without_usage_is_refused() {
    let check = |sql: &str| CustomSql::parse(sql).and_then(|sql| sql.check()).map_err(|error| error.to_string());
    let refused = check("SELECT SUM(1) / COUNT(*) AS usage_qty FROM events");
    assert_eq!(refused, Ok(()), "null divided by zero is null");
    let refused = check("SELECT 1 / COUNT(*) AS usage_qty FROM events").expect_err("a division by zero");
    assert!(refused.starts_with("On no events the query has no number"), "{refused}");
}

#[test]
fn what_a_name_stands_for_is_computed_once() {
    let events = [r#"{"n": 1}"#; 3];
    let step = "SELECT a + a AS a FROM t";
    assert_eq!(usage(&chain(40, step), &events).as_deref(), Ok("3298534883328"), "three times two to the 40th");
    for query in costly() {
        // Whatever it comes to, it does: none of them would come to an end if names were replaced.
        let found = usage(&query.sql, &events);
        assert!(found.is_ok() || query.is_refused, "{}: {found:?}", query.name);
    }
}
