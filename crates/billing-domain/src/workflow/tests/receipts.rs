//! Receipts of events and the events of lines say the same, over whole lives.

use std::collections::{BTreeMap, BTreeSet};

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::error::Error;
use crate::event::Properties;
use crate::id::LineId;
use crate::invoice::Trace;
use crate::metric::{Aggregation, Gauge, GaugeEventType, Measure, Metric, Rate};
use crate::period::{PlanDuration, Span};
use crate::store::PageRequest;
use crate::subscription::{InvoicingBehavior, SwitchUsageBehavior};
use crate::testing::world::{World, component, filters, subscription, tiers, version};
use crate::workflow::{
    CorrectEvents, CreateSubscription, EventChange, ReadEventReceipt, SwitchPlan, VersionChoice, WantedCorrection,
    correct_events, find_line_events, read_event_receipt, switch_plan, void_invoice,
};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);
const WEEKS: u32 = 22;
const EVENTS_A_WEEK: u32 = 46;

/// A sequence of numbers that is the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

struct Life {
    world: World,
    dice: Dice,
    now: OffsetDateTime,
    sent: Vec<String>,
    /// Not voided.
    counting: Vec<String>,
}

fn measures() -> [Measure; 4] {
    let n = || "n".to_owned();
    let event_type = GaugeEventType::Delta;
    [
        Measure::Counter(Aggregation::Sum { property_name: n() }),
        Measure::Counter(Aggregation::Unique { property_name: "env".to_owned() }),
        Measure::Gauge(Gauge { event_type, property_name: n(), granularity: Some(Span::Day), proration: None }),
        Measure::Rate(Rate { aggregation: Aggregation::Count, window: Span::Day }),
    ]
}

impl Life {
    fn new(seed: u64) -> Self {
        let world = World::at(START);
        let calls = world.metric("call", None);
        let mut metrics = vec![calls.clone()];
        for (number, measure) in measures().into_iter().enumerate() {
            let made = world.catalog(|tx, _| {
                let id = tx.new_uuid().into();
                let metric = Metric { id, name: format!("figure {number}"), measure: measure.clone(), ..calls.clone() };
                tx.metrics().insert(&metric)?;
                Ok(metric)
            });
            metrics.push(made.expect("a metric"));
        }
        let priced = |price: &str| {
            let components = metrics.iter().map(|metric| component(metric.id, tiers(&[("0", "", price)])));
            world.plan(Some(PlanDuration::Monthly), version(Vec::new(), components.collect()))
        };
        let (first, second, third) = (priced("0.25"), priced("0.5"), priced("0.125"));
        let customer = world.customer("acme");
        let wide = world.subscribe(&subscription("acme", first, START)).expect("subscribed").id;
        let of_prod = subscription("acme", third, START + Duration::days(9));
        let of_prod = CreateSubscription { filters: filters(&[("env", "prod")]), ..of_prod };
        let mut life = Self { world, dice: Dice(seed), now: START, sent: Vec::new(), counting: Vec::new() };
        for week in 0..WEEKS {
            life.send_some();
            if week == 2 {
                life.world.subscribe(&of_prod).expect("subscribed");
            }
            if week == 3 {
                let usage_behavior = match seed % 2 {
                    0 => SwitchUsageBehavior::TransferToNewSubscription,
                    _ => SwitchUsageBehavior::KeepSeparate,
                };
                let command = SwitchPlan {
                    customer,
                    subscription: wide,
                    version: VersionChoice::Plan(second),
                    invoicing_behavior: InvoicingBehavior::InvoiceNow,
                    usage_behavior,
                    prepaid_units: Vec::new(),
                };
                life.world.on("acme", |tx, now| switch_plan(tx, &command, now)).expect("switched");
            }
            if week == 12 {
                // The newest of which nothing was paid or given back.
                let invoices = life.world.invoices("acme");
                let void = |id| life.world.on("acme", |tx, now| void_invoice(tx, customer, id, now)).is_ok();
                assert!(invoices.iter().rev().any(|invoice| void(invoice.id)), "one is voided");
            }
            life.correct_some();
            life.now += Duration::WEEK;
            life.world.advance("acme", life.now);
        }
        life
    }

