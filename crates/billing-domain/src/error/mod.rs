//! What can go wrong, by kind: bad input, a business rule, an absent object, the store.
//!
//! Codes are stable text that clients branch on; details are for people. How a code becomes an HTTP status
//! is the business of the HTTP crate alone.

mod custom;
mod field;
mod held_amount;
mod refusal;
mod tax_need;

use std::fmt;

pub use custom::{CustomFailure, RESULT_DIGITS_MAX, WRITTEN_OUT_MAX};
pub use field::{FieldCode, FieldError, FieldErrors};
pub use held_amount::HeldAmount;
pub use refusal::Refusal;
pub use tax_need::TaxNeed;

/// Why an operation did not happen. Nothing of it has been kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The input itself is wrong; every bad field is listed.
    #[error("{0}")]
    Fields(FieldErrors),
    /// The input is well formed, but a rule forbids the operation in the present state.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The object named does not exist in this organization.
    #[error("{0} not found")]
    NotFound(Noun),
    /// The organization's tax provider is to be asked first; then the same is done again.
    #[error("{0}")]
    TaxRate(TaxNeed),
    /// The store failed; nothing is said about the input.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Self {
        Self::Fields(FieldErrors(vec![error]))
    }
}

impl From<FieldErrors> for Error {
    fn from(errors: FieldErrors) -> Self {
        Self::Fields(errors)
    }
}

impl Error {
    /// The error for a body or query field that names something which does not exist.
    pub fn unknown_reference(attr: &str, noun: Noun) -> Self {
        FieldError::new(attr, FieldCode::DoesNotExist, format!("No such {noun}.")).into()
    }

    /// Whether a rule has decided on input that is well formed: the same request, sent again, is answered the same.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Refused(refusal) => !refusal.is_passing(),
            Self::NotFound(_) => true,
            Self::Fields(_) | Self::TaxRate(_) | Self::Store(_) => false,
        }
    }

    /// The same error, for a caller that knows the field `attr` by another name.
    #[must_use]
    pub fn renamed(self, attr: &str, name: &str) -> Self {
        let Self::Fields(FieldErrors(mut errors)) = self else { return self };
        for error in errors.iter_mut().filter(|error| error.attr == attr) {
            name.clone_into(&mut error.attr);
        }
        Self::Fields(FieldErrors(errors))
    }

    /// Turns "not found" into "this field names something that does not exist".
    #[must_use]
    pub fn at_field(self, attr: &str) -> Self {
        match self {
            Self::NotFound(noun) => Self::unknown_reference(attr, noun),
            other => other,
        }
    }
}

/// The kinds of object that can be looked for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noun {
    /// An organization.
    Organization,
    /// An API key, by prefix.
    ApiKey,
    /// An access token, by prefix.
    AccessToken,
    /// A currency, by code.
    Currency,
    /// A metric.
    Metric,
    /// A feature.
    Feature,
    /// A plan.
    Plan,
    /// A plan version.
    PlanVersion,
    /// An add-on.
    Addon,
    /// An add-on that is attached to a subscription.
    AddonSubscription,
    /// A customer.
    Customer,
    /// A subscription.
    Subscription,
    /// An invoice, by id or number.
    Invoice,
    /// A credit.
    Credit,
    /// A payment of an invoice.
    Payment,
    /// A credit note.
    CreditNote,
    /// A usage event, by its idempotency id.
    Event,
    /// A job.
    Job,
    /// An audit of the books.
    BooksAudit,
    /// A request for a second person.
    Approval,
    /// A one-off line.
    OneOffLine,
    /// A test clock.
    TestClock,
    /// A message.
    Message,
    /// An endpoint that messages are sent to.
    WebhookEndpoint,
    /// A usage alert.
    UsageAlert,
    /// A person who signs in.
    User,
    /// A [session](crate::user::Session).
    Session,
    /// An [invitation](crate::user::Invitation).
    Invitation,
}

impl fmt::Display for Noun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Organization => "organization",
            Self::ApiKey => "API key",
            Self::AccessToken => "access token",
            Self::Currency => "currency",
            Self::Metric => "metric",
            Self::Feature => "feature",
            Self::Plan => "plan",
            Self::PlanVersion => "plan version",
            Self::Addon => "add-on",
            Self::AddonSubscription => "attached add-on",
            Self::Customer => "customer",
            Self::Subscription => "subscription",
            Self::Invoice => "invoice",
            Self::Credit => "credit",
            Self::Payment => "payment",
            Self::CreditNote => "credit note",
            Self::Event => "event",
            Self::Job => "job",
            Self::BooksAudit => "audit of the books",
            Self::Approval => "approval",
            Self::OneOffLine => "one-off line",
            Self::TestClock => "test clock",
            Self::Message => "message",
            Self::WebhookEndpoint => "webhook endpoint",
            Self::UsageAlert => "usage alert",
            Self::User => "user",
            Self::Session => "session",
            Self::Invitation => "invitation",
        })
    }
}

/// The store could not do its part. The text is for the log, never for a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No connection, or it broke: try again.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// All connections were busy for too long: try again.
    #[error("no database connection became free in time")]
    PoolExhausted,
    /// Too much waits already; nothing was done: come back later.
    #[error("too much waits already")]
    Overloaded,
    /// Another operation on the same customer held on for too long: try again.
    #[error("a lock was not granted in time")]
    LockTimeout,
    /// A statement ran into its time limit.
    #[error("a statement ran out of time")]
    DeadlineExceeded,
    /// The disk is full: try again when there is room.
    #[error("the database's disk is full: {0}")]
    StorageFull(String),
    /// The database accepts no writes at present.
    #[error("the database is read-only")]
    ReadOnly,
    /// Billing would have made more invoices than can be right.
    #[error("billing was stopped: {0}")]
    SafetyBound(String),
    /// A bug: a constraint that should never be hit, a row that cannot be read.
    #[error("{0}")]
    Internal(String),
}
