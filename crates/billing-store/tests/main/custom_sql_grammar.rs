//! Random queries of the language of custom metrics, as text.

use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;

type Sql = BoxedStrategy<String>;

/// What expressions can be made of: the columns that a relation has, by type.
#[derive(Clone, Copy)]
struct Columns {
    numbers: &'static [&'static str],
    texts: &'static [&'static str],
    times: &'static [&'static str],
}

const EVENTS: Columns = Columns {
    numbers: &[
        "(properties ->> 'n')::numeric",
        "TRY_CAST(properties ->> 'n' AS numeric)",
        "CAST(properties ->> 'm' AS decimal)",
    ],
    texts: &["properties ->> 't'", "(properties ->> 'u')", "event_name", "properties ->> 'none'"],
    times: &["time_created", "start_date", "end_date", "(properties ->> 't')::timestamptz"],
};
/// The columns of [`inner`].
const INNER: Columns = Columns { numbers: &["a", "r.b"], texts: &["c"], times: &["d"] };

fn one_of(all: &'static [&'static str]) -> Sql {
    prop::sample::select(all).prop_map(str::to_owned).boxed()
}

fn number(columns: Columns, depth: u32) -> Sql {
    let literals = one_of(&["0", "1", "2.5", "-3", "1e20", "0.000001", "7", "NULL::numeric", "'4.20'::numeric"]);
    let leaf = prop_oneof![2 => literals, 3 => one_of(columns.numbers)];
    if depth == 0 {
        return leaf.boxed();
    }
    let (inner, other) = (number(columns, depth - 1), number(columns, depth - 1));
    let arithmetic = (inner.clone(), prop::sample::select(&["+", "-", "*", "/"][..]), other.clone());
    let case = (condition(columns, depth - 1), inner.clone(), other.clone());
    prop_oneof![
        3 => leaf,
        4 => arithmetic.prop_map(|(a, sign, b)| format!("({a} {sign} {b})")),
        1 => inner.clone().prop_map(|a| format!("(- {a})")),
        2 => case.prop_map(|(c, a, b)| format!("CASE WHEN {c} THEN {a} ELSE {b} END")),
        1 => (text(columns, depth - 1), inner.clone(), other.clone()).prop_map(|(t, a, b)| format!("CASE {t} WHEN 'a' THEN {a} WHEN 'call' THEN {b} END")),
        1 => (inner.clone(), inner.clone(), other.clone()).prop_map(|(a, b, c)| format!("CASE {a} WHEN {b} THEN 1 WHEN 1 THEN {c} END")),
        1 => (inner, other).prop_map(|(a, b)| format!("COALESCE({a}, {b})")),
        1 => text(columns, depth - 1).prop_map(|t| format!("({t})::numeric")),
        1 => text(columns, depth - 1).prop_map(|t| format!("COALESCE(TRY_CAST({t} AS numeric), 3)")),
    ]
    .boxed()
}

fn text(columns: Columns, depth: u32) -> Sql {
    let leaf = prop_oneof![1 => one_of(&["'a'::text", "'call'::text", "'é'::text", "''::text", "NULL::text"]), 3 => one_of(columns.texts)];
    if depth == 0 {
        return leaf.boxed();
    }
    prop_oneof![
        3 => leaf,
        1 => number(columns, depth - 1).prop_map(|a| format!("({a})::text")),
        1 => time(columns, depth - 1).prop_map(|a| format!("({a})::text")),
        1 => (text(columns, depth - 1), text(columns, depth - 1)).prop_map(|(a, b)| format!("COALESCE({a}, {b})")),
    ]
    .boxed()
}

