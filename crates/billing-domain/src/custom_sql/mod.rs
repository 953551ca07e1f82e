//! Metrics that a customer of the service defines by a query of their own.
//!
//! The text of such a query never goes to a database. It is compiled into a [`Program`] of our own,
//! which two machines can run: the [interpreter](interpret) of this crate, and the printer of `billing-store`, which makes
//! SQL of the program again, with every literal as a parameter and no name but those it knows. What the small
//! language does not have cannot be asked for, so there is no list of what is forbidden.
//!
//! - **Relation:** `events`: the customer's events dated before the end of the time that is asked about, with all
//!   filters of the subscription applied. `start_date` and `end_date` are the first and the last instant of that time; the
//!   query must compare `time_created` with them itself.
//! - **Numbers:** there is one kind, an exact decimal; `5 / 2` is 2.5. A number that cannot be computed (a cast of a text
//!   that is no number, a division by zero) makes every sum it enters, and at last the result, unusable.
//! - **Result:** one finite number of 0 or more, called `usage_qty`; null and no rows at all are 0. When it is anything
//!   else, nothing is billed, and the reason is shown.
//!
//! Source: `docs/pricing.md`, "Custom SQL".

// Without the parser nothing makes a program, but all that runs one stays: it is what a custom metric means.
#![cfg_attr(not(feature = "custom-sql"), allow(dead_code))]

#[cfg(feature = "custom-sql")]
mod compile;
pub mod interpret;
#[cfg(feature = "custom-sql")]
mod parse;
pub mod program;
mod refusal;
mod result;
#[cfg(feature = "custom-sql")]
mod room;
mod sample;
mod size;
#[cfg(all(test, feature = "custom-sql"))]
mod tests;
mod value;

use std::sync::Arc;

#[cfg(feature = "custom-sql")]
use compile::Compiled;
use program::Program;

use crate::id::CustomerKey;
use crate::period::Period;
use crate::subscription::SubscriptionFilters;

#[cfg(feature = "custom-sql")]
pub use self::parse::{BYTES_MAX, NESTING_MAX, TOKENS_MAX};
pub use self::refusal::{CustomSqlError, Position};
pub use self::result::{CustomResult, RESULT_DECIMALS};
pub use self::value::{DECIMALS, DIGITS_MAX, Number};
pub use crate::error::{CustomFailure, RESULT_DIGITS_MAX, WRITTEN_OUT_MAX};

/// A question to the store: what does a query make of a customer's events?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomUsageRequest {
    /// Whose events.
    pub customer: CustomerKey,
    /// Which query.
    pub sql: CustomSql,
    /// Only events that have all of these properties are seen.
    pub filters: SubscriptionFilters,
    /// The time that is asked about; what is dated at its end or later is not seen.
    pub period: Period,
}

/// A query that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomSql {
    text: String,
    program: Arc<Program>,
    written_out: u64,
    /// Whether it is small enough to be taken, with every name in it replaced by what it stands for.
    size: Result<(), CustomSqlError>,
    /// How large it is where names stay names.
    parts: u64,
}

impl CustomSql {
    /// Reads a query.
    ///
    /// ```
    /// use billing_domain::custom_sql::CustomSql;
    ///
    /// assert!(CustomSql::parse("SELECT COUNT(*) AS usage_qty FROM events").is_ok());
    /// let error = CustomSql::parse("SELECT pg_sleep(10) AS usage_qty FROM events").unwrap_err();
    /// assert!(error.to_string().starts_with("Line 1, column 8: pg_sleep is not allowed"));
    /// ```
    ///
    /// # Errors
    /// Whatever is outside the language, with its place.
    #[cfg(feature = "custom-sql")]
    pub fn parse(text: &str) -> Result<Self, CustomSqlError> {
        let Compiled { program, written_out, size } = room::with_room(|| compile::compile(&parse::parse(text)?))?;
        let parts = size::of_program(&program);
        Ok(Self { text: text.to_owned(), program: Arc::new(program), written_out, size, parts })
    }

    /// Reads a query. This program was built without the feature `custom-sql` and knows none.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "custom-sql"))]
    pub fn parse(_: &str) -> Result<Self, CustomSqlError> {
        Err(CustomSqlError::whole("Custom queries are not part of this program: it was built without them."))
    }

    /// Its text, as it was sent.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it means.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// How many parts it has with every name in it replaced by what it stands for; `u64::MAX` and more are the same.
    pub fn written_out(&self) -> u64 {
        self.written_out
    }

    /// What a query must be to become a metric: no larger than [`WRITTEN_OUT_MAX`], every name in it replaced by what it stands
    /// for, and with a result on no events, and on a few that are made up from the properties it names.
    ///
    /// # Errors
    /// Where it is too large; when it has no usable result there: it would have none for a customer without usage.
    pub fn check(&self) -> Result<(), CustomSqlError> {
        self.size.clone()?;
        sample::check(&self.program)
    }

    /// What a query must be to be run at all. Metrics that were made before there was a limit may have passed it; they are run
    /// all the same, where a machine that looks at each query in it once has no more to do than that.
    ///
    /// # Errors
    /// [`CustomFailure::TooLarge`].
    pub fn expect_runnable(&self) -> Result<(), CustomFailure> {
        if self.parts > WRITTEN_OUT_MAX { Err(CustomFailure::TooLarge) } else { Ok(()) }
    }
}
