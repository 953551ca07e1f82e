//! Addresses as others name them.

use std::fmt;
use std::net::IpAddr;

use ureq::http::Uri;

use crate::address::refusal_of;

/// Longest address that is taken, in characters.
pub const DESTINATION_CHARACTERS_MAX: usize = 2_048;

/// How far calls may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Over HTTPS to public addresses: what holds unless an operator says otherwise.
    Public,
    /// Also over plain HTTP, and to addresses of this machine and its neighbours: for trying things out, and for those whose customers
    /// are all their own.
    Anywhere,
}

/// A URL that may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination(Uri);

/// Why a text is not a URL that may be called; a sentence for whoever wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDestination {
    /// It cannot be read as one.
    #[error("This is not a URL like https://example.com/path.")]
    Unreadable,
    /// It is longer than [`DESTINATION_CHARACTERS_MAX`].
    #[error("The URL is longer than 2048 characters.")]
    TooLong,
    /// It is not `https`.
    #[error("The URL must begin with https://.")]
    NotHttps,
    /// There is a user or a password in it, which would be shown wherever the URL is.
    #[error("The URL must have no user and no password in it: calls are signed instead.")]
    WithCredentials,
    /// It names an address, and not one of the public internet.
    #[error("The address in the URL is not one of the public internet: {0}.")]
    NotPublic(&'static str),
}

impl Destination {
    /// The destination that a text names. What its host resolves to is looked at when it is called, each time anew.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, reach: Reach) -> Result<Self, BadDestination> {
        if text.len() > DESTINATION_CHARACTERS_MAX {
            return Err(BadDestination::TooLong);
        }
        let uri: Uri = text.parse().map_err(|_| BadDestination::Unreadable)?;
        match (uri.scheme_str(), reach) {
            (Some("https"), _) | (Some("http"), Reach::Anywhere) => {}
            (Some("http"), Reach::Public) => return Err(BadDestination::NotHttps),
            _ => return Err(BadDestination::Unreadable),
        }
        let authority = uri.authority().ok_or(BadDestination::Unreadable)?;
        if authority.as_str().contains('@') {
            return Err(BadDestination::WithCredentials);
        }
        let host = authority.host();
        // What follows a colon and is no port is not read as one by everybody.
        let has_odd_port = authority.as_str().len() > host.len() && authority.port_u16().is_none_or(|port| port == 0);
        if host.is_empty() || has_odd_port {
            return Err(BadDestination::Unreadable);
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse();
        match literal.ok().and_then(refusal_of) {
            Some(why) if reach == Reach::Public => Err(BadDestination::NotPublic(why)),
            _ => Ok(Self(uri)),
        }
    }

    /// The URL.
    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }

    /// Whether it is called over HTTPS.
    pub fn is_encrypted(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// Whether it names this machine.
    pub fn is_local(&self) -> bool {
        let host = self.host().trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Its host, for logs: what comes behind it may be a secret.
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default()
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_called_is_told_from_what_may_not() {
        use BadDestination::{NotHttps, NotPublic, Unreadable, WithCredentials};
        #[rustfmt::skip]
        let cases = [
            // text,                              to the public,              anywhere,              why
            ("https://example.com/hook?a=b",      Ok(()),                     Ok(()),                "as it should be"),
            ("https://example.com:8443",          Ok(()),                     Ok(()),                "any port"),
            ("https://1.1.1.1/",                  Ok(()),                     Ok(()),                "a public address"),
            ("https://[2606:4700::1111]/",        Ok(()),                     Ok(()),                "a public one of IPv6"),
            ("http://example.com/",               Err(NotHttps),              Ok(()),                "anybody on the way could read it"),
            ("https://127.0.0.1/",                Err(NotPublic("loopback")), Ok(()),                "this machine"),
            ("https://[::1]:8080/",               Err(NotPublic("loopback")), Ok(()),                "this machine"),
            ("https://10.1.2.3/",                 Err(NotPublic("private")),  Ok(()),                "a neighbour"),
            ("https://user:secret@example.com/",  Err(WithCredentials),       Err(WithCredentials),  "a password"),
            ("https://user@example.com/",         Err(WithCredentials),       Err(WithCredentials),  "a user"),
            ("ftp://example.com/",                Err(Unreadable),            Err(Unreadable),       "not HTTP"),
            ("file:///etc/passwd",                Err(Unreadable),            Err(Unreadable),       "not even a host"),
            ("/hook",                             Err(Unreadable),            Err(Unreadable),       "a path alone"),
            ("example.com",                       Err(Unreadable),            Err(Unreadable),       "a name alone"),
            ("https://example.com:0/",            Err(Unreadable),            Err(Unreadable),       "no port"),
            ("https://example.com:99999/",        Err(Unreadable),            Err(Unreadable),       "no port"),
            ("https://exam ple.com/",             Err(Unreadable),            Err(Unreadable),       "a space"),
            ("https://example.com/\r\nHost: a",   Err(Unreadable),            Err(Unreadable),       "a header in disguise"),
            ("",                                  Err(Unreadable),            Err(Unreadable),       "nothing"),
        ];
        for (text, public, anywhere, why) in cases {
            assert_eq!(Destination::parse(text, Reach::Public).map(drop), public, "{text:?}: {why}");
            assert_eq!(Destination::parse(text, Reach::Anywhere).map(drop), anywhere, "{text:?}: {why}");
        }
        #[rustfmt::skip]
        let cases = [
            // text,                       encrypted, local, why
            ("https://example.com/",       true,      false, "somebody's"),
            ("http://127.0.0.1:9/",        false,     true,  "this machine"),
            ("http://[::1]:9/",            false,     true,  "this machine"),
            ("https://localhost/",         true,      true,  "by name"),
            ("http://10.0.0.1/",           false,     false, "a neighbour's"),
            ("http://localhost.example/",  false,     false, "a name that begins like it"),
        ];
        for (text, encrypted, local, why) in cases {
            let destination = Destination::parse(text, Reach::Anywhere).expect(why);
            assert_eq!((destination.is_encrypted(), destination.is_local()), (encrypted, local), "{text}: {why}");
        }
        let long = format!("https://example.com/{}", "a".repeat(DESTINATION_CHARACTERS_MAX));
        assert_eq!(Destination::parse(&long, Reach::Anywhere), Err(BadDestination::TooLong));
    }
}
