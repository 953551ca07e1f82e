//! Taking events in: each one stored and counted once, durably, before the answer.
//!
//! A group of events is one transaction that holds the locks of the key ranges its customers are in. Whoever holds a key range
//! is alone with its customers' events and roll-ups, so nothing here can deadlock, and the set of metrics cannot
//! change between storing an event and counting it. How long it holds them is bounded: in events, and in the rows of
//! roll-ups that they move. What is more is stored in the next transaction.

mod bound;
mod collect;
mod headroom;
mod insert;
mod preparation;
mod rules;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use billing_domain::api_key::Fingerprint;
use billing_domain::event::{Event, Ingested, Properties};
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{EventTally, Reply, Requester, Window};
use billing_domain::{Error, FieldCode, FieldError, StoreError};
use diesel::{PgConnection, RunQueryDsl};
use serde_json::Value;
use uuid::Uuid;

use self::headroom::Alerting;
use self::preparation::Preparation;
use self::rules::IngestState;
use crate::batcher::{BatchBudget, Batcher, Job, PartsMax};
use crate::lanes::Lane;
use crate::pg::error::Failure;
use crate::pg::month::Month;
use crate::remembered::Uncounted;
use crate::repo::api_key;
use crate::repo::event::id_hash;
use crate::repo::usage_alert::MarkCustomers;
use crate::rollup::{Counting, Counts, Written, enter_key_ranges};
use crate::shared::Shared;

/// An event on its way in, with what can be made of it before any lock is held.
struct Row {
    event: Event,
    customer: CustomerKey,
    id_hash: Uuid,
}

/// A row that is dated so that it is taken in, and its place in the group.
struct Candidate<'r> {
    index: usize,
    row: &'r Row,
    months: Months,
    /// Its arrival number; 0 until it has one.
    arrival: i64,
}

/// The months that matter to an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Months {
    /// The one that it is in.
    dated: Month,
    /// The first and the last one in which an event of the same id would be the same event.
    probed: (Month, Month),
}

/// Refuses null characters: the database could keep them in properties but never read those again.
fn check(events: &[Event]) -> Result<(), Error> {
    let holds_null = |event: &Event| {
        let texts = [event.customer.as_str(), &event.name, &event.idempotency_id];
        texts.iter().any(|text| text.contains('\0')) || properties_hold_null(&event.properties)
    };
    match events.iter().position(holds_null) {
        None => Ok(()),
        Some(index) => {
            let attr = format!("events.{index}");
            Err(FieldError::new(attr, FieldCode::Invalid, "The null character is not allowed.").into())
        }
    }
}

fn properties_hold_null(properties: &Properties) -> bool {
    // In JSON it is always spelled so; what is spelled so may also be a backslash and some letters.
    properties.as_json().contains("\\u0000") && value_holds_null(&Value::Object(properties.to_map()))
}

