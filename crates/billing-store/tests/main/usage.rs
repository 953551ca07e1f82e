//! The store's usage figures are the domain's, for random events.

use std::cell::RefCell;

use billing_domain::customer::Customer;
use billing_domain::event::Event;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::metric::{
    Aggregation, AggregationKind, CategoricalFilter, CategoricalOperator, Gauge, GaugeEventType, Measure, Metric,
    MetricFilters, NumericFilter, NumericOperator, Rate,
};
use billing_domain::period::{Period, Span};
use billing_domain::plan::PlanVersion;
use billing_domain::store::{EventIngest, Scope, Store, Window};
use billing_domain::subscription::{Subscription, SubscriptionFilters};
use billing_domain::test_clock::TestClock;
use billing_domain::testing::build::{self, Ids};
use billing_domain::testing::world::filters;
use billing_domain::usage::{UsageRequest, fold};
use billing_store::testing::TestStore;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

/// The middle of a month, of a day and of an hour; events lie around it.
const CENTER: OffsetDateTime = datetime!(2024-02-29 12:34:56.789012 UTC);

/// Cases; set `PROPTEST_CASES` for more.
fn config() -> Config {
    Config { cases: Config::default().cases.max(200), failure_persistence: None, ..Config::default() }
}

/// An instant: close to an hour's or a day's edge, or anywhere within three days.
fn instants() -> impl Strategy<Value = OffsetDateTime> {
    let edge = prop_oneof![
        Just(datetime!(2024-02-29 12:00 UTC)),
        Just(datetime!(2024-02-29 13:00 UTC)),
        Just(datetime!(2024-02-29 00:00 UTC)),
        Just(datetime!(2024-03-01 00:00 UTC)),
        Just(datetime!(2024-02-28 00:00 UTC)),
        Just(CENTER),
    ];
    let beside = (edge, -1_i64..=1).prop_map(|(edge, us)| edge + Duration::microseconds(us));
    let anywhere = (-130_000_000_000_i64..130_000_000_000).prop_map(|us| CENTER + Duration::microseconds(us));
    prop_oneof![beside, anywhere]
}

fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[0-9]{1,20}\\.[0-9]{1,15}".prop_map(|digits| format!("\"{digits}\"")),
        "-?[1-9][0-9]{0,5}(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?",
        "[0-9.eE+-]{0,12}".prop_map(|noise| format!("\"{noise}\"")),
        Just("null".to_owned()),
        Just("true".to_owned()),
    ]
}

