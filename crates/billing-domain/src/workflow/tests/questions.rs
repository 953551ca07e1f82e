use std::sync::mpsc;

use serde_json::json;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::catalog::Catalog;
use crate::organization::AccessPolicy;
use crate::period::PlanDuration;
use crate::plan::Plan;
use crate::store::{Answered, Question, Transaction};
use crate::subscription::SubscriptionFilters;
use crate::testing::world::{World, component, filters, subscription, tiers, version};
use crate::workflow::usages::usages;
use crate::workflow::{AccessQuestion, CheckMetricAccess, OrganizationPatch};

const START: OffsetDateTime = datetime!(2024-01-01 00:00 UTC);

#[test]
fn what_one_question_looked_up_of_the_catalogue_another_of_its_snapshot_does_not() {
    let world = World::at(START);
    let metric = world.metric("call", None).id;
    let schedule = tiers(&[("0", "4", "free")]);
    let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![component(metric, schedule)]));
    for (customer, used) in [("acme", 3), ("beta", 4)] {
        world.customer(customer);
        let mut command = subscription(customer, plan, START);
        command.filters = filters(&[("env", "prod")]);
        world.subscribe(&command).expect("subscribed");
        command.filters = filters(&[("env", "test")]);
        world.subscribe(&command).expect("subscribed");
        for _ in 0..used {
            world.track(customer, "call", START, &json!({"env": "prod"}));
        }
    }
    let ask = |customer: &str, catalog: &mut Catalog| {
        let (sender, receiver) = mpsc::channel();
        let command = CheckMetricAccess {
            customer: customer.parse().expect("a customer id"),
            metric,
            filters: SubscriptionFilters::none(),
        };
        let reply = Box::new(move |answer| sender.send(answer).expect("somebody waits"));
        let mut question = Box::new(AccessQuestion::new(world.organization, command, reply));
        let known = world.on(customer, |tx, _| {
            let requests = question.prepare(tx, catalog)?;
            usages(tx, &requests)
        });
        question.conclude(Answered::Known(known.expect("usages")));
        let checked = receiver.recv().expect("a reply").expect("no error").expect("an answer");
        (checked.access, checked.subscriptions[0].plan.plan_name.clone())
    };
    let (all, any) = ((false, "Pro".to_owned()), (true, "Max".to_owned()));
    let mut snapshot = Catalog::default();
    assert_eq!(ask("acme", &mut snapshot), (true, "Pro".to_owned()));
    let rename = |tx: &mut dyn Transaction| {
        let renamed = Plan { name: "Max".to_owned(), ..tx.plans().get(plan)? };
        tx.plans().update(&renamed)
    };
    world.catalog(|tx, _| rename(tx)).expect("renamed");
    world.set(&OrganizationPatch { access_policy: Some(AccessPolicy::Any), ..OrganizationPatch::default() });
    assert_eq!(ask("beta", &mut snapshot), all, "the rule and the plan as they were when the first asked");
    assert_eq!(ask("beta", &mut Catalog::default()), any, "as they are");
}
