//! Whatever is metered and whatever comes in: the service says what the domain's fold over the events says, billing,
//! current and window by window, and bills just that.
//!
//! Every case is a life: random metrics, a subscription off the hour, events late, dated ahead, twice, at one instant,
//! and a microsecond beside every edge. `USAGE_LAW_CASES` says how many.

use std::cell::Cell;
use std::collections::BTreeSet;

use billing_domain::BigDecimal;
use billing_domain::event::{AHEAD_MAX, Event, Properties};
use billing_domain::id::CustomerKey;
use billing_domain::metric::{
    Aggregation, AggregationKind, CategoricalFilter, CategoricalOperator, Gauge, GaugeEventType, Granularity, Measure,
    Metric, MetricFilters, NumericFilter, NumericOperator, Rate,
};
use billing_domain::period::{Period, Span};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::usage::{Usage, UsageRequest, fold};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::support::{Field, World};

/// Where the customer's clock stands when the events come in.
const NOW: OffsetDateTime = datetime!(2024-03-15 10:37:12.345678 UTC);
/// The period of the subscription: a month, off the hour.
const START: OffsetDateTime = datetime!(2024-03-02 07:13:05.000001 UTC);
const END: OffsetDateTime = datetime!(2024-04-02 07:13:05.000001 UTC);
const MICROSECOND: Duration = Duration::MICROSECOND;

fn cases() -> u32 {
    std::env::var("USAGE_LAW_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// A definition of a metric and the events of it.
#[derive(Clone, Debug)]
struct Case {
    definitions: Vec<(Measure, MetricFilters)>,
    filters: Vec<(&'static str, &'static str)>,
    /// Id, seconds and microseconds beside an edge, edge, number, env.
    first: Vec<Sent>,
    second: Vec<Sent>,
    metrics_first: bool,
    asked: (OffsetDateTime, OffsetDateTime),
}

#[derive(Clone, Debug)]
struct Sent {
    id: u8,
    time: OffsetDateTime,
    amount: String,
    env: &'static str,
}

fn instants() -> impl Strategy<Value = OffsetDateTime> {
    let edges = vec![
        START,
        NOW,
        NOW + AHEAD_MAX - MICROSECOND,
        NOW - Duration::days(30) + MICROSECOND,
        datetime!(2024-03-10 00:00 UTC),
        datetime!(2024-03-15 10:00 UTC),
        datetime!(2024-03-01 00:00 UTC),
    ];
    let beside = (prop::sample::select(edges), -1_i64..=1).prop_map(|(edge, us)| edge + Duration::microseconds(us));
    // From 30 days back to a day ahead.
    let anywhere = (0_i64..31 * 86_400, 0_i64..1_000_000)
        .prop_map(|(seconds, us)| NOW - Duration::days(30) + Duration::seconds(seconds) + Duration::microseconds(us));
    prop_oneof![1 => beside, 1 => anywhere]
}

fn sent() -> impl Strategy<Value = Vec<Sent>> {
    let amount = prop_oneof![
        4 => "-?[0-9]{1,3}(\\.[0-9]{1,3})?".prop_filter("JSON has no 007", |text| {
            let digits = text.trim_start_matches('-');
            digits.starts_with("0.") || digits == "0" || !digits.starts_with('0')
        }),
        1 => "-?[0-9]{1,2}\\.[0-9]{1,20}".prop_map(|text| format!("\"{text}\"")),
        1 => Just("\"many\"".to_owned()),
        1 => Just("null".to_owned()),
    ];
    let event = (0..40_u8, instants(), amount, prop::sample::select(vec!["\"a\"", "\"b\"", "1"]));
    let event = event.prop_map(|(id, time, amount, env)| Sent { id, time, amount, env });
    prop::collection::vec(event, 0..25)
}

fn of_amount(kind: AggregationKind) -> Aggregation {
    kind.of(Some("amount".to_owned())).expect("an aggregation")
}

fn measures() -> impl Strategy<Value = Measure> {
    use AggregationKind::{Average, Count, Max, Sum};
    let counter = prop::sample::select(AggregationKind::ALL).prop_map(|kind| Measure::Counter(of_amount(kind)));
    let spans = || prop::option::weighted(0.7, prop::sample::select(Span::ALL));
    let gauge = (prop::sample::select(GaugeEventType::ALL), spans(), spans());
    let gauge = gauge.prop_map(|(event_type, granularity, proration)| {
        let proration = proration.filter(|part| granularity.is_none_or(|whole| *part < whole));
        Measure::Gauge(Gauge { property_name: "amount".to_owned(), event_type, granularity, proration })
    });
    let rate = (prop::sample::select(vec![Count, Sum, Average, Max]), prop::sample::select(Span::ALL));
    let rate = rate.prop_map(|(kind, window)| Measure::Rate(Rate { aggregation: of_amount(kind), window }));
    prop_oneof![counter, gauge, rate]
}

fn metric_filters() -> impl Strategy<Value = MetricFilters> {
    let numeric = prop::sample::select(NumericOperator::ALL).prop_map(|operator| NumericFilter {
        property_name: "amount".to_owned(),
        operator,
        comparison_value: 50.into(),
    });
    let categorical = prop::sample::select(CategoricalOperator::ALL).prop_map(|operator| CategoricalFilter {
        property_name: "env".to_owned(),
        operator,
        comparison_value: vec!["b".to_owned(), "1".to_owned()],
    });
    let some = (prop::option::weighted(0.3, numeric), prop::option::weighted(0.3, categorical));
    some.prop_map(|(numeric, categorical)| MetricFilters {
        numeric_filters: numeric.into_iter().collect(),
        categorical_filters: categorical.into_iter().collect(),
    })
}

fn any_case() -> impl Strategy<Value = Case> {
    let definitions = prop::collection::vec((measures(), metric_filters()), 4);
    let filters = prop::sample::select(vec![vec![], vec![("env", "a")]]);
    // An end in the last second of a day is taken for the day's, one in the last microsecond of a second for that second's.
    let asked = (instants(), instants()).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let asked = asked.prop_filter("an end that is read as it is written", |(_, end)| {
        (end.hour(), end.minute(), end.second()) != (23, 59, 59) && end.microsecond() != 999_999
    });
    (definitions, filters, sent(), sent(), any::<bool>(), asked).prop_map(
        |(definitions, filters, first, second, metrics_first, asked)| Case {
            definitions,
            filters,
            first,
            second,
            metrics_first,
            asked,
        },
    )
}

fn text(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).expect("a time")
}

/// One life in the service.
struct Life<'w> {
    world: &'w World,
    number: u32,
    case: &'w Case,
    customer: String,
    clock: String,
}

