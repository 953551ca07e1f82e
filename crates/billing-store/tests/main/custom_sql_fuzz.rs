//! Whatever a caller sends as a query: it is refused or understood, soon, and what is understood names nothing foreign.
//! No database is asked, so that there can be very many cases.
//!
//! `FUZZ_TRACE=FILE` keeps the text that is being tried, for when it takes the whole process with it.

use std::cell::Cell;

use billing_domain::custom_sql::{CustomSql, CustomUsageRequest};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::period::Period;
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::build::Ids;
use billing_domain::testing::custom_sql::ATTACKS;
use billing_store::testing::printed_custom_sql;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use time::macros::datetime;

use crate::custom_sql_deep::deep_queries;
use crate::custom_sql_grammar::queries;
use crate::sql_walk::refuse_foreign_names;
use crate::stack::{SERVICE_BYTES, on_stack};

/// Most bytes of SQL that become of a text of 4,096.
const PRINTED_BYTES_MAX: usize = 256 << 10;

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "WITH", "AS", "events", "e", "usage_qty", "COUNT", "SUM", "MIN", "MAX",
    "AVG", "(", ")", "(", ")", "*", ",", ".", "=", "<", ">", "<>", "+", "-", "/", "::", "->>", "'a'", "''", "1", "0", "2.5",
    "properties", "time_created", "event_name", "start_date", "end_date", "numeric", "text", "timestamptz", "CASE", "WHEN",
    "THEN", "ELSE", "END", "COALESCE", "CAST", "TRY_CAST", "date_trunc", "'day'", "OVER", "PARTITION BY", "ORDER BY", "RANK",
    "ROW_NUMBER", "DISTINCT", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "NULL", "TRUE", "INTERVAL", "'1 day'",
    "DESC", "NULLS FIRST", "UNION", "JOIN", "LATERAL", "pg_sleep", "api_keys", ";", "--", "/*", "*/", "$1", "$$", "E'x'", "[", "]",
    "LIMIT", "VALUES", "DELETE", "INTO", "FOR UPDATE", "ONLY", "RECURSIVE", "MATERIALIZED", "FILTER", "WINDOW", "EXISTS", "ANY",
];

/// Any text, any words, a query with a piece of an attack in it, or one that is right: a plain one, or one that says much in few
/// words.
fn texts() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(prop::sample::select(WORDS), 1..40).prop_map(|words| words.join(" "));
    let framed = prop::collection::vec(prop::sample::select(WORDS), 0..12)
        .prop_map(|words| format!("SELECT COUNT(*) AS usage_qty FROM events WHERE {}", words.join(" ")));
    let output = prop::collection::vec(prop::sample::select(WORDS), 0..8)
        .prop_map(|words| format!("SELECT {} AS usage_qty FROM events", words.join(" ")));
    let attack = prop::sample::select(ATTACKS).prop_map(|(_, sql)| sql.to_owned());
    let spliced = (queries(), attack, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>());
    let spliced = spliced.prop_map(|(query, attack, at, from, replaces)| {
        let query: Vec<&str> = query.split_inclusive(' ').collect();
        let attack: Vec<&str> = attack.split_inclusive(' ').collect();
        let at = at.index(query.len());
        let from = if attack.is_empty() { 0 } else { from.index(attack.len()) };
        let rest = query[at..].iter().skip(usize::from(replaces));
        query[..at].iter().chain(&attack[from..]).chain(rest).copied().collect::<String>()
    });
    prop_oneof![1 => any::<String>(), 2 => words, 3 => framed, 3 => output, 4 => spliced, 1 => queries(), 2 => deep_queries()]
}

#[test]
fn nothing_foreign_gets_through() {
    // 2,000 cases, or as many as `PROPTEST_CASES` says.
    let cases = match Config::default().cases {
        256 => 2_000,
        cases => cases,
    };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let mut ids = Ids::new(1);
    let (organization, customer): (OrganizationId, _) = (ids.next(), "acme".parse().expect("an id"));
    let customer = CustomerKey::derive(organization, &customer);
    let day = datetime!(2024-03-01 0:00 UTC);
    let period = Period::new(day, day + time::Duration::DAY).expect("a day");
    let understood = Cell::new(0_u32);
    let trace = std::env::var_os("FUZZ_TRACE");
    let check = |text: String| {
        if let Some(file) = &trace {
            std::fs::write(file, &text).expect("the text is kept");
        }
        let printed = on_stack(SERVICE_BYTES, || {
            let sql = CustomSql::parse(&text).ok()?;
            // It runs in memory, whatever comes out.
            drop(sql.check());
            let filters = SubscriptionFilters::none();
            Some(printed_custom_sql(organization, &CustomUsageRequest { customer, sql, filters, period }))
        });
        if let Some(printed) = printed {
            understood.set(understood.get() + 1);
            // What is said once is printed once, or twice under an average; reading the events takes most of the letters.
            assert!(printed.len() <= PRINTED_BYTES_MAX, "{} bytes: {text}", printed.len());
            refuse_foreign_names(&printed);
        }
        Ok(())
    };
    TestRunner::new(config).run(&texts(), check).unwrap_or_else(|error| panic!("{error}"));
    assert!(understood.get() > cases / 50, "{} of {cases} were understood", understood.get());
}
