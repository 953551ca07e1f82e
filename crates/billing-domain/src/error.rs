//! What can go wrong, by kind: bad input, a business rule, an absent object, the store.
//!
//! Codes are stable text that clients branch on; details are for people. How a code becomes an HTTP status
//! is the business of the HTTP crate alone.

use std::fmt;

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
            Self::Fields(_) | Self::Store(_) => false,
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
    /// A test clock.
    TestClock,
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
            Self::TestClock => "test clock",
        })
    }
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Dotted path of the field, list positions as numbers: `components.0.tiers.1.range_end`.
    pub attr: String,
    /// Stable code.
    pub code: FieldCode,
    /// A sentence for people.
    pub detail: String,
}

impl FieldError {
    /// An error at `attr`.
    pub fn new(attr: impl Into<String>, code: FieldCode, detail: impl Into<String>) -> Self {
        Self { attr: attr.into(), code, detail: detail.into() }
    }

    /// The same error one level further out: `tiers` of `components.0` is `components.0.tiers`.
    #[must_use]
    pub fn under(mut self, outer: &str) -> Self {
        if self.attr.is_empty() {
            outer.clone_into(&mut self.attr);
        } else if !outer.is_empty() {
            self.attr = format!("{outer}.{}", self.attr);
        }
        self
    }
}

/// Every bad field of one input, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors(pub Vec<FieldError>);

impl FieldErrors {
    /// Notes one more bad field.
    pub fn push(&mut self, attr: impl Into<String>, code: FieldCode, detail: impl Into<String>) {
        self.0.push(FieldError::new(attr, code, detail));
    }

    /// Keeps the value of `result`, or notes its error at `attr`.
    pub fn keep<T>(&mut self, attr: &str, result: Result<T, FieldError>) -> Option<T> {
        result.map_err(|error| self.0.push(error.under(attr))).ok()
    }

    /// Keeps the value of `result`, or notes all its errors below `attr`.
    pub fn keep_all<T>(&mut self, attr: &str, result: Result<T, Self>) -> Option<T> {
        result.map_err(|errors| self.0.extend(errors.0.into_iter().map(|error| error.under(attr)))).ok()
    }

