//! Events that are dated ahead reach a threshold when their time has come, though nothing else happens then.

use std::collections::BTreeSet;

use serde_json::json;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::metric::Metric;
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::store::{AlertQueue, MarkedCustomer, Scope, Store, Transaction};
use crate::testing::world::{World, component, decimal, subscription, tiers, version};
use crate::usage_alert::{AlertKind, AlertOutlook, AlertUnit, Firing, UsageAlert};
use crate::workflow::{
    CorrectEvents, CreateUsageAlert, EventChange, NewComponent, WantedCorrection, correct_events, create_usage_alert,
    evaluate_usage_alerts, find_later_look,
};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const NOW: OffsetDateTime = datetime!(2024-04-11 10:30 UTC);

/// `acme`, whose calls, or what they say in `n`, begin anew with each month or day.
struct Setting {
    world: World,
    metric: Metric,
}

impl Setting {
    fn new(sum_of: Option<&str>, interval: IntervalUnit) -> Self {
        let world = World::at(START);
        let metric = world.metric("call", sum_of);
        world.customer("acme");
        let reset_interval = Interval::new(interval, 1).ok();
        let priced = NewComponent { reset_interval, ..component(metric.id, tiers(&[("0", "", "1")])) };
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![priced]));
        world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
        let setting = Self { world, metric };
        setting.go_on_to(NOW);
        setting
    }

    fn alert(&self, kind: AlertKind, threshold: &str) -> UsageAlert {
        let command = CreateUsageAlert {
            kind,
            metric: kind.has_metric().then_some(self.metric.id),
            threshold: decimal(threshold),
            unit: AlertUnit::Absolute,
            currency_code: None,
            customer: None,
            plan_version: None,
        };
        self.world.catalog(|tx, now| create_usage_alert(tx, &command, now)).expect("an alert")
    }

    fn call(&self, time: OffsetDateTime) {
        self.world.track("acme", "call", time, &json!({"n": 1}));
    }

    /// Bills up to an instant, and looks at whoever is marked, as the worker does, until nobody is; how often somebody was.
    fn go_on_to(&self, now: OffsetDateTime) -> usize {
        let (store, mut looks) = (&self.world.store, 0);
        self.world.advance("acme", now);
        store.mark_concerned(1_000).expect("marked");
        loop {
            let mut marked = store.list_marked(1_000).expect("marks");
            if marked.is_empty() {
                return looks;
            }
            looks += marked.len();
            assert!(looks < 1_000, "it never ends");
            marked.iter_mut().for_each(|one| self.look_at(one));
            store.drop_marks(&marked).expect("dropped");
        }
    }

    fn look_at(&self, one: &mut MarkedCustomer) {
        let store: &dyn Store = &self.world.store;
        let mut known = BTreeSet::new();
        let look = |tx: &mut dyn Transaction, now| {
            let outlook = evaluate_usage_alerts(tx, (one.customer, one.since), &mut known, now)?;
            find_later_look(tx, one, &outlook, now)
        };
        one.later = store.run_for(&Scope::Customer(one.organization, one.customer), look).expect("looked at");
    }

    fn is_told_for(&self, alert: &UsageAlert, interval_start: OffsetDateTime) -> bool {
        let firing = Firing { customer: self.world.key("acme"), alert: alert.id, interval_start };
        self.world.on("acme", |tx, _| tx.usage_alerts().has_fired(&firing)).expect("an answer")
    }
}

const TODAY: OffsetDateTime = datetime!(2024-04-11 00:00 UTC);
const TOMORROW: OffsetDateTime = datetime!(2024-04-12 00:00 UTC);

fn in_hours(hours: i64) -> OffsetDateTime {
    NOW + Duration::hours(hours)
}

