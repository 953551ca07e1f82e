//! The log, without the lines that anybody on the network could write into it.

use std::sync::atomic::{AtomicU64, Ordering};

use env_logger::{Builder, Env, Logger};
use log::{Level, Log, Metadata, Record, SetLoggerError};

/// Where the server tells of requests that cannot be read, and how such a line begins.
const SERVER: (&str, &str) = ("actix_http::h1::dispatcher", "stream error: ");

static UNREADABLE: AtomicU64 = AtomicU64::new(0);

/// How many requests of this process could not be read, or broke off: no HTTP, too large a head, a lost connection. Counted by the
/// log of the program, so none are where another log is installed.
pub fn unreadable() -> u64 {
    UNREADABLE.load(Ordering::Relaxed)
}

/// Installs the log, at `level` where `RUST_LOG` does not say.
///
/// # Errors
/// When there is one already.
pub fn install(level: &str) -> Result<(), SetLoggerError> {
    let logger = Builder::from_env(Env::default().default_filter_or(level)).build();
    log::set_max_level(logger.filter());
    log::set_boxed_logger(Box::new(Filtered(logger)))
}

struct Filtered<L = Logger>(L);

impl<L: Log> Log for Filtered<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        let (target, beginning) = SERVER;
        if record.target() == target && record.args().to_string().starts_with(beginning) {
            UNREADABLE.fetch_add(1, Ordering::Relaxed);
            // Whoever asks for this much wants to see them.
            if !self.enabled(&Metadata::builder().target(target).level(Level::Debug).build()) {
                return;
            }
        }
        self.0.log(record);
    }

    fn flush(&self) {
        self.0.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use log::LevelFilter;

    use super::*;

    /// Keeps what is logged.
    struct Kept(LevelFilter, Mutex<Vec<String>>);

    impl Log for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.level() <= self.0
        }

        fn log(&self, record: &Record<'_>) {
            self.1.lock().expect("no panic").push(record.args().to_string());
        }

        fn flush(&self) {}
    }

    #[test]
    fn what_anybody_can_cause_is_counted_and_not_logged() {
        #[rustfmt::skip]
        let cases = [
            // level,              target,                        message,                          logged, counted, why
            (LevelFilter::Info,    "actix_http::h1::dispatcher",  "stream error: invalid header",   false,  1,       "a malformed head"),
            (LevelFilter::Debug,   "actix_http::h1::dispatcher",  "stream error: invalid header",   true,   1,       "asked for"),
            (LevelFilter::Info,    "actix_http::h1::dispatcher",  "Response payload stream error",  true,   0,       "a fault of ours"),
            (LevelFilter::Info,    "billing_http::error",         "stream error: a store",          true,   0,       "somebody else's line"),
        ];
        for (level, target, message, logged, counted, why) in cases {
            let (before, log) = (unreadable(), Filtered(Kept(level, Mutex::default())));
            log.log(&Record::builder().level(Level::Error).target(target).args(format_args!("{message}")).build());
            assert_eq!(log.0.1.lock().expect("no panic").len() == 1, logged, "{why}");
            assert_eq!(unreadable() - before, counted, "{why}");
        }
    }
}
