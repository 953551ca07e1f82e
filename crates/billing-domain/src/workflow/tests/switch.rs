use bigdecimal::BigDecimal;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::decimal::plain;
use crate::error::{Error, FieldCode, Noun, Refusal};
use crate::id::{MetricId, PlanId, SubscriptionId};
use crate::period::PlanDuration;
use crate::plan::ChargeBehavior::{Full, Prorate};
use crate::plan::ChargeTiming::InAdvance;
use crate::subscription::InvoicingBehavior::{AddToNextInvoice, InvoiceNow};
use crate::subscription::SwitchUsageBehavior::{KeepSeparate, TransferToNewSubscription};
use crate::subscription::{Cancellation, InvoicingBehavior, Subscription, SubscriptionFilters, SwitchUsageBehavior};
use crate::testing::world::{World, component, decimal, fee, prepaid_component, subscription, tiers, version};
use crate::workflow::{
    CancelSubscription, CreateSubscription, SwitchPlan, UpdateSubscription, VersionChoice, cancel_subscription,
    switch_plan, update_subscription,
};

/// A month of 30 days, and the day after its first third.
const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const SWITCHED: OffsetDateTime = datetime!(2024-04-11 00:00 UTC);
const NEXT_INVOICE: OffsetDateTime = datetime!(2024-05-01 00:30 UTC);

struct Setting {
    world: World,
    old: SubscriptionId,
    to: PlanId,
    shared: MetricId,
}

/// From a fee of 30 with calls at 0.1 and mails at 1, to a fee of 60 with calls at 0.2 and seats at 5. Before the
/// switch there are 100 calls and 4 mails, after it 50 calls and 2 seats.
fn setting() -> Setting {
    let world = World::at(START);
    let [calls, mails, seats] = ["call", "mail", "seat"].map(|name| world.metric(name, None).id);
    let part = |metric, price| component(metric, tiers(&[("0", "", price)]));
    let monthly = |fees, parts| world.plan(Some(PlanDuration::Monthly), version(fees, parts));
    let from = monthly(vec![fee("30", InAdvance)], vec![part(calls, "0.1"), part(mails, "1")]);
    let to = monthly(vec![fee("60", InAdvance)], vec![part(calls, "0.2"), part(seats, "5")]);
    world.customer("acme");
    let mut command = subscription("acme", from, START);
    command.auto_renew = false;
    let old = world.subscribe(&command).expect("subscribed").id;
    world.track_many("acme", "call", START, 100);
    world.track_many("acme", "mail", START, 4);
    world.track_many("acme", "call", SWITCHED, 50);
    world.track_many("acme", "seat", SWITCHED, 2);
    world.store.set_now(SWITCHED);
    Setting { world, old, to, shared: calls }
}

impl Setting {
    fn switch(&self, invoicing: InvoicingBehavior, usage: SwitchUsageBehavior) -> Result<Subscription, Error> {
        self.switch_to(self.to, invoicing, usage)
    }

    fn switch_to(
        &self,
        to: PlanId,
        invoicing: InvoicingBehavior,
        usage: SwitchUsageBehavior,
    ) -> Result<Subscription, Error> {
        let command = SwitchPlan {
            customer: self.world.key("acme"),
            subscription: self.old,
            version: VersionChoice::Plan(to),
            invoicing_behavior: invoicing,
            usage_behavior: usage,
            prepaid_units: Vec::new(),
        };
        self.world.on("acme", |tx, now| switch_plan(tx, &command, now))
    }

    /// What charge lines say, by name, in order of invoices.
    fn charges(&self) -> Vec<(String, String)> {
        let invoices = self.world.invoices("acme");
        let lines = invoices.iter().flat_map(|invoice| &invoice.lines);
        lines.map(|line| (line.name.clone(), plain(&line.base))).collect()
    }

    fn total(&self) -> String {
        let invoices = self.world.invoices("acme");
        let charges = invoices.iter().flat_map(|invoice| &invoice.lines).filter(|line| line.subscription.is_some());
        plain(&charges.map(|line| &line.base).sum::<BigDecimal>())
    }

