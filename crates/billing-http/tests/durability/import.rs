//! Back-filling from files.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use billing_http::import::{ImportSource, Imported, import_events};
use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection, RunQueryDsl};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{World, event};

#[test]
fn files_are_taken_in_once() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String =
        (0..12_000).map(|i| format!("{}\n", event("acme", &format!("e{i}"), "2019-05-01T10:00:00Z"))).collect();
    let (plain, packed) = (folder.path().join("events.jsonl"), folder.path().join("events.jsonl.gz"));
    std::fs::write(&plain, &lines).expect("written");
    let mut encoder = GzEncoder::new(File::create(&packed).expect("a file"), Compression::fast());
    encoder.write_all(lines.as_bytes()).expect("compressed");
    encoder.finish().expect("compressed");

    let take_in = |source: &ImportSource| import_events(&world.opened.store, world.organization, source);
    let import = |path: &Path| take_in(&ImportSource::whole(path)).expect("imported");
    assert_eq!(import(&plain), Imported { stored: 12_000, duplicates: 0, rejected: 0 }, "years old");
    assert_eq!(import(&packed), Imported { stored: 0, duplicates: 12_000, rejected: 0 }, "the same again, compressed");

    let good = event("acme", "new", "2019-05-01T10:00:00Z");
    let bad = "nonsense\n\n{\"idempotency_id\":\"x\"}\n\u{0}\n";
    std::fs::write(&plain, format!("{good}\n{bad}{good}")).expect("written");
    assert_eq!(import(&plain), Imported { stored: 1, duplicates: 1, rejected: 3 }, "bad lines spoil no others");
    let report = || std::fs::read_to_string(folder.path().join("events.jsonl.refused")).expect("a report");
    let entries = report();
    let entries: Vec<Value> = entries.lines().map(|line| serde_json::from_str(line).expect("json")).collect();
    let lines: Vec<_> = entries.iter().map(|entry| entry["line"].as_u64().expect("a number")).collect();
    assert_eq!(lines, [2, 4, 5], "each refused line is in the report");
    let reason = "No customer_id provided; No event_name provided; Invalid time_created: it is missing; send when it \
        happened, as 2024-01-31T12:00:00Z";
    assert_eq!((&entries[0]["text"], &entries[1]["reason"]), (&json!("nonsense"), &json!(reason)), "all of its faults");
    let rest = ImportSource { from_line: 5, ..ImportSource::whole(&plain) };
    let expected = Imported { stored: 0, duplicates: 1, rejected: 1 };
    assert_eq!(take_in(&rest).expect("imported"), expected, "from the fifth line on");
    assert_eq!(report().lines().count(), 4, "and its refused lines are added");
    std::fs::write(&plain, b"\xff\xfe{}\n").expect("written");
    assert_eq!(import(&plain), Imported { stored: 0, duplicates: 0, rejected: 1 }, "not UTF-8");
    assert!(take_in(&ImportSource::whole(&folder.path().join("none"))).is_err());

    let body = json!({"idempotency_ids": ["new", "e0", "never"], "number_days_lookback": 365});
    let missing = world.post("/api/verify_idems_received/", &body).ok(200)["ids_not_found"].clone();
    assert_eq!(missing, json!(["new", "e0", "never"]), "older than the lookback");
}

#[test]
fn an_import_waits_and_goes_on() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("events.jsonl");
    let lines: String =
        (0..12_000).map(|i| format!("{}\n", event("acme", &format!("e{i}"), "2019-05-01T10:00:00Z"))).collect();
    std::fs::write(&file, lines).expect("written");
    // Somebody holds the key ranges for longer than anybody waits for a lock.
    let mut other = PgConnection::establish(world.url()).expect("a connection");
    other
        .batch_execute("BEGIN; SELECT pg_advisory_xact_lock(1, key_range) FROM generate_series(0, 255) key_range")
        .expect("locked");
    let waiting = || {
        let sql = "SELECT count(*) FROM pg_locks lock JOIN pg_database database ON database.oid = lock.database
            WHERE database.datname = current_database() AND lock.locktype = 'advisory' AND NOT lock.granted";
        let mut connection = PgConnection::establish(world.url()).expect("a connection");
        diesel::select(diesel::dsl::sql::<diesel::sql_types::BigInt>(&format!("({sql})")))
            .get_result::<i64>(&mut connection)
            .expect("a number")
    };
    let (store, organization, source) = (world.opened.store.clone(), world.organization, ImportSource::whole(&file));
    let import = thread::spawn(move || import_events(&store, organization, &source));
    // It waits, is refused, and waits again.
    for is_waiting in [true, false, true] {
        while (waiting() > 0) != is_waiting && !import.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
    }
    other.batch_execute("COMMIT").expect("released");
    let imported = import.join().expect("no panic").expect("imported");
    assert_eq!(imported, Imported { stored: 12_000, duplicates: 0, rejected: 0 });
}
