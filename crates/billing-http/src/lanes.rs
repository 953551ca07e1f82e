//! `billing-http lanes`: the lanes that customers are divided into.

use anyhow::bail;
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
    /// Print each lane: number, schema, role, customers, and what it takes on the disk.
    List,
    /// Look for migrations that a lane lacks and for customers in the wrong lane, read only; fail when there is anything.
    Check,
}

/// Does it, also beside a server that is at work.
///
/// # Errors
/// Whatever kept it from being done, and what a check has found.
pub fn run(settings: &Settings, command: LanesCommand) -> anyhow::Result<()> {
    // Nothing is made or migrated: it is what there is that is looked at.
    let database = Database::open_existing(settings)?;
    let store = PgStore::connect(&database.url, CONNECTIONS)?;
    match command {
        LanesCommand::List => {
            say("lane  schema            role              customers        MiB")?;
            for lane in store.lanes()? {
                let (role, mib) = (lane.role.as_deref().unwrap_or("-"), lane.bytes >> 20);
                say(&format!("{:>4}  {:<16}  {role:<16}  {:>9}  {mib:>9}", lane.number, lane.schema, lane.customers))?;
            }
            Ok(())
        }
        LanesCommand::Check => {
            let progress = ProgressBar::new_spinner();
            let faults = store.check_lanes(&mut |lane| {
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
