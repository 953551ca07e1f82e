//! The statements of a split. Names of tables come from the catalogue of Postgres, quoted by it; nothing of a caller's is in them.

use std::fmt;
use std::ops::AddAssign;

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable, Numeric, Text};

use bigdecimal::BigDecimal;
use billing_domain::StoreError;

use super::{ASIDE, keys};
use crate::pg::error::Failure;
use crate::pg::month::Month;
use crate::pg::partition;
use crate::pg::statement::statement;

/// Rows of what is moved aside that are no customer's: each lane gets all of them.
const SHARED_OUT: &str = "event_names";
/// Rows that are a key range's.
const BY_KEY_RANGE: &str = "event_arrivals";
/// Sums of what customers own, and how those of a lane are added up anew.
const ADDED_UP: [(&str, &str); 2] = [
    (
        "invoiced_hours",
        "INSERT INTO {name} (organization_id, hour, currency_code, writer, amount)
        SELECT invoice.organization_id, date_trunc('hour', invoice.issued_at, 'UTC'), invoice.currency_code, 0, sum(invoice.amount)
        FROM {aside}.invoices invoice
        JOIN {aside}.customers customer USING (customer_key)
        WHERE customer_key BETWEEN '{first}' AND '{last}'
            AND invoice.payment_status <> 'voided' AND customer.test_clock_id IS NULL
        GROUP BY 1, 2, 3",
    ),
    (
        "subscription_counts",
        "INSERT INTO {name} (organization_id, at, plan_version_id, writer, starts, ends)
        SELECT subscription.organization_id, counted.at, subscription.plan_version_id, 0, sum(counted.starts), sum(counted.ends)
        FROM {aside}.subscriptions subscription
        JOIN {aside}.customers customer USING (customer_key)
        CROSS JOIN LATERAL (VALUES
            (subscription.start_at, 1, 0),
            (quarter_of_hour_before(subscription.end_at - interval '1 microsecond') + interval '15 minutes', 0, 1)
        ) AS counted (at, starts, ends)
        WHERE customer_key BETWEEN '{first}' AND '{last}'
            AND customer.test_clock_id IS NULL AND counted.at > statement_timestamp()
        GROUP BY 1, 2, 3",
    ),
];
/// Of lanes that are on nodes, and a lane that is divided is on none; what is found again when it is looked for.
const EMPTY: [&str; 2] = ["lane_tokens", "usage_alert_headroom"];
/// The table that is divided by months.
const BY_MONTH: &str = "events";

statement! {
    /// The tables of a schema, what refers behind what it refers to: how deep that goes, the columns that are written, and the
    /// column that numbers its rows by itself.
    ListTables -> (Text, Text, Nullable<Text>, Bool) {
        "WITH RECURSIVE owned AS (
            SELECT oid, relname FROM pg_class
            WHERE relnamespace = to_regnamespace(" schema: String as Text; ") AND relkind IN ('r', 'p') AND NOT relispartition
                AND relname !~ '^__diesel'
        ), depth AS (
            SELECT oid, relname, 0 AS depth FROM owned
            UNION
            SELECT key.conrelid, source.relname, depth.depth + 1
            FROM depth
            JOIN pg_constraint key ON key.confrelid = depth.oid AND key.contype = 'f' AND key.conrelid <> depth.oid
            JOIN owned source ON source.oid = key.conrelid
        )
        SELECT quote_ident(owned.relname),
            (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
                WHERE attrelid = owned.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''),
            (SELECT attname::text FROM pg_attribute WHERE attrelid = owned.oid AND attidentity <> '' AND NOT attisdropped),
            EXISTS (SELECT FROM pg_attribute WHERE attrelid = owned.oid AND attname = 'customer_key' AND NOT attisdropped)
        FROM owned
        ORDER BY (SELECT max(depth.depth) FROM depth WHERE depth.oid = owned.oid), owned.relname"
    }
}

statement! {
    /// What moves all tables, views and functions aside that a lane has under the same names.
    MoveAside -> Text {
        "SELECT format('ALTER %s %s SET SCHEMA ', CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, oid::regclass)
            || " aside: String as Text; "
        FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v') AND relname !~ '^__diesel'
            AND (
                oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('public.events'))
                OR relname IN (SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(" lane: String as Text; ") AND NOT relispartition)
            )
        UNION ALL
        SELECT format('ALTER FUNCTION %s SET SCHEMA ', own.oid::regprocedure) || " aside_again: String as Text; "
        FROM pg_proc own
        WHERE pronamespace = 'public'::regnamespace
            AND EXISTS (SELECT FROM pg_proc lane WHERE lane.pronamespace = to_regnamespace(" lane_again: String as Text; ") AND lane.proname = own.proname)"
    }
}

