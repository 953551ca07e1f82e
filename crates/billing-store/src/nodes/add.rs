//! Making a server ready for lanes: it gets a copy of the catalogue, which home sends it from then on.
//!
//! ```text
//! node   the catalogue's tables, empty; those that stay at home move out of the search path, all others refuse changes
//! home   a publication of what nodes have a copy of, and triggers that count its changes, and that refuse whoever does not know of
//!        nodes; the node is in the directory
//! node   a subscription; done once all is copied and the copy has come to the number that home has
//! ```
//!
//! Killed at any point, it is run again.

use std::thread;
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Integer, Text};

use super::{CountUncopied, CreateSlot, DropSlot, HasSubscription, STUCK_MAX_SECONDS};
use crate::pg::catalogue_copy::{self, SUBSCRIPTION};
use crate::pg::citus;
use crate::pg::error::Failure;
use crate::pg::lock::{LockClass, lock_for_connection};
use crate::pg::migration;
use crate::pg::place::{Identity, Place};
use crate::pg::replica::position;
use crate::pg::schema::nodes;
use crate::pg::statement::statement;
use crate::pg::url;

/// The oldest version of Postgres that a node may have, as the server tells it.
const VERSION_MIN: i32 = 150_000;
/// How long is waited for a copy that makes no progress.
const STUCK_MAX: Duration = Duration::from_secs(STUCK_MAX_SECONDS);
const LOOK_EVERY: Duration = Duration::from_millis(50);

statement! {
    /// The server's version, what it logs, and whether it has what the migrations need.
    ReadServer -> (Integer, Text, Bool) {
        "SELECT current_setting('server_version_num')::integer, current_setting('wal_level'),
            EXISTS (SELECT FROM pg_available_extensions WHERE name = " extension: String as Text; ")"
    }
}

statement! {
    /// Whether there is a directory of lanes where connections look: a copy of the catalogue has none.
    HasDirectory -> Bool { "SELECT to_regclass(" name: String as Text; ") IS NOT NULL" }
}

statement! {
    /// Whether there are lanes in a database.
    HasLanes -> Bool { "SELECT EXISTS (SELECT FROM lanes WHERE number >= " first: i32 as Integer; ")" }
}

/// A node to be added.
pub(crate) struct NewNode<'n> {
    pub(crate) name: &'n str,
    pub(crate) host: &'n str,
    pub(crate) port: u16,
    pub(crate) database: &'n str,
}

/// Gives the server of a node a copy of the catalogue of the database at `url`, does there what is `left` to do behind a migration,
/// and writes it into the directory. `progress` is told what is being done.
pub(crate) fn add(
    url: &str,
    node: &NewNode<'_>,
    left: impl Fn(&mut PgConnection),
    progress: &mut dyn FnMut(&str),
) -> Result<(), StoreError> {
    if !is_name(node.name) {
        let message = "a node's name has at most 31 small letters, digits and underscores, and begins with a letter";
        return Err(StoreError::Internal(message.to_owned()));
    }
    let mut home = url::connect(url)?;
    let added = (|| -> Result<(), Failure> {
        if citus::is_there(&mut home)? {
            return refused(format!(
                "nodes are the engine's here: have it add this one (SELECT citus_add_node('{}', {})), and run `billing-http migrate`, which gives \
                it its copy of the catalogue",
                node.host, node.port
            ));
        }
        lock_for_connection(&mut home, LockClass::Migration)?;
        copy_to((url, &mut home), node, left, progress)
    })();
    added.map_err(Failure::into_store_error)
}

/// Gives a node its copy, beside nobody else who migrates.
pub(super) fn copy_to(
    (url, home): (&str, &mut PgConnection),
    node: &NewNode<'_>,
    left: impl Fn(&mut PgConnection),
    progress: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let node_url = Place::of(node.host, i32::from(node.port), node.database).url(url);
    let mut there = url::connect(&node_url)?;
    citus::keep_what_is_made(&mut there)?;
    let identity = expect_usable(home, &mut there)?;
    progress("making the catalogue's tables");
    migration::make_catalogue(&node_url)?;
    left(&mut there);
    let is_subscribed = (HasSubscription { name: SUBSCRIPTION.to_owned() }).get_result(&mut there)?;
    there.transaction(|pg| catalogue_copy::prepare(pg, is_subscribed))?;
    progress("publishing the catalogue");
    home.transaction(|pg| publish(pg, node, identity))?;
    if !is_subscribed {
        progress("copying the catalogue");
        let slot = slot_of(node, Identity::read(home)?);
        DropSlot { name: slot.clone() }.execute(home)?;
        CreateSlot { name: slot.clone() }.get_result::<String>(home)?;
        let conninfo = url.replace('\'', "''");
        there.batch_execute(&format!(
            "CREATE SUBSCRIPTION {SUBSCRIPTION} CONNECTION '{conninfo}' PUBLICATION {SUBSCRIPTION}
            WITH (create_slot = false, slot_name = '{slot}', synchronous_commit = 'on')"
        ))?;
    }
    wait_for_copy(home, &mut there, progress)
}

