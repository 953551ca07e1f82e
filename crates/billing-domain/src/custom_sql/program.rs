//! What a custom query means, after its text is forgotten: a small, typed tree that two machines run alike.
//!
//! Everything here is *total*: no expression can fail, so neither machine depends on the order in which the other
//! looks at things. What has no value is null; a number that cannot be computed is
//! [`Number::Invalid`](super::value::Number::Invalid), which spreads through arithmetic and sums until it makes the whole
//! result unusable.

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

/// A query over the customer's events, with one column of one kind of number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Queries with a name, each of which may use those before it.
    pub named: Vec<Select>,
    /// Queries that are one value: they have one column and at most one row.
    pub scalars: Vec<Select>,
    /// The query itself.
    pub body: Select,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The customer's events; the columns are [`EVENT_COLUMNS`].
    Events,
    /// One of [`Program::named`].
    Named(usize),
    /// A query in its place.
    Derived(Box<Select>),
}

/// The columns of an event: name, type, and whether a query can name it.
pub const EVENT_COLUMNS: [(&str, Type, bool); 6] = [
    ("properties", Type::Properties, true),
    ("time_created", Type::Time, true),
    ("event_name", Type::Text, true),
    ("start_date", Type::Time, true),
    ("end_date", Type::Time, true),
    // Tells events of one instant apart, where rows are numbered.
    ("idempotency_id", Type::Text, false),
];
/// Where an event's time is among [`EVENT_COLUMNS`].
pub const TIME_COLUMN: usize = 1;
/// Where an event's id is among [`EVENT_COLUMNS`].
pub const ID_COLUMN: usize = 5;

/// One query, in the order in which it happens: filter, group, filter groups, windows, output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Select {
    /// Where its rows come from.
    pub source: Source,
    /// Which of them, over the columns of the source.
    pub filter: Option<Expression>,
    /// How they are put together; what follows then sees its columns in place of the source's.
    pub group: Option<Group>,
    /// What is computed for each row of the rows like it.
    pub windows: Vec<Window>,
    /// The columns that come out.
    pub outputs: Vec<Expression>,
}

/// Rows with the same keys become one. Its columns are the keys, then the aggregates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// By what; nothing: all rows become one, even when there is none.
    pub keys: Vec<Expression>,
    /// What is computed of the rows of a group.
    pub aggregates: Vec<Aggregate>,
    /// Which groups stay, over the columns of the group.
    pub having: Option<Expression>,
}

/// One value of many rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aggregate {
    /// Which.
    pub function: AggregateFunction,
    /// Of what; `None`: of the rows themselves.
    pub argument: Option<Expression>,
    /// The type of the argument.
    pub of: Type,
}

impl Aggregate {
    /// The type of its result.
    pub fn result(&self) -> Type {
        match self.function {
            AggregateFunction::Min | AggregateFunction::Max => self.of,
            _ => Type::Number,
        }
    }
}

/// What is made of the values that are not null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateFunction {
    /// How many there are.
    Count,
    /// How many different ones there are.
    CountDistinct,
    /// Their sum; of none: null.
    Sum,
    /// Their sum divided by their number; of none: null.
    Average,
    /// The least; of none: null.
    Min,
    /// The greatest; of none: null.
    Max,
}

/// A value for each row, of the rows like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// What is computed.
    pub function: WindowFunction,
    /// Rows with the same values here are alike.
    pub partition: Vec<Expression>,
    /// Their order. With an order, a row sees those before it and its equals; without, it sees all.
    pub order: Vec<Order>,
}

/// What a window computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowFunction {
    /// An aggregate of the rows seen.
    Aggregate(Aggregate),
    /// One more than the number of rows before it that are not its equals.
    Rank,
    /// One more than the number of different places before it.
    DenseRank,
    /// Its number in an order in which no two rows are equal.
    RowNumber,
}

/// One step of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// By what.
    pub by: Expression,
    /// Its type.
    pub of: Type,
    /// Greatest first.
    pub descending: bool,
    /// Whether null comes before everything else.
    pub nulls_first: bool,
}

/// The types of values; each has null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// An exact decimal: there is one kind of number.
    Number,
    /// Text, compared by its bytes.
    Text,
    /// An instant, in whole microseconds.
    Time,
    /// True, false or unknown.
    Bool,
    /// The properties of an event: good for `->>` alone.
    Properties,
}