statement! {
    /// Notes that a part is copied; none: it is already.
    BeginPart -> Text {
        "INSERT INTO splitting.copied (lane, part) VALUES (" lane: i64 as BigInt; ", " part: String as Text; ") ON CONFLICT DO NOTHING RETURNING part"
    }
}

/// A table of what customers own.
pub(crate) struct Table {
    /// Quoted, where it has to be.
    pub(crate) name: String,
    columns: String,
    identity: Option<String>,
    has_customers: bool,
}

/// What is copied at once: a table, or a month of it.
pub(super) struct Part<'t> {
    table: &'t Table,
    pub(super) name: String,
    month: Option<Month>,
}

/// The number of rows, and a sum that another content of any of them would change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    rows: i64,
    sum: BigDecimal,
}

impl AddAssign for Digest {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.sum += other.sum;
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows with the digest {}", self.rows, self.sum)
    }
}

/// All tables of a lane, what refers behind what it refers to.
pub(crate) fn all_tables(pg: &mut PgConnection, lane: &str) -> QueryResult<Vec<Table>> {
    let rows: Vec<(String, String, Option<String>, bool)> = ListTables { schema: lane.to_owned() }.load(pg)?;
    let table = |(name, columns, identity, has_customers)| Table { name, columns, identity, has_customers };
    Ok(rows.into_iter().map(table).collect())
}

/// Those of them that are divided or shared out.
pub(super) fn tables(pg: &mut PgConnection, lane: &str) -> Result<Vec<Table>, Failure> {
    let mut tables = all_tables(pg, lane)?;
    tables.retain(|table| !EMPTY.contains(&table.name.as_str()));
    let is_known = |table: &&Table| {
        table.has_customers || [SHARED_OUT, BY_KEY_RANGE].contains(&table.name.as_str()) || table.added_up().is_some()
    };
    match tables.iter().find(|table| !is_known(table)) {
        // Whoever adds such a table says here how it is divided.
        Some(table) => Err(StoreError::Internal(format!("nobody says how {} is divided", table.name)).into()),
        None => Ok(tables),
    }
}

/// Moves what customers own aside, where no process looks, and empties the directory.
pub(super) fn move_aside(pg: &mut PgConnection, lane: &str, lanes: usize) -> QueryResult<()> {
    // No month is made from here on.
    pg.batch_execute("LOCK TABLE public.events IN ACCESS EXCLUSIVE MODE")?;
    let find = MoveAside {
        aside: ASIDE.to_owned(),
        lane: lane.to_owned(),
        aside_again: ASIDE.to_owned(),
        lane_again: lane.to_owned(),
    };
    let moves: Vec<String> = find.load(pg)?;
    pg.batch_execute(&format!(
        "CREATE SCHEMA splitting;
        CREATE TABLE splitting.copied (lane bigint, part text, PRIMARY KEY (lane, part));
        CREATE TABLE splitting.into_lanes AS SELECT {lanes}::bigint AS lanes;
        DELETE FROM lanes"
    ))?;
    pg.batch_execute(&moves.join("; "))
}

statement! {
    /// Into how many lanes a split was begun.
    ReadLanes -> BigInt { "SELECT lanes FROM splitting.into_lanes" }
}

/// Refuses to go on with a split into another number of lanes than it was begun with.
pub(super) fn expect_lanes(pg: &mut PgConnection, lanes: usize) -> Result<(), Failure> {
    match (ReadLanes {}).get_result::<i64>(pg)? {
        begun if begun == lanes as i64 => Ok(()),
        begun => Err(StoreError::Internal(format!("a split into {begun} lanes was begun: end that one first")).into()),
    }
}

/// Notes that a part of a lane is copied; false: it is already.
pub(super) fn begin_part(pg: &mut PgConnection, lane: usize, part: &str) -> QueryResult<bool> {
    let begin = BeginPart { lane: lane as i64, part: part.to_owned() };
    Ok(begin.get_result::<String>(pg).optional()?.is_some())
}

