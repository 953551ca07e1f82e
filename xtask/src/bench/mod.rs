//! `cargo xtask bench`: how fast events come in and access is answered, held against what the same machine does in the
//! same run without the service's logic.

mod access;
pub mod billing;
mod limits;
mod load;
mod report;
mod stage;
mod track;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use load::Outcome;
use report::{Report, Row};
use stage::{KEY, Stage};

/// What a caller may choose.
struct Options {
    span: Duration,
    profile: String,
    /// Events of the customers whose access is asked for.
    sizes: Vec<u64>,
    output: PathBuf,
    /// The one part to be run; `None`: all.
    only: Option<String>,
    /// What the name of a figure of events coming in must contain to be measured.
    matching: String,
}

impl Options {
    fn read(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut options = Self {
            span: Duration::from_secs(3),
            profile: "release".to_owned(),
            sizes: vec![10_000, 100_000, 1_000_000],
            output: crate::repository().join("target/bench.json"),
            only: None,
            matching: String::new(),
        };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match *argument {
                "--seconds" => options.span = Duration::from_secs(value()?.parse()?),
                "--profile" => options.profile = (*value()?).to_owned(),
                "--output" => options.output = value()?.into(),
                "--only" => options.only = Some((*value()?).to_owned()),
                "--matching" => options.matching = (*value()?).to_owned(),
                "--full" => options.sizes.push(10_000_000),
                other => bail!("there is no option {other}"),
            }
        }
        Ok(options)
    }

    fn runs(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

/// What the servers do without logic: requests a second and, at a fixed rate, microseconds.
struct Floor {
    lookup: f64,
    lookup_p99_us: u64,
}

/// Runs everything.
///
/// # Errors
/// What does not build, start or answer, and answers that are wrong.
pub fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    let stage = Stage::set(&options.profile)?;
    let mut report = Report::default();
    machine(&stage, &mut report)?;
    let floor = floor(&stage, &options, &mut report)?;
    if options.runs("track") {
        track::run(&stage, &options, &floor, &mut report)?;
    }
    if options.runs("access") {
        access::run(&stage, &options, &floor, &mut report)?;
    }
    if options.runs("limits") {
        limits::run(&stage, &options, &mut report)?;
    }
    if let Some(folder) = options.output.parent() {
        fs::create_dir_all(folder)?;
    }
    report.write(&options.output)?;
    stage.clear()
}

fn machine(stage: &Stage, report: &mut Report) -> anyhow::Result<()> {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    report.note("processor", model.map(|(_, name)| name));
    report.note("processors", std::thread::available_parallelism()?.get());
    report.note("postgres", stage.sql("SHOW server_version;")?);
    Ok(())
}

/// Part of the highest rate at which latency is measured: the server is at work, and not drowning.
const CALM: f64 = 0.4;
const CLIENTS: usize = 64;

/// A GET of one path, in a closed loop for its rate and in an open one for its latency.
fn measure_get(
    addr: std::net::SocketAddr,
    span: Duration,
    paths: &(dyn Fn(usize, u64) -> String + Sync),
) -> anyhow::Result<(Outcome, Outcome)> {
    let request = |client: usize, n: u64| load::get(&paths(client, n), KEY);
    load::closed(addr, CLIENTS, span / 4, &request)?;
    let fast = load::closed(addr, CLIENTS, span, &request)?;
    let calm = load::open(addr, CLIENTS, fast.rate() * CALM, span, &request)?;
    if fast.refused + calm.refused > 0 {
        bail!("{} requests were refused", fast.refused + calm.refused);
    }
    Ok((fast, calm))
}

fn floor(stage: &Stage, options: &Options, report: &mut Report) -> anyhow::Result<Floor> {
    let addr = stage.baseline.addr;
    let (fast, calm) = measure_get(addr, options.span, &|_, _| "/constant".to_owned())?;
    report.add(Row::rate("actix, a constant", fast.rate(), "requests").with_latency(&calm));
    let (fast, calm) = measure_get(addr, options.span, &|_, _| "/lookup".to_owned())?;
    report.add(Row::rate("actix and one look-up by primary key", fast.rate(), "requests").with_latency(&calm));
    Ok(Floor { lookup: fast.rate(), lookup_p99_us: calm.quantile_us(0.99) })
}

/// The answer to a POST, which must succeed.
fn create(stage: &Stage, path: &str, body: &Value) -> anyhow::Result<Value> {
    let (status, answer) = load::call(stage.service.addr, &load::post(path, KEY, &body.to_string()))?;
    if status >= 300 {
        bail!("POST {path} answered {status}: {}", String::from_utf8_lossy(&answer));
    }
    Ok(serde_json::from_slice(&answer)?)
}

/// A number that looks random and is the same in every run (splitmix64).
fn scrambled(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