    /// A time of the last weeks.
    fn time(&mut self) -> OffsetDateTime {
        (self.now - Duration::hours(self.dice.below(24 * 20).into())).max(START)
    }

    fn properties(&mut self) -> serde_json::Value {
        let env = ["prod", "test"][self.dice.below(2) as usize];
        match self.dice.below(8) {
            0 => serde_json::json!({"env": env}),
            n => serde_json::json!({"env": env, "n": n}),
        }
    }

    fn send_some(&mut self) {
        for _ in 0..EVENTS_A_WEEK {
            let (time, properties) = (self.time(), self.properties());
            let name = if self.dice.below(10) == 0 { "other" } else { "call" };
            self.world.track("acme", name, time, &properties);
            let id = format!("event-{}", self.sent.len() + 1);
            self.sent.push(id.clone());
            self.counting.push(id);
        }
    }

    fn correct_some(&mut self) {
        for _ in 0..4 {
            let place = self.dice.below(self.counting.len() as u32) as usize;
            let id = self.counting[place].clone();
            let change = match self.dice.below(3) {
                0 => EventChange::Void,
                1 => EventChange::Amend { time_created: Some(self.time()), properties: None },
                _ => {
                    let properties: Properties = self.properties().to_string().parse().expect("properties");
                    EventChange::Amend { time_created: None, properties: Some(properties) }
                }
            };
            if change == EventChange::Void {
                self.counting.remove(place);
            }
            let corrections = vec![WantedCorrection { idempotency_id: id, change, attr: String::new() }];
            let customer = self.world.key("acme");
            let command = CorrectEvents { customer, corrections, beyond_window: true, by: None, reason: None };
            self.world.on("acme", |tx, now| correct_events(tx, &command, now)).expect("corrected");
        }
    }

    /// The ids of the events of a line.
    fn events_of(&self, line: LineId) -> Vec<String> {
        let found = self.world.on("acme", |tx, _| {
            let Some(filter) = find_line_events(tx, line)? else { return Ok(Vec::new()) };
            let (mut events, mut after) = (Vec::new(), None);
            loop {
                let page = tx.events().list(&filter, &PageRequest { limit: 100, after })?;
                events.extend(page.items);
                after = page.next;
                if after.is_none() {
                    return Ok::<_, Error>(events);
                }
            }
        });
        found.expect("listed").into_iter().map(|kept| kept.event.idempotency_id).collect()
    }
}

#[test]
fn a_receipt_names_the_lines_that_list_the_event() {
    let (mut seen, mut billed, mut taken_back) = (0, 0, 0);
    for seed in [3, 8] {
        let life = Life::new(seed);
        let mut lines_of: BTreeMap<String, BTreeSet<LineId>> = BTreeMap::new();
        for invoice in life.world.invoices("acme") {
            for (id, line) in invoice.named_lines() {
                let events = life.events_of(id);
                let count = match &line.trace {
                    Trace::UsageCharge { event_count, .. } => *event_count,
                    _ => 0,
                };
                assert_eq!(events.len() as u64, count, "{seed}: {} {:?}", line.name, line.trace);
                for event in events {
                    assert!(lines_of.entry(event).or_default().insert(id), "{seed}: once on a line");
                }
            }
        }
        for id in &life.sent {
            let customer = "acme".parse().expect("an id");
            let command = ReadEventReceipt { customer, idempotency_id: id.clone(), time_created: None };
            let receipt = life.world.on("acme", |tx, now| read_event_receipt(tx, &command, now)).expect("a receipt");
            let named: BTreeSet<LineId> = receipt.billed_on.iter().map(|on| on.line).collect();
            assert_eq!(named, lines_of.remove(id).unwrap_or_default(), "{seed}: {id}");
            assert!(receipt.taken_back_on.iter().all(|on| !named.contains(&on.line)), "{seed}: {id}");
            (seen, billed, taken_back) =
                (seen + 1, billed + usize::from(!named.is_empty()), taken_back + receipt.taken_back_on.len());
        }
        assert_eq!(lines_of, BTreeMap::new(), "{seed}: nothing else is on a line");
    }
    assert!(seen >= 1_000 && billed > 700 && taken_back > 20, "{seen} {billed} {taken_back}");
}
