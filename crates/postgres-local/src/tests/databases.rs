//! One database per test.

use super::*;

#[test]
fn every_test_has_a_database_of_its_own() {
    let runs = AtomicU32::new(0);
    let prepare = |url: &str| {
        runs.fetch_add(1, Ordering::Relaxed);
        let (name, _) = url.strip_prefix("postgresql:///").unwrap().split_once('?').unwrap();
        let socket = url.split_once("?host=").unwrap().1.split_once('&').unwrap().0;
        wire::query(Path::new(socket), name, "CREATE TABLE t AS SELECT 1 AS a")
            .map(drop)
            .map_err(|error| error.to_string())
    };
    let key = format!("{:?} {}", Instant::now(), std::process::id());
    thread::scope(|scope| {
        for number in 0..8 {
            let (prepare, key) = (&prepare, &key);
            scope.spawn(move || {
                let database = database(key, prepare).unwrap();
                let name = database.url().strip_prefix("postgresql:///").unwrap().split_once('?').unwrap().0.to_owned();
                let query = |statement: &str| wire::query(&socket_of(&database), &name, statement).unwrap();
                query(&format!("INSERT INTO t VALUES ({number} + 10)"));
                assert_eq!(query("SELECT a FROM t ORDER BY a"), ["1".to_owned(), (number + 10).to_string()]);
            });
        }
    });
    assert_eq!(runs.into_inner(), 1, "prepared once");
}

#[test]
fn test_processes_side_by_side_share_an_image_but_no_cluster() {
    let key = format!("{:?} {}", Instant::now(), std::process::id());
    let helpers: Vec<Helper> = thread::scope(|scope| {
        let starts: Vec<_> = (0..3).map(|_| scope.spawn(|| Helper::start("helper_database", &key))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let folders: std::collections::BTreeSet<_> = helpers.iter().map(|helper| helper.answer.clone()).collect();
    assert_eq!(folders.len(), helpers.len());
}
