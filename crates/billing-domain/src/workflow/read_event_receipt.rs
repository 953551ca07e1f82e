//! Says what became of one event: what it counts for, and on which lines of invoices it was billed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use bigdecimal::BigDecimal;
use time::OffsetDateTime;

use crate::charge::{Charge, UsageBilling};
use crate::customer::CustomerId;
use crate::error::{Error, Noun};
use crate::event::{Event, EventHistory, EventState};
use crate::id::{BillingRecordId, CustomerKey, InvoiceId, LineId, MetricId, PlanVersionId, SubscriptionId};
use crate::invoice::{Invoice, LineItem, Trace};
use crate::metric::{Metric, MetricType};
use crate::plan::PlanVersion;
use crate::store::{EventFilter, Transaction};
use crate::subscription::Subscription;

/// Of which event.
#[derive(Clone, Debug)]
pub struct ReadEventReceipt {
    /// Whose; the customer need not exist.
    pub customer: CustomerId,
    /// Its id.
    pub idempotency_id: String,
    /// When it happened, where the customer used the id in several months; `None`: the last one.
    pub time_created: Option<OffsetDateTime>,
}

/// What became of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventReceipt {
    /// What is kept of it.
    pub history: EventHistory,
    /// What it counts for now.
    pub counts_for: Vec<CountedFor>,
    /// Why that is nothing; `None` where it counts.
    pub counts_for_nothing: Option<CountsForNothing>,
    /// The lines whose usage it is part of, oldest first: the first of each period billed it, later ones price it again and bill the difference.
    pub billed_on: Vec<BilledOn>,
    /// The lines that came without it where the line before had it, oldest first: a correction or a switch took it back.
    pub taken_back_on: Vec<BilledOn>,
    /// When the customer's other events with this id happened, latest first: an id may be there once in every month.
    pub others: Vec<OffsetDateTime>,
}

/// A metric that an event counts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedFor {
    /// Which.
    pub metric: MetricId,
    /// The customer's subscriptions that bill it; none: it is measured, and nobody is charged for it.
    pub subscriptions: Vec<SubscriptionId>,
}

choices! {
    /// Why an event counts for nothing.
    pub CountsForNothing {
        /// It was voided.
        Voided = "voided",
        /// There is no such customer.
        UnknownCustomer = "unknown_customer",
        /// No metric counts events of its name.
        UnknownEventName = "unknown_event_name",
        /// No metric of its name takes it: a filter stops it, or the property is missing or cannot be used.
        UnusableForAll = "unusable_for_all",
    }
}

/// A line of an invoice, and an event as the line saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct BilledOn {
    /// The invoice.
    pub invoice: InvoiceId,
    /// Its number.
    pub number: String,
    /// When it was issued.
    pub issued_at: OffsetDateTime,
    /// Whether it was voided since.
    pub is_voided: bool,
    /// The line.
    pub line: LineId,
    /// What the line is for, in words.
    pub name: String,
    /// What it comes to.
    pub amount: BigDecimal,
    /// The metric.
    pub metric: MetricId,
    /// The event as it counted for the line; on a line that came without it, as it had counted before.
    pub event: Event,
}

/// Says what became of an event.
///
/// # Errors
/// [`Error::NotFound`] where the customer has no event with this id, or none at that time.
pub fn read_event_receipt(
    tx: &mut dyn Transaction,
    command: &ReadEventReceipt,
    _now: OffsetDateTime,
) -> Result<EventReceipt, Error> {
    let customer = CustomerKey::derive(tx.organization(), &command.customer);
    let histories = tx.events().histories(customer, &command.idempotency_id)?;
    let is_wanted = |history: &EventHistory| {
        command.time_created.is_none_or(|at| history.event().is_some_and(|event| event.time_created == at))
    };
    let place = histories.iter().position(is_wanted).ok_or(Error::NotFound(Noun::Event))?;
    let mut others: Vec<EventHistory> = histories;
    let history = others.remove(place);
    let others = others.iter().filter_map(|other| other.event().map(|event| event.time_created)).collect();
    let metrics = tx.metrics().list()?;
    let has_customer = match tx.customers().get_even_deleted(customer) {
        Err(Error::NotFound(_)) => false,
        found => found.map(|_| true)?,
    };
    let (counts_for, counts_for_nothing) = match counted_for(&history, &metrics, has_customer) {
        Ok(counting) => (with_subscriptions(tx, customer, &history, counting)?, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let (billed_on, taken_back_on) = lines_of(tx, customer, &history, &metrics)?;
    Ok(EventReceipt { history, counts_for, counts_for_nothing, billed_on, taken_back_on, others })
}

/// The metrics that the event counts for as it is now, or why there is none.
fn counted_for<'m>(
    history: &EventHistory,
    metrics: &'m [Metric],
    has_customer: bool,
) -> Result<Vec<&'m Metric>, CountsForNothing> {
    let Some(event) = history.event().filter(|_| history.state != EventState::Voided) else {
        return Err(CountsForNothing::Voided);
    };
    if !has_customer {
        return Err(CountsForNothing::UnknownCustomer);
    }
    let (custom, fixed): (Vec<&Metric>, Vec<&Metric>) =
        metrics.iter().partition(|metric| metric.measure.metric_type() == MetricType::Custom);
    let mut of_name = fixed.into_iter().filter(|metric| metric.event_name == event.name).peekable();
    if of_name.peek().is_none() && custom.is_empty() {
        return Err(CountsForNothing::UnknownEventName);
    }
    let counting: Vec<&Metric> = of_name.filter(|metric| metric.counts(event)).chain(custom).collect();
    if counting.is_empty() { Err(CountsForNothing::UnusableForAll) } else { Ok(counting) }
}

