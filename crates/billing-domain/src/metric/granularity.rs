//! The words for spans of time in a metric's definition.

use crate::period::Span;

choices! {
    /// A span of time as a metric names it.
    pub Granularity {
        /// A second.
        Seconds = "seconds",
        /// A minute.
        Minutes = "minutes",
        /// An hour.
        Hours = "hours",
        /// A UTC day.
        Days = "days",
        /// A calendar month.
        Months = "months",
        /// Three calendar months.
        Quarters = "quarters",
        /// A calendar year.
        Years = "years",
        /// The plan's duration.
        Total = "total",
    }
}

impl Granularity {
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
