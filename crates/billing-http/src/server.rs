//! The HTTP server, startable inside any program.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::{HttpServer, web};
use anyhow::Context;

use crate::app::{App, DiskCheck};
use crate::auth::Pepper;
use crate::backend::Backend;
use crate::json::{BodyBudget, BodyDeadline};
use crate::worker::{Alarm, Workers};
use crate::{endpoint, middleware, routes};

/// Time for the rest of a request's head.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// Time for a client to close its side.
const DISCONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Time for requests at work when the server stops, in seconds. With the notice before it, a stop takes less than the
/// ten seconds after which service managers lose patience.
const DRAIN_SECONDS: u64 = 8;
/// Most open connections of one worker.
const CONNECTIONS_MAX: usize = 2_000;

/// How to serve.
#[derive(Clone)]
pub struct ServerSettings {
    /// Where to listen; port 0 is any free one.
    pub addr: SocketAddr,
    /// What keys are digested with.
    pub pepper: Pepper,
    /// Connections that the backend has: no more requests work at once.
    pub connections: usize,
    /// How long load balancers have to notice that the service is going, before it stops to listen.
    pub notice: Duration,
    /// How long a body may take to arrive.
    pub body_deadline: Duration,
    /// The certificate to serve TLS with; plain HTTP when missing.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Whether the disk of the database is full, where that can be told from here.
    pub is_disk_full: Option<DiskCheck>,
}

impl ServerSettings {
    /// The usual settings.
    pub fn new(addr: SocketAddr, pepper: Pepper, connections: usize) -> Self {
        let (notice, body_deadline) = (Duration::from_secs(1), Duration::from_secs(10));
        Self { addr, pepper, connections, notice, body_deadline, tls: None, is_disk_full: None }
    }
}

/// Starts servers.
#[derive(Debug)]
pub struct Server;

/// A server at work; it works until it is stopped.
pub struct RunningServer {
    /// Where it listens.
    pub addr: SocketAddr,
    app: web::Data<App>,
    handle: ServerHandle,
    thread: JoinHandle<std::io::Result<()>>,
    workers: Workers,
    notice: Duration,
}

impl Server {
    /// Starts serving `backend`, with its background workers.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the system has no more threads.
    pub fn start(settings: &ServerSettings, backend: Arc<dyn Backend>) -> anyhow::Result<RunningServer> {
        let listener =
            TcpListener::bind(settings.addr).with_context(|| format!("cannot listen on {}", settings.addr))?;
        let addr = listener.local_addr()?;
        let (alarm, ear) = Alarm::new();
        let workers = Workers::start(&backend, (alarm.clone(), ear))?;
        let app = web::Data::new(App::new(backend, settings, alarm));
        let (sender, receiver) = mpsc::channel();
        let (data, served) = (app.clone(), settings.clone());
        let thread = thread::Builder::new().name("http".to_owned()).spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let server = listen(listener, &data, &served)?;
                // An error means that nobody waits for the handle.
                sender.send(server.handle()).unwrap_or_default();
                server.await
            })
        })?;
        let handle = receiver.recv().context("the server did not start")?;
        Ok(RunningServer { addr, app, handle, thread, workers, notice: settings.notice })
    }
}

fn listen(
    listener: TcpListener,
    app: &web::Data<App>,
    settings: &ServerSettings,
) -> std::io::Result<actix_web::dev::Server> {
    let (app, deadline, budget) = (app.clone(), BodyDeadline(settings.body_deadline), BodyBudget::default());
    let server = HttpServer::new(move || {
        actix_web::App::new()
            .app_data(app.clone())
            .app_data(deadline)
            .app_data(budget.clone())
            .configure(|config| endpoint::configure(config, routes::table()))
            .wrap(from_fn(middleware::surround))
    });
    let server = server
        .client_request_timeout(HEAD_DEADLINE)
        .client_disconnect_timeout(DISCONNECT_DEADLINE)
        .max_connections(CONNECTIONS_MAX)
        .worker_max_blocking_threads(settings.connections + 2)
        .shutdown_timeout(DRAIN_SECONDS)
        .disable_signals();
    let server = match &settings.tls {
        Some(tls) => server.listen_rustls_0_23(listener, tls.as_ref().clone())?,
        None => server.listen(listener)?,
    };
    Ok(server.run())
}

impl RunningServer {
    /// Tells load balancers to go elsewhere, finishes what is at work, and stops.
    ///
    /// # Errors
    /// When the server had failed.
    pub fn stop(self) -> anyhow::Result<()> {
        self.app.drain();
        // They finish the customer they are at while requests are drained.
        self.workers.silence();
        thread::sleep(self.notice);
        // The future only waits; the command itself is sent at once.
        drop(self.handle.stop(true));
        let served = self.thread.join().map_err(|_| anyhow::anyhow!("the server thread panicked"))?;
        self.workers.stop();
        Ok(served?)
    }
}
