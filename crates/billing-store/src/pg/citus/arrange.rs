//! What the service works with on a lane's owner node: views of the tables there, and what else a lane has.
//!
//! The engine drops its tables with their views when the lane has moved away; whoever finds it on another node makes them there.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Nullable, Text};

use super::here;
use crate::pg::lock::{LockClass, lock};
use crate::pg::statement::statement;

statement! {
    /// What makes the functions that statements call, and behind them the views, as the coordinator has them, in another schema. Looked at
    /// with the lane's schema first in the path, so that no other is named.
    Describe -> Text {
        "SELECT made.text
        FROM (
            SELECT 1 AS place, proname::text AS name,
                replace(pg_get_functiondef(oid), format('FUNCTION %s.', pronamespace::regnamespace), format('FUNCTION %I.', " there: String as Text; ")) AS text
            FROM pg_proc
            WHERE pronamespace = to_regnamespace(" schema: String as Text; ") AND prorettype <> 'trigger'::regtype
                AND proname !~ 'events_partition'
            UNION ALL
            SELECT 2, relname, format('CREATE VIEW %I.%I AS %s', " also_there: String as Text; ", relname, pg_get_viewdef(oid))
            FROM pg_class
            WHERE relkind = 'v' AND relnamespace = to_regnamespace(" same_schema: String as Text; ")
        ) made
        ORDER BY made.place, made.name"
    }
}

statement! {
    /// What makes the views of a lane's tables, or of one of them; the version of a row is seen where the store looks at it.
    ListShown -> Text {
        "SELECT format('CREATE VIEW %I.%I AS SELECT %skept.* FROM %s kept', " there: String as Text; ", relname,
            CASE relname WHEN 'hot_buckets' THEN 'kept.xmin, ' END, shard_name(logicalrelid, shardid))
        FROM pg_dist_shard JOIN pg_class ON pg_class.oid = logicalrelid
        WHERE relnamespace = to_regnamespace(" schema: String as Text; ") AND relname = coalesce(" only: Option<String> as Nullable<Text>; ", relname)
            AND to_regclass(format('%I.%I', " also_there: String as Text; ", relname)) IS NULL
        ORDER BY relname"
    }
}

statement! {
    /// What has the columns counted on that count rows, behind the greatest number there is.
    ListCounted -> Text {
        "SELECT format('CREATE SEQUENCE %1$I.%2$I; SELECT setval(%3$L, coalesce(max(%4$I), 0) + 1, false) FROM %1$I.%5$I;
                ALTER VIEW %1$I.%5$I ALTER COLUMN %4$I SET DEFAULT nextval(%3$L)',
            place.here, relname || '_' || attname || '_seq', format('%I.%I', place.here, relname || '_' || attname || '_seq'), attname, relname)
        FROM (SELECT " there: String as Text; "::text AS here) place, pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = to_regnamespace(" schema: String as Text; ") AND attidentity <> '' AND relkind IN ('r', 'p')
            AND EXISTS (SELECT FROM pg_dist_shard WHERE logicalrelid = pg_class.oid)
        ORDER BY relname, attname"
    }
}

statement! {
    /// What makes the function by which a transaction begins.
    WriteGuard -> Text {
        "SELECT format('CREATE FUNCTION %1$I.expect_here(is_writing boolean) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = ''4500ms'' AS $guard$
            BEGIN
                IF is_writing THEN
                    -- A share (5) of what a move has as a whole when it changes the place.
                    PERFORM pg_catalog.lock_shard_metadata(5, ARRAY[%2$s]::bigint[]);
                END IF;
                IF to_regclass(%3$L) IS NULL OR NOT EXISTS (
                    SELECT FROM pg_catalog.pg_dist_placement JOIN pg_catalog.pg_dist_local_group USING (groupid)
                    WHERE shardid = %2$s AND shardstate = 1
                ) THEN
                    RAISE EXCEPTION USING ERRCODE = ''undefined_table'', MESSAGE = ''relation customers of %4$I does not exist'';
                END IF;
                RETURN true;
            END
            $guard$', " there: String as Text; ", shardid, format('%I.customers', " also_there: String as Text; "), " schema: String as Text; ")
        FROM pg_dist_shard
        WHERE logicalrelid = to_regclass(format('%I.customers', " same_schema: String as Text; "))"
    }
}