/// Events of two names, some with the same id.
pub fn events() -> impl Strategy<Value = Vec<Event>> {
    let dimension = || prop_oneof![Just("\"a\""), Just("\"b\""), Just("1"), Just("1.0"), Just("null")];
    let event = (0..40_u8, prop::bool::weighted(0.9), instants(), values(), dimension(), dimension());
    let event = event.prop_map(|(id, is_call, time, amount, env, region)| {
        let json = format!(r#"{{"amount": {amount}, "env": {env}, "region": {region}}}"#);
        let name = if is_call { "call" } else { "other" };
        Event { properties: build::properties(&json), ..build::event("acme", name, &id.to_string(), time) }
    });
    prop::collection::vec(event, 0..40)
}

/// One filter of each kind, or neither.
fn metric_filters() -> impl Strategy<Value = MetricFilters> {
    let operator = prop::sample::select(NumericOperator::ALL);
    let number = prop_oneof![Just("0"), Just("1.0"), Just("-250.5"), Just("1e3")];
    let numeric = (operator, number).prop_map(|(operator, number)| NumericFilter {
        property_name: "amount".to_owned(),
        operator,
        comparison_value: number.parse().expect("a number"),
    });
    let operator = prop::sample::select(CategoricalOperator::ALL);
    let texts = prop::collection::vec(prop_oneof![Just("a"), Just("1"), Just("1.0"), Just("")], 1..3);
    let categorical = (operator, texts).prop_map(|(operator, texts)| CategoricalFilter {
        property_name: "region".to_owned(),
        operator,
        comparison_value: texts.into_iter().map(str::to_owned).collect(),
    });
    let filters = (prop::collection::vec(numeric, 0..2), prop::collection::vec(categorical, 0..2));
    filters.prop_map(|(numeric_filters, categorical_filters)| MetricFilters { numeric_filters, categorical_filters })
}

fn aggregations(kinds: &'static [AggregationKind]) -> impl Strategy<Value = Aggregation> {
    let property_name = prop_oneof![3 => Just("amount"), 1 => Just("region")];
    (prop::sample::select(kinds), property_name).prop_map(|(kind, property_name)| of_property(kind, property_name))
}

fn of_property(kind: AggregationKind, property_name: &str) -> Aggregation {
    kind.of(Some(property_name.to_owned())).expect("an aggregation")
}

fn gauges() -> impl Strategy<Value = Measure> {
    let spans = || prop::option::weighted(0.8, prop::sample::select(Span::ALL));
    (prop::sample::select(GaugeEventType::ALL), spans(), spans()).prop_map(|(event_type, granularity, proration)| {
        let proration = proration.filter(|part| granularity.is_none_or(|whole| *part < whole));
        Measure::Gauge(Gauge { property_name: "amount".to_owned(), event_type, granularity, proration })
    })
}

fn rates() -> impl Strategy<Value = Measure> {
    use AggregationKind::{Average, Count, Max, Sum};
    (aggregations(&[Count, Sum, Average, Max]), prop::sample::select(Span::ALL))
        .prop_map(|(aggregation, window)| Measure::Rate(Rate { aggregation, window }))
}

/// A counter of every aggregation, and some gauges and rates, each with filters of its own.
fn definitions() -> impl Strategy<Value = Vec<(Measure, MetricFilters)>> {
    let counter = |kind: &AggregationKind| {
        let kind = *kind;
        prop_oneof![3 => Just("amount"), 1 => Just("region")]
            .prop_map(move |property_name| Measure::Counter(of_property(kind, property_name)))
    };
    let counters: Vec<_> = AggregationKind::ALL.iter().map(counter).collect();
    let others = (prop::collection::vec(gauges(), 4), prop::collection::vec(rates(), 3));
    let filters = prop::collection::vec(metric_filters(), AggregationKind::ALL.len() + 7);
    (counters, others, filters).prop_map(|(counters, (gauges, rates), filters)| {
        counters.into_iter().chain(gauges).chain(rates).zip(filters).collect()
    })
}

struct Case {
    definitions: Vec<(Measure, MetricFilters)>,
    first: Vec<Event>,
    second: Vec<Event>,
    metrics_first: bool,
    filters_first: bool,
    /// The customer's present when each chunk of events comes in, over and over.
    presents: Vec<OffsetDateTime>,
    periods: Vec<Period>,
}

fn cases() -> impl Strategy<Value = Case> {
    let period = || (instants(), instants()).prop_map(|(a, b)| Period::new(a.min(b), a.max(b)).expect("a period"));
    let whole_minutes = |instant: OffsetDateTime| {
        instant - Duration::nanoseconds(instant.unix_timestamp_nanos().rem_euclid(60_000_000_000) as i64)
    };
    // Figures of such periods are remembered, where no roll-up tells them.
    let remembered = period().prop_map(move |period| {
        Period::new(whole_minutes(period.start()), whole_minutes(period.end())).expect("a period")
    });
    let periods = prop::collection::vec(prop_oneof![period(), remembered], 1..6);
    let presents = prop::collection::vec(instants(), 1..6);
    (definitions(), events(), events(), any::<bool>(), any::<bool>(), presents, periods).prop_map(
        |(definitions, first, second, metrics_first, filters_first, presents, periods)| Case {
            definitions,
            first,
            second,
            metrics_first,
            filters_first,
            presents,
            periods,
        },
    )
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let event = |event: &Event| {
            format!("{} {} {} {:?}", event.idempotency_id, event.name, event.time_created, event.properties)
        };
        f.debug_struct("Case")
            .field("definitions", &self.definitions)
            .field("first", &self.first.iter().map(event).collect::<Vec<_>>())
            .field("second", &self.second.iter().map(event).collect::<Vec<_>>())
            .field("metrics_first", &self.metrics_first)
            .field("filters_first", &self.filters_first)
            .field("presents", &self.presents)
            .field("periods", &self.periods)
            .finish()
    }
}

/// An organization with a customer that lives by a test clock.
pub struct World<'s> {
    store: &'s TestStore,
    pub organization: OrganizationId,
    pub customer: CustomerKey,
    clock: TestClock,
    ids: RefCell<Ids>,
}

