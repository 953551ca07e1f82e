//! Laws of where two features meet: renewals and month ends, switches, cancellations, drafts.

use bigdecimal::{BigDecimal, Signed, Zero};
use billing_domain::charge::records_of;
use billing_domain::decimal::plain;
use billing_domain::id::MetricId;
use billing_domain::invoice::PaymentStatus;
use billing_domain::period::{Anchors, Cadence, Interval, IntervalUnit, Period, PlanDuration};
use billing_domain::plan::PriceAdjustmentKind;
use billing_domain::subscription::{
    Cancellation, FlatFeeBehavior, InvoicingBehavior, SubscriptionFilters, SwitchUsageBehavior, UsageBehavior,
};
use billing_domain::testing::build::{self, Ids};
use billing_domain::testing::world::{World, subscription};
use billing_domain::workflow::{
    CancelSubscription, DraftInvoice, SwitchPlan, VersionChoice, cancel_subscription, draft_invoice, switch_plan,
};
use proptest::prelude::*;
use serde_json::json;
use time::util::days_in_month;
use time::{Date, Duration, Month, OffsetDateTime};

use crate::laws;
use crate::life::{Priced, any_priced, any_start};

fn any_duration() -> impl Strategy<Value = PlanDuration> {
    prop::sample::select(PlanDuration::ALL.to_vec())
}

/// A duration, its months, and a number of them that divides it.
fn any_division() -> impl Strategy<Value = (PlanDuration, u32, u32)> {
    use PlanDuration::{Monthly, Quarterly, Yearly};
    let yearly = [1, 2, 3, 4, 6, 12].map(|count| (Yearly, 12, count));
    let all = [(Monthly, 1, 1), (Quarterly, 3, 1), (Quarterly, 3, 3)].into_iter().chain(yearly);
    prop::sample::select(all.collect::<Vec<_>>())
}

/// The boundary so many months from a start, by nothing but the calendar.
fn boundary(start: OffsetDateTime, day: u8, months: i32) -> OffsetDateTime {
    let index = start.year() * 12 + i32::from(u8::from(start.month())) - 1 + months;
    let (year, month) = (index.div_euclid(12), Month::try_from(index.rem_euclid(12) as u8 + 1).expect("a month"));
    let date = Date::from_calendar_date(year, month, day.min(days_in_month(month, year))).expect("a date");
    start.replace_date(date)
}

/// A customer with a subscription to a plan of this content, and the metrics it meters.
fn begin(start: OffsetDateTime, duration: PlanDuration, priced: &Priced, plans: usize) -> (World, [MetricId; 2]) {
    let world = World::at(start);
    let metrics = [0, 1].map(|index| world.metric(&format!("event-{index}"), Some("n")).id);
    let made = (0..plans).map(|_| world.plan(Some(duration), priced.version(metrics, "USD", Anchors::NONE)));
    let first = made.collect::<Vec<_>>()[0];
    world.customer("acme");
    world.subscribe(&subscription("acme", first, start)).expect("subscribed");
    (world, metrics)
}

fn paid(world: &World) -> BigDecimal {
    let invoices = world.invoices("acme");
    let standing = invoices.iter().filter(|invoice| invoice.payment_status != PaymentStatus::Voided);
    standing
        .flat_map(|invoice| &invoice.lines)
        .filter(|line| line.subscription.is_some())
        .map(|line| &line.amount)
        .sum()
}

fn cancel(world: &World, flat_fee_behavior: FlatFeeBehavior) {
    let customer = world.key("acme");
    let running =
        world.subscriptions("acme").into_iter().rfind(|subscription| subscription.replaced_by.is_none()).expect("one");
    let command = CancelSubscription {
        customer,
        subscriptions: vec![running.id],
        cancellation: Cancellation {
            flat_fee_behavior: Some(flat_fee_behavior),
            usage_behavior: UsageBehavior::BillNone,
        },
        invoicing_behavior: InvoicingBehavior::InvoiceNow,
    };
    world.on("acme", |tx, now| cancel_subscription(tx, &command, now)).expect("cancelled");
}

/// Access and usage of every metric, as a customer sees it.
fn seen(world: &World, metrics: [MetricId; 2]) -> Vec<String> {
    let filters = SubscriptionFilters::none();
    let show = |metric| {
        let checked = world.access("acme", metric, &filters).expect("an answer");
        let usage = checked.subscriptions.iter().map(|subscription| plain(&subscription.access.usage));
        format!("{} {:?}", checked.access, usage.collect::<Vec<_>>())
    };
    metrics.into_iter().map(show).collect()
}

