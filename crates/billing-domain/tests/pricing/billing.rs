use billing_domain::charge::records_of;
use billing_domain::decimal::plain;
use billing_domain::invoice::Trace;
use billing_domain::period::PlanDuration;
use billing_domain::plan::{ChargeBehavior, ChargeTiming, PrepaidCharge};
use billing_domain::testing::build::{self, Ids, days_from};
use billing_domain::testing::world::{World, component, fee, subscription, tiers, version};
use time::Duration;
use uuid::Uuid;

use super::{instant, interval, shown_at, table};

const RENEWALS: &str = "| plan | from | billed at | invoices issued | current period |";
const INSTANTS: &str = "| charge | reset interval | invoicing interval | billed on day |";
const STEPS: &str = "| billed at | invoices |";
const LATE: &str = "| dated | arrives | on the invoice of |";
const LATE_USAGE: &str = "| after January | calls billed | late calls, arriving | late line | on the invoice of |";
pub const TABLES: [&str; 5] = [RENEWALS, INSTANTS, STEPS, LATE, LATE_USAGE];

const START: &str = "2026-01-01";

#[test]
fn a_renewal_is_at_the_boundary_and_its_invoice_waits() {
    for row in table(RENEWALS) {
        let start = instant(&row[1]);
        let world = World::at(start);
        let duration = row[0].parse().expect("a duration");
        let plan = world.plan(Some(duration), version(vec![fee("30", ChargeTiming::InAdvance)], Vec::new()));
        world.customer("acme");
        world.subscribe(&subscription("acme", plan, start)).expect("subscribed");
        world.advance("acme", instant(&row[2]));
        let issued: Vec<String> = world.invoices("acme").iter().map(|invoice| shown_at(invoice.issued_at)).collect();
        let current = world.subscriptions("acme").last().expect("a subscription").period;
        let current = format!("{} to {}", shown_at(current.start()), shown_at(current.end()));
        assert_eq!((issued.join(", "), current), (row[3].clone(), row[4].clone()), "{row:?}");
    }
}

#[test]
fn records_are_billed_at_their_instants() {
    for row in table(INSTANTS) {
        let start = instant(START);
        let mut ids = Ids::new(1);
        let plan = build::plan(&mut ids, "Pro", start);
        let mut version = build::plan_version(&mut ids, &plan, start);
        version.recurring_charges.clear();
        let (reset, invoicing) = (interval(&row[1]), interval(&row[2]));
        match row[0].as_str() {
            "usage" | "prepaid units" => {
                let mut component = build::component(&mut ids, Uuid::from_u128(9).into());
                (component.reset_interval, component.invoicing_interval) = (reset, invoicing);
                component.prepaid_charge = (row[0] == "prepaid units")
                    .then(|| PrepaidCharge { units: Some(5.into()), behavior: ChargeBehavior::Full });
                version.components.push(component);
            }
            text => {
                let mut fee = build::recurring_charge(&mut ids, "base");
                (fee.reset_interval, fee.invoicing_interval) = (reset, invoicing);
                fee.timing = match text {
                    "fee in advance" => ChargeTiming::InAdvance,
                    "fee in arrears" => ChargeTiming::InArrears,
                    other => panic!("{other} is not a charge"),
                };
                version.recurring_charges.push(fee);
            }
        }
        let customer = build::customer(ids.next(), "acme", start).key;
        let subscription = build::subscription(&mut ids, customer, &version, days_from(start, 31));
        let records = records_of(&version, &subscription, &mut || ids.next::<Uuid>()).expect("records");
        let days = records.iter().map(|record| {
            let days = record.invoicing_instants.iter().map(|at| (*at - start).whole_days().to_string());
            days.collect::<Vec<_>>().join(", ")
        });
        assert_eq!(days.collect::<Vec<_>>().join("; "), row[3], "{row:?}");
    }
}

#[test]
fn billing_in_steps_is_billing_at_once() {
    for row in table(STEPS) {
        let world = World::at(instant(START));
        let mut calls = component(world.metric("call", None).id, tiers(&[("0", "", "0.1")]));
        calls.invoicing_interval = interval("2 week");
        let plan = version(vec![fee("30", ChargeTiming::InAdvance)], vec![calls]);
        let plan = world.plan(Some(PlanDuration::Monthly), plan);
        world.customer("acme");
        world.subscribe(&subscription("acme", plan, instant(START))).expect("subscribed");
        for day in 0..40 {
            world.track_many("acme", "call", instant(START) + Duration::days(day), 10);
        }
        for step in row[0].split(", ") {
            world.advance("acme", instant(step));
        }
        let invoices: Vec<String> = world
            .invoices("acme")
            .iter()
            .map(|invoice| format!("{}: {}", shown_at(invoice.issued_at), plain(&invoice.amount)))
            .collect();
        assert_eq!(invoices.join(", "), row[1], "{row:?}");
    }
}

#[test]
fn late_events_count_while_the_invoice_waits() {
    for row in table(LATE) {
        let world = World::at(instant(START));
        let calls = component(world.metric("call", None).id, tiers(&[("0", "", "1")]));
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![calls]));
        world.customer("acme");
        world.subscribe(&subscription("acme", plan, instant(START))).expect("subscribed");
        world.advance("acme", instant(&row[1]));
        world.track_many("acme", "call", instant(&row[0]), 1);
        world.advance("acme", instant("2026-03-15"));
        let invoices = world.invoices("acme");
        let billed = invoices.iter().find(|invoice| invoice.amount == 1).expect("one call");
        let Trace::UsageCharge { event_count: 1, .. } = billed.lines[0].trace else { panic!("{row:?}: one event") };
        assert_eq!(shown_at(billed.issued_at), row[2], "{row:?}");
    }
}

#[test]
fn late_usage_is_the_difference_to_what_was_billed() {
    for row in table(LATE_USAGE) {
        let world = World::at(instant("2026-01-01"));
        let calls = component(world.metric("call", None).id, tiers(&[("0", "2", "free"), ("2", "", "1")]));
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![calls]));
        world.customer("acme");
        let mut command = subscription("acme", plan, instant("2026-01-01"));
        command.auto_renew = row[0] == "renewed";
        world.subscribe(&command).expect("subscribed");
        let (late, arriving) = row[2].split_once(", ").expect("how many, and when");
        let january = instant("2026-01-20");
        world.track_many("acme", "call", january, row[1].parse().expect("a number"));
        world.advance("acme", instant(arriving));
        world.track_many("acme", "call", january, late.parse().expect("a number"));
        world.advance("acme", instant("2026-06-15"));
        let lines = world
            .invoices("acme")
            .into_iter()
            .flat_map(|invoice| invoice.lines.into_iter().map(move |line| (invoice.issued_at, line)));
        let late: Vec<_> = lines.filter(|(_, line)| line.name.ends_with("Late Usage")).collect();
        let shown: Vec<_> = late.iter().map(|(at, line)| (plain(&line.amount), shown_at(*at))).collect();
        let expected: Vec<_> =
            std::iter::once((row[3].clone(), row[4].clone())).filter(|(amount, _)| !amount.is_empty()).collect();
        assert_eq!(shown, expected, "{row:?}");
    }
}
