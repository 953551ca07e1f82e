use bigdecimal::BigDecimal;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::addon::BillingFrequency::{OneTime, Recurring};
use crate::addon::InvoiceWhen::{InvoiceOnAttach, InvoiceOnSubscriptionEnd};
use crate::addon::{Addon, AddonTerms, BillingFrequency, InvoiceWhen};
use crate::decimal::plain;
use crate::error::{Error, FieldCode, Noun, Refusal};
use crate::id::{MetricId, PlanId, SubscriptionId};
use crate::invoice::BillingType;
use crate::period::PlanDuration;
use crate::plan::ChargeBehavior::{Full, Prorate};
use crate::plan::ChargeTiming::{InAdvance, InArrears};
use crate::plan::{ChargeBehavior, ChargeTiming};
use crate::subscription::FlatFeeBehavior::{ChargeFull, ChargeProrated, Refund};
use crate::subscription::InvoicingBehavior::{AddToNextInvoice, InvoiceNow};
use crate::subscription::SwitchUsageBehavior::{KeepSeparate, TransferToNewSubscription};
use crate::subscription::UsageBehavior::{BillFull, BillNone};
use crate::subscription::{
    Cancellation, FlatFeeBehavior, InvoicingBehavior, Subscription, SubscriptionFilters, SubscriptionStatus,
    SwitchUsageBehavior, UsageBehavior,
};
use crate::testing::world::{World, component, fee, filters, subscription, tiers, version};
use crate::workflow::{
    AttachedAddon, CancelAddon, CancelSubscription, CheckFeatureAccess, CreateFeature, DraftInvoice, NewPlanVersion,
    SwitchPlan, UpdateSubscription, VersionChoice, cancel_addon, cancel_subscription, check_feature_access,
    create_feature, draft_invoice, switch_plan, update_subscription,
};

/// A month of 30 days, a day after its first third, and the invoice of its end.
const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const THIRD: OffsetDateTime = datetime!(2024-04-11 00:00 UTC);
const NEXT_INVOICE: OffsetDateTime = datetime!(2024-05-01 00:30 UTC);

const ONCE: AddonTerms = AddonTerms { billing_frequency: OneTime, invoice_when: InvoiceOnAttach };
const AGAIN: AddonTerms = AddonTerms { billing_frequency: Recurring, invoice_when: InvoiceOnAttach };

/// A world with `acme` on a monthly plan of `content` from the start.
fn subscribed(content: NewPlanVersion) -> (World, SubscriptionId) {
    let world = World::at(START);
    let plan = world.plan(Some(PlanDuration::Monthly), content);
    world.customer("acme");
    let id = world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
    (world, id)
}

/// A world with `acme` on a plan that charges nothing.
fn free() -> (World, SubscriptionId) {
    subscribed(version(Vec::new(), Vec::new()))
}

/// Mails at 0.1 each, up to 200.
fn mails(world: &World) -> (MetricId, NewPlanVersion) {
    let metric = world.metric("mail", None).id;
    (metric, version(Vec::new(), vec![component(metric, tiers(&[("0", "200", "0.1")]))]))
}

fn amounts(world: &World) -> Vec<String> {
    world.invoices("acme").iter().map(|invoice| plain(&invoice.amount)).collect()
}

/// What was invoiced in all, and what is left on credits.
fn books(world: &World) -> (String, String) {
    let invoiced: BigDecimal = world.invoices("acme").iter().map(|invoice| &invoice.amount).sum();
    let key = world.key("acme");
    let ledgers = world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
    (plain(&invoiced), plain(&ledgers.iter().map(|ledger| ledger.remaining()).sum()))
}

fn running(world: &World, now: OffsetDateTime) -> Vec<Subscription> {
    let all = world.subscriptions("acme").into_iter();
    all.filter(|subscription| subscription.is_addon() && subscription.status(now) == SubscriptionStatus::Active)
        .collect()
}

fn detach(
    world: &World,
    parent: SubscriptionId,
    addon: AttachedAddon,
    flat_fee_behavior: Option<FlatFeeBehavior>,
    usage_behavior: UsageBehavior,
    invoicing_behavior: InvoicingBehavior,
) -> Result<Subscription, Error> {
    let cancellation = Cancellation { flat_fee_behavior, usage_behavior };
    let command = CancelAddon { customer: world.key("acme"), parent, addon, cancellation, invoicing_behavior };
    world.on("acme", |tx, now| cancel_addon(tx, &command, now))
}

