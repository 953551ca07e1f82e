//! The rules that forbid what is well formed.

use super::{CustomFailure, HeldAmount};
use crate::id::{InvoiceId, SubscriptionId};

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
    /// The subscription has ended and was renewed: another goes on in its place.
    #[error("The subscription has ended; {0} goes on in its place.")]
    AlreadyRenewed(SubscriptionId),
    /// The API key that something was asked with is unknown, wrong or expired: the three look alike.
    #[error("The API key in X-API-KEY is not valid: it is unknown, wrong or expired.")]
    InvalidKey,
    /// It would leave the organization without an owner.
    #[error("An organization has at least one owner: make another one first.")]
    LastOwner,
    /// The key has expired; one of the same expiry would be worthless.
    #[error("The key has expired; create another.")]
    KeyExpired,
    /// The invoice is paid or voided: nothing is left of it to note as paid.
    #[error("The invoice is paid or voided.")]
    InvoiceFinal,
    /// A voided invoice takes no payment.
    #[error("The invoice was voided: nothing is due of it, and it takes no payment.")]
    InvoiceVoided,
    /// Payments of the invoice stand, or what one had overpaid is still owed with it.
    #[error(
        "The invoice has payments: reverse them first, POST /api/invoices/{{invoice_id}}/payments/{{payment_id}}/reverse/. Where one that was reversed had overpaid and that has paid for other invoices, void those first."
    )]
    InvoiceHasPayments,
    /// The payment was reversed before.
    #[error("The payment is reversed.")]
    PaymentReversed,
    /// Only an unpaid invoice can be voided.
    #[error("Only an unpaid invoice can be voided.")]
    InvoiceNotUnpaid,
    /// A credit that the invoice or credit note stands for has paid for other invoices.
    #[error("A credit that came of it has paid for invoices that stand.")]
    CreditDrawn,
    /// A later invoice, which this names by its number, took back what the invoice charged.
    #[error("Invoice {0} took back what this one charged; void that one first.")]
    LinesTakenBack(String),
    /// An event to be corrected is older than the acceptance window: what was billed for its time is closed.
    #[error(
        "An event is older than the window in which events are accepted: send beyond_window to have what was billed for its time looked at again."
    )]
    BeyondWindow,
    /// Nothing is left of the invoice that a credit note could take back.
    #[error("Nothing is left of the invoice that a credit note could take back.")]
    NothingToCredit,
    /// A credit note takes more than is left of a line.
    #[error("A credit note takes back at most what is left of a line.")]
    CreditExceedsLine,
    /// More is said to be refunded than was paid.
    #[error(
        "Only what was paid of the invoice and not refunded before can be refunded outside: settle to the balance."
    )]
    RefundExceedsPayments,
    /// The credit note was voided before.
    #[error("The credit note is voided.")]
    CreditNoteVoided,
    /// A credit note, which this names by its number, took back a part of the invoice.
    #[error("Credit note {0} took back a part of the invoice; void that one first.")]
    CreditNoteStands(String),
    /// The one-off line is on an invoice, which this names.
    #[error("The line was billed: {0} has it. Void that invoice or take the line back with a credit note.")]
    OneOffLineBilled(InvoiceId),
    /// Nothing is sent to the endpoint.
    #[error("The webhook endpoint is disabled: enable it first.")]
    EndpointDisabled,
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
    CustomMetricFailed(CustomFailure),
    /// The customer's test clock is on its way; wait until it is ready.
    #[error("The customer's test clock is advancing.")]
    TestClockAdvancing,
    /// What fell due in the past of the customer is still being billed; wait until it is done.
    #[error("The customer is catching up: what fell due in the past is still being billed.")]
    CatchingUp,
    /// It gives away or takes more than one person may without another.
    #[error("This is above the organization's limit for one person: another one has to approve it.")]
    NeedsApproval(Box<HeldAmount>),
    /// It comes to more than what was approved.
    #[error("This comes to more than what was approved, or to something else: ask again.")]
    ApprovalExceeded,
    /// Somebody has decided about the request, or nobody did in time.
    #[error("The request is {0}: nothing is left to be decided about it.")]
    ApprovalDecided(&'static str),
    /// More requests wait than one organization can have.
    #[error("Too many requests wait for a second person: decide about some of them first.")]
    TooManyApprovals,
    /// A program cannot approve.
    #[error("Only a person who is signed in can decide about this, no API key.")]
    NotAPerson,
    /// Nobody approves what they have asked for.
    #[error("Whoever asked cannot decide about it: another person has to.")]
    OwnRequest,
    /// Nobody withdraws what others have asked for.
    #[error("Only whoever asked can withdraw the request: decline it.")]
    OthersRequest,
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
            Self::AlreadyEnded
            | Self::AlreadyRenewed(_)
            | Self::KeyExpired
            | Self::InvoiceNotUnpaid
            | Self::InvoiceVoided
            | Self::InvoiceHasPayments
            | Self::PaymentReversed
            | Self::CreditDrawn
            | Self::LinesTakenBack(_)
            | Self::NothingToCredit
            | Self::CreditExceedsLine
            | Self::RefundExceedsPayments
            | Self::CreditNoteVoided
            | Self::CreditNoteStands(_)
            | Self::EndpointDisabled => "invalid_state",
            Self::NeedsApproval(_) | Self::ApprovalExceeded | Self::ApprovalDecided(_) | Self::TooManyApprovals => {
                "invalid_state"
            }
            Self::NotAPerson | Self::OwnRequest | Self::OthersRequest => "second_person_needed",
            Self::BeyondWindow => "beyond_window",
            Self::OneOffLineBilled(_) => "one_off_line_billed",
            Self::InvalidKey => "not_authenticated",
            Self::InvoiceFinal => "invalid_operation",
            Self::CreditNotActive => "credit_not_active",
            Self::CreditExpiryInPast => "credit_expiry_in_past",
            Self::MetricInUse | Self::PlanInUse | Self::LastOwner => "invalid_operation",
            Self::CustomMetricFailed(_) => "custom_metric_failed",
            Self::TestClockAdvancing => "test_clock_advancing",
            Self::CatchingUp => "catching_up",
            Self::IdempotencyKeyInUse => "idempotency_key_in_use",
        }
    }

    /// Whether the same request may be granted a little later although nobody changes anything.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::TestClockAdvancing | Self::CatchingUp | Self::IdempotencyKeyInUse | Self::NeedsApproval(_))
    }
}
