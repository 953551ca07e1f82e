//! API keys and access tokens: who may speak for the organization.

use actix_web::web;
use billing_domain::api_key::{ApiKey, Fingerprint, KeyKind, KeyScope};
use billing_domain::workflow::{CreateApiKey, RegenerateApiKey, create_api_key, regenerate_api_key};
use serde::Serialize;

use crate::answer::{Created, NoContent};
use crate::app::App;
use crate::caller::{Caller, KeyText};
use crate::endpoint::{Endpoint, delete, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::wire::{Instant, Secret, body, view, words_of};

/// The calls about keys.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/api_keys/", "List keys", list).lists::<ApiKeyView>(),
        post("/api/api_keys/", "Create a key; its text is shown this once", create)
            .takes::<KeyBody>()
            .answers::<NewApiKeyView>(201)
            .reveals("key"),
        delete("/api/api_keys/{prefix}/", "Delete a key", remove),
        post("/api/api_keys/{prefix}/regenerate/", "Put a new key in the place of one", regenerate)
            .answers::<NewApiKeyView>(201)
            .reveals("key"),
    ]
}

body! {
    /// A new key.
    KeyBody {
        /// What it is for.
        required name: String,
        /// From when on it is worthless; never when missing.
        optional expires_at: Instant,
        /// What it may be used for; everything when missing.
        optional scopes: Vec<KeyScope>,
    }
}

body! {
    /// A new token.
    TokenBody {
        /// What it is for.
        required name: String,
        /// From when on it is worthless; never when missing.
        optional expires_at: Instant,
    }
}

impl From<TokenBody> for KeyBody {
    fn from(TokenBody { name, expires_at }: TokenBody) -> Self {
        Self { name, expires_at, scopes: None }
    }
}

impl KeyBody {
    fn read(self, kind: KeyKind, fingerprint: Fingerprint) -> CreateApiKey {
        let expires_at = self.expires_at.map(|Instant(at)| at);
        CreateApiKey { kind, name: self.name, expires_at, scopes: self.scopes, fingerprint }
    }
}

words_of! { KeyScope }

view! {
    /// A key without its secret.
    ApiKeyView {
        ..shown: KeyView,
        /// What it may be used for.
        scopes: Vec<KeyScope>,
        /// When it was used last, give or take a minute; null: not yet.
        last_used_at: Option<Instant>,
    }
}

view! {
    /// A key or token without its secret.
    KeyView {
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
    /// A key that was just made.
    NewApiKeyView {
        ..shown: ApiKeyView,
        /// The key itself. It is kept nowhere, so it is not shown again, nor when this answer is repeated.
        key: Secret,
    }
}

impl From<&ApiKey> for KeyView {
    fn from(key: &ApiKey) -> Self {
        Self {
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            created_at: Instant(key.created_at),
            expires_at: key.expires_at.map(Instant),
        }
    }
}

impl From<&ApiKey> for ApiKeyView {
    fn from(key: &ApiKey) -> Self {
        Self { shown: key.into(), scopes: key.scopes.to_vec(), last_used_at: key.last_used_at.map(Instant) }
    }
}

impl From<&KeyText> for Secret {
    fn from(text: &KeyText) -> Self {
        Self(text.reveal().to_owned())
    }
}

/// The keys of a kind.
pub async fn list_keys<V: for<'k> From<&'k ApiKey> + Send + 'static>(
    app: &App,
    caller: &Caller,
    kind: KeyKind,
    paging: Paging,
) -> Result<ListAnswer<V>, ApiError> {
    let page = app.read(caller, move |tx, _| map_page(paging.cut(tx.api_keys().list(kind)?)?, |key| Ok(V::from(&key))));
    Ok(ListAnswer(page.await?))
}

/// Makes a key of a kind and shows it with its text.
pub async fn create_key<V: Serialize + Send + 'static>(
    app: &App,
    caller: &Caller,
    kind: KeyKind,
    body: impl Into<KeyBody>,
    show: fn(&ApiKey, Secret) -> V,
) -> Result<Created<V>, ApiError> {
    let text = KeyText::generate().map_err(ApiError::internal)?;
    let command = body.into().read(kind, app.pepper.fingerprint(&text));
    let view = app.on_catalog(caller, move |tx, now| {
        let key = create_api_key(tx, &command, now)?;
        Ok(show(&key, (&text).into()))
    });
    Ok(Created(view.await?))
}

/// Ends a key of a kind, from the answer on.
pub async fn remove_key(app: &App, caller: &Caller, kind: KeyKind, prefix: String) -> Result<NoContent, ApiError> {
    app.on_catalog(caller, move |tx, _| tx.api_keys().delete(kind, &prefix)).await?;
    Ok(NoContent)
}

/// `GET /api/api_keys/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<ApiKeyView>, ApiError> {
    list_keys(&app, &caller, KeyKind::ApiKey, paging).await
}

/// `POST /api/api_keys/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(body): ApiJson<KeyBody>,
) -> Result<Created<NewApiKeyView>, ApiError> {
    create_key(&app, &caller, KeyKind::ApiKey, body, |made, key| NewApiKeyView { shown: made.into(), key }).await
}

/// `DELETE /api/api_keys/{prefix}/`
async fn remove(
    app: web::Data<App>,
    caller: Caller,
    PathParam(prefix): PathParam<String>,
) -> Result<NoContent, ApiError> {
    remove_key(&app, &caller, KeyKind::ApiKey, prefix).await
}

/// `POST /api/api_keys/{prefix}/regenerate/`
async fn regenerate(
    app: web::Data<App>,
    caller: Caller,
    PathParam(prefix): PathParam<String>,
) -> Result<Created<NewApiKeyView>, ApiError> {
    let text = KeyText::generate().map_err(ApiError::internal)?;
    let command = RegenerateApiKey { prefix, fingerprint: app.pepper.fingerprint(&text) };
    let view = app.on_catalog(&caller, move |tx, now| {
        let key = regenerate_api_key(tx, &command, now)?;
        Ok(NewApiKeyView { shown: (&key).into(), key: (&text).into() })
    });
    Ok(Created(view.await?))
}
