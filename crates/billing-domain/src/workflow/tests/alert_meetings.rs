//! Usage alerts beside what else befalls a customer: renewals, cancels, switches, add-ons, credits and prepaid units.

use std::collections::BTreeSet;

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::addon::{AddonTerms, BillingFrequency, InvoiceWhen};
use crate::id::{CustomerKey, MetricId, PlanId, PlanVersionId, SubscriptionId};
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::{ChargeBehavior, ChargeTiming};
use crate::store::{FeedRequest, Scope, Store};
use crate::subscription::{Cancellation, InvoicingBehavior, SwitchUsageBehavior};
use crate::testing::world::{World, component, decimal, fee, prepaid_component, subscription, tiers, version};
use crate::usage_alert::{AlertKind, AlertUnit, UsageAlert};
use crate::workflow::{
    CancelSubscription, ChangePrepaidUnits, CreateCredit, CreateUsageAlert, NewComponent, SwitchPlan, VersionChoice,
    cancel_subscription, change_prepaid_units, create_credit, create_usage_alert, evaluate_usage_alerts, switch_plan,
    void_credit, void_invoice,
};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const LATER: OffsetDateTime = datetime!(2024-04-11 00:00 UTC);
const NEXT: OffsetDateTime = datetime!(2024-05-01 00:00 UTC);

/// The customer `acme`, and calls at 0.1 each.
struct Setting {
    world: World,
    key: CustomerKey,
    calls: MetricId,
}

impl Setting {
    fn at(start: OffsetDateTime) -> Self {
        let world = World::at(start);
        let calls = world.metric("call", None).id;
        let key = world.customer("acme");
        Self { world, key, calls }
    }

    fn priced(&self) -> NewComponent {
        component(self.calls, tiers(&[("0", "", "0.1")]))
    }

    /// A monthly plan with a component.
    fn plan_of(&self, component: NewComponent) -> PlanId {
        self.world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component]))
    }

    fn subscribe(&self, plan: PlanId, start: OffsetDateTime) -> SubscriptionId {
        self.world.subscribe(&subscription("acme", plan, start)).expect("subscribed").id
    }

    fn version_of(&self, plan: PlanId) -> PlanVersionId {
        self.world.catalog(|tx, _| tx.plans().list_versions(Some(plan))).expect("versions")[0].id
    }

    /// An alert on calls, or on an amount, at a threshold.
    fn alert(&self, kind: AlertKind, threshold: &str, plan_version: Option<PlanVersionId>) -> UsageAlert {
        let command = CreateUsageAlert {
            kind,
            metric: kind.has_metric().then_some(self.calls),
            threshold: decimal(threshold),
            unit: AlertUnit::Absolute,
            currency_code: None,
            customer: None,
            plan_version,
        };
        self.world.catalog(|tx, now| create_usage_alert(tx, &command, now)).expect("an alert")
    }

    /// Looks at the figures, and at the interval that ran at `since`.
    fn look_since(&self, since: Option<OffsetDateTime>) {
        let mut known = BTreeSet::new();
        let look =
            |tx: &mut dyn crate::store::Transaction, now| evaluate_usage_alerts(tx, (self.key, since), &mut known, now);
        self.world.on("acme", look).expect("looked at");
    }

    /// How many alerts were told, once somebody has looked at the figures.
    fn told(&self) -> usize {
        self.look_since(None);
        let store: &dyn Store = &self.world.store;
        let types = vec!["usage_alert.triggered".parse().expect("a type")];
        let wanted = FeedRequest { after: 0, types, limit: 1_000 };
        let scope = Scope::Organization(self.world.organization);
        store.run_for(&scope, |tx, _| tx.messages().list(&wanted)).expect("a feed").messages.len()
    }

    /// Whether the alert was told for the interval.
    fn is_told_for(&self, alert: &UsageAlert, interval_start: OffsetDateTime) -> bool {
        let firing = crate::usage_alert::Firing { customer: self.key, alert: alert.id, interval_start };
        self.world.on("acme", |tx, _| tx.usage_alerts().has_fired(&firing)).expect("an answer")
    }

    fn calls(&self, time: OffsetDateTime, count: u32) {
        self.world.track_many("acme", "call", time, count);
    }

    fn cancel(&self, subscription: SubscriptionId) {
        let command = CancelSubscription {
            customer: self.key,
            subscriptions: vec![subscription],
            cancellation: Cancellation::default(),
            invoicing_behavior: InvoicingBehavior::InvoiceNow,
        };
        self.world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
    }

    fn switch(&self, subscription: SubscriptionId, to: PlanId, usage_behavior: SwitchUsageBehavior) {
        let command = SwitchPlan {
            customer: self.key,
            subscription,
            version: VersionChoice::Plan(to),
            invoicing_behavior: InvoicingBehavior::AddToNextInvoice,
            usage_behavior,
            prepaid_units: Vec::new(),
        };
        self.world.on("acme", |tx, now| switch_plan(tx, &command, now)).expect("switched");
    }

    fn credit(&self, amount: &str, effective_at: Option<OffsetDateTime>, expires_at: Option<OffsetDateTime>) {
        let command = CreateCredit {
            customer: "acme".parse().expect("an id"),
            amount: decimal(amount),
            currency_code: "USD".to_owned(),
            description: None,
            effective_at,
            expires_at,
            amount_paid: decimal("0"),
            amount_paid_currency_code: None,
        };
        self.world.on("acme", |tx, now| create_credit(tx, &command, now)).expect("a credit");
    }
}