fn time(columns: Columns, depth: u32) -> Sql {
    let literals =
        one_of(&["'2024-02-29'::timestamptz", "'2024-02-29 12:34:56.789012Z'::timestamptz", "NULL::timestamptz"]);
    let leaf = prop_oneof![1 => literals, 3 => one_of(columns.times)];
    if depth == 0 {
        return leaf.boxed();
    }
    let units = &["second", "minute", "hour", "day", "week", "month", "quarter", "year"][..];
    let spans = &["2 days", "1 hour 30 minutes", "100 seconds", "-1 week", "36500 days"][..];
    prop_oneof![
        3 => leaf,
        2 => (prop::sample::select(units), time(columns, depth - 1)).prop_map(|(unit, t)| format!("date_trunc('{unit}', {t})")),
        1 => (time(columns, depth - 1), prop::sample::select(&["+", "-"][..]), prop::sample::select(spans))
            .prop_map(|(t, sign, span)| format!("({t} {sign} INTERVAL '{span}')")),
        1 => text(columns, depth - 1).prop_map(|t| format!("({t})::timestamptz")),
    ]
    .boxed()
}

fn condition(columns: Columns, depth: u32) -> Sql {
    let deeper = depth.saturating_sub(1);
    let signs = || prop::sample::select(&["=", "<>", "<", "<=", ">", ">="][..]);
    let compared = prop_oneof![
        (number(columns, deeper), signs(), number(columns, deeper)),
        (text(columns, deeper), signs(), text(columns, deeper)),
        (time(columns, deeper), signs(), time(columns, deeper)),
    ];
    let patterns = prop::sample::select(&["a%", "%", "_", "%a_", "\\%%", "%\\\\%", "c__l", "%é%", "a%b%"][..]);
    let leaf = prop_oneof![
        6 => compared.prop_map(|(a, sign, b)| format!("{a} {sign} {b}")),
        1 => (number(columns, deeper), number(columns, deeper), number(columns, deeper))
            .prop_map(|(a, b, c)| format!("{a} BETWEEN {b} AND {c}")),
        1 => (time(columns, deeper), time(columns, deeper)).prop_map(|(a, b)| format!("{a} NOT BETWEEN {b} AND end_of")),
        1 => (number(columns, deeper), number(columns, deeper)).prop_map(|(a, b)| format!("{a} NOT IN (1, {b}, 0)")),
        1 => (text(columns, deeper), text(columns, deeper)).prop_map(|(a, b)| format!("{a} IN ('a', {b}, NULL)")),
        1 => (text(columns, deeper), patterns).prop_map(|(a, pattern)| format!("{a} LIKE '{pattern}'")),
        1 => number(columns, deeper).prop_map(|a| format!("{a} IS NULL")),
        1 => text(columns, deeper).prop_map(|a| format!("{a} IS NOT NULL")),
        1 => one_of(&["TRUE", "FALSE", "NULL"]),
    ]
    .prop_map(|condition| condition.replace("end_of", "'2024-03-01'::timestamptz"));
    if depth == 0 {
        return leaf.boxed();
    }
    let (inner, other) = (condition(columns, depth - 1), condition(columns, depth - 1));
    prop_oneof![
        4 => leaf,
        1 => (inner.clone(), other.clone()).prop_map(|(a, b)| format!("({a} AND {b})")),
        1 => (inner.clone(), other).prop_map(|(a, b)| format!("({a} OR {b})")),
        1 => inner.prop_map(|a| format!("(NOT ({a}))")),
    ]
    .boxed()
}

/// A number made of many rows.
fn aggregate(columns: Columns) -> Sql {
    let n = || number(columns, 2);
    prop_oneof![
        Just("COUNT(*)".to_owned()),
        n().prop_map(|a| format!("COUNT({a})")),
        prop_oneof![n(), text(columns, 2), time(columns, 2)].prop_map(|a| format!("COUNT(DISTINCT {a})")),
        n().prop_map(|a| format!("SUM({a})")),
        n().prop_map(|a| format!("AVG({a})")),
        n().prop_map(|a| format!("MIN({a})")),
        n().prop_map(|a| format!("MAX({a})")),
        text(columns, 2).prop_map(|a| format!("CASE WHEN MAX({a}) > 'a' THEN 2 ELSE 1 END")),
        time(columns, 2).prop_map(|a| format!("CASE MIN({a}) WHEN date_trunc('day', MAX({a})) THEN 2 ELSE 1 END")),
    ]
    .boxed()
}