#[test]
fn is_charged_from_when_it_is_attached_by_its_terms() {
    type Row =
        (BillingFrequency, InvoiceWhen, ChargeTiming, ChargeBehavior, u32, &'static [&'static str], &'static str);
    #[rustfmt::skip]
    let cases: [Row; 9] = [
        // frequency, invoiced,                 timing,    behaviour, quantity, invoices,              why
        (OneTime,     InvoiceOnAttach,          InAdvance, Prorate,   1,        &["10"],               "two thirds of 15, once"),
        (OneTime,     InvoiceOnAttach,          InAdvance, Full,      1,        &["15"],               "a full fee is not cut"),
        (OneTime,     InvoiceOnAttach,          InAdvance, Prorate,   3,        &["30"],               "three of them"),
        (OneTime,     InvoiceOnAttach,          InArrears, Prorate,   1,        &["10"],               "in arrears: at the end of April"),
        (OneTime,     InvoiceOnSubscriptionEnd, InAdvance, Prorate,   1,        &["10"],               "the fee waits for the end of April"),
        (Recurring,   InvoiceOnAttach,          InAdvance, Prorate,   1,        &["10", "15", "15"],   "and all of May and June"),
        (Recurring,   InvoiceOnAttach,          InArrears, Prorate,   1,        &["10", "15"],         "June is not over"),
        (Recurring,   InvoiceOnSubscriptionEnd, InAdvance, Prorate,   1,        &["10", "15"],         "June is not over"),
        (Recurring,   InvoiceOnAttach,          InAdvance, Full,      2,        &["30", "30", "30"],   "two of them, never cut"),
    ];
    for (billing_frequency, invoice_when, timing, behavior, quantity, invoices, why) in cases {
        let (world, parent) = free();
        let mut base = fee("15", timing);
        base.behavior = behavior;
        let addon = world.addon(AddonTerms { billing_frequency, invoice_when }, version(vec![base], Vec::new()));
        world.store.set_now(THIRD);
        let attached = world.attach("acme", parent, addon.id, quantity).expect("attached");
        assert_eq!((attached.period.start(), attached.period.end()), (THIRD, datetime!(2024-05-01 0:00 UTC)), "{why}");
        let at_once = invoice_when == InvoiceOnAttach && timing == InAdvance;
        assert_eq!(amounts(&world).len(), usize::from(at_once), "{why}");
        world.advance("acme", datetime!(2024-06-01 00:30 UTC));
        assert_eq!(amounts(&world), invoices, "{billing_frequency:?} {invoice_when:?} {timing:?}: {why}");
        let invoiced = world.invoices("acme");
        let is_one_time = invoiced[0].lines[0].billing_type == BillingType::OneTime;
        assert_eq!(is_one_time, billing_frequency == OneTime, "{why}");
    }
}

#[test]
fn its_usage_is_billed_like_the_plans() {
    let (world, parent) = free();
    let (_, content) = mails(&world);
    let addon = world.addon(AGAIN, content);
    world.track_many("acme", "mail", START, 7);
    world.store.set_now(THIRD);
    world.attach("acme", parent, addon.id, 5).expect("attached");
    world.track_many("acme", "mail", THIRD, 30);
    world.track_many("acme", "mail", datetime!(2024-05-02 0:00 UTC), 20);
    world.advance("acme", datetime!(2024-06-01 00:30 UTC));
    assert_eq!(amounts(&world), ["3", "2"], "what came before it does not count, and quantity is for fees");
    assert_eq!(world.invoices("acme")[0].lines[0].name, "count of mail");
}

