//! Why a custom metric has no quantity, and the limits that this speaks of.

/// Digits before the point that a result has at most.
pub const RESULT_DIGITS_MAX: u32 = 18;
/// Most parts of a query with every name in it replaced by what it stands for; what is read counts as well as what comes out.
/// So much takes a planner that replaces names 40 MB or so; a query that uses each name once has 500 parts at most.
pub const WRITTEN_OUT_MAX: u64 = 5_000;

/// Why a custom query has no usable result. Nothing is billed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CustomFailure {
    /// The result stands on a number that could not be computed.
    #[error(
        "the query has no number as its result: a text that is no number was cast to one, something was divided by \
         zero, or a product was too great"
    )]
    Invalid,
    /// The result has several rows that differ.
    #[error("the query has several rows with different values as its result")]
    Ambiguous,
    /// The result is below zero.
    #[error("the query has a negative number as its result")]
    Negative,
    /// The result is too great.
    #[error("the query has a number of more than {RESULT_DIGITS_MAX} digits as its result")]
    TooGreat,
    /// It ran longer than custom metrics may, or than what was left of the time for all that was asked at once.
    #[error("the query takes too long, by itself or with all else that was asked at once")]
    TimedOut,
    /// It kept more rows in mind at once than custom metrics may.
    #[error("the query takes too much memory")]
    TooMuchMemory,
    /// It says too much in too few words.
    #[error("the query has more than {WRITTEN_OUT_MAX} parts, though every name in it is left as it is")]
    TooLarge,
    /// The store could not run it, through no fault of the query's. The store's log has the cause.
    #[error("a fault of the service kept the query from running")]
    Fault,
}
