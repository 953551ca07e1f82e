//! `cargo xtask campaign memory`: what loads take of the memory of the service and of Postgres, and what of it they give back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::attack::{Attack, Tally};
use super::loads::{self, Named};
use super::tenant::{CUSTOMER, Tenant};
use crate::bench::stage::Stage;

/// How long each load goes on, and how long everything rests before what is left is looked at.
const SPAN: Duration = Duration::from_secs(12);
const REST: Duration = Duration::from_secs(10);
/// How long it rests at the end.
const LAST_REST: Duration = Duration::from_secs(60);
/// How often the processes of Postgres are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Most that the service may take for any load, over what it has when idle, in MiB.
const GROWTH_MIB_MAX: u64 = 256;
/// Most of that which may be left a minute after all of them.
const LEFT_MIB_MAX: u64 = 128;

/// Runs every load whose name has one of the texts in it that `matching` names with commas between them.
///
/// # Errors
/// What does not answer, and a bound that is not kept.
pub fn run(stage: &Stage, matching: &str) -> anyhow::Result<()> {
    let idle = resident(stage)?;
    let tenant = super::eager(stage)?;
    println!("the service when idle: {idle} MiB\n");
    println!("| load | peak of the service, MiB | {} s later | largest process of Postgres, MiB |", REST.as_secs());
    println!("|---|---:|---:|---:|");
    let mut broken = Vec::new();
    for (name, attack) in all(&tenant)?.iter().filter(|(name, _)| matching.split(',').any(|text| name.contains(text))) {
        stage.service.forget_peak()?;
        let backend = under(stage, attack)?;
        let peak = stage.service.peak_mib().context("the service has gone")?;
        thread::sleep(REST);
        println!("| {name} | {peak} | {} | {backend} |", resident(stage)?);
        if peak > idle + GROWTH_MIB_MAX {
            broken.push(*name);
        }
    }
    thread::sleep(LAST_REST);
    let left = resident(stage)?;
    println!("\n{} s after all of them: {left} MiB", LAST_REST.as_secs());
    ensure!(broken.is_empty(), "more than {GROWTH_MIB_MAX} MiB over idle: {}", broken.join(", "));
    ensure!(left <= idle + LEFT_MIB_MAX, "{left} MiB are left of {idle} when idle");
    Ok(())
}

fn all(tenant: &Tenant) -> anyhow::Result<Vec<Named<'_>>> {
    let list = format!("/api/events/?customer_id={CUSTOMER}&limit=1000");
    Ok(vec![
        ("2,000 slow bodies", loads::slow_bodies(2_000)),
        ("4,000 slow heads", loads::slow_heads(4_000)),
        ("events, 5,000 at a time", loads::track(tenant, 32, 5_000)),
        ("gzip bombs", loads::gzip_bombs(tenant, 16)?),
        ("a metric that doubles 24 times", loads::doubled_metrics(tenant, 8)),
        ("usage by one that doubles 8 times", loads::gets(tenant, 8, vec![tenant.usage(&tenant.custom, 29)])),
        ("lists with large pages", loads::gets(tenant, 32, vec![list])),
        ("a long advance", loads::long_advance(tenant)),
    ])
}

fn resident(stage: &Stage) -> anyhow::Result<u64> {
    stage.service.resident_mib().context("the service has gone")
}

/// Runs a load; the most memory of its own that a process of Postgres had meanwhile, in MiB.
fn under(stage: &Stage, attack: &Attack<'_>) -> anyhow::Result<u64> {
    let (done, tally) = (AtomicBool::new(false), Tally::default());
    let addr = stage.service.addr;
    thread::scope(|scope| {
        let attacking = scope.spawn(|| attack.run(addr, &done, &tally));
        let looking = scope.spawn(|| largest_backend(stage, &done));
        thread::sleep(SPAN);
        done.store(true, Ordering::Relaxed);
        attacking.join().expect("no panic")?;
        looking.join().expect("no panic")
    })
}

fn largest_backend(stage: &Stage, done: &AtomicBool) -> anyhow::Result<u64> {
    let mut peaks = BTreeMap::new();
    while !done.load(Ordering::Relaxed) {
        for (process, mib) in stage.postgres_memory_mib()? {
            let peak: &mut u64 = peaks.entry(process).or_default();
            *peak = mib.max(*peak);
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(peaks.into_values().max().unwrap_or_default())
}
