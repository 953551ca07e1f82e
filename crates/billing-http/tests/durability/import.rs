//! Back-filling from files.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use billing_http::import::{EventForm, ImportSource, Imported, import_events};
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
    // What a try had stored before it was refused is a duplicate to the next one.
    assert_eq!((imported.stored + imported.duplicates, imported.rejected), (12_000, 0), "{imported:?}");
    assert!(imported.stored > 0, "{imported:?}");
    let again = import_events(&world.opened.store, world.organization, &ImportSource::whole(&file)).expect("imported");
    assert_eq!(again, Imported { stored: 0, duplicates: 12_000, rejected: 0 }, "all of it is there");
}

/// What there is of a customer: ids with their properties.
fn events_of(world: &World, customer: &str) -> Vec<(String, String)> {
    let listed = world.get(&format!("/api/events/?customer_id={customer}")).ok(200);
    let text =
        |event: &Value| (event["idempotency_id"].as_str().expect("an id").to_owned(), event["properties"].to_string());
    let mut all: Vec<_> = listed.as_array().expect("a list").iter().map(text).collect();
    all.sort();
    all
}

#[test]
fn the_same_events_are_the_same_in_every_form() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let own = |id: &str, mb: &str| {
        format!(
            r#"{{"customer_id":"acme","event_name":"up","idempotency_id":"{id}","time_created":"2019-05-01T10:00:00Z","properties":{{"mb":{mb}}}}}"#
        )
    };
    let cloud = r#"{"specversion":"1.0","id":"2","source":"//eu","type":"up","subject":"acme","time":"2019-05-01T10:00:00Z","data":{"mb":2.50}}"#;
    let (a, b) = (own("a", "1.500"), own("//eu 2", "2.50"));
    let names = "time_created,mb,event_name,customer_id,idempotency_id";
    let rows = "2019-05-01T10:00:00Z,1.500,up,acme,a\r\n2019-05-01T10:00:00Z,2.50,up,acme,//eu 2\r\n";
    #[rustfmt::skip]
    let files = [
        // name,            form,                          text,                                  stored, why
        ("a.csv",           None,                          format!("\u{feff}{names}\r\n{rows}"), 2,      "rows, as spreadsheets write them"),
        ("b.jsonl",         None,                          format!("{a}\n{cloud}\n"),             0,      "lines"),
        ("c.json",          None,                          format!("[\n  {a},\n  {b}\n]\n"),      0,      "an array"),
        ("d.json",          None,                          format!("{a}\n{b}\n"),                 0,      "lines after all"),
        ("e.NDJSON",        None,                          format!("{a}\n{b}\n"),                 0,      "lines by another name"),
        ("f.txt",           Some(EventForm::Csv),          format!("{names}\n{rows}"),            0,      "rows, by word"),
        ("g",               Some(EventForm::Json),         format!("[{a},{b}]"),                  0,      "an array, by word"),
        ("h.json",          Some(EventForm::Cloudevents),  format!("[{cloud}]"),                  0,      "CloudEvents in an array"),
        ("i.jsonl",         Some(EventForm::Cloudevents),  format!("{cloud}\n"),                  0,      "CloudEvents in lines"),
    ];
    for (name, form, text, stored, why) in &files {
        for packed in [false, true] {
            let path = folder.path().join(if packed { format!("{name}.gz") } else { (*name).to_owned() });
            let mut file = File::create(&path).expect("a file");
            if packed {
                let mut encoder = GzEncoder::new(file, Compression::fast());
                encoder.write_all(text.as_bytes()).expect("compressed");
                encoder.finish().expect("compressed");
            } else {
                file.write_all(text.as_bytes()).expect("written");
            }
            let source = ImportSource { form: *form, ..ImportSource::whole(&path) };
            let imported = import_events(&world.opened.store, world.organization, &source).expect(why);
            assert_eq!((imported.rejected, imported.stored), (0, if packed { 0 } else { *stored }), "{why}");
        }
    }
    let expected = [("//eu 2".to_owned(), "{\"mb\":2.50}".to_owned()), ("a".to_owned(), "{\"mb\":1.500}".to_owned())];
    assert_eq!(events_of(&world, "acme"), expected, "with every digit");
    let (other, _) = world.opened.create_organization("Other", None).expect("an organization");
    let source = ImportSource::whole(&folder.path().join("a.csv"));
    let imported = import_events(&world.opened.store, other, &source).expect("imported");
    assert_eq!(imported, Imported { stored: 2, duplicates: 0, rejected: 0 }, "another organization's are others");
}

#[test]
fn an_import_that_breaks_off_goes_on_where_it_says() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("a folder");
    let elements = |from: u32| (from..from + 6_000).map(|i| event("acme", &format!("e{i}"), "2019-05-01").to_string());
    let whole = format!("[{}]\n", elements(0).collect::<Vec<_>>().join(",\n"));
    let rows: String = (6_000..12_000).map(|i| format!("acme,up,e{i},2019-05-01,\"a\nb\"\n")).collect();
    let names = "customer_id,event_name,idempotency_id,time_created,text\n";
    #[rustfmt::skip]
    let cases = [
        // file,          all of it,                   how it breaks off,      line of the last whole record
        ("events.json",   whole.clone(),               "\n[",                  5_990),
        ("events.csv",    format!("{names}{rows}"),    "\"",                   11_982),
    ];
    for (name, text, breaks, last) in cases {
        let path = folder.path().join(name);
        let upto = text.split_inclusive('\n').take(last).map(str::len).sum();
        let long = "x".repeat(1 << 20);
        std::fs::write(&path, format!("{}{breaks}{long}", &text[..upto])).expect("written");
        let take_in = |source: &ImportSource| import_events(&world.opened.store, world.organization, source);
        let told = format!("{:#}", take_in(&ImportSource::whole(&path)).expect_err("it has no end"));
        let line = told.split("--from-line ").nth(1).and_then(|rest| rest.split(':').next()).expect(&told);
        let from_line: u64 = line.parse().expect(&told);
        std::fs::write(&path, &text).expect("written");
        let rest = take_in(&ImportSource { from_line, ..ImportSource::whole(&path) }).expect("imported");
        assert!(rest.rejected == 0 && rest.stored > 0 && rest.stored < 20 && rest.duplicates < 5, "{name}: {rest:?}");
        let again = take_in(&ImportSource::whole(&path)).expect("imported");
        assert_eq!(again, Imported { stored: 0, duplicates: 6_000, rejected: 0 }, "{name}: all of it is there");
    }
}
