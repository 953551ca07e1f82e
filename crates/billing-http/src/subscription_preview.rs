//! What a change of a subscription would be invoiced with: each is made by the very workflow of the call, looked at and undone.

use actix_web::web;
use billing_domain::Error;
use billing_domain::id::{CustomerKey, MetricId, SubscriptionId};
use billing_domain::store::Transaction;
use billing_domain::subscription::Subscription;
use billing_domain::workflow::{
    AttachAddon, CancelAddon, CancelSubscription, ChangePrepaidUnits, ChangePreview, CreateSubscription, SwitchPlan,
    UpdateSubscription, attach_addon, cancel_addon, cancel_subscription, change_prepaid_units, preview_change,
    preview_new_subscription, switch_plan, update_subscription,
};
use time::OffsetDateTime;

use crate::app::App;
use crate::caller::Caller;
use crate::customer::DraftInvoiceView;
use crate::endpoint::{Endpoint, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::path::{PathPair, PathParam};
use crate::subscription::{
    AttachBody, CancelBody, NamedAddon, PrepaidChangeBody, SubscriptionView, SwitchBody, UpdateBody,
};
use crate::wire::view;

/// The calls that change nothing and say what others would.
pub fn endpoints() -> Vec<Endpoint> {
    let calls = vec![
        post("/api/subscriptions/preview/", "Show what a new subscription would be invoiced with", create)
            .takes::<CreateSubscription>(),
        post(
            "/api/subscriptions/{subscription_id}/update/preview/",
            "Show what another end or no renewal would be invoiced with",
            update,
        )
        .takes::<UpdateBody>(),
        post(
            "/api/subscriptions/{subscription_id}/switch_plan/preview/",
            "Show what switching to another plan would be invoiced with",
            switch,
        )
        .takes::<SwitchBody>(),
        post(
            "/api/subscriptions/{subscription_id}/cancel/preview/",
            "Show what cancelling a subscription would be invoiced with",
            cancel,
        )
        .takes::<CancelBody>(),
        post(
            "/api/subscriptions/{subscription_id}/addons/attach/preview/",
            "Show what attaching an add-on would be invoiced with",
            attach,
        )
        .takes::<AttachBody>(),
        post(
            "/api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/preview/",
            "Show what cancelling an add-on would be invoiced with",
            cancel_attached,
        )
        .takes::<CancelBody>(),
        post(
            "/api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/preview/",
            "Show what another number of prepaid units would be invoiced with",
            change_units,
        )
        .takes::<PrepaidChangeBody>(),
    ];
    calls.into_iter().map(|call| call.repeatable().answers::<ChangePreviewView>(200)).collect()
}

view! {
    /// What a change would come to. Nothing of it is done, and no number is taken.
    ChangePreviewView {
        /// The subscription as it would be; of an add-on, what it is attached to. An id that is made by the change names nothing.
        subscription: SubscriptionView,
        /// The invoices that would be issued at once, credits drawn. What is due anyway by now is not among them.
        invoices: Vec<DraftInvoiceView>,
        /// The drafts of the next invoices as they would be then, with the next period.
        next_invoices: Vec<DraftInvoiceView>,
        /// The same without the change.
        next_invoices_before: Vec<DraftInvoiceView>,
        /// Whether that is all: a subscription that begins long ago is invoiced step by step, and only the first steps are shown.
        is_complete: bool,
    }
}

impl ChangePreviewView {
    fn new<T>(subscription: SubscriptionView, preview: &ChangePreview<T>) -> Self {
        Self {
            subscription,
            invoices: preview.invoices.iter().map(Into::into).collect(),
            next_invoices: preview.drafts.iter().map(Into::into).collect(),
            next_invoices_before: preview.drafts_before.iter().map(Into::into).collect(),
            is_complete: preview.is_complete,
        }
    }
}

/// What `change` would come to of a subscription of this customer's: what it answers is shown.
async fn preview_of(
    app: &App,
    caller: &Caller,
    (customer, id): (CustomerKey, SubscriptionId),
    change: impl Fn(&mut dyn Transaction, SubscriptionId, OffsetDateTime) -> Result<Subscription, Error> + Send + 'static,
) -> Result<web::Json<ChangePreviewView>, ApiError> {
    let view = app.try_on_customer_key(caller, customer, move |tx, now| {
        let preview = preview_change(tx, (customer, id), now, &mut |tx, id| change(tx, id, now))?;
        let subscription = SubscriptionView::new(tx, &preview.changed)?;
        Ok(ChangePreviewView::new(subscription, &preview))
    });
    Ok(web::Json(view.await?))
}

/// Whose a subscription is.
async fn holder_of(app: &App, caller: &Caller, id: SubscriptionId) -> Result<CustomerKey, ApiError> {
    app.read(caller, move |tx, _| tx.subscriptions().customer_of(id)).await
}

/// `POST /api/subscriptions/preview/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(command): ApiJson<CreateSubscription>,
) -> Result<web::Json<ChangePreviewView>, ApiError> {
    let customer = CustomerKey::derive(caller.organization, &command.customer);
    let view = app.try_on_customer_key(&caller, customer, move |tx, now| {
        let preview = preview_new_subscription(tx, &command, now)?;
        let subscription = SubscriptionView::of_new(tx, &preview.changed)?;
        Ok(ChangePreviewView::new(subscription, &preview))
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/subscriptions/{subscription_id}/update/preview/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<UpdateBody>,
) -> Result<web::Json<ChangePreviewView>, ApiError> {
    let customer = holder_of(&app, &caller, id).await?;
    let command = body.read(customer, id);
    preview_of(&app, &caller, (customer, id), move |tx, subscription, now| {
        update_subscription(tx, &UpdateSubscription { subscription, ..command.clone() }, now)
    })
    .await
}

/// `POST /api/subscriptions/{subscription_id}/switch_plan/preview/`
async fn switch(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<SwitchBody>,
) -> Result<web::Json<ChangePreviewView>, ApiError> {
    let customer = holder_of(&app, &caller, id).await?;
    let command = body.read(customer, id);
    preview_of(&app, &caller, (customer, id), move |tx, subscription, now| {
        switch_plan(tx, &SwitchPlan { subscription, ..command.clone() }, now)
    })
    .await
}

/// `POST /api/subscriptions/{subscription_id}/cancel/preview/`
async fn cancel(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<CancelBody>,
) -> Result<web::Json<ChangePreviewView>, ApiError> {
    let customer = holder_of(&app, &caller, id).await?;
    let command = body.read(customer, vec![id]);
    preview_of(&app, &caller, (customer, id), move |tx, subscription, now| {
        let command = CancelSubscription { subscriptions: vec![subscription], ..command.clone() };
        cancel_subscription(tx, &command, now)?;
        tx.subscriptions().get(customer, subscription)
    })
    .await
}

/// `POST /api/subscriptions/{subscription_id}/addons/attach/preview/`
async fn attach(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<SubscriptionId>,
    ApiJson(body): ApiJson<AttachBody>,
) -> Result<web::Json<ChangePreviewView>, ApiError> {
    let customer = holder_of(&app, &caller, id).await?;
    let command = body.read(customer, id);
    preview_of(&app, &caller, (customer, id), move |tx, parent, now| {
        attach_addon(tx, &AttachAddon { parent, ..command.clone() }, now)?;
        tx.subscriptions().get(customer, parent)
    })
    .await
}

/// `POST /api/subscriptions/{subscription_id}/addons/{addon_id}/cancel/preview/`
async fn cancel_attached(
    app: web::Data<App>,
    caller: Caller,
    PathPair(id, NamedAddon(addon)): PathPair<SubscriptionId, NamedAddon>,
    ApiJson(body): ApiJson<CancelBody>,
) -> Result<web::Json<ChangePreviewView>, ApiError> {
    let customer = holder_of(&app, &caller, id).await?;
    let (cancellation, invoicing_behavior) = body.options();
    preview_of(&app, &caller, (customer, id), move |tx, parent, now| {
        cancel_addon(tx, &CancelAddon { customer, parent, addon, cancellation, invoicing_behavior }, now)?;
        tx.subscriptions().get(customer, parent)
    })
    .await
}

/// `POST /api/subscriptions/{subscription_id}/components/{metric_id}/change_prepaid_units/preview/`
async fn change_units(
    app: web::Data<App>,
    caller: Caller,
    PathPair(id, metric): PathPair<SubscriptionId, MetricId>,
    ApiJson(body): ApiJson<PrepaidChangeBody>,
) -> Result<web::Json<ChangePreviewView>, ApiError> {
    let customer = holder_of(&app, &caller, id).await?;
    let command = body.read(customer, id, metric);
    preview_of(&app, &caller, (customer, id), move |tx, subscription, now| {
        change_prepaid_units(tx, &ChangePrepaidUnits { subscription, ..command.clone() }, now)
    })
    .await
}
