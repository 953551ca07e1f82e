//! Random queries that say much in few words: chains and nests of queries that share what they stand on, and expressions
//! around expressions.

use billing_domain::testing::custom_sql::costly;
use proptest::prelude::*;
use proptest::strategy::BoxedStrategy;

type Sql = BoxedStrategy<String>;

/// Expressions that say `@` more than once, or that somebody might read as if they did.
const OUTER: &[&str] = &[
    "@ + @",
    "@ - @ / 2",
    "@ * @",
    "@ / (@ + 1)",
    "- @ + @",
    "coalesce(@, @, @, @, @)",
    "CASE WHEN @ > 1 AND @ < 7 THEN @ ELSE @ + 1 END",
    "CASE @ WHEN 1 THEN @ WHEN 2 THEN 3 ELSE @ END",
    "CASE WHEN @ BETWEEN b AND 9 THEN 1 ELSE 2 END",
    "CASE WHEN @ NOT BETWEEN @ AND @ + 1 THEN @ ELSE b END",
    "CASE WHEN @ IN (1, a, b, a, b, a, b) THEN 1 ELSE @ END",
    "CASE WHEN @ NOT IN (1, 2, b) THEN 1 ELSE 2 END",
    "CASE WHEN (@)::text LIKE '%1%' THEN @ ELSE b END",
    "((@)::text)::numeric",
    "coalesce(TRY_CAST((@)::text AS numeric), @)",
];

/// An expression over the columns `a` and `b`, a few levels deep. Those that say what is inside more than twice are for the
/// innermost: the text doubles too, and it may have 600 words.
fn wide() -> Sql {
    let leaf = prop::sample::select(&["a", "b", "a", "1", "0.5"][..]).prop_map(str::to_owned);
    let twice =
        leaf.clone().prop_flat_map(|leaf| prop::sample::select(OUTER).prop_map(move |outer| outer.replace('@', &leaf)));
    let once = |inner: Sql| {
        let around = prop::sample::select(
            &[
                "CASE WHEN @ BETWEEN b AND 9 THEN 1 ELSE 2 END",
                "CASE WHEN @ IN (a, b, a, b, a, b) THEN 1 ELSE 2 END",
                "CASE @ WHEN 1 THEN a ELSE b END",
                "(@) * 2",
                "(@) / 3",
                "coalesce(@, a, b)",
            ][..],
        );
        (inner, around, 0..6_usize)
            .prop_map(|(inner, around, times)| (0..times).fold(inner, |inner, _| around.replace('@', &inner)))
            .boxed()
    };
    prop_oneof![2 => leaf, 4 => twice.clone(), 2 => once(twice.boxed())].boxed()
}

/// A query with the columns `a` and `b`; `~` is what it reads.
fn step() -> Sql {
    let plain = (wide(), wide(), prop::option::of(wide())).prop_map(|(a, b, filter)| {
        let filter = filter.map(|filter| format!(" WHERE {filter} IS NOT NULL OR a > b")).unwrap_or_default();
        format!("SELECT {a} AS a, {b} AS b FROM ~{filter}")
    });
    let grouped = (wide(), wide()).prop_map(|(a, b)| {
        format!("SELECT {a} AS a, MAX({b}) AS b FROM ~ GROUP BY 1 HAVING COUNT(*) > 0 AND COUNT(DISTINCT {b}) < 99")
    });
    let whole = (wide(), wide()).prop_map(|(a, b)| format!("SELECT AVG({a}) AS a, MIN({b}) + MAX({b}) AS b FROM ~"));
    let windows = (wide(), wide()).prop_map(|(a, b)| {
        format!("SELECT SUM({a}) OVER (ORDER BY {b}) AS a, MAX({b}) OVER (PARTITION BY a) + a AS b FROM ~")
    });
    let open = Just("SELECT * FROM ~ WHERE a IS NOT NULL".to_owned());
    let renamed = Just("SELECT b AS a, a AS b FROM ~".to_owned());
    let values = (wide(), wide()).prop_map(|(a, b)| {
        format!("SELECT (SELECT MAX({a}) FROM ~) + (SELECT AVG({a}) FROM ~) AS a, MIN({b}) AS b FROM ~")
    });
    prop_oneof![5 => plain, 2 => grouped, 1 => whole, 1 => windows, 2 => open, 1 => renamed, 1 => values].boxed()
}

const FIRST: &str = "SELECT (properties ->> 'n')::numeric AS a, COUNT(*) AS b FROM events GROUP BY 1";

fn chains() -> Sql {
    // One step again and again goes deepest.
    let repeated = (step(), 1..30_usize).prop_map(|(step, times)| vec![(step, 0, true); times]);
    // Each step reads the one before, or an earlier one.
    let steps = prop::collection::vec((step(), any::<prop::sample::Index>(), prop::bool::weighted(0.8)), 1..12);
    let mixed = steps.prop_map(|steps| {
        steps.into_iter().map(|(step, earlier, is_next)| (step, earlier.index(1 << 16), is_next)).collect::<Vec<_>>()
    });
    prop_oneof![repeated, mixed]
        .prop_map(|steps| {
            let mut named = format!("WITH t0 AS ({FIRST})");
            let count = steps.len();
            for (n, (step, earlier, is_next)) in steps.into_iter().enumerate() {
                let read = if is_next { n } else { earlier % (n + 1) };
                named.push_str(&format!(", t{} AS ({})", n + 1, step.replace('~', &format!("t{read}"))));
            }
            format!("{named} SELECT MAX(CASE WHEN a < 0 THEN - a ELSE a END) AS usage_qty FROM t{count}")
        })
        .boxed()
}

fn nests() -> Sql {
    (prop::collection::vec(step(), 1..6))
        .prop_map(|steps| {
            // A step that reads more than once is not for a nest: its text would double.
            let steps = steps.into_iter().filter(|step| step.matches('~').count() == 1);
            let nest = steps.fold(FIRST.to_owned(), |inner, step| step.replace('~', &format!("({inner}) AS r")));
            format!("SELECT SUM(CASE WHEN a < 0 THEN - a ELSE a END) AS usage_qty FROM ({nest}) AS r")
        })
        .boxed()
}

/// Queries that share, nest and repeat. Some are longer than a query may be.
pub fn deep_queries() -> Sql {
    let known: Vec<String> = costly().into_iter().map(|query| query.sql).collect();
    prop_oneof![5 => chains(), 3 => nests(), 1 => prop::sample::select(known)].boxed()
}