impl<'w> Life<'w> {
    fn new(world: &'w World, number: u32, case: &'w Case) -> Self {
        let clock = world.clock(&text(NOW));
        let customer = format!("acme{number}");
        world.customer_at(&customer, &clock);
        Self { world, number, case, customer, clock }
    }

    fn event_name(&self) -> String {
        format!("call{}", self.number)
    }

    /// Makes the metrics, each with the id it got.
    fn new_metrics(&self) -> Vec<Metric> {
        let make = |(n, (measure, filters)): (usize, &(Measure, MetricFilters))| {
            let fields = measure.fields();
            let word = |granularity: Option<Granularity>| granularity.map(Granularity::as_str);
            let mut body = serde_json::to_value(filters).expect("json");
            body["metric_name"] = json!(format!("{} {n}", self.event_name()));
            body["event_name"] = json!(self.event_name());
            body["metric_type"] = json!(fields.metric_type.as_str());
            body["aggregation_type"] = json!(fields.aggregation_type.map(AggregationKind::as_str));
            body["property_name"] = json!(fields.property_name);
            body["event_type"] = json!(fields.event_type.map(GaugeEventType::as_str));
            body["granularity"] = json!(word(fields.granularity));
            body["proration"] = json!(word(fields.proration));
            let made = self.world.post("/api/metrics/", &body).ok(201);
            let id: Uuid = made.id("metric_id").trim_start_matches("metric_").parse().expect("an id");
            Metric {
                id: id.into(),
                name: made.id("metric_name"),
                event_name: self.event_name(),
                measure: measure.clone(),
                filters: filters.clone(),
                is_cost_metric: false,
                created_at: NOW,
                archived_at: None,
            }
        };
        self.case.definitions.iter().enumerate().map(make).collect()
    }