proptest! {
    #![proptest_config(laws())]

    /// Over any number of renewals, intervals that divide the period tile the calendar of the anchor, each interval of the
    /// calendar once.
    #[test]
    fn intervals_that_divide_the_period_tile_the_calendar(
        days in 0..800_i64,
        minutes in prop_oneof![Just(0), 0..24 * 60_i64],
        (duration, months, count) in any_division(),
        renewals in 1..40_u32,
    ) {
        let start = time::macros::datetime!(2023-01-01 0:00 UTC) + Duration::days(days) + Duration::minutes(minutes);
        let mut ids = Ids::new(1);
        let mut plan = build::plan(&mut ids, "Pro", start);
        plan.duration = Some(duration);
        let mut version = build::plan_version(&mut ids, &plan, start);
        let mut fee = build::recurring_charge(&mut ids, "fee");
        fee.reset_interval = Some(match count {
            12 => Interval::new(IntervalUnit::Year, 1).expect("one"),
            count => Interval::new(IntervalUnit::Month, count).expect("some"),
        });
        version.recurring_charges = vec![fee];
        version.components.clear();
        let cadence = Cadence::new(start, duration, Anchors::NONE);
        let customer = build::customer(ids.next(), "acme", start).key;
        let mut subscription = build::subscription(&mut ids, customer, &version, cadence.period(0).period);
        subscription.calendar = cadence.calendar();
        let mut found: Vec<Period> = Vec::new();
        for _ in 0..renewals {
            let records = records_of(&version, &subscription, &mut || uuid::Uuid::nil()).expect("records");
            prop_assert!(records.iter().all(|record| record.period == record.full), "none is cut");
            found.extend(records.iter().map(|record| record.period));
            let next = subscription.next_period(Some(duration), Anchors::NONE).expect("it renews");
            subscription.enter(&next);
        }
        let wanted: Vec<_> = (0..found.len() as i32)
            .map(|n| boundary(start, start.day(), n * count as i32))
            .zip((1..).map(|n| boundary(start, start.day(), n * count as i32)))
            .map(|(from, to)| Period::new(from, to).expect("time goes on"))
            .collect();
        prop_assert_eq!(found.len() as u32, renewals * months / count);
        prop_assert_eq!(found, wanted);
    }
}

