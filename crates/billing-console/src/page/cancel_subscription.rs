//! Cancelling a subscription: asked first, done once.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::customer_path;
use crate::api::Failure;
use crate::layout::form_token;
use crate::route::Outcome;
use crate::visit::{Visit, escaped};
use crate::{show, text};

/// A choice: the field of the API, its label, and its values, the usual one first.
type Choice = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const CHOICES: [Choice; 3] = [
    (
        "flat_fee_behavior",
        text::FEES,
        &[
            ("", text::FEES_AS_AGREED),
            ("refund", text::FEES_REFUND),
            ("charge_prorated", text::FEES_PRORATE),
            ("charge_full", text::FEES_FULL),
        ],
    ),
    ("usage_behavior", text::USAGE_UNTIL_NOW, &[("bill_full", text::USAGE_BILL), ("bill_none", text::USAGE_DROP)]),
    (
        "invoicing_behavior",
        text::INVOICING,
        &[("invoice_now", text::INVOICE_NOW), ("add_to_next_invoice", text::INVOICE_LATER)],
    ),
];

/// `GET /console/subscriptions/{subscription_id}/cancel/`
///
/// # Errors
/// When there is no such subscription.
pub async fn confirm<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let subscription = visit.get(format!("/api/subscriptions/{}/", escaped(&visit.id))).await?;
    let customer = &subscription["customer"];
    let customer_path = customer_path(&show::plain(&customer["customer_id"]));
    let content = html! {
        nav.path { a href=(customer_path) { (show::name(customer)) } }
        h1 { (text::CANCEL_SUBSCRIPTION) }
        dl.facts {
            div { dt { (text::CUSTOMER) } dd.long { (show::name(customer)) } }
            div { dt { (text::PLAN) } dd.long { (show::plain(&subscription["billing_plan"]["plan_name"])) } }
            div { dt { (text::PERIOD) } dd { (show::days(&subscription["start_date"], &subscription["end_date"])) } }
        }
        p { (text::CANCEL_EXPLAINED) }
        form.act method="post" {
            (form_token(&visit.viewer.form_token))
            input type="hidden" name="once" value=(visit.once);
            @for choice in CHOICES { (chosen(choice)) }
            button.danger type="submit" { (text::CONFIRM_CANCEL) }
            a href=(customer_path) { (text::KEEP) }
        }
    };
    Ok(Outcome::Page(text::CANCEL_SUBSCRIPTION.to_owned(), content))
}

fn chosen((field, label, values): Choice) -> Markup {
    html! {
        label for=(field) { (label) }
        select id=(field) name=(field) { @for (value, words) in values { option value=(value) { (words) } } }
    }
}

/// `POST /console/subscriptions/{subscription_id}/cancel/`
///
/// # Errors
/// Those of the call.
pub async fn act<'v>(visit: &'v Visit<'v>) -> Result<Outcome, Failure> {
    let mut body = Map::new();
    for (field, _, _) in CHOICES {
        if let Some(value) = visit.form.get(field) {
            body.insert(field.to_owned(), Value::from(value));
        }
    }
    let path = format!("/api/subscriptions/{}/cancel/", escaped(&visit.id));
    let cancelled = visit.post(path, Value::Object(body)).await?;
    Ok(Outcome::Go(customer_path(&show::plain(&cancelled["customer"]["customer_id"]))))
}
