//! Webhooks: the messages of an organization, sent to addresses that it has named.

use actix_web::{HttpResponse, web};
use billing_domain::FieldErrors;
use billing_domain::id::{MessageId, WebhookEndpointId};
use billing_domain::message::MessageType;
use billing_domain::store::{Page, Transaction};
use billing_domain::webhook::EndpointStatus;
use billing_domain::workflow::{
    CreateWebhookEndpoint, Replay, WebhookEndpointPatch, create_webhook_endpoint, replay_webhooks,
    rotate_webhook_secret, update_webhook_endpoint,
};
use billing_domain::{Error, FieldCode};
use billing_outbound::{Destination, Secret};
use uuid::Uuid;

use crate::answer::Created;
use crate::app::App;
use crate::caller::Caller;
use crate::delivery::Deliverer;
use crate::endpoint::{Endpoint, Parameter, delete, get, patch, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::query::Query;
use crate::webhook_view::{AttemptView, EndpointView, NewSecretView, TestView};
use crate::wire::{FromFields, Instant, Object, ObjectFields, body};

/// The calls about webhook endpoints.
pub fn endpoints() -> Vec<Endpoint> {
    const ONE: &str = "/api/webhook_endpoints/{webhook_endpoint_id}/";
    vec![
        get("/api/webhook_endpoints/", "List webhook endpoints, oldest first", list).lists::<EndpointView>(),
        post("/api/webhook_endpoints/", "Have messages sent to an address", create)
            .takes::<CreateEndpointBody>()
            .answers::<NewSecretView>(201)
            .reveals("secret"),
        get(ONE, "Show a webhook endpoint", show).answers::<EndpointView>(200),
        patch(ONE, "Change, disable or enable a webhook endpoint", update)
            .takes::<EndpointPatchBody>()
            .answers::<EndpointView>(200),
        delete(ONE, "Delete a webhook endpoint", remove),
        post(
            "/api/webhook_endpoints/{webhook_endpoint_id}/rotate_secret/",
            "Give a webhook endpoint another secret; the one before signs beside it for a day",
            rotate,
        )
        .answers::<NewSecretView>(200)
        .reveals("secret"),
        post(
            "/api/webhook_endpoints/{webhook_endpoint_id}/test/",
            "Send a webhook endpoint a message to try it",
            try_out,
        )
        .repeatable()
        .answers::<TestView>(200),
        get(
            "/api/webhook_endpoints/{webhook_endpoint_id}/deliveries/",
            "List the attempts at a webhook endpoint, newest first",
            deliveries,
        )
        .parameters(DELIVERY_PARAMETERS)
        .lists::<AttemptView>(),
        post(
            "/api/webhook_endpoints/{webhook_endpoint_id}/replay/",
            "Send a webhook endpoint one message again, or all since an instant",
            replay,
        )
        .takes::<ReplayBody>()
        .answers::<EndpointView>(200),
    ]
}

const DELIVERY_PARAMETERS: &[Parameter] = &[Parameter::optional("message_id", "Keeps the attempts at one message.")];

body! {
    /// Where messages are sent.
    CreateEndpointBody {
        /// What is called: `https://`, at a public address.
        required url: String,
        /// Types of the messages that are sent; all when missing or empty.
        optional event_types: Vec<MessageType>,
        /// What it is for.
        optional description: String,
    }
}

body! {
    /// What to change of an endpoint.
    EndpointPatchBody {
        /// What is called.
        change url: String,
        /// Types of the messages that are sent; all when empty.
        change event_types: Vec<MessageType>,
        /// What it is for.
        patch description: String,
        /// `disabled` sends nothing more, `enabled` sends what is told from then on.
        change status: EndpointStatus,
    }
}

body! {
    /// What to send again. Exactly one of message_id and since is given.
    ReplayBody {
        together what: ReplayChoice,
    }
}

/// One message, or all since an instant.
#[derive(Clone, Copy, Debug)]
pub struct ReplayChoice(Replay);

impl FromFields for ReplayChoice {
    fn from_fields(object: &mut Object) -> Option<Self> {
        let (message, since) = (object.optional::<MessageId>("message_id"), object.optional::<Instant>("since"));
        match (message?, since?) {
            (Some(message), None) => Some(Self(Replay::Message(message))),
            (None, Some(Instant(since))) => Some(Self(Replay::Since(since))),
            (message, _) => {
                let code = if message.is_some() { FieldCode::NotAllowedTogether } else { FieldCode::Required };
                object.note("message_id", code, "Give exactly one of message_id and since.")
            }
        }
    }

    fn describe_fields(object: &mut ObjectFields<'_>) {
        object.field::<MessageId>("message_id", "The message.", false);
        object.field::<Instant>("since", "All messages that were written since this instant of real time.", false);
    }
}

/// Refuses what may not be called.
fn check_url(deliverer: &Deliverer, url: Option<&String>) -> Result<(), FieldErrors> {
    let mut errors = FieldErrors::default();
    if let Some(Err(error)) = url.map(|url| Destination::parse(url, deliverer.reach())) {
        errors.push("url", FieldCode::Invalid, error.to_string());
    }
    errors.finish(())
}

/// `GET /api/webhook_endpoints/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<EndpointView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        map_page(paging.cut(tx.webhooks().list()?)?, |endpoint| Ok(EndpointView::from(&endpoint)))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/webhook_endpoints/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(body): ApiJson<CreateEndpointBody>,
) -> Result<Created<NewSecretView>, ApiError> {
    check_url(&app.deliverer, Some(&body.url)).map_err(Error::from)?;
    let (id, secret) = (WebhookEndpointId::from(Uuid::now_v7()), Secret::generate().map_err(ApiError::internal)?);
    let command = CreateWebhookEndpoint {
        url: body.url,
        event_types: body.event_types.unwrap_or_default(),
        description: body.description,
        id,
        public_key: secret.public_key(),
        secret: app.deliverer.sealer().seal(id, &secret)?,
    };
    let view = app.on_catalog(&caller, move |tx, now| {
        let endpoint = create_webhook_endpoint(tx, &command, now)?;
        Ok(NewSecretView { endpoint: EndpointView::from(&endpoint), secret: secret.reveal() })
    });
    Ok(Created(view.await?))
}

