//! The work nobody calls for: billing what falls due, carrying out advances of test clocks, forgetting old answers, and
//! keeping statistics fresh, and making room for the events of the coming months.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use billing_domain::store::Placed;
use time::OffsetDateTime;

use crate::alert_run::AlertRun;
use crate::backend::Backend;
use crate::billing_run::{self, Asking, BillingRun, bill_leased};
use crate::books_audit_run;
use crate::clock_turns::ClockTurns;
use crate::delivery::Deliverer;
use crate::event_tails::EventTails;
use crate::feed_signals::FeedSignals;
use crate::job_run;
use crate::key_uses::KeyUses;
use crate::taxes::{self, Attempt, Job, Taxes, Undone};

mod alarm;

pub use alarm::Alarm;
use alarm::{Ear, keep_working};

/// How often the queue of due customers is looked at when it was empty.
const BILLING_PAUSE: Duration = Duration::from_secs(1);
/// How often advancing clocks are looked for without being told: another process may have died over one.
const CLOCK_PAUSE: Duration = Duration::from_secs(30);
/// How often tax rates to be asked for are looked for without being told.
const TAX_PAUSE: Duration = Duration::from_secs(5);
/// How often answers that are too old to be asked for again are dropped.
const RETENTION_PAUSE: Duration = Duration::from_secs(600);
/// Answers dropped at once.
const FORGOTTEN_MAX: u32 = 1_000;
/// How often feeds are looked at without being told: another process may have written.
const FEED_PAUSE: Duration = Duration::from_secs(1);
/// How long messages are waited for that are placed together with the first.
const FEED_GROUPING: Duration = Duration::from_millis(20);
/// How often marked customers are looked for without being told: another process may have stored events.
const ALERT_PAUSE: Duration = Duration::from_millis(500);
/// How long is rested at least between two rounds of usage alerts.
const ALERT_GROUPING: Duration = Duration::from_millis(20);
/// How long is rested at most, however long a round takes.
const ALERT_REST_MAX: Duration = Duration::from_millis(300);
/// How often webhook endpoints are looked for that have something to be sent, without being told.
const DELIVERY_PAUSE: Duration = Duration::from_secs(1);
/// How often it is measured how webhook endpoints stand.
const FIGURES_PAUSE: Duration = Duration::from_secs(5);
/// Messages placed at once.
const PLACED_MAX: u32 = 1_000;
/// How often metrics are looked for that are younger than their events.
const ROLLUP_PAUSE: Duration = Duration::from_secs(5);

/// How often reservations are looked for whose transactions were not heard of.
const RESERVATION_PAUSE: Duration = Duration::from_secs(5);

/// How often jobs are looked for when nothing was to be done.
const JOB_PAUSE: Duration = Duration::from_millis(500);

/// How often audits of the books are looked for when nobody had asked for one.
const BOOKS_AUDIT_PAUSE: Duration = Duration::from_secs(1);

/// How often tables are looked for that are planned by what they were.
const STATISTICS_PAUSE: Duration = Duration::from_secs(60);

/// How often it is noted which keys were used.
const KEY_USES_PAUSE: Duration = Duration::from_secs(2);

/// How often it is noted how many events came in.
const EVENT_TALLIES_PAUSE: Duration = Duration::from_secs(2);

/// How often it is shown what came in of events that somebody watches.
const EVENT_TAILS_PAUSE: Duration = Duration::from_millis(800);
/// How long is rested at least between two looks, however many begin to watch.
const EVENT_TAILS_REST: Duration = Duration::from_millis(200);

/// How often months are looked for that have no room yet. There is always room for two more.
const MONTHS_PAUSE: Duration = Duration::from_secs(3_600);

/// What it takes to keep the feeds.
pub struct FeedKeeping {
    signals: Arc<FeedSignals>,
    days: u32,
    deliverer: Arc<Deliverer>,
}

impl FeedKeeping {
    /// With those who wait for messages, which are kept for so many days, and the one who sends them.
    pub fn new(signals: Arc<FeedSignals>, days: u32, deliverer: Arc<Deliverer>) -> Self {
        Self { signals, days, deliverer }
    }
}