#[test]
fn every_way_to_cancel_an_addon_comes_to_what_it_should() {
    #[rustfmt::skip]
    let cases = [
        // flat fee,            usage,    invoiced, credit, why
        (None,                  BillFull, "30",     "10",   "20 of 30 back, 10 of it for the mails"),
        (None,                  BillNone, "30",     "20",   "20 back, the mails are dropped"),
        (Some(ChargeProrated),  BillFull, "30",     "10",   "as by default"),
        (Some(ChargeProrated),  BillNone, "30",     "20",   "as by default"),
        (Some(Refund),          BillFull, "30",     "20",   "all 30 back, 10 of it for the mails"),
        (Some(Refund),          BillNone, "30",     "30",   "all back"),
        (Some(ChargeFull),      BillFull, "40",     "0",    "nothing back, 10 for the mails"),
        (Some(ChargeFull),      BillNone, "30",     "0",    "as if nothing had happened"),
    ];
    for (flat_fee, usage, invoiced, credit, why) in cases {
        for invoicing in [InvoiceNow, AddToNextInvoice] {
            let (world, parent) = free();
            let (_, mut content) = mails(&world);
            content.recurring_charges = vec![fee("30", InAdvance)];
            let addon = world.addon(AGAIN, content);
            world.attach("acme", parent, addon.id, 1).expect("attached");
            world.track_many("acme", "mail", START, 100);
            world.store.set_now(THIRD);
            let ended = detach(&world, parent, AttachedAddon::Addon(addon.id), flat_fee, usage, invoicing);
            let ended = ended.expect("cancelled");
            assert_eq!((ended.period.end(), ended.auto_renew), (THIRD, false), "{why}");
            if invoicing == AddToNextInvoice {
                assert_eq!(books(&world), ("30".to_owned(), "0".to_owned()), "{why}: nothing now");
                world.advance("acme", NEXT_INVOICE);
            }
            assert_eq!(books(&world), (invoiced.to_owned(), credit.to_owned()), "{why}, {invoicing:?}");
            world.advance("acme", datetime!(2024-08-01 00:00 UTC));
            assert_eq!(books(&world).0, invoiced, "{why}, {invoicing:?}: nothing more ever comes");
            assert!(world.subscriptions("acme").len() > 3, "{why}: the parent goes on");
        }
    }
}

#[test]
fn every_way_to_cancel_the_parent_takes_its_addons_along() {
    #[rustfmt::skip]
    let cases = [
        // flat fee,            usage,    invoiced, credit, why
        (None,                  BillFull, "45",     "20",   "20 and 10 back, 10 of it for the mails"),
        (None,                  BillNone, "45",     "30",   "20 and 10 back"),
        (Some(ChargeProrated),  BillFull, "45",     "20",   "as by default"),
        (Some(ChargeProrated),  BillNone, "45",     "30",   "as by default"),
        (Some(Refund),          BillFull, "45",     "35",   "30 and 15 back, 10 of it for the mails"),
        (Some(Refund),          BillNone, "45",     "45",   "all back"),
        (Some(ChargeFull),      BillFull, "55",     "0",    "nothing back, 10 for the mails"),
        (Some(ChargeFull),      BillNone, "45",     "0",    "as if nothing had happened"),
    ];
    for (flat_fee_behavior, usage_behavior, invoiced, credit, why) in cases {
        for invoicing_behavior in [InvoiceNow, AddToNextInvoice] {
            let (world, parent) = subscribed(version(vec![fee("30", InAdvance)], Vec::new()));
            let (_, mut content) = mails(&world);
            content.recurring_charges = vec![fee("15", InAdvance)];
            let addon = world.addon(AGAIN, content);
            world.attach("acme", parent, addon.id, 1).expect("attached");
            world.track_many("acme", "mail", START, 100);
            world.store.set_now(THIRD);
            let cancellation = Cancellation { flat_fee_behavior, usage_behavior };
            let (customer, subscriptions) = (world.key("acme"), vec![parent]);
            let command = CancelSubscription { customer, subscriptions, cancellation, invoicing_behavior };
            let ended = world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
            assert_eq!(
                ended.iter().map(|subscription| subscription.id).collect::<Vec<_>>(),
                [parent],
                "{why}: the answer is the parent"
            );
            assert!(running(&world, THIRD).is_empty(), "{why}: it ends in the same transaction");
            let in_all = if (invoiced, credit) == ("45", "0") { 2 } else { 3 };
            let at_once = if invoicing_behavior == InvoiceNow { in_all } else { 2 };
            assert_eq!(amounts(&world).len(), at_once, "{why}: one invoice for both");
            world.advance("acme", datetime!(2024-08-01 00:00 UTC));
            assert_eq!(books(&world), (invoiced.to_owned(), credit.to_owned()), "{why}, {invoicing_behavior:?}");
            assert_eq!(amounts(&world).len(), in_all, "{why}: nothing more ever comes");
        }
    }
}

/// A plan of 60 with calls at 1, beside the one of 30 that `acme` is on with a recurring add-on of 15 and mails.
fn switching() -> (World, SubscriptionId, PlanId, Addon) {
    let (world, parent) = subscribed(version(vec![fee("30", InAdvance)], Vec::new()));
    let calls = world.metric("call", None).id;
    let parts = vec![component(calls, tiers(&[("0", "", "1")]))];
    let to = world.plan(Some(PlanDuration::Monthly), version(vec![fee("60", InAdvance)], parts));
    let (_, mut content) = mails(&world);
    content.recurring_charges = vec![fee("15", InAdvance)];
    let addon = world.addon(AGAIN, content);
    world.attach("acme", parent, addon.id, 1).expect("attached");
    world.track_many("acme", "mail", START, 40);
    world.store.set_now(THIRD);
    (world, parent, to, addon)
}

