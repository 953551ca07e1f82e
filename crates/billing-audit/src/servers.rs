//! Lanes on other servers: what is in them is copied beside the catalogue, into tables of the session that nobody else sees and that go
//! with its transaction.

use std::collections::HashMap;

use diesel::connection::SimpleConnection;
use diesel::sql_types::{Array, BigInt, Integer, Nullable, SmallInt, Text};
use diesel::{Connection, PgConnection, QueryResult, QueryableByName, RunQueryDsl, sql_query};

use crate::{AuditError, Found};

/// Rows of a lane that are carried at a time, and what asks for them.
const ROWS_AT_ONCE: usize = 5_000;
const FETCH: &str = "FETCH 5000 FROM copied";

/// Every lane, and the server that it is on where that is another.
const DIRECTORY: &str = "
    SELECT lane.number, lane.schema_name, lane.schema_name AS here, node.name, node.host, node.port, node.database_name, node.system_identifier, node.database_number
    FROM lanes lane
    LEFT JOIN nodes node ON node.name = lane.node_name
    ORDER BY lane.number";

/// Whether Citus may have placed lanes.
const HAS_ENGINE: &str = "SELECT count(*) AS count FROM pg_extension WHERE extname = 'citus'";

/// [`DIRECTORY`] where it may: its own tables say where those are. There the service has views of what it keeps their rows in.
const PLACED: &str = "
    SELECT lane.number, lane.schema_name, lane.schema_name || CASE WHEN shard.shardid IS NULL THEN '' ELSE '_here' END AS here, node.name,
        coalesce(engine.nodename, node.host) AS host, coalesce(engine.nodeport, node.port) AS port,
        node.database_name, node.system_identifier, node.database_number
    FROM lanes lane
    LEFT JOIN pg_dist_shard shard ON shard.logicalrelid = to_regclass(quote_ident(lane.schema_name) || '.customers')
    LEFT JOIN pg_dist_placement placement ON placement.shardid = shard.shardid AND placement.shardstate = 1
    LEFT JOIN pg_dist_node engine ON engine.groupid = placement.groupid AND engine.groupid <> 0 AND engine.noderole = 'primary'
    LEFT JOIN nodes node ON node.name = coalesce('citus_' || engine.groupid, lane.node_name)
    ORDER BY lane.number";

/// Values are written as they are read again, whatever the servers are set to.
const SPELLING: &str =
    "SET LOCAL TIME ZONE 'UTC'; SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL intervalstyle = 'postgres';
    SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1; SET LOCAL statement_timeout = 0";

/// Nobody takes a number or an address, or is known to have used it, while this is held: what lanes have used is then among what the
/// catalogue has given out.
const HOLD_RESERVATIONS: &str = "SET LOCAL lock_timeout = '10s'; LOCK TABLE lane_reservations IN SHARE MODE";

/// Which database it is; as the first statement of a transaction it says also as of when everything is seen.
const IDENTITY: &str = "
    SELECT control.system_identifier, pg_database.oid::bigint AS database_number
    FROM pg_control_system() control, pg_database
    WHERE pg_database.datname = current_database()";

/// What is in a schema: tables and views, each with its columns and, besides, what makes its indexes.
const TABLES: &str = r#"
    SELECT relation.relname::text AS name,
        (SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum)
            FROM pg_attribute WHERE attrelid = relation.oid AND attnum > 0 AND NOT attisdropped) AS columns,
        (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
            FROM pg_attribute WHERE attrelid = relation.oid AND attnum > 0 AND NOT attisdropped) AS names,
        (SELECT string_agg(regexp_replace(pg_get_indexdef(indexrelid), '^CREATE (UNIQUE )?INDEX \S+ ON (ONLY )?\S+ ', ''), '; ')
            FROM pg_index WHERE indrelid = relation.oid) AS indexes
    FROM pg_class relation
    WHERE relation.relnamespace = $1::regnamespace
        AND relation.relkind IN ('r', 'p', 'v') AND NOT relation.relispartition AND relation.relname !~ '^__diesel'
    ORDER BY relation.relname"#;