/// The threads at work.
pub struct Workers {
    alarms: Vec<Alarm>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts all workers, when there is room for the events that may come now; `clock` wakes the one for test clocks.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start(
        backend: &Arc<dyn Backend>,
        taxes: &Arc<Taxes>,
        clock: (Alarm, Ear),
        feeds: FeedKeeping,
        key_uses: Arc<KeyUses>,
        tails: &Arc<EventTails>,
    ) -> std::io::Result<Self> {
        make_months_ahead(backend.as_ref());
        let mut workers = Self { alarms: Vec::new(), threads: Vec::new() };
        for _ in 0..billing_run::THREADS {
            let taxes = Arc::clone(taxes);
            let bill = move |backend: &dyn Backend| bill_due(backend, &taxes);
            workers.add("billing", BILLING_PAUSE, Alarm::new(), backend, bill)?;
        }
        workers.add_tax_rates(backend, taxes)?;
        let clock_taxes = Arc::clone(taxes);
        let mut turns = ClockTurns::default();
        workers
            .add("test-clocks", CLOCK_PAUSE, clock, backend, move |backend| turns.go_round(backend, &clock_taxes))?;
        workers.add("retention", RETENTION_PAUSE, Alarm::new(), backend, forget_answers)?;
        workers.add("reservations", RESERVATION_PAUSE, Alarm::new(), backend, settle_reservations)?;
        workers.add("roll-ups", ROLLUP_PAUSE, Alarm::new(), backend, catch_up)?;
        workers.add("statistics", STATISTICS_PAUSE, Alarm::new(), backend, refresh_statistics)?;
        workers.add("months", MONTHS_PAUSE, Alarm::new(), backend, make_months_ahead)?;
        workers.add("key-uses", KEY_USES_PAUSE, Alarm::new(), backend, move |backend| note_uses(backend, &key_uses))?;
        workers.add("event-tallies", EVENT_TALLIES_PAUSE, Alarm::new(), backend, note_events)?;
        workers.add_event_tails(backend, tails)?;
        workers.add_alerts(backend)?;
        let job_taxes = Arc::clone(taxes);
        workers.add("jobs", JOB_PAUSE, Alarm::new(), backend, move |backend| work_at_jobs(backend, &job_taxes))?;
        workers.add_books_audits(backend)?;
        workers.add_feeds(backend, feeds)?;
        Ok(workers)
    }

    /// Those that ask organizations' own tax providers for the billing run.
    fn add_tax_rates(&mut self, backend: &Arc<dyn Backend>, taxes: &Arc<Taxes>) -> std::io::Result<()> {
        let mut bells = Vec::new();
        for _ in 0..taxes::THREADS {
            let (alarm, ear) = Alarm::new();
            bells.push(alarm.clone());
            let taxes = Arc::clone(taxes);
            let ask = move |backend: &dyn Backend| ask_next(backend, &taxes);
            self.add("tax-rates", TAX_PAUSE, (alarm, ear), backend, ask)?;
        }
        taxes.on_waiting(move || bells.iter().for_each(Alarm::ring));
        Ok(())
    }

    /// The one that audits books. An audit may take long, and is left when the worker is sent home.
    fn add_books_audits(&mut self, backend: &Arc<dyn Backend>) -> std::io::Result<()> {
        let (alarm, ear) = Alarm::new();
        let (audited, bell) = (Arc::clone(backend), alarm.clone());
        let work = move |_: &dyn Backend| audit_books(&audited, &bell);
        self.add("books-audits", BOOKS_AUDIT_PAUSE, (alarm, ear), backend, work)
    }

    /// The one that shows events to those who watch them come in.
    fn add_event_tails(&mut self, backend: &Arc<dyn Backend>, tails: &Arc<EventTails>) -> std::io::Result<()> {
        let (alarm, ear) = Alarm::new();
        let bell = alarm.clone();
        tails.on_watch(move || bell.ring());
        let shown = Arc::clone(tails);
        let look = move |backend: &dyn Backend| {
            shown.look(backend);
            thread::sleep(EVENT_TAILS_REST);
            false
        };
        self.add("event-tails", EVENT_TAILS_PAUSE, (alarm, ear), backend, look)
    }

    /// The one that holds figures against usage alerts.
    fn add_alerts(&mut self, backend: &Arc<dyn Backend>) -> std::io::Result<()> {
        let (alarm, ear) = Alarm::new();
        let bell = alarm.clone();
        backend.on_marks(Box::new(move || bell.ring()));
        let mut run = AlertRun::default();
        self.add("usage-alerts", ALERT_PAUSE, (alarm, ear), backend, move |backend| look_at_alerts(backend, &mut run))
    }