fn switch(
    world: &World,
    subscription: SubscriptionId,
    to: PlanId,
    invoicing_behavior: InvoicingBehavior,
    usage_behavior: SwitchUsageBehavior,
) -> Result<Subscription, Error> {
    let command = SwitchPlan {
        customer: world.key("acme"),
        subscription,
        version: VersionChoice::Plan(to),
        invoicing_behavior,
        usage_behavior,
        prepaid_units: Vec::new(),
    };
    world.on("acme", |tx, now| switch_plan(tx, &command, now))
}

#[test]
fn a_switch_of_plans_leaves_addons_as_they_are() {
    #[rustfmt::skip]
    let cases = [
        // invoicing,       usage,                      invoices,                              why
        (InvoiceNow,        TransferToNewSubscription,  vec!["30", "15", "20", "79"],          "40 less 20 at once; in May 60 and 15 and the mails"),
        (InvoiceNow,        KeepSeparate,               vec!["30", "15", "20", "79"],          "an add-on has no old usage"),
        (AddToNextInvoice,  TransferToNewSubscription,  vec!["30", "15", "99"],                "the 20 in May too"),
        (AddToNextInvoice,  KeepSeparate,               vec!["30", "15", "99"],                "the 20 in May too"),
    ];
    for (invoicing, usage, invoices, why) in cases {
        let (world, parent, to, addon) = switching();
        let new = switch(&world, parent, to, invoicing, usage).expect("switched");
        let attached = running(&world, THIRD);
        assert_eq!(attached.iter().map(|addon| addon.parent).collect::<Vec<_>>(), [Some(new.id)], "{why}");
        assert_eq!(attached[0].period.start(), START, "{why}: it goes on");
        world.advance("acme", NEXT_INVOICE);
        assert_eq!(amounts(&world), invoices, "{invoicing:?} {usage:?}: {why}");
        let renewed = running(&world, NEXT_INVOICE);
        let parents: Vec<_> =
            world.subscriptions("acme").into_iter().filter(|subscription| subscription.parent.is_none()).collect();
        assert_eq!(renewed[0].parent, parents.last().map(|parent| parent.id), "{why}");
        assert_eq!(renewed[0].plan, addon.plan_id(), "{why}");
    }
}

#[test]
fn nothing_is_metered_twice() {
    let (world, parent, _, addon) = switching();
    let mail = addon.content.components[0].metric;
    let mail_too = version(Vec::new(), vec![component(mail, tiers(&[("0", "", "2")]))]);
    let other = world.plan(Some(PlanDuration::Monthly), mail_too.clone());
    let refused = switch(&world, parent, other, InvoiceNow, TransferToNewSubscription);
    let Err(Error::Fields(errors)) = refused else { panic!("{refused:?}") };
    assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("switch_plan_id", FieldCode::Invalid));

    let (second, euros) = (world.addon(ONCE, mail_too), world.addon(ONCE, NewPlanVersion::empty("EUR")));
    for (refused, why) in [(second.id, "another add-on meters mails"), (euros.id, "another currency")] {
        let Err(Error::Fields(errors)) = world.attach("acme", parent, refused, 1) else { panic!("{why}") };
        assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("addon_id", FieldCode::Invalid), "{why}");
    }
    assert_eq!(running(&world, THIRD).len(), 1, "nothing was attached");
}

