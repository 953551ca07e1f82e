//! Things as they are before they are changed, shown as the calls show them that read them.

use billing_domain::api_key::KeyKind;
use billing_domain::id::{
    ApprovalId, BooksAuditId, CreditId, CreditNoteId, CustomerKey, JobId, MetricId, OneOffLineId, PlanId,
    PlanVersionId, SubscriptionId, TestClockId, UsageAlertId, UserId, WebhookEndpointId,
};
use billing_domain::store::Transaction;
use billing_domain::workflow::find_member;
use billing_domain::{Error, StoreError};
use serde::Serialize;
use time::OffsetDateTime;

use crate::api_key::{ApiKeyView, KeyView};
use crate::approval_view::ApprovalView;
use crate::books_audit::BooksAuditView;
use crate::credit::CreditView;
use crate::credit_note::CreditNoteView;
use crate::customer::{CustomerView, OneOffLineView};
use crate::invoice::{InvoiceName, InvoiceView};
use crate::job::JobView;
use crate::metric::MetricView;
use crate::organization::OrganizationView;
use crate::plan::{Catalog, PlanVersionView, PlanView, VersionFilter};
use crate::subscription::SubscriptionView;
use crate::test_clock::TestClockView;
use crate::usage_alert_view::UsageAlertView;
use crate::user::UserView;
use crate::webhook_view::EndpointView;

/// The id of a thing in its usual spelling, and what is shown of it as JSON; `None` where there is no such thing, or none that is
/// ever changed.
///
/// # Errors
/// Those of the store.
pub fn find(
    tx: &mut dyn Transaction,
    (kind, named): (&str, &str),
    customer: Option<CustomerKey>,
    now: OffsetDateTime,
) -> Result<Option<(String, String)>, Error> {
    let found = match customer {
        Some(customer) => of_customer(tx, (kind, named), customer),
        None => of_catalog(tx, (kind, named), now),
    };
    match found {
        // The work says itself what is not there.
        Err(Error::NotFound(_)) => Ok(None),
        found => found,
    }
}

type Found = Result<Option<(String, String)>, Error>;

fn of_customer(tx: &mut dyn Transaction, (kind, named): (&str, &str), key: CustomerKey) -> Found {
    match kind {
        "customer" => {
            let customer = tx.customers().get(key)?;
            text(named, &CustomerView::new(tx, &customer)?)
        }
        "subscription" => {
            let Ok(id) = named.parse::<SubscriptionId>() else { return Ok(None) };
            let subscription = tx.subscriptions().get(key, id)?;
            text(id, &SubscriptionView::new(tx, &subscription)?)
        }
        "invoice" => {
            let Some(name) = InvoiceName::parse(named) else { return Ok(None) };
            let invoice = name.find(tx)?;
            text(invoice.id, &InvoiceView::from(&invoice))
        }
        "credit" => {
            let Ok(id) = named.parse::<CreditId>() else { return Ok(None) };
            let ledger = tx.credits().get(key, id)?;
            text(id, &CreditView::load(tx, key, &ledger)?)
        }
        "credit_note" => {
            let Ok(id) = named.parse::<CreditNoteId>() else { return Ok(None) };
            let note = tx.invoices().get_credit_note(id)?;
            text(id, &CreditNoteView::load(tx, &note)?)
        }
        "one_off_line" => {
            let Ok(id) = named.parse::<OneOffLineId>() else { return Ok(None) };
            text(id, &OneOffLineView::find(tx, key, id)?)
        }
        // Payments never change.
        _ => Ok(None),
    }
}

fn of_catalog(tx: &mut dyn Transaction, (kind, named): (&str, &str), now: OffsetDateTime) -> Found {
    match kind {
        "plan" => {
            let Ok(id) = named.parse::<PlanId>() else { return Ok(None) };
            let plan = tx.plans().get(id)?;
            let mut catalog = Catalog::load(tx, Some(id), now)?;
            text(id, &PlanView::new(tx, &mut catalog, &plan, &VersionFilter::default())?)
        }
        "plan_version" => {
            let Ok(id) = named.parse::<PlanVersionId>() else { return Ok(None) };
            let version = tx.plans().get_version(id)?;
            let plan = tx.plans().get(version.plan)?;
            let mut catalog = Catalog::load(tx, Some(plan.id), now)?;
            text(id, &PlanVersionView::new(tx, &mut catalog, &plan, &version)?)
        }
        "metric" => {
            let Ok(id) = named.parse::<MetricId>() else { return Ok(None) };
            text(id, &MetricView::from(&tx.metrics().get(id)?))
        }
        "test_clock" => {
            let Ok(id) = named.parse::<TestClockId>() else { return Ok(None) };
            text(id, &TestClockView::from(&tx.test_clocks().get(id)?))
        }
        "webhook_endpoint" => {
            let Ok(id) = named.parse::<WebhookEndpointId>() else { return Ok(None) };
            text(id, &EndpointView::from(&tx.webhooks().get(id)?))
        }
        "job" => {
            let Ok(id) = named.parse::<JobId>() else { return Ok(None) };
            let job = tx.jobs().get(id)?;
            text(id, &JobView::load(tx, job)?)
        }
        "books_audit" => {
            let Ok(id) = named.parse::<BooksAuditId>() else { return Ok(None) };
            text(id, &BooksAuditView::load(tx, id)?)
        }
        "usage_alert" => {
            let Ok(id) = named.parse::<UsageAlertId>() else { return Ok(None) };
            text(id, &UsageAlertView::from(&tx.usage_alerts().get(id)?))
        }
        "approval" => {
            let Ok(id) = named.parse::<ApprovalId>() else { return Ok(None) };
            text(id, &ApprovalView::new(&tx.approvals().get(id)?, now))
        }
        "api_key" => key(tx, KeyKind::ApiKey, named),
        "access_token" => key(tx, KeyKind::AccessToken, named),
        "user" => {
            let Ok(id) = named.parse::<UserId>() else { return Ok(None) };
            text(id, &UserView::from(&find_member(tx, id)?))
        }
        "organization" => {
            let organization = tx.organizations().get()?;
            text(organization.id, &OrganizationView::new(tx, organization)?)
        }
        _ => Ok(None),
    }
}

fn key(tx: &mut dyn Transaction, kind: KeyKind, prefix: &str) -> Found {
    let all = tx.api_keys().list(kind)?;
    match all.iter().find(|key| key.prefix == prefix) {
        Some(key) if kind == KeyKind::ApiKey => text(prefix, &ApiKeyView::from(key)),
        Some(token) => text(prefix, &KeyView::from(token)),
        None => Ok(None),
    }
}

fn text<I: ToString>(id: I, view: &impl Serialize) -> Found {
    let text = serde_json::to_string(view).map_err(|error| StoreError::Internal(error.to_string()))?;
    Ok(Some((id.to_string(), text)))
}
