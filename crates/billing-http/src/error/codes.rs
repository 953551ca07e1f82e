//! Every error code there is, with its status and meaning: the one table behind answers and documentation.

use billing_domain::{FieldCode, Noun, Refusal, StoreError};

/// One row of the table.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// What clients branch on: the `title` of an error answer. It never changes.
    pub text: &'static str,
    /// The HTTP status that goes with it.
    pub status: u16,
    /// When it is given.
    pub meaning: &'static str,
}

macro_rules! codes {
    ($($name:ident = $status:literal, $text:literal, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub static $name: Code = Code { text: $text, status: $status, meaning: $meaning };)*

        /// The codes that are not about one field.
        static GENERAL: &[&Code] = &[$(&$name,)*];
    };
}

codes! {
    PARSE_ERROR = 400, "parse_error", "The body is not JSON.";
    DUPLICATE_JSON_KEY = 400, "duplicate_json_key", "An object in the body has the same key twice.";
    JSON_TOO_DEEP = 400, "json_too_deep", "Objects and lists in the body are nested more than 32 deep.";
    INVALID_ENCODING = 400, "invalid_encoding",
        "The body is not UTF-8, or a string in it has a NUL or half a surrogate pair.";
    DUPLICATE_RESOURCE = 400, "duplicate_resource", "Something with the same unique property exists.";
    NO_MATCHING_PLAN_VERSION = 400, "no_matching_plan_version", "No active version of the plan suits the customer.";
    AMBIGUOUS_PLAN_VERSION = 400, "ambiguous_plan_version",
        "Several active versions of the plan suit the customer; name one by version_id.";
    PLAN_NOT_AVAILABLE_TO_CUSTOMER = 400, "plan_not_available_to_customer",
        "The plan version is made for other customers.";
    PREPAYMENT_CANT_DETERMINE_UNITS = 400, "prepayment_cant_determine_units",
        "A prepaid component has no default units and none were given.";
    CREDIT_EXPIRY_IN_PAST = 400, "credit_expiry_in_past", "The expiry given for the credit has passed.";
    CREDIT_NOT_ACTIVE = 400, "credit_not_active", "The credit is expired, used up or voided.";
    INVALID_OPERATION = 400, "invalid_operation", "The object is in use or final, so this cannot be done to it.";
    IDEMPOTENCY_KEY_INVALID = 400, "idempotency_key_invalid",
        "The Idempotency-Key header is not one of 1 to 255 printable ASCII characters.";
    NOT_AUTHENTICATED = 401, "not_authenticated", "The X-API-KEY header is missing, or holds no valid key.";
    AUTHENTICATION_FAILED = 401, "authentication_failed",
        "The Authorization header sent beside the key holds no valid token of the same organization.";
    MISSING_SCOPE = 403, "missing_scope", "The API key may not be used for this call; the detail names the scope that it needs.";
    SECOND_PERSON_NEEDED = 403, "second_person_needed",
        "Only another person than the one who asked may decide about a request, and only who asked may withdraw it.";
    NOT_FOUND = 404, "not_found", "The path names something that does not exist in this organization.";
    RESOURCE_NOT_FOUND = 404, "resource_not_found", "The path names a subscription that does not exist in this organization, or an add-on that is not attached to it.";
    METHOD_NOT_ALLOWED = 405, "method_not_allowed", "The path has no such method; the Allow header lists those it has.";
    REQUEST_TIMEOUT = 408, "request_timeout", "The body did not arrive in time.";
    OVERLAPPING_PLANS = 409, "overlapping_plans",
        "The customer has a subscription to the plan whose period and filters overlap.";
    INVALID_STATE = 409, "invalid_state",
        "The subscription has ended, the invoice cannot be voided any more or takes no payment, the payment is reversed, nothing is left to be credited, or the request was decided about.";
    BEYOND_WINDOW = 409, "beyond_window",
        "An event to be corrected is older than events are accepted; with beyond_window what was billed for its time is looked at again.";
    CUSTOM_METRIC_FAILED = 409, "custom_metric_failed",
        "The query of a custom metric has no usable result for the customer; the detail says why.";
    ONE_OFF_LINE_BILLED = 409, "one_off_line_billed",
        "The one-off line is on an invoice; only one that waits can be taken away.";
    TEST_CLOCK_ADVANCING = 409, "test_clock_advancing", "The customer's test clock is advancing; wait until it is ready.";
    CATCHING_UP = 409, "catching_up",
        "What fell due in the past of the customer is still being billed; wait until the customer no longer says catching_up.";
    CONFLICT_RETRY = 409, "conflict_retry", "Another operation on the same customer held on for too long; try again.";
    IDEMPOTENCY_KEY_IN_USE = 409, "idempotency_key_in_use",
        "A request with this Idempotency-Key is being worked on; try again.";
    PAYLOAD_TOO_LARGE = 413, "payload_too_large", "The body, or what it decompresses to, is larger than allowed.";
    URI_TOO_LONG = 414, "uri_too_long", "The path and query are longer than 8 KiB.";
    UNSUPPORTED_MEDIA_TYPE = 415, "unsupported_media_type",
        "The body's Content-Type is not application/json, or its Content-Encoding is not gzip.";
    IDEMPOTENCY_KEY_REUSED = 422, "idempotency_key_reused",
        "The Idempotency-Key was sent before with another method, path, query or body.";
    TOO_MANY_IN_FLIGHT = 429, "too_many_in_flight", "More waits to be worked on than the service takes; nothing was done, try again later.";
    INTERNAL_ERROR = 500, "internal_error", "A fault of the service; its log has the cause under the same request id.";
    DB_UNAVAILABLE = 503, "db_unavailable", "The database cannot be reached; try again.";
    DB_POOL_EXHAUSTED = 503, "db_pool_exhausted", "All database connections are busy; try again.";
    STORAGE_UNAVAILABLE = 503, "storage_unavailable", "The database has no room for more data.";
    READ_ONLY_MODE = 503, "read_only_mode", "The database accepts no writes at present.";
    TAX_RATE_UNAVAILABLE = 503, "tax_rate_unavailable",
        "The organization's tax provider had no answer, and its settings say to wait for one; nothing was done, try again.";
    SHUTTING_DOWN = 503, "shutting_down", "The service is shutting down; another instance may answer.";
    DEADLINE_EXCEEDED = 504, "deadline_exceeded", "The operation took too long; whether it took effect is unknown.";
}