impl<'s> World<'s> {
    pub fn new(store: &'s TestStore, seed: u32) -> Self {
        let mut ids = Ids::new(seed);
        let organization: OrganizationId = ids.next();
        let clock = build::test_clock(&mut ids, CENTER, CENTER);
        let customer = Customer { test_clock: Some(clock.id), ..build::customer(organization, "acme", CENTER) };
        let world = Self { store, organization, customer: customer.key, clock, ids: RefCell::new(ids) };
        world.catalog(|tx| {
            tx.organizations().insert(&build::organization(organization, CENTER))?;
            tx.test_clocks().insert(&world.clock)?;
            tx.customers().insert(&customer)
        });
        world
    }

    pub fn catalog<T>(
        &self,
        mut work: impl FnMut(&mut dyn billing_domain::store::Transaction) -> Result<T, billing_domain::Error>,
    ) -> T {
        let store: &dyn Store = &**self.store;
        store.run_for(&Scope::Catalog(self.organization), |tx, _| work(tx)).expect("work")
    }

    /// A metric of the events that are called `call`.
    pub fn new_metric(&self, measure: Measure) -> Metric {
        let metric = Metric { measure, ..build::count_metric(&mut self.ids.borrow_mut(), "call", CENTER) };
        self.catalog(|tx| tx.metrics().insert(&metric));
        metric
    }

    /// Puts the customer into another present.
    pub fn set_clock(&self, frozen_time: OffsetDateTime) {
        let clock = TestClock { frozen_time, ..self.clock.clone() };
        self.catalog(|tx| tx.test_clocks().update(&clock));
    }

    fn new_metrics(&self, case: &Case) -> Vec<Metric> {
        let ids = &mut *self.ids.borrow_mut();
        let metrics = case.definitions.iter().map(|(measure, filters)| {
            let (measure, filters) = (measure.clone(), filters.clone());
            Metric { measure, filters, ..build::count_metric(ids, "call", CENTER) }
        });
        let metrics: Vec<Metric> = metrics.collect();
        self.catalog(|tx| metrics.iter().try_for_each(|metric| tx.metrics().insert(metric)));
        metrics
    }

    fn use_filters(&self, metrics: &[Metric], used: &[SubscriptionFilters]) {
        let ids = &mut *self.ids.borrow_mut();
        let plan = build::plan(ids, "gold", CENTER);
        let components = metrics.iter().map(|metric| build::component(ids, metric.id)).collect();
        let version = PlanVersion { components, ..build::plan_version(ids, &plan, CENTER) };
        self.catalog(|tx| {
            tx.plans().insert(&plan)?;
            tx.plans().insert_version(&version)?;
            used.iter().try_for_each(|filters| {
                let held = build::subscription(ids, self.customer, &version, build::days_from(CENTER, 30));
                tx.subscriptions().insert(&Subscription { filters: filters.clone(), ..held })
            })
        });
    }

    /// Takes the events in, some of them in the hour that is the customer's present, most in one before or after it.
    fn import(&self, events: &[Event], presents: &[OffsetDateTime]) {
        for (chunk, frozen_time) in events.chunks(5).zip(presents.iter().cycle()) {
            self.set_clock(*frozen_time);
            self.store.ingest(self.organization, chunk, Window::Open).expect("taken in");
        }
    }
}

