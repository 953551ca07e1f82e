//! The steps of continuous integration: the same on a laptop, in the same order, stopping at the first failure.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};
use cargo_metadata::MetadataCommand;

use crate::{advisories, house_rules, licences, repository};

/// Rounds of each pair of calls that race for one customer; a plain `cargo test` runs fewer.
const RACE_ROUNDS: &str = "200";
/// Rounds of what races over two stores, each of which bills months.
const RENEWAL_RACE_ROUNDS: &str = "20";
/// The tests of the service and of the store, as the first step has built them: those of a package by itself are built with other features, all anew.
const MAIN_TESTS: [&str; 5] = ["test", "--workspace", "--test", "main", "--"];
/// How many lanes tests are run with besides one.
const LANES: &str = "4";
/// What kills servers of a cluster, where it may.
const KILLS: &str = "durability::citus::a_node_that_dies";
/// What is tried with customers in lanes.
const LANES_OF: [&str; 4] = ["rules::every_route", "rules::isolation", "resources::lists::long", "durability::lives"];
/// What is tried besides where a cluster has them.
const ON_CITUS: [&str; 3] = ["durability::citus", "durability::lanes::books_over_lanes", "docs::guides"];
/// Where programs run in browsers.
const WASM: &str = "wasm32-unknown-unknown";
/// A feature that needs more than a bare machine has.
const FEATURES_LEFT_OUT: [&str; 2] = ["default", "tls"];

pub fn run_all() -> anyhow::Result<()> {
    step("tests", || cargo(&["test", "--workspace"], &[]))?;
    step("lanes", lanes)?;
    step("citus", citus)?;
    step("codes", codes)?;
    step("races", races)?;
    lint()
}

/// The pairs of calls that race for one customer, all pairs at once, for many more rounds than the tests before.
pub fn races() -> anyhow::Result<()> {
    let pairs = ["races::", "--skip", "renewal_races::", "--test-threads", "10"];
    cargo(&[&MAIN_TESTS, &pairs[..]].concat(), &[("BILLING_RACE_ROUNDS", RACE_ROUNDS)])?;
    cargo(&[&MAIN_TESTS[..], &["renewal_races::"]].concat(), &[("BILLING_RACE_ROUNDS", RENEWAL_RACE_ROUNDS)])
}

/// Every route, both tenants, the lists and random lives, with customers in several lanes, in each of which the service works as a role that has no
/// rights on the others: a statement that crosses lanes fails.
pub fn lanes() -> anyhow::Result<()> {
    with_lanes(&LANES_OF)
}

/// The same with lanes on a Citus cluster, besides the guides, the figures of lanes beside those of one, and lanes that are moved. Where there is no cluster
/// nothing is done, which is said, unless there has to be one.
pub fn citus() -> anyhow::Result<()> {
    let Ok(cluster) = env::var("CITUS_URL") else {
        if env::var("CITUS").as_deref() == Ok("1") {
            bail!("CITUS=1, and CITUS_URL names no database of a cluster");
        }
        println!("SKIPPED: lanes on a Citus cluster, since CITUS_URL names none");
        return Ok(());
    };
    let tests = [&ON_CITUS[..], &LANES_OF, &["--test-threads", "2", "--skip", KILLS]].concat();
    cargo(&[&MAIN_TESTS, &tests[..]].concat(), &[("BILLING_TEST_LANES", LANES), ("BILLING_TEST_CLUSTER", &cluster)])?;
    // A server that it kills is that of all databases.
    cargo(&[&MAIN_TESTS[..], &[KILLS]].concat(), &[])
}

/// Runs tests of the service and of the store with customers in several lanes.
pub fn with_lanes(arguments: &[&str]) -> anyhow::Result<()> {
    cargo(&[&MAIN_TESTS, arguments].concat(), &[("BILLING_TEST_LANES", LANES)])
}

