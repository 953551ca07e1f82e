#![forbid(unsafe_code)]
//! The auditor: checks the books of a billing database, read only, and reports what does not add up.
//!
//! It stands on nothing of the service: no type, no statement and no rule of the other crates. Each check is one
//! file of plain SQL in `checks/`, named after what it promises, that selects every breach as a subject and a
//! problem. Prices are computed again in SQL, naively: a mistake of the engine cannot hide in both.

use std::fmt;

use diesel::connection::SimpleConnection;
use diesel::sql_types::Text;
use diesel::{Connection, ConnectionError, PgConnection, RunQueryDsl, sql_query};
// Not named anywhere else: it brings the client library that Diesel links.
use pq_sys as _;

/// Most breaches of one check in a report; more are counted as one.
pub const BREACHES_MAX: usize = 100;

/// One promise, and the SQL that finds its breaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is promised, in snake_case: the name of the file.
    pub name: &'static str,
    /// Selects `subject` and `problem` of each breach.
    pub sql: &'static str,
}

macro_rules! checks {
    ($($name:literal,)*) => {
        &[$(Check { name: $name, sql: include_str!(concat!("../checks/", $name, ".sql")) },)*]
    };
}

/// Every check, in the order of the report: money, credits, subscriptions, usage, structure.
pub const CHECKS: &[Check] = checks![
    "invoice_is_the_sum_of_its_lines",
    "line_is_base_and_adjustments",
    "line_is_whole_minor_units",
    "invoice_is_in_one_currency",
    "invoice_numbers_have_no_gap",
    "invoice_number_is_of_its_day",
    "fees_are_priced_right",
    "usage_is_priced_right",
    "record_gave_what_its_lines_show",
    "record_gave_what_is_exact_rounded",
    "reissues_name_each_other",
    "one_off_lines_are_billed_once",
    "nothing_comes_back_unpaid",
    "subscription_settled_what_its_lines_show",
    "invoice_is_paid_by_its_payments",
    "credit_notes_take_what_their_lines_charged",
    "credit_note_numbers_have_no_gap",
    "credit_notes_are_settled",
    "waived_is_remembered",
    "credit_is_its_ledger",
    "credit_is_drawn_in_its_time_and_currency",
    "drawdowns_are_on_their_invoice",
    "granted_credit_exists",
    "subscriptions_do_not_overlap",
    "renewals_follow_without_a_gap",
    "switches_have_a_successor",
    "records_tile_their_time",
    "intervals_follow_the_calendar",
    "quantities_add_up",
    "usage_is_what_events_say",
    "corrections_belong_to_events",
    "rollups_are_their_events",
    "event_ids_are_unique",
    "event_months_have_their_indexes",
    "billing_is_queued",
    "facts_are_told",
    "feeds_have_no_gap",
    "usage_alerts_are_told_once",
    "feeds_show_what_is_told",
    "everything_is_its_customers",
];

/// Something that does not add up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The check that found it.
    pub check: &'static str,
    /// The invoice, credit, subscription, record or customer it is about.
    pub subject: String,
    /// What is wrong, with the figures.
    pub problem: String,
}

/// Something that somebody should know and that breaks no promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What it is about.
    pub about: &'static str,
    /// The customer it is about.
    pub subject: String,
    /// What there is to know.
    pub text: String,
}

/// Customers whose billing failed too often: they are not billed until somebody has looked at them.
const PARKED_CUSTOMERS: &str = include_str!("../notes/parked_customers.sql");

/// Finds a table that every version of the service has.
const TABLES: &str = "SELECT 'organizations' AS subject, '' AS problem WHERE to_regclass('organizations') IS NOT NULL";

/// What customers of several lanes own, each table with what makes one of all lanes' tables of that name. Nothing where all of
/// it is in one place anyway.
const OVER_LANES: &str = "
    SELECT relation.relname::text AS subject,
        (SELECT string_agg(format('SELECT * FROM %I.%I', lane.schema_name, relation.relname), ' UNION ALL ' ORDER BY lane.number) FROM lanes lane) AS problem
    FROM pg_class relation
    WHERE relation.relnamespace = (SELECT schema_name::regnamespace FROM lanes WHERE number = 0)
        AND (SELECT count(*) FROM lanes) > 1
        AND relation.relkind IN ('r', 'p', 'v') AND NOT relation.relispartition AND relation.relname !~ '^__diesel'
    ORDER BY relation.relname";

/// Lanes that are not in this database: what is in them cannot be audited from here.
const ON_NODES: &str = "SELECT schema_name AS subject, to_jsonb(lanes) ->> 'node_name' AS problem FROM lanes WHERE to_jsonb(lanes) ->> 'node_name' IS NOT NULL ORDER BY number";

/// What an audit has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What should be known besides; no failure.
    pub notes: Vec<Note>,
    /// Every breach, by check; none: the books are right.
    pub breaches: Vec<Breach>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.breaches.is_empty()
    }

    /// The checks that found something, in the order of [`CHECKS`].
    pub fn broken_checks(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.breaches.iter().map(|breach| breach.check).collect();
        names.dedup();
        names
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "note: {}: {}: {}", note.about, note.subject, note.text)?;
        }
        for breach in &self.breaches {
            writeln!(f, "{}: {}: {}", breach.check, breach.subject, breach.problem)?;
        }
        write!(f, "{} checks, {} breaches", CHECKS.len(), self.breaches.len())
    }
}

