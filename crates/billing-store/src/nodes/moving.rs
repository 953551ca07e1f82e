//! Moving a lane to another server while its customers are served.
//!
//! ```text
//! copy     the target takes the lane's tables, and what changes in them, by a subscription
//! cut      all tables move aside at once, in a transaction that waits for whoever is at work there: nobody finds them any more
//! wait     until the target has the mark that the cut has left as the last change of all
//! verify   the digest of each table's rows is that of its copy
//! rename   the copy's schema gets the lane's next name
//! switch   the directory names the target and that schema: from here on processes find the lane there
//! ```
//!
//! A lane has another name after each move. So whoever has not heard of one, and of the lane's coming back, finds nothing in the place
//! where it still looks: no half of a copy, and nowhere to write what would be lost.
//!
//! Killed at any point, it is run again: before the cut it begins anew, behind it it goes on. What was moved aside stays where it
//! was, until the lane comes back.

use std::thread;
use std::time::{Duration, Instant};

use billing_domain::StoreError;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text, Uuid as SqlUuid};
use uuid::Uuid;

use super::placed::move_placed;
use super::{CountUncopied, CreateSlot, DropSlot, HasSubscription, STUCK_MAX_SECONDS};
use crate::pg::error::Failure;
use crate::pg::lane::{CATALOGUE, HasTable, LaneRow, directory};
use crate::pg::lock::{LockClass, lock_for_connection};
use crate::pg::month::Month;
use crate::pg::node::Node;
use crate::pg::place::Identity;
use crate::pg::place::search_path;
use crate::pg::schema::{lanes, nodes};
use crate::pg::statement::statement;
use crate::pg::{migration, partition, url};
use crate::split::statements::{Table, all_tables, digest};

/// How long is waited for a copy that makes no progress.
const STUCK_MAX: Duration = Duration::from_secs(STUCK_MAX_SECONDS);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often the cut is tried, each time while others wait for it for no longer than its own timeout.
const CUTS_MAX: u32 = 200;
/// How both sides write rows as text, for their digests.
const SAME_TEXT: &str =
    "SET timezone = 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET bytea_output = 'hex';
    SET extra_float_digits = 1; SET client_min_messages = warning; SET statement_timeout = 0";

/// What a move has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Tables whose rows were found again in the new place.
    pub verified: usize,
    /// How long nobody could work with the lane's customers.
    pub stood_still: Duration,
}

statement! {
    /// Tables of a schema whose changed and deleted rows could not be told apart elsewhere.
    ListUnidentified -> Text {
        "SELECT relname::text FROM pg_class
        WHERE relnamespace = to_regnamespace(" schema: String as Text; ") AND relkind = 'r' AND relname !~ '^__diesel'
            AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND (indisreplident OR indisprimary AND relreplident = 'd'))
        ORDER BY 1"
    }
}

statement! {
    /// What moves all tables and views of one schema into another.
    ListMoves -> Text {
        "SELECT format('ALTER %s %s SET SCHEMA ', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, oid::regclass) || " into: String as Text; "
        FROM pg_class
        WHERE relnamespace = to_regnamespace(" from: String as Text; ") AND relkind IN ('r', 'p', 'v') AND relname !~ '^__diesel'
        ORDER BY relname"
    }
}

statement! {
    /// The last change of a lane before it was cut off.
    ReadMark -> SqlUuid { "SELECT token FROM lane_tokens WHERE is_given_up AND answer IS NULL ORDER BY noted_at DESC, " tie: String as Text; " LIMIT 1" }
}

/// A database that a lane is in or comes into.
struct Side {
    url: String,
    pg: PgConnection,
    identity: Identity,
}

impl Side {
    fn connect(home_url: &str, node: Option<&Node>) -> Result<Self, Failure> {
        let url = node.map_or_else(|| home_url.to_owned(), |node| node.place().url(home_url));
        let mut pg = url::connect(&url)?;
        pg.batch_execute(SAME_TEXT)?;
        let identity = Identity::read(&mut pg)?;
        if let Some(node) = node {
            node.identity().expect(&mut pg)?;
        }
        Ok(Self { url, pg, identity })
    }

