//! Where the connections of a lane go, and that they come out at the catalogue they belong to.

use std::borrow::Cow;
use std::fmt;

use billing_domain::StoreError;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Oid, Text};

use super::error::Failure;
use super::statement::statement;
use super::url::with_parameters;

/// A server and a database of it. What is not said is the catalogue's; who connects and how is never said here, but in the URL of the
/// catalogue's database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Queryable)]
pub(crate) struct Place {
    host: Option<String>,
    port: Option<i32>,
    database: Option<String>,
}

impl Place {
    /// Whether all of it is the catalogue's.
    pub(crate) fn is_home(&self) -> bool {
        *self == Self::default()
    }

    /// A server's port and a database there.
    pub(crate) fn of(host: &str, port: i32, database: &str) -> Self {
        Self { host: Some(host.to_owned()), port: Some(port), database: Some(database.to_owned()) }
    }

    /// The same server, and another database there.
    #[cfg(feature = "testing")]
    pub(crate) fn of_database(self, database: &str) -> Self {
        Self { database: Some(database.to_owned()), ..self }
    }

    /// The URL that leads there, of one that leads to the catalogue.
    ///
    /// The directory lets no character through that a URL or a list of parameters would have to quote.
    pub(crate) fn url(&self, catalogue: &str) -> String {
        with_parameters(catalogue, self.parameters())
    }

    fn parameters(&self) -> Vec<(&'static str, Cow<'_, str>)> {
        let mut parameters = Vec::new();
        if let Some(host) = &self.host {
            // A numeric address would be taken before any name.
            parameters.extend([("host", host.into()), ("hostaddr", "".into())]);
        }
        parameters.extend(self.port.map(|port| ("port", port.to_string().into())));
        parameters.extend(self.database.as_ref().map(|database| ("dbname", database.into())));
        parameters
    }
}

impl fmt::Display for Place {
    /// `host:port/database`, without what is the catalogue's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_home() {
            return write!(f, "-");
        }
        write!(f, "{}", self.host.as_deref().unwrap_or_default())?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))?;
        self.database.as_ref().map_or(Ok(()), |database| write!(f, "/{database}"))
    }
}

/// A database, whatever name and address lead to it: that of its server, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) server: i64,
    pub(crate) database: u32,
}

statement! {
    /// Which database this is.
    ReadIdentity -> (BigInt, Oid) {
        "SELECT control.system_identifier, pg_database.oid FROM pg_control_system() control, pg_database
        WHERE pg_database.datname = current_database()"
    }
}

impl Identity {
    pub(crate) fn read(pg: &mut PgConnection) -> QueryResult<Self> {
        let (server, database) = (ReadIdentity {}).get_result(pg)?;
        Ok(Self { server, database })
    }

    /// Refuses a connection to any other database: what a customer's transaction writes there would be what nobody else sees.
    pub(crate) fn expect(self, pg: &mut PgConnection) -> Result<(), Failure> {
        if Self::read(pg)? == self {
            return Ok(());
        }
        let message = "the address of a lane leads to another database than it should";
        Err(StoreError::Internal(message.to_owned()).into())
    }
}

statement! {
    /// The number of the transaction; null: it has written nothing.
    ReadNumber -> Nullable<Text> { "SELECT pg_current_xact_id_if_assigned()::text" }
}

statement! {
    /// What became of a transaction.
    ReadOutcome -> Nullable<Text> { "SELECT pg_xact_status(" number: String as Text; "::xid8)" }
}

/// A transaction that has written and is about to end.
pub(crate) struct Ending(Option<String>);

impl Ending {
    /// Has everything checked that would be checked by the commit, while a refusal is still an error of a statement, and learns
    /// which transaction it is.
    pub(crate) fn begin(pg: &mut PgConnection) -> QueryResult<Self> {
        diesel::connection::SimpleConnection::batch_execute(pg, "SET CONSTRAINTS ALL IMMEDIATE")?;
        Ok(Self((ReadNumber {}).get_result(pg)?))
    }

    /// Refuses to take the word of whoever stands in between for the commit: the connection's own server must know of it.
    pub(crate) fn expect_committed(self, pg: &mut PgConnection) -> Result<(), Failure> {
        let Some(number) = self.0 else { return Ok(()) };
        match (ReadOutcome { number }).get_result::<Option<String>>(pg)?.as_deref() {
            Some("committed") => Ok(()),
            Some("aborted") => {
                let message = "a commit was answered, but the server has taken the transaction back";
                Err(StoreError::Unavailable(message.to_owned()).into())
            }
            // The connection came to another server meanwhile: nobody knows.
            _ => Err(Failure::Disconnected("a commit was answered by somebody who does not know of it".to_owned())),
        }
    }
}

/// Has a connection look in a schema first, and then in the catalogue's.
pub(crate) fn search_path(schema: &str) -> String {
    format!("SET search_path = {schema}, public")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: Option<&str>, port: Option<i32>, database: Option<&str>) -> Place {
        Place { host: host.map(str::to_owned), port, database: database.map(str::to_owned) }
    }

    #[test]
    fn an_address_leaves_user_and_settings_as_they_are() {
        let (uri, bare, list) =
            ("postgres://u:p%3F@a/b?connect_timeout=3", "postgresql:///b", "host=a hostaddr=::1 user=u");
        #[rustfmt::skip]
        let cases = [
            // catalogue, place,                                   url,                                                              shown,        why
            (uri,  place(None, None, None),                    uri.to_owned(),                                               "-",          "the catalogue's own"),
            (uri,  place(Some("c"), Some(6), None),            format!("{uri}&host=c&hostaddr=&port=6"),                     "c:6",        "another server"),
            (bare, place(Some("/run/pg"), Some(6), Some("d")), format!("{bare}?host=/run/pg&hostaddr=&port=6&dbname=d"),     "/run/pg:6/d", "a socket"),
            (bare, place(None, None, Some("d")),               format!("{bare}?dbname=d"),                                   "/d",         "a pooler's name for it"),
            (list, place(Some("::2"), Some(6), None),          format!("{list} host='::2' hostaddr='' port='6'"),            "::2:6",      "a list of parameters"),
        ];
        for (catalogue, place, url, shown, why) in cases {
            assert_eq!(place.url(catalogue), url, "{why}");
            assert_eq!(place.to_string(), shown, "{why}");
        }
    }
}