    fn access(&self) -> String {
        let checked = self.world.access("acme", self.shared, &SubscriptionFilters::none()).expect("an answer");
        plain(&checked.subscriptions[0].access.usage)
    }
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned())).collect()
}

#[test]
fn the_difference_is_invoiced_now_and_the_usage_goes_on() {
    let setting = setting();
    let new = setting.switch(InvoiceNow, TransferToNewSubscription).expect("switched");
    assert_eq!((new.period.start(), new.period.end()), (SWITCHED, datetime!(2024-05-01 00:00 UTC)));
    let now = [("Pro Flat Fee", "30"), ("Pro Flat Fee", "-20"), ("count of mail", "4"), ("Pro Flat Fee", "40")];
    assert_eq!(
        setting.charges(),
        named(&now),
        "two thirds back, two thirds of the new fee, and what only the old plan meters"
    );
    assert_eq!(setting.access(), "150", "calls before and after the switch");
    setting.world.advance("acme", NEXT_INVOICE);
    assert_eq!(
        setting.charges()[4..],
        named(&[("count of call", "30"), ("count of seat", "10")]),
        "all 150 calls at the new price"
    );
    assert_eq!(setting.total(), "94");
}

#[test]
fn usage_that_came_along_is_billed_once_whatever_the_end() {
    #[rustfmt::skip]
    let cases = [
        // end,                         calls, why
        (datetime!(2024-04-21 0:00 UTC), "30",  "earlier: 100 calls before the switch and 50 after it"),
        (datetime!(2024-05-01 0:00 UTC), "30",  "as it was"),
        (datetime!(2024-05-16 0:00 UTC), "32",  "later: and the 10 of May"),
    ];
    for (end, expected, why) in cases {
        let setting = setting();
        setting.world.track_many("acme", "call", datetime!(2024-05-10 0:00 UTC), 10);
        let new = setting.switch(InvoiceNow, TransferToNewSubscription).expect("switched");
        let customer = setting.world.key("acme");
        let command = UpdateSubscription {
            customer,
            subscription: new.id,
            end: Some(end),
            turn_off_auto_renew: false,
            metadata: None,
        };
        let updated = setting.world.on("acme", |tx, now| update_subscription(tx, &command, now)).expect("updated");
        assert_eq!(updated.period.end(), end, "{why}");
        assert_eq!(setting.access(), "150", "{why}: calls before and after the switch");
        setting.world.advance("acme", datetime!(2024-07-10 0:00 UTC));
        let calls: BigDecimal =
            setting.charges().iter().filter(|(name, _)| name == "count of call").map(|(_, base)| decimal(base)).sum();
        assert_eq!(plain(&calls), expected, "{why}");
    }
}

#[test]
fn the_old_usage_can_stay_with_the_old_plan() {
    for invoicing in [InvoiceNow, AddToNextInvoice] {
        let setting = setting();
        setting.switch(invoicing, KeepSeparate).expect("switched");
        assert_eq!(setting.access(), "50", "the new subscription starts from zero");
        let now = if invoicing == InvoiceNow { 3 } else { 1 };
        assert_eq!(setting.charges().len(), now, "{invoicing:?}: usage waits for the end of the period");
        setting.world.advance("acme", NEXT_INVOICE);
        // 30 - 20 + 40, 100 calls at 0.1, 4 mails at 1, 50 calls at 0.2, 2 seats at 5.
        assert_eq!(setting.total(), "84", "{invoicing:?}");
    }
}

#[test]
fn the_difference_can_wait_for_the_next_invoice() {
    let setting = setting();
    setting.switch(AddToNextInvoice, TransferToNewSubscription).expect("switched");
    assert_eq!(setting.world.invoices("acme").len(), 1, "none now");
    setting.world.advance("acme", NEXT_INVOICE);
    assert_eq!(setting.world.invoices("acme").len(), 2, "all on one");
    assert_eq!(setting.total(), "94", "as if it had been invoiced at once");
}

