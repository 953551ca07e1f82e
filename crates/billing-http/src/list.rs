//! Lists: bare arrays of at most 1,000 elements, and a `Link` header where they go on.

use std::future::{Ready, ready};

use actix_web::body::BoxBody;
use actix_web::dev::Payload;
use actix_web::http::header::{HeaderName, LINK};
use actix_web::{FromRequest, HttpRequest, HttpResponse, Responder, web};
use billing_domain::store::{Page, PageRequest};
use billing_domain::{Error, FieldCode, FieldError};
use serde::Serialize;

use crate::app::App;
use crate::error::ApiError;
use crate::query::Query;

/// The part of a list that a request asks for.
#[derive(Clone, Debug)]
pub struct Paging(pub PageRequest);

impl FromRequest for Paging {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Query::parse(request.query_string()).and_then(|mut query| {
            let (limit, after) = (query.optional::<u32>("limit"), query.optional::<String>("cursor"));
            let (limit, after) = query.finish(limit.zip(after))?;
            let limit = limit.unwrap_or(PageRequest::LIMIT_MAX);
            match limit {
                1..=PageRequest::LIMIT_MAX => Ok(Self(PageRequest { limit, after })),
                0 => Err(ApiError::field("limit", FieldCode::MinValue, "Ensure this value is at least 1.")),
                _ => {
                    let detail = format!("Ensure this value is at most {}.", PageRequest::LIMIT_MAX);
                    Err(ApiError::field("limit", FieldCode::MaxValue, detail))
                }
            }
        }))
    }
}

impl Paging {
    /// The part of a list that is at hand as a whole.
    ///
    /// # Errors
    /// A cursor that no answer gave.
    pub fn cut<T>(&self, items: Vec<T>) -> Result<Page<T>, Error> {
        let after = match &self.0.after {
            None => 0,
            Some(cursor) => cursor.parse::<usize>().map_err(|_| bad_cursor())?,
        };
        let end = after.saturating_add(self.0.limit as usize);
        let next = (end < items.len()).then(|| end.to_string());
        Ok(Page { items: items.into_iter().skip(after).take(self.0.limit as usize).collect(), next })
    }
}

fn bad_cursor() -> FieldError {
    FieldError::new("cursor", FieldCode::Invalid, "This cursor is not one that an answer gave.")
}

/// A page as an answer.
pub struct ListAnswer<T>(pub Page<T>);

impl<T: Serialize> Responder for ListAnswer<T> {
    type Body = BoxBody;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse {
        let mut response = HttpResponse::Ok();
        if let Some(link) = next_link(request, self.0.next.as_deref()) {
            response.insert_header(link);
        }
        response.json(&self.0.items)
    }
}

/// The header that says where a list goes on, if it does.
pub fn next_link(request: &HttpRequest, next: Option<&str>) -> Option<(HeaderName, String)> {
    let next = next?;
    let others = request.query_string().split('&');
    let mut query: Vec<&str> = others.filter(|pair| !pair.is_empty() && !pair.starts_with("cursor=")).collect();
    let cursor = format!("cursor={}", percent_encoded(next));
    query.push(&cursor);
    let (base, path) = (base_of(request), request.path());
    Some((LINK, format!("<{base}{path}?{}>; rel=\"next\"", query.join("&"))))
}

/// The address at which the client reached the service: its own scheme and host, or those that a proxy tells. Nothing where they
/// are no address; then a path alone is as good. A service with a certificate speaks nothing but HTTPS.
fn base_of(request: &HttpRequest) -> String {
    let reached = request.connection_info();
    let is_of_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    let serves_tls = request.app_data::<web::Data<App>>().is_some_and(|app| app.serves_tls);
    let (scheme, host) = (if serves_tls { "https" } else { reached.scheme() }, reached.host());
    if matches!(scheme, "http" | "https") && !host.is_empty() && host.chars().all(is_of_host) {
        format!("{scheme}://{host}")
    } else {
        String::new()
    }
}

fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Changes the elements of a page.
pub fn map_page<T, U>(page: Page<T>, view: impl FnMut(T) -> Result<U, Error>) -> Result<Page<U>, Error> {
    let next = page.next;
    Ok(Page { items: page.items.into_iter().map(view).collect::<Result<_, _>>()?, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_where_the_client_came_from() {
        #[rustfmt::skip]
        let cases = [
            // headers,                                                                    base,                      why
            (vec![("host", "127.0.0.1:8080")],                                             "http://127.0.0.1:8080",   "the service itself"),
            (vec![("host", "[::1]:8080")],                                                 "http://[::1]:8080",       "an address of the other kind"),
            (vec![("host", "inner"), ("x-forwarded-host", "billing.acme.io"), ("x-forwarded-proto", "https")],
                                                                                           "https://billing.acme.io", "a proxy tells its own"),
            (vec![("host", "inner"), ("forwarded", "host=billing.acme.io;proto=https")],   "https://billing.acme.io", "in the standard's words"),
            (vec![("host", "a>; rel=\"x\", <b")],                                          "",                        "no host"),
            (vec![("host", "a"), ("x-forwarded-proto", "javascript")],                     "",                        "no scheme of ours"),
        ];
        for (headers, base, why) in cases {
            let mut request = actix_web::test::TestRequest::get();
            for header in headers {
                request = request.insert_header(header);
            }
            assert_eq!(base_of(&request.to_http_request()), base, "{why}");
        }
    }

    #[test]
    fn a_list_at_hand_is_cut_into_pages() {
        let part = |limit, after: Option<&str>| {
            let paging = Paging(PageRequest { limit, after: after.map(str::to_owned) });
            paging.cut(vec![1, 2, 3]).map(|page| (page.items, page.next))
        };
        assert_eq!(part(2, None), Ok((vec![1, 2], Some("2".to_owned()))));
        assert_eq!(part(2, Some("2")), Ok((vec![3], None)));
        assert_eq!(part(3, None), Ok((vec![1, 2, 3], None)));
        assert_eq!(part(1, Some("9")), Ok((vec![], None)));
        assert!(part(1, Some("x")).is_err());
        assert_eq!(percent_encoded("a b/ü"), "a%20b%2F%C3%BC");
    }
}
