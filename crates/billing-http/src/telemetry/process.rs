//! What the process takes of its machine, as Linux tells it; elsewhere nothing is told.

use std::fs::{read_dir, read_to_string};

/// What the process takes, under the names that Prometheus's own clients give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Time at work of all processors, in clock ticks.
    pub cpu_ticks: u64,
    /// When it began, in clock ticks since the machine did.
    pub start_ticks: u64,
    /// When the machine began, in seconds of Unix time.
    pub boot_seconds: u64,
    /// Memory in use, in bytes.
    pub resident_bytes: u64,
    /// Memory asked for, in bytes.
    pub virtual_bytes: u64,
    /// Files and connections that are open.
    pub open_fds: u64,
    /// Most that may be; `None`: any number.
    pub max_fds: Option<u64>,
}

impl Process {
    /// As it is now; `None` where it cannot be read.
    pub fn now() -> Option<Self> {
        // The name of the program stands in brackets and may hold anything.
        let stat = read_to_string("/proc/self/stat").ok()?;
        let fields: Vec<u64> =
            stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        // Counted from the third field of proc(5) on, which is the first here.
        let field = |number: usize| fields.get(number - 3).copied();
        let status = read_to_string("/proc/self/status").ok()?;
        let kibibytes = |name: &str| number_behind(&status, name).map(|kibibytes| kibibytes * 1024);
        let limits = read_to_string("/proc/self/limits").ok()?;
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            start_ticks: field(22)?,
            boot_seconds: number_behind(&read_to_string("/proc/stat").ok()?, "btime")?,
            resident_bytes: kibibytes("VmRSS:")?,
            virtual_bytes: kibibytes("VmSize:")?,
            // One of them is this look itself.
            open_fds: (read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1),
            max_fds: number_behind(&limits, "Max open files"),
        })
    }

    /// Time at work, in seconds.
    pub fn cpu_seconds(&self) -> String {
        hundredths(self.cpu_ticks)
    }

    /// When it began, in seconds of Unix time.
    pub fn start_seconds(&self) -> String {
        hundredths(self.boot_seconds * rustix::param::clock_ticks_per_second() + self.start_ticks)
    }
}

/// The first number in the line that begins with `name`.
fn number_behind(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Clock ticks as seconds with two decimals, which is as fine as they are.
fn hundredths(ticks: u64) -> String {
    let hundredths = ticks * 100 / rustix::param::clock_ticks_per_second();
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_process_is_as_it_is() {
        let before = Process::now().expect("Linux");
        assert!(before.resident_bytes > 1 << 20 && before.virtual_bytes >= before.resident_bytes, "{before:?}");
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
        let now = Process::now().expect("Linux");
        assert!(now.open_fds >= 50 && now.max_fds.is_none_or(|most| most >= now.open_fds), "{now:?}");
        drop(files);
        assert!(now.cpu_ticks >= before.cpu_ticks && now.start_ticks == before.start_ticks);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let start: u64 = now.start_seconds().split_once('.').expect("decimals").0.parse().expect("a number");
        assert!(start <= unix + 1 && start + 86_400 > unix, "it began at {start}, and it is {unix}");
    }

    #[test]
    fn ticks_are_told_in_seconds() {
        let per_second = rustix::param::clock_ticks_per_second();
        assert_eq!(
            (hundredths(0), hundredths(per_second * 61 + per_second / 2)),
            ("0.00".to_owned(), "61.50".to_owned())
        );
        assert_eq!(number_behind("a 1\nMax open files            1024   4096 files\n", "Max open files"), Some(1024));
        assert_eq!(number_behind("Max open files   unlimited  unlimited files", "Max open files"), None);
    }
}
