//! What the server is told on its command line. Settings given there win over every configuration file, so durability
//! cannot be edited away; who wants other sizes runs a Postgres of their own.

use std::fs;
use std::path::Path;

pub(crate) const PORT: u16 = 5432; // Only a part of the socket's file name: nothing listens on TCP.

const MIB: u64 = 1 << 20;

/// Settings that every cluster shares: where it listens, and a log without anybody's data in it.
const COMMON: [&str; 8] = [
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "timezone=UTC",
    "log_timezone=UTC",
    "jit=off",
    // Errors of statements are told to the client; in the log, their text and values would be personal data.
    "log_min_messages=log",
    "log_min_error_statement=panic",
    "log_error_verbosity=terse",
];

/// An acknowledged commit survives a power cut.
const DURABLE: [&str; 11] = [
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "wal_compression=on",
    // Few checkpoints: after each one, every touched page goes to the log in full once more.
    "checkpoint_timeout=30min",
    "max_wal_size=4GB",
    "min_wal_size=256MB",
    // Divided into lanes, each of which keeps some.
    "max_connections=500",
    "work_mem=16MB",
    "random_page_cost=1.1",
    "log_checkpoints=off",
];

/// Fast to make and to fill, and worthless after a crash.
const THROW_AWAY: [&str; 13] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "autovacuum=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "checkpoint_timeout=1d",
    "max_wal_size=128MB",
    "min_wal_size=32MB",
    "log_checkpoints=off",
    "shared_buffers=64MB",
    "max_connections=500",
    "max_parallel_workers_per_gather=0",
];

/// On top of those: what is committed can be sent to another server, and be taken from one.
const SENDING: [&str; 6] = [
    "wal_level=logical",
    "max_wal_senders=40",
    "max_replication_slots=40",
    "max_logical_replication_workers=40",
    "max_sync_workers_per_subscription=2",
    "max_worker_processes=60",
];

/// For data that is kept. A quarter of the memory goes to the server's own cache, half counts as cached by the system.
pub(crate) fn durable(socket_folder: &Path) -> Vec<String> {
    let memory = memory_bytes().unwrap_or(1 << 30);
    let cache = (memory / 4).clamp(64 * MIB, 4096 * MIB);
    let mut settings = common(socket_folder);
    settings.extend(DURABLE.map(str::to_owned));
    settings.push(format!("shared_buffers={}MB", cache / MIB));
    settings.push(format!("effective_cache_size={}MB", (memory / 2).max(cache) / MIB));
    settings.push(format!("maintenance_work_mem={}MB", (memory / 32).clamp(32 * MIB, 512 * MIB) / MIB));
    settings
}

/// As [`durable`], of a server that many processes and other servers connect to.
pub(crate) fn durable_sending(socket_folder: &Path) -> Vec<String> {
    let mut settings = durable(socket_folder);
    settings.extend(SENDING.map(str::to_owned));
    settings.push("max_locks_per_transaction=256".to_owned());
    settings
}

/// For tests.
pub(crate) fn throw_away(socket_folder: &Path) -> Vec<String> {
    let mut settings = common(socket_folder);
    settings.extend(THROW_AWAY.map(str::to_owned));
    settings
}

/// For tests of servers that send each other what is committed.
pub(crate) fn throw_away_sending(socket_folder: &Path) -> Vec<String> {
    let mut settings = throw_away(socket_folder);
    // Of a setting that is given twice the server takes the last.
    settings.extend(SENDING.map(str::to_owned));
    settings
}

fn common(socket_folder: &Path) -> Vec<String> {
    let mut settings: Vec<String> = COMMON.map(str::to_owned).into();
    settings.push(format!("port={PORT}"));
    // Quoted, because this is a list and a path may have a comma in it.
    let quoted = socket_folder.display().to_string().replace('"', "\"\"");
    settings.push(format!("unix_socket_directories=\"{quoted}\""));
    settings
}

/// The memory of this machine, or of the container around us when that is less; `None` where the system does not tell.
fn memory_bytes() -> Option<u64> {
    let machine = meminfo_bytes(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let container = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(container.map_or(machine, |limit: u64| limit.min(machine)))
}

fn meminfo_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_memory_size() {
        assert_eq!(meminfo_bytes("MemTotal:       24689812 kB\nMemFree: 1 kB\n"), Some(24_689_812 * 1024));
        assert_eq!(meminfo_bytes("MemFree: 1 kB\n"), None);
    }
}