impl Table {
    /// Whether each row is one customer's, and so in one lane.
    pub(super) fn is_divided(&self) -> bool {
        self.has_customers
    }

    fn added_up(&self) -> Option<&'static str> {
        ADDED_UP.iter().find_map(|(table, statement)| (*table == self.name).then_some(*statement))
    }

    /// What is copied at once, of what is aside.
    pub(super) fn parts(&self, pg: &mut PgConnection, aside: &str) -> QueryResult<Vec<Part<'_>>> {
        if self.name != BY_MONTH {
            return Ok(vec![Part { table: self, name: self.name.clone(), month: None }]);
        }
        pg.batch_execute(&crate::pg::place::search_path(aside))?;
        let months = partition::list(pg);
        pg.batch_execute("SET search_path = public")?;
        let part = |month: Month| Part { table: self, name: month.table(), month: Some(month) };
        Ok(months?.into_iter().map(part).collect())
    }

    /// Has rows come as they are: what triggers keep right is right already.
    pub(super) fn without_triggers(&self) -> String {
        format!("ALTER TABLE {} DISABLE TRIGGER USER", self.name)
    }

    /// Has triggers watch the table again, and numbers go on behind those that were copied.
    pub(crate) fn complete(&self, pg: &mut PgConnection) -> QueryResult<()> {
        let name = &self.name;
        pg.batch_execute(&format!("ALTER TABLE {name} ENABLE TRIGGER USER"))?;
        if let Some(column) = &self.identity {
            pg.batch_execute(&format!(
                "SELECT setval(pg_get_serial_sequence('{name}', '{column}'), coalesce(max(\"{column}\"), 0) + 1, false) FROM {name}"
            ))?;
        }
        Ok(())
    }
}

impl Part<'_> {
    /// Makes the month, where it is one.
    pub(super) fn prepare(&self, pg: &mut PgConnection) -> QueryResult<()> {
        self.month.map_or(Ok(()), |month| partition::create(pg, month))
    }

    /// What copies it into a lane, in which the connection looks first.
    pub(super) fn copy(&self, aside: &str, number: usize, bits: u8) -> String {
        let (Self { name, .. }, Table { columns, .. }) = (self, self.table);
        let (first, last) = keys(number, bits);
        if self.table.has_customers {
            return format!(
                "INSERT INTO {name} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {aside}.{name}
                WHERE customer_key BETWEEN '{first}' AND '{last}'"
            );
        }
        if self.table.name == BY_KEY_RANGE {
            // Ranges become parts of ranges where there are more lanes than those: each goes on from where the whole one was.
            return format!(
                "INSERT INTO {name} (organization_id, key_range, last_arrival)
                SELECT organization_id, part, last_arrival
                FROM {aside}.{name}, ingest_key_ranges,
                    generate_series(
                        key_range << greatest({bits} - range_bits, 0), ((key_range + 1) << greatest({bits} - range_bits, 0)) - 1
                    ) part
                WHERE part >> (greatest({bits}, range_bits) - {bits}) = {number}"
            );
        }
        if let Some(added_up) = self.table.added_up() {
            let named = [
                ("{name}", name.clone()),
                ("{aside}", aside.to_owned()),
                ("{first}", first.to_string()),
                ("{last}", last.to_string()),
            ];
            return named.iter().fold(added_up.to_owned(), |text, (hole, value)| text.replace(hole, value));
        }
        format!("INSERT INTO {name} ({columns}) SELECT {columns} FROM {aside}.{name}")
    }
}

#[derive(QueryableByName)]
struct DigestRow {
    #[diesel(sql_type = BigInt)]
    rows: i64,
    #[diesel(sql_type = Nullable<Numeric>)]
    sum: Option<BigDecimal>,
}

/// The digest of a table's rows in a schema.
pub(crate) fn digest(pg: &mut PgConnection, table: &Table, schema: &str) -> QueryResult<Digest> {
    let Table { name, columns, .. } = table;
    let sql = format!(
        "SELECT count(*) AS rows, sum(('x' || left(md5(ROW({columns})::text), 15))::bit(60)::bigint::numeric) AS sum
        FROM {schema}.{name}"
    );
    let row: DigestRow = diesel::sql_query(sql).get_result(pg)?;
    Ok(Digest { rows: row.rows, sum: row.sum.unwrap_or_default() })
}
