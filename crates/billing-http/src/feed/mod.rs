//! The feed: the messages of an organization in one order, for whoever would rather ask than be called.

mod cursor;
mod of_customer;

use std::pin::pin;
use std::time::{Duration, Instant};

use actix_web::web;
use billing_domain::message::MessageType;
use billing_domain::store::{FeedPage, FeedRequest, PageRequest, Transaction};
use billing_domain::{Error, FieldCode, FieldError};

use crate::app::App;
use crate::caller::Bearer;
use crate::endpoint::{Endpoint, Parameter, get};
use crate::error::{ApiError, codes};
use crate::message::{MessageView, views};
use crate::query::{ApiQuery, FromQuery, Query};
use crate::wire::view;
use cursor::Cursor;

/// Messages in an answer when nobody says how many.
const LIMIT_USUAL: u32 = 100;
/// Longest wait, in seconds.
const WAIT_SECONDS_MAX: u32 = 30;

const PARAMETERS: &[Parameter] = &[
    Parameter::optional(
        "after",
        "Where the feed goes on: `next` of an answer. From the first message that is kept when missing.",
    ),
    Parameter::list("types", "Keeps messages of these types; all when missing."),
    Parameter::optional("limit", "At most so many, 100 when missing and never more than 1,000."),
    Parameter::optional(
        "wait",
        "While there is no message, waits for one for at most so many seconds, up to 30; 0 when missing.",
    ),
];

/// The calls about the feed.
pub fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/api/feed/", "List what became true, in one order", list)
            .for_bearers()
            .parameters(PARAMETERS)
            .answers::<FeedView>(200),
        of_customer::endpoint(),
    ]
}

view! {
    /// A part of the feed.
    FeedView {
        /// The messages, in the order of the feed.
        results: Vec<MessageView>,
        /// Where the feed goes on: to be asked for as `after`, also when there was nothing.
        next: String,
    }
}

/// Which part of the feed is wanted, and how long that may be waited for.
struct FeedQuery {
    wanted: Wanted,
    wait: Duration,
}

/// Which part of the feed is wanted, and behind which cursor, if one was given.
#[derive(Clone)]
struct Wanted {
    after: Option<Cursor>,
    types: Vec<MessageType>,
    limit: u32,
}

impl FromQuery for FeedQuery {
    fn from_query(mut query: Query) -> Result<Self, ApiError> {
        let (after, types) = (query.optional::<Cursor>("after"), query.list::<MessageType>("types"));
        let (limit, wait) = (query.optional::<u32>("limit"), query.optional::<u32>("wait"));
        let read = match (after, types, limit, wait) {
            (Some(after), Some(types), Some(limit), Some(wait)) => Some((after, types, limit, wait)),
            _ => None,
        };
        let (after, types, limit, wait) = query.finish(read)?;
        let limit = within("limit", limit.unwrap_or(LIMIT_USUAL), (1, PageRequest::LIMIT_MAX))?;
        let wait = within("wait", wait.unwrap_or(0), (0, WAIT_SECONDS_MAX))?;
        Ok(Self { wanted: Wanted { after, types, limit }, wait: Duration::from_secs(wait.into()) })
    }
}

fn within(attr: &str, value: u32, (least, most): (u32, u32)) -> Result<u32, ApiError> {
    if value < least {
        Err(ApiError::field(attr, FieldCode::MinValue, format!("Ensure this value is at least {least}.")))
    } else if value > most {
        Err(ApiError::field(attr, FieldCode::MaxValue, format!("Ensure this value is at most {most}.")))
    } else {
        Ok(value)
    }
}

/// `GET /api/feed/`
///
/// While it waits it holds no connection and no place; the deadline of requests is that of each look.
async fn list(
    app: web::Data<App>,
    bearer: Bearer,
    ApiQuery(query): ApiQuery<FeedQuery>,
) -> Result<web::Json<FeedView>, ApiError> {
    let until = Instant::now() + query.wait;
    if query.wait.is_zero() {
        return read(&app, &bearer, &query.wanted).await.map(|(page, _)| web::Json(page));
    }
    let waiting = app.feed_signals.wait(bearer.organization());
    let waiting = waiting.ok_or_else(|| ApiError::plain(&codes::TOO_MANY_IN_FLIGHT))?;
    let mut wanted = query.wanted;
    loop {
        let mut rung = pin!(waiting.bell().notified());
        // From here on no bell is missed.
        rung.as_mut().enable();
        let (page, reached) = read(&app, &bearer, &wanted).await?;
        let left = until.saturating_duration_since(Instant::now());
        if !page.results.is_empty() || left.is_zero() || app.is_draining() {
            return Ok(web::Json(page));
        }
        // What was not wanted need not be passed over again; and while it is passed over, the end may not have come yet.
        let is_at_end = wanted.after == Some(reached);
        wanted.after = Some(reached);
        if is_at_end {
            tokio::time::timeout(left, rung).await.unwrap_or_default();
        }
    }
}

async fn read(app: &App, bearer: &Bearer, wanted: &Wanted) -> Result<(FeedView, Cursor), ApiError> {
    let wanted = wanted.clone();
    app.read(bearer, move |tx, _| page(tx, &wanted)).await
}

/// A part of the feed, and how far it reaches.
fn page(tx: &mut dyn Transaction, wanted: &Wanted) -> Result<(FeedView, Cursor), Error> {
    let after = wanted.after.map(Cursor::position);
    let request = FeedRequest { after: after.unwrap_or(0), types: wanted.types.clone(), limit: wanted.limit };
    let page = tx.messages().list(&request)?;
    if let Some(detail) = after.and_then(|after| fault(after, &page)) {
        return Err(FieldError::new("after", FieldCode::Invalid, detail).into());
    }
    let messages = page.messages.into_iter().map(|(_, message)| message).collect();
    let reached = Cursor::at(page.reached);
    Ok((FeedView { results: views(tx, messages)?, next: reached.to_string() }, reached))
}

/// Why whoever goes on behind a position would miss something.
fn fault(after: u64, page: &FeedPage) -> Option<&'static str> {
    if after + 1 < page.first_kept {
        Some(
            "What stood behind this cursor was dropped because of its age. Without a cursor the feed begins with what is kept.",
        )
    } else if page.reached < after {
        Some(
            "This cursor is beyond the end of the feed: the database was restored from a backup made before it was given. \
             Without a cursor the feed begins with what is kept.",
        )
    } else {
        None
    }
}
