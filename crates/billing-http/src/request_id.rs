//! The id of a request: on its answer, in its error and in the log.

use std::future::Future;

use actix_web::http::header::HeaderName;
use uuid::Uuid;

/// The header that carries the id on every answer.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

tokio::task_local! {
    static CURRENT: String;
}

/// A new id.
pub fn new() -> String {
    Uuid::now_v7().simple().to_string()
}

/// Runs `work` as the request `id`.
pub async fn scope<T>(id: String, work: impl Future<Output = T>) -> T {
    CURRENT.scope(id, work).await
}

/// The id of the request being worked on; a new one outside of any.
pub fn current() -> String {
    CURRENT.try_with(Clone::clone).unwrap_or_else(|_| new())
}
