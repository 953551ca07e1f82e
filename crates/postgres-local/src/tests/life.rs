//! Clusters in good times: what they are set to, where they live, who may run them.

use super::*;

#[test]
fn data_is_kept_from_start_to_start() {
    let folder = data_dir();
    let cluster = Cluster::persistent(folder.path()).unwrap();
    cluster.create_database_if_absent("kept").unwrap();
    cluster.create_database_if_absent("kept").unwrap();
    wire::query(cluster.socket_folder(), "kept", "CREATE TABLE t AS SELECT 7 AS a").unwrap();
    let beside = running_url(folder.path(), "kept").expect("another program finds the running cluster");
    assert_eq!(beside, cluster.url("kept"));
    cluster.stop().unwrap();
    assert_eq!(running_url(folder.path(), "kept"), None, "nothing runs any more");
    assert!(!folder.path().join("cluster/postmaster.pid").exists(), "stopped in an orderly way");

    let cluster = Cluster::persistent(folder.path()).unwrap();
    assert_eq!(wire::query(cluster.socket_folder(), "kept", "SELECT a FROM t").unwrap(), ["7"]);
}

#[test]
fn an_existing_cluster_is_never_made() {
    let folder = data_dir();
    let absent = folder.path().join("absent");
    for (data_dir, why) in [(absent.as_path(), "no folder"), (folder.path(), "an empty folder")] {
        let error = Cluster::existing(data_dir).unwrap_err();
        assert!(matches!(&error, Error::NoCluster { folder } if folder == data_dir), "{why}: {error}");
    }
    assert!(!absent.exists() && fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is left behind");

    Cluster::persistent(folder.path()).unwrap().create_database_if_absent("kept").unwrap();
    let cluster = Cluster::existing(folder.path()).unwrap();
    assert!(cluster.has_database("kept").unwrap() && !cluster.has_database("other").unwrap());
}

#[test]
fn a_persistent_cluster_is_durable_and_private() {
    let folder = data_dir();
    let cluster = Cluster::persistent(folder.path()).unwrap();
    #[rustfmt::skip]
    let cases = [
        // setting,            value,   why
        ("fsync",              "on",    "a commit survives a power cut"),
        ("synchronous_commit", "on",    "the client hears of a commit only when it is safe"),
        ("full_page_writes",   "on",    "a page torn by a power cut is repaired"),
        ("data_checksums",     "on",    "a rotten page is noticed"),
        ("wal_compression",    "pglz",  "less to write after a checkpoint"),
        ("checkpoint_timeout", "30min", "few checkpoints"),
        ("max_wal_size",       "4GB",   "few checkpoints"),
        ("listen_addresses",   "",      "nothing listens on TCP"),
        ("server_encoding",    "UTF8",  "any text"),
        ("lc_collate",         "C",     "an order that no system update changes"),
    ];
    for (setting, value, why) in cases {
        assert_eq!(show(&cluster, setting), value, "{setting}: {why}");
    }
    let mode = fs::metadata(cluster.socket_folder()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o700, "only the server's account and root may connect");
}

#[test]
fn a_temporary_cluster_is_gone_after_use() {
    let cluster = Cluster::temporary().unwrap();
    let folder = cluster.socket_folder().to_owned();
    assert_eq!(show(&cluster, "fsync"), "off");
    assert_eq!(show(&cluster, "autovacuum"), "off");
    assert_eq!(show(&cluster, "wal_level"), "minimal");
    drop(cluster);
    assert!(!folder.exists());
}

#[test]
fn other_files_are_not_taken_for_a_cluster() {
    let folder = data_dir();
    let cluster = folder.path().join("cluster");
    fs::create_dir(&cluster).unwrap();
    fs::write(cluster.join("letter"), "dear").unwrap();
    let error = Cluster::persistent(folder.path()).unwrap_err();
    assert!(matches!(error, Error::NotACluster { .. }), "{error}");
    assert!(cluster.join("letter").exists());

    fs::write(cluster.join("PG_VERSION"), "9\n").unwrap();
    let error = Cluster::persistent(folder.path()).unwrap_err();
    assert!(error.to_string().contains("version 9, which made this data folder"), "{error}");
}

#[test]
fn a_deep_folder_with_odd_characters_will_do() {
    let folder = data_dir();
    let deep = folder.path().join(format!("a b, \"c\" {}", "d".repeat(100)));
    let cluster = Cluster::persistent(&deep).unwrap();
    assert!(!cluster.socket_folder().starts_with(&deep), "too long for a socket");
    cluster.create_database_if_absent("it's \"odd\"").unwrap();
    assert!(databases(&cluster).contains(&"it's \"odd\"".to_owned()));
    assert!(cluster.url("it's").starts_with("postgresql:///it%27s?host=/"));

    let odd = folder.path().join("e, \"f\" g");
    let cluster = Cluster::persistent(&odd).unwrap();
    assert!(cluster.socket_folder().starts_with(&odd));
    assert!(cluster.url("x").contains("/e%2C%20%22f%22%20g/socket&"), "{}", cluster.url("x"));
}

#[test]
fn an_ordinary_user_needs_no_privileges() {
    const NOBODY: u32 = 65_534;
    if !Uid::effective().is_root() {
        return;
    }
    // The build's folder may be closed to others.
    let folder = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let binary = folder.path().join("tests");
    fs::copy(env::current_exe().unwrap(), &binary).unwrap();
    let temporary = folder.path().join("t");
    fs::create_dir(&temporary).unwrap();
    chown(&temporary, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut again = Command::new(&binary);
    again.args(["data_is_kept", "durable_and_private", "killed_application", "orphan", "every_test"]);
    let output = again.env("TMPDIR", &temporary).current_dir("/").uid(NOBODY).gid(NOBODY).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("5 passed"), "{said}");
}

#[test]
fn a_missing_server_is_told_with_the_command_that_installs_it() {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "tests::helper_temporary", "--ignored"])
        .env(HELPER_ARGUMENT, "")
        .env("PG_BINDIR", "/nowhere")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && said.contains("/nowhere") && said.contains("install"), "{said}");
}

#[test]
fn data_has_a_folder_of_the_users() {
    let folder = default_data_dir("example");
    assert!(folder.is_absolute() && folder.ends_with("example"));
    if Uid::effective().is_root() {
        assert_eq!(folder, Path::new("/var/lib/example"), "the server's account cannot enter /root");
    }
}