fn value_holds_null(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(value_holds_null),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || value_holds_null(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Transactions that store events at a time.
pub(crate) const WRITERS: usize = 2;
/// Most events in one transaction.
const GROUP_MAX: PartsMax = PartsMax { alone: 5_000, in_company: 500 };

/// What the events of one transaction have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    organization: OrganizationId,
    window: Window,
    /// The number of the lane that they are in.
    lane: usize,
}

/// The events of one caller.
pub(crate) struct Arrival {
    terms: Terms,
    /// What opens the organization to the caller.
    key: Option<Fingerprint>,
    rows: Vec<Row>,
    reply: Reply<Vec<Ingested>>,
}

impl Job for Arrival {
    fn organization(&self) -> Option<OrganizationId> {
        Some(self.terms.organization)
    }

    fn joins_batch(&self, first: &Self, budget: &mut BatchBudget) -> bool {
        self.terms == first.terms && budget.take(self.rows.len(), GROUP_MAX)
    }

    fn refuse(self, error: Error) {
        (self.reply)(Err(error));
    }
}

/// An event's key: its customer, and the hash of its id.
type EventKey = (Uuid, Uuid);

/// What becomes of some events.
type Outcome = Result<Vec<Ingested>, Error>;

/// Leaves a caller's events with the writers, of which each has key ranges of its own; what becomes of them is told to `reply`.
pub(crate) fn submit(
    shared: &Shared,
    writers: &[Arc<Batcher<Arrival>>],
    (requester, events, window): (Requester, Vec<Event>, Window),
    reply: Reply<Vec<Ingested>>,
) {
    if let Err(error) = check(&events) {
        return reply(Err(error));
    }
    let Requester { organization, key } = requester;
    let parts = split(shared, organization, events);
    let batchers: Vec<_> = parts.iter().map(|part| (&writers[part.writer], part.weight)).collect();
    // All of it is taken or nothing.
    let owner = Some(organization);
    let reserved = batchers.iter().take_while(|(batcher, weight)| batcher.reserve(owner, *weight)).count();
    if reserved < batchers.len() {
        batchers[..reserved].iter().for_each(|(batcher, weight)| batcher.release(owner, *weight));
        return reply(Err(StoreError::Overloaded.into()));
    }
    // Pieces wait, so that an organization that comes meanwhile waits for no more than one; alone they are joined again.
    let parts: Vec<Part> = parts.into_iter().flat_map(|part| part.cut(GROUP_MAX.in_company)).collect();
    let replies = collect::replies(parts.iter().map(|part| part.places.clone()).collect(), reply);
    for (part, reply) in parts.into_iter().zip(replies) {
        let terms = Terms { organization, window, lane: part.lane };
        let arrival = Arrival { terms, key: key.clone(), rows: part.rows, reply };
        writers[part.writer].submit_reserved(arrival, part.weight);
    }
}

/// Stores the events of all callers in one transaction.
pub(crate) fn serve(shared: &Shared, jobs: Vec<Arrival>) {
    let Some(terms) = jobs.first().map(|job| job.terms) else { return };
    match shared.store_all(terms, &jobs) {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for job in jobs {
                let answers_of_job = answers.by_ref().take(job.rows.len()).collect();
                (job.reply)(Ok(answers_of_job));
            }
        }
        // Something is wrong with the key or the events of one of them, or with the database.
        Err(Error::Refused(_) | Error::Store(StoreError::Internal(_))) if jobs.len() > 1 => {
            for job in jobs {
                let outcome = shared.store_all(terms, std::slice::from_ref(&job));
                (job.reply)(outcome);
            }
        }
        Err(error) => jobs.into_iter().for_each(|job| job.refuse(error.clone())),
    }
}

/// What came of a group.
enum Attempt {
    /// Its first events are stored.
    Stored { answers: Vec<Ingested>, written: Written, tally: EventTally, has_marked: bool },
    /// Something that they need is not there; nothing is stored.
    Unprepared(Preparation),
}

/// Those of a caller's events that are in one lane and that one writer stores.
struct Part {
    lane: usize,
    writer: usize,
    rows: Vec<Row>,
    /// Where they were among all.
    places: Vec<usize>,
    weight: usize,
}

impl Part {
    /// The same in pieces of at most so many events; none of nothing.
    fn cut(mut self, most: usize) -> Vec<Self> {
        let mut pieces = Vec::new();
        while self.rows.len() > most {
            let (rows, places) = (self.rows.split_off(most), self.places.split_off(most));
            let weight = rows.iter().map(Row::weight).sum();
            let Self { lane, writer, .. } = self;
            pieces.push(Self { weight: self.weight - weight, ..self });
            self = Self { lane, writer, rows, places, weight };
        }
        pieces.extend((!self.rows.is_empty()).then_some(self));
        pieces
    }
}