    fn has_table(&mut self, schema: &str, table: &str) -> QueryResult<bool> {
        HasTable { name: format!("{schema}.{table}") }.get_result(&mut self.pg)
    }

    fn months(&mut self, schema: &str) -> QueryResult<Vec<Month>> {
        self.pg.batch_execute(&search_path(schema))?;
        let months = partition::list(&mut self.pg);
        self.pg.batch_execute("SET search_path = public")?;
        months
    }
}

statement! {
    /// The schemas that a lane has had in a database: those that were worked in, and what was moved aside.
    ListLeft -> Text {
        "SELECT nspname::text FROM pg_namespace WHERE nspname ~ ('^(moved_)?' || " base: String as Text; " || '(_m[0-9]+)?$')"
    }
}

/// What a lane's schema is called whatever its moves were, and how many those were.
fn base_and_moves(schema: &str) -> (&str, u64) {
    let moved = schema.rsplit_once("_m").and_then(|(base, moves)| Some((base, moves.parse().ok()?)));
    moved.unwrap_or((schema, 0))
}

/// A lane on its way.
struct Move {
    schema: String,
    /// What it is called behind the move.
    next: String,
    /// Where the tables are behind the cut.
    aside: String,
    /// What the target takes them by.
    subscription: String,
    source: Side,
    target: Side,
}

fn refused<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(StoreError::Internal(message.into()).into())
}

/// Moves the lane of this number, of the database at `url`, to a node, or home; does there what is `left` to do behind a migration.
/// `progress` is told what is being done.
pub(crate) fn move_lane(
    url: &str,
    (number, to): (u16, Option<&str>),
    left: impl Fn(&mut PgConnection),
    progress: &mut dyn FnMut(&str),
) -> Result<Moved, StoreError> {
    let moved = (|| -> Result<Moved, Failure> {
        let mut home = url::connect(url)?;
        lock_for_connection(&mut home, LockClass::Migration)?;
        let row = find_lane(&mut home, number)?;
        if row.placed.is_some() {
            move_placed((url, &mut home), (&row, to), left, progress)?;
            return Ok(Moved::default());
        }
        let node = to.map(|name| find_node(&mut home, name)).transpose()?;
        let name = |node: &Option<Node>| node.as_ref().map(|node| node.name.clone());
        if name(&row.node) == name(&node) {
            give_back(url, &row, progress)?;
            return Ok(Moved::default());
        }
        let (source, target) = (Side::connect(url, row.node.as_ref())?, Side::connect(url, node.as_ref())?);
        let (base, moves) = base_and_moves(&row.schema);
        let (aside, subscription) = (format!("moved_{base}"), format!("billing_{base}"));
        let next = format!("{base}_m{}", moves + 1);
        let mut moving = Move { schema: row.schema, next, aside, subscription, source, target };
        if !moving.is_cut()? {
            moving.copy(left, progress)?;
            moving.cut(progress)?;
        }
        let begun = Instant::now();
        let verified = if moving.is_renamed()? {
            0
        } else {
            moving.take_the_rest(progress)?;
            let verified = moving.verify(progress)?;
            progress("renaming");
            moving.rename()?;
            verified
        };
        progress("switching");
        let place = (lanes::node_name.eq(name(&node)), lanes::schema_name.eq(&moving.next));
        diesel::update(lanes::table.find(row.number)).set(place).execute(&mut home)?;
        Ok(Moved { verified, stood_still: begun.elapsed() })
    })();
    moved.map_err(Failure::into_store_error)
}

