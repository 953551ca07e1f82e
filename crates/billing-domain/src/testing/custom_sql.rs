//! Texts that are no custom queries: every way known to us to make a database do something else.

/// Name and text of each attack. All must be refused when a metric is created.
#[rustfmt::skip]
pub const ATTACKS: &[(&str, &str)] = &[
    // Another statement.
    ("drop table", "DROP TABLE events"),
    ("second statement", "SELECT COUNT(*) AS usage_qty FROM events; DROP TABLE events"),
    ("commit and go on", "SELECT 1 AS usage_qty; COMMIT; BEGIN; SET TRANSACTION READ WRITE; CREATE TEMP TABLE t (i int)"),
    ("delete", "DELETE FROM events"),
    ("insert", "INSERT INTO events VALUES (1)"),
    ("update", "UPDATE events SET event_name = 'x'"),
    ("truncate", "TRUNCATE events"),
    ("copy to a program", "COPY (SELECT 1) TO PROGRAM 'sh'"),
    ("do block", "DO $$ BEGIN PERFORM pg_sleep(10); END $$"),
    ("set role", "SET ROLE postgres"),
    ("explain analyze", "EXPLAIN ANALYZE SELECT COUNT(*) AS usage_qty FROM events"),
    ("prepare", "PREPARE p AS SELECT 1"),
    ("table command", "TABLE invoices"),
    ("values", "VALUES (1)"),
    ("create function", "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'"),
    ("listen", "LISTEN x"),
    ("lock table", "LOCK TABLE events"),
    // A change inside of a query.
    ("data-modifying with", "WITH x AS (DELETE FROM events RETURNING *) SELECT COUNT(*) AS usage_qty FROM x"),
    ("insert in with", "WITH x AS (INSERT INTO events DEFAULT VALUES RETURNING 1) SELECT COUNT(*) AS usage_qty FROM x"),
    ("select into", "SELECT COUNT(*) AS usage_qty INTO stolen FROM events"),
    ("for update", "SELECT COUNT(*) AS usage_qty FROM events FOR UPDATE"),
    // Another relation.
    ("another table", "SELECT COUNT(*) AS usage_qty FROM invoices"),
    ("a partition", "SELECT COUNT(*) AS usage_qty FROM events_2026_01"),
    ("with a schema", "SELECT COUNT(*) AS usage_qty FROM public.events"),
    ("system catalogue", "SELECT COUNT(*) AS usage_qty FROM pg_catalog.pg_authid"),
    ("information schema", "SELECT COUNT(*) AS usage_qty FROM information_schema.tables"),
    ("activity", "SELECT COUNT(*) AS usage_qty FROM pg_stat_activity"),
    ("join", "SELECT COUNT(*) AS usage_qty FROM events JOIN customers ON true"),
    ("comma join", "SELECT COUNT(*) AS usage_qty FROM events, api_keys"),
    ("cross join of itself", "SELECT COUNT(*) AS usage_qty FROM events a, events b, events c"),
    ("lateral", "SELECT COUNT(*) AS usage_qty FROM LATERAL (SELECT * FROM events) e"),
    ("materialized set_config", "WITH x AS MATERIALIZED (SELECT set_config('app.org', '2', true) s) SELECT COUNT(*) AS usage_qty FROM x, LATERAL (SELECT * FROM events WHERE x.s IS NOT NULL) e"),
    ("set-returning function", "SELECT COUNT(*) AS usage_qty FROM generate_series(1, 1000000000)"),
    ("unnest", "SELECT COUNT(*) AS usage_qty FROM unnest(ARRAY[1, 2])"),
    ("rows from", "SELECT COUNT(*) AS usage_qty FROM ROWS FROM (generate_series(1, 10)) AS r"),
    ("json_table", "SELECT COUNT(*) AS usage_qty FROM JSON_TABLE('[]', '$[*]' COLUMNS (a int PATH '$'))"),
    ("tablesample", "SELECT COUNT(*) AS usage_qty FROM events TABLESAMPLE SYSTEM (1)"),
    ("only", "SELECT COUNT(*) AS usage_qty FROM ONLY events"),
    ("sub-query on another table", "SELECT (SELECT COUNT(*) FROM api_keys) AS usage_qty FROM events"),
    ("exists on another table", "SELECT COUNT(*) AS usage_qty FROM events WHERE EXISTS (SELECT 1 FROM api_keys)"),
    ("in on another table", "SELECT COUNT(*) AS usage_qty FROM events WHERE event_name IN (SELECT digest FROM api_keys)"),
    ("union", "SELECT COUNT(*) AS usage_qty FROM events UNION SELECT COUNT(*) FROM api_keys"),
    ("except", "SELECT COUNT(*) AS usage_qty FROM events EXCEPT SELECT 1"),
    ("with another meaning of events", "WITH events AS (SELECT * FROM api_keys) SELECT COUNT(*) AS usage_qty FROM events"),
    ("recursion", "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT MAX(n) AS usage_qty FROM x"),
    // A function.
    ("pg_sleep", "SELECT pg_sleep(10) AS usage_qty FROM events"),
    ("sleep in where", "SELECT COUNT(*) AS usage_qty FROM events WHERE pg_sleep(10) IS NULL"),
    ("set_config", "SELECT set_config('statement_timeout', '0', false) AS usage_qty FROM events"),
    ("current_setting", "SELECT COUNT(current_setting('data_directory')) AS usage_qty FROM events"),
    ("query_to_xml", "SELECT COUNT(query_to_xml('select * from api_keys', true, true, '')) AS usage_qty FROM events"),
    ("lo_create", "SELECT lo_create(0) AS usage_qty FROM events"),
    ("advisory lock", "SELECT COUNT(pg_advisory_lock(42)) AS usage_qty FROM events"),
    ("notify", "SELECT COUNT(pg_notify('a', 'b')) AS usage_qty FROM events"),
    ("terminate", "SELECT COUNT(pg_terminate_backend(1)) AS usage_qty FROM events"),
    ("read a file", "SELECT COUNT(pg_read_file('/etc/passwd')) AS usage_qty FROM events"),
    ("dblink", "SELECT COUNT(dblink('host=evil', 'select 1')) AS usage_qty FROM events"),
    ("function with a schema", "SELECT pg_catalog.count(*) AS usage_qty FROM events"),
    ("quoted function", "SELECT \"pg_sleep\"(10) AS usage_qty FROM events"),
    ("call by name", "SELECT COUNT(pg_sleep(secs => 10)) AS usage_qty FROM events"),
    ("repeat", "SELECT COUNT(repeat('x', 900000000)) AS usage_qty FROM events"),
    ("format", "SELECT COUNT(format('%I', 'x')) AS usage_qty FROM events"),
    ("without brackets", "SELECT COUNT(current_user) AS usage_qty FROM events"),
    ("string_agg", "SELECT COUNT(string_agg(event_name, ',')) AS usage_qty FROM events"),
    ("order inside", "SELECT SUM(1 ORDER BY pg_sleep(1)) AS usage_qty FROM events"),
    ("filter inside", "SELECT COUNT(*) FILTER (WHERE pg_sleep(1) IS NULL) AS usage_qty FROM events"),
    ("within group", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY 1) AS usage_qty FROM events"),
    ("sleep in a window", "SELECT SUM(1) OVER (ORDER BY pg_sleep(1)) AS usage_qty FROM events"),
    ("named window", "SELECT SUM(1) OVER w AS usage_qty FROM events WINDOW w AS (ORDER BY pg_sleep(1))"),
    ("limit", "SELECT COUNT(*) AS usage_qty FROM events LIMIT (SELECT pg_sleep(1))"),
    ("order by", "SELECT COUNT(*) AS usage_qty FROM events ORDER BY pg_sleep(1)"),
    // Signs and types.
    ("regclass", "SELECT COUNT('api_keys'::regclass) AS usage_qty FROM events"),
    ("cast to bytea", "SELECT COUNT(CAST('x' AS bytea)) AS usage_qty FROM events"),
    ("cast to xml", "SELECT COUNT('<x/>'::xml) AS usage_qty FROM events"),
    ("operator as a function", "SELECT 1 OPERATOR(pg_catalog.+) 1 AS usage_qty FROM events"),
    ("regular expression", "SELECT COUNT(*) AS usage_qty FROM events WHERE event_name ~ '(a+)+$'"),
    ("similar to", "SELECT COUNT(*) AS usage_qty FROM events WHERE event_name SIMILAR TO '(a|b)*'"),
    ("concatenation", "SELECT COUNT(event_name || event_name) AS usage_qty FROM events"),
    ("power", "SELECT 9 ^ 999999 AS usage_qty FROM events"),
    ("json path", "SELECT COUNT(properties @? '$.a') AS usage_qty FROM events"),
    ("json arrow", "SELECT COUNT(properties -> 'a') AS usage_qty FROM events"),
    ("computed key", "SELECT COUNT(properties ->> event_name) AS usage_qty FROM events"),
    ("array", "SELECT COUNT(ARRAY[1, 2]) AS usage_qty FROM events"),
    ("subscript", "SELECT COUNT(properties['a']) AS usage_qty FROM events"),
    ("fields of a row", "SELECT (events).* AS usage_qty FROM events"),
    ("whole row", "SELECT COUNT(events) AS usage_qty FROM events"),
    ("row constructor", "SELECT COUNT(ROW(1, 2)) AS usage_qty FROM events"),
    ("any", "SELECT COUNT(*) AS usage_qty FROM events WHERE event_name = ANY ('{a}')"),
    ("system column", "SELECT COUNT(ctid) AS usage_qty FROM events"),
    ("table oid", "SELECT MAX(tableoid) AS usage_qty FROM events"),
    ("the organization", "SELECT COUNT(organization_id) AS usage_qty FROM events"),
    ("a parameter", "SELECT $1 AS usage_qty FROM events"),
    ("a named parameter", "SELECT :a AS usage_qty FROM events"),
    ("collation", "SELECT COUNT(event_name COLLATE \"C\") AS usage_qty FROM events"),
    ("time zone", "SELECT COUNT(time_created AT TIME ZONE 'UTC') AS usage_qty FROM events"),
    ("extract", "SELECT EXTRACT(EPOCH FROM time_created) AS usage_qty FROM events"),
    // Spelling.
    ("comment to the end", "SELECT COUNT(*) AS usage_qty FROM events -- and no further"),
    ("comment inside", "SELECT COUNT(*) AS usage_qty FROM/**/events"),
    ("nested comment", "SELECT COUNT(*) AS usage_qty FROM events /* /* */ ; DROP TABLE events */"),
    ("version comment", "SELECT COUNT(*) AS usage_qty FROM events /*! ; DROP TABLE events */"),
    ("dollar quotes", "SELECT COUNT($$x$$) AS usage_qty FROM events"),
    ("tagged dollar quotes", "SELECT COUNT($a$x$a$) AS usage_qty FROM events"),
    ("escape string", "SELECT COUNT(E'\\x27') AS usage_qty FROM events"),
    ("unicode string", "SELECT COUNT(U&'\\0027') AS usage_qty FROM events"),
    ("unicode identifier", "SELECT COUNT(*) AS usage_qty FROM U&\"\\0061pi_keys\""),
    ("hexadecimal string", "SELECT COUNT(X'27') AS usage_qty FROM events"),
    ("bit string", "SELECT COUNT(B'01') AS usage_qty FROM events"),
    ("national string", "SELECT COUNT(N'x') AS usage_qty FROM events"),
    ("backticks", "SELECT COUNT(*) AS usage_qty FROM `events`"),
    ("square brackets", "SELECT COUNT(*) AS usage_qty FROM [events]"),
    ("full-width letters", "SELECT COUNT(*) AS usage_qty FROM \u{ff45}vents"),
    ("quote in an identifier", "SELECT COUNT(*) AS \"usage_qty\"\"; DROP TABLE events; --\" FROM events"),
    ("open string", "SELECT COUNT(*) AS usage_qty FROM events WHERE event_name = 'x"),
    ("a backslash alone", "SELECT COUNT(*) AS usage_qty FROM events WHERE event_name LIKE 'x\\'"),
    ("meta command", "\\! sh"),
    // Results that are none.
    ("no column of the name", "SELECT COUNT(*) FROM events"),
    ("two columns", "SELECT COUNT(*) AS usage_qty, 1 AS other FROM events"),
    ("a text", "SELECT MAX(event_name) AS usage_qty FROM events"),
    ("negative", "SELECT -1 - COUNT(*) AS usage_qty FROM events"),
    ("not finite", "SELECT COUNT(*) / COUNT(*) AS usage_qty FROM events"),
    ("nothing", ""),
    ("spaces", "  \n "),
];

