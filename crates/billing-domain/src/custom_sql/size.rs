//! How large a query is, in parts of its expressions.
//!
//! A short text can say very much: where each of twenty queries adds the one before to itself, the last is a sum of a million.
//! Whoever puts what a name stands for in the name's place, as planners of databases do, gets all of that.

use super::program::{Aggregate, AggregateFunction, Expression, Program, Select, Source, Window, WindowFunction};

/// How large a query is: each of its columns, and all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub columns: Vec<u64>,
    pub whole: u64,
}

impl Sizes {
    /// Those of a relation whose columns are nothing but themselves.
    pub fn plain(columns: usize) -> Self {
        Self { columns: vec![1; columns], whole: 1 }
    }
}

/// What the names in an expression stand for, in parts. A name that is not there is one part, itself.
#[derive(Clone, Copy)]
struct Names<'n> {
    columns: &'n [u64],
    windows: &'n [u64],
    scalars: &'n [u64],
}

/// The sizes of a query over a source of known sizes, where `scalars` are those of the queries that are one value.
pub(super) fn of_select(select: &Select, source: &Sizes, scalars: &[u64]) -> Sizes {
    let mut names = Names { columns: &source.columns, windows: &[], scalars };
    let mut whole = names.all(&select.filter).saturating_add(source.whole);
    let mut grouped = Vec::new();
    if let Some(group) = &select.group {
        grouped.extend(group.keys.iter().map(|key| names.parts(key)));
        grouped.extend(group.aggregates.iter().map(|aggregate| names.aggregate(aggregate)));
        whole = grouped.iter().copied().fold(whole, u64::saturating_add);
        names.columns = &grouped;
        whole = whole.saturating_add(names.all(&group.having));
    }
    let windows: Vec<u64> = select.windows.iter().map(|window| names.window(window)).collect();
    names.windows = &windows;
    let columns: Vec<u64> = select.outputs.iter().map(|output| names.parts(output)).collect();
    let whole = columns.iter().copied().fold(whole, u64::saturating_add);
    Sizes { columns, whole }
}

/// How large a program is where every name stays a name: what somebody has to do who looks at each query once. Some signs
/// have to be read as two, so this can still be more than was written.
pub(super) fn of_program(program: &Program) -> u64 {
    let selects = program.named.iter().chain(&program.scalars).chain([&program.body]);
    selects.map(apart).fold(0, u64::saturating_add)
}

fn apart(select: &Select) -> u64 {
    let source = match &select.source {
        Source::Derived(inner) => apart(inner),
        Source::Events | Source::Named(_) => 1,
    };
    of_select(select, &Sizes { columns: Vec::new(), whole: source }, &[]).whole
}

impl Names<'_> {
    fn parts(self, expression: &Expression) -> u64 {
        let of = |sizes: &[u64], place: usize| sizes.get(place).copied().unwrap_or(1);
        match expression {
            Expression::Column(place) => of(self.columns, *place),
            Expression::Windowed(place) => of(self.windows, *place),
            Expression::Scalar(place) => of(self.scalars, *place),
            // Two comparisons, each of which has the first of them.
            Expression::Between(_, parts) => {
                let [it, low, high] = parts.each_ref().map(|part| self.parts(part));
                [it, it, low, high].into_iter().fold(1, u64::saturating_add)
            }
            other => {
                let mut sum = 1_u64;
                other.each_inside(&mut |inside| sum = sum.saturating_add(self.parts(inside)));
                sum
            }
        }
    }

    fn all<'e>(self, expressions: impl IntoIterator<Item = &'e Expression>) -> u64 {
        expressions.into_iter().map(|expression| self.parts(expression)).fold(0, u64::saturating_add)
    }

    fn aggregate(self, aggregate: &Aggregate) -> u64 {
        let argument = self.all(&aggregate.argument);
        match aggregate.function {
            // A sum by a count.
            AggregateFunction::Average => argument.saturating_mul(2).saturating_add(3),
            _ => argument.saturating_add(1),
        }
    }

    fn window(self, window: &Window) -> u64 {
        let function = match &window.function {
            WindowFunction::Aggregate(aggregate) => self.aggregate(aggregate),
            WindowFunction::Rank | WindowFunction::DenseRank | WindowFunction::RowNumber => 1,
        };
        let rows = window.partition.iter().chain(window.order.iter().map(|order| &order.by));
        function.saturating_add(self.all(rows))
    }
}

