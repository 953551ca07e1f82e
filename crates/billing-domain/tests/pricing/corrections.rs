//! Events that are put right, before and after they are billed.

use billing_domain::decimal::plain;
use billing_domain::period::PlanDuration;
use billing_domain::testing::world::{World, component, subscription, tiers, version};
use billing_domain::workflow::{CorrectEvents, EventChange, WantedCorrection, correct_events};

use super::{instant, shown_at, table};

const CORRECTIONS: &str = "| calls | corrected | on | billed for January | late line | on the invoice of |";
pub const TABLES: [&str; 1] = [CORRECTIONS];

/// What `2 voided, ...` or `2 to <time>` says: how many, and what becomes of each.
fn change(text: &str) -> (u32, EventChange) {
    let (count, what) = text.split_once(' ').expect("how many, and what");
    let change = match what.strip_prefix("to ") {
        Some(time) => EventChange::Amend { time_created: Some(instant(time)), properties: None },
        None => EventChange::Void,
    };
    (count.parse().expect("a number"), change)
}

#[test]
fn what_was_billed_is_put_right_by_one_line() {
    for row in table(CORRECTIONS) {
        let world = World::at(instant("2026-01-01"));
        let calls = component(world.metric("call", None).id, tiers(&[("0", "2", "free"), ("2", "", "1")]));
        let plan = world.plan(Some(PlanDuration::Monthly), version(Vec::new(), vec![calls]));
        world.customer("acme");
        world.subscribe(&subscription("acme", plan, instant("2026-01-01"))).expect("subscribed");
        world.track_many("acme", "call", instant("2026-01-20"), row[0].parse().expect("a number"));
        world.advance("acme", instant(&row[2]));
        let (count, change) = change(&row[1]);
        let wanted = |number: u32| WantedCorrection {
            idempotency_id: format!("event-{number}"),
            change: change.clone(),
            attr: String::new(),
        };
        let command = CorrectEvents {
            customer: world.key("acme"),
            corrections: (1..=count).map(wanted).collect(),
            beyond_window: row[1].contains("`beyond_window`"),
            by: None,
            reason: None,
        };
        world.on("acme", |tx, now| correct_events(tx, &command, now)).expect("corrected");
        world.advance("acme", instant("2026-06-15"));
        let lines: Vec<_> = world
            .invoices("acme")
            .into_iter()
            .flat_map(|invoice| invoice.lines.into_iter().map(move |line| (shown_at(invoice.issued_at), line)))
            .collect();
        assert_eq!(plain(&lines[0].1.amount), row[3], "{row:?}");
        let late = lines.iter().filter(|(_, line)| line.name.ends_with("Late Usage"));
        let shown: Vec<_> = late.map(|(at, line)| (plain(&line.amount), at.clone())).collect();
        let expected: Vec<_> =
            std::iter::once((row[4].clone(), row[5].clone())).filter(|(amount, _)| !amount.is_empty()).collect();
        assert_eq!(shown, expected, "{row:?}");
    }
}