/// Which of the customer's subscriptions bill the event for each of the metrics.
fn with_subscriptions(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    history: &EventHistory,
    metrics: Vec<&Metric>,
) -> Result<Vec<CountedFor>, Error> {
    let Some(event) = history.event() else { return Ok(Vec::new()) };
    let mut billing: BTreeMap<MetricId, Vec<SubscriptionId>> = BTreeMap::new();
    let mut versions: BTreeMap<PlanVersionId, PlanVersion> = BTreeMap::new();
    for subscription in tx.subscriptions().list(customer)? {
        let may_count = |subscription: &Subscription| {
            subscription.period.end() > event.time_created && subscription.filters.matches(&event.properties)
        };
        if !may_count(&subscription) {
            continue;
        }
        for record in tx.billing_records().list(customer, subscription.id)? {
            if record.usage != UsageBilling::Here || !record.period.contains(event.time_created) {
                continue;
            }
            let version = match versions.entry(record.version) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(tx.plans().get_version(record.version)?),
            };
            if let Some(Charge::Component(component)) = version.charge(record.charge) {
                billing.entry(component.metric).or_default().push(subscription.id);
            }
        }
    }
    let counted = |metric: &Metric| CountedFor {
        metric: metric.id,
        subscriptions: billing.remove(&metric.id).unwrap_or_default(),
    };
    Ok(metrics.into_iter().map(counted).collect())
}

/// The lines whose usage the event is part of, and those that came without it behind such a line.
fn lines_of(
    tx: &mut dyn Transaction,
    customer: CustomerKey,
    history: &EventHistory,
    metrics: &[Metric],
) -> Result<(Vec<BilledOn>, Vec<BilledOn>), Error> {
    let times: Vec<OffsetDateTime> = history.versions.iter().map(|version| version.event.time_created).collect();
    let ids = tx.invoices().list_with_usage_at(customer, &times)?;
    let ids: Vec<_> = ids.into_iter().map(|id| (customer, id)).collect();
    let mut invoices = tx.invoices().list_by_id(&ids)?;
    invoices.sort_by_key(|invoice| (invoice.issued_at, invoice.id));
    let (mut billed_on, mut taken_back_on) = (Vec::new(), Vec::new());
    // What the last line of each record had of the event.
    let mut standing: BTreeMap<BillingRecordId, Event> = BTreeMap::new();
    for invoice in &invoices {
        for (id, line) in invoice.named_lines() {
            let Some((record, metric)) = usage_of(line) else { continue };
            let seen = seen_by(line, customer, history, metrics.iter().find(|known| known.id == metric));
            match seen {
                Some(event) => {
                    billed_on.push(BilledOn::new(invoice, (id, line), metric, event.clone()));
                    standing.insert(record, event);
                }
                None => {
                    let before = standing.remove(&record);
                    taken_back_on.extend(before.map(|event| BilledOn::new(invoice, (id, line), metric, event)));
                }
            }
        }
    }
    Ok((billed_on, taken_back_on))
}

/// The record and the metric of a line for usage, or for usage that is taken back.
fn usage_of(line: &LineItem) -> Option<(BillingRecordId, MetricId)> {
    match &line.trace {
        Trace::UsageCharge { metric, .. } | Trace::UsageHandedOn { metric, .. } => {
            Some((line.record?, metric.metric_id))
        }
        _ => None,
    }
}

/// The event as it is part of the line's usage.
fn seen_by(line: &LineItem, customer: CustomerKey, history: &EventHistory, metric: Option<&Metric>) -> Option<Event> {
    let filter = EventFilter::of_line(customer, line, metric?)?;
    let version = history.seen_to(filter.seen_to?)?;
    filter.takes(&version.event).then(|| version.event.clone())
}

impl BilledOn {
    fn new(invoice: &Invoice, (id, line): (LineId, &LineItem), metric: MetricId, event: Event) -> Self {
        Self {
            invoice: invoice.id,
            number: invoice.number.clone(),
            issued_at: invoice.issued_at,
            is_voided: invoice.voided_at.is_some(),
            line: id,
            name: line.name.clone(),
            amount: line.amount.clone(),
            metric,
            event,
        }
    }
}