#[test]
fn what_is_dated_ahead_reaches_a_threshold_at_its_own_instant() {
    use IntervalUnit::{Day, Month};
    let moment = Duration::MICROSECOND;
    #[rustfmt::skip]
    let cases: [(Option<&str>, AlertKind, &str, &[OffsetDateTime], OffsetDateTime, OffsetDateTime, &str); 9] = [
        // sum of, kind, threshold, dated, when it fires, in the interval of, why
        (None,      AlertKind::MetricUsage, "1", &[in_hours(1)],                           in_hours(1),  TODAY,    "the first counts in an hour"),
        (None,      AlertKind::MetricUsage, "1", &[NOW + moment],                          NOW + moment, TODAY,    "the least that a clock goes wrong"),
        (None,      AlertKind::MetricUsage, "2", &[in_hours(1), in_hours(2)],              in_hours(2),  TODAY,    "a look at the first finds nothing"),
        (None,      AlertKind::MetricUsage, "2", &[in_hours(2), in_hours(1)],              in_hours(2),  TODAY,    "in whatever order they come"),
        (None,      AlertKind::MetricUsage, "3", &[NOW, in_hours(1), in_hours(1)],         in_hours(1),  TODAY,    "with what has counted before"),
        (None,      AlertKind::MetricUsage, "1", &[in_hours(20)],                          in_hours(20), TOMORROW, "in the next interval"),
        (Some("n"), AlertKind::MetricUsage, "2", &[NOW, in_hours(3)],                      in_hours(3),  TODAY,    "a sum leaves no headroom"),
        (None,      AlertKind::Spend,       "2", &[NOW, in_hours(3)],                      in_hours(3) + moment, START, "what is spent comes behind it: a draft goes up to its instant"),
        (None,      AlertKind::Spend,       "1", &[NOW],                                   NOW + moment, START,    "also that of an event at the very instant"),
    ];
    for (sum_of, kind, threshold, dated, at, interval, why) in cases {
        for is_made_before in [true, false] {
            let why = format!("{why}; the alert was made before: {is_made_before}");
            let setting = Setting::new(sum_of, if interval == START { Month } else { Day });
            let made = is_made_before.then(|| setting.alert(kind, threshold));
            setting.go_on_to(NOW);
            dated.iter().for_each(|time| setting.call(*time));
            let alert = made.unwrap_or_else(|| setting.alert(kind, threshold));
            setting.go_on_to(NOW);
            assert!(!setting.is_told_for(&alert, interval), "too early: {why}");
            setting.go_on_to(at - moment);
            assert!(!setting.is_told_for(&alert, interval), "still too early: {why}");
            setting.go_on_to(at);
            assert!(setting.is_told_for(&alert, interval), "{why}");
            setting.go_on_to(at + moment);
            assert_eq!(setting.go_on_to(in_hours(40)), 0, "nothing more is due: {why}");
        }
    }
}

/// Three calls that were stored while there was headroom for them left no mark.
#[test]
fn what_reaches_a_threshold_together_with_what_lies_ahead_is_looked_at_when_that_counts() {
    let setting = Setting::new(None, IntervalUnit::Day);
    let alert = setting.alert(AlertKind::MetricUsage, "10");
    setting.go_on_to(NOW);
    (0..3).for_each(|_| setting.call(in_hours(2)));
    let mut stored = setting.world.store.list_marked(1_000).expect("marks");
    setting.world.store.drop_marks(&stored).expect("as if nobody had been marked");
    (0..7).for_each(|_| setting.call(NOW - Duration::SECOND));
    stored = setting.world.store.list_marked(1_000).expect("marks");
    assert!(stored.iter().all(|one| !one.may_lie_ahead), "{stored:?}");
    setting.go_on_to(NOW);
    assert!(!setting.is_told_for(&alert, TODAY));
    setting.go_on_to(in_hours(2));
    assert!(setting.is_told_for(&alert, TODAY));
}

#[test]
fn what_is_voided_before_its_time_reaches_nothing() {
    let setting = Setting::new(None, IntervalUnit::Day);
    let alert = setting.alert(AlertKind::MetricUsage, "1");
    setting.call(in_hours(1));
    setting.go_on_to(NOW);
    let corrections =
        vec![WantedCorrection { idempotency_id: "event-1".to_owned(), change: EventChange::Void, attr: String::new() }];
    let customer = setting.world.key("acme");
    let command = CorrectEvents { customer, corrections, beyond_window: false, by: None, reason: None };
    setting.world.on("acme", |tx, now| correct_events(tx, &command, now)).expect("voided");
    setting.go_on_to(in_hours(1));
    assert!(!setting.is_told_for(&alert, TODAY));
}

