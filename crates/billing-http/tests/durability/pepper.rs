//! Whoever comes with another pepper is told so before any key is refused; and which tenants a database has.

use std::path::Path;
use std::process::{Command, Output};

use postgres_local::Cluster;

fn run(url: &str, data_dir: &Path, pepper: Option<&str>, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_billing-http"));
    program.args(arguments).env("DATABASE_URL", url).env("BILLING_DATA_DIR", data_dir).env("RUST_LOG", "error");
    match pepper {
        Some(pepper) => program.env("BILLING_KEY_PEPPER", pepper),
        None => program.env_remove("BILLING_KEY_PEPPER"),
    };
    program.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn another_pepper_is_refused_and_tenants_are_told_apart() {
    const ANOTHER: &str = "another pepper, which no key of this database was made with";
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a durable cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let url = cluster.url("billing");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let create = |data_dir: &Path, pepper: Option<&str>, name: &str| {
        let created = run(&url, data_dir, pepper, &["create-organization", name]);
        (created.status.success(), text(&created.stderr))
    };
    assert_eq!(create(&first, None, "One"), (true, String::new()), "the first makes a pepper");
    #[rustfmt::skip]
    let cases = [
        // data folder, pepper,        told,                                  why
        (&second,       None,          "there is no key pepper in",           "restored without its folder"),
        (&second,       Some(ANOTHER), "this key pepper is not the one",      "an old setting"),
        (&first,        Some(ANOTHER), "this key pepper is not the one",      "what is set goes before the file"),
    ];
    for (data_dir, pepper, told, why) in cases {
        let (is_made, error) = create(data_dir, pepper, "Nobody");
        assert!(!is_made && error.contains(told) && error.contains("A lost pepper"), "{why}: {error}");
        assert!(!error.contains(ANOTHER), "{why}: a pepper is a secret");
    }
    assert!(!second.join("key-pepper").exists(), "no other one is made beside the keys there are");
    assert_eq!(create(&first, None, "Two"), (true, String::new()), "the right one goes on");

    let listed = text(&run(&url, &first, None, &["list-organizations"]).stdout);
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split_once("  ")).map(|(_, name)| name).collect();
    assert_eq!(names, ["One", "Two"], "{listed}");
    let events = folder.path().join("events.jsonl");
    std::fs::write(&events, "").expect("a file");
    for unclear in [["create-key", "more"], ["import-events", events.to_str().expect("a path")]] {
        let unclear = run(&url, &first, None, &unclear);
        assert!(!unclear.status.success());
        let told = text(&unclear.stderr);
        assert!(told.contains("there are several organizations; name one with --organization\n  "), "{told}");
        assert!(listed.lines().all(|line| told.contains(line)), "{told}");
    }
    let one = listed.split_whitespace().next().expect("an id");
    assert!(run(&url, &first, None, &["create-key", "more", "--organization", one]).status.success());
}
