//! How a server serves: where, with which keys and limits.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use billing_outbound::Reach;

use crate::caller::Pepper;
use crate::client_address::Network;
use crate::first_link::FirstLink;
use crate::openid::OpenIdSettings;

/// Most open connections of one worker.
pub const CONNECTIONS_MAX: usize = 2_000;

/// Tells whether the disk of the database is full.
pub type DiskCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// Most connections that can be open at once.
pub fn places() -> usize {
    CONNECTIONS_MAX * workers()
}

/// Threads that serve connections.
pub fn workers() -> usize {
    thread::available_parallelism().map_or(2, NonZeroUsize::get)
}

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
    /// How long a connection may wait for the head of a request, from its beginning or from the last answer on.
    pub idle_deadline: Duration,
    /// How long the work of a request may take once it has its place.
    pub request_deadline: Duration,
    /// The certificate to serve TLS with; plain HTTP when missing.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// How far calls to addresses go that organizations have named.
    pub reach: Reach,
    /// How long messages are kept, in days.
    pub feed_days: u32,
    /// Whether there are pages for people.
    pub has_console: bool,
    /// The proxies that are believed about where a request comes from.
    pub trusted_proxies: Vec<Network>,
    /// The provider that people may sign in with, beside their passwords.
    pub openid: Option<OpenIdSettings>,
    /// What makes the first user, where there is none.
    pub first_link: Option<Arc<FirstLink>>,
    /// Whether the disk of the database is full, where that can be told from here.
    pub is_disk_full: Option<DiskCheck>,
}

/// How long messages are kept when nobody says, in days.
pub const FEED_DAYS_USUAL: u32 = 90;

impl ServerSettings {
    /// The usual settings.
    pub fn new(addr: SocketAddr, pepper: Pepper, connections: usize) -> Self {
        let (notice, body_deadline) = (Duration::from_secs(1), Duration::from_secs(10));
        // Five seconds for an idle connection, which the server has for them, and five for the head.
        let idle_deadline = Duration::from_secs(10);
        let request_deadline = Duration::from_secs(10);
        Self {
            addr,
            pepper,
            connections,
            notice,
            body_deadline,
            idle_deadline,
            request_deadline,
            tls: None,
            reach: Reach::Public,
            feed_days: FEED_DAYS_USUAL,
            has_console: true,
            trusted_proxies: Vec::new(),
            openid: None,
            first_link: None,
            is_disk_full: None,
        }
    }
}
