//! From a program to SQL. Every name in it is one of this file's; whatever came from outside is a parameter.
//!
//! Postgres's planner puts what a column stands for in its place wherever it can, and what stands twice in a sum is then
//! planned twice: a chain of twenty sums would be a million expressions, and nothing stops a planner. So where names stand for
//! much, each query in the statement has a *fence* that the planner does not look through: `AS MATERIALIZED`, and `OFFSET 0`
//! for queries in brackets. A fence also keeps conditions from the index, so there is none where names stand for little, nor around
//! queries that only choose rows and name columns: what is put in a column's place there is no larger than the column. Queries
//! that are one value are made queries with a name, so that each is there once.

use std::collections::BTreeMap;
use std::fmt::Write;

use billing_domain::custom_sql::program::{
    Aggregate, AggregateFunction, Arithmetic, Comparison, Conversion, Expression, Group, Order, Program, Select,
    Source, Type, Window, WindowFunction,
};
use billing_domain::custom_sql::{CustomUsageRequest, RESULT_DECIMALS};
use billing_domain::decimal;
use time::OffsetDateTime;
use uuid::Uuid;

/// Parts that a planner may make of a query by putting what names stand for in their places; a query with more has fences. As
/// many may be written without any name.
const UNFENCED_MAX: u64 = 500;

/// A statement and its parameters.
pub(crate) struct Printed {
    pub(crate) sql: String,
    pub(crate) binds: Vec<Bind>,
    /// Steps that keep rows in memory: each may take as much as Postgres's `work_mem`.
    pub(crate) keeping: u32,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bind {
    Uuid(Uuid),
    Time(OffsetDateTime),
    Text(String),
}

/// The parameters that every statement has: whose events, and the time that is asked about.
const ORGANIZATION: &str = "$1";
const CUSTOMER: &str = "$2";
const START: &str = "$3";
const END: &str = "$4";
const LAST: &str = "$5";

/// The statement for a request.
pub(crate) fn print(organization: Uuid, request: &CustomUsageRequest) -> Printed {
    let period = &request.period;
    let mut printer = Printer {
        binds: vec![
            Bind::Uuid(organization),
            Bind::Uuid(request.customer.uuid()),
            Bind::Time(period.start()),
            Bind::Time(period.end()),
            Bind::Time(period.last_instant()),
        ],
        program: request.sql.program(),
        filters: String::new(),
        named: String::new(),
        names: BTreeMap::new(),
        has_fences: request.sql.written_out() > UNFENCED_MAX,
        keeping: 0,
    };
    for (name, value) in request.filters.iter() {
        let (name, value) = (printer.text(name), printer.text(value));
        // Filters are conditions on each row, and so are their parameters: they are the same wherever events are read.
        let _infallible = write!(printer.filters, " AND public.property_text(e.properties, {name}) = {value}");
    }
    let sql = printer.statement();
    Printed { sql, binds: printer.binds, keeping: printer.keeping }
}

/// A query that stands apart from where it is used, by its place in the program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Apart {
    Named(usize),
    Scalar(usize),
}

struct Printer<'p> {
    binds: Vec<Bind>,
    program: &'p Program,
    filters: String,
    /// The queries with a name that are printed so far, each before whatever uses it.
    named: String,
    /// What they are called.
    names: BTreeMap<Apart, String>,
    has_fences: bool,
    keeping: u32,
}

/// Whether a query only chooses rows and names columns, so that there is nothing to put in a column's place but another one.
fn is_open(select: &Select) -> bool {
    select.group.is_none() && select.windows.is_empty() && select.outputs.iter().all(Expression::is_single)
}