#[test]
fn what_was_paid_comes_back_when_the_switch_comes_with_the_start() {
    for invoicing in [InvoiceNow, AddToNextInvoice] {
        let world = World::at(START);
        let seats = prepaid_component(world.metric("seat", None).id, tiers(&[("0", "", "5")]), "10", Full);
        let monthly = |fees, parts| world.plan(Some(PlanDuration::Monthly), version(fees, parts));
        let (from, to) = (monthly(vec![fee("30", InAdvance)], vec![seats]), monthly(Vec::new(), Vec::new()));
        world.customer("acme");
        let old = world.subscribe(&subscription("acme", from, START)).expect("subscribed").id;
        let setting = Setting { shared: world.metric("call", None).id, world, old, to };
        setting.switch(invoicing, TransferToNewSubscription).expect("switched");
        setting.world.advance("acme", NEXT_INVOICE);
        assert_eq!(setting.total(), "0", "{invoicing:?}: 30 and 50 were paid for no time at all");
    }
}

#[test]
fn a_cancellation_bills_what_a_switch_left_waiting() {
    let setting = setting();
    let new = setting.switch(AddToNextInvoice, TransferToNewSubscription).expect("switched");
    setting.world.store.set_now(datetime!(2024-04-21 00:00 UTC));
    let command = CancelSubscription {
        customer: setting.world.key("acme"),
        subscriptions: vec![new.id],
        cancellation: Cancellation::default(),
        invoicing_behavior: InvoiceNow,
    };
    setting.world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
    // 30 - 20, a third of 60, 4 mails, 150 calls at 0.2, 2 seats at 5.
    assert_eq!(setting.total(), "74");
    setting.world.advance("acme", datetime!(2024-07-01 00:00 UTC));
    assert_eq!(setting.total(), "74", "nothing more ever comes");
}

#[test]
fn the_old_id_is_no_longer_valid_and_the_new_one_carries_on() {
    let setting = setting();
    let world = &setting.world;
    let new = setting.switch(InvoiceNow, TransferToNewSubscription).expect("switched");
    let gone = world.on("acme", |tx, _| tx.subscriptions().customer_of(setting.old));
    assert_eq!(gone, Err(Error::NotFound(Noun::Subscription)));
    assert_eq!(world.subscriptions("acme").iter().map(|subscription| subscription.id).collect::<Vec<_>>(), [new.id]);
    assert!(new.is_new && !new.auto_renew);
    assert_eq!(setting.switch(InvoiceNow, KeepSeparate), Err(Error::NotFound(Noun::Subscription)), "once");
}

#[test]
fn a_renewal_after_a_switch_keeps_to_the_old_boundaries() {
    let world = World::at(datetime!(2024-01-31 00:00 UTC));
    let monthly = |amount| world.plan(Some(PlanDuration::Monthly), version(vec![fee(amount, InAdvance)], Vec::new()));
    let (from, to) = (monthly("30"), monthly("60"));
    let customer = world.customer("acme");
    let old = world.subscribe(&subscription("acme", from, datetime!(2024-01-31 00:00 UTC))).expect("subscribed").id;
    world.store.set_now(datetime!(2024-02-10 00:00 UTC));
    let command = SwitchPlan {
        customer,
        subscription: old,
        version: VersionChoice::Plan(to),
        invoicing_behavior: InvoiceNow,
        usage_behavior: TransferToNewSubscription,
        prepaid_units: Vec::new(),
    };
    world.on("acme", |tx, now| switch_plan(tx, &command, now)).expect("switched");
    world.advance("acme", datetime!(2024-04-15 00:00 UTC));
    let starts: Vec<_> =
        world.subscriptions("acme").iter().map(|subscription| subscription.period.start().date().to_string()).collect();
    assert_eq!(starts, ["2024-02-10", "2024-02-29", "2024-03-31"]);
}

