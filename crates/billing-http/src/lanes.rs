//! `billing-http lanes`: the lanes that customers are divided into.

use anyhow::bail;
use billing_audit::audit_database;
use billing_store::{LaneContents, Moved, PgStore, with_timeouts};
use clap::Subcommand;
use indicatif::ProgressBar;

use crate::settings::Settings;
use crate::startup::{Database, say};

/// Looking takes one connection at a time.
const CONNECTIONS: u32 = 1;

/// What `move` calls the catalogue's own database.
const HOME: &str = "home";

/// What can be done with lanes.
#[derive(Debug, Subcommand)]
pub enum LanesCommand {
    /// Print each lane: number, schema, role, address, customers, and what it takes on the disk; then each node: name and address.
    List,
    /// Look for addresses that lead astray, migrations that a lane lacks and customers in the wrong lane, read only; fail when there is
    /// anything.
    Check,
    /// Divide the customers of a database with one lane, while no service runs on it; run it again after an interruption.
    Split {
        /// Into how many lanes: 2, 4, 8 .. 64.
        #[arg(long)]
        into: u16,
    },
    /// Make an empty database of another server ready for lanes, as a node: it gets a copy of the catalogue, which it is sent from then on.
    ///
    /// It is connected to with the user, the password and the settings of the database URL, and connects to the catalogue's server by that URL.
    /// Run it again after an interruption.
    AddNode {
        /// What it is called from then on: small letters, digits and underscores.
        name: String,
        /// Its server: a name, an address or the folder of a socket.
        #[arg(long)]
        host: String,
        /// The server's port.
        #[arg(long, default_value_t = 5432)]
        port: u16,
        /// The database there.
        #[arg(long)]
        database: String,
    },
    /// Move a lane to a node, or home, while its customers are served; run it again after an interruption.
    ///
    /// An interrupted move that cannot be ended is taken back by a move to where the lane was.
    Move {
        /// The lane's number.
        lane: u16,
        /// The node's name; `home`: the catalogue's own database.
        #[arg(long)]
        to: String,
    },
}

/// Does it, also beside a server that is at work.
///
/// # Errors
/// Whatever kept it from being done, and what a check has found.
pub fn run(settings: &Settings, command: LanesCommand) -> anyhow::Result<()> {
    // Nothing is made or migrated: it is what there is that is looked at.
    let database = Database::open_existing(settings)?;
    let connect = || PgStore::connect(&database.url, CONNECTIONS);
    match command {
        LanesCommand::Split { into } => split(&database.url, into),
        LanesCommand::AddNode { name, host, port, database: there } => {
            add_node(&database.url, (&name, &host, port, &there))
        }
        LanesCommand::Move { lane, to } => move_lane(&database.url, lane, &to),
        LanesCommand::List => {
            let store = connect()?;
            say("lane  schema            role              address                         customers        MiB")?;
            for lane in store.lanes()? {
                let (number, schema, address) = (lane.number, lane.schema, lane.address);
                let role = lane.role.as_deref().unwrap_or("-");
                let contents = lane.contents.map_or_else(
                    || "does not answer".to_owned(),
                    |LaneContents { customers, bytes }| format!("{customers:>9}  {:>9}", bytes >> 20),
                );
                say(&format!("{number:>4}  {schema:<16}  {role:<16}  {address:<30}  {contents}"))?;
            }
            let nodes = store.nodes()?;
            nodes.iter().try_for_each(|(name, address)| say(&format!("node {name} at {address}")))?;
            Ok(())
        }
        LanesCommand::Check => {
            let progress = ProgressBar::new_spinner();
            let faults = connect()?.check_lanes(&mut |lane| {
                progress.set_message(format!("lane {lane}"));
                progress.tick();
            })?;
            progress.finish_and_clear();
            faults.iter().try_for_each(|fault| say(fault))?;
            if !faults.is_empty() {
                bail!("the lanes are not right");
            }
            Ok(say("Every customer is in its lane.")?)
        }
    }
}

/// A spinner, and what tells it what is being done.
fn spinner() -> (ProgressBar, impl FnMut(&str)) {
    let progress = ProgressBar::new_spinner();
    let shown = progress.clone();
    let tell = move |what: &str| {
        shown.set_message(what.to_owned());
        shown.tick();
    };
    (progress, tell)
}

/// Makes a database ready, and says what it is good for.
fn add_node(url: &str, node: (&str, &str, u16, &str)) -> anyhow::Result<()> {
    let (name, ..) = node;
    if name == HOME {
        bail!("a node cannot be called {HOME}: that is where the catalogue is");
    }
    let (progress, mut tell) = spinner();
    let added = PgStore::add_node(url, node, &mut tell);
    progress.finish_and_clear();
    added?;
    Ok(say(&format!(
        "The node {name} has the catalogue: lanes can move there, by `billing-http lanes move LANE --to {name}`."
    ))?)
}

/// Moves, and says what was verified and for how long nobody could work.
fn move_lane(url: &str, lane: u16, to: &str) -> anyhow::Result<()> {
    let (progress, mut tell) = spinner();
    let moved = PgStore::move_lane(url, lane, (to != HOME).then_some(to), &mut tell);
    progress.finish_and_clear();
    let Moved { verified, stood_still } = moved?;
    if stood_still.is_zero() {
        return Ok(say(&format!("Lane {lane} is at {to}."))?);
    }
    let milliseconds = stood_still.as_millis();
    Ok(say(&format!(
        "Lane {lane} is at {to} now: {verified} tables verified; its customers waited for {milliseconds} ms."
    ))?)
}

/// Divides, audits what came of it, and only then drops what was there before.
fn split(url: &str, into: u16) -> anyhow::Result<()> {
    let (progress, mut tell) = spinner();
    let audited = with_timeouts(url);
    // Of a split that goes on nothing can be audited yet.
    if let Ok(report) = audit_database(&audited, &mut |check| tell(check))
        && !report.is_clean()
    {
        progress.finish_and_clear();
        say(&report.to_string())?;
        bail!("the books are not right: nothing was split");
    }
    let done = PgStore::split(url, into, &mut tell)?;
    tell("auditing the books");
    let report = audit_database(&audited, &mut |check| tell(check))?;
    progress.finish_and_clear();
    if !report.is_clean() {
        say(&report.to_string())?;
        bail!("the books are not right: what was there before is kept in the schema `splitting`");
    }
    PgStore::finish_split(url)?;
    let rate = done.rows as u128 * 1_000 / done.took.as_millis().max(1);
    say(&format!("{} rows copied, {rate} a second; {} tables verified; {report}.", done.rows, done.verified))?;
    Ok(say(&format!("Customers are in {into} lanes now."))?)
}