    /// `value` if nothing was noted.
    ///
    /// # Errors
    /// All that was noted.
    pub fn finish<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// The same errors one level further out.
    #[must_use]
    pub fn under(self, outer: &str) -> Self {
        Self(self.0.into_iter().map(|error| error.under(outer)).collect())
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether something was noted of `attr`, of what is in it, or of what it is in.
    pub fn mentions(&self, attr: &str) -> bool {
        self.0.iter().any(|error| is_inside(&error.attr, attr) || is_inside(attr, &error.attr))
    }

    /// Notes what was found later, and on the strength of what stood in for bad fields: of these nothing more is said.
    pub fn add_found_later(&mut self, later: Self) {
        let new: Vec<_> = later.0.into_iter().filter(|error| !self.mentions(&error.attr)).collect();
        self.0.extend(new);
    }
}

/// Whether `inner` is `outer` or a part of it.
fn is_inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || outer.is_empty() || rest.starts_with('.'))
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{}: {}", error.attr, error.detail)?;
        }
        Ok(())
    }
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal, $meaning:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $(#[doc = $meaning] $variant,)* }

        impl $name {
            /// Every code there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable text of the code.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// When the code is given.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    /// What can be wrong with a field.
    FieldCode {
        Required = "required", "The field is missing.";
        Null = "null", "The field is null and may not be.";
        Blank = "blank", "The field is empty text and may not be.";
        Invalid = "invalid", "The value cannot be read as what the field holds.";
        InvalidChoice = "invalid_choice", "The value is not one of those allowed.";
        DoesNotExist = "does_not_exist", "The value names an object that does not exist in this organization.";
        IncorrectType = "incorrect_type", "The value has another JSON type than the field.";
        MinValue = "min_value", "The value is below the least allowed.";
        MaxValue = "max_value", "The value is above the greatest allowed.";
        MaxLength = "max_length", "The text is too long.";
        MaxDecimalPlaces = "max_decimal_places", "The number has too many decimals.";
        MaxWholeDigits = "max_whole_digits", "The number has too many digits before the point.";
        ListTooLong = "list_too_long", "The list has too many elements.";
        NotAList = "not_a_list", "The value should be a list.";
        Empty = "empty", "The list is empty and may not be.";
        Unique = "unique", "The value occurs twice where it must be unique.";
        NotAllowedTogether = "not_allowed_together", "Exactly one of several fields may be given.";
        CustomSqlNotAllowed = "custom_sql_not_allowed", "The query is outside the language of custom metrics; the detail says where, and what is allowed.";
    }
}

/// A rule that forbids an operation in the present state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Something with the same unique property exists.
    #[error("{0}")]
    DuplicateResource(&'static str),
    /// A subscription of the customer to the same plan covers the same events in the same time.
    #[error("The customer already has a subscription to this plan whose period and filters overlap.")]
    OverlappingPlans,
    /// No active version of the plan suits the customer.
    #[error("No active version of this plan matches the customer.")]
    NoMatchingPlanVersion,
    /// More than one version suits, and nothing tells them apart.
    #[error("More than one active version of this plan matches the customer; name one by version_id.")]
    AmbiguousPlanVersion,
    /// The version is made for other customers.
    #[error("This plan version is not available to the customer.")]
    PlanNotAvailableToCustomer,
    /// A prepaid component has no default number of units, and none was given.
    #[error("The prepaid component of metric {0} has no default units and none were given.")]
    PrepaymentCantDetermineUnits(crate::id::MetricId),
    /// The subscription has ended.
    #[error("The subscription has ended.")]
    AlreadyEnded,
    /// The key has expired; one of the same expiry would be worthless.
    #[error("The key has expired; create another.")]
    KeyExpired,
    /// The invoice is paid or voided, and stays so.
    #[error("The invoice is paid or voided, and stays so.")]
    InvoiceFinal,
    /// Only an unpaid invoice can be voided.
    #[error("Only an unpaid invoice can be voided.")]
    InvoiceNotUnpaid,
    /// A credit that the invoice stands for has paid for other invoices.
    #[error("A credit that was bought by the invoice has paid for others.")]
    CreditDrawn,
    /// The credit is expired, used up or voided.
    #[error("The credit is not active.")]
    CreditNotActive,
    /// The expiry given has passed.
    #[error("The expiry given is in the past.")]
    CreditExpiryInPast,
    /// A plan version meters the metric.
    #[error("A plan version uses this metric.")]
    MetricInUse,
    /// Subscriptions to it run, or are to come.
    #[error("Subscriptions to it have not ended.")]
    PlanInUse,
    /// A custom metric has no usable result for the customer.
    #[error("The custom metric has no usable result: {0}.")]
    CustomMetricFailed(crate::custom_sql::CustomFailure),
    /// The customer's test clock is on its way; wait until it is ready.
    #[error("The customer's test clock is advancing.")]
    TestClockAdvancing,
    /// A request with the same idempotency key is at work, or has just been answered.
    #[error("A request with this Idempotency-Key is being worked on.")]
    IdempotencyKeyInUse,
}

impl Refusal {
    /// The stable text of the code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DuplicateResource(_) => "duplicate_resource",
            Self::OverlappingPlans => "overlapping_plans",
            Self::NoMatchingPlanVersion => "no_matching_plan_version",
            Self::AmbiguousPlanVersion => "ambiguous_plan_version",
            Self::PlanNotAvailableToCustomer => "plan_not_available_to_customer",
            Self::PrepaymentCantDetermineUnits(_) => "prepayment_cant_determine_units",
            Self::AlreadyEnded | Self::KeyExpired | Self::InvoiceNotUnpaid | Self::CreditDrawn => "invalid_state",
            Self::InvoiceFinal => "invalid_operation",
            Self::CreditNotActive => "credit_not_active",
            Self::CreditExpiryInPast => "credit_expiry_in_past",
            Self::MetricInUse | Self::PlanInUse => "invalid_operation",
            Self::CustomMetricFailed(_) => "custom_metric_failed",
            Self::TestClockAdvancing => "test_clock_advancing",
            Self::IdempotencyKeyInUse => "idempotency_key_in_use",
        }
    }

    /// Whether the same request may be granted a little later although nobody changes anything.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::TestClockAdvancing | Self::IdempotencyKeyInUse)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_bad_field_nothing_more_is_said() {
        #[rustfmt::skip]
        let cases = [
            // noted,            found later,           is said, why
            ("a",                "b",                   true,    "another field"),
            ("a",                "a",                   false,   "the same"),
            ("a",                "a.0.b",               false,   "a part of it"),
            ("a.0.b",            "a",                   false,   "what it is in"),
            ("a.0.b",            "a.1.b",               true,    "its neighbour"),
            ("a",                "ab",                  true,    "only a longer name"),
            ("",                 "a",                   false,   "a part of what is bad as a whole"),
        ];
        let error = |attr: &str| FieldErrors(vec![FieldError::new(attr, FieldCode::Invalid, "no")]);
        for (noted, later, is_said, why) in cases {
            let mut errors = error(noted);
            errors.add_found_later(error(later));
            assert_eq!(errors.0.len() == 2, is_said, "{noted}, {later}: {why}");
        }
    }
}