/// A value for each row. Types are right by construction: nothing else is ever built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// A column of the row, by its place.
    Column(usize),
    /// The value of one of [`Select::windows`].
    Windowed(usize),
    /// Null, of a type.
    Null(Type),
    /// True or false.
    Bool(bool),
    /// A number.
    Number(BigDecimal),
    /// A text.
    Text(String),
    /// An instant.
    Time(OffsetDateTime),
    /// The text of a property: see [`Properties::text`](crate::event::Properties::text).
    Property {
        /// The column with the properties.
        column: usize,
        /// Which property.
        name: String,
    },
    /// The number with the other sign.
    Negate(Box<Self>),
    /// Two numbers.
    Arithmetic(Arithmetic, Box<Self>, Box<Self>),
    /// An instant moved by so many microseconds; null beyond the years 1 to 9999.
    Shift(Box<Self>, i64),
    /// Two values of a type. Unknown when one is null or an invalid number.
    Compare(Comparison, Type, Box<Self>, Box<Self>),
    /// Whether the first is at least the second and at most the third, as two comparisons.
    Between(Type, Box<[Self; 3]>),
    /// Whether the first equals one of the others, as that many comparisons.
    In(Type, Box<Self>, Vec<Self>),
    /// Whether a text has a form: `%` is any text, `_` any character, `\` takes the next as it is.
    Like(Box<Self>, String),
    /// Whether there is no value.
    IsNull(Box<Self>),
    /// The opposite; of unknown: unknown.
    Not(Box<Self>),
    /// Whether all are true.
    And(Vec<Self>),
    /// Whether one is true.
    Or(Vec<Self>),
    /// The value behind the first condition that is true, otherwise the last.
    Case(Vec<(Self, Self)>, Box<Self>),
    /// The value behind the first that equals the operand, otherwise the last.
    CaseOf(Type, Box<Self>, Vec<(Self, Self)>, Box<Self>),
    /// The first that is not null.
    Coalesce(Vec<Self>),
    /// The value as another type.
    Cast(Conversion, Box<Self>),
    /// The beginning of the unit of time in UTC that holds the instant.
    DateTrunc(DateUnit, Box<Self>),
    /// One of [`Program::scalars`].
    Scalar(usize),
}

impl Expression {
    /// Looks at each expression that this one is made of, not at those inside of them.
    pub(super) fn each_inside(&self, look: &mut dyn FnMut(&Self)) {
        match self {
            Self::Column(_)
            | Self::Windowed(_)
            | Self::Null(_)
            | Self::Bool(_)
            | Self::Number(_)
            | Self::Text(_)
            | Self::Time(_)
            | Self::Property { .. }
            | Self::Scalar(_) => {}
            Self::Negate(inner)
            | Self::Shift(inner, _)
            | Self::Like(inner, _)
            | Self::IsNull(inner)
            | Self::Not(inner)
            | Self::Cast(_, inner)
            | Self::DateTrunc(_, inner) => look(inner),
            Self::Arithmetic(_, left, right) | Self::Compare(_, _, left, right) => {
                look(left);
                look(right);
            }
            Self::Between(_, parts) => parts.iter().for_each(look),
            Self::In(_, it, list) => std::iter::once(&**it).chain(list).for_each(look),
            Self::And(all) | Self::Or(all) | Self::Coalesce(all) => all.iter().for_each(look),
            Self::Case(branches, otherwise) => {
                branches.iter().flat_map(|(a, b)| [a, b]).chain([&**otherwise]).for_each(look);
            }
            Self::CaseOf(_, operand, branches, otherwise) => {
                let branches = branches.iter().flat_map(|(a, b)| [a, b]);
                branches.chain([&**operand, &**otherwise]).for_each(look);
            }
        }
    }

    /// Whether it is a single thing: it takes no more to say it twice than to say a name for it twice.
    pub fn is_single(&self) -> bool {
        match self {
            Self::Scalar(_) | Self::Windowed(_) => false,
            _ => {
                let mut is_single = true;
                self.each_inside(&mut |_| is_single = false);
                is_single
            }
        }
    }
}

/// What can be done with two numbers. Null with anything is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Exact.
    Add,
    /// Exact.
    Subtract,
    /// Rounded to [`DECIMALS`](super::value::DECIMALS) decimals; invalid from
    /// 10^[`DIGITS_MAX`](super::value::DIGITS_MAX) on.
    Multiply,
    /// Rounded to [`DECIMALS`](super::value::DECIMALS) decimals; by zero: invalid.
    Divide,
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// From one type to another. Null stays null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// The number in a text: see [`parse_property`](crate::decimal::parse_property). Any other text is an invalid number.
    TextToNumber,
    /// The number in a text; any other text is null.
    TextToNumberOrNull,
    /// In plain notation without needless zeros; an invalid number is `NaN`.
    NumberToText,
    /// The instant in a text, as a date or a date-time; any other text is null.
    TextToTime,
    /// `2026-01-31 12:30:00.5+00`: in UTC, a fraction only when it is not zero.
    TimeToText,
}

choices! {
    /// Units of time that an instant can be cut to.
    pub DateUnit {
        /// 1 s.
        Second = "second",
        /// 60 s.
        Minute = "minute",
        /// 60 minutes.
        Hour = "hour",
        /// From midnight.
        Day = "day",
        /// From Monday.
        Week = "week",
        /// From the first of a month.
        Month = "month",
        /// From the first of January, April, July or October.
        Quarter = "quarter",
        /// From the first of January.
        Year = "year",
    }
}