#[test]
fn usage_is_told_of_again_behind_every_month_end() {
    let days = [datetime!(2024-01-31 00:00 UTC), datetime!(2024-02-29 00:00 UTC), datetime!(2024-03-31 00:00 UTC)];
    let setting = Setting::at(days[0]);
    setting.subscribe(setting.plan_of(setting.priced()), days[0]);
    let alert = setting.alert(AlertKind::MetricUsage, "3", None);
    for (round, day) in days.into_iter().enumerate() {
        // The renewal is due and not yet made when the first calls are looked at.
        setting.world.store.set_now(day);
        setting.calls(day, 2);
        assert_eq!(setting.told(), round, "two of three on {day}");
        setting.world.advance("acme", day + Duration::HOUR);
        setting.calls(day + Duration::HOUR, 1);
        assert_eq!(setting.told(), round + 1, "three on {day}");
        assert!(setting.is_told_for(&alert, day), "the interval that begins on {day}");
        setting.calls(day + Duration::HOUR, 5);
        assert_eq!(setting.told(), round + 1, "once on {day}");
    }
}

#[test]
fn the_spend_of_a_period_is_not_taken_for_that_of_the_next() {
    let setting = Setting::at(START);
    setting.subscribe(setting.plan_of(setting.priced()), START);
    let alert = setting.alert(AlertKind::Spend, "1", None);
    setting.calls(START, 9);
    assert_eq!(setting.told(), 0, "0.9");
    // An invoice waits half an hour for late events. Who pays it still belongs to April.
    for (minutes, is_billed) in [(0, false), (1, true), (20, true)] {
        let now = NEXT + Duration::minutes(minutes);
        setting.world.store.set_now(now);
        if is_billed {
            setting.world.advance("acme", now);
        }
        setting.calls(now, 4);
        assert_eq!(setting.told(), 0, "0.9 of April and some of May, {minutes} minutes into it");
    }
    setting.calls(NEXT - Duration::HOUR, 1);
    assert_eq!(setting.told(), 1, "a late event in time for the invoice");
    assert!(setting.is_told_for(&alert, START) && !setting.is_told_for(&alert, NEXT));
    setting.world.advance("acme", NEXT + Duration::HOUR);
    assert_eq!(setting.told(), 2, "1.2 of May, which nothing hides any more");
    assert!(setting.is_told_for(&alert, NEXT));
}

/// What is invoiced monthly is spent monthly, also where the plan lasts a year; what is invoiced with the year is spent in the year.
#[test]
fn the_spend_of_a_yearly_plan_runs_from_invoice_to_invoice() {
    for (invoicing_interval, told_behind_may) in [(Interval::new(IntervalUnit::Month, 1).ok(), 2), (None, 1)] {
        let setting = Setting::at(START);
        let yearly = || {
            let component = NewComponent { invoicing_interval, ..setting.priced() };
            setting.world.plan(Some(PlanDuration::Yearly), version(Vec::new(), vec![component]))
        };
        let held = setting.subscribe(yearly(), START);
        let alert = setting.alert(AlertKind::Spend, "1", None);
        setting.world.advance("acme", LATER);
        setting.calls(START, 11);
        assert_eq!(setting.told(), 1, "{invoicing_interval:?}: 1.1 of April");
        assert!(setting.is_told_for(&alert, START));
        setting.world.advance("acme", NEXT + Duration::HOUR);
        assert_eq!(setting.told(), 1, "{invoicing_interval:?}: nothing of May");
        setting.calls(NEXT + Duration::MINUTE, 10);
        assert_eq!(setting.told(), told_behind_may, "{invoicing_interval:?}: 1.0 of May");
        assert_eq!(setting.is_told_for(&alert, NEXT), invoicing_interval.is_some());
        setting.world.advance("acme", NEXT + Duration::DAY);
        setting.switch(held, yearly(), SwitchUsageBehavior::TransferToNewSubscription);
        setting.world.advance("acme", NEXT + Duration::DAY * 2);
        setting.calls(NEXT + Duration::DAY + Duration::HOUR, 10);
        assert_eq!(setting.told(), told_behind_may, "{invoicing_interval:?}: a switch goes on with the interval");
    }
}

