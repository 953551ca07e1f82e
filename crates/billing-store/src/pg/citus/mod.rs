//! Lanes that Citus places: each schema is whole on one node, and the engine says on which, and moves it while it is worked with.
//!
//! ```text
//! coordinator   lane_03.customers             the engine's table: migrations and months are made by it
//! owner node    lane_03.customers_102040      what the engine keeps the rows in, a table like any other
//!               lane_03_here.customers        a view of that, which the service works with
//! ```
//!
//! A statement that names an engine's table is planned by the engine: for several times the processor time, not in every shape, and on a
//! node that the lane has left it is sent on to the one that it is on, past every lock. So the service connects to the owner node
//! and works with the tables there, by views: Postgres plans them alone. What the engine does for its own statements is left to do: before
//! a transaction its share of the lock that a move takes as a whole, and a look whether the lane is still here ([`expect_here`]).

mod arrange;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Integer, Text};

use super::month::Month;
use super::statement::statement;

pub(crate) use self::arrange::{arrange, describe, is_placed_here};

/// Has what is made in a session from here on stay in its own database, where it is one of an engine's; elsewhere it says nothing.
const KEEP_WHAT_IS_MADE: &str = "SET citus.enable_ddl_propagation = off";
/// The opposite, for a transaction: tables of lanes are made on their nodes too, and with triggers, which see nothing but their own lane.
const MAKE_ON_NODES: &str = "SET LOCAL citus.enable_ddl_propagation = on; SET LOCAL citus.enable_unsafe_triggers = on; SET LOCAL client_min_messages = warning";
/// What connections to a lane's owner node have set: the engine does not hide there what it keeps rows in, nor refuse changes of that, and
/// what is made stays there.
pub(crate) const ON_THE_OWNER: &str =
    "SET citus.override_table_visibility = off; SET citus.enable_manual_changes_to_shards = on;
    SET citus.enable_ddl_propagation = off; SET client_min_messages = warning";

statement! {
    /// Whether the database is one of an engine's.
    IsThere -> Bool { "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = " name: String as Text; ")" }
}

statement! {
    /// Where the lanes are that the engine places: the schema, the node's group, its server and port.
    ReadPlaces -> (Text, Integer, Text, Integer) {
        "SELECT lane.schema_name, node.groupid, node.nodename, node.nodeport
        FROM lanes lane
        JOIN pg_dist_shard shard ON shard.logicalrelid = to_regclass(quote_ident(lane.schema_name) || " customers: String as Text; ")
        JOIN pg_dist_placement placement ON placement.shardid = shard.shardid AND placement.shardstate = 1
        JOIN pg_dist_node node ON node.groupid = placement.groupid AND node.noderole = 'primary'"
    }
}

statement! {
    /// The engine's nodes but the coordinator: group, server and port.
    ListNodes -> (Integer, Text, Integer) {
        "SELECT groupid, nodename, nodeport FROM pg_dist_node
        WHERE noderole = 'primary' AND isactive AND groupid > " coordinator: i32 as Integer; "
        ORDER BY groupid"
    }
}

statement! {
    /// References from a lane to the catalogue, which the engine lets no table have that it places: what drops them.
    ListReferences -> Text {
        "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
        FROM pg_constraint JOIN pg_class target ON target.oid = confrelid
        WHERE contype = 'f' AND connamespace = to_regnamespace(" schema: String as Text; ") AND target.relnamespace <> connamespace"
    }
}

statement! {
    /// Gives a schema to the engine, which puts it on a node.
    Distribute -> Text { "SELECT citus_schema_distribute(" schema: String as Text; "::regnamespace)::text" }
}

statement! {
    /// Has the engine move a schema while it is worked with.
    MoveSchema -> Text {
        "SELECT citus_schema_move(" schema: String as Text; "::regnamespace, nodename, nodeport, 'force_logical')::text
        FROM pg_dist_node WHERE noderole = 'primary' AND groupid = " group: i32 as Integer; ""
    }
}

statement! {
    /// Refuses as if nothing of the lane were there what does not find it on this node; for whoever writes it stays until the transaction
    /// ends.
    ExpectHere -> Bool { "SELECT expect_here(" is_writing: bool as Bool; ")" }
}

/// The group of the coordinator.
const COORDINATOR: i32 = 0;

/// Whether the database is one of an engine's.
pub(crate) fn is_there(pg: &mut PgConnection) -> QueryResult<bool> {
    IsThere { name: "citus".to_owned() }.get_result(pg)
}

