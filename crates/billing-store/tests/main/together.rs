//! What many ask for at once is answered together, and each gets the answer that it would have got alone.

use std::sync::mpsc;
use std::thread;

use billing_domain::event::{Event, Ingested};
use billing_domain::id::OrganizationId;
use billing_domain::metric::{AggregationKind, Metric};
use billing_domain::plan::PlanVersion;
use billing_domain::store::{ApiKeyLookup, EventIngest, Reply, Requester, Scope, Store, Transaction, Window};
use billing_domain::subscription::{Subscription, SubscriptionFilters};
use billing_domain::testing::build::{self, Ids};
use billing_domain::workflow::{AccessQuestion, CheckMetricAccess, CheckedAccess, check_metric_access};
use billing_domain::{Error, FieldCode, Refusal, StoreError};
use billing_store::testing::{TestStore, count_statements, statements_sent};
use time::{Duration, OffsetDateTime};

use crate::sql::{execute, query};

/// The answer to what is asked.
fn wait<T: Send + 'static>(ask: impl FnOnce(Reply<T>)) -> Result<T, Error> {
    let (sender, receiver) = mpsc::channel();
    ask(Box::new(move |answer| sender.send(answer).expect("somebody waits")));
    receiver.recv().expect("an answer")
}

struct World {
    store: TestStore,
    organization: OrganizationId,
    metrics: Vec<Metric>,
}

/// An instant of three days ago, off the hour.
fn start() -> OffsetDateTime {
    let now = OffsetDateTime::now_utc();
    let midnight = now.replace_time(time::Time::MIDNIGHT);
    midnight - Duration::days(3) + Duration::minutes(617) + Duration::microseconds(31)
}

impl World {
    /// `acme` meters a count, a sum and a greatest number since [`start`].
    fn new() -> Self {
        Self::with(&[SubscriptionFilters::none()])
    }

    /// [`World::new`] with a subscription for each of some filters.
    fn with(filters: &[SubscriptionFilters]) -> Self {
        let store = TestStore::in_one_lane();
        let ids = &mut Ids::new(1);
        let organization = ids.next();
        let opened = start() - Duration::days(20);
        let measure = |kind: AggregationKind| kind.of(Some("amount".to_owned())).expect("an aggregation").into();
        let metrics: Vec<Metric> = [AggregationKind::Count, AggregationKind::Sum, AggregationKind::Max]
            .map(|kind| Metric { measure: measure(kind), ..build::count_metric(ids, "call", opened) })
            .into();
        let plan = build::plan(ids, "Pro", opened);
        let components = metrics.iter().map(|metric| build::component(ids, metric.id)).collect();
        let version = PlanVersion { components, ..build::plan_version(ids, &plan, opened) };
        let customer = build::customer(organization, "acme", opened);
        let held = filters.iter().map(|filters| Subscription {
            filters: filters.clone(),
            ..build::subscription(ids, customer.key, &version, build::days_from(start(), 30))
        });
        let held: Vec<Subscription> = held.collect();
        let world = Self { store, organization, metrics };
        world.catalog(|tx| {
            tx.organizations().insert(&build::organization(organization, opened))?;
            tx.customers().insert(&customer)?;
            world.metrics.iter().try_for_each(|metric| tx.metrics().insert(metric))?;
            tx.plans().insert(&plan)?;
            tx.plans().insert_version(&version)?;
            held.iter().try_for_each(|held| tx.subscriptions().insert(held))
        });
        world
    }

    fn catalog(&self, mut work: impl FnMut(&mut dyn Transaction) -> Result<(), Error>) {
        let store: &dyn Store = &*self.store;
        store.run_for(&Scope::Catalog(self.organization), |tx, _| work(tx)).expect("work");
    }