fn list(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

impl Printer<'_> {
    fn bind(&mut self, bind: Bind) -> String {
        self.binds.push(bind);
        format!("${}", self.binds.len())
    }

    fn text(&mut self, text: &str) -> String {
        format!("{}::text", self.bind(Bind::Text(text.to_owned())))
    }

    fn statement(&mut self) -> String {
        let program = self.program;
        let body = self.select(&program.body);
        let (named, filters) = (&self.named, &self.filters);
        format!(
            "{named}SELECT coalesce(bool_or(r.c0 = 'NaN'), false) AS is_invalid, \
             min(nullif(r.c0, 'NaN')) AS least, max(nullif(r.c0, 'NaN')) AS greatest, \
             (SELECT count(*) FROM custom_metric_events AS e WHERE e.organization_id = {ORGANIZATION} \
             AND e.customer_key = {CUSTOMER} AND e.time_created >= {START} AND e.time_created < {END}{filters}) \
             AS event_count \
             FROM (SELECT round(coalesce(q.c0, 0), {RESULT_DECIMALS}) AS c0 FROM ({body} OFFSET 0) AS q OFFSET 0) AS r"
        )
    }

    /// A query in brackets.
    fn in_brackets(&self, select: &str) -> String {
        if self.has_fences { format!("({select} OFFSET 0)") } else { format!("({select})") }
    }

    /// The name of a query that stands apart, which is printed when it is first used: so it comes after whatever it uses itself.
    fn name(&mut self, apart: Apart) -> String {
        if let Some(name) = self.names.get(&apart) {
            return name.clone();
        }
        let program = self.program;
        let (select, is_open) = match apart {
            Apart::Named(place) => {
                let select = &program.named[place];
                (select, !self.has_fences || is_open(select))
            }
            Apart::Scalar(place) => (&program.scalars[place], false),
        };
        let printed = self.select(select);
        let name = format!("n{}", self.names.len());
        let lead = if self.named.is_empty() { "WITH" } else { "," };
        let materialized = if is_open { "" } else { "MATERIALIZED " };
        // One that is open is kept as well, if it is used twice.
        self.keeping += 1;
        self.named.push_str(&format!("{lead} {name} AS {materialized}({printed}) "));
        self.names.insert(apart, name.clone());
        name
    }

    fn select(&mut self, select: &Select) -> String {
        let mut from = self.source(&select.source);
        let mut filter = select.filter.as_ref().map(|filter| self.expression(filter, &[]));
        if let Some(group) = &select.group {
            let grouped = self.group(group, &from, filter.as_deref());
            from = format!("{} AS r", self.in_brackets(&grouped));
            filter = group.having.as_ref().map(|having| self.expression(having, &[]));
        }
        let windows: Vec<String> = select.windows.iter().map(|window| self.window(window)).collect();
        let outputs: Vec<String> = select.outputs.iter().map(|output| self.expression(output, &windows)).collect();
        let outputs = list(outputs.iter().enumerate().map(|(place, output)| format!("{output} AS c{place}")));
        let filter = filter.map(|filter| format!(" WHERE {filter}")).unwrap_or_default();
        format!("SELECT {outputs} FROM {from}{filter}")
    }

    fn source(&mut self, source: &Source) -> String {
        match source {
            Source::Named(place) => format!("{} AS r", self.name(Apart::Named(*place))),
            Source::Derived(select) if is_open(select) => format!("({}) AS r", self.select(select)),
            Source::Derived(select) => {
                let select = self.select(select);
                format!("{} AS r", self.in_brackets(&select))
            }
            // The columns are the domain's EVENT_COLUMNS.
            Source::Events => format!(
                "(SELECT e.properties AS c0, e.time_created AS c1, e.event_name AS c2, {START}::timestamptz AS c3, \
                 {LAST}::timestamptz AS c4, e.idempotency_id AS c5 FROM custom_metric_events AS e \
                 WHERE e.organization_id = {ORGANIZATION} AND e.customer_key = {CUSTOMER} AND e.time_created < {END}{}) \
                 AS r",
                self.filters
            ),
        }
    }

    fn group(&mut self, group: &Group, from: &str, filter: Option<&str>) -> String {
        let is_sorted = |aggregate: &&Aggregate| aggregate.function == AggregateFunction::CountDistinct;
        self.keeping += 1 + group.aggregates.iter().filter(is_sorted).count() as u32;
        let mut columns: Vec<String> = group.keys.iter().map(|key| self.expression(key, &[])).collect();
        columns.extend(group.aggregates.iter().map(|aggregate| self.aggregate(aggregate, "")));
        if columns.is_empty() {
            // Something must make one row of all.
            columns.push("count(*)".to_owned());
        }
        let columns = list(columns.iter().enumerate().map(|(place, column)| format!("{column} AS c{place}")));
        let filter = filter.map(|filter| format!(" WHERE {filter}")).unwrap_or_default();
        // By number: an expression with parameters is never equal to itself.
        let keys = list((1..=group.keys.len()).map(|number| number.to_string()));
        let keys = if keys.is_empty() { keys } else { format!(" GROUP BY {keys}") };
        format!("SELECT {columns} FROM {from}{filter}{keys}")
    }

    /// An aggregate; `over` is empty, or the window that it looks through.
    fn aggregate(&mut self, aggregate: &Aggregate, over: &str) -> String {
        let Some(argument) = &aggregate.argument else { return format!("(count(*){over})::numeric") };
        let argument = self.expression(argument, &[]);
        match aggregate.function {
            AggregateFunction::Count => format!("(count({argument}){over})::numeric"),
            AggregateFunction::CountDistinct => {
                format!("(count(DISTINCT {}){over})::numeric", ordered(argument, aggregate.of))
            }
            AggregateFunction::Sum => format!("(sum({argument}){over})"),
            AggregateFunction::Average => {
                format!("custom_metric.divide((sum({argument}){over}), (count({argument}){over})::numeric)")
            }
            // The least of the negatives is NaN when one is: it must not get lost.
            AggregateFunction::Min if aggregate.of == Type::Number => format!("(- (max(- {argument}){over}))"),
            AggregateFunction::Min => format!("(min({}){over})", ordered(argument, aggregate.of)),
            AggregateFunction::Max => format!("(max({}){over})", ordered(argument, aggregate.of)),
        }
    }

    fn window(&mut self, window: &Window) -> String {
        // The order, and the rows that are looked at together.
        self.keeping += 2;
        let partition =
            list(window.partition.iter().map(|key| self.expression(key, &[])).collect::<Vec<_>>().into_iter());
        let order = window.order.iter().map(|order| self.order(order)).collect::<Vec<_>>().join(", ");
        let mut over = String::new();
        if !partition.is_empty() {
            over.push_str(&format!("PARTITION BY {partition} "));
        }
        if !order.is_empty() {
            over.push_str(&format!("ORDER BY {order}"));
        }
        let over = format!(" OVER ({over})");
        match &window.function {
            WindowFunction::Aggregate(aggregate) => self.aggregate(aggregate, &over),
            WindowFunction::Rank => format!("(rank(){over})::numeric"),
            WindowFunction::DenseRank => format!("(dense_rank(){over})::numeric"),
            WindowFunction::RowNumber => format!("(row_number(){over})::numeric"),
        }
    }

    fn order(&mut self, order: &Order) -> String {
        let by = ordered(self.expression(&order.by, &[]), order.of);
        let direction = if order.descending { "DESC" } else { "ASC" };
        let nulls = if order.nulls_first { "FIRST" } else { "LAST" };
        format!("{by} {direction} NULLS {nulls}")
    }

    /// An expression, in brackets unless it is a single thing. `windows` are those of the query, printed.
    fn expression(&mut self, expression: &Expression, windows: &[String]) -> String {
        let mut print = |expression: &Expression| self.expression(expression, windows);
        match expression {
            Expression::Column(place) => format!("r.c{place}"),
            Expression::Windowed(place) => windows[*place].clone(),
            Expression::Null(of) => format!("NULL::{}", type_name(*of)),
            Expression::Bool(flag) => flag.to_string(),
            Expression::Number(number) => format!("{}::numeric", self.text(&decimal::plain(number))),
            Expression::Text(text) => self.text(text),
            Expression::Time(time) => format!("{}::timestamptz", self.bind(Bind::Time(*time))),
            Expression::Property { column, name } => format!("public.property_text(r.c{column}, {})", self.text(name)),
            Expression::Negate(number) => format!("(- {})", print(number)),
            Expression::Arithmetic(operator, left, right) => {
                let (left, right) = (print(left), print(right));
                match operator {
                    Arithmetic::Add => format!("({left} + {right})"),
                    Arithmetic::Subtract => format!("({left} - {right})"),
                    Arithmetic::Multiply => format!("custom_metric.multiply({left}, {right})"),
                    Arithmetic::Divide => format!("custom_metric.divide({left}, {right})"),
                }
            }
            Expression::Shift(time, microseconds) => {
                let time = print(time);
                let span = self.text(&format!("{microseconds} microseconds"));
                format!("custom_metric.shift({time}, {span}::interval)")
            }
            Expression::DateTrunc(unit, time) => format!("date_trunc('{}', {}, 'UTC')", unit.as_str(), print(time)),
            Expression::Cast(conversion, value) => cast(*conversion, &print(value)),
            Expression::Coalesce(all) => format!("coalesce({})", list(all.iter().map(print))),
            Expression::Case(branches, otherwise) => {
                let branches = branches.iter().map(|(condition, result)| (print(condition), print(result))).collect();
                case("", branches, &print(otherwise))
            }
            Expression::CaseOf(of, operand, branches, otherwise) => {
                let operand = compared(print(operand), *of);
                let branches =
                    branches.iter().map(|(value, result)| (compared(print(value), *of), print(result))).collect();
                case(&operand, branches, &print(otherwise))
            }
            Expression::Scalar(place) => {
                format!("(SELECT q.c0 FROM {} AS q)", self.name(Apart::Scalar(*place)))
            }
            condition => self.condition(condition, windows),
        }
    }

    fn condition(&mut self, condition: &Expression, windows: &[String]) -> String {
        let mut print = |expression: &Expression| self.expression(expression, windows);
        let joined = |all: Vec<String>, word: &str| format!("({})", all.join(word));
        match condition {
            Expression::Compare(comparison, of, left, right) => {
                let sign = sign_of(*comparison);
                format!("({} {sign} {})", compared(print(left), *of), compared(print(right), *of))
            }
            Expression::Between(of, parts) => {
                let [it, low, high] = parts.each_ref().map(|part| compared(print(part), *of));
                format!("({it} BETWEEN {low} AND {high})")
            }
            // IN would become as many comparisons, each with all of `it`, as there are columns in the list.
            Expression::In(of, it, all) => {
                let it = compared(print(it), *of);
                format!("({it} = ANY (ARRAY[{}]))", list(all.iter().map(|value| compared(print(value), *of))))
            }
            Expression::Like(text, pattern) => {
                let text = print(text);
                format!("(({text}) COLLATE \"C\" LIKE {})", self.text(pattern))
            }
            Expression::IsNull(inner) => format!("({} IS NULL)", print(inner)),
            Expression::Not(inner) => format!("(NOT {})", print(inner)),
            Expression::And(all) => joined(all.iter().map(print).collect(), " AND "),
            Expression::Or(all) => joined(all.iter().map(print).collect(), " OR "),
            // Whatever is no condition was printed before.
            _ => "NULL::boolean".to_owned(),
        }
    }
}

