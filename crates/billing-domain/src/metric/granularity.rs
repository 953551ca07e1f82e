//! The words for spans of time in a metric's definition.

use crate::period::Span;

/// A span of time as a metric names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granularity {
    /// A second.
    Seconds,
    /// A minute.
    Minutes,
    /// An hour.
    Hours,
    /// A UTC day.
    Days,
    /// A calendar month.
    Months,
    /// Three calendar months.
    Quarters,
    /// A calendar year.
    Years,
    /// The plan's duration.
    Total,
}

impl Granularity {
    /// Every word, the shortest span first.
    pub const ALL: &'static [Self] = &[
        Self::Seconds,
        Self::Minutes,
        Self::Hours,
        Self::Days,
        Self::Months,
        Self::Quarters,
        Self::Years,
        Self::Total,
    ];

    /// The text on the wire and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
            Self::Days => "days",
            Self::Months => "months",
            Self::Quarters => "quarters",
            Self::Years => "years",
            Self::Total => "total",
        }
    }

    /// The span; none for [`Granularity::Total`], which depends on the plan.
    pub fn span(self) -> Option<Span> {
        match self {
            Self::Seconds => Some(Span::Second),
            Self::Minutes => Some(Span::Minute),
            Self::Hours => Some(Span::Hour),
            Self::Days => Some(Span::Day),
            Self::Months => Some(Span::Month),
            Self::Quarters => Some(Span::Quarter),
            Self::Years => Some(Span::Year),
            Self::Total => None,
        }
    }
}

impl From<Option<Span>> for Granularity {
    fn from(span: Option<Span>) -> Self {
        match span {
            Some(Span::Second) => Self::Seconds,
            Some(Span::Minute) => Self::Minutes,
            Some(Span::Hour) => Self::Hours,
            Some(Span::Day) => Self::Days,
            Some(Span::Month) => Self::Months,
            Some(Span::Quarter) => Self::Quarters,
            Some(Span::Year) => Self::Years,
            None => Self::Total,
        }
    }
}
