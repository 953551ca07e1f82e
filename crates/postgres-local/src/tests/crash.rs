//! Clusters in bad times: killed, orphaned, half-made, or wanted by two.

use super::*;

#[test]
fn a_killed_application_takes_its_server_along() {
    let folder = data_dir();
    let mut helper = Helper::start("helper_persistent", folder.path().to_str().unwrap());
    let cluster = folder.path().join("cluster");
    let server = server_pid(&cluster).unwrap();
    let group = getpgid(Some(Pid::from_raw(server))).unwrap();
    assert_eq!(group.as_raw(), server, "out of reach of the terminal's Ctrl-C");
    helper.kill();
    eventually("the server stops", || !is_alive(server));
    eventually("in an orderly way", || !cluster.join("postmaster.pid").exists());

    let mut helper = Helper::start("helper_temporary", "");
    assert!(Path::new(&helper.answer).exists());
    helper.kill();
    eventually("the temporary cluster goes", || !Path::new(&helper.answer).exists());

    // A static is never dropped, so the shared cluster of tests ends in this way always.
    let mut helper = Helper::start("helper_database", "killed");
    helper.kill();
    eventually("the shared cluster goes", || !Path::new(&helper.answer).exists());
}

#[test]
fn a_new_application_waits_for_the_server_of_a_killed_one() {
    let folder = data_dir();
    for _ in 0..3 {
        Helper::start("helper_persistent", folder.path().to_str().unwrap()).kill();
        let cluster = Cluster::persistent(folder.path()).unwrap();
        assert!(databases(&cluster).contains(&"kept".to_owned()));
    }
}

#[test]
fn one_application_at_a_time() {
    let folder = data_dir();
    let helper = Helper::start("helper_persistent", folder.path().to_str().unwrap());
    let error = Cluster::persistent(folder.path()).unwrap_err();
    assert!(matches!(&error, Error::InUse { pid, .. } if *pid == helper.pid().to_string()), "{error}");
    drop(helper);
    Cluster::persistent(folder.path()).unwrap();
}

#[test]
fn two_first_starts_at_once_make_one_cluster() {
    let folder = data_dir();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let starts: Vec<_> = (0..2).map(|_| scope.spawn(|| Cluster::persistent(folder.path())?.stop())).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert!(outcomes.iter().any(Result::is_ok), "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(()) | Err(Error::InUse { .. }))), "{outcomes:?}");
}

/// Kills the helper's server and the server's companion as well; Linux tells which processes these are.
#[cfg(target_os = "linux")]
#[test]
fn an_orphan_or_killed_server_is_no_obstacle() {
    let folder = data_dir();
    let cluster = folder.path().join("cluster");
    for signal_to_server in [None, Some(Signal::SIGKILL)] {
        let mut helper = Helper::start("helper_persistent", folder.path().to_str().unwrap());
        let server = server_pid(&cluster).unwrap();
        for companion in companions_of(&cluster, server) {
            kill(Pid::from_raw(companion), Signal::SIGKILL).unwrap();
        }
        if let Some(signal) = signal_to_server {
            kill(Pid::from_raw(server), signal).unwrap();
        }
        helper.kill();
        assert!(signal_to_server.is_some() || is_alive(server), "an orphan");
        let restarted = Cluster::persistent(folder.path()).unwrap();
        assert!(databases(&restarted).contains(&"kept".to_owned()));
        assert!(!is_alive(server));
    }
}

#[cfg(target_os = "linux")]
fn companions_of(cluster: &Path, server: i32) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let found: Vec<i32> = pids
        .filter(|&pid| pid != server)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.starts_with(b"/bin/sh\0")
                && line.split(|&byte| byte == 0).any(|word| word == cluster.as_os_str().as_encoded_bytes())
        })
        .collect();
    assert_eq!(found.len(), 1, "a server has one companion");
    found
}

#[test]
fn a_busy_backend_of_a_killed_server_is_waited_for() {
    let folder = data_dir();
    let cluster = Cluster::persistent(folder.path()).unwrap();
    let socket = cluster.socket_folder().to_owned();
    // Two seconds of work that looks at nothing else.
    let busy = thread::spawn(move || {
        wire::query(&socket, "postgres", "SELECT count(*) FROM generate_series(1, 4000000) a WHERE a % 7 = 1")
    });
    eventually("the work begins", || {
        cluster
            .query("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(1%' AND state = 'active'")
            .unwrap()
            == ["2"]
    });
    kill(Pid::from_raw(server_pid(&folder.path().join("cluster")).unwrap()), Signal::SIGKILL).unwrap();
    drop(cluster);
    let cluster = Cluster::persistent(folder.path()).unwrap();
    assert_eq!(show(&cluster, "fsync"), "on");
    let _ = busy.join().unwrap();
}