/// Divides events among the writers. Each has key ranges of its own, so that in one process none waits for another, and what one
/// stores at once is about fewer customers.
fn split(shared: &Shared, organization: OrganizationId, events: Vec<Event>) -> Vec<Part> {
    let mut parts: BTreeMap<(usize, usize), Part> = BTreeMap::new();
    for (place, event) in events.into_iter().enumerate() {
        let row = Row::new(organization, event);
        let lane = shared.lanes.of(row.customer).number;
        let writer = shared.key_ranges.of(row.customer).unsigned_abs() as usize % WRITERS;
        let none = || Part { lane, writer, rows: Vec::new(), places: Vec::new(), weight: 0 };
        let part = parts.entry((lane, writer)).or_insert_with(none);
        part.weight += row.weight();
        part.places.push(place);
        part.rows.push(row);
    }
    parts.into_values().collect()
}

impl Shared {
    /// Stores the events of some callers, in one transaction unless they move more rows of roll-ups than fit.
    fn store_all(&self, terms: Terms, jobs: &[Arrival]) -> Outcome {
        let keys: Vec<&Fingerprint> = jobs.iter().filter_map(|job| job.key.as_ref()).collect();
        let rows: Vec<&Row> = jobs.iter().flat_map(|job| &job.rows).collect();
        let mut answers = Vec::with_capacity(rows.len());
        while answers.len() < rows.len() {
            answers.extend(self.store_group(terms, &keys, &rows[answers.len()..])?);
        }
        Ok(answers)
    }

    /// Stores a group's first events, as many as one transaction takes, and answers them; at least one. If nobody knows whether
    /// it was committed, it is done again: what was stored is then known.
    fn store_group(&self, terms: Terms, keys: &[&Fingerprint], rows: &[&Row]) -> Outcome {
        let lane = self.lanes.at(terms.lane);
        self.lanes.with(lane, |lane| self.store_group_in(lane, terms, keys, rows)).map_err(Failure::into_error)
    }

    /// [`Shared::store_group`] where its lane is.
    fn store_group_in(
        &self,
        lane: &Lane,
        terms: Terms,
        keys: &[&Fingerprint],
        rows: &[&Row],
    ) -> Result<Vec<Ingested>, Failure> {
        let mut made = Preparation::default();
        loop {
            match self.try_group((lane, terms), keys, rows, &made)? {
                Attempt::Stored { answers, written, tally, has_marked } => {
                    self.messages.ring_for_marks_if(has_marked);
                    lane.ingest.note_uncounted(Uncounted::of(&tally));
                    self.tallies.add(terms.organization, tally);
                    lane.ingest.hours.remember(written);
                    return Ok(answers);
                }
                Attempt::Unprepared(missing) => {
                    lane.make_ready(terms.organization.uuid(), &missing)?;
                    // Not left to what is remembered: that may be forgotten again at any time.
                    made.join(missing);
                }
            }
        }
    }