/// A number for each row, of the rows like it.
fn window(columns: Columns) -> Sql {
    let function = prop_oneof![
        aggregate(columns).prop_filter("one call", |a| !a.starts_with("CASE") && !a.contains("DISTINCT")),
        one_of(&["RANK()", "DENSE_RANK()"]),
    ];
    let key = || prop_oneof![number(columns, 1), text(columns, 1), time(columns, 1)];
    let partition = prop::option::of(key().prop_map(|key| format!("PARTITION BY {key} ")));
    let order = prop::option::of(
        (key(), one_of(&["", "ASC", "DESC", "DESC NULLS LAST", "NULLS FIRST"]))
            .prop_map(|(key, way)| format!("ORDER BY {key} {way}")),
    );
    (function, partition, order)
        .prop_map(|(function, partition, order)| {
            format!("{function} OVER ({}{})", partition.unwrap_or_default(), order.unwrap_or_default())
        })
        .boxed()
}

/// A query with the columns of [`INNER`].
fn inner() -> Sql {
    let plain = (number(EVENTS, 2), number(EVENTS, 1), text(EVENTS, 1), time(EVENTS, 1), condition(EVENTS, 2));
    let plain = plain
        .prop_map(|(a, b, c, d, w)| format!("SELECT {a} AS a, {b} AS b, {c} AS c, {d} AS d FROM events WHERE {w}"));
    let windows = (window(EVENTS), window(EVENTS), text(EVENTS, 1), time(EVENTS, 1));
    let windows =
        windows.prop_map(|(a, b, c, d)| format!("SELECT {a} AS a, {b} + 1 AS b, {c} AS c, {d} AS d FROM events e"));
    let numbered = (text(EVENTS, 1), one_of(&["ASC", "DESC"]), number(EVENTS, 1));
    let numbered = numbered.prop_map(|(c, way, b)| {
        format!(
            "SELECT ROW_NUMBER() OVER (PARTITION BY event_name ORDER BY {c} {way}) AS a, {b} AS b, {c} AS c, \
             time_created AS d FROM events"
        )
    });
    let groups = (
        aggregate(EVENTS),
        text(EVENTS, 1),
        time(EVENTS, 1),
        condition(EVENTS, 1),
        one_of(&["HAVING COUNT(*) > 1", ""]),
    );
    let groups = groups.prop_map(|(a, c, d, w, having)| {
        format!("SELECT {a} AS a, SUM(COUNT(*)) OVER () AS b, {c} AS c, {d} AS d FROM events WHERE {w} GROUP BY 3, d {having}")
    });
    prop_oneof![plain, windows, numbered, groups].boxed()
}

/// A query with one number, of either sign as its result would have it, or without one.
pub fn queries() -> Sql {
    let signed = |(a, is_bare): (String, bool)| {
        if is_bare { a } else { format!("CASE WHEN {a} < 0 THEN - {a} ELSE {a} END") }
    };
    let result = move |columns| (aggregate(columns), prop::bool::weighted(0.2)).prop_map(signed);
    let flat = (result(EVENTS), condition(EVENTS, 2));
    let flat = flat.prop_map(|(a, w)| format!("SELECT {a} AS usage_qty FROM events WHERE {w}"));
    let derived = (result(INNER), inner(), condition(INNER, 1));
    let derived = derived.prop_map(|(a, inner, w)| format!("SELECT {a} AS usage_qty FROM ({inner}) AS r WHERE {w}"));
    let named = (result(INNER), inner(), aggregate(INNER), condition(INNER, 1));
    let named = named.prop_map(|(a, inner, b, w)| {
        format!(
            "WITH r AS ({inner}), s AS (SELECT {b} AS a, MAX(r.b) AS b, c, d FROM r GROUP BY c, d) \
             SELECT {a} AS usage_qty FROM s r WHERE {w}"
        )
    });
    let scalar = (result(EVENTS), aggregate(INNER), inner());
    let scalar = scalar.prop_map(|(a, b, inner)| {
        format!("WITH r AS ({inner}) SELECT {a} + COALESCE((SELECT {b} FROM r), 0) AS usage_qty FROM events")
    });
    let each = inner().prop_map(|inner| format!("SELECT a AS usage_qty FROM ({inner}) r"));
    prop_oneof![3 => flat, 3 => derived, 3 => named, 1 => scalar, 1 => each].boxed()
}