/// A lane and where it is.
#[derive(Clone, Debug, PartialEq, Eq, QueryableByName)]
pub(crate) struct Lane {
    #[diesel(sql_type = SmallInt)]
    number: i16,
    #[diesel(sql_type = Text)]
    pub(crate) schema_name: String,
    /// The schema that its rows are read from.
    #[diesel(sql_type = Text)]
    here: String,
    #[diesel(sql_type = Nullable<Text>)]
    pub(crate) name: Option<String>,
    #[diesel(sql_type = Nullable<Text>)]
    host: Option<String>,
    #[diesel(sql_type = Nullable<Integer>)]
    port: Option<i32>,
    #[diesel(sql_type = Nullable<Text>)]
    database_name: Option<String>,
    #[diesel(sql_type = Nullable<BigInt>)]
    system_identifier: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    database_number: Option<i64>,
}

impl Lane {
    /// The URL that leads to its server, of one that leads to the catalogue; nothing of the directory has to be quoted.
    fn url(&self, catalogue: &str) -> String {
        let is_uri = ["postgresql://", "postgres://"].iter().any(|scheme| catalogue.starts_with(scheme));
        let parameters = [
            ("host", self.host.clone()),
            // A numeric address would be taken before any name.
            ("hostaddr", Some(String::new())),
            ("port", self.port.map(|port| port.to_string())),
            ("dbname", self.database_name.clone()),
        ];
        let mut url = catalogue.to_owned();
        // Of a parameter that is given twice the client library takes the last.
        for (name, value) in parameters {
            let value = value.unwrap_or_default();
            match (is_uri, url.contains('?')) {
                (true, false) => url.push_str(&format!("?{name}={value}")),
                (true, true) => url.push_str(&format!("&{name}={value}")),
                (false, _) => url.push_str(&format!(" {name}='{value}'")),
            }
        }
        url
    }

