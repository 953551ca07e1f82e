//! The log, for people or for programs, without the lines that anybody on the network could write into it.
//!
//! A line is a message and what it tells by name. What is caused by a request has the request's id, whichever thread wrote it.

mod line;

use std::io::Write;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
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

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people: time, level, place, message, and `key=value` pairs.
    #[default]
    Text,
    /// For programs: a JSON object.
    Json,
}

/// Installs the log in a format, at `level` where `RUST_LOG` does not say.
///
/// # Errors
/// When there is one already.
pub fn install(level: &str, format: LogFormat) -> Result<(), SetLoggerError> {
    let mut builder = Builder::from_env(Env::default().default_filter_or(level));
    match format {
        LogFormat::Text => builder.format(|out, record| {
            let (ts, style, level) = (out.timestamp(), out.default_level_style(record.level()), record.level());
            let line = line::text(record);
            writeln!(out, "[{ts} {style}{level:<5}{style:#} {}] {line}", record.target())
        }),
        LogFormat::Json => {
            // Whoever reads the log reads of a panic there as well.
            panic::set_hook(Box::new(|panic| log::error!("{panic}")));
            builder.format(|out, record| writeln!(out, "{}", line::json(record, &out.timestamp_micros().to_string())))
        }
    };
    let logger = builder.build();
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