/// `GET /api/webhook_endpoints/{webhook_endpoint_id}/`
async fn show(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<WebhookEndpointId>,
) -> Result<web::Json<EndpointView>, ApiError> {
    let view = app.read(&caller, move |tx, _| Ok(EndpointView::from(&tx.webhooks().get(id)?)));
    Ok(web::Json(view.await?))
}

/// `PATCH /api/webhook_endpoints/{webhook_endpoint_id}/`
async fn update(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<WebhookEndpointId>,
    ApiJson(body): ApiJson<EndpointPatchBody>,
) -> Result<web::Json<EndpointView>, ApiError> {
    check_url(&app.deliverer, body.url.as_ref()).map_err(Error::from)?;
    let EndpointPatchBody { url, event_types, description, status } = body;
    let patch = WebhookEndpointPatch { url, event_types, description: description.nullable(), status };
    let view = app.on_catalog(&caller, move |tx, _| Ok(EndpointView::from(&update_webhook_endpoint(tx, id, &patch)?)));
    Ok(web::Json(view.await?))
}

/// `DELETE /api/webhook_endpoints/{webhook_endpoint_id}/`
async fn remove(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<WebhookEndpointId>,
) -> Result<HttpResponse, ApiError> {
    app.on_catalog(&caller, move |tx, _| tx.webhooks().delete(id)).await?;
    Ok(HttpResponse::NoContent().finish())
}

/// `POST /api/webhook_endpoints/{webhook_endpoint_id}/rotate_secret/`
async fn rotate(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<WebhookEndpointId>,
) -> Result<web::Json<NewSecretView>, ApiError> {
    let secret = Secret::generate().map_err(ApiError::internal)?;
    let sealed = app.deliverer.sealer().seal(id, &secret)?;
    let view = app.on_catalog(&caller, move |tx, now| {
        let endpoint = rotate_webhook_secret(tx, id, (&sealed, &secret.public_key()), now)?;
        Ok(NewSecretView { endpoint: EndpointView::from(&endpoint), secret: secret.reveal() })
    });
    Ok(web::Json(view.await?))
}

/// `POST /api/webhook_endpoints/{webhook_endpoint_id}/test/`
async fn try_out(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<WebhookEndpointId>,
) -> Result<web::Json<TestView>, ApiError> {
    // While the endpoint is waited for nothing is held: neither a connection to the database nor a place at it.
    let endpoint = app.read(&caller, move |tx, _| tx.webhooks().get(id)).await?;
    let attempt = app.deliverer.try_out(caller.organization, endpoint).await?;
    Ok(web::Json(TestView::from(&attempt)))
}

/// `GET /api/webhook_endpoints/{webhook_endpoint_id}/deliveries/`
async fn deliveries(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<WebhookEndpointId>,
    mut query: Query,
    Paging(page): Paging,
) -> Result<ListAnswer<AttemptView>, ApiError> {
    let message = query.optional::<MessageId>("message_id");
    let message = query.finish(message)?;
    let read = app.read(&caller, move |tx: &mut dyn Transaction, _| {
        let Page { items, next } = tx.webhooks().list_attempts(id, message, &page)?;
        Ok(Page { items: items.iter().map(AttemptView::from).collect(), next })
    });
    Ok(ListAnswer(read.await?))
}

/// `POST /api/webhook_endpoints/{webhook_endpoint_id}/replay/`
async fn replay(
    app: web::Data<App>,
    caller: Caller,
    PathParam(id): PathParam<WebhookEndpointId>,
    ApiJson(body): ApiJson<ReplayBody>,
) -> Result<web::Json<EndpointView>, ApiError> {
    let ReplayBody { what: ReplayChoice(what) } = body;
    let view = app.on_catalog(&caller, move |tx, now| Ok(EndpointView::from(&replay_webhooks(tx, id, what, now)?)));
    let view = view.await?;
    app.deliverer.wake();
    Ok(web::Json(view))
}
