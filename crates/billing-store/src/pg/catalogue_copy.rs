//! The copy of the catalogue that a node has: what home sends, and where the node keeps the tables that stay at home.

use billing_domain::StoreError;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Array, Bool, Text};

use super::error::Failure;
use super::node::{self, Node};
use super::statement::statement;
use super::url;

/// The tables of the catalogue that every node has a copy of. All others are asked for at home.
const COPIED: [&str; 18] = [
    "api_keys",
    "catalog_versions",
    "catalogue_position",
    "components",
    "currencies",
    "features",
    "ingest_key_ranges",
    "ingest_versions",
    "metric_rollups",
    "metrics",
    "organizations",
    "plan_version_features",
    "plan_version_targets",
    "plan_versions",
    "plans",
    "recurring_charges",
    "test_clocks",
    "usage_alerts",
];

/// What is written in one way where all events are in one database, and in another where they are not: each table with the changes.
const REFUSED_UNKNOWING: [(&str, &str); 2] =
    [("metric_rollups", "INSERT OR UPDATE"), ("usage_alerts", "UPDATE OF is_introduced")];

/// What home sends to nodes, and what a node takes from home.
pub(crate) const SUBSCRIPTION: &str = "billing_catalogue";
/// Where a node has the tables that stay at home: no connection looks there but that of a migration.
const AT_HOME: &str = "billing_at_home";

statement! {
    /// The tables of the catalogue but for some.
    ListTables -> Text {
        "SELECT relname::text FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname !~ '^__diesel'
            AND relname <> ALL (" but: Vec<String> as Array<Text>; ")
        ORDER BY relname"
    }
}

statement! {
    /// The names of the triggers that call one of some functions where ordinary changes fire them.
    ListTriggers -> Text {
        "SELECT tgname::text FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid
        WHERE tgenabled = 'O' AND pronamespace = 'public'::regnamespace AND proname = ANY (" functions: Vec<String> as Array<Text>; ")"
    }
}

statement! {
    /// The tables that home sends.
    ListPublished -> Text { "SELECT tablename::text FROM pg_publication_tables WHERE pubname = " name: String as Text; "" }
}

statement! {
    /// Whether home sends the catalogue to anybody.
    HasPublication -> Bool { "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = " name: String as Text; ")" }
}

statement! {
    /// Tables that a node takes from home.
    ListTaken -> Text {
        "SELECT srrelid::regclass::text FROM pg_subscription_rel JOIN pg_subscription ON pg_subscription.oid = srsubid
        WHERE subname = " name: String as Text; " AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
    }
}

statement! {
    /// Whether there is a table.
    HasTable -> Bool { "SELECT to_regclass(" name: String as Text; ") IS NOT NULL" }
}

/// Every node; none where the catalogue is older than they are.
pub(crate) fn all_nodes(home: &mut PgConnection) -> QueryResult<Vec<Node>> {
    match (HasTable { name: "public.nodes".to_owned() }).get_result(home)? {
        true => node::all(home),
        false => Ok(Vec::new()),
    }
}

/// A connection to a node that looks for the catalogue's tables, those that stay at home among them.
pub(crate) fn connect(home_url: &str, node: &Node) -> Result<PgConnection, StoreError> {
    let mut there = url::connect(&node.place().url(home_url))?;
    node.identity().expect(&mut there).map_err(Failure::into_store_error)?;
    let path = there.batch_execute(&format!(
        "SET search_path = public, {AT_HOME}; SET client_min_messages = warning; SET citus.enable_ddl_propagation = off"
    ));
    path.map_err(|error| Failure::from(error).into_store_error())?;
    Ok(there)
}

/// Makes a database that has the catalogue's tables into one for a copy of it, or has it stay one behind a migration.
pub(crate) fn prepare(pg: &mut PgConnection, is_subscribed: bool) -> Result<(), Failure> {
    pg.batch_execute(&format!("SET LOCAL client_min_messages = warning; CREATE SCHEMA IF NOT EXISTS {AT_HOME}"))?;
    let but = COPIED.map(str::to_owned).to_vec();
    for table in (ListTables { but }).load::<String>(pg)? {
        pg.batch_execute(&format!("ALTER TABLE public.{table} SET SCHEMA {AT_HOME}"))?;
    }
    if !is_subscribed {
        // Migrations have left some rows, and a copy begins with none.
        let all: Vec<String> = COPIED.iter().map(|table| format!("public.{table}")).collect();
        pg.batch_execute(&format!("TRUNCATE {} CASCADE", all.join(", ")))?;
    }
    let known: Vec<String> = ListTriggers { functions: vec!["refuse_catalogue_change".to_owned()] }.load(pg)?;
    for table in COPIED.iter().filter(|table| !known.contains(&format!("{table}_is_copied"))) {
        pg.batch_execute(&format!(
            "CREATE TRIGGER {table}_is_copied BEFORE INSERT OR UPDATE OR DELETE ON public.{table}
            FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_catalogue_change()"
        ))?;
    }
    Ok(())
}

/// Has home send the catalogue, count its changes, and refuse those of whoever does not know of nodes.
pub(crate) fn publish(pg: &mut PgConnection) -> Result<(), Failure> {
    // Whoever changes the catalogue is waited for.
    pg.batch_execute("SET LOCAL lock_timeout = '10s'; SET LOCAL client_min_messages = warning")?;
    let functions = ["advance_catalogue_position", "refuse_without_nodes"].map(str::to_owned).to_vec();
    let known: Vec<String> = ListTriggers { functions }.load(pg)?;
    for table in COPIED.iter().filter(|table| **table != "catalogue_position") {
        if !known.contains(&format!("{table}_position")) {
            pg.batch_execute(&format!(
                "CREATE CONSTRAINT TRIGGER {table}_position AFTER INSERT OR UPDATE OR DELETE ON public.{table}
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.advance_catalogue_position()"
            ))?;
        }
    }
    for (table, changes) in REFUSED_UNKNOWING {
        if !known.contains(&format!("{table}_without_nodes")) {
            pg.batch_execute(&format!(
                "CREATE TRIGGER {table}_without_nodes BEFORE {changes} ON public.{table}
                FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_without_nodes()"
            ))?;
        }
    }
    if !(HasPublication { name: SUBSCRIPTION.to_owned() }).get_result::<bool>(pg)? {
        pg.batch_execute(&format!("CREATE PUBLICATION {SUBSCRIPTION}"))?;
    }
    let sent: Vec<String> = ListPublished { name: SUBSCRIPTION.to_owned() }.load(pg)?;
    for table in COPIED.iter().filter(|table| !sent.iter().any(|known| known == *table)) {
        pg.batch_execute(&format!("ALTER PUBLICATION {SUBSCRIPTION} ADD TABLE public.{table}"))?;
    }
    Ok(())
}

/// Has a node take the tables that home sends by now and did not send before.
pub(crate) fn take_new(there: &mut PgConnection) -> QueryResult<()> {
    let taken: Vec<String> = ListTaken { name: SUBSCRIPTION.to_owned() }.load(there)?;
    // Nothing is taken yet where a node is still being added.
    if taken.is_empty() || COPIED.iter().all(|table| taken.iter().any(|known| known == table)) {
        return Ok(());
    }
    there.batch_execute(&format!("ALTER SUBSCRIPTION {SUBSCRIPTION} REFRESH PUBLICATION"))
}