/// A chain of queries, each `step` over the one before: `WITH t0 AS (..), t1 AS (<step>0), ..`.
pub fn chain(steps: usize, step: &str) -> String {
    let step = |n: usize| format!(", t{n} AS ({})", step.replace("FROM t", &format!("FROM t{}", n - 1)));
    let named: String = (1..=steps).map(step).collect();
    format!("WITH t0 AS (SELECT COUNT(*) AS a FROM events){named} SELECT a AS usage_qty FROM t{steps}")
}

/// Queries in brackets, each with the column `output` over the one inside of it.
pub fn nested(levels: usize, output: &str) -> String {
    let first = "SELECT COUNT(*) AS a FROM events".to_owned();
    let from = (0..levels).fold(first, |from, _| format!("SELECT {output} AS a FROM ({from}) AS t"));
    format!("SELECT a AS usage_qty FROM ({from}) AS t")
}

/// One text so many times, with commas.
fn times(count: usize, text: &str) -> String {
    vec![text; count].join(", ")
}

/// An expression around an expression, so many times; `@` stands for the one inside.
fn around(times: usize, outer: &str) -> String {
    (0..times).fold("a".to_owned(), |inner, _| outer.replace('@', &inner))
}

/// A short query that says much.
pub struct Costly {
    /// What it does.
    pub name: &'static str,
    /// Its text.
    pub sql: String,
    /// Whether it is too large to be made a metric of.
    pub is_refused: bool,
}

