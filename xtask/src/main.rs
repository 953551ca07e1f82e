#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a command line talks on its standard output")]
//! Development chores. `cargo xtask ci` runs all that continuous integration runs; `cargo xtask lint` all of it but the
//! tests.

mod advisories;
mod bench;
mod campaign;
mod ci;
mod layering;
mod licences;
mod module_layers;
mod modules;
mod packaging;
mod python;
mod schemathesis;
mod tidy;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};

const USAGE: &str = "\
cargo xtask ci        everything that continuous integration runs
cargo xtask lint      the same without the tests
cargo xtask codes     holds the documented error codes against those that a run of all tests has seen
cargo xtask lanes     every route, long lists and random lives with customers in 4 lanes; a minute
cargo xtask citus     the same, the guides and moves on a Citus cluster, of which CITUS_URL is the URL of a database; minutes
cargo xtask races     the calls that race for one customer, 200 rounds of each pair: minutes
cargo xtask tidy      the house rules of layering and tidiness only
cargo xtask licences  the licences of all dependencies only
cargo xtask advisories  known holes of all dependencies only; needs cargo-deny and a database in ~/.cargo/advisory-dbs
cargo xtask packaging linters of the container, compose and systemd files; needs Python and its package index
cargo xtask schemathesis [N]   made-up requests against a live service, N for each call; needs Python and its package index
cargo xtask bench     how fast events come in and access is answered; options:
    --seconds N       how long each figure is measured (3); latencies at least 4
    --only PART       track, access or limits
    --matching TEXT   of the figures of events only those whose name has this in it
    --profile NAME    the cargo profile of the server (release), or a folder with the programs of another revision
    --full            access with 10,000,000 events too; minutes more
    --output FILE     where the figures go as JSON (target/bench.json)
cargo xtask campaign memory     what loads take of memory, of the service and of Postgres; five minutes; option --matching TEXT
cargo xtask campaign fairness   what another tenant feels of one tenant's loads; seven minutes; options as above
cargo xtask campaign webhooks   100 endpoints, one of them hanging, and deliveries beside a bare client; three minutes; option --profile
cargo xtask campaign corrections  100,000 events voided by a filter in one job, and what whoever sends events feels of it; option --profile
cargo xtask campaign lanes      all tests of the service and the store with customers in 4 lanes; half an hour
cargo xtask campaign servers    routes, lists, lives, guides, races and the contract with those lanes on 2 and on 3 servers; half an hour
cargo xtask bench billing   how fast invoices go out when everybody is due at once; options: --profile, --output as above,
    --customers N     how many are due (10,000), with 100 events each
cargo xtask bench many-metrics   imports, calls and roll-ups being filled in where 1, 26 and 100 metrics count one event name;
    options: --seconds, --profile, --output as above
cargo xtask bench usage   usage of many days that no roll-up tells, from the events and remembered; options: --profile, --output
cargo xtask bench alerts  what usage alerts about 1,000 customers cost whoever sends events, in turns with and without them, and how
    soon they are told; options: --seconds, --profile, --output
cargo xtask bench lanes   what calls take of the processors with customers in 1, 4 and 16 lanes, and on 2 and 3 servers; options as before
cargo xtask bench revisions FOLDER  calls and events beside the billing-http of another revision, which is in the folder, in turns; twelve
    minutes; options: --seconds, --matching, --profile, --output
cargo xtask bench console how long each page of the console takes with 1,000 customers and with 100,000, who have 10,000,000 events; ten minutes,
    8 GB of disk; options: --profile, --output";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> anyhow::Result<()> {
    let names: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match names[..] {
        ["ci"] => ci::run_all(),
        ["lint"] => ci::lint(),
        ["codes"] => ci::codes(),
        ["lanes"] => ci::lanes(),
        ["citus"] => ci::citus(),
        ["races"] => ci::races(),
        ["tidy"] => house_rules(),
        ["bench", "billing", ref options @ ..] => bench::billing::run(options),
        ["bench", "alerts", ref options @ ..] => bench::alerts::run(options),
        ["bench", "console", ref options @ ..] => bench::console::run(options),
        ["bench", "lanes", ref options @ ..] => bench::lanes::run(options),
        ["bench", "revisions", folder, ref options @ ..] => bench::revisions::run(folder, options),
        ["bench", "usage", ref options @ ..] => bench::usage::run(options),
        ["bench", "many-metrics", ref options @ ..] => bench::many_metrics::run(options),
        ["bench", ref options @ ..] => bench::run(options),
        ["campaign", ref arguments @ ..] if !arguments.is_empty() => campaign::run(arguments),
        ["packaging"] => packaging::lint(),
        ["advisories"] => advisories::check(),
        ["licences"] => licences::check(&repository()),
        ["schemathesis"] => schemathesis::run(None),
        ["schemathesis", examples] => schemathesis::run(Some(examples)),
        _ => bail!("nothing done; there are\n{USAGE}"),
    }
}

/// The rules that are also tests, with the wishes that are too soft for a test.
fn house_rules() -> anyhow::Result<()> {
    let files = tidy::Files::read(&repository())?;
    for wish in files.wishes() {
        println!("  {wish}");
    }
    let mut problems = files.problems();
    problems.extend(layering::problems(&repository())?);
    problems.extend(module_layers::problems(&files));
    problems.extend(packaging::problems(&repository())?);
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

/// The folder of the workspace.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the workspace").to_owned()
}

/// Where the build's output goes.
fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from)
}

/// Cargo, as whoever called this has called it: what it tells this program about its package is left out. A build script that looks at that would be run
/// anew, and all that stands on it be built anew, each time that one calls cargo oneself and then here, or the other way round.
fn cargo_command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let told = |name: &OsStr| {
        name.to_str().is_some_and(|name| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|told| name.starts_with(told)))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| told(name)) {
        command.env_remove(name);
    }
    command.current_dir(repository());
    command
}

/// Runs a program that must end well.
fn done(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}
