#![forbid(unsafe_code)]
//! The server's program.

use std::io::{Error, ErrorKind, Write, stderr};
use std::process::ExitCode;

use billing_http::cli::{Cli, run};
use billing_http::telemetry::log::{self, LogFormat};
use mimalloc::MiMalloc;

/// Events are many small pieces of memory that one thread takes and another gives back.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::of_the_command_line();
    let format = cli.settings.log;
    let done = log::install(cli.usual_log_level(), format).map_err(anyhow::Error::from).and_then(|()| run(cli));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has read enough, as `head` does.
        Err(error) if error.chain().any(is_broken_pipe) => ExitCode::SUCCESS,
        Err(error) if format == LogFormat::Json => {
            ::log::error!("{error:#}");
            ExitCode::FAILURE
        }
        Err(error) => {
            // For a person: the reasons in one line. When nobody reads it, the exit code remains.
            writeln!(stderr(), "Error: {error:#}").unwrap_or_default();
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