    fn filters(&self) -> SubscriptionFilters {
        let owned = self.case.filters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        SubscriptionFilters::new(owned).expect("filters")
    }

    fn filters_json(&self) -> Value {
        let pairs = self.case.filters.iter();
        pairs.map(|(name, value)| json!({"property_name": name, "value": value})).collect()
    }

    fn subscribe(&self, metrics: &[Metric]) {
        let tiers = json!([{"type": "per_unit", "range_start": 0, "cost_per_batch": 1, "metric_units_per_batch": 1}]);
        let components: Vec<Value> =
            metrics.iter().map(|metric| json!({"metric_id": metric.id.to_string(), "tiers": tiers})).collect();
        let version = json!({"currency_code": "USD", "components": components});
        let plan = json!({"plan_name": self.customer, "plan_duration": "monthly", "initial_version": version});
        let plan = self.world.post("/api/plans/", &plan).ok(201).id("plan_id");
        let body = json!({"customer_id": self.customer, "plan_id": plan, "start_date": text(START),
            "subscription_filters": self.filters_json()});
        self.world.post("/api/subscriptions/", &body).ok(200);
    }

    /// Sends events, and answers them as the domain sees them.
    fn send(&self, sent: &[Sent]) -> Vec<Event> {
        if sent.is_empty() {
            return Vec::new();
        }
        let batch: Vec<String> = sent
            .iter()
            .map(|sent| {
                format!(
                    r#"{{"customer_id": "{}", "event_name": "{}", "idempotency_id": "{}", "time_created": "{}",
                        "properties": {{"amount": {}, "env": {}}}}}"#,
                    self.customer,
                    self.event_name(),
                    sent.id,
                    text(sent.time),
                    sent.amount,
                    sent.env
                )
            })
            .collect();
        let answer = self.world.post_text("/api/track/", &format!(r#"{{"batch": [{}]}}"#, batch.join(",")));
        assert_eq!(answer.ok(201)["success"], "all", "all lie within the window");
        let event = |sent: &Sent| {
            let json = format!(r#"{{"amount": {}, "env": {}}}"#, sent.amount, sent.env);
            let properties: Properties = serde_json::from_str(&json).expect("json");
            Event {
                customer: self.customer.parse().expect("an id"),
                name: self.event_name(),
                idempotency_id: sent.id.to_string(),
                time_created: sent.time,
                properties,
            }
        };
        sent.iter().map(event).collect()
    }

    /// Asks for access to every metric.
    fn ask(&self, metrics: &[Metric]) {
        for metric in metrics {
            let path = format!("/api/metric_access/?customer_id={}&metric_id={}", self.customer, metric.id);
            self.world.get(&path).ok(200);
        }
    }

    /// Present usage of every metric.
    fn check_access(&self, metrics: &[Metric], events: &[Event]) {
        let so_far = Period::new(START, NOW + MICROSECOND).expect("a period");
        for metric in metrics {
            let path = format!("/api/metric_access/?customer_id={}&metric_id={}", self.customer, metric.id);
            let considered = &self.world.get(&path).ok(200)["access_per_subscription"][0];
            let request = UsageRequest::current(Uuid::nil().into(), metric.clone(), self.filters(), so_far);
            self.same(&considered["metric_usage"], &fold(&request, events), metric, "now");
            let path = format!("/api/customer_metric_access/?customer_id={}&metric_id={}", self.customer, metric.id);
            let billable = &self.world.get(&path).ok(200)[0]["usage_per_component"][0]["metric_usage"];
            let total = Period::new(START, END).expect("a period");
            let request = UsageRequest::billed(Uuid::nil().into(), metric.clone(), self.filters(), so_far, &total);
            self.same(billable, &fold(&request, events), metric, "to be billed by now");
        }
    }

    /// Usage of the time asked for, as a whole and by windows.
    fn check_windows(&self, metrics: &[Metric], events: &[Event]) {
        let (start, end) = self.case.asked;
        if start == end {
            return;
        }
        let whole = Period::new(start, end).expect("a period");
        let filters: String = self.filters_json().to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
        for metric in metrics {
            let full = metric.measure.full(start, &whole);
            let expected = |period: Period| {
                let is_level = matches!(metric.measure, Measure::Gauge(_));
                let period = if is_level { period.cut_at(NOW + MICROSECOND) } else { period };
                let (metric, filters) = (metric.clone(), self.filters());
                fold(&UsageRequest { customer: CustomerKey::from(Uuid::nil()), metric, filters, period, full }, events)
            };
            let window = if end - start > Duration::days(3) { "day" } else { "hour" };
            let path = format!(
                "/api/usage/?customer_id={}&metric_id={}&start={}&end={}&window={window}&subscription_filters={filters}",
                self.customer,
                metric.id,
                text(start),
                text(end)
            );
            let answer = self.world.get(&path).ok(200);
            self.same(&answer["total"]["quantity"], &expected(whole), metric, "as a whole");
            let mut sum = BigDecimal::default();
            for window in answer["windows"].as_array().expect("windows") {
                let at = |name: &str| OffsetDateTime::parse(&window.id(name), &Rfc3339).expect("an instant");
                let period = Period::new(at("start"), at("end")).expect("a period");
                let usage = expected(period);
                self.same(&window["quantity"], &usage, metric, "in a window");
                assert_eq!(window["event_count"].to_string(), usage.event_count.to_string());
                sum += usage.quantity;
            }
            if let Measure::Counter(Aggregation::Count | Aggregation::Sum { .. }) = metric.measure {
                let usage = Usage { quantity: sum, event_count: 0 };
                self.same(&answer["total"]["quantity"], &usage, metric, "the sum of its windows");
            }
        }
    }

    /// What the invoice of the period says it stands on.
    fn check_invoice(&self, metrics: &[Metric], events: &[Event]) {
        self.world.advance(&self.clock, "2024-04-03");
        let invoices = self.world.get(&format!("/api/invoices/?customer_id={}", self.customer)).ok(200);
        let invoice = invoices.as_array().and_then(|all| all.last()).expect("an invoice").id("invoice_id");
        let explanation = self.world.get(&format!("/api/invoices/{invoice}/explain/")).ok(200);
        let lines = explanation["line_items"].as_array().expect("lines");
        let period = Period::new(START, END).expect("a period");
        for metric in metrics {
            let line = lines.iter().find(|line| line["name"] == metric.name).expect("a line of each metric");
            let request = UsageRequest::billed(Uuid::nil().into(), metric.clone(), self.filters(), period, &period);
            let usage = fold(&request, events);
            self.same(&line["trace"]["quantity"], &usage, metric, "billed");
            assert_eq!(line["trace"]["event_count"].to_string(), usage.event_count.to_string(), "{metric:?}");
        }
    }

    fn same(&self, found: &Value, expected: &Usage, metric: &Metric, what: &str) {
        let found: BigDecimal = found.to_string().parse().unwrap_or_else(|_| panic!("{found} of {metric:?}"));
        assert_eq!(found, expected.quantity, "{what}: {metric:?} of {:?}", self.case);
    }
}

#[test]
fn the_service_says_what_the_fold_says() {
    let world = World::new();
    let number = Cell::new(0);
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    let live = |case: Case| {
        number.set(number.get() + 1);
        let life = Life::new(&world, number.get(), &case);
        let early = case.metrics_first.then(|| life.new_metrics());
        let mut events = life.send(&case.first);
        let metrics = early.unwrap_or_else(|| life.new_metrics());
        life.subscribe(&metrics);
        // What is remembered of the first events is no excuse for missing the second.
        life.ask(&metrics);
        events.extend(life.send(&case.second));
        // The first event of an id is the event.
        let mut seen = BTreeSet::new();
        events.retain(|event| seen.insert(event.idempotency_id.clone()));
        // Asked alone, with nothing remembered, and then together with others.
        life.check_access(&metrics, &events);
        life.check_access(&metrics, &events);
        life.check_windows(&metrics, &events);
        life.check_invoice(&metrics, &events);
        Ok(())
    };
    TestRunner::new(config).run(&any_case(), live).unwrap_or_else(|error| panic!("{error}"));
}
