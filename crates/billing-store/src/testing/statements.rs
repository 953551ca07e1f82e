//! Which statements are sent, and how many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;

use diesel::connection::{Instrumentation, InstrumentationEvent, set_default_instrumentation};

/// How the threads are called that ask the database for requests: those that wait for it, and the workers that ask for many at
/// once. Others ask it in their own time.
const OF_REQUESTS: [&str; 2] = ["tokio", "batch-worker"];

/// What a copy of the catalogue on another server is asked until it has caught up: how often says nothing of what is looked for.
const WAITING_FOR_A_COPY: &str = "SELECT position FROM catalogue_position";

/// How many statements were sent to each database by name, on threads [`OF_REQUESTS`].
static SENT: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Counts the statements of one connection, but for the ends of transactions: some come behind the answer, and so would
/// be counted for whatever is asked next.
struct Counter {
    database: String,
    is_ending: bool,
}

impl Instrumentation for Counter {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        match event {
            InstrumentationEvent::StartEstablishConnection { url, .. } => self.database = database_of(url),
            InstrumentationEvent::CommitTransaction { .. } | InstrumentationEvent::RollbackTransaction { .. } => {
                self.is_ending = true;
            }
            InstrumentationEvent::StartQuery { .. } if self.is_ending => self.is_ending = false,
            InstrumentationEvent::StartQuery { query, .. } => {
                let thread = thread::current();
                let name = thread.name().unwrap_or_default();
                let is_of_request = OF_REQUESTS.iter().any(|begin| name.starts_with(begin));
                let is_counted = is_of_request && !query.to_string().starts_with(WAITING_FOR_A_COPY);
                if let (true, Ok(mut sent)) = (is_counted, SENT.lock()) {
                    *sent.entry(self.database.clone()).or_default() += 1;
                }
            }
            _ => {}
        }
    }
}

/// The texts of the statements that were sent to each database of those that are listened to.
static TEXTS: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::new(BTreeMap::new());

/// Notes the texts of one connection's statements.
struct Listener {
    database: String,
}

impl Instrumentation for Listener {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        match event {
            InstrumentationEvent::StartEstablishConnection { url, .. } => self.database = database_of(url),
            InstrumentationEvent::StartQuery { query, .. } => {
                let text = query.to_string();
                let text =
                    text.split("-- binds:").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
                if let Ok(mut texts) = TEXTS.lock() {
                    texts.entry(self.database.clone()).or_default().insert(text);
                }
            }
            _ => {}
        }
    }
}

/// From here on the texts of statements are noted, of connections that are made.
pub fn listen_to_statements() {
    let listener = || Some(Box::new(Listener { database: String::new() }) as Box<dyn Instrumentation>);
    // A poisoned lock: some other test has panicked while it did the same.
    set_default_instrumentation(listener).unwrap_or_default();
}

/// The texts of the statements that were sent to the database at `url` since [`listen_to_statements`], each once, in one line.
pub fn statements_heard(url: &str) -> Vec<String> {
    let texts = TEXTS.lock().map(|texts| texts.get(&database_of(url)).cloned().unwrap_or_default());
    texts.map(|texts| texts.into_iter().collect()).unwrap_or_default()
}

/// The part of a URL that names the database.
fn database_of(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}

/// From here on the statements of connections that are made are counted, but for the ends of transactions.
pub fn count_statements() {
    let counter = || Some(Box::new(Counter { database: String::new(), is_ending: false }) as Box<dyn Instrumentation>);
    // A poisoned lock: some other test has panicked while it did the same.
    set_default_instrumentation(counter).unwrap_or_default();
}

/// How many statements were sent to the database at `url` since [`count_statements`].
pub fn statements_sent(url: &str) -> u64 {
    SENT.lock().ok().and_then(|sent| sent.get(&database_of(url)).copied()).unwrap_or_default()
}