/// The status of every error about fields.
pub const FIELD_STATUS: u16 = 400;

/// All rows as text, status and meaning: first the codes of fields, then the others by status.
pub fn table() -> Vec<(&'static str, u16, &'static str)> {
    let fields = FieldCode::ALL.iter().map(|code| (code.as_str(), FIELD_STATUS, code.meaning()));
    fields.chain(GENERAL.iter().map(|code| (code.text, code.status, code.meaning))).collect()
}

/// The row of a code that is not about one field.
pub fn named(text: &str) -> Option<&'static Code> {
    GENERAL.iter().copied().find(|code| code.text == text)
}

/// The row of a business rule's refusal.
pub fn of_refusal(refusal: &Refusal) -> &'static Code {
    match refusal {
        Refusal::DuplicateResource(_) => &DUPLICATE_RESOURCE,
        Refusal::OverlappingPlans => &OVERLAPPING_PLANS,
        Refusal::NoMatchingPlanVersion => &NO_MATCHING_PLAN_VERSION,
        Refusal::AmbiguousPlanVersion => &AMBIGUOUS_PLAN_VERSION,
        Refusal::PlanNotAvailableToCustomer => &PLAN_NOT_AVAILABLE_TO_CUSTOMER,
        Refusal::PrepaymentCantDetermineUnits(_) => &PREPAYMENT_CANT_DETERMINE_UNITS,
        Refusal::AlreadyEnded
        | Refusal::AlreadyRenewed(_)
        | Refusal::KeyExpired
        | Refusal::InvoiceNotUnpaid
        | Refusal::InvoiceVoided
        | Refusal::InvoiceHasPayments
        | Refusal::PaymentReversed
        | Refusal::CreditDrawn
        | Refusal::LinesTakenBack(_)
        | Refusal::NothingToCredit
        | Refusal::CreditExceedsLine
        | Refusal::RefundExceedsPayments
        | Refusal::CreditNoteVoided
        | Refusal::CreditNoteStands(_)
        | Refusal::EndpointDisabled
        | Refusal::NeedsApproval(_)
        | Refusal::ApprovalExceeded
        | Refusal::ApprovalDecided(_)
        | Refusal::TooManyApprovals => &INVALID_STATE,
        Refusal::NotAPerson | Refusal::OwnRequest | Refusal::OthersRequest => &SECOND_PERSON_NEEDED,
        Refusal::BeyondWindow => &BEYOND_WINDOW,
        Refusal::OneOffLineBilled(_) => &ONE_OFF_LINE_BILLED,
        Refusal::InvalidKey => &NOT_AUTHENTICATED,
        Refusal::InvoiceFinal => &INVALID_OPERATION,
        Refusal::CreditExpiryInPast => &CREDIT_EXPIRY_IN_PAST,
        Refusal::CreditNotActive => &CREDIT_NOT_ACTIVE,
        Refusal::MetricInUse | Refusal::PlanInUse | Refusal::LastOwner => &INVALID_OPERATION,
        Refusal::CustomMetricFailed(_) => &CUSTOM_METRIC_FAILED,
        Refusal::TestClockAdvancing => &TEST_CLOCK_ADVANCING,
        Refusal::CatchingUp => &CATCHING_UP,
        Refusal::IdempotencyKeyInUse => &IDEMPOTENCY_KEY_IN_USE,
    }
}

