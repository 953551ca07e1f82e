use time::OffsetDateTime;
use time::macros::datetime;

use crate::addon::AddonTerms;
use crate::addon::BillingFrequency::{OneTime, Recurring};
use crate::addon::InvoiceWhen::InvoiceOnAttach;
use crate::period::PlanDuration;
use crate::plan::ChargeBehavior::{Full, Prorate};
use crate::plan::ChargeTiming::InAdvance;
use crate::subscription::Subscription;
use crate::testing::world::{World, fee, subscription, version};
use crate::workflow::{UpdateSubscription, list_subscriptions, update_subscription};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);

#[test]
fn what_comes_once_is_fully_billed_while_nothing_of_it_is_left() {
    let is_billed = |world: &World, attached: &Subscription| {
        let key = world.key("acme");
        let listed = world.on("acme", |tx, _| list_subscriptions(tx, &[key])).expect("subscriptions");
        listed.fully_billed.contains(&attached.id)
    };
    #[rustfmt::skip]
    let cases = [
        // frequency, behaviour, once attached, once the end has moved, why
        (OneTime,     Prorate,   true,          false,                  "ten days of it come back"),
        (OneTime,     Full,      true,          true,                   "its fee does not depend on the end"),
        (Recurring,   Full,      false,         false,                  "as every subscription, when no instant is left"),
    ];
    for (billing_frequency, behavior, once_attached, once_moved, why) in cases {
        let world = World::at(START);
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), Vec::new()));
        world.customer("acme");
        let parent = world.subscribe(&subscription("acme", plan, START)).expect("subscribed").id;
        let mut base = fee("15", InAdvance);
        base.behavior = behavior;
        let terms = AddonTerms { billing_frequency, invoice_when: InvoiceOnAttach };
        let addon = world.addon(terms, version(vec![base], Vec::new()));
        let attached = world.attach("acme", parent, addon.id, 2).expect("attached");
        assert_eq!(is_billed(&world, &attached), once_attached, "{why}: attached");
        let command = UpdateSubscription {
            customer: world.key("acme"),
            subscription: parent,
            end: Some(datetime!(2024-04-21 0:00 UTC)),
            turn_off_auto_renew: true,
            metadata: None,
        };
        world.on("acme", |tx, now| update_subscription(tx, &command, now)).expect("updated");
        assert_eq!(is_billed(&world, &attached), once_moved, "{why}: another end");
        world.advance("acme", datetime!(2024-05-01 0:30 UTC));
        assert!(is_billed(&world, &attached), "{why}: all instants are behind");
    }
}
