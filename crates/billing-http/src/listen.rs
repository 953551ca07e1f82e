//! The listening socket, and what becomes of each connection that comes in there.
//!
//! Put together here and not by actix-web's own `HttpServer`, because each stream is [`Paced`].

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_http::error::DispatchError;
use actix_http::{HttpService, Protocol};
use actix_service::{IntoServiceFactory, ServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_tls::accept::TlsError;
use actix_tls::accept::rustls_0_23::{Acceptor, TlsStream};
use actix_web::dev::{AppConfig, Server};
use actix_web::middleware::from_fn;
use actix_web::rt::net::{TcpSocket, TcpStream};
use actix_web::web;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::app::App;
use crate::body::{BodyBudget, BodyDeadline};
use crate::connections::{Connections, Paced};
use crate::console::Console;
use crate::openapi::Description;
use crate::server_settings::{CONNECTIONS_MAX, ServerSettings, workers};
use crate::{console, endpoint, message, middleware, routes};

/// Time for the rest of a first head that is a large one: an ordinary one is there when this begins.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// Time for a client to close its side.
const DISCONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Time for requests at work when the server stops, in seconds. With the notice before it, a stop takes less than the
/// ten seconds after which service managers lose patience.
const DRAIN_SECONDS: u64 = 8;
/// Connections of one worker from which on no more are taken up. Never in question before those that wait are closed: while
/// nothing is taken up the system throws away who comes, and lets them wait for seconds before they try again.
const TAKEN_UP_MAX: usize = 2 * CONNECTIONS_MAX;
/// Connections that wait to be taken up. More are told nothing, and try again after a second.
const BACKLOG: u32 = 4_096;
/// Bytes that an HTTP/2 client may send before any of them is taken, of one request and of all on a connection.
const HTTP2_WINDOW_BYTES: u32 = 128 * 1024;
/// The protocols that are offered to a TLS client, the better one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// What every worker serves connections with.
#[derive(Clone)]
struct Served {
    app: web::Data<App>,
    /// The description of all calls.
    description: web::Data<Description>,
    deadline: BodyDeadline,
    budget: BodyBudget,
    /// The pages for people, where there are any.
    console: Option<web::Data<Console>>,
}

/// Listens, and serves `app` to whoever connects.
///
/// # Errors
/// When the address cannot be listened on.
pub fn listen(app: &web::Data<App>, settings: &ServerSettings) -> io::Result<(Server, SocketAddr)> {
    let listener = bind(settings.addr)?;
    let addr = listener.local_addr()?;
    let served = Served {
        app: app.clone(),
        description: web::Data::new(Description::new(routes::table, message::webhooks)),
        deadline: BodyDeadline(settings.body_deadline),
        budget: BodyBudget::default(),
        console: settings.has_console.then(|| web::Data::new(Console::new(settings))),
    };
    let builder = Server::build()
        .workers(workers())
        .max_concurrent_connections(TAKEN_UP_MAX)
        .worker_max_blocking_threads(settings.connections + 2)
        .shutdown_timeout(DRAIN_SECONDS)
        .disable_signals();
    let signal = builder.graceful_shutdown_signal();
    let stops = move || {
        let signal = signal.clone();
        async move { signal.notified().await }
    };
    let connections = app.connections.clone();
    let builder = match settings.tls.clone() {
        None => builder.listen("http", listener, move || {
            plain(connections.clone(), stops.clone()).and_then(http(served.clone(), stops.clone()))
        }),
        Some(tls) => {
            let tls = tls.as_ref().clone();
            builder.listen("https", listener, move || {
                let http = http(served.clone(), stops.clone()).map_err(TlsError::Service);
                encrypted(connections.clone(), tls.clone(), stops.clone()).and_then(http)
            })
        }
    };
    Ok((builder?.run(), addr))
}

fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Otherwise a restart would have to wait for the connections of the process before.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)?.into_std()
}

/// A connection as the service below takes it.
type Connected<S> = (Paced<S>, Protocol, Option<SocketAddr>);

fn plain<F: Future<Output = ()>>(
    connections: Arc<Connections>,
    stops: impl Fn() -> F + Clone + 'static,
) -> impl ServiceFactory<TcpStream, Config = (), Response = Connected<TcpStream>, Error = DispatchError, InitError = ()>
{
    fn_service(move |tcp: TcpStream| {
        let mut stream = Paced::new(tcp, connections.list(false));
        let stops = stops();
        async move {
            stream.wait_for_head(stops).await?;
            let tcp = stream.stream();
            stream.listed().serve(tcp);
            let peer = tcp.peer_addr().ok();
            Ok((stream, Protocol::Http1, peer))
        }
    })
}

fn encrypted<F: Future<Output = ()>>(
    connections: Arc<Connections>,
    mut tls: rustls::ServerConfig,
    stops: impl Fn() -> F + Clone + 'static,
) -> impl ServiceFactory<
    TcpStream,
    Config = (),
    Response = Connected<TlsStream<TcpStream>>,
    Error = TlsError<io::Error, DispatchError>,
    InitError = (),
> {
    tls.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Acceptor::new(tls).map_err(TlsError::into_service_error).and_then(move |stream: TlsStream<TcpStream>| {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(PROTOCOLS[0]);
        let mut stream = Paced::new(stream, connections.list(is_http2));
        let stops = stops();
        async move {
            if !is_http2 {
                stream.wait_for_head(stops).await.map_err(|error| TlsError::Service(error.into()))?;
            }
            let (tcp, _) = stream.stream().get_ref();
            stream.listed().serve(tcp);
            let peer = tcp.peer_addr().ok();
            Ok((stream, if is_http2 { Protocol::Http2 } else { Protocol::Http1 }, peer))
        }
    })
}

/// All of HTTP on a stream.
fn http<S, F>(
    served: Served,
    stops: impl Fn() -> F + 'static,
) -> impl ServiceFactory<Connected<S>, Config = (), Response = (), Error = DispatchError, InitError = ()>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    F: Future<Output = ()> + 'static,
{
    let Served { app, description, deadline, budget, console } = served;
    let calls = actix_web::App::new()
        .app_data(app)
        .app_data(description)
        .app_data(deadline)
        .app_data(budget)
        .configure(|config| {
            if let Some(console) = console {
                console::configure(config, console);
            }
            endpoint::configure(config, routes::table());
        })
        .wrap(from_fn(middleware::surround));
    let calls = calls.into_factory().map_err(|error: actix_web::Error| error.error_response());
    HttpService::build()
        .graceful_shutdown_signal(stops)
        // A client that has gone is noticed while its request is at work, which then ends.
        .h1_allow_half_closed(false)
        .client_request_timeout(HEAD_DEADLINE)
        .client_disconnect_timeout(DISCONNECT_DEADLINE)
        .h2_initial_window_size(HTTP2_WINDOW_BYTES)
        .h2_initial_connection_window_size(HTTP2_WINDOW_BYTES)
        .on_connect_ext(|stream: &Paced<S>, data| {
            data.insert(Arc::clone(stream.listed()));
        })
        .finish(map_config(calls, |()| AppConfig::default()))
}
