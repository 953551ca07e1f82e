//! Live tails over HTTP: events as they come in, as server-sent events, for as long as the session lasts that opened them.
//!
//! A stream is a task on the thread that serves its connection. It holds a place among those who watch and the session's key, and nothing
//! else: no connection to the database, no place at it, no thread. Whatever its client does not take is not kept.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::StatusCode;
use actix_web::http::header::HeaderName;
use actix_web::web::{self, Bytes};
use actix_web::{HttpRequest, HttpResponse, ResponseError};
use billing_console::page::live_events;
use billing_console::route::is_open_to;
use billing_console::{Fields, Method, ViewerZone, text};
use billing_domain::customer::CustomerId;
use billing_domain::id::MetricId;
use billing_domain::metric::{Metric, MetricType};
use billing_domain::store::EventWatch;
use serde_json::json;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{MissedTickBehavior, interval};

use super::session::{Session, Visitor};
use super::{Console, reply};
use crate::app::App;
use crate::connections::{AtWork, Listed};
use crate::event_tails::{SeenEvents, Watching};

/// Where the page is that shows what a stream brings: who may open it may have a stream.
const PAGE: &str = "/console/events/";
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// How often it is looked whether the session still is what it was; then a line is sent besides, so that proxies keep the stream open.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// Looks in a row that may come to nothing, because the database does not answer, before the stream ends.
const UNCLEAR_MAX: u32 = 3;
/// Parts that wait to be taken. A client with more is too slow, and its stream ends.
const WAITING_MAX: usize = 8;
/// Bytes that wait to be taken, unless one part alone has more.
const WAITING_BYTES_MAX: usize = 512 * 1024;

/// One stream.
struct Tail {
    app: web::Data<App>,
    session: Box<Session>,
    zone: ViewerZone,
    of_metric: bool,
    watching: Watching,
    /// The connection is one with a request at work, until the stream is over.
    _at_work: Option<AtWork>,
}

/// Why a stream ends while its client is there.
enum End {
    /// The session is over, or is not what it was.
    Session,
    /// The client is too slow, the service stops, or nothing can be found out.
    Other,
}

/// The parts of a stream on their way into a connection.
struct Parts {
    receiver: Receiver<Bytes>,
    /// Bytes that were not taken yet.
    waiting: Arc<AtomicUsize>,
}

/// The other end of [`Parts`].
struct Outlet {
    sender: Sender<Bytes>,
    waiting: Arc<AtomicUsize>,
}

fn parts() -> (Outlet, Parts) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let waiting = Arc::<AtomicUsize>::default();
    (Outlet { sender, waiting: Arc::clone(&waiting) }, Parts { receiver, waiting })
}

impl Outlet {
    /// Whether a part could be sent: not to a client that has gone, nor to one that takes nothing.
    fn send(&self, part: Bytes) -> bool {
        let (bytes, waiting) = (part.len(), self.waiting.load(Ordering::Relaxed));
        if waiting > 0 && waiting + bytes > WAITING_BYTES_MAX {
            return false;
        }
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
        self.sender.try_send(part).is_ok()
    }
}

impl MessageBody for Parts {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let next = self.receiver.poll_recv(context);
        if let Poll::Ready(Some(part)) = &next {
            self.waiting.fetch_sub(part.len(), Ordering::Relaxed);
        }
        next.map(|part| part.map(Ok))
    }
}

/// `GET /console/events/stream/?customer_id=&metric_id=`
pub async fn stream(request: HttpRequest, app: web::Data<App>, console: web::Data<Console>) -> HttpResponse {
    let site = request.headers().get(FETCH_SITE).map(|site| site.as_bytes());
    if site.is_some_and(|site| site != b"same-origin") {
        return reply::refused(StatusCode::FORBIDDEN, text::NOT_FROM_ELSEWHERE);
    }
    let session = match Visitor::of_open_page(&request, &app, &console).await {
        Visitor::Known(session) => session,
        Visitor::Nobody => return reply::refused(StatusCode::UNAUTHORIZED, text::TAIL_IS_OVER),
        Visitor::Unclear(error) => return error.error_response(),
    };
    session.note(&request);
    if !is_open_to(session.signed_in.membership.role, Method::Get, PAGE) {
        return reply::refused(StatusCode::FORBIDDEN, text::FORBIDDEN_TITLE);
    }
    let (watch, metric) = match wanted(&request, &app, &session).await {
        Ok(wanted) => wanted,
        Err(answer) => return answer,
    };
    let of_metric = metric.is_some();
    let Some(watching) = app.event_tails.watch(watch, metric) else {
        // A page that comes while the service stops tries again.
        return match app.is_draining() {
            true => reply::refused(StatusCode::SERVICE_UNAVAILABLE, text::TAIL_LOST),
            false => reply::refused(StatusCode::TOO_MANY_REQUESTS, text::TOO_MANY_TAILS),
        };
    };
    let at_work = request.conn_data::<Arc<Listed>>().map(AtWork::begin);
    let zone = session.viewer(&app).zone;
    let tail = Tail { app, session, zone, of_metric, watching, _at_work: at_work };
    let (outlet, parts) = parts();
    actix_web::rt::spawn(tail.run(outlet));
    reply::event_stream(parts)
}

