//! How far events may go before any of them could make a usage alert fire.

use std::collections::{BTreeMap, BTreeSet};

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::addon::{AddonTerms, BillingFrequency, InvoiceWhen};
use crate::id::{CustomerKey, MetricId, PlanVersionId};
use crate::metric::{Aggregation, MetricFilters};
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::ChargeBehavior;
use crate::store::Transaction;
use crate::subscription::SubscriptionFilters;
use crate::testing::world::{World, component, decimal, filters, prepaid_component, subscription, tiers, version};
use crate::usage_alert::{AlertHeadroom, AlertKind, AlertOutlook, AlertUnit, Firing, UsageAlert};
use crate::workflow::{
    CreateMetric, CreateSubscription, CreateUsageAlert, NewComponent, create_metric, create_usage_alert,
    evaluate_usage_alerts,
};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const NOW: OffsetDateTime = datetime!(2024-04-11 10:30 UTC);
/// As far ahead as figures are read.
const HORIZON: OffsetDateTime = datetime!(2024-04-12 11:00 UTC);

/// The customer `acme`, and calls of which 100 are free and 200 are the limit.
struct Setting {
    world: World,
    key: CustomerKey,
    calls: MetricId,
}

impl Setting {
    fn new() -> Self {
        let world = World::at(START);
        let calls = world.metric("call", None).id;
        let key = world.customer("acme");
        Self { world, key, calls }
    }

    fn limited(&self) -> NewComponent {
        component(self.calls, tiers(&[("0", "100", "free"), ("100", "200", "0.1")]))
    }

    fn subscribe(&self, components: Vec<NewComponent>, start: OffsetDateTime, filters: SubscriptionFilters) {
        let plan = self.world.plan(Some(PlanDuration::Monthly), version(Vec::new(), components));
        let command = CreateSubscription { filters, ..subscription("acme", plan, start) };
        self.world.subscribe(&command).expect("subscribed");
    }

    /// With a plan since the start of the month, ten days later.
    fn with(component: impl Fn(&Self) -> NewComponent) -> Self {
        let setting = Self::new();
        setting.subscribe(vec![component(&setting)], START, SubscriptionFilters::none());
        setting.world.store.set_now(NOW);
        setting
    }

    fn alert_on(
        &self,
        metric: Option<MetricId>,
        kind: AlertKind,
        (threshold, unit): (&str, AlertUnit),
        plan_version: Option<PlanVersionId>,
    ) -> UsageAlert {
        let threshold = decimal(threshold);
        let command =
            CreateUsageAlert { kind, metric, threshold, unit, currency_code: None, customer: None, plan_version };
        self.world.catalog(|tx, now| create_usage_alert(tx, &command, now)).expect("an alert")
    }

    fn alert(&self, kind: AlertKind, threshold: &str, unit: AlertUnit) -> UsageAlert {
        self.alert_on(kind.has_metric().then_some(self.calls), kind, (threshold, unit), None)
    }

    fn calls(&self, time: OffsetDateTime, count: u32) {
        self.world.track_many("acme", "call", time, count);
    }

    fn look_since(&self, since: Option<OffsetDateTime>, known: &mut BTreeSet<Firing>) -> Option<AlertHeadroom> {
        let look = |tx: &mut dyn Transaction, now| evaluate_usage_alerts(tx, (self.key, since), known, now);
        self.world.on("acme", look).expect("looked at").headroom
    }

    fn look(&self) -> Option<AlertHeadroom> {
        self.look_since(None, &mut BTreeSet::new())
    }

    /// How many more events of a name there is headroom for, where `stored` were; `Some(None)` where they are not bounded.
    fn left_of(&self, name: &str, stored: u64) -> Option<Option<u64>> {
        match self.look()?.until_arrivals.get(name) {
            Some(0) => None,
            until => Some(until.map(|until| until - stored)),
        }
    }

    /// [`left_of`](Self::left_of), of calls.
    fn calls_left(&self, stored: u64) -> Option<Option<u64>> {
        self.left_of("call", stored)
    }

    fn metric(&self, event_name: &str, aggregation: &Aggregation) -> MetricId {
        let command = CreateMetric {
            name: None,
            event_name: event_name.to_owned(),
            measure: aggregation.clone().into(),
            filters: MetricFilters::default(),
            is_cost_metric: false,
        };
        self.world.catalog(|tx, now| create_metric(tx, &command, now)).expect("a metric").id
    }

