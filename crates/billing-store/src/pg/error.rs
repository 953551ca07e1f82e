//! What a database error means: a refusal, a fault of the input, a reason to try again, or a bug.
//!
//! Diesel tells apart the SQLSTATEs that have a kind of their own. The others are told apart by the server's
//! message, which [`crate::pg::pool`] therefore asks for in English.

use billing_domain::{Error, FieldCode, FieldError, Refusal, StoreError};
use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind, Error as DieselError};

/// Why a transaction did not happen.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The work or a constraint said so; running it again would not help.
    Final(Error),
    /// Another transaction was in the way (SQLSTATE 40001 or 40P01): run the work again.
    Conflict(String),
    /// The connection is gone.
    Disconnected(String),
    /// A table or function is not where it was looked for, and nothing was done (SQLSTATE 42P01, 42883): its lane may be somewhere
    /// else, see [`crate::lanes::Lanes::with`].
    Missing(String),
}

impl Failure {
    /// Whether the database was not reached, or was lost.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        matches!(self, Self::Disconnected(_) | Self::Final(Error::Store(StoreError::Unavailable(_))))
    }

    /// The error for the caller, when nothing more is tried.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Final(error) => error,
            Self::Conflict(_) => StoreError::LockTimeout.into(),
            Self::Disconnected(message) => unreachable(message).into(),
            Self::Missing(message) => StoreError::Internal(message).into(),
        }
    }

    /// As [`Failure::into_error`], where only the store can be at fault.
    pub(crate) fn into_store_error(self) -> StoreError {
        match self.into_error() {
            Error::Store(error) => error,
            other => StoreError::Internal(other.to_string()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Final(error.into())
    }
}

/// Diesel's transactions want this conversion; the orphan rule keeps it from the domain's error.
impl From<DieselError> for Failure {
    fn from(error: DieselError) -> Self {
        match error {
            DieselError::DatabaseError(kind, information) => from_database(&kind, information.as_ref()),
            DieselError::RollbackErrorOnCommit { commit_error, .. } => Self::from(*commit_error),
            DieselError::BrokenTransactionManager => Self::Disconnected("the transaction was lost".to_owned()),
            other => StoreError::Internal(other.to_string()).into(),
        }
    }
}

/// Constraints that a caller can run into, with what they refuse; a trigger can raise one by its name. Every other unique or
/// exclusion constraint is on a key that this program makes up, so running into it is a bug; a test holds the two lists complete.
pub(crate) const REFUSALS: &[(&str, Refusal)] = &[
    ("api_keys_pkey", Refusal::DuplicateResource("An API key with this prefix exists.")),
    ("currencies_pkey", Refusal::DuplicateResource("A currency with this code exists.")),
    (
        "customer_emails_pkey",
        Refusal::DuplicateResource("A customer with this e-mail address exists: GET /api/customers/ lists them."),
    ),
    (
        "customers_pkey",
        Refusal::DuplicateResource(
            "A customer with this customer_id exists: GET /api/customers/{customer_id}/ shows it, PATCH changes it.",
        ),
    ),
    ("credit_note_lines_left", Refusal::CreditExceedsLine),
    ("features_name_key", Refusal::DuplicateResource("A feature with this name exists.")),
    ("metrics_name_key", Refusal::DuplicateResource("A metric with this name exists.")),
    ("organizations_pkey", Refusal::DuplicateResource("An organization with this id exists.")),
    ("payments_of_voided_invoice", Refusal::InvoiceVoided),
    (
        "payments_reference_excl",
        Refusal::DuplicateResource("The invoice has a payment of this method with this reference."),
    ),
    ("payments_reverses_key", Refusal::PaymentReversed),
    ("subscriptions_overlap_excl", Refusal::OverlappingPlans),
];

/// The beginnings of the messages that Diesel has no kind for: the server's for some SQLSTATEs, and the client library's where
/// it could not write to a connection and has not yet seen that the other end is closed.
const MESSAGES: &[(&str, Meaning)] = &[
    ("deadlock detected", Meaning::Conflict),                          // 40P01
    ("canceling statement due to lock timeout", Meaning::LockTimeout), // 55P03
    ("canceling statement due to statement timeout", Meaning::DeadlineExceeded), // 57014
    ("canceling statement due to user request", Meaning::DeadlineExceeded), // 57014
    ("terminating connection", Meaning::Disconnected),                 // 57P01, 57P02, 25P03
    ("the database system is", Meaning::Disconnected),                 // 57P03
    ("sorry, too many clients already", Meaning::Disconnected),        // 53300
    ("remaining connection slots are reserved", Meaning::Disconnected), // 53300
    ("could not extend file", Meaning::StorageFull),                   // 53100
    ("could not write", Meaning::StorageFull),                         // 53100; NO_ROOM has the others
    ("out of memory", Meaning::Disconnected),                          // 53200
    ("invalid byte sequence for encoding", Meaning::BadText),          // 22021
    ("unsupported Unicode escape sequence", Meaning::BadText),         // 22P05
    ("server closed the connection", Meaning::Disconnected),           // the client library's from here on
    ("could not send data to server", Meaning::Disconnected),
    ("could not receive data from server", Meaning::Disconnected),
    ("write to server failed", Meaning::Disconnected),
    ("no connection to the server", Meaning::Disconnected),
    ("connection not open", Meaning::Disconnected),
    ("lost synchronization with server", Meaning::Disconnected),
    ("SSL ", Meaning::Disconnected),
];

/// What the system says of a full disk, and of a user's share of it that is used up: it stands in the messages of whatever
/// Postgres was about to do, as it is about to die too.
const NO_ROOM: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

/// The error of a database that cannot be reached.
pub(crate) fn unreachable(message: String) -> StoreError {
    if NO_ROOM.iter().any(|text| message.contains(text)) {
        return StoreError::StorageFull(message);
    }
    StoreError::Unavailable(message)
}

#[derive(Clone, Copy)]
enum Meaning {
    Conflict,
    LockTimeout,
    DeadlineExceeded,
    Disconnected,
    StorageFull,
    BadText,
}

fn from_database(kind: &DatabaseErrorKind, information: &(dyn DatabaseErrorInformation + Send + Sync)) -> Failure {
    let message = information.message();
    match kind {
        DatabaseErrorKind::SerializationFailure => Failure::Conflict(message.to_owned()),
        DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => {
            Failure::Disconnected(message.to_owned())
        }
        DatabaseErrorKind::ReadOnlyTransaction => StoreError::ReadOnly.into(),
        DatabaseErrorKind::UniqueViolation
        | DatabaseErrorKind::ExclusionViolation
        | DatabaseErrorKind::CheckViolation => {
            let constraint = declared(information.constraint_name().unwrap_or_default());
            match REFUSALS.iter().find(|(name, _)| *name == constraint) {
                Some((_, refusal)) => Error::from(refusal.clone()).into(),
                None => StoreError::Internal(message.to_owned()).into(),
            }
        }
        DatabaseErrorKind::Unknown => from_message(message),
        _ => StoreError::Internal(message.to_owned()).into(),
    }
}

/// A constraint as a migration calls it: on a table that an engine keeps rows in there is a number behind.
fn declared(constraint: &str) -> &str {
    let name = constraint.trim_end_matches(|c: char| c.is_ascii_digit());
    name.strip_suffix('_').filter(|_| name.len() < constraint.len()).unwrap_or(constraint)
}

/// What is not found by its name, as the server says.
const NAMED: [&str; 2] = ["relation ", "function "];
/// What was there when it was looked up, and not when it was to be used: an engine has moved the lane in between, or what the service works with
/// there was made anew (XX000).
const GONE_SINCE: [&str; 3] =
    ["could not open relation with OID ", "cache lookup failed for relation ", "cache lookup failed for function "];

fn from_message(message: &str) -> Failure {
    let is_missing = NAMED.iter().any(|named| message.starts_with(named)) && message.ends_with(" does not exist");
    if is_missing || GONE_SINCE.iter().any(|gone| message.starts_with(gone)) {
        return Failure::Missing(message.to_owned());
    }
    if NO_ROOM.iter().any(|text| message.ends_with(text)) {
        return StoreError::StorageFull(message.to_owned()).into();
    }
    let found = MESSAGES.iter().find(|(beginning, _)| message.starts_with(beginning));
    match found.map(|(_, meaning)| *meaning) {
        Some(Meaning::Conflict) => Failure::Conflict(message.to_owned()),
        Some(Meaning::LockTimeout) => StoreError::LockTimeout.into(),
        Some(Meaning::DeadlineExceeded) => StoreError::DeadlineExceeded.into(),
        Some(Meaning::Disconnected) => Failure::Disconnected(message.to_owned()),
        Some(Meaning::StorageFull) => StoreError::StorageFull(message.to_owned()).into(),
        Some(Meaning::BadText) => {
            Error::from(FieldError::new("", FieldCode::Invalid, "The null character is not allowed.")).into()
        }
        None => StoreError::Internal(message.to_owned()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_is_known_wherever_its_table_is() {
        #[rustfmt::skip]
        let cases = [
            // constraint,                       declared,                       why
            ("customers_pkey",                   "customers_pkey",               "as a migration has it"),
            ("customers_pkey_102016",            "customers_pkey",               "on what an engine keeps its rows in"),
            ("subscriptions_overlap_excl_102031", "subscriptions_overlap_excl",  "an exclusion"),
            ("key2",                             "key2",                         "a number that is part of the name"),
        ];
        for (constraint, expected, why) in cases {
            assert_eq!(declared(constraint), expected, "{why}");
        }
    }

    #[test]
    fn a_full_disk_is_known_by_its_message() {
        #[rustfmt::skip]
        let cases = [
            // message,                                                                         full,  why
            ("could not extend file \"base/1/2\": No space left on device",                     true,  "a table"),
            ("could not extend file \"base/1/2\": wrote only 4096 of 8192 bytes at block 7",    true,  "the rest of a disk"),
            ("could not write to file \"pg_wal/xlogtemp.7\": No space left on device",          true,  "the log: the server's last words"),
            ("could not create file \"pg_wal/xlogtemp.7\": No space left on device",            true,  "not even an empty file"),
            ("could not access status of transaction 7: Disk quota exceeded",                   true,  "a share of the disk"),
            ("could not access status of transaction 7",                                        false, "a fault like any other"),
            ("column \"No space left on device\" does not exist",                               false, "words of somebody else's"),
        ];
        for (message, is_full, why) in cases {
            let found = from_message(message).into_store_error();
            assert_eq!(matches!(found, StoreError::StorageFull(_)), is_full, "{message}: {why}");
        }
        #[rustfmt::skip]
        let cases = [
            // message,                                                                         full,  why
            ("connection failed: FATAL:  could not write init file: No space left on device\n",  true,  "a server that lets nobody in"),
            ("connection failed: Connection refused",                                           false, "no server"),
        ];
        for (message, is_full, why) in cases {
            let found = unreachable(message.to_owned());
            assert_eq!(matches!(found, StoreError::StorageFull(_)), is_full, "{message}: {why}");
        }
    }

    #[test]
    fn a_lost_connection_is_known_by_its_message() {
        #[rustfmt::skip]
        let cases = [
            // message,                                                                    lost,  why
            ("server closed the connection unexpectedly\n\tThis probably means the server", true,  "the client library, after a write that failed"),
            ("terminating connection due to administrator command",                        true,  "the server's last words"),
            ("the database system is in recovery mode",                                    true,  "a server that comes back"),
            ("cache lookup failed for type 7",                                             false, "a fault like any other"),
        ];
        for (message, is_lost, why) in cases {
            assert_eq!(matches!(from_message(message), Failure::Disconnected(_)), is_lost, "{message}: {why}");
        }
    }

    #[test]
    fn what_is_not_there_is_known_by_its_message() {
        #[rustfmt::skip]
        let cases = [
            // message,                                                  missing, why
            ("relation \"customers\" does not exist",                    true,  "a lane's table"),
            ("function create_events_partition(date) does not exist",    true,  "a lane's function"),
            ("could not open relation with OID 102016",                  true,  "what a view shows, of a lane that was moved just now"),
            ("cache lookup failed for relation 102016",                  true,  "the same, a moment later"),
            ("cache lookup failed for function 102017",                  true,  "what a transaction begins by, where a lane has come back"),
            ("cache lookup failed for type 7",                           false, "a fault like any other"),
            ("column \"customers\" does not exist",                      false, "a fault of the statement"),
            ("relation \"customers\" already exists",                    false, "the opposite"),
        ];
        for (message, is_missing, why) in cases {
            assert_eq!(matches!(from_message(message), Failure::Missing(_)), is_missing, "{message}: {why}");
        }
    }
}