/// Kills a cluster's server and all its children.
#[cfg(target_os = "linux")]
fn kill_server(cluster: &Path) {
    let server = server_pid(cluster).unwrap();
    let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
    let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
    for pid in [server].into_iter().chain(children) {
        // A child may have followed its server already.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_watched_server_that_died_is_started_again() {
    let folder = data_dir();
    let mut cluster = Cluster::persistent(folder.path()).unwrap();
    cluster.create_database_if_absent("kept").unwrap();
    let (sender, given_up) = mpsc::channel();
    cluster.watch(move |error| sender.send(error).unwrap()).unwrap();
    let files = folder.path().join("cluster");
    for _ in 0..3 {
        let before = server_pid(&files);
        kill_server(&files);
        eventually("it is started again", || cluster.has_database("kept").unwrap_or(false));
        assert_ne!(server_pid(&files), before);
    }
    assert_eq!(show(&cluster, "fsync"), "on", "as it was started first");
    assert!(given_up.try_recv().is_err());
    let last = server_pid(&files).unwrap();
    cluster.stop().unwrap();
    assert!(!is_alive(last) && !files.join("postmaster.pid").exists(), "stopped in an orderly way");
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_cannot_be_started_again_is_told() {
    const TWICE_MS: [u64; 2] = [0, 50];
    #[rustfmt::skip]
    let cases: [(&str, fn(&Path), fn(&Error) -> bool); 2] = [
        // why, what becomes of the cluster's files, what is told
        ("tried as often as it should be", |files| fs::rename(files.join("global"), files.join("moved")).unwrap(),
            |error| matches!(error, Error::Failed { output, .. } if output.contains("global"))),
        ("nothing to try",                 |files| fs::rename(files, files.with_extension("moved")).unwrap(),
            |error| matches!(error, Error::NoCluster { .. })),
    ];
    for (why, spoil, is_told) in cases {
        let folder = data_dir();
        let mut cluster = Cluster::persistent(folder.path()).unwrap();
        let (sender, given_up) = mpsc::channel();
        cluster.watch_at(&TWICE_MS, move |error| sender.send(error).unwrap()).unwrap();
        let files = folder.path().join("cluster");
        let server = server_pid(&files).unwrap();
        spoil(&files);
        kill(Pid::from_raw(server), Signal::SIGKILL).unwrap();
        let error = given_up.recv_timeout(Duration::from_secs(30)).expect(why);
        assert!(is_told(&error), "{why}: {error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_is_still_tried_can_be_stopped() {
    const LATER_MS: [u64; 2] = [0, 3_600_000];
    let folder = data_dir();
    let mut cluster = Cluster::persistent(folder.path()).unwrap();
    let (sender, given_up) = mpsc::channel();
    cluster.watch_at(&LATER_MS, move |error| sender.send(error).unwrap()).unwrap();
    let files = folder.path().join("cluster");
    fs::rename(files.join("global"), files.join("moved")).unwrap();
    kill(Pid::from_raw(server_pid(&files).unwrap()), Signal::SIGKILL).unwrap();
    let log = || fs::read_to_string(folder.path().join("postgres.log")).unwrap();
    eventually("it is tried once", || log().contains("global/pg_control"));
    cluster.stop().unwrap();
    assert!(given_up.recv().is_err(), "it did not come to an end of its own");
}

#[test]
fn a_stale_pid_file_is_no_obstacle() {
    let folder = data_dir();
    Cluster::persistent(folder.path()).unwrap().stop().unwrap();
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let account = Account::for_server().unwrap();
    let mut stranger = account.command("sleep").arg("600").spawn().unwrap();
    for (pid, why) in [(ended.id(), "nobody has the number"), (stranger.id(), "a stranger has the number now")] {
        let pid_file = folder.path().join("cluster/postmaster.pid");
        let text = format!("{pid}\n{}\n1\n5432\n\n\n 0 0\nready\n", folder.path().join("cluster").display());
        fs::write(&pid_file, text).unwrap();
        account.give(&pid_file).unwrap();
        Cluster::persistent(folder.path()).unwrap_or_else(|error| panic!("{why}: {error}"));
    }
    assert!(stranger.try_wait().unwrap().is_none(), "strangers are left alone");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_half_made_cluster_is_made_anew() {
    let folder = data_dir();
    let unfinished = folder.path().join("cluster.new-1");
    fs::create_dir_all(unfinished.join("base")).unwrap();
    fs::write(unfinished.join("PG_VERSION"), "15\n").unwrap();
    Cluster::persistent(folder.path()).unwrap();
    assert!(!unfinished.exists());
}

#[test]
fn what_the_dead_left_is_swept() {
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let account = Account::for_server().unwrap();
    let parent = Cluster::temporary().unwrap().socket_folder().parent().unwrap().to_owned();
    let left = parent.join(format!("postgres-local-{}-0", ended.id()));
    account.create_folder(&left).unwrap();
    fs::write(left.join("file"), "").unwrap();
    Cluster::temporary().unwrap();
    assert!(!left.exists());
}
