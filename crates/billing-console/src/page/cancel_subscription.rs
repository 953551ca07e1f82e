//! Cancelling a subscription: looked at first, done once.

use super::change::{Change, facts, subscription};
use super::customer_path;
use crate::api::Failure;
use crate::form::{Field, Input};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// Whether it is invoiced at once.
pub(super) const INVOICING: Field = Field::new(
    "invoicing_behavior",
    text::INVOICING,
    Input::Choice(&[("invoice_now", text::INVOICE_NOW), ("add_to_next_invoice", text::INVOICE_LATER)]),
);

/// What becomes of it; the usual choice comes first.
pub(super) const FIELDS: [Field; 3] = [
    Field::new(
        "flat_fee_behavior",
        text::FEES,
        Input::Choice(&[
            ("", text::FEES_AS_AGREED),
            ("refund", text::FEES_REFUND),
            ("charge_prorated", text::FEES_PRORATE),
            ("charge_full", text::FEES_FULL),
        ]),
    ),
    Field::new(
        "usage_behavior",
        text::USAGE_UNTIL_NOW,
        Input::Choice(&[("bill_full", text::USAGE_BILL), ("bill_none", text::USAGE_DROP)]),
    ),
    INVOICING,
];

fn change(call: &str) -> Change<'_> {
    Change {
        title: text::CANCEL_SUBSCRIPTION,
        explained: text::CANCEL_EXPLAINED,
        is_danger: true,
        choices: None,
        fields: &FIELDS,
        told: &[],
        call,
    }
}

fn call(visit: &Visit<'_>) -> String {
    format!("/api/subscriptions/{}/cancel/", escaped(&visit.id))
}

/// `GET /console/subscriptions/{subscription_id}/cancel/`
///
/// # Errors
/// When there is no such subscription.
pub async fn ask<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let subscription = subscription(visit).await?;
    change(&call(visit)).page(visit, &subscription["customer"], facts(&subscription)).await
}

/// `POST /console/subscriptions/{subscription_id}/cancel/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let cancelled = change(&call(visit)).make(visit).await?;
    Ok(Outcome::Go(customer_path(&show::plain(&cancelled["customer"]["customer_id"]))))
}