    /// What its copy of a table is called.
    fn copy_of(&self, table: &str) -> String {
        format!(r#"pg_temp."lane {}: {table}""#, self.number)
    }

    /// What a table of it is called where the audit is done.
    pub(crate) fn table(&self, name: &str) -> String {
        match self.name {
            Some(_) => self.copy_of(name),
            None => format!(r#""{}"."{name}""#, self.here),
        }
    }
}

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

#[derive(QueryableByName)]
struct Identity {
    #[diesel(sql_type = BigInt)]
    system_identifier: i64,
    #[diesel(sql_type = BigInt)]
    database_number: i64,
}

/// A table or a view.
#[derive(QueryableByName)]
pub(crate) struct Table {
    #[diesel(sql_type = Text)]
    pub(crate) name: String,
    #[diesel(sql_type = Text)]
    columns: String,
    /// Of the columns.
    #[diesel(sql_type = Text)]
    names: String,
    #[diesel(sql_type = Nullable<Text>)]
    indexes: Option<String>,
}

impl Table {
    /// Whether each row says whose it is.
    pub(crate) fn names_organizations(&self) -> bool {
        self.columns.split(", ").any(|column| column.starts_with("organization_id "))
    }
}

/// All lanes, in order.
pub(crate) fn directory(pg: &mut PgConnection) -> QueryResult<Vec<Lane>> {
    let engines: Count = sql_query(HAS_ENGINE).get_result(pg)?;
    sql_query(if engines.count == 0 { DIRECTORY } else { PLACED }).load(pg)
}

/// The tables and views of a schema.
pub(crate) fn tables_of(pg: &mut PgConnection, schema: &str) -> QueryResult<Vec<Table>> {
    sql_query(TABLES).bind::<Text, _>(schema).load(pg)
}

/// What is wrong with a node.
fn at_node(name: &str, problem: String) -> AuditError {
    AuditError::Node { node: name.to_owned(), problem }
}

/// Transactions on all servers, which see what there is as of one instant as far as numbers and addresses go: each shows what was
/// committed before the audit began, and what is at work meanwhile may have come as far on one server and not on the next.
pub(crate) struct Servers {
    /// By the node's name.
    nodes: HashMap<String, PgConnection>,
}

impl Servers {
    /// Begins the transactions: that of the catalogue last, which is `pg`'s and may write.
    pub(crate) fn begin(url: &str, pg: &mut PgConnection, lanes: &[Lane]) -> Result<Self, AuditError> {
        let mut nodes: Vec<(&Lane, &String, PgConnection)> = Vec::new();
        // Before anybody has to wait for the audit: a node may be away.
        for lane in lanes {
            let Some(name) = lane.name.as_ref().filter(|name| nodes.iter().all(|(_, known, _)| known != name)) else {
                continue;
            };
            let node = PgConnection::establish(&lane.url(url)).map_err(|error| at_node(name, error.to_string()))?;
            nodes.push((lane, name, node));
        }
        let mut holder = PgConnection::establish(url).map_err(AuditError::Connection)?;
        holder.batch_execute(&format!("BEGIN; {HOLD_RESERVATIONS}"))?;
        for (lane, name, node) in &mut nodes {
            let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SPELLING}");
            let began = node.batch_execute(&begin).and_then(|()| sql_query(IDENTITY).get_result(node));
            let identity: Identity = began.map_err(|error| at_node(name, error.to_string()))?;
            let expected = (lane.system_identifier, lane.database_number);
            if (Some(identity.system_identifier), Some(identity.database_number)) != expected {
                return Err(at_node(name, "its address leads to another database than it should".to_owned()));
            }
        }
        pg.batch_execute(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {SPELLING}"))?;
        // Its snapshot is of before the lock is given back.
        let seen = directory(pg)?;
        holder.batch_execute("ROLLBACK")?;
        match seen == lanes {
            true => Ok(Self { nodes: nodes.into_iter().map(|(_, name, node)| (name.clone(), node)).collect() }),
            false => Err(AuditError::Moving),
        }
    }

    /// The transactions on the nodes.
    pub(crate) fn connections(&mut self) -> impl Iterator<Item = &mut PgConnection> {
        self.nodes.values_mut()
    }

    /// Copies what is in the lanes that are not in the catalogue's database, of each table the rows that `condition` names; `pg` may only
    /// read from then on. The tables that each lane has.
    pub(crate) fn copy(
        &mut self,
        pg: &mut PgConnection,
        lanes: &[Lane],
        condition: &dyn Fn(&Table) -> String,
    ) -> Result<Vec<Table>, AuditError> {
        let mut all = Vec::new();
        for lane in lanes {
            let Some(node) = lane.name.as_ref().and_then(|name| self.nodes.get_mut(name)) else {
                all = tables_of(pg, &lane.schema_name)?;
                continue;
            };
            all = tables_of(node, &lane.schema_name)?;
            for table in &all {
                copy_table((node, pg), lane, table, &condition(table))?;
            }
        }
        pg.batch_execute("SET TRANSACTION READ ONLY")?;
        Ok(all)
    }
}

/// Copies a table or a view of a lane with its indexes, without which what is looked up row by row would take for ever.
fn copy_table(
    (node, pg): (&mut PgConnection, &mut PgConnection),
    lane: &Lane,
    table: &Table,
    condition: &str,
) -> QueryResult<()> {
    let copy = lane.copy_of(&table.name);
    pg.batch_execute(&format!(
        "CREATE TEMP TABLE {} ({}) ON COMMIT DROP",
        copy.trim_start_matches("pg_temp."),
        table.columns
    ))?;
    let original = format!(r#"(SELECT {} FROM "{}"."{}")"#, table.names, lane.here, table.name);
    node.batch_execute(&format!(
        "DECLARE copied NO SCROLL CURSOR FOR SELECT original::text AS subject, '' AS problem FROM {original} original{condition}"
    ))?;
    loop {
        let rows: Vec<Found> = sql_query(FETCH).load(node)?;
        let count = rows.len();
        let rows: Vec<String> = rows.into_iter().map(|row| row.subject).collect();
        let insert = format!(
            "INSERT INTO {copy} SELECT (read).* FROM (SELECT written::{copy} AS read FROM unnest($1) written OFFSET 0) row"
        );
        sql_query(insert).bind::<Array<Text>, _>(rows).execute(pg)?;
        if count < ROWS_AT_ONCE {
            break;
        }
    }
    node.batch_execute("CLOSE copied")?;
    for index in table.indexes.iter().flat_map(|indexes| indexes.split("; ")) {
        pg.batch_execute(&format!("CREATE INDEX ON {copy} {index}"))?;
    }
    pg.batch_execute(&format!("ANALYZE {copy}"))
}
