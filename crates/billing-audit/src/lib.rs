#![forbid(unsafe_code)]
//! The auditor: checks the books of a billing database, read only, and reports what does not add up.
//!
//! It stands on nothing of the service: no type, no statement and no rule of the other crates. Each check is one
//! file of plain SQL in `checks/`, named after what it promises, that selects every breach as a subject and a
//! problem. Prices are computed again in SQL, naively: a mistake of the engine cannot hide in both.

mod servers;

use std::fmt;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::sql_types::Text;
use diesel::{Connection, ConnectionError, PgConnection, RunQueryDsl, sql_query};
// Not named anywhere else: it brings the client library that Diesel links.
use pq_sys as _;
use uuid::Uuid;

use crate::servers::{Lane, Servers, Table};

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
    "invoiced_is_summed_by_hour",
    "invoice_is_paid_by_its_payments",
    "credit_notes_take_what_their_lines_charged",
    "credit_note_numbers_have_no_gap",
    "credit_notes_are_settled",
    "waived_is_remembered",
    "credit_is_its_ledger",
    "credit_is_drawn_in_its_time_and_currency",
    "drawdowns_are_on_their_invoice",
    "granted_credit_exists",
    "running_subscriptions_are_counted",
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

/// The schema of the catalogue, and the table of organizations, who are not told by their `organization_id` there.
const CATALOGUE: &str = "public";
const ORGANIZATIONS: &str = "organizations";

/// Checks of what a server has made of tables, which are carried out on each, and are about no organization.
const OF_EACH_SERVER: &[&str] = &["event_months_have_their_indexes"];

/// Finds an organization.
const ORGANIZATION: &str = "SELECT id::text AS subject, '' AS problem FROM organizations WHERE id = $1::uuid";

/// What an audit has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What should be known besides; no failure.
    pub notes: Vec<Note>,
    /// Every breach, by check; none: the books are right.
    pub breaches: Vec<Breach>,
    /// How many checks were carried out.
    pub checks: usize,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.breaches.is_empty()
    }

    /// What is in another report of the same books too, whatever the figures; as that one says it.
    fn also_in(self, other: &Self) -> Self {
        let is_in_both = |breach: &&Breach| {
            self.breaches.iter().any(|known| (known.check, &known.subject) == (breach.check, &breach.subject))
        };
        let breaches = other.breaches.iter().filter(is_in_both).cloned().collect();
        Self { notes: other.notes.clone(), breaches, checks: other.checks }
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
        write!(f, "{} checks, {} breaches", self.checks, self.breaches.len())
    }
}

