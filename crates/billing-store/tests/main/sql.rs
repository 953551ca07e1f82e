//! SQL of the tests' own, past the store.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;

#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Text)]
    value: String,
}

/// A connection past the store.
pub fn connect(url: &str) -> PgConnection {
    PgConnection::establish(url).expect("a connection")
}

/// The column `value` of what `sql` selects.
pub fn query(url: &str, sql: &str) -> Vec<String> {
    let rows: Vec<Row> = diesel::sql_query(sql).load(&mut connect(url)).expect("rows");
    rows.into_iter().map(|row| row.value).collect()
}

/// Runs statements; the error is the server's message.
pub fn execute(url: &str, sql: &str) -> Result<(), String> {
    connect(url).batch_execute(sql).map_err(|error| error.to_string())
}
