//! The schema as the catalogue of Postgres tells it.

use billing_store::PgStore;
use billing_store::testing::{TestStore, empty_database, revert};

#[test]
fn migrates_up_down_and_up_again() {
    let database = empty_database();
    let applied = PgStore::migrate(database.url()).expect("up");
    assert!(!applied.is_empty());
    assert_eq!(PgStore::migrate(database.url()).expect("nothing to do"), Vec::<String>::new());
    let mut reverted = revert(database.url()).expect("down");
    reverted.reverse();
    assert_eq!(reverted, applied);
    assert_eq!(PgStore::migrate(database.url()).expect("up again"), applied);
}

#[test]
fn is_ready_when_migrated() {
    TestStore::new().ping().expect("ready");
}
