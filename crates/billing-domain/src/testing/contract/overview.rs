//! How an organization stands.

use bigdecimal::BigDecimal;
use time::Duration;

use super::invoice::issue;
use super::{Harness, Tenant};
use crate::invoice::PaymentStatus;
use crate::store::{EventMinute, Invoiced, Overview, RecentEvents, UncountedReason};
use crate::testing::build::{count_metric, event};

pub(super) fn sums_what_was_invoiced(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    assert_eq!(harness.overviews.overview(tenant.id).expect("read"), Overview::default(), "nothing yet");
    let [acme, beta] = ["acme", "beta"].map(|id| tenant.new_customer(id));
    // Customers are made now: so many days ago is the month before, and well before that.
    let today = i64::from(acme.created_at.day());
    let paid = issue(&tenant, &acme, 1, 0, PaymentStatus::Paid);
    let unpaid = issue(&tenant, &beta, 2, 0, PaymentStatus::Unpaid);
    issue(&tenant, &acme, 3, 0, PaymentStatus::Voided);
    let before = issue(&tenant, &acme, 4, today, PaymentStatus::Unpaid);
    // The same day of the month before, or its last, is as early in it as now; the first is in any case.
    let days_before = i64::from(before.issued_at.day());
    let first = issue(&tenant, &acme, 7, today - 1 + days_before, PaymentStatus::Unpaid);
    issue(&tenant, &acme, 5, today + 62, PaymentStatus::Unpaid);
    issue(&other, &other.new_customer("acme"), 1, 0, PaymentStatus::Unpaid);
    let clock = tenant.new_clock(acme.created_at);
    issue(&tenant, &tenant.new_customer_of(&clock, "tried"), 6, 0, PaymentStatus::Unpaid);
    let overview = harness.overviews.overview(tenant.id).expect("read");
    let this_month: BigDecimal = paid.amount + unpaid.amount;
    let last_month = &before.amount + &first.amount;
    let last_month_so_far = if days_before <= today { last_month.clone() } else { first.amount };
    let currency_code = "USD".to_owned();
    assert_eq!(overview.invoiced, [Invoiced { currency_code, this_month, last_month, last_month_so_far }]);
}

pub(super) fn counts_who_is_due(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    for (id, ago) in [("acme", Some(5)), ("beta", Some(9)), ("coop", Some(-60)), ("dusk", None)] {
        let customer = tenant.new_customer(id);
        let due_at = ago.map(|minutes| customer.created_at - Duration::minutes(minutes));
        tenant.customer(customer.key, |tx, _| tx.customers().set_billing_due(customer.key, due_at));
    }
    let overview = harness.overviews.overview(tenant.id).expect("read");
    assert_eq!((overview.customers_due, overview.customers_parked), (2, 0));
    assert!(overview.lag >= Duration::minutes(9) && overview.lag < Duration::minutes(60), "{}", overview.lag);
    assert_eq!(harness.overviews.overview(other.id).expect("read"), Overview::default(), "each by itself");
}

/// What has come in of an organization, noted.
fn recent(tenant: &Tenant<'_>) -> RecentEvents {
    tenant.harness.overviews.note_events().expect("noted");
    tenant.harness.overviews.recent_events(tenant.id).expect("read")
}

/// All of the last hour, those of nobody, and those of a name that nothing counts.
fn sums(recent: &RecentEvents) -> (u64, u64, u64) {
    let sum = |count: fn(&EventMinute) -> u64| recent.minutes.iter().map(count).sum();
    (sum(|minute| minute.stored), sum(|minute| minute.of_unknown_customers), sum(|minute| minute.of_unknown_names))
}

/// What counts for nothing: why, of what, and how many.
fn uncounted(recent: &RecentEvents) -> Vec<(UncountedReason, &str, u64)> {
    let mut uncounted: Vec<_> =
        recent.uncounted.iter().map(|one| (one.reason, one.subject(), one.event_count)).collect();
    uncounted.sort_unstable();
    uncounted
}

pub(super) fn tells_of_recent_events(harness: &Harness<'_>) {
    use UncountedReason::{UnknownCustomer, UnknownEventName};
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    tenant.new_customer("acme");
    let new_metric = |name: &str| {
        tenant.catalog(|tx, now| {
            let metric = tenant.build(|ids| count_metric(ids, name, now));
            tx.metrics().insert(&metric)
        });
    };
    new_metric("call");
    let now = tenant.now();
    assert_eq!((sums(&recent(&tenant)), uncounted(&recent(&tenant))), ((0, 0, 0), Vec::new()), "nothing yet");
    // When an event happened does not matter here, but when it came.
    let sent = [("acme", "call"), ("acme", "cal"), ("acne", "call"), ("acne", "cal"), ("acme", "call")];
    let sent: Vec<_> = sent
        .iter()
        .zip(0..)
        .map(|((customer, name), hours)| event(customer, name, &format!("{hours}"), now - Duration::hours(hours)))
        .collect();
    tenant.send(&sent);
    tenant.send(&sent[..2]);
    tenant.send(&[event("acme", "call", "old", now - Duration::days(4_000))]);
    let told = recent(&tenant);
    assert_eq!(sums(&told), (5, 2, 1), "what is known or refused is not counted again");
    assert_eq!(uncounted(&told), [(UnknownCustomer, "acne", 2), (UnknownEventName, "cal", 1)]);
    let latest = told.uncounted.iter().find(|one| one.reason == UnknownCustomer).expect("there");
    assert_eq!((&*latest.event_name, latest.first_at <= latest.last_at), ("cal", true), "the latest of them");
    assert!(latest.last_at >= now && told.minutes.len() == 60, "{told:?}");
    assert_eq!(sums(&recent(&other)), (0, 0, 0), "each by itself");
    tenant.send(&[event("acne", "call", "later", now)]);
    assert_eq!(uncounted(&recent(&tenant))[0], (UnknownCustomer, "acne", 3), "added to what was noted");
    tenant.new_customer("acne");
    assert_eq!(uncounted(&recent(&tenant)), [(UnknownEventName, "cal", 1)], "they count since somebody has the id");
    new_metric("cal");
    assert_eq!(uncounted(&recent(&tenant)), [], "and since a metric counts the name");
    assert_eq!(sums(&recent(&tenant)), (6, 3, 1), "figures say what was when they came");
}
