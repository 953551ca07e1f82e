//! Access tokens: what goes into `Authorization: Token <token>` beside an API key.

use actix_web::web;
use billing_domain::api_key::{ApiKey, KeyKind};

use crate::answer::{Created, NoContent};
use crate::api_key::{ApiKeyBody, insert};
use crate::app::App;
use crate::auth::{Caller, KeyText};
use crate::endpoint::{Endpoint, delete, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::wire::{Instant, Secret, view};

/// The calls about tokens.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/access_tokens/", "List access tokens", list).answers::<Vec<AccessTokenView>>(200),
        post("/api/access_tokens/", "Create an access token; its text is shown this once", create)
            .takes::<ApiKeyBody>()
            .answers::<NewAccessTokenView>(201)
            .reveals("token"),
        delete("/api/access_tokens/{prefix}/", "Delete an access token", remove),
    ]
}

view! {
    /// A token without its secret.
    AccessTokenView {
        /// What it is for.
        name: String,
        /// Its first 8 characters.
        prefix: String,
        /// When it was made.
        created_at: Instant,
        /// From when on it is worthless.
        expires_at: Option<Instant>,
    }
}

view! {
    /// A token that was just made.
    NewAccessTokenView {
        /// What it is for.
        name: String,
        /// Its first 8 characters.
        prefix: String,
        /// When it was made.
        created_at: Instant,
        /// From when on it is worthless.
        expires_at: Option<Instant>,
        /// The token itself. It is kept nowhere, so it is not shown again, nor when this answer is repeated.
        token: Secret,
    }
}

impl From<&ApiKey> for AccessTokenView {
    fn from(key: &ApiKey) -> Self {
        Self {
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            created_at: Instant(key.created_at),
            expires_at: key.expires_at.map(Instant),
        }
    }
}

impl NewAccessTokenView {
    fn new(key: &ApiKey, text: &KeyText) -> Self {
        let AccessTokenView { name, prefix, created_at, expires_at } = key.into();
        Self { name, prefix, created_at, expires_at, token: Secret(text.reveal().to_owned()) }
    }
}

/// `GET /api/access_tokens/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<AccessTokenView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        let tokens = tx.api_keys().list(KeyKind::AccessToken)?;
        map_page(paging.cut(tokens)?, |token| Ok(AccessTokenView::from(&token)))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/access_tokens/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(body): ApiJson<ApiKeyBody>,
) -> Result<Created<NewAccessTokenView>, ApiError> {
    let (pepper, text) = (app.pepper.clone(), KeyText::generate().map_err(ApiError::internal)?);
    let view = app.on_catalog(&caller, move |tx, now| {
        let expires_at = body.expires_at.map(|Instant(at)| at);
        let token = insert(tx, KeyKind::AccessToken, &pepper, &text, &body.name, expires_at, now)?;
        Ok(NewAccessTokenView::new(&token, &text))
    });
    Ok(Created(view.await?))
}

/// `DELETE /api/access_tokens/{prefix}/`
async fn remove(
    app: web::Data<App>,
    caller: Caller,
    PathParam(prefix): PathParam<String>,
) -> Result<NoContent, ApiError> {
    app.on_catalog(&caller, move |tx, _| tx.api_keys().delete(KeyKind::AccessToken, &prefix)).await?;
    Ok(NoContent)
}
