//! How an organization stands.

use bigdecimal::BigDecimal;
use time::Duration;

use super::invoice::issue;
use super::{Harness, Tenant};
use crate::invoice::PaymentStatus;
use crate::store::{Invoiced, Overview};

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