#[test]
fn what_was_reached_before_a_cancellation_is_told_and_nothing_behind_it() {
    let setting = Setting::at(START);
    let plan = setting.plan_of(setting.priced());
    let subscription = setting.subscribe(plan, START);
    let usage = setting.alert(AlertKind::MetricUsage, "3", None);
    setting.world.store.set_now(LATER);
    setting.calls(LATER, 3);
    setting.world.store.set_now(LATER + Duration::SECOND);
    setting.cancel(subscription);
    setting.look_since(Some(LATER));
    assert_eq!(setting.told(), 1, "the calls came first");
    setting.calls(LATER + Duration::SECOND, 9);
    setting.look_since(Some(LATER + Duration::SECOND));
    assert_eq!(setting.told(), 1, "there is no interval any more");
    // Whoever comes back begins another one.
    let back = LATER + Duration::DAY;
    setting.world.store.set_now(back);
    setting.subscribe(plan, back);
    assert_eq!(setting.told(), 1);
    setting.calls(back, 3);
    assert_eq!(setting.told(), 2);
    assert!(setting.is_told_for(&usage, START) && setting.is_told_for(&usage, back));
}

#[test]
fn a_switch_begins_an_interval_only_where_usage_is_kept_apart() {
    #[rustfmt::skip]
    let cases = [
        // usage behaviour,                                told, why
        (SwitchUsageBehavior::TransferToNewSubscription,   1,    "the interval goes on, with what was used"),
        (SwitchUsageBehavior::KeepSeparate,                2,    "usage begins anew, and so does the interval"),
    ];
    for (behavior, told, why) in cases {
        let setting = Setting::at(START);
        let (from, to) = (setting.plan_of(setting.priced()), setting.plan_of(setting.priced()));
        let subscription = setting.subscribe(from, START);
        setting.alert(AlertKind::MetricUsage, "3", None);
        setting.calls(START, 3);
        assert_eq!(setting.told(), 1, "{why}");
        setting.world.store.set_now(LATER);
        setting.switch(subscription, to, behavior);
        assert_eq!(setting.told(), 1, "{why}");
        setting.calls(LATER, 3);
        assert_eq!(setting.told(), told, "{why}");
    }
}

#[test]
fn what_a_replaced_subscription_had_reached_is_told_though_nobody_had_looked() {
    let setting = Setting::at(START);
    let (from, to) = (setting.plan_of(setting.priced()), setting.plan_of(setting.priced()));
    let subscription = setting.subscribe(from, START);
    let alert = setting.alert(AlertKind::MetricUsage, "3", Some(setting.version_of(from)));
    setting.calls(START, 3);
    setting.world.store.set_now(LATER);
    setting.switch(subscription, to, SwitchUsageBehavior::KeepSeparate);
    setting.look_since(Some(START));
    assert!(setting.is_told_for(&alert, START), "the calls came before the switch");
}

#[test]
fn an_alert_on_a_version_sees_the_add_ons_of_its_holders() {
    let setting = Setting::at(START);
    let plan = setting.world.plan(Some(PlanDuration::Monthly), version(Vec::new(), Vec::new()));
    let subscription = setting.subscribe(plan, START);
    let terms =
        AddonTerms { billing_frequency: BillingFrequency::Recurring, invoice_when: InvoiceWhen::InvoiceOnAttach };
    let addon = setting.world.addon(terms, version(Vec::new(), vec![setting.priced()]));
    let usage = |version| setting.alert(AlertKind::MetricUsage, "3", Some(version));
    let of_base = usage(setting.version_of(plan));
    let of_addon = usage(addon.content.id);
    let spend_of_addon = setting.alert(AlertKind::Spend, "0.3", Some(addon.content.id));
    setting.calls(START, 3);
    assert_eq!(setting.told(), 0, "nothing meters them");
    setting.world.attach("acme", subscription, addon.id, 1).expect("attached");
    // The draft ends before the instant that it is made at.
    setting.world.store.set_now(START + Duration::SECOND);
    setting.told();
    for (alert, why) in [(of_base, "the base"), (of_addon, "the add-on itself"), (spend_of_addon, "its spend")] {
        assert!(setting.is_told_for(&alert, START), "{why}");
    }
    assert_eq!(setting.told(), 3);
}

