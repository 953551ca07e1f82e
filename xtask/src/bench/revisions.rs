//! `cargo xtask bench revisions FOLDER`: the programs of today beside those of another revision, each with a Postgres of its own, in
//! turns. What many changes come to is only seen so: two runs at two times tell of the machine.

use anyhow::ensure;
use serde_json::json;

use super::alerts::{set_up, track};
use super::batch::CUSTOMERS;
use super::beside::median;
use super::report::Report;
use super::stage::Stage;
use super::track::count_events;
use super::worked::Worked;
use super::{CLIENTS, Options, gets, load, machine, none_refused};

/// How often both are measured.
const TURNS: usize = 7;

/// What both are measured by.
enum Figure {
    /// One path for each customer, asked for in no order.
    Asked(&'static str, fn(&Side, &str) -> String),
    /// Events in a request, clients that send them, and metrics that count each.
    Sent(u64, usize, u32),
}

const FIGURES: [Figure; 9] = [
    Figure::Asked("a customer", |_, customer| format!("/api/customers/{customer}/")),
    Figure::Asked("a customer's subscriptions", |_, customer| format!("/api/subscriptions/?customer_id={customer}")),
    Figure::Asked("access", |side, customer| {
        format!("/api/metric_access/?customer_id={customer}&metric_id={}", side.metric)
    }),
    Figure::Sent(1, 64, 0),
    Figure::Sent(1, 64, 5),
    Figure::Sent(1, 64, 10),
    Figure::Sent(100, 16, 0),
    Figure::Sent(100, 16, 5),
    Figure::Sent(100, 16, 10),
];

/// One of both.
struct Side {
    stage: Stage,
    /// The metric that is asked for.
    metric: String,
}

/// Runs everything.
///
/// # Errors
/// What does not build, start or answer.
pub fn run(folder: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let options = Options::read(arguments)?;
    ensure!(folder.contains('/'), "{folder} is no path of a folder, as ./{folder} is");
    let mut report = Report::default();
    let sides = [Side::set(&options.profile)?, Side::set(folder)?];
    machine(&sides[0].stage, &mut report)?;
    println!(
        "| what | a second today | of the other, by medians | median of the turns | us of the service | us of Postgres |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for figure in FIGURES.iter().filter(|figure| figure.name().contains(&options.matching)) {
        let mut turns = [Vec::new(), Vec::new()];
        for turn in 0..=TURNS {
            // Whoever is measured first changes, so that a machine that is becoming slower is to nobody's gain.
            for side in [turn % 2, (turn + 1) % 2] {
                let worked = figure.measure(&sides[side], &options)?;
                // The first is for getting warm.
                turns[side].extend((turn > 0).then_some(worked));
            }
        }
        tell(&mut report, &figure.name(), &turns);
    }
    report.write(&options.output)?;
    sides.into_iter().try_for_each(|side| side.stage.clear())
}

impl Side {
    fn set(profile: &str) -> anyhow::Result<Self> {
        let stage = Stage::set(profile)?;
        let [metric, _] = set_up(&stage)?;
        count_events(&stage)?;
        Ok(Self { stage, metric })
    }
}

impl Figure {
    fn name(&self) -> String {
        match self {
            Self::Asked(name, _) => (*name).to_owned(),
            Self::Sent(size, _, metrics) => format!("{size} events each, {metrics} metrics"),
        }
    }

    fn measure(&self, side: &Side, options: &Options) -> anyhow::Result<Worked> {
        match self {
            Self::Asked(_, path) => {
                let of = |number| path(side, &format!("customer-{number:03}"));
                let paths: Vec<String> = (0..CUSTOMERS).map(of).collect();
                let request = gets(&paths);
                Worked::measure(&side.stage, || {
                    let addr = side.stage.service.addr;
                    Ok(none_refused(load::closed(addr, CLIENTS, options.span, &request)?)?.answered)
                })
            }
            Self::Sent(size, clients, metrics) => track(&side.stage, options, (*size, *clients), *metrics),
        }
    }
}

/// A line of a figure: today's of the other's, by the medians of all turns and by the middle of their ratios, which differ where the
/// machine's pace does.
fn tell(report: &mut Report, name: &str, [today, other]: &[Vec<Worked>; 2]) {
    let (middle, middle_of_other) = (Worked::median(today), Worked::median(other));
    let by_turns = median(&today.iter().zip(other).map(|(today, other)| today.rate / other.rate).collect::<Vec<_>>());
    let by_medians = middle.rate / middle_of_other.rate;
    println!(
        "| {name} | {:.0} | {by_medians:.2} | {by_turns:.2} | {:.1} of {:.1} | {:.1} of {:.1} |",
        middle.rate, middle.server_us, middle_of_other.server_us, middle.postgres_us, middle_of_other.postgres_us,
    );
    let figures = |worked: &Worked| json!({"per_second": worked.rate.round(), "service_us": worked.server_us, "postgres_us": worked.postgres_us});
    report.keep(
        name,
        json!({"by_medians": by_medians, "by_turns": by_turns, "today": figures(&middle), "other": figures(&middle_of_other)}),
    );
}