    /// Stores and counts, in one transaction, what of a group's first events is new and dated so that it is taken in, if all
    /// keys are valid and all that the events need is there.
    fn try_group(
        &self,
        (lane, terms): (&Lane, Terms),
        keys: &[&Fingerprint],
        rows: &[&Row],
        made: &Preparation,
    ) -> Result<Attempt, Failure> {
        let (cache, key_ranges, organization) = (&lane.ingest, self.key_ranges, terms.organization.uuid());
        let mut in_key_ranges: BTreeMap<i32, i64> = BTreeMap::new();
        rows.iter().for_each(|row| *in_key_ranges.entry(key_ranges.of(row.customer)).or_default() += 1);
        let prefixes = api_key::prefixes(keys.iter().copied());
        lane.worker_pool.transact_again(|pg| {
            let mut arrivals = enter_key_ranges(pg, organization, &in_key_ranges)?;
            // Behind the lock: whoever changes what is looked at waits for those who have it, and for nobody else.
            lane.catch_up(pg)?;
            let customers = rows.iter().map(|row| row.customer.uuid());
            let present = IngestState::read(cache, pg, organization, prefixes.clone(), customers)?;
            keys.iter().try_for_each(|key| api_key::expect_valid(Some(key), &present.valid_keys))?;
            let mut answers = vec![Ingested::Duplicate; rows.len()];
            let mut candidates = candidates(rows, &present, terms.window, &mut answers);
            candidates
                .iter_mut()
                .for_each(|candidate| candidate.arrival = arrivals.next(key_ranges.of(candidate.row.customer)));
            let missing = Preparation::of(&candidates).without(made).without_known(cache, organization);
            if !missing.is_empty() {
                return Ok(Attempt::Unprepared(missing));
            }
            let cached = cache.hours.begin(lane.worker_pool.connections_made(), present.transaction);
            answers.truncate(bound::rows_taken(rows.len(), &candidates, &present, &cached));
            candidates.retain(|candidate| candidate.index < answers.len());
            insert::store(pg, organization, &mut candidates, &cache.cooldown)?;
            let mut counting = Vec::with_capacity(candidates.len());
            let mut tally = EventTally::default();
            let mut alerting: BTreeMap<_, Alerting<'_>> = BTreeMap::new();
            for Candidate { index, row, arrival, .. } in candidates {
                let (customer, event) = (row.customer.uuid(), &row.event);
                let metrics = present.rules.metrics.get(&event.name);
                if let Some(metrics) = metrics {
                    counting.push(Counting { customer, now: present.now_of(customer), event, metrics });
                }
                tally.add(present.now, event, present.why_uncounted(customer, metrics.is_some()));
                if !present.rules.alerted.is_empty() && present.rules.alerted.contains(&event.name, customer) {
                    let none = || Alerting::none(present.now_of(customer));
                    alerting.entry(customer).or_insert_with(none).add(event, arrival);
                }
                answers[index] = Ingested::Stored;
            }
            let has_marked = mark_alerting(pg, (organization, present.version), alerting)?;
            let written = Counts::of(counting, &cached).write(pg, organization)?;
            Ok(Attempt::Stored { answers, written, tally, has_marked })
        })
    }
}

impl Row {
    fn new(organization: OrganizationId, event: Event) -> Self {
        let customer = CustomerKey::derive(organization, &event.customer);
        Self { customer, id_hash: id_hash(&event.idempotency_id), event }
    }

    /// The memory that it takes while it waits, in bytes, roughly.
    fn weight(&self) -> usize {
        let event = &self.event;
        let texts = event.name.len() + event.idempotency_id.len() + event.customer.as_str().len();
        size_of::<Self>() + texts + event.properties.size()
    }

    /// The key of its event.
    fn key(&self) -> EventKey {
        (self.customer.uuid(), self.id_hash)
    }
}

impl Months {
    /// Those other than the one it is in, in which its id is looked for.
    fn elsewhere(self) -> impl Iterator<Item = Month> {
        Month::range(self.probed).filter(move |month| *month != self.dated)
    }
}

/// Has the figures looked at of those whose events could make a usage alert fire; whether there are any.
fn mark_alerting(
    pg: &mut PgConnection,
    (organization, version): (Uuid, i64),
    mut alerting: BTreeMap<Uuid, Alerting<'_>>,
) -> Result<bool, Failure> {
    if !alerting.is_empty() {
        headroom::leave_out(pg, (organization, version), &mut alerting)?;
    }
    if alerting.is_empty() {
        return Ok(false);
    }
    let marked = alerting.into_iter().map(|(customer, events)| (customer, (events.now, events.lies_ahead))).collect();
    MarkCustomers::at(organization, marked).execute(pg)?;
    Ok(true)
}

/// The rows that are to be stored unless they are known: dated inside the window, and the first of their id. What is
/// refused for its date uses no id up.
fn candidates<'r>(
    rows: &[&'r Row],
    present: &IngestState,
    window: Window,
    answers: &mut [Ingested],
) -> Vec<Candidate<'r>> {
    let mut seen = HashSet::with_capacity(rows.len());
    let mut candidates = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        if !present.accepts(row, window) {
            answers[index] = Ingested::OutsideWindow;
        } else if seen.insert(row.key()) {
            let months = Months { dated: Month::of(row.event.time_created), probed: present.probed(row, window) };
            candidates.push(Candidate { index, row, months, arrival: 0 });
        }
    }
    candidates
}