    /// Those that keep the feeds: one gives messages their places and wakes who waits for them, one drops what is old.
    fn add_feeds(&mut self, backend: &Arc<dyn Backend>, feeds: FeedKeeping) -> std::io::Result<()> {
        let (alarm, ear) = Alarm::new();
        let bell = alarm.clone();
        backend.on_messages(Box::new(move || bell.ring()));
        let days = time::Duration::days(feeds.days.into());
        let sending = self.add_deliveries(backend, &feeds.deliverer, days)?;
        let mut seen = BTreeMap::new();
        let place = move |backend: &dyn Backend| place_messages(backend, &feeds.signals, &sending, &mut seen);
        self.add("feeds", FEED_PAUSE, (alarm, ear), backend, place)?;
        self.add("feed-retention", RETENTION_PAUSE, Alarm::new(), backend, move |backend| drop_messages(backend, days))
    }

    /// Those that see to webhook endpoints: one has messages sent, one measures how they stand. What wakes the first.
    fn add_deliveries(
        &mut self,
        backend: &Arc<dyn Backend>,
        deliverer: &Arc<Deliverer>,
        kept: time::Duration,
    ) -> std::io::Result<Alarm> {
        let (alarm, ear) = Alarm::new();
        let bell = alarm.clone();
        deliverer.on_left(move || bell.ring());
        let (sending, to_send) = (Arc::clone(deliverer), Arc::clone(backend));
        let dispatch = move |_: &dyn Backend| {
            sending.dispatch(&to_send);
            // Whoever is left rings.
            false
        };
        self.add("webhooks", DELIVERY_PAUSE, (alarm.clone(), ear), backend, dispatch)?;
        let measured = Arc::clone(deliverer);
        let look =
            move |backend: &dyn Backend| measured.look_after(backend, OffsetDateTime::now_utc() - kept, FORGOTTEN_MAX);
        self.add("webhook-figures", FIGURES_PAUSE, Alarm::new(), backend, look)?;
        Ok(alarm)
    }

    fn add(
        &mut self,
        name: &str,
        pause: Duration,
        (alarm, ear): (Alarm, Ear),
        backend: &Arc<dyn Backend>,
        mut work: impl FnMut(&dyn Backend) -> bool + Send + 'static,
    ) -> std::io::Result<()> {
        let backend = backend.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        self.threads.push(thread.spawn(move || keep_working(pause, &ear, || work(backend.as_ref())))?);
        self.alarms.push(alarm);
        Ok(())
    }

    /// Tells all to finish what they are at.
    pub fn silence(&self) {
        for alarm in &self.alarms {
            alarm.silence();
        }
    }

    /// Lets all finish what they are at, and waits for them.
    pub fn stop(self) {
        self.silence();
        for thread in self.threads {
            if thread.join().is_err() {
                log::error!("a worker thread had panicked");
            }
        }
    }
}

/// Bills the customers that are due, a few at a time; whether there may be more.
fn bill_due(backend: &dyn Backend, taxes: &Taxes) -> bool {
    let mut run = BillingRun::default();
    let there_is_more = run.take_some(backend, Asking::Later(taxes), None).unwrap_or_else(|error| {
        log::error!("customers due for billing could not be leased: {error}");
        false
    });
    if run.billed + run.failed > 0 {
        log::info!(billed = run.billed, failed = run.failed; "billing run");
    }
    there_is_more
}

/// Gives new messages their places, and wakes those who wait for them or for what another process has placed; whether there
/// may be more.
fn place_messages(
    backend: &dyn Backend,
    signals: &FeedSignals,
    sending: &Alarm,
    seen: &mut BTreeMap<OrganizationId, u64>,
) -> bool {
    // What is committed in the meantime is placed together.
    thread::sleep(FEED_GROUPING);
    let placed = backend.place_messages(PLACED_MAX).unwrap_or_else(|error| {
        log::error!("messages could not be placed: {error}");
        Placed::default()
    });
    signals.ring(&placed.organizations);
    if !placed.organizations.is_empty() {
        sending.ring();
    }
    let waiting = signals.organizations();
    if !waiting.is_empty() {
        match backend.last_positions(&waiting) {
            Ok(last) => {
                let last: BTreeMap<_, _> = waiting.into_iter().zip(last).collect();
                let grown: Vec<_> =
                    last.iter().filter(|(id, last)| seen.get(id) != Some(last)).map(|(id, _)| *id).collect();
                signals.ring(&grown);
                *seen = last;
            }
            Err(error) => log::error!("feeds could not be looked at: {error}"),
        }
    }
    placed.there_is_more
}