/// The row of a failure of the store.
pub fn of_store_error(error: &StoreError) -> &'static Code {
    match error {
        StoreError::Unavailable(_) => &DB_UNAVAILABLE,
        StoreError::PoolExhausted => &DB_POOL_EXHAUSTED,
        StoreError::Overloaded => &TOO_MANY_IN_FLIGHT,
        StoreError::LockTimeout => &CONFLICT_RETRY,
        StoreError::DeadlineExceeded => &DEADLINE_EXCEEDED,
        StoreError::StorageFull(_) => &STORAGE_UNAVAILABLE,
        StoreError::ReadOnly => &READ_ONLY_MODE,
        StoreError::Internal(_) | StoreError::SafetyBound(_) => &INTERNAL_ERROR,
    }
}

/// The row of an object that the path names in vain.
pub fn of_absent(noun: Noun) -> &'static Code {
    match noun {
        Noun::Subscription | Noun::AddonSubscription => &RESOURCE_NOT_FOUND,
        _ => &NOT_FOUND,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use billing_domain::HeldAmount;

    use super::*;

    #[test]
    fn every_code_is_listed_once() {
        let texts: BTreeSet<_> = table().iter().map(|(text, ..)| *text).collect();
        assert_eq!(texts.len(), table().len());
    }

    #[test]
    fn a_refusal_has_the_code_it_says() {
        let refusals = [
            Refusal::DuplicateResource("x"),
            Refusal::OverlappingPlans,
            Refusal::NoMatchingPlanVersion,
            Refusal::AmbiguousPlanVersion,
            Refusal::PlanNotAvailableToCustomer,
            Refusal::PrepaymentCantDetermineUnits(billing_domain::id::MetricId::from(uuid::Uuid::nil())),
            Refusal::AlreadyEnded,
            Refusal::AlreadyRenewed(uuid::Uuid::nil().into()),
            Refusal::BeyondWindow,
            Refusal::OneOffLineBilled(uuid::Uuid::nil().into()),
            Refusal::NeedsApproval(Box::new(HeldAmount { amount: None, currency_code: None })),
            Refusal::ApprovalExceeded,
            Refusal::ApprovalDecided("done"),
            Refusal::TooManyApprovals,
            Refusal::NotAPerson,
            Refusal::OwnRequest,
            Refusal::OthersRequest,
            Refusal::InvalidKey,
            Refusal::KeyExpired,
            Refusal::InvoiceFinal,
            Refusal::InvoiceNotUnpaid,
            Refusal::InvoiceVoided,
            Refusal::InvoiceHasPayments,
            Refusal::PaymentReversed,
            Refusal::CreditDrawn,
            Refusal::LinesTakenBack("260101-000001".to_owned()),
            Refusal::NothingToCredit,
            Refusal::CreditExceedsLine,
            Refusal::RefundExceedsPayments,
            Refusal::CreditNoteVoided,
            Refusal::CreditNoteStands("CN-260101-000001".to_owned()),
            Refusal::CreditExpiryInPast,
            Refusal::CreditNotActive,
            Refusal::MetricInUse,
            Refusal::PlanInUse,
            Refusal::CustomMetricFailed(billing_domain::custom_sql::CustomFailure::Invalid),
            Refusal::TestClockAdvancing,
            Refusal::CatchingUp,
            Refusal::IdempotencyKeyInUse,
        ];
        for refusal in refusals {
            assert_eq!(of_refusal(&refusal).text, refusal.code());
        }
    }
}