/// The same with the lanes on so many servers.
pub fn with_servers(servers: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let environment = [("BILLING_TEST_LANES", LANES), ("BILLING_TEST_SERVERS", servers)];
    cargo(&[&MAIN_TESTS[..], &LANES_OF, arguments].concat(), &environment)
}

/// Holds the documented codes against those that the tests before it have seen.
pub fn codes() -> anyhow::Result<()> {
    let seen = ["--ignored", "--exact", "seen::every_documented_code_was_seen"];
    cargo(&[&MAIN_TESTS, &seen[..]].concat(), &[])
}

pub fn lint() -> anyhow::Result<()> {
    step("house rules", house_rules)?;
    step("licences", || licences::check(&repository()))?;
    step("advisories", advisories::check)?;
    step("format", || cargo(&["fmt", "--all", "--check"], &[]))?;
    step("clippy", clippy)?;
    step("library", library)?;
    // The engine is ready for others: what is packed of it is whole. The build of it is what the tests are.
    step("package", || {
        cargo(&["package", "--package", "billing-domain", "--allow-dirty", "--no-verify", "--quiet"], &[])
    })?;
    // With the features of clippy, whose build it takes over.
    let features = features()?.join(",");
    step("documentation", || {
        cargo(&["doc", "--workspace", "--no-deps", "--features", &features], &[("RUSTDOCFLAGS", "-D warnings")])
    })
}

fn clippy() -> anyhow::Result<()> {
    let features = features()?.join(",");
    cargo(&["clippy", "--workspace", "--all-targets", "--features", &features, "--", "-D", "warnings"], &[])
}

/// The engine as others may take it: with none of its features and with each by itself, and where there is no system at all. Its tests are
/// built in all of these, and run with none: with all of them they have been run before.
fn library() -> anyhow::Result<()> {
    const SETS: [&[&str]; 3] = [&[], &["--features", "service"], &["--features", "custom-sql"]];
    let package = ["--package", "billing-domain", "--no-default-features"];
    for set in SETS {
        cargo(&[&["clippy", "--all-targets"], &package[..], set, &["--", "-D", "warnings"]].concat(), &[])?;
    }
    // Few tests take long, and optimising them would.
    let unoptimised = ["--config", "profile.dev.package.billing-domain.opt-level=0"];
    cargo(&[&["test", "--lib", "--quiet"], &package[..], &unoptimised].concat(), &[])?;
    if !has_target(WASM)? {
        println!(
            "!! {WASM} IS NOT INSTALLED: nobody has looked whether the engine builds for browsers (rustup target add {WASM})"
        );
        return Ok(());
    }
    cargo(&["check", "--package", "billing-domain", "--lib", "--target", WASM], &[])
}

/// Whether the toolchain has a standard library for `target`.
fn has_target(target: &str) -> anyhow::Result<bool> {
    let arguments = ["--print", "target-libdir", "--target", target];
    let output = Command::new("rustc").args(arguments).output().context("cannot run rustc")?;
    Ok(output.status.success() && Path::new(String::from_utf8(output.stdout)?.trim()).is_dir())
}

/// Every feature of every crate here, as `crate/feature`.
fn features() -> anyhow::Result<Vec<String>> {
    let metadata = MetadataCommand::new().current_dir(repository()).no_deps().exec()?;
    let of_package = |package: &cargo_metadata::Package| {
        let wanted = package.features.keys().filter(|feature| !FEATURES_LEFT_OUT.contains(&feature.as_str()));
        wanted.map(|feature| format!("{}/{feature}", package.name)).collect::<Vec<_>>()
    };
    Ok(metadata.packages.iter().flat_map(of_package).collect())
}

fn step(name: &str, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    println!("== {name}");
    let start = Instant::now();
    work().with_context(|| format!("step `{name}` failed"))?;
    println!("== {name}: {:.1} s", start.elapsed().as_secs_f32());
    Ok(())
}

fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<()> {
    let mut command = crate::cargo_command();
    let status = command.args(arguments).envs(environment.iter().copied()).status().context("cannot run cargo")?;
    if !status.success() {
        bail!("`cargo {}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}