/// Why there is no report.
#[derive(Debug)]
pub enum AuditError {
    /// There is no database to connect to, or it does not let us in.
    Connection(ConnectionError),
    /// There is a database, and it is not a billing database.
    NoBooks,
    /// There is no such organization.
    NoOrganization,
    /// A lane is on a node, and what is in it cannot be seen in this transaction.
    OnNode {
        /// The lane's schema.
        lane: String,
        /// The node.
        node: String,
    },
    /// A node does not let us in, or is another database than it should be.
    Node {
        /// The node.
        node: String,
        /// What is wrong.
        problem: String,
    },
    /// A lane was moved just now.
    Moving,
    /// A check could not be carried out; its name.
    Check(&'static str, diesel::result::Error),
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => write!(f, "no database here: {error}"),
            Self::NoBooks => write!(f, "no database here: it has no tables of this service, which `migrate` makes"),
            Self::NoOrganization => write!(f, "there is no such organization"),
            Self::OnNode { lane, node } => {
                write!(f, "{lane} is on the node {node}, which one transaction cannot see")
            }
            Self::Node { node, problem } => write!(f, "no database at the node {node}: {problem}"),
            Self::Moving => write!(f, "a lane was moved just now: audit again"),
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
/// Where lanes are on other servers, what is in them is copied into tables that only this audit sees. Servers that are at work cannot be
/// seen as of one instant: a breach is reported that is there in each of two looks.
///
/// # Errors
/// When there is no database, or it does not have the schema of this version.
pub fn audit_database(url: &str, progress: &mut dyn FnMut(&'static str)) -> Result<Report, AuditError> {
    audit_books(url, Scope::default(), progress)
}

/// As [`audit_database`], the books of one organization alone: nothing of another one is looked at or told.
///
/// # Errors
/// As [`audit_database`]; [`AuditError::NoOrganization`].
pub fn audit_organization(
    url: &str,
    organization: Uuid,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Report, AuditError> {
    audit_books(url, Scope { organization: Some(organization), check_max: None }, progress)
}

/// As [`audit_organization`], for somebody who waits beside others at work: a check takes one processor at most, and no longer than
/// `check_max`.
///
/// # Errors
/// As [`audit_organization`]; [`AuditError::Check`] where that is not enough.
pub fn audit_organization_beside(
    url: &str,
    organization: Uuid,
    check_max: Duration,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Report, AuditError> {
    audit_books(url, Scope { organization: Some(organization), check_max: Some(check_max) }, progress)
}

/// Whose books, and within which bounds.
#[derive(Clone, Copy, Default)]
struct Scope {
    /// `None`: everybody's.
    organization: Option<Uuid>,
    /// How long a check may take, on one processor; `None`: as long as it takes, on as many as there are.
    check_max: Option<Duration>,
}

impl Scope {
    /// Which rows of a table are the organization's.
    fn condition(self, table: &Table) -> String {
        let column = match table.name.as_str() {
            ORGANIZATIONS => "id",
            _ if table.names_organizations() => "organization_id",
            _ => return String::new(),
        };
        self.organization.map_or_else(String::new, |organization| format!(" WHERE {column} = '{organization}'"))
    }
}

fn audit_books(url: &str, scope: Scope, progress: &mut dyn FnMut(&'static str)) -> Result<Report, AuditError> {
    let mut pg = PgConnection::establish(url).map_err(AuditError::Connection)?;
    let tables: Vec<Found> = sql_query(TABLES).load(&mut pg)?;
    if tables.is_empty() {
        return Err(AuditError::NoBooks);
    }
    if let Some(organization) = scope.organization {
        let found: Vec<Found> = sql_query(ORGANIZATION).bind::<Text, _>(organization.to_string()).load(&mut pg)?;
        found.first().ok_or(AuditError::NoOrganization)?;
    }
    let lanes = lanes_of(&mut pg)?;
    if lanes.iter().all(|lane| lane.name.is_none()) {
        let look = |pg: &mut PgConnection| audit_scope(CHECKS, scope, pg, progress);
        return pg.build_transaction().repeatable_read().read_only().run(look);
    }
    let report = audit_servers(url, &lanes, scope, progress)?;
    if report.is_clean() {
        return Ok(report);
    }
    Ok(report.also_in(&audit_servers(url, &lanes, scope, progress)?))
}

/// One look at lanes of which some are on other servers.
fn audit_servers(
    url: &str,
    lanes: &[Lane],
    scope: Scope,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Report, AuditError> {
    // What it makes goes with its transaction, which goes with it.
    let mut pg = PgConnection::establish(url).map_err(AuditError::Connection)?;
    let mut servers = Servers::begin(url, &mut pg, lanes)?;
    let tables = servers.copy(&mut pg, lanes, &|table| scope.condition(table))?;
    let books = Books { lanes, tables, scope };
    let mut report = look(CHECKS, &mut pg, &books, progress)?;
    if scope.organization.is_none() {
        for check in CHECKS.iter().filter(|check| OF_EACH_SERVER.contains(&check.name)) {
            for node in servers.connections() {
                find(check, node, "", &mut report)?;
            }
        }
    }
    Ok(report)
}

/// Audits what the transaction on `pg` sees.
///
/// # Errors
/// As [`audit_database`]; [`AuditError::OnNode`] when that is not all.
pub fn audit(pg: &mut PgConnection, progress: &mut dyn FnMut(&'static str)) -> Result<Report, AuditError> {
    audit_by(CHECKS, None, pg, progress)
}

/// As [`audit`], by some of the checks alone, and of one organization alone where that is said.
///
/// # Errors
/// As [`audit`].
pub fn audit_by(
    checks: &[Check],
    organization: Option<Uuid>,
    pg: &mut PgConnection,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Report, AuditError> {
    audit_scope(checks, Scope { organization, check_max: None }, pg, progress)
}

fn audit_scope(
    checks: &[Check],
    scope: Scope,
    pg: &mut PgConnection,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Report, AuditError> {
    let lanes = lanes_of(pg)?;
    if let Some((lane, node)) = lanes.iter().find_map(|lane| Some((lane, lane.name.clone()?))) {
        return Err(AuditError::OnNode { lane: lane.schema_name.clone(), node });
    }
    let tables = lanes.first().map(|lane| tables_of(pg, &lane.schema_name)).transpose()?.unwrap_or_default();
    look(checks, pg, &Books { lanes: &lanes, tables, scope }, progress)
}

/// What is looked at.
struct Books<'l> {
    lanes: &'l [Lane],
    /// What each lane has.
    tables: Vec<Table>,
    scope: Scope,
}

impl Books<'_> {
    /// The beginning of a query in which the tables of all lanes are one each, and have nothing but what is the organization's.
    fn beginning(&self, catalogue: &[Table]) -> String {
        let is_in_one_place = self.lanes.len() <= 1 && self.lanes.iter().all(|lane| lane.name.is_none());
        let mut tables = Vec::new();
        for table in self.tables.iter().filter(|_| !is_in_one_place || self.scope.organization.is_some()) {
            let condition = self.scope.condition(table);
            let rows_of = |lane: &Lane| format!("SELECT * FROM {}{condition}", lane.table(&table.name));
            let rows: Vec<String> = self.lanes.iter().map(rows_of).collect();
            tables.push(format!("{} AS NOT MATERIALIZED ({})", table.name, rows.join(" UNION ALL ")));
        }
        let is_in_lanes = |table: &Table| self.tables.iter().any(|known| known.name == table.name);
        for table in catalogue.iter().filter(|table| !is_in_lanes(table)) {
            let condition = self.scope.condition(table);
            if !condition.is_empty() {
                let rows = format!(r#"SELECT * FROM {CATALOGUE}."{}"{condition}"#, table.name);
                tables.push(format!("{} AS NOT MATERIALIZED ({rows})", table.name));
            }
        }
        match tables.is_empty() {
            true => String::new(),
            false => format!("WITH {} ", tables.join(", ")),
        }
    }
}

/// What the checks find in a transaction.
fn look(
    checks: &[Check],
    pg: &mut PgConnection,
    books: &Books<'_>,
    progress: &mut dyn FnMut(&'static str),
) -> Result<Report, AuditError> {
    // Figures and times in messages are spelt in one way; a long check is not a hung one.
    let mut setup = "SET LOCAL TIME ZONE 'UTC'; SET LOCAL statement_timeout = 0".to_owned();
    if let Some(check_max) = books.scope.check_max {
        let check_max_ms = check_max.as_millis().clamp(1, i32::MAX as u128);
        setup +=
            &format!("; SET LOCAL statement_timeout = {check_max_ms}; SET LOCAL max_parallel_workers_per_gather = 0");
    }
    pg.batch_execute(&setup).map_err(|error| AuditError::Check("setup", error))?;
    let catalogue = books.scope.organization.map(|_| tables_of(pg, CATALOGUE)).transpose()?.unwrap_or_default();
    let beginning = books.beginning(&catalogue);
    let mut report = Report::default();
    let is_about_them = |check: &&Check| books.scope.organization.is_none() || !OF_EACH_SERVER.contains(&check.name);
    for check in checks.iter().filter(is_about_them) {
        progress(check.name);
        find(check, pg, &beginning, &mut report)?;
        report.checks += 1;
    }
    let notes = format!("{beginning}{PARKED_CUSTOMERS}");
    let parked: Vec<Found> = sql_query(notes).load(pg).map_err(|error| AuditError::Check("parked_customers", error))?;
    report.notes.extend(parked.into_iter().map(|row| Note {
        about: "parked_customers",
        subject: row.subject,
        text: row.problem,
    }));
    Ok(report)
}

/// Adds what one check finds by a query with this beginning.
fn find(check: &Check, pg: &mut PgConnection, beginning: &str, report: &mut Report) -> Result<(), AuditError> {
    let found = format!("SELECT subject, problem FROM ({}) breach LIMIT {}", check.sql, BREACHES_MAX + 1);
    let bounded = format!("{beginning}{found}");
    let found: Vec<Found> = sql_query(bounded).load(pg).map_err(|error| AuditError::Check(check.name, error))?;
    let is_cut = found.len() > BREACHES_MAX;
    let shown = found.into_iter().take(BREACHES_MAX);
    report.breaches.extend(shown.map(|row| Breach { check: check.name, subject: row.subject, problem: row.problem }));
    if is_cut {
        let (subject, problem) = ("and more".to_owned(), format!("there are more than {BREACHES_MAX}"));
        report.breaches.push(Breach { check: check.name, subject, problem });
    }
    Ok(())
}

fn lanes_of(pg: &mut PgConnection) -> Result<Vec<Lane>, AuditError> {
    servers::directory(pg).map_err(|error| AuditError::Check("lanes", error))
}

fn tables_of(pg: &mut PgConnection, schema: &str) -> Result<Vec<Table>, AuditError> {
    servers::tables_of(pg, schema).map_err(|error| AuditError::Check("lanes", error))
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