/// A value on one side of a comparison, which does not see numbers that could not be computed.
fn compared(value: String, of: Type) -> String {
    match of {
        Type::Number => format!("nullif({value}, 'NaN')"),
        _ => ordered(value, of),
    }
}

/// A value to be put in order.
fn ordered(value: String, of: Type) -> String {
    match of {
        Type::Text => format!("(({value}) COLLATE \"C\")"),
        _ => value,
    }
}

fn case(operand: &str, branches: Vec<(String, String)>, otherwise: &str) -> String {
    let branches: String = branches.iter().map(|(when, then)| format!(" WHEN {when} THEN {then}")).collect();
    format!("(CASE {operand}{branches} ELSE {otherwise} END)")
}

fn cast(conversion: Conversion, value: &str) -> String {
    match conversion {
        Conversion::TextToNumber => format!("custom_metric.number({value})"),
        Conversion::TextToNumberOrNull => format!("public.bounded_number({value})"),
        Conversion::NumberToText => format!("trim_scale({value})::text"),
        Conversion::TextToTime => format!("custom_metric.time({value})"),
        // Connections that run this have ISO dates and UTC.
        Conversion::TimeToText => format!("{value}::text"),
    }
}

fn sign_of(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

fn type_name(of: Type) -> &'static str {
    match of {
        Type::Number => "numeric",
        Type::Text => "text",
        Type::Time => "timestamptz",
        Type::Bool => "boolean",
        Type::Properties => "json",
    }
}