#[test]
fn prepaid_units_go_along_and_new_ones_must_be_named() {
    let world = World::at(START);
    let seats = world.metric("seat", None).id;
    let plan = |price, units| {
        let component = prepaid_component(seats, tiers(&[("0", "", price)]), units, Full);
        world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component]))
    };
    let (from, to) = (plan("1", "10"), plan("3", ""));
    let plainly = world.plan(Some(PlanDuration::Monthly), version(vec![fee("1", InAdvance)], Vec::new()));
    let customer = world.customer("acme");
    let switch = |subscription, to, units: Vec<(MetricId, BigDecimal)>| {
        let command = SwitchPlan {
            customer,
            subscription,
            version: VersionChoice::Plan(to),
            invoicing_behavior: InvoiceNow,
            usage_behavior: TransferToNewSubscription,
            prepaid_units: units,
        };
        world.on("acme", |tx, now| switch_plan(tx, &command, now))
    };
    let mut command = subscription("acme", from, START);
    command.prepaid_units = vec![(seats, decimal("12"))];
    let old = world.subscribe(&command).expect("subscribed").id;
    let new = switch(old, to, Vec::new()).expect("the old plan's 12 units go along");
    let amounts: Vec<_> = world.invoices("acme").iter().map(|invoice| plain(&invoice.amount)).collect();
    assert_eq!(amounts, ["12", "24"], "12 units at 3, less the 12 that were paid");

    let bare = switch(new.id, plainly, Vec::new()).expect("switched");
    assert_eq!(switch(bare.id, to, Vec::new()), Err(Refusal::PrepaymentCantDetermineUnits(seats).into()));
    switch(bare.id, to, vec![(seats, decimal("5"))]).expect("named");
}

#[test]
fn prepaid_units_that_nobody_named_go_along_too_and_the_past_costs_what_it_cost() {
    #[rustfmt::skip]
    let cases = [
        // behaviour, new default, invoiced,                       total, why
        (Prorate,     "",          ["30", "15"],                   "80",  "15 come back, half of 60 is charged: the difference for the time left"),
        (Prorate,     "5",         ["30", "15"],                   "80",  "they had 30 and keep them"),
        (Full,        "",          ["30", "30"],                   "80",  "the whole difference"),
    ];
    for (behavior, default, invoiced, total, why) in cases {
        let world = World::at(START);
        let seats = world.metric("seat", None).id;
        let plan = |price, units| {
            let component = prepaid_component(seats, tiers(&[("0", "", price)]), units, behavior);
            world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component]))
        };
        let (from, to) = (plan("1", "30"), plan("2", default));
        let customer = world.customer("acme");
        let command = CreateSubscription { auto_renew: false, ..subscription("acme", from, START) };
        let old = world.subscribe(&command).expect("subscribed").id;
        world.track_many("acme", "seat", datetime!(2024-04-10 00:00 UTC), 40);
        world.store.set_now(datetime!(2024-04-16 00:00 UTC));
        let command = SwitchPlan {
            customer,
            subscription: old,
            version: VersionChoice::Plan(to),
            invoicing_behavior: InvoiceNow,
            usage_behavior: TransferToNewSubscription,
            prepaid_units: Vec::new(),
        };
        world.on("acme", |tx, now| switch_plan(tx, &command, now)).expect(why);
        let amounts =
            |world: &World| world.invoices("acme").iter().map(|invoice| plain(&invoice.amount)).collect::<Vec<_>>();
        assert_eq!(amounts(&world), invoiced, "{why}");
        world.advance("acme", datetime!(2024-05-02 00:00 UTC));
        let sum: BigDecimal = world.invoices("acme").iter().map(|invoice| invoice.amount.clone()).sum();
        assert_eq!(plain(&sum), total, "{why}; at the end come the 40 uses, by the new plan, beyond what was paid");
    }
}

#[test]
fn only_a_plan_of_the_same_duration_and_currency_will_do() {
    let setting = setting();
    let world = &setting.world;
    let yearly = world.plan(Some(PlanDuration::Yearly), version(vec![fee("1", InAdvance)], Vec::new()));
    let mut euro = version(vec![fee("1", InAdvance)], Vec::new());
    euro.currency_code = "EUR".to_owned();
    let euro = world.plan(Some(PlanDuration::Monthly), euro);
    let same = world.subscription("acme", setting.old).plan;
    for to in [yearly, euro, same] {
        let Err(Error::Fields(errors)) = setting.switch_to(to, InvoiceNow, KeepSeparate) else { panic!("refused") };
        assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("switch_plan_id", FieldCode::Invalid));
    }
    assert_eq!(world.invoices("acme").len(), 1, "a refused switch leaves nothing");
}
