//! Custom metrics: every store agrees with [`crate::custom_sql::interpret`].

use time::{Duration, OffsetDateTime};

use super::event::NOW;
use super::{Harness, Tenant};
use crate::custom_sql::{CustomFailure, CustomSql, CustomUsageRequest};
use crate::event::Event;
use crate::id::CustomerKey;
use crate::metric::Measure;
use crate::period::Period;
use crate::subscription::SubscriptionFilters;
use crate::testing::build::{count_metric, days_from, event, properties};
use crate::testing::world::{decimal, filters};
use crate::usage::fold_custom;
use crate::usage::{Usage, UsageRequest};

const COUNT: &str = "SELECT COUNT(*) AS usage_qty FROM events";

impl Tenant<'_> {
    fn custom_usage(&self, request: &CustomUsageRequest) -> Result<Usage, CustomFailure> {
        self.look(|tx, _| tx.events().custom_usages(std::slice::from_ref(request))).remove(0)
    }
}

fn call(id: &str, time: OffsetDateTime, json: &str) -> Event {
    Event { properties: properties(json), ..event("acme", "call", id, time) }
}

fn request(customer: CustomerKey, sql: &str, period: Period) -> CustomUsageRequest {
    let sql = CustomSql::parse(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    CustomUsageRequest { customer, sql, filters: SubscriptionFilters::none(), period }
}

fn month() -> Period {
    days_from(NOW - Duration::days(29), 30)
}

fn usage(quantity: &str, event_count: u64) -> Result<Usage, CustomFailure> {
    Ok(Usage { quantity: decimal(quantity), event_count })
}

/// Queries with what they come to over [`runs_queries`]'s events, and what each has that others have not.
#[rustfmt::skip]
const QUERIES: &[(&str, &str, &str)] = &[
    (COUNT, "6", "every event, of any name"),
    ("SELECT COUNT(*) AS usage_qty FROM events WHERE event_name = 'call'", "5", "a condition"),
    ("SELECT COUNT(DISTINCT properties ->> 'host') AS usage_qty FROM events", "2", "distinct texts; null is none"),
    ("SELECT MAX((properties ->> 'n')::numeric) AS usage_qty FROM events WHERE properties ->> 'host' = 'b'", "7.25", "a cast"),
    ("SELECT SUM((properties ->> 'n')::numeric) / 3 AS usage_qty FROM events", "6.4166666666666666666666666666666666666667", "a quotient, to 40 decimals"),
    ("SELECT AVG(TRY_CAST(properties ->> 'n' AS numeric)) AS usage_qty FROM events", "4.8125", "null is no number"),
    ("SELECT SUM(CASE WHEN properties ->> 'host' IN ('a', 'c') THEN 1 ELSE COALESCE(NULL, 0) END) AS usage_qty FROM events", "2", "cases"),
    ("WITH busy AS (SELECT date_trunc('day', time_created) AS day, COUNT(*) AS calls FROM events GROUP BY 1 HAVING COUNT(*) > 1)
      SELECT COUNT(*) AS usage_qty FROM busy", "2", "groups of groups"),
    ("SELECT MAX(rest.running) AS usage_qty FROM (SELECT SUM((properties ->> 'n')::numeric) OVER (PARTITION BY properties ->> 'host' ORDER BY time_created) AS running FROM events) AS rest",
        "12.25", "a running sum"),
    ("SELECT COUNT(*) AS usage_qty FROM events WHERE time_created BETWEEN start_date AND end_date", "6", "the bounds of the time asked about"),
    ("SELECT NULL::numeric AS usage_qty FROM events WHERE 1 = 2", "0", "no rows are 0"),
    ("SELECT SUM((properties ->> 'nothing')::numeric) AS usage_qty FROM events", "0", "null is 0"),
];

pub(super) fn runs_queries(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let sent = [
        call("1", NOW - Duration::days(9), r#"{"host": "a", "n": 5}"#),
        call("2", NOW - Duration::days(9), r#"{"host": "a", "n": 2}"#),
        call("3", NOW - Duration::days(2), r#"{"host": "b", "n": "7.25"}"#),
        call("4", NOW - Duration::days(2), r#"{"host": "b", "n": 5}"#),
        call("5", NOW - Duration::days(1), r#"{"n": null}"#),
        event("acme", "other", "6", NOW),
    ];
    tenant.send(&sent);
    for (sql, quantity, why) in QUERIES {
        let request = request(acme, sql, month());
        let found = tenant.custom_usage(&request);
        assert_eq!(found, usage(quantity, 6), "{sql}: {why}");
        assert_eq!(found, fold_custom(&request, &sent), "{sql}: the interpreter");
    }
    let host_b = CustomUsageRequest { filters: filters(&[("host", "b")]), ..request(acme, COUNT, month()) };
    assert_eq!(tenant.custom_usage(&host_b), usage("2", 2), "the subscription's filters");
}

pub(super) fn sees_what_is_dated_before_the_end(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (start, us) = (NOW - Duration::days(2), Duration::MICROSECOND);
    let end = NOW - Duration::days(1);
    let times = [start - us, start, end - us, end, end + us];
    let sent: Vec<_> = (0..).zip(times).map(|(n, time)| call(&n.to_string(), time, "{}")).collect();
    tenant.send(&sent);
    let period = Period::new(start, end).expect("a day");
    assert_eq!(
        tenant.custom_usage(&request(acme, COUNT, period)),
        usage("3", 2),
        "what came before is seen, not counted"
    );
    let inside =
        "SELECT COUNT(*) AS usage_qty FROM events WHERE time_created >= start_date AND time_created <= end_date";
    assert_eq!(tenant.custom_usage(&request(acme, inside, period)), usage("2", 2));
    assert_eq!(tenant.custom_usage(&request(acme, COUNT, Period::at(NOW))), usage("0", 0), "an empty time");
}

pub(super) fn says_why_there_is_no_result(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    tenant.send(&[call("1", NOW, r#"{"n": "seven", "m": 1}"#), call("2", NOW, r#"{"n": 1, "m": 0}"#)]);
    #[rustfmt::skip]
    let cases = [
        // output,                                        failure,                    why
        ("SUM((properties ->> 'n')::numeric)",            CustomFailure::Invalid,     "a text that is no number"),
        ("SUM(1 / (properties ->> 'm')::numeric)",        CustomFailure::Invalid,     "a division by zero"),
        ("1 - COUNT(*)",                                  CustomFailure::Negative,    "below zero"),
        ("1000000000000000000 * COUNT(*)",                CustomFailure::TooGreat,    "19 digits"),
        ("(properties ->> 'm')::numeric",                 CustomFailure::Ambiguous,   "rows that differ"),
    ];
    let queries = cases.iter().map(|(output, ..)| format!("SELECT {output} AS usage_qty FROM events"));
    let mut requests: Vec<_> = queries.map(|sql| request(acme, &sql, month())).collect();
    requests.push(request(acme, COUNT, month()));
    let mut found = tenant.look(|tx, _| tx.events().custom_usages(&requests));
    assert_eq!(found.pop(), Some(usage("2", 2)), "one that fails leaves the others alone");
    for ((output, failure, why), found) in cases.into_iter().zip(found) {
        assert_eq!(found, Err(failure), "{output}: {why}");
    }
}

pub(super) fn sees_one_customer_of_one_organization(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    let (acme, theirs) = (tenant.new_customer_at_now(), other.new_customer_at_now());
    tenant.import(&[call("1", NOW, "{}"), event("other", "call", "2", NOW)]);
    other.import(&[call("1", NOW, "{}"), call("3", NOW, "{}")]);
    let keys = [acme, tenant.key("other"), tenant.key("nobody"), theirs];
    let requests = keys.map(|key| request(key, COUNT, month()));
    let found = tenant.look(|tx, _| tx.events().custom_usages(&requests));
    assert_eq!(found, [usage("1", 1), usage("1", 1), usage("0", 0), usage("0", 0)], "in order; nothing of others");
    assert_eq!(other.custom_usage(&request(theirs, COUNT, month())), usage("2", 2));
    assert_eq!(tenant.look(|tx, _| tx.events().custom_usages(&[])), []);
}

pub(super) fn is_asked_apart(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let mut metric = tenant.build(|ids| count_metric(ids, "call", NOW));
    metric.measure = Measure::Custom(CustomSql::parse(COUNT).expect("a query"));
    let request = UsageRequest::billed(acme, metric, SubscriptionFilters::none(), month(), &month());
    let refused = tenant.run(&crate::store::Scope::Organization(tenant.id), |tx, _| {
        tx.events().usages(std::slice::from_ref(&request)).map(drop)
    });
    assert!(refused.is_err(), "a custom metric may fail, and this question has no place to say so");
}
