//! `billing-http lanes`: the lanes that customers are divided into.

use anyhow::bail;
use billing_audit::audit_database;
use billing_store::PgStore;
use clap::Subcommand;
use indicatif::ProgressBar;

use crate::settings::Settings;
use crate::startup::{Database, say};

/// Looking takes one connection at a time.
const CONNECTIONS: u32 = 1;

/// What can be done with lanes.
#[derive(Debug, Subcommand)]
pub enum LanesCommand {
    /// Print each lane: number, schema, role, address, customers, and what it takes on the disk.
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
        LanesCommand::List => {
            say("lane  schema            role              address                         customers        MiB")?;
            for lane in connect()?.lanes()? {
                let (role, mib) = (lane.role.as_deref().unwrap_or("-"), lane.bytes >> 20);
                let (number, schema, address, customers) = (lane.number, lane.schema, lane.address, lane.customers);
                say(&format!("{number:>4}  {schema:<16}  {role:<16}  {address:<30}  {customers:>9}  {mib:>9}"))?;
            }
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

/// Divides, audits what came of it, and only then drops what was there before.
fn split(url: &str, into: u16) -> anyhow::Result<()> {
    let progress = ProgressBar::new_spinner();
    let mut tell = |what: &str| {
        progress.set_message(what.to_owned());
        progress.tick();
    };
    // Of a split that goes on nothing can be audited yet.
    if let Ok(report) = audit_database(url, &mut |check| tell(check))
        && !report.is_clean()
    {
        progress.finish_and_clear();
        say(&report.to_string())?;
        bail!("the books are not right: nothing was split");
    }
    let done = PgStore::split(url, into, &mut tell)?;
    tell("auditing the books");
    let report = audit_database(url, &mut |check| tell(check))?;
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