proptest! {
    #![proptest_config(crate::fewer_laws())]

    /// With the default behaviours and no fixed or override adjustment, a switch to an identical plan changes no access
    /// answer, no interval and no total by more than one minor unit for each prorated charge.
    #[test]
    fn a_switch_to_an_identical_plan_changes_nothing(
        start in any_start(),
        duration in any_duration(),
        mut priced in any_priced(),
        events in prop::collection::vec((0..2_usize, 0..120 * 24 * 60_i64, 0..50_i64), 0..20),
        mut switches in prop::collection::vec(1..120 * 24 * 60_i64, 1..4),
        looks in prop::collection::vec(0..120 * 24 * 60_i64, 3),
    ) {
        switches.sort_unstable();
        priced.adjustment = priced.adjustment.filter(|(kind, _)| *kind == PriceAdjustmentKind::Percentage);
        let live = |switches: &[i64]| {
            let (world, metrics) = begin(start, duration, &priced, 1);
            let plans: Vec<_> = switches
                .iter()
                .map(|_| world.plan(Some(duration), priced.version(metrics, "USD", Anchors::NONE)))
                .collect();
            for (index, minutes, amount) in &events {
                let at = start + Duration::minutes(*minutes);
                world.track("acme", &format!("event-{index}"), at, &json!({ "n": amount }));
            }
            let mut moments: Vec<(i64, Option<usize>)> = looks.iter().map(|minutes| (*minutes, None)).collect();
            moments.extend(switches.iter().enumerate().map(|(n, minutes)| (*minutes, Some(n))));
            moments.sort_unstable();
            let mut answers = Vec::new();
            for (minutes, what) in moments {
                world.advance("acme", start + Duration::minutes(minutes));
                let Some(n) = what else {
                    answers.push(seen(&world, metrics));
                    continue;
                };
                let mut newest_first = world.subscriptions("acme").into_iter().rev();
                let running = newest_first.find(|subscription| subscription.replaced_by.is_none());
                let command = SwitchPlan {
                    customer: world.key("acme"),
                    subscription: running.expect("it renews").id,
                    version: VersionChoice::Plan(plans[n]),
                    invoicing_behavior: InvoicingBehavior::InvoiceNow,
                    usage_behavior: SwitchUsageBehavior::TransferToNewSubscription,
                    prepaid_units: Vec::new(),
                };
                world.on("acme", |tx, now| switch_plan(tx, &command, now)).expect("switched");
            }
            // All that was used is billed, and what is charged in advance begins no sooner with a switch than without.
            world.advance("acme", start + Duration::days(430));
            (answers, paid(&world))
        };
        let ((answers, with), (same, without)) = (live(&switches), live(&[]));
        prop_assert_eq!(answers, same);
        let charges = priced.fees.len() + 2 * priced.components.len();
        let parts = BigDecimal::from((charges * switches.len()) as u64);
        // A percentage multiplies the cent that a charge was rounded by, and is rounded itself.
        let percent = priced.adjustment.map_or(BigDecimal::zero(), |(_, percent)| percent + BigDecimal::from(200));
        let parts = &parts + &parts * percent.abs() / BigDecimal::from(100);
        let difference = (&with - &without).abs();
        prop_assert!(difference <= &parts / BigDecimal::from(100), "{} with, {} without", with, without);
    }

    /// `charge_full` leaves what the fee would have come to without the cancellation, `refund` nothing of it.
    #[test]
    fn a_cancellation_leaves_all_of_a_fee_or_nothing(
        start in any_start(),
        duration in any_duration(),
        mut priced in any_priced(),
        minutes in 0..366 * 24 * 60_i64,
    ) {
        priced.components.clear();
        let live = |behavior: Option<FlatFeeBehavior>| {
            let (world, _) = begin(start, duration, &priced, 1);
            let end = world.subscriptions("acme")[0].period.end();
            let length = (end - start).whole_minutes();
            world.advance("acme", start + Duration::minutes(minutes % length));
            match behavior {
                Some(behavior) => cancel(&world, behavior),
                None => {
                    let mut subscription = world.subscriptions("acme").remove(0);
                    subscription.auto_renew = false;
                    world.on("acme", |tx, _| tx.subscriptions().update(&subscription)).expect("it ends");
                }
            }
            world.advance("acme", end + Duration::days(1));
            paid(&world)
        };
        prop_assert_eq!(live(Some(FlatFeeBehavior::ChargeFull)), live(None));
        let refunded = live(Some(FlatFeeBehavior::Refund));
        // A surcharge is no fee: what the time until then has of it stays.
        let surcharged = priced.adjustment.as_ref().is_some_and(|(kind, amount)| {
            *kind == PriceAdjustmentKind::Fixed && amount.is_positive()
        });
        prop_assert!(refunded.is_zero() || (surcharged && refunded.is_positive()), "{} stays", refunded);
    }

    /// The draft one microsecond before an instant is the invoice then issued, before credits.
    #[test]
    fn a_draft_just_before_an_instant_is_its_invoice(
        start in any_start(),
        duration in any_duration(),
        priced in any_priced(),
        events in prop::collection::vec((0..2_usize, 0..100 * 24 * 60_i64, 0..50_i64), 0..15),
        instants in 1..12_usize,
    ) {
        let (world, _) = begin(start, duration, &priced, 1);
        for (index, minutes, amount) in &events {
            let at = start + Duration::minutes(*minutes);
            world.track("acme", &format!("event-{index}"), at, &json!({ "n": amount }));
        }
        let key = world.key("acme");
        let customer: billing_domain::customer::CustomerId = "acme".parse().expect("an id");
        let command = DraftInvoice { customer, include_next_period: true };
        for _ in 0..instants {
            let records = world.on("acme", |tx, _| tx.billing_records().list_open(key)).expect("records");
            let running = world.subscriptions("acme").pop().expect("it renews");
            let instants = records.iter().filter_map(|record| record.next_invoicing_at());
            let instant = instants.chain([running.period.end()]).min().expect("one");
            world.advance("acme", instant - Duration::MICROSECOND);
            let drafted = world.catalog(|tx, now| draft_invoice(tx, &command, now)).expect("a draft").invoices;
            let drafted: BigDecimal = drafted.iter().map(|invoice| &invoice.amount).sum();
            let before = world.invoices("acme").len();
            world.advance("acme", instant + Duration::minutes(30));
            let issued = world.invoices("acme");
            let lines = issued[before..].iter().flat_map(|invoice| &invoice.lines);
            let issued = lines.filter(|line| line.subscription.is_some());
            let issued: BigDecimal = issued.map(|line| &line.amount).sum();
            // A fee in arrears is for a microsecond less, and a percentage multiplies the cent that it makes.
            let factor = priced.adjustment.as_ref().map_or(1.into(), |(_, amount)| amount.abs() / BigDecimal::from(100) + 2);
            let parts = BigDecimal::from(priced.fees.len() as u64 + 1) * factor / BigDecimal::from(100);
            prop_assert!((&drafted - &issued).abs() <= parts, "{}: {} drafted, {} issued", instant, drafted, issued);
        }
    }
}

/// What the tiling law compares with is the calendar that people know.
#[test]
fn boundaries_are_clamped_and_come_back() {
    let start = time::macros::datetime!(2024-01-31 9:30 UTC);
    let days: Vec<_> = (0..5).map(|n| boundary(start, 31, n).date().to_string()).collect();
    assert_eq!(days, ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30", "2024-05-31"]);
}