#[test]
fn agrees_with_the_fold() {
    let store = TestStore::in_one_lane();
    let seed = RefCell::new(0_u32);
    let used = [filters(&[("env", "a")]), filters(&[("env", "1"), ("region", "b")])];
    let never_used = filters(&[("region", "1")]);
    let all = [SubscriptionFilters::none(), used[0].clone(), used[1].clone(), never_used];
    let check = |case: Case| {
        let world = World::new(&store, seed.replace_with(|seed| *seed + 1) + 1);
        let early = case.metrics_first.then(|| world.new_metrics(&case));
        if let (Some(metrics), true) = (&early, case.filters_first) {
            world.use_filters(metrics, &used);
        }
        world.import(&case.first, &case.presents);
        let metrics = early.unwrap_or_else(|| world.new_metrics(&case));
        if !(case.metrics_first && case.filters_first) {
            world.use_filters(&metrics, &used);
        }
        let mut requests = Vec::new();
        let total = Period::new(CENTER - Duration::days(20), CENTER + Duration::days(11)).expect("a period");
        for period in &case.periods {
            for metric in &metrics {
                for filters in &all {
                    let (customer, metric) = (world.customer, metric.clone());
                    requests.push(UsageRequest::current(customer, metric.clone(), filters.clone(), *period));
                    requests.push(UsageRequest::billed(customer, metric, filters.clone(), *period, &total));
                }
            }
        }
        // What is remembered of this must not be taken for what comes after.
        world.catalog(|tx| tx.events().usages(&requests));
        world.import(&case.second, &case.presents);
        // The first event of an id counts; all months here lie within one window.
        let mut seen = std::collections::BTreeSet::new();
        let events = case.first.iter().chain(&case.second);
        let kept: Vec<&Event> = events.filter(|event| seen.insert(event.idempotency_id.clone())).collect();
        let found = [(); 2].map(|()| world.catalog(|tx| tx.events().usages(&requests)));
        prop_assert_eq!(&found[0], &found[1], "the second time much of it is remembered");
        for (request, found) in requests.iter().zip(&found[0]) {
            let expected = fold(request, kept.iter().copied());
            prop_assert_eq!(
                found,
                &expected,
                "{:?} {:?} {:?} {:?}",
                request.metric.measure,
                request.metric.filters,
                request.filters,
                request.period
            );
        }
        Ok(())
    };
    TestRunner::new(config()).run(&cases(), check).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn what_no_roll_up_tells_is_read_once_while_nothing_is_added() {
    let store = TestStore::in_one_lane();
    let world = World::new(&store, 1);
    let text = |place: usize| format!(r#"{{"amount": {place}, "env": "{}"}}"#, place % 3);
    let event = |id: usize, time: OffsetDateTime| Event {
        properties: build::properties(&text(id)),
        ..build::event("acme", "call", &id.to_string(), time)
    };
    let day = datetime!(2024-02-28 00:00 UTC);
    let amount = || "amount".to_owned();
    let rate = |aggregation, window| Measure::Rate(Rate { aggregation, window });
    #[rustfmt::skip]
    let cases = [
        // measure,                                                                first, with one more, why
        (Measure::Counter(Aggregation::Unique { property_name: "env".to_owned() }), 3,    3,             "different texts"),
        (Measure::Counter(Aggregation::Unique { property_name: amount() }),         6,    7,             "a text that is new"),
        (rate(Aggregation::Count, Span::Hour),                                      2,    3,             "the busiest hour: its edges are in it"),
        (rate(Aggregation::Sum { property_name: amount() }, Span::Minute),          5,    6,             "the greatest sum in a minute"),
        (rate(Aggregation::Max { property_name: amount() }, Span::Day),             5,    6,             "the greatest of all"),
    ];
    let metrics: Vec<Metric> = cases.iter().map(|(measure, ..)| world.new_metric(measure.clone())).collect();
    let events: Vec<Event> = (0..6).map(|place| event(place, day + Duration::hours(place as i64))).collect();
    store.ingest(world.organization, &events, Window::Open).expect("taken in");
    let read = |end: OffsetDateTime| -> Vec<String> {
        let period = Period::new(day, end).expect("a period");
        let request = |metric: &Metric| {
            UsageRequest::billed(world.customer, metric.clone(), SubscriptionFilters::none(), period, &period)
        };
        let requests: Vec<UsageRequest> = metrics.iter().map(request).collect();
        let usages = world.catalog(|tx| tx.events().usages(&requests));
        usages.into_iter().map(|usage| usage.quantity.normalized().to_plain_string()).collect()
    };
    let expected = |choose: fn(&(Measure, i32, i32, &str)) -> i32| -> Vec<String> {
        cases.iter().map(|case| choose(case).to_string()).collect()
    };
    let end = day + Duration::DAY;
    assert_eq!(read(end), expected(|case| case.1));
    // Behind the store's back: whoever still knows the answer has not read them.
    let hide = "ALTER TABLE events RENAME COLUMN properties TO hidden";
    crate::sql::execute(store.url(), hide).expect("hidden");
    assert_eq!(read(end), expected(|case| case.1), "no event is read");
    crate::sql::execute(store.url(), "ALTER TABLE events RENAME COLUMN hidden TO properties").expect("shown");
    store.ingest(world.organization, &[event(6, day + Duration::minutes(270))], Window::Open).expect("taken in");
    assert_eq!(read(end), expected(|case| case.2), "a late event is in it at once");
    assert_eq!(read(day + Duration::hours(4)).len(), cases.len(), "another period is another figure");
}
