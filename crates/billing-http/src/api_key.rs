//! API keys and access tokens: who may speak for the organization.

use actix_web::web;
use billing_domain::api_key::{ApiKey, KeyKind};
use billing_domain::store::Transaction;
use billing_domain::{Error, FieldCode, FieldError, Noun, text};
use time::OffsetDateTime;

use crate::answer::{Created, NoContent};
use crate::app::App;
use crate::auth::{Caller, KeyText, Pepper};
use crate::endpoint::{Endpoint, delete, get, post};
use crate::error::ApiError;
use crate::json::ApiJson;
use crate::list::{ListAnswer, Paging, map_page};
use crate::path::PathParam;
use crate::wire::{Instant, Secret, body, view};

/// The calls about keys.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/api_keys/", "List keys", list).answers::<Vec<ApiKeyView>>(200),
        post("/api/api_keys/", "Create a key; its text is shown this once", create)
            .takes::<ApiKeyBody>()
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
    ApiKeyBody {
        /// What it is for.
        required name: String,
        /// From when on it is worthless; never when missing.
        optional expires_at: Instant,
    }
}

view! {
    /// A key without its secret.
    ApiKeyView {
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
        /// What it is for.
        name: String,
        /// Its first 8 characters.
        prefix: String,
        /// When it was made.
        created_at: Instant,
        /// From when on it is worthless.
        expires_at: Option<Instant>,
        /// The key itself. It is kept nowhere, so it is not shown again, nor when this answer is repeated.
        key: Secret,
    }
}

impl From<&ApiKey> for ApiKeyView {
    fn from(key: &ApiKey) -> Self {
        Self {
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            created_at: Instant(key.created_at),
            expires_at: key.expires_at.map(Instant),
        }
    }
}

impl NewApiKeyView {
    fn new(key: &ApiKey, text: &KeyText) -> Self {
        let ApiKeyView { name, prefix, created_at, expires_at } = key.into();
        Self { name, prefix, created_at, expires_at, key: Secret(text.reveal().to_owned()) }
    }
}

/// Keeps a new key of a kind, of the transaction's organization.
///
/// # Errors
/// A bad name, an expiry that has passed, and those of the store.
pub fn insert(
    tx: &mut dyn Transaction,
    kind: KeyKind,
    pepper: &Pepper,
    text: &KeyText,
    name: &str,
    expires_at: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> Result<ApiKey, Error> {
    text::check(name, text::NAME_CHARACTERS_MAX).map_err(|error| error.under("name"))?;
    if expires_at.is_some_and(|at| at <= now) {
        return Err(FieldError::new("expires_at", FieldCode::Invalid, "The expiry must not be in the past.").into());
    }
    let key = ApiKey {
        kind,
        prefix: text.prefix().to_owned(),
        organization: tx.organization(),
        name: name.to_owned(),
        digest: pepper.digest(text),
        created_at: now,
        expires_at,
    };
    tx.api_keys().insert(&key)?;
    Ok(key)
}

/// `GET /api/api_keys/`
async fn list(app: web::Data<App>, caller: Caller, paging: Paging) -> Result<ListAnswer<ApiKeyView>, ApiError> {
    let page = app.read(&caller, move |tx, _| {
        map_page(paging.cut(tx.api_keys().list(KeyKind::ApiKey)?)?, |key| Ok(ApiKeyView::from(&key)))
    });
    Ok(ListAnswer(page.await?))
}

/// `POST /api/api_keys/`
async fn create(
    app: web::Data<App>,
    caller: Caller,
    ApiJson(body): ApiJson<ApiKeyBody>,
) -> Result<Created<NewApiKeyView>, ApiError> {
    let (pepper, text) = (app.pepper.clone(), KeyText::generate().map_err(ApiError::internal)?);
    let view = app.on_catalog(&caller, move |tx, now| {
        let expires_at = body.expires_at.map(|Instant(at)| at);
        let key = insert(tx, KeyKind::ApiKey, &pepper, &text, &body.name, expires_at, now)?;
        Ok(NewApiKeyView::new(&key, &text))
    });
    Ok(Created(view.await?))
}

/// `DELETE /api/api_keys/{prefix}/`
async fn remove(
    app: web::Data<App>,
    caller: Caller,
    PathParam(prefix): PathParam<String>,
) -> Result<NoContent, ApiError> {
    app.on_catalog(&caller, move |tx, _| tx.api_keys().delete(KeyKind::ApiKey, &prefix)).await?;
    Ok(NoContent)
}

/// `POST /api/api_keys/{prefix}/regenerate/`
async fn regenerate(
    app: web::Data<App>,
    caller: Caller,
    PathParam(prefix): PathParam<String>,
) -> Result<Created<NewApiKeyView>, ApiError> {
    let pepper = app.pepper.clone();
    let text = KeyText::generate().map_err(ApiError::internal)?;
    let view = app.on_catalog(&caller, move |tx, _| {
        let keys = tx.api_keys().list(KeyKind::ApiKey)?;
        let old = keys.into_iter().find(|key| key.prefix == prefix).ok_or(Error::NotFound(Noun::ApiKey))?;
        tx.api_keys().delete(KeyKind::ApiKey, &old.prefix)?;
        let new = ApiKey { prefix: text.prefix().to_owned(), digest: pepper.digest(&text), ..old };
        tx.api_keys().insert(&new)?;
        Ok(NewApiKeyView::new(&new, &text))
    });
    Ok(Created(view.await?))
}