/// Has what is made by this connection stay in its own database.
pub(crate) fn keep_what_is_made(pg: &mut PgConnection) -> QueryResult<()> {
    pg.batch_execute(KEEP_WHAT_IS_MADE)
}

/// The schema in which the service works with a lane on its owner node.
pub(crate) fn here(schema: &str) -> String {
    format!("{schema}_here")
}

/// What a node of the engine's is called: its group stays the same whatever server stands for it.
pub(crate) fn node_name(group: i32) -> String {
    format!("citus_{group}")
}

/// The group of a node that is called so.
pub(crate) fn group_of(name: &str) -> Option<i32> {
    name.strip_prefix("citus_")?.parse().ok()
}

/// The engine's nodes but the coordinator: group, server and port.
pub(crate) fn nodes(home: &mut PgConnection) -> QueryResult<Vec<(i32, String, i32)>> {
    ListNodes { coordinator: COORDINATOR }.load(home)
}

/// Whether a group is the coordinator's.
pub(super) fn is_coordinator(group: i32) -> bool {
    group == COORDINATOR
}

/// Where the lanes are that the engine places: the schema, the node's group, its server and port.
pub(super) fn places(home: &mut PgConnection) -> QueryResult<Vec<(String, i32, String, i32)>> {
    ReadPlaces { customers: ".customers".to_owned() }.load(home)
}

/// Gives a lane that nobody is in to the engine.
pub(crate) fn distribute(home: &mut PgConnection, schema: &str) -> QueryResult<()> {
    let references: Vec<String> = ListReferences { schema: schema.to_owned() }.load(home)?;
    home.transaction(|home| {
        home.batch_execute(&references.join("; "))?;
        home.batch_execute(MAKE_ON_NODES)?;
        Distribute { schema: schema.to_owned() }.execute(home).map(drop)
    })
}

/// Has the rest of a session make on nodes what it makes in the lanes that the engine places, or no more.
pub(super) fn make_on_nodes(home: &mut PgConnection, is_to: bool) -> QueryResult<()> {
    match is_to {
        true => home.batch_execute(&MAKE_ON_NODES.replace("SET LOCAL", "SET")),
        false => home.batch_execute(KEEP_WHAT_IS_MADE),
    }
}

/// Moves a lane to the node of this group.
pub(crate) fn move_to(home: &mut PgConnection, schema: &str, group: i32) -> QueryResult<()> {
    MoveSchema { schema: schema.to_owned(), group }.execute(home).map(drop)
}

/// Whether a name is that of a node of the engine's, the coordinator among them.
pub(crate) fn group_named(home: &mut PgConnection, name: Option<&str>) -> QueryResult<Option<i32>> {
    let Some(name) = name else { return Ok(Some(COORDINATOR)) };
    let group = group_of(name);
    Ok(nodes(home)?.into_iter().map(|(known, ..)| known).find(|known| Some(*known) == group))
}

/// Fails, as if nothing of the lane were there, on a node that the lane is not on, or where its views are missing. Whoever writes has a
/// share of the lock that a move takes as a whole before the lane is somewhere else: until the transaction ends it stays.
pub(super) fn expect_here(pg: &mut PgConnection, is_writing: bool) -> QueryResult<()> {
    ExpectHere { is_writing }.get_result::<bool>(pg).map(drop)
}

/// Has the rest of a transaction on the coordinator make on nodes what it makes in a lane.
pub(crate) fn make_in_lane(home: &mut PgConnection, schema: &str) -> QueryResult<()> {
    home.batch_execute(&format!("SET LOCAL search_path = {schema}, public; {MAKE_ON_NODES}"))
}

/// Makes the view of a month's table, unless it exists: on the lane's owner node.
pub(crate) fn show_month(there: &mut PgConnection, schema: &str, month: Month) -> QueryResult<()> {
    arrange::show(there, schema, Some(&month.table()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_known_by_their_groups() {
        #[rustfmt::skip]
        let cases = [
            // name,        group,    why
            ("citus_2",     Some(2),  "the second node"),
            ("citus_",      None,     "no group"),
            ("east",        None,     "a server that was added by hand"),
            ("citus_2_old", None,     "somebody's own"),
        ];
        for (name, group, why) in cases {
            assert_eq!(group_of(name), group, "{why}");
            assert!(group.is_none_or(|group| node_name(group) == name), "{why}");
        }
    }
}
