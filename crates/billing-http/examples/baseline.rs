//! A server that does next to nothing, for benchmarks to hold the service against: a constant, and one look-up by
//! primary key through the store's own pool. `baseline ADDR DATABASE_URL API_KEY`.

use std::env;
use std::sync::Arc;

use actix_web::{App, HttpResponse, HttpServer, web};
use anyhow::Context;
use billing_domain::store::ApiKeyLookup;
use billing_store::PgStore;

/// As many as the service has for requests.
const CONNECTIONS: u32 = 16;

struct Lookup {
    store: PgStore,
    prefix: String,
}

async fn constant() -> HttpResponse {
    HttpResponse::Ok().json(true)
}

async fn lookup(shared: web::Data<Lookup>) -> HttpResponse {
    let shared = Arc::clone(&shared.into_inner());
    match web::block(move || shared.store.find_key(&shared.prefix)).await {
        Ok(Ok(Some(_))) => HttpResponse::Ok().json(true),
        _ => HttpResponse::InternalServerError().finish(),
    }
}

#[actix_web::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().context("usage: baseline ADDR DATABASE_URL API_KEY");
    let (addr, url, key) = (next()?, next()?, next()?);
    let prefix = key.split('.').next().unwrap_or_default().to_owned();
    let shared = web::Data::new(Lookup { store: PgStore::connect(&url, CONNECTIONS)?, prefix });
    let server = HttpServer::new(move || {
        App::new()
            .app_data(shared.clone())
            .route("/constant", web::get().to(constant))
            .route("/lookup", web::get().to(lookup))
    });
    server.worker_max_blocking_threads(CONNECTIONS as usize).bind(addr)?.run().await?;
    Ok(())
}