#[test]
fn credit_is_told_of_when_it_was_drawn_has_expired_or_was_taken_away() {
    let expiry = LATER + Duration::DAY;
    #[rustfmt::skip]
    let cases: [(&str, &dyn Fn(&Setting)); 3] = [
        ("drawn by an invoice", &|setting| setting.world.advance("acme", NEXT + Duration::HOUR)),
        ("expired",             &|setting| setting.world.advance("acme", expiry)),
        ("taken away",          &|setting| {
            let key = setting.key;
            let credits = setting.world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
            let id = credits[0].credit().id;
            setting.world.on("acme", |tx, now| void_credit(tx, key, id, now)).expect("void");
        }),
    ];
    for (why, befalls) in cases {
        let setting = Setting::at(START);
        let fees = vec![fee("30", ChargeTiming::InArrears)];
        setting.subscribe(setting.world.plan(Some(PlanDuration::Monthly), version(fees, Vec::new())), START);
        setting.alert(AlertKind::CreditBalance, "5", None);
        assert_eq!(setting.told(), 0, "{why}: nobody was granted anything");
        let expires_at = (why == "expired").then_some(expiry);
        setting.credit("20", None, expires_at);
        assert_eq!(setting.told(), 0, "{why}: 20 are left");
        befalls(&setting);
        assert_eq!(setting.told(), 1, "{why}");
        assert_eq!(setting.told(), 1, "{why}: once");
    }
}

#[test]
fn a_credit_begins_an_interval_when_it_becomes_usable() {
    let setting = Setting::at(START);
    setting.alert(AlertKind::CreditBalance, "5", None);
    setting.credit("3", Some(LATER), None);
    assert_eq!(setting.told(), 0, "it is not usable yet");
    setting.world.store.set_now(START + Duration::DAY);
    setting.credit("4", None, None);
    assert_eq!(setting.told(), 1, "4 are left");
    setting.credit("100", Some(LATER + Duration::DAY), None);
    assert_eq!(setting.told(), 1, "what comes later counts later");
    setting.world.advance("acme", LATER);
    assert_eq!(setting.told(), 1, "7 are left");
    let key = setting.key;
    let credits = setting.world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
    let usable = credits.iter().find(|ledger| ledger.remaining() == decimal("4")).expect("the second");
    let id = usable.credit().id;
    setting.world.on("acme", |tx, now| void_credit(tx, key, id, now)).expect("void");
    assert_eq!(setting.told(), 2, "3 are left of what became usable on that day");
}

#[test]
fn what_a_voided_invoice_gives_back_is_of_the_interval_that_runs() {
    let setting = Setting::at(START);
    let fees = vec![fee("30", ChargeTiming::InAdvance)];
    let plan = setting.world.plan(Some(PlanDuration::Monthly), version(fees, Vec::new()));
    setting.alert(AlertKind::CreditBalance, "5", None);
    setting.credit("20", None, None);
    assert_eq!(setting.told(), 0, "20 are left");
    setting.subscribe(plan, START);
    assert_eq!(setting.told(), 1, "an invoice of 30 took them");
    let (key, invoice) = (setting.key, setting.world.invoices("acme")[0].id);
    setting.world.on("acme", |tx, now| void_invoice(tx, key, invoice, now)).expect("void");
    setting.world.advance("acme", NEXT + Duration::HOUR);
    assert_eq!(setting.told(), 1, "what came back was drawn again: nothing was granted meanwhile");
    setting.credit("3", None, None);
    assert_eq!(setting.told(), 2, "a new one");
}

#[test]
fn prepaid_units_are_told_of_once_an_interval_however_they_change() {
    let setting = Setting::at(START);
    let prepaid = prepaid_component(setting.calls, tiers(&[("0", "", "0.1")]), "20", ChargeBehavior::Full);
    let subscription = setting.subscribe(setting.plan_of(prepaid), START);
    let alert = setting.alert(AlertKind::PrepaidUnits, "5", None);
    let change = |units: &str| {
        let command = ChangePrepaidUnits {
            customer: setting.key,
            subscription,
            metric: setting.calls,
            units: decimal(units),
            invoice_now: false,
        };
        setting.world.on("acme", |tx, now| change_prepaid_units(tx, &command, now)).expect("changed");
    };
    setting.calls(START, 10);
    assert_eq!(setting.told(), 0, "10 of 20 are left");
    setting.world.store.set_now(LATER);
    change("15");
    assert_eq!(setting.told(), 1, "5 of 15 are left");
    change("30");
    assert_eq!(setting.told(), 1, "20 of 30 are left");
    setting.calls(LATER, 18);
    assert_eq!(setting.told(), 1, "2 are left, in the same interval");
    setting.world.advance("acme", NEXT + Duration::HOUR);
    assert_eq!(setting.told(), 1, "30 are left of the next month");
    setting.calls(NEXT, 25);
    assert_eq!(setting.told(), 2);
    assert!(setting.is_told_for(&alert, START) && setting.is_told_for(&alert, NEXT));
}
