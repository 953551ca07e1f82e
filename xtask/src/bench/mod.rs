//! `cargo xtask bench`: how fast events come in and access is answered, held against what the same machine does in the
//! same minute without the service's logic.

mod access;
pub mod alerts;
pub mod batch;
pub mod beside;
pub mod billing;
pub mod console;
pub mod lanes;
mod limits;
pub mod load;
pub mod many_metrics;
mod report;
pub mod revisions;
pub mod stage;
mod track;
pub mod usage;
pub mod worked;

use std::fs;
use std::net::SocketAddr;
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

    fn spans(&self) -> Spans {
        Spans { rate: self.span, latency: self.span.max(LATENCY) }
    }

    fn runs(&self, part: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == part)
    }
}

/// How long the open loop lasts at least: in a shorter one a single stall is more than one answer in a hundred.
const LATENCY: Duration = Duration::from_secs(4);

/// How long a rate and a latency are measured.
#[derive(Clone, Copy)]
struct Spans {
    rate: Duration,
    latency: Duration,
}

impl Spans {
    /// For a baseline: before a figure and after it come to as long as the figure itself.
    fn half(self) -> Self {
        Self { rate: self.rate / 2, latency: self.latency / 2 }
    }
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
    let baseline = stage.baseline()?;
    floors(baseline.addr, &options, &mut report)?;
    if options.runs("track") {
        track::run(&stage, baseline.addr, &options, &mut report)?;
    }
    if options.runs("access") {
        access::run(&stage, baseline.addr, &options, &mut report)?;
    }
    if options.runs("limits") {
        limits::run(&stage, &options, &mut report)?;
    }
    if let Some(folder) = options.output.parent() {
        fs::create_dir_all(folder)?;
    }
    report.write(&options.output)?;
    drop(baseline);
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
const MODERATE_LOAD: f64 = 0.4;
const CLIENTS: usize = 64;
/// Where the server without logic looks one row up.
const LOOK_UP: &str = "/lookup";

/// A GET of each path in no order, in a closed loop for its rate and in an open one for its latency.
fn measure_get(addr: SocketAddr, spans: Spans, paths: &[String]) -> anyhow::Result<(Outcome, Outcome)> {
    measure_get_beside(addr, spans, paths, f64::INFINITY)
}

/// [`measure_get`] beside something with a rate of its own: whatever can do more is not asked to do more for its latency.
fn measure_get_beside(
    addr: SocketAddr,
    spans: Spans,
    paths: &[String],
    rate: f64,
) -> anyhow::Result<(Outcome, Outcome)> {
    let fast = measure_rate(addr, spans.rate, paths)?;
    let moderate = measure_latency(addr, fast.rate().min(rate) * MODERATE_LOAD, spans.latency, paths)?;
    Ok((fast, moderate))
}

fn measure_rate(addr: SocketAddr, span: Duration, paths: &[String]) -> anyhow::Result<Outcome> {
    let request = gets(paths);
    load::closed(addr, CLIENTS, span / 4, &request)?;
    none_refused(load::closed(addr, CLIENTS, span, &request)?)
}

fn measure_latency(addr: SocketAddr, rate: f64, span: Duration, paths: &[String]) -> anyhow::Result<Outcome> {
    none_refused(load::open(addr, CLIENTS, rate, span, &gets(paths))?)
}

fn gets(paths: &[String]) -> impl Fn(usize, u64, &mut Vec<u8>) + Sync {
    let gets: Vec<_> = paths.iter().map(|path| load::get(path, KEY)).collect();
    move |client, n, request| {
        let choice = scrambled((client as u64) << 40 | n) % gets.len() as u64;
        request.clear();
        request.extend_from_slice(&gets[choice as usize]);
    }
}

fn none_refused(outcome: Outcome) -> anyhow::Result<Outcome> {
    match outcome.refused {
        0 => Ok(outcome),
        refused => bail!("{refused} requests were refused"),
    }
}

/// What the servers do without logic, at the beginning. Figures are held against what is measured beside them.
fn floors(baseline: SocketAddr, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for (name, path) in [("actix, a constant", "/constant"), ("actix and one look-up by primary key", LOOK_UP)] {
        let (fast, moderate) = measure_get(baseline, options.spans().half(), &[path.to_owned()])?;
        report.add(Row::rate(name, fast.rate(), "requests").with_latency(&moderate));
    }
    Ok(())
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
