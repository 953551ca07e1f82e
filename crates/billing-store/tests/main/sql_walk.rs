//! A second look at printed SQL, by another reader than the one that made it: every token is classed, and whatever is not
//! known to be harmless is refused. It shares nothing with the printer.

use sqlparser::ast::{LimitClause, Query, SetExpr, Statement, TableFactor};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::stack::{AMPLE_BYTES, on_stack};

/// Functions that may be called, by their full names.
const FUNCTIONS: &[&str] = &[
    "avg",
    "bool_or",
    "coalesce",
    "count",
    "custom_metric.divide",
    "custom_metric.multiply",
    "custom_metric.number",
    "custom_metric.shift",
    "custom_metric.time",
    "date_trunc",
    "dense_rank",
    "max",
    "min",
    "nullif",
    "public.bounded_number",
    "public.property_text",
    "rank",
    "round",
    "row_number",
    "sum",
    "trim_scale",
];
/// What may be read.
const VIEW: &str = "custom_metric_events";
/// Words in front of a bracket that call nothing.
const WORDS: &[&str] = &[
    "and",
    "any",
    "as",
    "between",
    "by",
    "case",
    "count",
    "distinct",
    "else",
    "from",
    "in",
    "materialized",
    "not",
    "or",
    "over",
    "then",
    "when",
    "where",
    "select",
    "like",
    "interval",
];
/// The strings that the printer writes itself.
const STRINGS: &[&str] = &["NaN", "UTC", "second", "minute", "hour", "day", "week", "month", "quarter", "year"];

/// Panics when `sql` reads or calls anything but what custom metrics may.
pub fn refuse_foreign_names(sql: &str) {
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, sql).tokenize().expect("tokens");
    let tokens: Vec<Token> = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    for (i, token) in tokens.iter().enumerate() {
        match token {
            Token::SemiColon => panic!("two statements: {sql}"),
            Token::SingleQuotedString(text) => assert!(STRINGS.contains(&text.as_str()), "a string '{text}': {sql}"),
            Token::Word(_) if tokens.get(i + 1) == Some(&Token::LParen) => {
                let name = qualified(&tokens, i);
                assert!(
                    FUNCTIONS.contains(&name.as_str()) || WORDS.contains(&name.as_str()),
                    "a call of {name}: {sql}"
                );
            }
            Token::Word(word) if ["from", "join", "into", "table"].contains(&word.value.to_lowercase().as_str()) => {
                assert_eq!(word.value, "FROM", "{sql}");
                match &tokens[i + 1] {
                    Token::LParen => {}
                    Token::Word(next) => {
                        assert!(next.value == VIEW || is_named_query(&next.value), "reads {next}: {sql}");
                        assert_ne!(tokens.get(i + 2), Some(&Token::Period), "reads in a schema {next}: {sql}");
                    }
                    other => panic!("reads {other}: {sql}"),
                }
            }
            _ => {}
        }
    }
    // What is printed has more brackets than what was sent, and this parser takes a lot of stack for each.
    on_stack(AMPLE_BYTES, || {
        let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(400).try_with_sql(sql);
        let statements = parser.expect("tokens").parse_statements();
        let statements = statements.unwrap_or_else(|error| panic!("{error}: {sql}"));
        let [Statement::Query(query)] = &statements[..] else { panic!("more than a query: {sql}") };
        look_at(query, sql);
    });
}

fn is_named_query(name: &str) -> bool {
    name.strip_prefix('n').is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn qualified(tokens: &[Token], end: usize) -> String {
    let word = |i: usize| match &tokens[i] {
        Token::Word(word) => word.value.to_lowercase(),
        _ => String::new(),
    };
    if end >= 2 && tokens[end - 1] == Token::Period { format!("{}.{}", word(end - 2), word(end)) } else { word(end) }
}

/// The relations as the parser sees them.
fn look_at(query: &Query, sql: &str) {
    assert!(query.locks.is_empty() && query.order_by.is_none(), "{sql}");
    let is_fence = |clause: &LimitClause| clause.to_string().trim() == "OFFSET 0";
    assert!(query.limit_clause.as_ref().is_none_or(is_fence), "{sql}");
    for named in query.with.iter().flat_map(|with| &with.cte_tables) {
        assert!(is_named_query(&named.alias.name.value), "{sql}");
        look_at(&named.query, sql);
    }
    let SetExpr::Select(select) = query.body.as_ref() else { panic!("no SELECT: {sql}") };
    assert!(select.into.is_none() && select.from.len() == 1 && select.from[0].joins.is_empty(), "{sql}");
    match &select.from[0].relation {
        TableFactor::Derived { lateral: false, subquery, .. } => look_at(subquery, sql),
        TableFactor::Table { name, args: None, .. } => {
            let name = name.to_string();
            assert!(name == VIEW || is_named_query(&name), "reads {name}: {sql}");
        }
        other => panic!("reads {other}: {sql}"),
    }
}

#[test]
fn what_is_foreign_is_found() {
    #[rustfmt::skip]
    let cases = [
        "SELECT count(*) FROM public.events",
        "SELECT count(*) FROM custom_metric_events.api_keys",
        "SELECT pg_sleep(1) FROM custom_metric_events",
        "SELECT public.count(*) FROM custom_metric_events",
        "SELECT count(*) FROM custom_metric_events, api_keys",
        "SELECT count(*) FROM custom_metric_events; SELECT 1",
        "SELECT count('x') FROM custom_metric_events",
        "SELECT (SELECT count(*) FROM api_keys) FROM custom_metric_events",
    ];
    for sql in cases {
        assert!(std::panic::catch_unwind(|| refuse_foreign_names(sql)).is_err(), "{sql}");
    }
    refuse_foreign_names("SELECT count(*) FROM custom_metric_events AS e WHERE e.customer_key = $1");
}