/// What is to be watched: all events, or those of a customer or a metric.
async fn wanted(
    request: &HttpRequest,
    app: &App,
    session: &Session,
) -> Result<(EventWatch, Option<Metric>), HttpResponse> {
    let nothing = || reply::refused(StatusCode::NOT_FOUND, text::NOT_FOUND_TITLE);
    let query = Fields::parse(request.query_string());
    let customer = query.get("customer_id").map(str::parse::<CustomerId>).transpose().map_err(|_| nothing())?;
    let id = query.get("metric_id").map(str::parse::<MetricId>).transpose().map_err(|_| nothing())?;
    let metric = match id {
        None => None,
        Some(id) => {
            let read = app.read(&session.caller(), move |tx, _| tx.metrics().get(id)).await;
            Some(read.map_err(|error| error.error_response())?)
        }
    };
    // The query of such a one looks at the events of all names: of none can it be said by itself whether it counts.
    if metric.as_ref().is_some_and(|metric| metric.measure.metric_type() == MetricType::Custom) {
        return Err(nothing());
    }
    Ok((EventWatch { organization: session.signed_in.membership.organization, customer, metric: id }, metric))
}

impl Tail {
    /// Sends what comes in until its client has gone, or something else ends it.
    async fn run(mut self, outlet: Outlet) {
        if let End::Session = self.send_all(&outlet).await {
            // Whoever is too slow for this sees that it has ended.
            outlet.send(part(&json!({"over": true})));
        }
    }

    async fn send_all(&mut self, outlet: &Outlet) -> End {
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut unclear = 0;
        loop {
            let next = tokio::select! {
                () = outlet.sender.closed() => return End::Other,
                seen = self.watching.next() => match seen {
                    Some(seen) => self.shown(&seen),
                    None => return End::Other,
                },
                _ = looks.tick() => {
                    match self.is_as_it_was().await {
                        Some(true) => unclear = 0,
                        Some(false) => return End::Session,
                        None => unclear += 1,
                    }
                    if unclear > UNCLEAR_MAX {
                        return End::Other;
                    }
                    Bytes::from_static(b": still there\n\n")
                }
            };
            if !outlet.send(next) {
                return End::Other;
            }
        }
    }

    /// Whether the session lasts, and is its user's in the same organization and role; `None` when that cannot be found out.
    async fn is_as_it_was(&self) -> Option<bool> {
        let before = &self.session.signed_in;
        match Visitor::find(&self.app, self.session.key.clone(), false).await {
            Visitor::Known(now) => {
                let now = now.signed_in;
                let [now, before] =
                    [&now, before].map(|one| (one.session.user, one.membership.organization, one.membership.role));
                Some(now == before)
            }
            Visitor::Nobody => Some(false),
            Visitor::Unclear(_) => None,
        }
    }

    fn shown(&self, seen: &SeenEvents) -> Bytes {
        let rows = live_events::rows(&seen.rows, seen.more, self.of_metric, &self.zone);
        part(&json!({"rows": rows, "count": seen.rows.len() as u64 + seen.more}))
    }
}

/// A part of the stream: JSON has no line's end in it.
fn part(data: &serde_json::Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_is_bounded() {
        let (outlet, parts) = parts();
        assert!(outlet.send(Bytes::from(vec![b' '; 2 * WAITING_BYTES_MAX])), "one alone, however large");
        assert!(!outlet.send(Bytes::from_static(b"more")), "none behind it");
        let mut parts = std::pin::pin!(parts);
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(parts.as_mut().poll_next(&mut context).is_ready(), "it is taken");
        assert!((0..WAITING_MAX).all(|_| outlet.send(Bytes::from_static(b"more"))), "and so there is room");
        assert!(!outlet.send(Bytes::from_static(b"more")), "for so many");
    }
}
