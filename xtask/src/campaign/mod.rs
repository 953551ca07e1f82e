//! `cargo xtask campaign`: what one tenant's load does to the memory of the service, and to another tenant; how messages are
//! delivered; what a job that corrects many events does to whoever sends some; all tests with several lanes, and many with those on several servers.

mod attack;
mod corrections;
mod fairness;
mod lanes;
mod loads;
mod memory;
mod receiver;
mod tenant;
mod webhooks;

use anyhow::{Context, bail};

use crate::bench::stage::{KEY, Stage};
use tenant::Tenant;

/// Events of the customer whom usage is asked of.
const EVENTS: u64 = 100_000;

/// Runs a campaign: `memory`, `fairness`, `webhooks`, `corrections`, `lanes` or `servers`.
///
/// # Errors
/// What does not build, start or answer, and a criterion that is not met.
pub fn run(arguments: &[&str]) -> anyhow::Result<()> {
    match arguments {
        ["lanes"] => return lanes::run(),
        ["servers"] => return lanes::run_on_servers(),
        _ => {}
    }
    let (mut profile, mut matching) = ("release", "");
    for option in arguments[1..].chunks(2) {
        match option {
            ["--profile", name] => profile = name,
            ["--matching", text] => matching = text,
            _ => bail!("there are no options but --profile and --matching, each with a value"),
        }
    }
    let stage = Stage::set(profile)?;
    let done = match arguments[0] {
        "memory" => memory::run(&stage, matching),
        "fairness" => fairness::run(&stage, matching),
        "webhooks" => webhooks::run(&stage),
        "corrections" => corrections::run(&stage),
        other => bail!("there is no campaign {other}"),
    };
    stage.clear()?;
    done
}

/// The tenant that makes the load.
fn eager(stage: &Stage) -> anyhow::Result<Tenant> {
    Tenant::new(stage.service.addr, KEY, EVENTS)
}

/// Another one, with a few events.
fn modest(stage: &Stage) -> anyhow::Result<Tenant> {
    Tenant::new(stage.service.addr, &organization(stage, "Modest")?, 1_000)
}

/// The key of a new organization.
fn organization(stage: &Stage, name: &str) -> anyhow::Result<String> {
    let output = stage.program().args(["create-organization", name]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let key = text.split_whitespace().find(|word| word.len() == KEY.len() && word.find('.') == KEY.find('.'));
    key.map(str::to_owned).with_context(|| format!("no key for {name}"))
}