    fn has_fired(&self, alert: &UsageAlert) -> bool {
        let firing = Firing { customer: self.key, alert: alert.id, interval_start: START };
        self.world.on("acme", |tx, _| tx.usage_alerts().has_fired(&firing)).expect("an answer")
    }
}

#[test]
fn it_is_what_the_nearest_alert_leaves() {
    use AlertKind::{CreditBalance, MetricUsage, PrepaidUnits, Spend};
    use AlertUnit::{Absolute, PercentOfFree, PercentOfLimit};
    let prepaid =
        |setting: &Setting| prepaid_component(setting.calls, tiers(&[("0", "", "0.1")]), "50", ChargeBehavior::Full);
    let limited = |setting: &Setting| setting.limited();
    type Component<'c> = &'c dyn Fn(&Setting) -> NewComponent;
    #[rustfmt::skip]
    let cases: [(Component<'_>, &[(AlertKind, &str, AlertUnit)], u32, Option<Option<u64>>, &str); 16] = [
        // component, alerts,                                                       calls, headroom,        why
        (&limited, &[(MetricUsage, "10", Absolute)],                                    0, Some(Some(9)),   "the tenth reaches it"),
        (&limited, &[(MetricUsage, "10", Absolute)],                                    8, Some(Some(1)),   "one more does not"),
        (&limited, &[(MetricUsage, "10", Absolute)],                                    9, None,            "one more reaches it"),
        (&limited, &[(MetricUsage, "10", Absolute)],                                   10, Some(None),      "it fires, and no more in this interval"),
        (&limited, &[(MetricUsage, "10", Absolute)],                                   15, Some(None),      "it fires"),
        (&limited, &[(MetricUsage, "10", Absolute), (MetricUsage, "30", Absolute)],     5, Some(Some(4)),   "the nearest"),
        (&limited, &[(MetricUsage, "10", Absolute), (MetricUsage, "30", Absolute)],    12, Some(Some(17)),  "the other one, once the nearest has fired"),
        (&limited, &[(MetricUsage, "80", PercentOfFree)],                              10, Some(Some(69)),  "80 of 100"),
        (&limited, &[(MetricUsage, "33.3", PercentOfLimit)],                           10, Some(Some(56)),  "66 are below 66.6"),
        (&prepaid, &[(PrepaidUnits, "5", Absolute)],                                   10, Some(Some(34)),  "6 of 50 are left"),
        (&prepaid, &[(PrepaidUnits, "50", Absolute)],                                   0, Some(None),      "it fires at once"),
        (&prepaid, &[(MetricUsage, "80", PercentOfLimit)],                             10, Some(None),      "there is no limit"),
        (&limited, &[(PrepaidUnits, "5", Absolute)],                                   10, Some(None),      "nothing is prepaid"),
        (&limited, &[(MetricUsage, "10", Absolute), (Spend, "1000", Absolute)],         0, None,            "one event may cost whatever its tier says"),
        (&limited, &[(MetricUsage, "10", Absolute), (CreditBalance, "5", Absolute)],    0, Some(Some(9)),   "no event draws on credits"),
        (&limited, &[(CreditBalance, "5", Absolute)],                                   0, Some(None),      "nor is anything else looked at"),
    ];
    for (component, alerts, calls, expected, why) in cases {
        let setting = Setting::with(component);
        for (kind, threshold, unit) in alerts {
            setting.alert(*kind, threshold, *unit);
        }
        setting.calls(START, calls);
        assert_eq!(setting.calls_left(calls.into()), expected, "{alerts:?} with {calls} calls: {why}");
    }
}

#[test]
fn nobody_has_any_whom_nothing_is_known_of() {
    let setting = Setting::with(Setting::limited);
    assert_eq!(setting.look(), None, "there is no alert");
    setting.alert(AlertKind::MetricUsage, "10", AlertUnit::Absolute);
    let nobody = setting.world.key("nobody");
    let mut known = BTreeSet::new();
    let look = |tx: &mut dyn Transaction, now| evaluate_usage_alerts(tx, (nobody, None), &mut known, now);
    assert_eq!(setting.world.on("nobody", look), Ok(AlertOutlook::default()), "events may come before their customer");
}

#[test]
fn only_figures_that_rise_by_one_leave_any() {
    let property_name = || "n".to_owned();
    #[rustfmt::skip]
    let cases = [
        // aggregation,                                           headroom,      fired,      why
        (Aggregation::Count,                                      Some(Some(7)), Some(None), "each event is one"),
        (Aggregation::Unique { property_name: property_name() },  Some(Some(8)), Some(None), "each event is one text at most"),
        (Aggregation::Sum { property_name: property_name() },     None,          Some(None), "whatever the event says"),
        (Aggregation::Max { property_name: property_name() },     None,          Some(None), "whatever the event says"),
        (Aggregation::Latest { property_name: property_name() },  None,          Some(None), "whatever the event says"),
    ];
    for (aggregation, expected, fired, why) in cases {
        let setting = Setting::new();
        let metric = setting.metric("use", &aggregation);
        setting.subscribe(vec![component(metric, tiers(&[("0", "", "1")]))], START, SubscriptionFilters::none());
        setting.world.store.set_now(NOW);
        setting.alert_on(Some(metric), AlertKind::MetricUsage, ("10", AlertUnit::Absolute), None);
        for _ in 0..2 {
            setting.world.track("acme", "use", START, &serde_json::json!({"n": 1}));
        }
        assert_eq!(setting.left_of("use", 2), expected, "{aggregation:?}: {why}");
        for n in 2..20 {
            setting.world.track("acme", "use", START, &serde_json::json!({"n": 20 + n}));
        }
        assert_eq!(setting.left_of("use", 20), fired, "{aggregation:?} fires: no more of it in this interval");
    }
}

#[test]
fn events_of_one_name_take_nothing_from_those_of_another() {
    use AlertUnit::Absolute;
    #[rustfmt::skip]
    let cases = [
        // aggregation of `use`,                                  threshold, calls,         uses,           why
        (Aggregation::Count,                                      "1",       Some(Some(7)), None,           "the first one fires"),
        (Aggregation::Count,                                      "5",       Some(Some(7)), Some(Some(4)),  "each has its own"),
        (Aggregation::Sum { property_name: "n".to_owned() },      "1e9",     Some(Some(7)), None,           "one may be as large as it likes"),
        (Aggregation::Count,                                      "",        Some(Some(7)), Some(None),     "there is no alert about them"),
    ];
    for (aggregation, threshold, calls, uses, why) in cases {
        let setting = Setting::new();
        let metric = setting.metric("use", &aggregation);
        let components = vec![setting.limited(), component(metric, tiers(&[("0", "", "1")]))];
        setting.subscribe(components, START, SubscriptionFilters::none());
        setting.world.store.set_now(NOW);
        setting.alert(AlertKind::MetricUsage, "10", Absolute);
        if !threshold.is_empty() {
            setting.alert_on(Some(metric), AlertKind::MetricUsage, (threshold, Absolute), None);
        }
        setting.calls(START, 2);
        assert_eq!((setting.left_of("call", 2), setting.left_of("use", 2)), (calls, uses), "{threshold}: {why}");
    }
    let setting = Setting::with(Setting::limited);
    setting.alert(AlertKind::MetricUsage, "10", Absolute);
    let sum = setting.metric("call", &Aggregation::Sum { property_name: "n".to_owned() });
    setting.subscribe(vec![component(sum, tiers(&[("0", "", "1")]))], START, filters(&[("env", "a")]));
    setting.alert_on(Some(sum), AlertKind::MetricUsage, ("1e9", Absolute), None);
    assert_eq!(setting.calls_left(0), None, "two metrics look at calls, and any call may reach one");
}

#[test]
fn what_is_dated_ahead_counts_already_and_fires_later() {
    let setting = Setting::with(Setting::limited);
    let alert = setting.alert(AlertKind::MetricUsage, "10", AlertUnit::Absolute);
    setting.calls(NOW, 3);
    setting.calls(NOW + Duration::HOUR, 2);
    assert_eq!(setting.calls_left(5), Some(Some(4)), "two of five are dated ahead");
    setting.calls(NOW + Duration::HOUR, 7);
    assert_eq!(setting.calls_left(12), None, "twelve, of which three count by now");
    assert!(!setting.has_fired(&alert), "it is not reached yet");
    setting.world.store.set_now(NOW + Duration::HOUR * 2);
    setting.calls(NOW, 1);
    assert_eq!(setting.calls_left(13), Some(None), "now it is");
    assert!(setting.has_fired(&alert));
    setting.calls(HORIZON + Duration::DAY, 5);
    assert_eq!(setting.calls_left(18), Some(None), "no more in this interval");
}

#[test]
fn it_holds_from_the_look_until_something_begins_or_ends() {
    let daily = |setting: &Setting| NewComponent {
        reset_interval: Interval::new(IntervalUnit::Day, 1).ok(),
        ..setting.limited()
    };
    let midnight = datetime!(2024-04-12 00:00 UTC);
    let setting = Setting::with(Setting::limited);
    setting.alert(AlertKind::MetricUsage, "10", AlertUnit::Absolute);
    let until = |setting: &Setting| setting.look().map(|headroom| (headroom.from, headroom.until));
    assert_eq!(until(&setting), Some((NOW, HORIZON)), "the month is long");
    setting.subscribe(vec![setting.limited()], midnight + Duration::HOUR, filters(&[("env", "a")]));
    assert_eq!(until(&setting), Some((NOW, midnight + Duration::HOUR)), "another plan begins");
    let setting = Setting::with(daily);
    setting.alert(AlertKind::MetricUsage, "10", AlertUnit::Absolute);
    assert_eq!(until(&setting), Some((NOW, midnight)), "the interval ends");
    let end = datetime!(2024-05-01 00:00 UTC);
    setting.world.store.set_now(end - Duration::MINUTE);
    assert_eq!(until(&setting), Some((end - Duration::MINUTE, end)), "the plan is renewed");
    setting.world.store.set_now(end + Duration::MINUTE);
    assert_eq!(until(&setting), None, "it is due to be renewed, and nobody knows to what");
    setting.world.advance("acme", end + Duration::MINUTE);
    assert_eq!(until(&setting), Some((end + Duration::MINUTE, end + Duration::DAY)), "it is renewed");
    let setting = Setting::new();
    setting.world.store.set_now(NOW);
    setting.alert(AlertKind::MetricUsage, "10", AlertUnit::Absolute);
    assert_eq!(setting.look(), Some(AlertHeadroom::new(BTreeMap::new(), (NOW, HORIZON))), "nothing is held");
}

#[test]
fn what_was_told_and_taken_back_is_told_no_more_in_the_interval() {
    let setting = Setting::with(Setting::limited);
    setting.alert(AlertKind::MetricUsage, "10", AlertUnit::Absolute);
    setting.alert(AlertKind::MetricUsage, "40", AlertUnit::Absolute);
    setting.calls(START, 12);
    let mut known = BTreeSet::new();
    for round in 0..3 {
        let left = setting.look_since(None, &mut known).map(|headroom| headroom.until_arrivals);
        assert_eq!(
            left,
            Some(BTreeMap::from([("call".to_owned(), 12 + 27)])),
            "round {round}: whether it is known to have fired, or looked up"
        );
    }
}

/// An event came, then an add-on that an alert is about, and only then somebody looks: at what ran then, and at what runs now.
#[test]
fn an_add_on_that_came_behind_an_event_is_looked_at() {
    let setting = Setting::new();
    let plan = setting.world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![setting.limited()]));
    let base = setting.world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
    let terms =
        AddonTerms { billing_frequency: BillingFrequency::Recurring, invoice_when: InvoiceWhen::InvoiceOnAttach };
    let addon = setting.world.addon(terms, version(Vec::new(), Vec::new()));
    let usage = AlertKind::MetricUsage;
    let alert = setting.alert_on(Some(setting.calls), usage, ("3", AlertUnit::Absolute), Some(addon.content.id));
    setting.world.store.set_now(NOW);
    setting.calls(NOW, 3);
    setting.world.store.set_now(NOW + Duration::SECOND);
    setting.world.attach("acme", base, addon.id, 1).expect("attached");
    setting.world.store.set_now(NOW + Duration::SECOND * 2);
    setting.look_since(Some(NOW), &mut BTreeSet::new());
    assert!(setting.has_fired(&alert), "whoever holds the add-on");
}
