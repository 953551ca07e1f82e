//! `cargo xtask bench lanes`: what events, access checks, new customers and renewals take of the processors where customers are in one lane, in
//! 4 and in 16, and where 16 are on two and on three servers. All servers are on this machine, so the rates say little and the processor time
//! much: it is what each of several machines would be asked for. One lane is measured first and last.

use std::time::{Duration, Instant};
use std::{iter, thread};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use time::{Date, OffsetDateTime};

use super::alerts::{LOADS, set_up, track};
use super::batch::CUSTOMERS;
use super::beside::mean;
use super::report::Report;
use super::stage::{KEY, Stage};
use super::worked::Worked;
use super::{CLIENTS, Options, create, gets, load, machine, none_refused};

/// Lanes, and servers that they are on.
const ONE: (u32, usize) = (1, 1);
const DIVISIONS: [(u32, usize); 4] = [(4, 1), (16, 1), (16, 2), (16, 3)];
/// How often each figure is measured over one division.
const TURNS: usize = 3;
/// Customers under a test clock, who are renewed.
const RENEWED: u64 = 500;
/// For all of them to be.
const PATIENCE: Duration = Duration::from_secs(120);

/// A figure over one division.
struct Figure {
    name: String,
    worked: Worked,
}

/// Runs everything.
///
/// # Errors
/// What does not build, start or answer, and renewals that do not come.
pub fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    let mut report = Report::default();
    let mut all = Vec::new();
    for division in iter::once(ONE).chain(DIVISIONS).chain([ONE]) {
        let stage = Stage::divided(&options.profile, division.0, division.1)?;
        if all.is_empty() {
            machine(&stage, &mut report)?;
        }
        all.push((division, measure(&stage, &options)?));
        stage.clear()?;
    }
    tell(&mut report, &all);
    report.write(&options.output)
}

/// All figures over one division.
fn measure(stage: &Stage, options: &Options) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut add = |name: &str, all: &[Worked]| {
        figures.push(Figure { name: name.to_owned(), worked: Worked::median(all) });
    };
    let mut metrics = Vec::new();
    let made = Worked::measure(stage, || {
        metrics.extend(set_up(stage)?);
        Ok(CUSTOMERS)
    })?;
    add("a new customer with a subscription", &[made]);
    for (size, clients) in LOADS {
        let turns = (0..TURNS).map(|_| track(stage, options, (size, clients), 1)).collect::<Result<Vec<_>, _>>()?;
        add(&format!("an event, {size} to a request"), &turns);
    }
    let paths: Vec<String> = (0..CUSTOMERS)
        .map(|number| format!("/api/metric_access/?customer_id=customer-{number:03}&metric_id={}", metrics[0]))
        .collect();
    let asking = gets(&paths);
    let check = || Ok(none_refused(load::closed(stage.service.addr, CLIENTS, options.span, &asking)?)?.answered);
    // Once for nothing: what is remembered of customers is there then.
    check()?;
    let turns = (0..TURNS).map(|_| Worked::measure(stage, check)).collect::<Result<Vec<_>, _>>()?;
    add("an access check", &turns);
    add("a renewal with its invoice", &[renew(stage)?]);
    Ok(figures)
}

/// Customers of a clock with a fee and a metered component, moved on beyond the end of their month.
fn renew(stage: &Stage) -> anyhow::Result<Worked> {
    let id = |made: &Value, name: &str| made[name].as_str().map(str::to_owned).context("an answer without an id");
    let metric = id(&create(stage, "/api/metrics/", &json!({"event_name": "renewed"}))?, "metric_id")?;
    let tiers = json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": "0.01", "metric_units_per_batch": 1}]);
    let version = json!({"currency_code": "USD", "components": [{"metric_id": metric, "tiers": tiers}],
        "recurring_charges": [{"name": "base", "amount": 9, "charge_timing": "in_advance"}]});
    let plan = json!({"plan_name": "Renewed", "plan_duration": "monthly", "initial_version": version});
    let plan = id(&create(stage, "/api/plans/", &plan)?, "plan_id")?;
    let day = |days: i64| -> Date { (OffsetDateTime::now_utc() - time::Duration::days(days)).date() };
    let clock = json!({"name": "renewals", "frozen_time": day(40).to_string()});
    let clock = id(&create(stage, "/api/test_clocks/", &clock)?, "test_clock_id")?;
    for number in 0..RENEWED {
        let customer = format!("renewed-{number}");
        let email = format!("{customer}@bench.test");
        create(stage, "/api/customers/", &json!({"customer_id": customer, "email": email, "test_clock_id": clock}))?;
        let body = json!({"customer_id": customer, "plan_id": plan, "start_date": day(40).to_string()});
        create(stage, "/api/subscriptions/", &body)?;
    }
    Worked::measure(stage, || {
        let to = json!({"frozen_time": day(5).to_string()});
        create(stage, &format!("/api/test_clocks/{clock}/advance/"), &to)?;
        let began = Instant::now();
        while clock_status(stage, &clock)? == "advancing" {
            ensure!(began.elapsed() < PATIENCE, "the clock does not arrive");
            thread::sleep(Duration::from_millis(50));
        }
        ensure!(clock_status(stage, &clock)? == "ready", "the clock has failed");
        Ok(RENEWED)
    })
}

fn clock_status(stage: &Stage, clock: &str) -> anyhow::Result<String> {
    let path = format!("/api/test_clocks/{clock}/");
    let (status, answer) = load::call(stage.service.addr, &load::get(&path, KEY))?;
    ensure!(status == 200, "GET {path} answered {status}");
    let clock: Value = serde_json::from_slice(&answer)?;
    clock["status"].as_str().map(str::to_owned).context("a clock without a status")
}

/// A line for each figure and division, held against the mean of both times with one lane.
fn tell(report: &mut Report, all: &[((u32, usize), Vec<Figure>)]) {
    println!("| what | lanes | servers | us of the service | us of Postgres | of one lane |");
    println!("|---|---:|---:|---:|---:|---:|");
    let Some((_, first)) = all.first() else { return };
    for (number, figure) in first.iter().enumerate() {
        let of_one = |worked: fn(&Worked) -> f64| {
            let ones = all.iter().filter(|(division, _)| *division == ONE);
            mean(&ones.map(|(_, figures)| worked(&figures[number].worked)).collect::<Vec<_>>())
        };
        let one = of_one(Worked::us);
        for ((lanes, servers), figures) in all {
            let worked = &figures[number].worked;
            let (server, postgres, ratio) = (worked.server_us, worked.postgres_us, worked.us() / one);
            println!("| {} | {lanes} | {servers} | {server:.1} | {postgres:.1} | {ratio:.2} |", figure.name);
            report.keep(
                &format!("{}, {lanes} lanes, {servers} servers", figure.name),
                json!({"service_us": server, "postgres_us": postgres, "of_one_lane": ratio, "a_second": worked.rate}),
            );
        }
    }
}
