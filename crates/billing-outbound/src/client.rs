//! The client: resolves, checks, connects to what it has checked, and is done in time.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use rustls::crypto::aws_lc_rs;
use ureq::config::Config;
use ureq::http::header::RETRY_AFTER;
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Connector, DefaultConnector, NextTimeout};
use ureq::{Agent, Body, Error, RequestBuilder, Timeout};

use crate::address::refusal_of;
use crate::destination::{Destination, Reach};
use crate::session::{SESSION_CONNECTIONS_MAX, Session};
use crate::whole_requests::WholeRequests;

/// How long a call may take, from looking its name up to the last byte of its answer.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// Most that is read of an answer.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Most that is read of an answer's head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// What a connection has in memory in each direction, twice: a message and a head of an answer fit in.
const BUFFER_BYTES: usize = 32 * 1024;
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;

/// Finds the addresses of a name.
pub trait Lookup: Send + Sync {
    /// All of them.
    ///
    /// # Errors
    /// When there is no such name, or nobody who knows.
    fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The operating system's way.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok((host, port).to_socket_addrs()?.collect())
    }
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body, or the first [`ANSWER_BYTES_MAX`] bytes of it.
    pub body: Vec<u8>,
    /// Whether there was more.
    pub is_cut: bool,
    /// How long it asks to be left alone, where it says so.
    pub retry_after: Option<Duration>,
}

/// Why nothing came back. The texts are for people, and say nothing that only this machine may know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The name resolves to nothing that may be connected to.
    #[error("the host's address is not one of the public internet: {0}")]
    Refused(&'static str),
    /// The name resolves to nothing.
    #[error("the host was not found")]
    NotFound,
    /// It took too long.
    #[error("no answer in time")]
    TimedOut,
    /// The other side's certificate is not good for its name, or it speaks no TLS.
    #[error("no TLS with the host: {0}")]
    Tls(String),
    /// No connection, or it broke, or what came was not HTTP.
    #[error("no answer: {0}")]
    Broken(String),
}

/// Calls destinations that others have named. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    reach: Reach,
    lookup: Arc<dyn Lookup>,
    roots: RootCerts,
}

impl Client {
    /// One that trusts the authorities that Mozilla trusts, as of the list that is linked in: what a machine trusts besides is for its
    /// own calls, not for those to addresses that others have named.
    pub fn new(reach: Reach) -> Self {
        Self::trusting(reach, Arc::new(SystemLookup), RootCerts::WebPki)
    }

    /// One that looks names up in its own way, and trusts these certificates.
    pub fn with(reach: Reach, lookup: Arc<dyn Lookup>, roots: Vec<Certificate<'static>>) -> Self {
        Self::trusting(reach, lookup, RootCerts::Specific(Arc::new(roots)))
    }

    fn trusting(reach: Reach, lookup: Arc<dyn Lookup>, roots: RootCerts) -> Self {
        let guard = Guard { lookup: Arc::clone(&lookup), reach, found: None };
        // A connection that is kept was checked for another call.
        let agent = agent(reach, guard, roots.clone(), 0);
        Self { agent, reach, lookup, roots }
    }

    /// Its calls to one destination for a short while: see [`Session`].
    pub fn session(&self) -> Session {
        let guard = Guard { lookup: Arc::clone(&self.lookup), reach: self.reach, found: Some(Mutex::default()) };
        Session::new(agent(self.reach, guard, self.roots.clone(), SESSION_CONNECTIONS_MAX), self.clone())
    }

    /// How far its calls go.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Posts a body, and reads the answer, within `timeout` and never more than [`TIMEOUT`].
    ///
    /// # Errors
    /// When there is no answer. A status that is no success is one.
    pub fn post(
        &self,
        to: &Destination,
        headers: &[(&str, &str)],
        body: &[u8],
        timeout: Duration,
    ) -> Result<Answer, Failure> {
        post(&self.agent, to, (headers, body), timeout)
    }

    /// Gets what is there, within `timeout` and never more than [`TIMEOUT`].
    ///
    /// # Errors
    /// As [`Client::post`].
    pub fn get(&self, to: &Destination, headers: &[(&str, &str)], timeout: Duration) -> Result<Answer, Failure> {
        let mut request = self.agent.get(to.uri());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        answer(within(request, timeout).call().map_err(failure)?)
    }
}

/// An agent that keeps so many connections.
fn agent(reach: Reach, guard: Guard, roots: RootCerts, connections: usize) -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(roots)
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .build();
    let config = Config::builder()
        .tls_config(tls)
        .https_only(reach == Reach::Public)
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        // The answer to a redirect is the redirect: what it names was checked by nobody.
        .max_redirects(0)
        .max_redirects_will_error(false)
        // Not even that of the environment: it would resolve the name once more, and somewhere else.
        .proxy(None)
        .max_response_header_size(HEAD_BYTES_MAX)
        .input_buffer_size(BUFFER_BYTES)
        .output_buffer_size(BUFFER_BYTES)
        .max_idle_connections(connections)
        .max_idle_connections_per_host(connections)
        .user_agent(concat!("billing/", env!("CARGO_PKG_VERSION")))
        .build();
    Agent::with_parts(config, DefaultConnector::default().chain(WholeRequests), guard)
}

