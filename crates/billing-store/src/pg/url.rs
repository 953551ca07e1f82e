//! The URL of a database, and connections by it that wait for nobody for ever.

use std::borrow::Cow;

use billing_domain::StoreError;
use diesel::prelude::*;

use super::error::unreachable;

/// How long a server is waited for that says nothing, in parameters of the client library: without them a machine that has gone without a
/// word, or a network that lets nothing through, is waited for a quarter of an hour.
const TIMEOUTS: [(&str, &str); 5] = [
    // Seconds until a server has let somebody in.
    ("connect_timeout", "5"),
    // Seconds of silence before the other side's machine is asked whether it is there, seconds between the questions, and how many.
    ("keepalives_idle", "5"),
    ("keepalives_interval", "2"),
    ("keepalives_count", "2"),
    // Milliseconds in which it has to take what is sent.
    ("tcp_user_timeout", "8000"),
];

/// A URL, or a list of parameters, with more of them. Of one that is given twice the client library takes the last. No value may have a
/// character in it that would have to be quoted.
pub(crate) fn with_parameters<'p>(url: &str, parameters: impl IntoIterator<Item = (&'p str, Cow<'p, str>)>) -> String {
    let is_uri = ["postgresql://", "postgres://"].iter().any(|scheme| url.starts_with(scheme));
    let mut url = url.to_owned();
    for (name, value) in parameters {
        let before = match url.contains('?') {
            _ if !is_uri => " ",
            false => "?",
            // Where none is behind it yet.
            true if url.ends_with(['?', '&']) => "",
            true => "&",
        };
        let quote = if is_uri { "" } else { "'" };
        url.push_str(&format!("{before}{name}={quote}{value}{quote}"));
    }
    url
}

/// A URL with the timeouts that it does not say itself, for connections that are made elsewhere: how long the client library waits for a
/// server that says nothing.
pub fn with_timeouts(url: &str) -> String {
    let is_said = |name: &str| url.contains(&format!("{name}=")) || url.contains(&format!("{name} ="));
    let missing = TIMEOUTS.into_iter().filter(|(name, _)| !is_said(name));
    with_parameters(url, missing.map(|(name, value)| (name, value.into())))
}

/// Connects to the database at `url`.
///
/// # Errors
/// [`StoreError::Unavailable`], or that there is no room for one more.
pub(crate) fn connect(url: &str) -> Result<PgConnection, StoreError> {
    PgConnection::establish(&with_timeouts(url)).map_err(|error| unreachable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_said_that_the_url_does_not_say() {
        let rest = "keepalives_idle=5&keepalives_interval=2&keepalives_count=2&tcp_user_timeout=8000";
        let listed = "keepalives_idle='5' keepalives_interval='2' keepalives_count='2' tcp_user_timeout='8000'";
        #[rustfmt::skip]
        let cases = [
            // url,                                   with timeouts,                                                      why
            ("postgresql://u@a/b",                    format!("postgresql://u@a/b?connect_timeout=5&{rest}"),             "none is said"),
            ("postgres:///b?host=/run",               format!("postgres:///b?host=/run&connect_timeout=5&{rest}"),        "behind others"),
            ("postgresql://u@a/b?",                   format!("postgresql://u@a/b?connect_timeout=5&{rest}"),             "none behind the mark"),
            ("postgres://a/b?connect_timeout=30",     format!("postgres://a/b?connect_timeout=30&{rest}"),                "one is said"),
            ("host=a user=u",                         format!("host=a user=u connect_timeout='5' {listed}"),              "a list of parameters"),
            ("host=a connect_timeout = 30",           format!("host=a connect_timeout = 30 {listed}"),                    "as lists may have it"),
        ];
        for (url, expected, why) in cases {
            assert_eq!(with_timeouts(url), expected, "{why}");
        }
    }
}
