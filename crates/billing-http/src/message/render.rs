//! What stands in messages: the same as answers say of their subjects, at the moment at which they are written.

use billing_domain::message::Subject;
use billing_domain::store::{Renderer, Transaction};
use billing_domain::{Error, StoreError};
use serde::Serialize;

use crate::credit::CreditView;
use crate::credit_note::CreditNoteView;
use crate::customer::{CustomerView, OneOffLineView};
use crate::metric::MetricView;
use crate::plan::{Catalog, PlanVersionView};
use crate::subscription::{AddonSubscriptionView, SubscriptionView};
use crate::usage_alert_view::TriggeredAlertView;
use crate::webhook_view::EndpointView;
use crate::wire::{CustomerBriefView, view};

view! {
    /// A customer whose billing failed so often that it is left alone until somebody has looked.
    ParkedBillingView {
        /// Whose.
        customer: CustomerBriefView,
        /// How often in a row it failed.
        failures: u32,
    }
}

/// The views of answers.
pub struct Views;

impl Renderer for Views {
    fn render(&self, tx: &mut dyn Transaction, subject: &Subject) -> Result<String, Error> {
        match subject {
            Subject::Customer(customer) => text(&CustomerView::of_new(tx, customer)?),
            Subject::Parked(parked) => {
                let customer = CustomerBriefView::from(&parked.customer);
                text(&ParkedBillingView { customer, failures: parked.failures })
            }
            Subject::Subscription(subscription) => text(&SubscriptionView::new(tx, subscription)?),
            Subject::NewSubscription(new) => text(&SubscriptionView::of_new(tx, new)?),
            Subject::Addon(attached) => text(&AddonSubscriptionView::new(tx, attached)?),
            Subject::Credit(customer, ledger, now) => text(&CreditView::at(tx, *customer, ledger, *now)?),
            Subject::CreditNote(note) => text(&CreditNoteView::load(tx, note)?),
            Subject::OneOffLine(line, billed_on) => text(&OneOffLineView::load(tx, line, *billed_on)?),
            Subject::PlanVersion(plan, version, now) => {
                let mut catalog = Catalog::load(tx, Some(plan.id), *now)?;
                text(&PlanVersionView::new(tx, &mut catalog, plan, version)?)
            }
            Subject::Metric(metric) => text(&MetricView::from(metric)),
            Subject::UsageAlert(triggered) => text(&TriggeredAlertView::from(triggered.as_ref())),
            Subject::WebhookEndpoint(endpoint) => text(&EndpointView::from(endpoint)),
            other => Err(StoreError::Internal(format!("no view of {other:?}")).into()),
        }
    }
}

fn text(view: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(view).map_err(|error| StoreError::Internal(error.to_string()).into())
}
