//! A connection that is lost under a custom metric: its query is not sent again, for it may be the reason.

use std::thread;

use billing_domain::custom_sql::CustomSql;
use billing_domain::period::Period;
use billing_domain::store::{Scope, Store};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::{Error, StoreError};
use billing_store::testing::TestStore;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use time::Duration;
use time::macros::datetime;

use crate::custom_sql::World;

#[derive(QueryableByName)]
struct Count {
    #[diesel(sql_type = BigInt)]
    count: i64,
}

/// How many connections wait for the lock.
const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
/// Ends the connections that wait for the lock.
const END_WAITING: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'";
/// Ends all but two, as a server does that starts anew because one of its processes was killed.
const END_ALL: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name <> 'holder'";

fn count(pg: &mut PgConnection, sql: &str) -> i64 {
    diesel::sql_query(sql).get_result::<Count>(pg).expect("a count").count
}

/// How many connections to the database at `url` are asleep in a function.
pub fn sleeping(url: &str) -> i64 {
    let mut pg = PgConnection::establish(url).expect("a connection");
    let sleeping =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    count(&mut pg, sleeping)
}

#[test]
fn a_query_is_sent_once() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    let noon = datetime!(2024-03-01 12:00 UTC);
    let day = Period::new(noon - Duration::DAY, noon).expect("a day");
    let sql = CustomSql::parse("SELECT COUNT(*) AS usage_qty FROM events").expect("a query");
    let request = world.request(sql, SubscriptionFilters::none(), day);
    let connect = || PgConnection::establish(store.url()).expect("a connection");
    // What others are at is seen as of the beginning of a transaction, so whoever looks is not who holds the lock.
    let (mut holder, mut watcher) = (connect(), connect());
    holder.batch_execute("SET application_name = 'holder'").expect("a name");
    let (reading, changing) = (Scope::Organization(world.organization), Scope::Catalog(world.organization));
    #[rustfmt::skip]
    let cases = [
        // scope, what ends, why
        (&reading,  END_WAITING, "its own connection alone"),
        (&reading,  END_ALL,     "the one around it too, which only reads"),
        (&changing, END_ALL,     "the one around it too, which could be run again"),
    ];
    for (scope, end, why) in cases {
        // The query waits here; a second one would too, until its time is over, and that has another name.
        holder.batch_execute("BEGIN; LOCK TABLE events IN ACCESS EXCLUSIVE MODE").expect("the lock");
        let ask = || {
            let store: &dyn Store = &*store;
            store.run_for(scope, |tx, _| tx.events().custom_usages(std::slice::from_ref(&request)))
        };
        let found = thread::scope(|threads| {
            let asking = threads.spawn(ask);
            while count(&mut watcher, WAITING) == 0 {
                thread::yield_now();
            }
            assert!(count(&mut watcher, end) >= 1, "{why}");
            asking.join().expect("no panic")
        });
        assert!(matches!(found, Err(Error::Store(StoreError::Unavailable(_)))), "{why}: {found:?}");
        holder.batch_execute("ROLLBACK").expect("no lock");
        // Connections that are found dead before anything was sent are replaced.
        count(&mut watcher, END_ALL);
        assert!(ask().is_ok_and(|usages| usages[0].is_ok()), "{why}: it goes on");
    }
}