/// No process ran for days, or a test clock went on by as much: every interval is looked at in which something began to count.
#[test]
fn intervals_that_have_passed_meanwhile_are_looked_at_too() {
    let setting = Setting::new(None, IntervalUnit::Day);
    let alert = setting.alert(AlertKind::MetricUsage, "1");
    setting.go_on_to(NOW);
    let days = [1, 3, 4];
    // Ten of each day, over two hours.
    for (day, n) in days.into_iter().flat_map(|day| (0..10).map(move |n| (day, n))) {
        setting.call(NOW + Duration::days(day) + Duration::minutes(12 * n));
    }
    setting.go_on_to(NOW);
    let looks = setting.go_on_to(NOW + Duration::days(30));
    for day in 0..30 {
        let is_told = setting.is_told_for(&alert, TODAY + Duration::days(day));
        assert_eq!(is_told, days.contains(&day), "day {day}");
    }
    // One for each quarter of an hour with events, and those that follow what was told.
    assert!(looks <= 3 * 9 + 3, "{looks}");
}

#[test]
fn where_no_alert_looks_at_events_nothing_is_due() {
    let setting = Setting::new(None, IntervalUnit::Day);
    setting.call(in_hours(1));
    let (key, nothing_known) = (setting.world.key("acme"), AlertOutlook::default());
    let later = |since| {
        let mut marked = MarkedCustomer::new((setting.world.organization, key), since, vec![0]);
        marked.may_lie_ahead = true;
        let find = |tx: &mut dyn Transaction, now| find_later_look(tx, &marked, &nothing_known, now);
        setting.world.on("acme", find)
    };
    assert_eq!(later(None), Ok(None), "there is no alert");
    setting.alert(AlertKind::CreditBalance, "1");
    assert_eq!(later(None), Ok(None), "no event draws on credits");
    setting.alert(AlertKind::MetricUsage, "1");
    assert_eq!(later(None).expect("an answer").map(|look| look.at), Some(in_hours(1)));
    assert_eq!(later(Some(NOW)).expect("an answer").map(|look| look.at), Some(in_hours(1)));
    setting.call(NOW);
    assert_eq!(
        later(None).expect("an answer").map(|look| look.at),
        Some(NOW + Duration::MICROSECOND),
        "not again at once"
    );
}

#[test]
fn nobody_asks_for_events_ahead_unless_something_says_that_there_may_be_some() {
    let setting = Setting::new(None, IntervalUnit::Day);
    setting.call(in_hours(1));
    setting.alert(AlertKind::MetricUsage, "1");
    #[rustfmt::skip]
    let cases = [
        // some may lie ahead, a threshold is reached ahead, due, why
        (true,  false, Some(in_hours(1)), "an event that was stored says so"),
        (false, true,  Some(in_hours(1)), "the figures say so"),
        (false, false, None,              "nothing does"),
    ];
    for (may_lie_ahead, is_reached_ahead, due, why) in cases {
        let mut marked = MarkedCustomer::new((setting.world.organization, setting.world.key("acme")), None, vec![0]);
        marked.may_lie_ahead = may_lie_ahead;
        let outlook = AlertOutlook { headroom: None, is_reached_ahead };
        let find = |tx: &mut dyn Transaction, now| find_later_look(tx, &marked, &outlook, now);
        let later = setting.world.on("acme", find).expect("an answer");
        assert_eq!(later.map(|look| look.at), due, "{why}");
    }
}

/// Whoever's clock is wrong by an hour sends nothing but what is dated ahead.
#[test]
fn what_lies_ahead_within_headroom_is_not_looked_at_one_by_one() {
    let setting = Setting::new(None, IntervalUnit::Day);
    let alert = setting.alert(AlertKind::MetricUsage, "100");
    for minute in 0..60 {
        setting.call(NOW + Duration::minutes(minute));
    }
    assert!(setting.go_on_to(NOW) > 0);
    // Behind the end of the headroom, which is that of the day.
    setting.call(TOMORROW);
    assert!(setting.go_on_to(NOW) > 0);
    let before = TOMORROW - Duration::MICROSECOND;
    assert_eq!(setting.go_on_to(before), 0, "nothing of it can reach the threshold");
    assert!(setting.go_on_to(TOMORROW) > 0, "it counts for another interval");
    (0..99).for_each(|_| setting.call(in_hours(15)));
    setting.go_on_to(TOMORROW);
    setting.go_on_to(in_hours(15));
    assert!(setting.is_told_for(&alert, TOMORROW) && !setting.is_told_for(&alert, TODAY));
}