    fn send(&self, id: &str, time: OffsetDateTime, amount: u32) {
        let properties = build::properties(&format!(r#"{{"amount": {amount}}}"#));
        let event = Event { properties, ..build::event("acme", "call", id, time) };
        let stored =
            wait(|reply| self.store.ingest_then(self.organization.into(), vec![event], Window::Enforced, reply));
        assert_eq!(stored, Ok(vec![Ingested::Stored]));
    }

    fn command(&self, customer: &str, metric: usize) -> CheckMetricAccess {
        let customer = customer.parse().expect("an id");
        CheckMetricAccess { customer, metric: self.metrics[metric].id, filters: SubscriptionFilters::none() }
    }

    /// The answer given together with others, if there is one.
    fn together(&self, metric: usize) -> Option<CheckedAccess> {
        let command = self.command("acme", metric);
        let ask = |reply| {
            self.store.ask(self.organization.into(), Box::new(AccessQuestion::new(self.organization, command, reply)));
        };
        wait(ask).expect("no error")
    }

    fn alone(&self, metric: usize) -> CheckedAccess {
        let (store, command): (&dyn Store, _) = (&*self.store, self.command("acme", metric));
        store
            .run_for(&Scope::Organization(self.organization), |tx, now| check_metric_access(tx, &command, now))
            .expect("an answer")
    }

    /// What each metric's usage is, and that asking alone and together say the same.
    fn usages(&self) -> [String; 3] {
        [0, 1, 2].map(|metric| {
            let usage = |checked: &CheckedAccess| checked.subscriptions[0].access.usage.normalized().to_plain_string();
            let alone = usage(&self.alone(metric));
            let together = self.together(metric).map_or_else(|| "alone".to_owned(), |checked| usage(&checked));
            assert!(together == alone || together == "alone", "{together} and {alone}");
            together
        })
    }
}

#[test]
fn an_answer_is_the_same_alone_and_together() {
    let world = World::new();
    let hour = Duration::hours(1);
    assert!(world.together(0).is_none(), "nobody has read the partial hour yet");
    world.send("before", start() - Duration::MICROSECOND, 1_000);
    world.send("first", start(), 7);
    world.send("same hour", start() + Duration::MICROSECOND, 5);
    assert_eq!(world.usages(), ["2", "12", "7"]);
    world.send("later", start() + hour * 30, 3);
    world.send("now", OffsetDateTime::now_utc(), 4);
    assert_eq!([0, 1, 2].map(|metric| world.together(metric).is_some()), [true; 3], "the start is remembered");
    assert_eq!(world.usages(), ["4", "19", "7"]);
    world.send("late", start() + Duration::minutes(1), 100);
    assert_eq!([0, 1, 2].map(|metric| world.together(metric).is_some()), [false; 3], "the start is another one now");
    assert_eq!(world.usages(), ["5", "119", "100"]);
    // Within the running hour or the next: neither has happened yet.
    world.send("ahead", OffsetDateTime::now_utc() + Duration::minutes(1), 9_000);
    let usages = world.usages();
    assert_eq!(usages[..2], ["5", "119"], "what lies ahead is taken off");
    assert!(["100", "alone"].contains(&usages[2].as_str()), "a greatest number cannot be: {usages:?}");
}

#[test]
fn nothing_is_read_twice_for_a_question() {
    count_statements();
    let world = World::new();
    world.usages();
    let sent = |ask: &dyn Fn()| {
        let before = statements_sent(world.store.url());
        ask();
        statements_sent(world.store.url()) - before
    };
    let ask_once = || sent(&|| assert!(world.together(0).is_some()));
    assert_eq!(ask_once(), 1);
    world.send("now", OffsetDateTime::now_utc(), 4);
    assert_eq!(ask_once(), 1);
    world.send("another day", OffsetDateTime::now_utc() - Duration::days(1), 4);
    // A look that is not enough; then BEGIN, a look, the hot bucket, buckets, what lies ahead of now.
    assert_eq!(ask_once(), 6);
    assert_eq!(ask_once(), 1);
}

#[test]
fn several_subscriptions_of_a_customer_are_one_question() {
    count_statements();
    let amount = |amount: &str| SubscriptionFilters::new([("amount".to_owned(), amount.to_owned())]).expect("a filter");
    let world = World::with(&[amount("4"), amount("5")]);
    let usages = |checked: CheckedAccess| -> Vec<String> {
        checked
            .subscriptions
            .iter()
            .map(|subscription| subscription.access.usage.normalized().to_plain_string())
            .collect()
    };
    world.send("first", OffsetDateTime::now_utc(), 4);
    world.alone(0);
    assert_eq!(world.together(0).map(usages), Some(vec!["1".to_owned(), "0".to_owned()]));
    for (id, value, usages_then) in [("second", 5, ["1", "1"]), ("third", 5, ["1", "2"]), ("fourth", 4, ["2", "2"])] {
        world.send(id, OffsetDateTime::now_utc(), value);
        let before = statements_sent(world.store.url());
        assert_eq!(world.together(0).map(usages), Some(usages_then.map(str::to_owned).into()));
        assert_eq!(statements_sent(world.store.url()) - before, 1, "after the {id}");
    }
}

#[test]
fn what_is_remembered_is_never_stale() {
    let world = World::new();
    let minute = Duration::minutes(1);
    let mut random: u64 = 11;
    let mut below = |bound: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let mut answered = 0;
    for step in 0..60 {
        let now = OffsetDateTime::now_utc();
        let time = match below(8) {
            0 => start() + minute * i32::try_from(below(40)).expect("small"),
            1 => start() - Duration::MICROSECOND,
            2 | 3 => now - minute * i32::try_from(below(60 * 24 * 3)).expect("small"),
            4 => now + minute * i32::try_from(below(60)).expect("small"),
            5 => now + Duration::milliseconds(20),
            _ => now,
        };
        world.send(&step.to_string(), time, u32::try_from(below(50)).expect("small"));
        for metric in [0, 1, 2, 0, 1, 2] {
            let usage = |checked: &CheckedAccess| checked.subscriptions[0].access.usage.clone();
            let (before, together, after) = (world.alone(metric), world.together(metric), world.alone(metric));
            // Time goes on, and what lay ahead comes to be.
            let possible = [usage(&before), usage(&after)];
            assert!(together.as_ref().is_none_or(|answer| possible.contains(&usage(answer))), "{step}: {possible:?}");
            answered += usize::from(together.is_some());
        }
    }
    assert!(answered > 200, "mostly there is an answer: {answered} of 360");
}

/// Changes roll-ups by hand in each way there is, and sees whether it shows.
fn changes_rollups(world: &World) {
    world.send("now", OffsetDateTime::now_utc(), 4);
    world.usages();
    let usage = || world.together(0).map(|checked| checked.subscriptions[0].access.usage.clone()).expect("an answer");
    let changes = [
        "INSERT INTO usage_rollup (customer_key, organization_id, metric_id, dimensions, bucket_hours, bucket, event_count, sum)
        SELECT customer_key, organization_id, metric_id, '', 24, date_trunc('day', now() - interval '1 day', 'UTC'), 5, 0
        FROM hot_buckets, (SELECT key::uuid FROM hot_buckets, json_object_keys(deltas) key) metric (metric_id)",
        "UPDATE usage_rollup SET event_count = 7 WHERE event_count = 5",
        "DELETE FROM usage_rollup WHERE event_count = 7",
    ];
    for (change, usage_then) in changes.into_iter().zip([6_i32, 8, 1]) {
        execute(world.store.url(), change).expect(change);
        assert_eq!(usage(), usage_then, "{change}");
    }
}

#[test]
fn a_change_of_rollups_without_a_new_version_is_noticed() {
    changes_rollups(&World::new());
    assert_notices("usage_rollup_version", "usage_rollup", changes_rollups);
}

/// Changes by hand what a customer holds in each way there is, and sees whether it shows.
fn changes_subscriptions(world: &World) {
    let quantities = || {
        world.alone(0);
        let checked = world.together(0).expect("the start is remembered");
        checked.subscriptions.iter().map(|subscription| subscription.subscription.quantity).collect::<Vec<_>>()
    };
    assert_eq!(quantities(), [1]);
    let changes: [(&str, &[u32]); 3] = [
        ("UPDATE subscriptions SET quantity = 3", &[3]),
        ("CREATE TABLE kept AS SELECT * FROM subscriptions; DELETE FROM subscriptions", &[]),
        ("INSERT INTO subscriptions SELECT * FROM kept", &[3]),
    ];
    for (change, quantities_then) in changes {
        execute(world.store.url(), change).expect(change);
        assert_eq!(quantities(), quantities_then, "{change}");
    }
}

#[test]
fn a_change_of_subscriptions_without_a_new_version_is_noticed() {
    changes_subscriptions(&World::new());
    assert_notices("subscriptions_version", "subscriptions", changes_subscriptions);
}

/// Sees to it that `changes` fails wherever one of the triggers with these names is missing.
fn assert_notices(triggers: &str, table: &str, changes: fn(&World)) {
    for change in ["inserted", "updated", "deleted"] {
        let world = World::new();
        execute(world.store.url(), &format!("DROP TRIGGER {triggers}_{change} ON {table}")).expect(change);
        let run = std::panic::AssertUnwindSafe(|| changes(&world));
        assert!(std::panic::catch_unwind(run).is_err(), "nobody misses the version of what was {change}");
    }
}

#[test]
fn a_question_finds_its_customer_and_key_however_few_there_were_before() {
    let world = World::new();
    let key = build::api_key(world.organization, "goodgood", start());
    world.catalog(|tx| tx.api_keys().insert(&key));
    let ask = || {
        let requester = Requester { organization: world.organization, key: Some(key.fingerprint()) };
        let question = |reply| Box::new(AccessQuestion::new(world.organization, world.command("acme", 0), reply));
        wait(|reply| world.store.ask(requester, question(reply))).expect("an answer")
    };
    world.usages();
    // All that is sent is planned now.
    assert!(ask().is_some());
    let others = "INSERT INTO customers (customer_key, organization_id, customer_id, default_currency_code, timezone,
            has_payment_method, properties, created_at, last_instant, list_key)
        SELECT gen_random_uuid(), organization_id, 'other' || n, default_currency_code, timezone, has_payment_method,
            properties, created_at, last_instant, gen_random_uuid()
        FROM customers, generate_series(1, 500) n;
        INSERT INTO api_keys (prefix, organization_id, name, digest, created_at, expires_at, kind)
        SELECT lpad(n::text, 8, '0'), organization_id, name, digest, created_at, expires_at, kind
        FROM api_keys, generate_series(1, 500) n";
    execute(world.store.url(), others).expect("customers and keys");
    for table in ["customers", "api_keys"] {
        let fetched = || {
            let sql = format!(
                "SELECT (idx_tup_fetch + seq_tup_read)::text AS value FROM pg_stat_user_tables WHERE relname = '{table}'"
            );
            query(world.store.url(), &sql)[0].parse::<u64>().expect("a number")
        };
        let (before, mut asked) = (fetched(), 0);
        // Postgres counts with a delay.
        while fetched() < before + 50 {
            assert!(ask().is_some());
            asked += 1;
            assert!(asked < 20_000, "nothing is counted of {table}");
        }
        let of_each = (fetched() - before) / asked;
        assert!(of_each < 10, "{of_each} of {table} are looked at for a question about one");
    }
}

#[test]
fn one_bad_question_spoils_no_other() {
    let world = World::new();
    world.usages();
    thread::scope(|threads| {
        for n in 0..24 {
            let world = &world;
            threads.spawn(move || {
                let (customer, metric) = if n % 3 == 0 { ("nobody", 0) } else { ("acme", n % 2) };
                let command = world.command(customer, metric);
                let ask = |reply| {
                    let question = AccessQuestion::new(world.organization, command, reply);
                    world.store.ask(world.organization.into(), Box::new(question));
                };
                match wait(ask) {
                    Ok(Some(checked)) => assert_eq!((n % 3 != 0, checked.metric.id), (true, world.metrics[metric].id)),
                    Ok(None) => panic!("{n}: it was asked before"),
                    Err(Error::Fields(errors)) => {
                        assert_eq!((n % 3, errors.0[0].code), (0, FieldCode::DoesNotExist), "{errors:?}");
                    }
                    Err(error) => panic!("{n}: {error}"),
                }
            });
        }
    });
}

#[test]
fn one_bad_key_spoils_nothing_for_others() {
    let world = World::new();
    world.usages();
    let good = build::api_key(world.organization, "goodgood", start());
    world.catalog(|tx| tx.api_keys().insert(&good));
    let bad = build::api_key(world.organization, "badbadba", start());
    // Whoever comes while the first is served is served together.
    let is_good = |n: usize| !n.is_multiple_of(3);
    let requester = |n| {
        let key = if is_good(n) { &good } else { &bad };
        Requester { organization: world.organization, key: Some(key.fingerprint()) }
    };
    let refused = || Error::from(Refusal::InvalidKey);
    let (sender, receiver) = mpsc::channel();
    for n in 0..24 {
        let sender = sender.clone();
        let reply: Reply<Vec<Ingested>> = Box::new(move |outcome| sender.send((n, outcome)).expect("somebody waits"));
        let event = build::event("acme", "call", &n.to_string(), OffsetDateTime::now_utc());
        world.store.ingest_then(requester(n), vec![event], Window::Enforced, reply);
    }
    for (n, outcome) in receiver.iter().take(24) {
        assert_eq!(outcome, if is_good(n) { Ok(vec![Ingested::Stored]) } else { Err(refused()) }, "{n}");
    }
    assert_eq!(world.usages()[0], "16", "of each three two are good");
    let usage = |checked: &CheckedAccess| checked.subscriptions[0].access.usage.clone();
    let (sender, receiver) = mpsc::channel();
    for n in 0..24 {
        let sender = sender.clone();
        let reply = Box::new(move |outcome| sender.send((n, outcome)).expect("somebody waits"));
        let question = AccessQuestion::new(world.organization, world.command("acme", 0), reply);
        world.store.ask(requester(n), Box::new(question));
    }
    for (n, outcome) in receiver.iter().take(24) {
        let known = outcome.map(|answer: Option<CheckedAccess>| usage(&answer.expect("it was asked before")));
        assert_eq!(known, if is_good(n) { Ok(16.into()) } else { Err(refused()) }, "{n}");
    }
    world.catalog(|tx| tx.api_keys().delete(good.kind, &good.prefix));
    let question = |reply| Box::new(AccessQuestion::new(world.organization, world.command("acme", 0), reply));
    let answer = wait(|reply| world.store.ask(requester(1), question(reply)));
    assert_eq!(answer.map(|_| ()), Err(refused()), "worthless from the commit on, whatever is remembered");
}

#[test]
fn keys_are_looked_up_together_and_never_remembered() {
    let world = World::new();
    let keys: Vec<_> = (0..8).map(|n| build::api_key(world.organization, &format!("prefix{n:02}"), start())).collect();
    world.catalog(|tx| keys.iter().try_for_each(|key| tx.api_keys().insert(key)));
    let find = |prefix: &str| wait(|reply| world.store.find_key_then(prefix.to_owned(), reply)).expect("no error");
    thread::scope(|threads| {
        for n in 0..32 {
            let (find, keys) = (&find, &keys);
            threads.spawn(move || {
                let known = keys.get(n % 10);
                let prefix = known.map_or_else(|| format!("unknown{n}"), |key| key.prefix.clone());
                assert_eq!(find(&prefix).map(|(key, _)| key).as_ref(), known);
            });
        }
    });
    let gone = &keys[3];
    world.catalog(|tx| tx.api_keys().delete(gone.kind, &gone.prefix));
    assert_eq!(find(&gone.prefix), None, "worthless from the commit on");
}

#[test]
fn too_much_is_sent_back_and_nothing_of_it_is_stored() {
    let world = World::new();
    let now = OffsetDateTime::now_utc();
    let long = format!(r#"{{"text": "{}"}}"#, "x".repeat(30_000));
    let batch = |number: usize| -> Vec<Event> {
        let event = |n| Event {
            properties: build::properties(&long),
            ..build::event("acme", "call", &format!("{number}-{n}"), now)
        };
        (0..200).map(event).collect()
    };
    // Each is about six million bytes: with two of them at work, not all of the others can wait.
    let batches: Vec<Vec<Event>> = (0..24).map(batch).collect();
    let (sender, receiver) = mpsc::channel();
    for (number, events) in batches.into_iter().enumerate() {
        let sender = sender.clone();
        let reply: Reply<Vec<Ingested>> =
            Box::new(move |outcome| sender.send((number, outcome)).expect("somebody waits"));
        world.store.ingest_then(world.organization.into(), events, Window::Enforced, reply);
    }
    drop(sender);
    let outcomes: Vec<_> = receiver.iter().collect();
    assert_eq!(outcomes.len(), 24, "everybody is told");
    let (stored, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|(_, outcome)| outcome.is_ok());
    assert!(!refused.is_empty() && !stored.is_empty(), "{} were refused", refused.len());
    assert!(refused.iter().all(|(_, outcome)| *outcome == Err(StoreError::Overloaded.into())));
    let counted = world.alone(0).subscriptions[0].access.usage.clone();
    // Events without an amount count all the same.
    assert_eq!(counted.normalized().to_plain_string(), (stored.len() * 200).to_string());
}