statement! {
    /// Whether this node is the one that a lane is on.
    IsPlacedHere -> Bool {
        "SELECT EXISTS (
            SELECT FROM pg_dist_shard
            JOIN pg_dist_placement placement USING (shardid)
            JOIN pg_dist_local_group USING (groupid)
            WHERE logicalrelid = to_regclass(quote_ident(" schema: String as Text; ") || '.customers') AND placement.shardstate = 1
        )"
    }
}

statement! {
    /// Whether there are the views of a lane, and the function by which a transaction begins.
    IsArranged -> Bool {
        "SELECT to_regclass(quote_ident(" there: String as Text; ") || '.customers') IS NOT NULL
            AND to_regprocedure(quote_ident(" also_there: String as Text; ") || '.expect_here(boolean)') IS NOT NULL"
    }
}

/// Whether the node that a connection is to is the one that the lane is on.
pub(crate) fn is_placed_here(pg: &mut PgConnection, schema: &str) -> QueryResult<bool> {
    IsPlacedHere { schema: schema.to_owned() }.get_result(pg)
}

/// Whether there is on the node what the service works with.
fn is_arranged(pg: &mut PgConnection, schema: &str) -> QueryResult<bool> {
    IsArranged { there: here(schema), also_there: here(schema) }.get_result(pg)
}

/// What else than tables a lane has, by the coordinator: what makes it on a node.
pub(crate) fn describe(home: &mut PgConnection, schema: &str) -> QueryResult<Vec<String>> {
    home.transaction(|home| {
        home.batch_execute(&format!("SET LOCAL search_path = {schema}, public"))?;
        let (there, schema) = (here(schema), schema.to_owned());
        Describe { there: there.clone(), schema: schema.clone(), also_there: there, same_schema: schema }.load(home)
    })
}

/// Makes all of it on the lane's owner node, in its own transaction, if it is not there or is to be made anew; whether it was made. `described` is
/// what the coordinator has said.
pub(crate) fn arrange(
    there: &mut PgConnection,
    schema: &str,
    described: &[String],
    is_anew: bool,
) -> QueryResult<bool> {
    if !is_anew && is_arranged(there, schema)? {
        return Ok(false);
    }
    lock(there, LockClass::Arrangement)?;
    // Others may have waited for the same.
    if !is_anew && is_arranged(there, schema)? {
        return Ok(false);
    }
    let here = here(schema);
    there.batch_execute(&format!(
        "SET LOCAL client_min_messages = warning; SET LOCAL check_function_bodies = off;
        DROP SCHEMA IF EXISTS {here} CASCADE; CREATE SCHEMA {here}; SET LOCAL search_path = {here}, public"
    ))?;
    show(there, schema, None)?;
    let counted: Vec<String> = ListCounted { there: here.clone(), schema: schema.to_owned() }.load(there)?;
    let (also_there, same_schema) = (here.clone(), schema.to_owned());
    let guard = WriteGuard { there: here, also_there, schema: schema.to_owned(), same_schema };
    let guard: Vec<String> = guard.load(there)?;
    counted.iter().chain(described).chain(&guard).try_for_each(|text| there.batch_execute(text))?;
    Ok(true)
}

/// Makes the views of a lane's tables that are missing, or that of one.
pub(super) fn show(there: &mut PgConnection, schema: &str, only: Option<&str>) -> QueryResult<()> {
    let place = here(schema);
    let list =
        ListShown { there: place.clone(), schema: schema.to_owned(), only: only.map(str::to_owned), also_there: place };
    let views: Vec<String> = list.load(there)?;
    views.iter().try_for_each(|view| there.batch_execute(view))
}