#[test]
fn an_addon_is_attached_and_cancelled_by_name() {
    let (world, parent) = free();
    let addon = world.addon(ONCE, version(vec![fee("30", InAdvance)], Vec::new()));
    let cancel = |named| detach(&world, parent, named, None, BillFull, InvoiceNow);
    let by_id = AttachedAddon::Addon(addon.id);
    assert_eq!(cancel(by_id), Err(Error::NotFound(Noun::AddonSubscription)), "it was never attached");

    let [first, second, third] = [1, 2, 1].map(|quantity| world.attach("acme", parent, addon.id, quantity));
    let (first, third) = (first.expect("attached"), third.expect("fees may be attached again"));
    assert_eq!(second.expect("attached").quantity, 2);
    assert_eq!(cancel(AttachedAddon::Attached(first.id)).expect("cancelled").id, first.id);
    assert_eq!(running(&world, START).len(), 2, "one of three");
    assert_eq!(cancel(AttachedAddon::Version(addon.content.id)).expect("cancelled").id, third.id, "the last one");
    assert!(running(&world, START).is_empty(), "all of them");
    assert_eq!(cancel(by_id), Err(Refusal::AlreadyEnded.into()));
    assert!(world.attach("acme", parent, addon.id, 0).is_err(), "none is no number");

    let key = world.key("acme");
    let found = world.on("acme", |tx, _| tx.subscriptions().customer_of(first.id));
    assert_eq!(found, Err(Error::NotFound(Noun::Subscription)), "it is reached by its parent alone");
    assert_eq!(world.on("acme", |tx, _| tx.subscriptions().customer_of(parent)), Ok(key));
}

#[test]
fn access_looks_at_addons_too() {
    let (world, parent) = free();
    let (mail, mut content) = mails(&world);
    let sso = CreateFeature { name: "sso".to_owned(), description: None };
    let sso = world.catalog(|tx, _| create_feature(tx, &sso)).expect("a feature").id;
    content.features = vec![sso];
    let (once, again) = (world.addon(ONCE, content.clone()), world.addon(AGAIN, content));
    let asked = |customer: &str| {
        let command =
            CheckFeatureAccess { customer: customer.parse().expect("an id"), feature: sso, filters: filters(&[]) };
        let granted = world.on(customer, |tx, now| check_feature_access(tx, &command, now)).expect("an answer");
        let metric = world.access(customer, mail, &SubscriptionFilters::none()).expect("an answer");
        let usage = plain(&metric.subscriptions[0].access.usage);
        (granted.access, metric.access, usage)
    };
    assert_eq!(asked("acme"), (false, false, "0".to_owned()));
    world.attach("acme", parent, once.id, 1).expect("attached");
    world.track_many("acme", "mail", START, 199);
    assert_eq!(asked("acme"), (true, true, "199".to_owned()));
    world.track_many("acme", "mail", START, 1);
    assert_eq!(asked("acme"), (true, false, "200".to_owned()), "at the add-on's limit");
    world.store.set_now(NEXT_INVOICE);
    assert_eq!(asked("acme"), (false, false, "0".to_owned()), "the renewal that is due does not have it");

    world.advance("acme", NEXT_INVOICE);
    let may = world
        .subscriptions("acme")
        .into_iter()
        .rfind(|subscription| subscription.parent.is_none())
        .expect("renewed")
        .id;
    world.attach("acme", may, again.id, 1).expect("attached");
    assert_eq!(asked("acme"), (true, true, "0".to_owned()));
    world.store.set_now(datetime!(2024-06-02 0:00 UTC));
    assert_eq!(asked("acme"), (true, true, "0".to_owned()), "one that recurs renews");
}

#[test]
fn its_end_is_its_parents() {
    let (world, parent) = free();
    let addon = world.addon(AGAIN, version(vec![fee("30", InArrears)], Vec::new()));
    world.attach("acme", parent, addon.id, 1).expect("attached");
    let end = datetime!(2024-04-21 0:00 UTC);
    let command = UpdateSubscription {
        customer: world.key("acme"),
        subscription: parent,
        end: Some(end),
        turn_off_auto_renew: true,
        metadata: None,
    };
    world.on("acme", |tx, now| update_subscription(tx, &command, now)).expect("updated");
    assert_eq!(
        running(&world, START).iter().map(|subscription| (subscription.period.end(), subscription.auto_renew)).next(),
        Some((end, false))
    );
    world.advance("acme", datetime!(2024-08-01 0:00 UTC));
    assert_eq!(amounts(&world), ["20"], "two thirds of the month");
}

#[test]
fn the_next_period_is_previewed_with_its_addons() {
    let (world, parent) = subscribed(version(vec![fee("30", InAdvance)], Vec::new()));
    let content = version(vec![fee("15", InAdvance)], Vec::new());
    for terms in [ONCE, AGAIN] {
        let addon = world.addon(terms, content.clone());
        world.attach("acme", parent, addon.id, 1).expect("attached");
    }
    let command = DraftInvoice { customer: "acme".parse().expect("an id"), include_next_period: true };
    let drafts = world.on("acme", |tx, now| draft_invoice(tx, &command, now)).expect("a preview");
    assert_eq!(plain(&drafts.invoices[0].amount), "45", "the plan and the one that recurs");
}