/// Queries that are short to say and would be much to do for whoever puts what a name stands for in its place, or does twice
/// what is said once. All are understood: a metric made before there was a limit may have any of them.
pub fn costly() -> Vec<Costly> {
    let twenty = format!("coalesce({})", times(20, "a"));
    let group =
        |keys: &str| format!("SELECT COUNT(*) AS usage_qty FROM (SELECT {keys} AS a FROM events) AS t WHERE a > 0");
    let stars: String = (1..=6).map(|n| format!(", t{n} AS (SELECT *, * FROM t{})", n - 1)).collect();
    let distinct: String = (0..28).map(|n| format!("COUNT(DISTINCT properties ->> '{n}') + ")).collect();
    let windows: String =
        (0..20).map(|n| format!("SUM(1) OVER (ORDER BY properties ->> '{n}', time_created) + ")).collect();
    #[rustfmt::skip]
    let all = [
        // name, query, whether it is refused
        ("doubled 16 times",          chain(16, "SELECT a+a AS a FROM t"),                                      true),
        ("doubled 24 times",          chain(24, "SELECT a+a AS a FROM t"),                                      true),
        ("doubled 40 times",          chain(40, "SELECT a+a AS a FROM t"),                                      true),
        ("doubled in brackets",       nested(7, "a+a"),                                                        false),
        ("twenty times in brackets",  nested(5, &twenty),                                                       true),
        ("filtered by what doubles",  chain(24, "SELECT a+a AS a FROM t WHERE a >= 0"),                         true),
        ("grouped by what doubles",   chain(24, "SELECT a+a AS a FROM t GROUP BY 1"),                           true),
        ("doubled over groups",       chain(20, "SELECT MAX(a) + MIN(a) AS a FROM t"),                          true),
        ("doubled over windows",      chain(14, "SELECT MAX(a) OVER () + MIN(a) OVER () AS a FROM t"),          true),
        ("values of queries, twice",  chain(11, "SELECT (SELECT MAX(a) FROM t) + (SELECT MIN(a) FROM t) AS a FROM events"), true),
        ("chosen four times",         chain(12, "SELECT CASE WHEN a > 1 AND a < 7 THEN 3 * a ELSE a END AS a FROM t"), true),
        ("BETWEEN in BETWEEN",        nested(1, &around(13, "CASE WHEN @ BETWEEN 0 AND 9 THEN 1 ELSE 2 END")),  true),
        ("IN columns, nested",        nested(1, &around(12, "CASE WHEN @ IN (a, a, a, a, a, a, a, a, a, a, a, a) THEN 1 ELSE 2 END")), false),
        ("averages of averages",      chain(9, "SELECT AVG((SELECT AVG(a) FROM t)) AS a FROM events"),          true),
        ("two stars",                 format!("WITH t0 AS (SELECT * FROM events){stars} SELECT COUNT(*) AS usage_qty FROM t6"), false),
        ("a long product",            nested(1, &vec!["a"; 28].join("*")),                                      false),
        ("multiplied in brackets",    nested(1, &around(9, "(@*2)")),                                           false),
        ("divided in brackets",       nested(1, &around(9, "(@/3)")),                                           false),
        ("a long list",               group(&format!("CASE WHEN properties ->> 'x' IN ({}) THEN 1 END", times(250, "'x'"))), false),
        ("many sets of values",       format!("SELECT {distinct}0 AS usage_qty FROM events"),                   false),
        ("many orders",               format!("SELECT MAX(a) AS usage_qty FROM (SELECT {windows}0 AS a FROM events) AS t"), false),
    ];
    all.into_iter().map(|(name, sql, is_refused)| Costly { name, sql, is_refused }).collect()
}