/// Gives a lane that was cut off, and whose move has not come to its end, back to where it was.
fn give_back(url: &str, row: &LaneRow, progress: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    let mut source = Side::connect(url, row.node.as_ref())?;
    let base = base_and_moves(&row.schema).0;
    let aside = format!("moved_{base}");
    if source.has_table(&row.schema, "customers")? || !source.has_table(&aside, "customers")? {
        return Ok(());
    }
    progress("giving the lane back");
    let back = ListMoves { into: row.schema.clone(), from: aside };
    source.pg.transaction(|pg| move_all(pg, &back))?;
    // Nothing is kept any more for a target that is gone.
    DropSlot { name: slot_of(base, source.identity) }.execute(&mut source.pg)?;
    Ok(())
}

/// What a lane's server keeps of what it has not sent yet to the one that the lane moves to.
fn slot_of(base: &str, source: Identity) -> String {
    format!("billing_{base}_{}", source.database)
}

fn find_lane(home: &mut PgConnection, number: u16) -> Result<LaneRow, Failure> {
    let row = directory(home)?.into_iter().find(|row| row.number == number as i16);
    let Some(row) = row else { return refused(format!("there is no lane {number}")) };
    if row.schema == CATALOGUE {
        return refused(
            "the one lane of a database is where its catalogue is: divide its customers by `lanes split` first",
        );
    }
    if row.role.is_some() || !row.place.is_home() {
        return refused(format!("{} has a role or an address of its own: take that away first", row.schema));
    }
    Ok(row)
}

fn find_node(home: &mut PgConnection, name: &str) -> Result<Node, Failure> {
    match nodes::table.find(name).first(home).optional()? {
        Some(node) => Ok(node),
        None => refused(format!("there is no node {name}: add it by `lanes add-node`")),
    }
}

impl Move {
    /// Whether the lane was cut off by a run before.
    fn is_cut(&mut self) -> QueryResult<bool> {
        let is_aside = self.source.has_table(&self.aside, "customers")?;
        Ok(is_aside && !self.source.has_table(&self.schema, "customers")?)
    }

    /// Whether a run before came to everything but the switch.
    fn is_renamed(&mut self) -> QueryResult<bool> {
        self.target.has_table(&self.next, "customers")
    }

    /// Gives the copy, which nobody looks for under either name yet, the one that the directory is about to have.
    fn rename(&mut self) -> QueryResult<()> {
        self.target.pg.batch_execute(&format!("ALTER SCHEMA {} RENAME TO {}", self.schema, self.next))
    }

    /// What the source keeps for the target of what it has not sent yet.
    fn slot(&self) -> String {
        slot_of(base_and_moves(&self.schema).0, self.source.identity)
    }

    /// Whether the target is the one that the lane was cut off for.
    fn is_coming(&mut self) -> QueryResult<bool> {
        Ok(self.is_subscribed()? || self.target.has_table(&self.schema, "customers")?)
    }

    fn is_subscribed(&mut self) -> QueryResult<bool> {
        HasSubscription { name: self.subscription.clone() }.get_result(&mut self.target.pg)
    }

    /// Has the target take all there is, and what changes from then on.
    fn copy(&mut self, left: impl Fn(&mut PgConnection), progress: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let (schema, subscription, slot) = (self.schema.clone(), self.subscription.clone(), self.slot());
        progress("making the lane's tables");
        let unidentified: Vec<String> = ListUnidentified { schema: schema.clone() }.load(&mut self.source.pg)?;
        if let Some(table) = unidentified.first() {
            return refused(format!(
                "rows of {table} cannot be told apart: it needs a primary key or a replica identity"
            ));
        }
        if self.is_subscribed()? {
            self.target.pg.batch_execute(&format!("DROP SUBSCRIPTION {subscription}"))?;
        }
        // The lane is elsewhere: it is what moves before have left.
        for left in (ListLeft { base: base_and_moves(&schema).0.to_owned() }).load::<String>(&mut self.target.pg)? {
            self.target.pg.batch_execute(&format!("DROP SCHEMA {left} CASCADE"))?;
        }
        migration::make_lane(&self.target.url, &schema, left)?;
        self.make_months()?;
        let tables = all_tables(&mut self.source.pg, &schema)?;
        let names: Vec<String> = tables.iter().map(|table| format!("{schema}.{}", table.name)).collect();
        let names = names.join(", ");
        self.source.pg.batch_execute(&format!("DROP PUBLICATION IF EXISTS {subscription}"))?;
        self.source.pg.batch_execute(&format!("CREATE PUBLICATION {subscription} FOR TABLE {names}"))?;
        DropSlot { name: slot.clone() }.execute(&mut self.source.pg)?;
        progress("copying");
        CreateSlot { name: slot.clone() }.get_result::<String>(&mut self.source.pg)?;
        let conninfo = self.source.url.replace('\'', "''");
        self.target.pg.batch_execute(&format!(
            "CREATE SUBSCRIPTION {subscription} CONNECTION '{conninfo}' PUBLICATION {subscription}
            WITH (create_slot = false, slot_name = '{slot}', synchronous_commit = 'on')"
        ))?;
        self.wait_for_copy(progress)
    }