/// Why there is no report.
#[derive(Debug)]
pub enum AuditError {
    /// There is no database to connect to, or it does not let us in.
    Connection(ConnectionError),
    /// There is a database, and it is not a billing database.
    NoBooks,
    /// A lane is on a node, and what is in it cannot be seen from here.
    OnNode {
        /// The lane's schema.
        lane: String,
        /// The node.
        node: String,
    },
    /// A check could not be carried out; its name.
    Check(&'static str, diesel::result::Error),
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => write!(f, "no database here: {error}"),
            Self::NoBooks => write!(f, "no database here: it has no tables of this service, which `migrate` makes"),
            Self::OnNode { lane, node } => {
                write!(f, "{lane} is on the node {node}: books that are on several servers cannot be audited yet")
            }
            Self::Check(name, error) => write!(f, "the check {name} could not be carried out: {error}"),
        }
    }
}

impl std::error::Error for AuditError {}

impl From<diesel::result::Error> for AuditError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Check("transaction", error)
    }
}

/// A row of a check or a note.
#[derive(diesel::QueryableByName)]
struct Found {
    #[diesel(sql_type = Text)]
    subject: String,
    #[diesel(sql_type = Text)]
    problem: String,
}

/// Audits the database at `url` as of one instant, without writing anything. `progress` is told each check's name.
///
/// # Errors
/// When there is no database, or it does not have the schema of this version.
pub fn audit_database(url: &str, progress: &mut dyn FnMut(&'static str)) -> Result<Report, AuditError> {
    let mut pg = PgConnection::establish(url).map_err(AuditError::Connection)?;
    let tables: Vec<Found> = sql_query(TABLES).load(&mut pg)?;
    if tables.is_empty() {
        return Err(AuditError::NoBooks);
    }
    pg.build_transaction().repeatable_read().read_only().run(|pg| audit(pg, progress))
}

/// Audits what the transaction on `pg` sees.
///
/// # Errors
/// As [`audit_database`].
pub fn audit(pg: &mut PgConnection, progress: &mut dyn FnMut(&'static str)) -> Result<Report, AuditError> {
    audit_by(CHECKS, pg, progress)
}

/// As [`audit`], by some of the checks alone.
///
/// # Errors
/// As [`audit_database`].
pub fn audit_by(
    checks: &[Check],
    pg: &mut PgConnection,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Report, AuditError> {
    // Figures and times in messages are spelt in one way; a long check is not a hung one.
    let setup = "SET LOCAL TIME ZONE 'UTC'; SET LOCAL statement_timeout = 0";
    pg.batch_execute(setup).map_err(|error| AuditError::Check("setup", error))?;
    let on_nodes: Vec<Found> = sql_query(ON_NODES).load(pg).map_err(|error| AuditError::Check("lanes", error))?;
    if let Some(Found { subject: lane, problem: node }) = on_nodes.into_iter().next() {
        return Err(AuditError::OnNode { lane, node });
    }
    let over_lanes = over_lanes(pg).map_err(|error| AuditError::Check("lanes", error))?;
    let mut report = Report::default();
    for check in checks {
        progress(check.name);
        let found = format!("SELECT subject, problem FROM ({}) breach LIMIT {}", check.sql, BREACHES_MAX + 1);
        let bounded = format!("{over_lanes}{found}");
        let found: Vec<Found> = sql_query(bounded).load(pg).map_err(|error| AuditError::Check(check.name, error))?;
        let is_cut = found.len() > BREACHES_MAX;
        let shown = found.into_iter().take(BREACHES_MAX);
        report.breaches.extend(shown.map(|row| Breach {
            check: check.name,
            subject: row.subject,
            problem: row.problem,
        }));
        if is_cut {
            let (subject, problem) = ("and more".to_owned(), format!("there are more than {BREACHES_MAX}"));
            report.breaches.push(Breach { check: check.name, subject, problem });
        }
    }
    let notes = format!("{over_lanes}{PARKED_CUSTOMERS}");
    let parked: Vec<Found> = sql_query(notes).load(pg).map_err(|error| AuditError::Check("parked_customers", error))?;
    report.notes.extend(parked.into_iter().map(|row| Note {
        about: "parked_customers",
        subject: row.subject,
        text: row.problem,
    }));
    Ok(report)
}

/// The beginning of a query in which the tables of all lanes are one each; nothing where there is one lane.
fn over_lanes(pg: &mut PgConnection) -> diesel::QueryResult<String> {
    let tables: Vec<Found> = sql_query(OVER_LANES).load(pg)?;
    if tables.is_empty() {
        return Ok(String::new());
    }
    let parts = tables.iter().map(|table| format!("{} AS NOT MATERIALIZED ({})", table.subject, table.problem));
    Ok(format!("WITH {} ", parts.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_a_check_and_none_writes() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("checks");
        let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").file_name());
        let files: BTreeSet<String> = files.map(|name| name.to_string_lossy().replace(".sql", "")).collect();
        let known: BTreeSet<String> = CHECKS.iter().map(|check| check.name.to_owned()).collect();
        assert_eq!(files, known);
        for check in CHECKS {
            let upper = check.sql.to_uppercase();
            let writes =
                ["INSERT ", "UPDATE ", "DELETE ", "DROP ", "ALTER "].into_iter().find(|word| upper.contains(word));
            assert_eq!(writes, None, "{}", check.name);
        }
    }
}
