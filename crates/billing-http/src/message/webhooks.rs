//! What messages of each type say.

use billing_domain::message::MessageType;

use super::MessageView;
use super::render::ParkedBillingView;
use crate::credit::CreditView;
use crate::credit_note::CreditNoteView;
use crate::customer::{CustomerView, OneOffLineView};
use crate::invoice::{InvoiceView, VoidedInvoiceView};
use crate::metric::MetricView;
use crate::openapi::{Webhook, Webhooks};
use crate::plan::PlanVersionView;
use crate::subscription::{AddonSubscriptionView, SubscriptionView};
use crate::usage_alert_view::TriggeredAlertView;
use crate::webhook_view::EndpointView;
use crate::wire::{Described, Schema, Schemas};

/// Messages of all types, described.
pub fn webhooks() -> Webhooks {
    let each = MessageType::ALL.iter().map(|message_type| {
        let (meaning, data) = of_type(*message_type);
        Webhook { message_type: *message_type, meaning, data }
    });
    Webhooks { message: MessageView::describe, each: each.collect() }
}

/// When one is told, and what it says.
fn of_type(message_type: MessageType) -> (&'static str, fn(&mut Schemas) -> Schema) {
    use MessageType as Type;
    match message_type {
        Type::CustomerCreated => ("A customer was created", CustomerView::describe),
        Type::CustomerBillingParked => ("A customer's billing failed too often", ParkedBillingView::describe),
        Type::SubscriptionCreated => ("A subscription was created", SubscriptionView::describe),
        Type::SubscriptionRenewed => ("A subscription took the place of one that ended", SubscriptionView::describe),
        Type::SubscriptionChanged => ("A subscription was changed", SubscriptionView::describe),
        Type::SubscriptionSwitched => {
            ("A subscription took the place of one to another plan", SubscriptionView::describe)
        }
        Type::SubscriptionCancelled => ("A subscription was cancelled", SubscriptionView::describe),
        Type::AddonAttached => ("An add-on was attached to a subscription", AddonSubscriptionView::describe),
        Type::InvoiceCreated => ("An invoice was issued", InvoiceView::describe),
        Type::InvoicePaid => ("An invoice was paid", InvoiceView::describe),
        Type::InvoicePastDue => ("An invoice fell due and was not paid", InvoiceView::describe),
        Type::InvoiceVoided => ("An invoice was withdrawn", VoidedInvoiceView::describe),
        Type::CreditCreated => ("A credit was granted", CreditView::describe),
        Type::CreditDrawn => ("A credit paid for a part of an invoice", CreditView::describe),
        Type::CreditExpired => ("What a credit had left ran out of time", CreditView::describe),
        Type::CreditVoided => ("What a credit had left was taken away", CreditView::describe),
        Type::CreditNoteCreated => ("A credit note was issued", CreditNoteView::describe),
        Type::CreditNoteVoided => ("A credit note was voided", CreditNoteView::describe),
        Type::OneOffLineCreated => ("Something was charged once", OneOffLineView::describe),
        Type::OneOffLineRemoved => ("A one-off line was taken away", OneOffLineView::describe),
        Type::PlanVersionPublished => ("A plan version was published", PlanVersionView::describe),
        Type::MetricCreated => ("A metric was created", MetricView::describe),
        Type::UsageAlertTriggered => {
            ("A figure of a customer's reached the threshold of a usage alert", TriggeredAlertView::describe)
        }
        Type::WebhookEndpointDisabled => ("A webhook endpoint is sent nothing any more", EndpointView::describe),
    }
}