/// Holds the figures of customers against usage alerts, some at a time; whether there may be more.
fn look_at_alerts(backend: &dyn Backend, run: &mut AlertRun) -> bool {
    let begun = Instant::now();
    let there_is_more = run.round(backend).unwrap_or_else(|error| {
        log::error!("usage alerts could not be looked at: {error}");
        false
    });
    // What is stored meanwhile is looked at together, and others come to work in between.
    thread::sleep(begun.elapsed().clamp(ALERT_GROUPING, ALERT_REST_MAX));
    there_is_more
}

/// Drops messages that are too old, some at a time; whether there may be more.
fn drop_messages(backend: &dyn Backend, kept: time::Duration) -> bool {
    backend.drop_messages(OffsetDateTime::now_utc() - kept, FORGOTTEN_MAX).unwrap_or_else(|error| {
        log::error!("old messages could not be dropped: {error}");
        false
    })
}

/// Drops old answers, some at a time; whether there may be more.
fn forget_answers(backend: &dyn Backend) -> bool {
    let forgotten = backend.forget_answers(FORGOTTEN_MAX).unwrap_or_else(|error| {
        log::error!("old answers could not be dropped: {error}");
        0
    });
    forgotten == FORGOTTEN_MAX
}

/// Asks an organization's own tax provider for somebody who waits, and goes on with what waited; whether there is more.
fn ask_next(backend: &dyn Backend, taxes: &Taxes) -> bool {
    let Some(at_work) = taxes.next() else { return false };
    let is_asked = match at_work.job() {
        Job::Bill(leased) => bill_leased(backend, taxes, leased, None).is_ok(),
        Job::Note(organization, need) => match taxes.find(backend, *organization, need, &mut Attempt::default()) {
            Ok(()) => true,
            Err(Undone::NotAsked(_)) => false,
            Err(Undone::Failed(error)) => {
                log::error!(organization:%, customer_key:% = need.customer.uuid(), error:%; "a tax rate could not be noted");
                true
            }
        },
    };
    if !is_asked {
        at_work.put_back();
    }
    true
}

/// Prepares usage of metrics that are younger than their events, a few customers at a time; whether there is more.
fn catch_up(backend: &dyn Backend) -> bool {
    backend.catch_up().unwrap_or_else(|error| {
        log::error!("roll-ups could not be filled in: {error}");
        false
    })
}

/// Finds out what became of work on other servers whose end was not heard of; whether there is more.
fn settle_reservations(backend: &dyn Backend) -> bool {
    backend.settle_reservations().unwrap_or_else(|error| {
        log::error!("reservations could not be settled: {error}");
        false
    })
}

/// Works at the next job for a while; whether there may be more.
fn work_at_jobs(backend: &dyn Backend, taxes: &Taxes) -> bool {
    job_run::work_at_jobs(backend, taxes).unwrap_or_else(|error| {
        log::error!("a job could not be worked at: {error}");
        false
    })
}

/// Carries out the audit of books that is next; whether there may be another one.
fn audit_books(backend: &Arc<dyn Backend>, alarm: &Alarm) -> bool {
    books_audit_run::carry_out_next(backend, &|| alarm.is_silent()).unwrap_or_else(|error| {
        log::error!("an audit of the books could not be carried out: {error}");
        false
    })
}

/// Measures the database, and brings up to date what it plans by; never more than once a pause.
fn refresh_statistics(backend: &dyn Backend) -> bool {
    if let Err(error) = backend.measure_database() {
        log::warn!("the database could not be measured: {error}");
    }
    match backend.refresh_statistics() {
        Ok(0) => {}
        Ok(tables) => log::info!(tables; "statistics gathered"),
        Err(error) => log::error!("statistics could not be gathered: {error}"),
    }
    false
}

/// Notes which keys were used since the last time.
fn note_uses(backend: &dyn Backend, uses: &KeyUses) -> bool {
    let used = uses.take();
    if !used.is_empty()
        && let Err(error) = backend.note_uses(&used)
    {
        log::warn!("it could not be noted which keys were used: {error}");
    }
    false
}

/// Notes how many events this process has stored since the last time.
fn note_events(backend: &dyn Backend) -> bool {
    if let Err(error) = backend.note_events() {
        log::warn!("it could not be noted how many events came in: {error}");
    }
    false
}

/// Makes room for the events of the coming months; never more than once a pause. Where it cannot be made whoever stores events
/// makes it.
fn make_months_ahead(backend: &dyn Backend) -> bool {
    match backend.make_months_ahead() {
        Ok(0) => {}
        Ok(months) => log::info!(months; "room made for events"),
        Err(error) => log::error!("no room could be made for the events of the coming months: {error}"),
    }
    false
}