/// Whether a node can be called so: the name becomes part of others.
fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.len() <= 31 && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(is_part)
}

/// What home keeps for a node of what it has not sent yet.
fn slot_of(node: &NewNode<'_>, home: Identity) -> String {
    format!("billing_{}_{}", home.database, node.name)
}

fn refused<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(StoreError::Internal(message.into()).into())
}

/// Refuses servers that cannot be home and node to each other; answers which database the node is.
fn expect_usable(home: &mut PgConnection, there: &mut PgConnection) -> Result<Identity, Failure> {
    let read = || ReadServer { extension: "btree_gist".to_owned() };
    let (_, wal_level, _): (i32, String, bool) = read().get_result(home)?;
    if wal_level != "logical" {
        return refused(format!(
            "wal_level of the catalogue's server is {wal_level}: set it to logical and restart the server"
        ));
    }
    let (version, _, has_extension): (i32, String, bool) = read().get_result(there)?;
    if version < VERSION_MIN {
        return refused("the node's Postgres is older than 15");
    }
    if !has_extension {
        return refused("the node's Postgres lacks the extension btree_gist, which is in its package contrib");
    }
    let (at_home, identity) = (Identity::read(home)?, Identity::read(there)?);
    if at_home.server == identity.server {
        return refused("the node is a database of the catalogue's own server, where nothing is gained by another one");
    }
    let has_directory: bool = (HasDirectory { name: "public.lanes".to_owned() }).get_result(there)?;
    if has_directory && (HasLanes { first: 0 }).get_result::<bool>(there)? {
        return refused("the node's database has lanes of its own: a node begins with an empty database");
    }
    Ok(identity)
}

/// Has home send the catalogue, and count its changes; writes the node into the directory.
fn publish(pg: &mut PgConnection, node: &NewNode<'_>, identity: Identity) -> Result<(), Failure> {
    catalogue_copy::publish(pg)?;
    let values = (
        nodes::name.eq(node.name),
        nodes::host.eq(node.host),
        nodes::port.eq(i32::from(node.port)),
        nodes::database_name.eq(node.database),
        nodes::system_identifier.eq(identity.server),
        nodes::database_number.eq(i64::from(identity.database)),
    );
    diesel::insert_into(nodes::table).values(values).on_conflict_do_nothing().execute(pg)?;
    let known: (i64, i64) =
        nodes::table.find(node.name).select((nodes::system_identifier, nodes::database_number)).first(pg)?;
    match known == (identity.server, i64::from(identity.database)) {
        true => Ok(()),
        false => refused(format!("there is a node {}, and it is another database", node.name)),
    }
}

/// Waits until all tables are copied, and the copy has come as far as home is.
fn wait_for_copy(
    home: &mut PgConnection,
    there: &mut PgConnection,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let (wanted, mut last, mut moved_at) = (position(home)?, None, Instant::now());
    loop {
        let uncopied: i64 = (CountUncopied { name: SUBSCRIPTION.to_owned() }).get_result(there)?;
        let here = if uncopied == 0 { position(there).optional()? } else { None };
        if here.is_some_and(|here| here >= wanted) {
            return Ok(());
        }
        let now = Some((uncopied, here));
        if now != last {
            (last, moved_at) = (now, Instant::now());
            progress(&format!("copying the catalogue: {uncopied} tables are left"));
        }
        if moved_at.elapsed() > STUCK_MAX {
            return refused(
                "the node gets no copy of the catalogue: its log says why. It connects to home by DATABASE_URL, which must \
                lead there from the node too",
            );
        }
        thread::sleep(LOOK_EVERY);
    }
}