    /// Makes the months that the target lacks, and has it take them.
    fn make_months(&mut self) -> Result<(), Failure> {
        let (all, known) = (self.source.months(&self.schema)?, self.target.months(&self.schema)?);
        let missing: Vec<Month> = all.into_iter().filter(|month| !known.contains(month)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let pg = &mut self.target.pg;
        pg.batch_execute(&search_path(&self.schema))?;
        missing.iter().try_for_each(|month| partition::create(pg, *month))?;
        pg.batch_execute("SET search_path = public")?;
        if self.is_subscribed()? {
            let refresh = format!("ALTER SUBSCRIPTION {} REFRESH PUBLICATION", self.subscription);
            self.target.pg.batch_execute(&refresh)?;
        }
        Ok(())
    }

    fn wait_for_copy(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let (mut last, mut moved_at) = (None, Instant::now());
        loop {
            // One that is made meanwhile stops the target until it has it too.
            self.make_months()?;
            let uncopied: i64 = CountUncopied { name: self.subscription.clone() }.get_result(&mut self.target.pg)?;
            if uncopied == 0 {
                return Ok(());
            }
            if last != Some(uncopied) {
                (last, moved_at) = (Some(uncopied), Instant::now());
                progress(&format!("copying: {uncopied} tables are left"));
            }
            // A large table takes its time, and the server tells of none of it: only a target that nobody sends to is given up.
            if moved_at.elapsed() > STUCK_MAX && !self.is_sending()? {
                return refused(
                    "the target gets no copy: its log says why. It connects to the source by DATABASE_URL's user",
                );
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn is_sending(&mut self) -> QueryResult<bool> {
        IsSending { slot: self.slot() }.get_result(&mut self.source.pg)
    }

    /// Moves the lane's tables aside, once nobody is at work with them.
    fn cut(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        progress("cutting the lane off");
        let Self { schema, aside, .. } = self;
        let (schema, aside) = (schema.clone(), aside.clone());
        self.source.pg.batch_execute(&format!("DROP SCHEMA IF EXISTS {aside} CASCADE"))?;
        for _ in 0..CUTS_MAX {
            self.wait_for_copy(progress)?;
            let months = self.target.months(&schema)?;
            let cut = self.source.pg.transaction(|pg| try_cut(pg, (&schema, &aside), &months));
            match cut {
                Ok(true) => return Ok(()),
                Ok(false) | Err(Failure::Conflict(_)) => {}
                Err(Failure::Final(billing_domain::Error::Store(StoreError::LockTimeout))) => {}
                Err(failure) => return Err(failure),
            }
            thread::sleep(LOOK_EVERY);
        }
        refused("somebody is at work with the lane all the time")
    }

    /// Waits until the target has the last change of all, and ends the subscription.
    fn take_the_rest(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        progress("waiting for the last changes");
        if !self.is_coming()? {
            return refused(format!(
                "{} was cut off on its way to another server: end that move, or give the lane back by a move to where it was",
                self.schema
            ));
        }
        let mark = read_mark(&mut self.source.pg, &self.aside)?;
        let begun = Instant::now();
        while !has_mark(&mut self.target.pg, &self.schema, mark)? {
            if begun.elapsed() > STUCK_MAX {
                return refused("the target does not get the last changes: its log says why. Run this again");
            }
            thread::sleep(LOOK_EVERY);
        }
        if self.is_subscribed()? {
            self.target.pg.batch_execute(&format!("DROP SUBSCRIPTION {}", self.subscription))?;
        }
        self.source.pg.batch_execute(&format!("DROP PUBLICATION IF EXISTS {}", self.subscription))?;
        Ok(())
    }

    /// Holds the rows of each table against those of its copy, and makes the copy ready to be worked with; how many tables those were. Where
    /// one differs the lane is given back to where it was.
    fn verify(&mut self, progress: &mut dyn FnMut(&str)) -> Result<usize, Failure> {
        let Self { schema, aside, .. } = self;
        let tables = all_tables(&mut self.source.pg, aside)?;
        for table in &tables {
            progress(&format!("verifying {}", table.name));
            let before = digest(&mut self.source.pg, table, aside)?;
            let after = digest(&mut self.target.pg, table, schema)?;
            if before != after {
                let message = format!("{} has {before}, and its copy {after}: the lane stays where it was", table.name);
                let back = ListMoves { into: schema.clone(), from: aside.clone() };
                self.source.pg.transaction(|pg| move_all(pg, &back))?;
                return refused(message);
            }
        }
        self.target.pg.batch_execute(&search_path(schema))?;
        let completed = tables.iter().try_for_each(|table: &Table| table.complete(&mut self.target.pg));
        self.target.pg.batch_execute("SET search_path = public")?;
        completed?;
        Ok(tables.len())
    }
}

statement! {
    /// Whether somebody takes what is kept in a slot, or a copy that belongs to it.
    IsSending -> Bool {
        "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE active AND slot_name = " slot: String as Text; ")"
    }
}

/// Moves everything of the lane aside, behind a mark that is its last change; false: a month was made that the target lacks.
fn try_cut(pg: &mut PgConnection, (schema, aside): (&str, &str), months: &[Month]) -> Result<bool, Failure> {
    // Whoever comes meanwhile waits for as long, and whoever is waited for does not wait for this one.
    pg.batch_execute("SET LOCAL lock_timeout = '500ms'")?;
    let tables = all_tables(pg, schema)?;
    let names: Vec<String> = tables.iter().map(|table| format!("{schema}.{}", table.name)).collect();
    pg.batch_execute(&format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", names.join(", ")))?;
    pg.batch_execute(&format!("SET LOCAL search_path = {schema}, public"))?;
    if partition::list(pg)?.iter().any(|month| !months.contains(month)) {
        return Ok(false);
    }
    pg.batch_execute(&format!(
        "INSERT INTO lane_tokens (token, is_given_up) VALUES ('{}', true); SET LOCAL search_path = public; CREATE SCHEMA {aside}",
        Uuid::now_v7()
    ))?;
    move_all(pg, &ListMoves { into: aside.to_owned(), from: schema.to_owned() })?;
    Ok(true)
}

fn move_all(pg: &mut PgConnection, moves: &ListMoves) -> Result<(), Failure> {
    let moves: Vec<String> = moves.clone().load(pg)?;
    Ok(pg.batch_execute(&moves.join("; "))?)
}

fn read_mark(pg: &mut PgConnection, aside: &str) -> Result<Uuid, Failure> {
    pg.batch_execute(&format!("SET search_path = {aside}"))?;
    let mark = ReadMark { tie: String::new() }.get_result(pg);
    pg.batch_execute("SET search_path = public")?;
    Ok(mark?)
}

fn has_mark(pg: &mut PgConnection, schema: &str, mark: Uuid) -> Result<bool, Failure> {
    pg.batch_execute(&search_path(schema))?;
    use crate::pg::schema::lane_tokens::dsl;
    let found: Result<i64, _> = dsl::lane_tokens.filter(dsl::token.eq(mark)).count().get_result(pg);
    pg.batch_execute("SET search_path = public")?;
    Ok(found? > 0)
}
