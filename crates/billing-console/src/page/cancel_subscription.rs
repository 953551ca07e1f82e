//! Cancelling a subscription: asked first, done once.

use maud::html;

use super::customer_path;
use crate::api::Failure;
use crate::form::{Field, Form, Input, body, empty};
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// What becomes of it; the usual choice comes first.
const FIELDS: [Field; 3] = [
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
    Field::new(
        "invoicing_behavior",
        text::INVOICING,
        Input::Choice(&[("invoice_now", text::INVOICE_NOW), ("add_to_next_invoice", text::INVOICE_LATER)]),
    ),
];

/// `GET /console/subscriptions/{subscription_id}/cancel/`
///
/// # Errors
/// When there is no such subscription.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let subscription = visit.get(format!("/api/subscriptions/{}/", escaped(&visit.id))).await?;
    let customer = &subscription["customer"];
    let holder = customer_path(&show::plain(&customer["customer_id"]));
    let fields = empty(&FIELDS);
    let form = Form { fields: &fields, button: text::CONFIRM_CANCEL, is_danger: true, back: (&holder, text::KEEP) };
    let content = html! {
        nav.path { a href=(holder) { (show::name(customer)) } }
        h1 { (text::CANCEL_SUBSCRIPTION) }
        dl.facts {
            div { dt { (text::CUSTOMER) } dd.long { (show::name(customer)) } }
            div { dt { (text::PLAN) } dd.long { (show::plain(&subscription["billing_plan"]["plan_name"])) } }
            div { dt { (text::PERIOD) } dd { (show::days(&subscription["start_date"], &subscription["end_date"])) } }
        }
        p { (text::CANCEL_EXPLAINED) }
        (form.render(visit))
    };
    Ok(Outcome::Page(text::CANCEL_SUBSCRIPTION.to_owned(), content))
}

/// `POST /console/subscriptions/{subscription_id}/cancel/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let path = format!("/api/subscriptions/{}/cancel/", escaped(&visit.id));
    let cancelled = visit.post(path, body(visit, &FIELDS)).await?;
    Ok(Outcome::Go(customer_path(&show::plain(&cancelled["customer"]["customer_id"]))))
}