/// Posts a body through an agent, and reads the answer.
pub(crate) fn post(
    agent: &Agent,
    to: &Destination,
    (headers, body): (&[(&str, &str)], &[u8]),
    timeout: Duration,
) -> Result<Answer, Failure> {
    let mut request = agent.post(to.uri());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    answer(within(request, timeout).send(body).map_err(failure)?)
}

/// The request, to be answered within `timeout`, if that is less than [`TIMEOUT`], which every agent has: settings of its own are a copy of
/// all that there are.
fn within<Any>(request: RequestBuilder<Any>, timeout: Duration) -> RequestBuilder<Any> {
    if timeout < TIMEOUT { request.config().timeout_global(Some(timeout)).build() } else { request }
}

/// Reads an answer to its end, or to the most that is read.
fn answer(mut response: Response<Body>) -> Result<Answer, Failure> {
    let status = response.status().as_u16();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = retry_after.and_then(|value| wait_of(value.trim(), SystemTime::now()));
    let mut answer = Vec::new();
    let limit = u64::try_from(ANSWER_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let read = response.body_mut().as_reader().take(limit).read_to_end(&mut answer);
    read.map_err(|error| failure(Error::from(error)))?;
    let is_cut = answer.len() > ANSWER_BYTES_MAX;
    answer.truncate(ANSWER_BYTES_MAX);
    Ok(Answer { status, body: answer, is_cut, retry_after })
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// Looks a name up once for each call, or for all of a session, and hands on only what may be connected to: connections are made to
/// what was checked, and whatever the name resolves to a moment later is asked by nobody.
struct Guard {
    lookup: Arc<dyn Lookup>,
    reach: Reach,
    /// What names were found to be, where that is asked once.
    found: Option<Mutex<HashMap<(String, u16), Vec<SocketAddr>>>>,
}

impl Guard {
    fn addresses_of(&self, name: (String, u16), timeout: Duration) -> Result<Vec<SocketAddr>, Error> {
        if let Some(known) = self.found.as_ref().and_then(|found| lock(found).get(&name).cloned()) {
            return Ok(known);
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        let (lookup, (host, port)) = (Arc::clone(&self.lookup), name.clone());
        // The system's look-up cannot be given up; the one who waits for it can.
        thread::spawn(move || sender.send(lookup.lookup(&host, port)).unwrap_or_default());
        let found = receiver.recv_timeout(timeout).map_err(|_| Error::Timeout(Timeout::Resolve))?;
        let found = found.map_err(|_| Error::HostNotFound)?;
        if let Some(known) = &self.found {
            lock(known).insert(name, found.clone());
        }
        Ok(found)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Resolver for Guard {
    fn resolve(&self, uri: &Uri, _: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().ok_or(Error::HostNotFound)?;
        // Brackets belong to the URL, not to the address.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
        let found = self.addresses_of((host, port), *timeout.after)?;
        let mut allowed = self.empty();
        for address in found.iter().take(ADDRESSES_MAX) {
            match refusal_of(address.ip()) {
                // One that may not be connected to speaks against all of them: a name that means the public internet has none.
                Some(why) if self.reach == Reach::Public => return Err(Error::Other(Box::new(Failure::Refused(why)))),
                _ => allowed.push(*address),
            }
        }
        if allowed.is_empty() { Err(Error::HostNotFound) } else { Ok(allowed) }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("reach", &self.reach).finish_non_exhaustive()
    }
}

/// What a `Retry-After` asks for, in seconds or as a date, by a clock that shows `now`.
fn wait_of(text: &str, now: SystemTime) -> Option<Duration> {
    match text.parse() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok(),
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Other(inner) => match inner.downcast::<Failure>() {
            Ok(failure) => *failure,
            Err(other) => Failure::Broken(other.to_string()),
        },
        Error::HostNotFound => Failure::NotFound,
        Error::Timeout(_) => Failure::TimedOut,
        Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Failure::TimedOut,
        Error::Io(error) if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
            Failure::Tls(error.to_string())
        }
        Error::Tls(why) => Failure::Tls(why.to_owned()),
        Error::Rustls(error) => Failure::Tls(error.to_string()),
        other => Failure::Broken(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_asked_for_in_seconds_or_as_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        #[rustfmt::skip]
        let cases = [
            // text,                            seconds,    why
            ("120",                             Some(120),  "seconds"),
            ("Sun, 06 Nov 1994 08:50:37 GMT",   Some(60),   "a date"),
            ("Sun, 06 Nov 1994 08:49:36 GMT",   None,       "one that has passed"),
            ("-1",                              None,       "less than none"),
            ("soon",                            None,       "neither"),
        ];
        for (text, seconds, why) in cases {
            assert_eq!(wait_of(text, now), seconds.map(Duration::from_secs), "{why}");
        }
    }
}
