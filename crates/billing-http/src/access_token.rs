//! Access tokens: what goes into `Authorization: Token <token>` beside an API key.

use actix_web::web;
use billing_domain::api_key::KeyKind;

use crate::answer::{Created, NoContent};
use crate::api_key::{KeyView, TokenBody, create_key, list_keys, remove_key};
use crate::app::App;
use crate::caller::Caller;
use crate::endpoint::{Endpoint, delete, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging};
use crate::path::PathParam;
use crate::wire::{Secret, view};

/// The calls about tokens.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/access_tokens/", "List access tokens", list).lists::<KeyView>(),
        post("/api/access_tokens/", "Create an access token; its text is shown this once", create)
            .takes::<TokenBody>()
            .answers::<NewAccessTokenView>(201)
            .reveals("token"),
        delete("/api/access_tokens/{prefix}/", "Delete an access token", remove),
    ]
}

view! {
    /// A token that was just made.
    NewAccessTokenView {
        ..shown: KeyView,
        /// The token itself. It is kept nowhere, so it is not shown again, nor when this answer is repeated.
        token: Secret,
    }
}

/// `GET /api/access_tokens/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<KeyView>, ApiError> {
    list_keys(&app, &caller, KeyKind::AccessToken, paging).await
}

/// `POST /api/access_tokens/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(body): ApiJson<TokenBody>,
) -> Result<Created<NewAccessTokenView>, ApiError> {
    create_key(&app, &caller, KeyKind::AccessToken, body, |made, token| NewAccessTokenView {
        shown: made.into(),
        token,
    })
    .await
}

/// `DELETE /api/access_tokens/{prefix}/`
async fn remove(
    app: web::Data<App>,
    caller: Caller,
    PathParam(prefix): PathParam<String>,
) -> Result<NoContent, ApiError> {
    remove_key(&app, &caller, KeyKind::AccessToken, prefix).await
}
