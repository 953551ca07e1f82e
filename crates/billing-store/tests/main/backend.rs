//! The Postgres backend that runs custom metrics, seen from outside: what it takes of the machine's memory, and a wall in front
//! of what it could take. Linux only.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use billing_store::PgStore;
use billing_store::testing::as_custom_metric;

/// Most memory of its own that any backend gets while a test measures: a query that would take all of the machine's fails then,
/// as out of memory, and nothing else does.
const GUARD_BYTES: u64 = 1 << 30;

/// The one connection of a store that runs custom metrics, as a process.
pub struct Backend {
    pid: String,
}

impl Backend {
    /// That of `store`, behind a guard of 1 GiB that every backend made from now on has too.
    pub fn guarded(store: &PgStore) -> Self {
        let mut found = as_custom_metric(store, &[("SELECT pg_backend_pid()::text AS value", true)]);
        let pid = found.remove(0).2.expect("a connection");
        let backend = Self { pid };
        for pid in [status(&backend.pid, "PPid").expect("a server"), backend.pid.clone()] {
            // Whoever owns a process may lower its limits.
            let owner = fs::metadata(format!("/proc/{pid}")).expect("a process");
            let limit = format!("--data={GUARD_BYTES}");
            let mut command = Command::new("prlimit");
            let set = command.args(["--pid", &pid, &limit]).uid(owner.uid()).gid(owner.gid()).output();
            let set = set.expect("prlimit, of util-linux");
            assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
        }
        backend
    }

    /// What it has in use, in KiB; from here on [`Backend::grown_kib`] counts.
    pub fn measure(&self) -> u64 {
        fs::write(format!("/proc/{}/clear_refs", self.pid), "5").expect("the peak is forgotten");
        self.kib("VmRSS").expect("the backend lives")
    }

    /// By how much the most that it has had in use since then is more than that; `None`: it is gone.
    pub fn grown_kib(&self, before: u64) -> Option<u64> {
        Some(self.kib("VmHWM")?.saturating_sub(before))
    }

    fn kib(&self, field: &str) -> Option<u64> {
        let text = status(&self.pid, field)?;
        Some(text.trim_end_matches(" kB").parse().unwrap_or_else(|_| panic!("{field}: {text}")))
    }
}

fn status(pid: &str, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.map(|line| line.trim().to_owned())
}
