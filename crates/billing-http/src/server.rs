//! The HTTP server, startable inside any program.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::web;
use anyhow::Context;
use billing_outbound::Client;

use crate::app::App;
use crate::audit;
use crate::backend::Backend;
use crate::connections::Connections;
use crate::console;
use crate::event;
use crate::feed_signals::FeedSignals;
use crate::listen::listen;
use crate::message;
use crate::server_settings::ServerSettings;
use crate::taxes::Taxes;
use crate::worker::{Alarm, FeedKeeping, Workers};

/// How often connections that wait too long are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// More than any allocator keeps for later.
const LARGE_BYTES: usize = 2 * 1024 * 1024;

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
        let (alarm, ear) = Alarm::new();
        let taxes = Arc::new(Taxes::new(Client::new(settings.reach)));
        message::render_on(backend.as_ref());
        let feed_signals = Arc::new(FeedSignals::default());
        let app = App::new(Arc::clone(&backend), settings, alarm.clone(), Arc::clone(&taxes)).showing(audit::show);
        let app = app.calling(console::call_inside);
        app.deliverer.show_as(message::bodies);
        let app = app.with_feed_signals(Arc::clone(&feed_signals));
        let feeds = FeedKeeping::new(feed_signals, settings.feed_days, Arc::clone(&app.deliverer));
        app.event_tails.show_as(event::tail_rows);
        let key_uses = Arc::clone(&app.key_uses);
        let workers = Workers::start(&backend, &taxes, (alarm, ear), feeds, key_uses, &app.event_tails)?;
        let app = web::Data::new(app);
        let (sender, receiver) = mpsc::channel();
        let (data, served) = (app.clone(), settings.clone());
        let thread = thread::Builder::new().name("http".to_owned()).spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let (server, addr) = match listen(&data, &served) {
                    Ok(listening) => listening,
                    Err(error) => {
                        sender.send(Err(error)).unwrap_or_default();
                        return Ok(());
                    }
                };
                actix_web::rt::spawn(sweep(Arc::clone(&data.connections)));
                // An error means that nobody waits for the handle.
                sender.send(Ok((server.handle(), addr))).unwrap_or_default();
                server.await
            })
        })?;
        let listening = receiver.recv().context("the server did not start")?;
        let (handle, addr) = listening.with_context(|| format!("cannot listen on {}", settings.addr))?;
        Ok(RunningServer { addr, app, handle, thread, workers, notice: settings.notice })
    }
}

async fn sweep(connections: Arc<Connections>) {
    loop {
        actix_web::rt::time::sleep(SWEEP_EVERY).await;
        connections.sweep();
        // An allocator may give freed memory back only when something large is freed; after a flood nothing is, and the peak
        // would stay.
        drop(black_box(Vec::<u8>::with_capacity(LARGE_BYTES)));
    }
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
        self.app.deliverer.silence();
        thread::sleep(self.notice);
        // The future only waits; the command itself is sent at once.
        drop(self.handle.stop(true));
        let served = self.thread.join().map_err(|_| anyhow::anyhow!("the server thread panicked"))?;
        self.workers.stop();
        self.app.deliverer.stop();
        self.app.note_events();
        Ok(served?)
    }
}