#[cfg(feature = "custom-sql")]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::custom_sql::CustomSql;
    use crate::testing::custom_sql::{chain, costly, nested};

    fn understood(sql: &str) -> CustomSql {
        CustomSql::parse(sql).unwrap_or_else(|error| panic!("{error}: {sql}"))
    }

    #[test]
    fn what_is_too_large_is_refused() {
        for query in costly() {
            let refused = understood(&query.sql).check().err().map(|error| error.to_string());
            let is_refused = refused.as_ref().is_some_and(|error| error.contains("more than 5000 parts"));
            assert_eq!(is_refused, query.is_refused, "{}: {refused:?}", query.name);
        }
    }

    #[test]
    fn the_refusal_says_from_where_on() {
        #[rustfmt::skip]
        let cases = [
            // query,                                                place,                     why
            (chain(9, "SELECT a + a AS a FROM t"),                     None,                                       "512 times a column"),
            (chain(13, "SELECT a + a AS a FROM t"),                    Some("Line 1, column 407: From here on"),   "t11 and all that it stands on"),
            (chain(40, "SELECT a + 1 AS a FROM t"),                    None,                                       "a long chain adds up, it does not multiply"),
            (nested(5, &format!("coalesce({})", ["a"; 20].join(","))), Some("Line 1, column 172: From here on"),   "the third level"),
        ];
        for (sql, place, why) in cases {
            let refused = understood(&sql).check().err().map(|error| error.to_string());
            match (place, &refused) {
                (None, None) => {}
                (Some(place), Some(error)) if error.starts_with(place) => {}
                _ => panic!("{why}: {refused:?}: {sql}"),
            }
        }
    }

    #[test]
    fn parts_are_counted() {
        #[rustfmt::skip]
        let cases = [
            // column of a and its source's size of 10, parts, why
            ("a",                                 10, "what it stands for"),
            ("a + 1",                             12, "and two more"),
            ("a BETWEEN 1 AND 2",                 23, "two comparisons"),
            ("a IN (1, 2, a)",                    23, "one comparison with a list"),
            ("coalesce(a, a, a)",                 31, "each time"),
            ("MAX(a)",                            11, "of many"),
            ("AVG(a)",                            23, "a sum by a count"),
            ("SUM(a) OVER (ORDER BY a)",          21, "for each row"),
        ];
        for (column, parts, why) in cases {
            let sums = "1 + 1 + 1 + 1 + (properties ->> 'n')::numeric";
            let output = if column.contains("IN") || column.contains("BETWEEN") {
                format!("CASE WHEN {column} THEN 1 END")
            } else {
                column.to_owned()
            };
            let sql = understood(&format!("SELECT {output} AS usage_qty FROM (SELECT {sums} AS a FROM events) AS t"));
            let Source::Derived(inner) = &sql.program().body.source else { panic!("a query in brackets") };
            let inner = of_select(inner, &Sizes::plain(6), &[]);
            assert_eq!(inner.columns, [10], "four sums, four numbers, a cast and a property");
            let extra = if output == column { 0 } else { 3 };
            assert_eq!(of_select(&sql.program().body, &inner, &[]).columns, [parts + extra], "{column}: {why}");
        }
    }

    #[test]
    fn where_names_stay_names_only_what_is_said_counts() {
        for (steps, most) in [(10, 100), (20, 200), (40, 400)] {
            let sql = understood(&chain(steps, "SELECT a + a AS a FROM t"));
            assert!(
                sql.expect_runnable().is_ok() && of_program(sql.program()) < most,
                "{steps}: {}",
                of_program(sql.program())
            );
        }
        let twice = (0..13).fold("a".to_owned(), |a, _| format!("CASE WHEN {a} BETWEEN 0 AND 9 THEN 1 END"));
        assert!(understood(&nested(1, &twice)).expect_runnable().is_err(), "BETWEEN doubles what stands in it");
    }

    #[test]
    fn columns_are_counted_before_they_are_there() {
        let stars: String = (1..=24).map(|n| format!(", t{n} AS (SELECT *, * FROM t{})", n - 1)).collect();
        let sql = format!("WITH t0 AS (SELECT * FROM events){stars} SELECT COUNT(*) AS usage_qty FROM t24");
        let refused = CustomSql::parse(&sql).expect_err("80 million columns").to_string();
        assert!(refused.contains("at most 1664 columns"), "{refused}");
    }
}
