//! Billing records.

use time::Duration;

use super::{Harness, Tenant};
use crate::charge::{Billed, BillingRecord, ChargeRef, Prepaid, PrepaidSegment, UsageBilling};
use crate::customer::Customer;
use crate::id::CustomerKey;
use crate::invoice::PrepaidSegmentTrace;
use crate::subscription::Subscription;
use crate::tax::TaxedAmounts;
use crate::testing::build::{Ids, billing_record, days_from, subscription};
use crate::testing::world::{decimal, tiers};

pub(super) fn holder_of_a_subscription(tenant: &Tenant<'_>) -> (Customer, Subscription) {
    let (_, version) = tenant.new_plan("gold");
    let holder = tenant.new_customer("acme");
    let held = tenant.build(|ids| subscription(ids, holder.key, &version, days_from(holder.created_at, 30)));
    tenant.customer(holder.key, |tx, _| tx.subscriptions().insert(&held));
    (holder, held)
}

/// An amount that was billed at a rate.
pub(super) fn taxed(rate: &str, amount: &str) -> TaxedAmounts {
    let mut taxed = TaxedAmounts::default();
    taxed.add(&decimal(rate), &decimal(amount));
    taxed
}

fn recurring(tenant: &Tenant<'_>, held: &Subscription) -> BillingRecord {
    tenant.build(|ids| {
        let charge = ChargeRef::Recurring(ids.next());
        billing_record(ids, held, charge)
    })
}

pub(super) fn keeps_every_field(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (holder, held) = holder_of_a_subscription(&tenant);
    let start = held.period.start();
    let halves = [days_from(start, 10), days_from(start + Duration::days(10), 20)];
    let billed = |quantity: &str, exact: &str, given: &str| Billed {
        quantity: decimal(quantity),
        exact: decimal(exact),
        given: decimal(given),
        forgiven: decimal("0.01"),
        taxed: taxed("8.125", given),
    };
    let settled = PrepaidSegment {
        settled: Some(PrepaidSegmentTrace {
            window: halves[0],
            fraction: halves[0].fraction_of(&days_from(start, 20)),
            rating: tiers(&[("0", "", "99999999999999999999")]).rate(&decimal("2")),
        }),
        ..PrepaidSegment::new(decimal("100.5"), halves[0])
    };
    let made = BillingRecord {
        charge: ChargeRef::Component(tenant.build(Ids::next)),
        period: days_from(start, 10),
        full: days_from(start - Duration::days(1), 31),
        invoicing_instants: vec![start, start + Duration::microseconds(1), held.period.end()],
        late_until: Some(start + Duration::microseconds(3)),
        tax_rate: Some(decimal("8.125")),
        charged_before_switch: decimal("12.5"),
        usage: UsageBilling::HandedOn,
        billed: billed("1e-30", "0.333333333333333333333333333333333333333333333333333333333333", "0.33"),
        prepaid: Some(Prepaid {
            segments: vec![settled, PrepaidSegment::new(decimal("100.5"), halves[1])],
            billed: billed("0", "12.000000000000000000000000000001", "12"),
        }),
        ..recurring(&tenant, &held)
    };
    tenant.customer(holder.key, |tx, _| tx.billing_records().insert(holder.key, std::slice::from_ref(&made)));
    let list = || tenant.look(|tx, _| tx.billing_records().list_open(holder.key));
    assert_eq!(list(), std::slice::from_ref(&made));
    let mut changed = made;
    for n in 1..=2 {
        tenant.customer(holder.key, |tx, _| {
            let mut open = tx.billing_records().list_open(holder.key)?;
            let mut record = open.remove(0);
            record.pass(start + Duration::days(n - 1));
            record.billed.quantity += 5;
            record.prepaid = None;
            tx.billing_records().update(holder.key, &record)?;
            // Once more in the same transaction.
            record.billed.given += 1;
            tx.billing_records().update(holder.key, &record)?;
            changed = record;
            Ok(())
        });
        assert_eq!(list(), [changed.clone()], "update {n}");
    }
    assert_eq!(changed.invoicing_instants, [held.period.end()]);
}

pub(super) fn saves_new_and_changed_together(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (holder, held) = holder_of_a_subscription(&tenant);
    // More than go into one statement.
    let made: Vec<_> = (0..40).map(|_| recurring(&tenant, &held)).collect();
    let (before, new) = made.split_at(20);
    tenant.customer(holder.key, |tx, _| tx.billing_records().insert(holder.key, before));
    let mut expected = made.clone();
    for round in 1..=2 {
        tenant.customer(holder.key, |tx, _| {
            let read = tx.billing_records().list(holder.key, held.id)?;
            let mut records = read.clone();
            for record in &mut records {
                record.billed.quantity += round;
                record.billed.given += 1;
                record.late_until = Some(held.period.end());
                record.prepaid = None;
            }
            if round == 1 {
                records.extend_from_slice(new);
            }
            tx.billing_records().save(holder.key, &records)?;
            // Once more in the same transaction.
            tx.billing_records().save(holder.key, &records[..1])?;
            expected = records;
            Ok(())
        });
        let kept = tenant.look(|tx, _| tx.billing_records().list(holder.key, held.id));
        assert_eq!(kept, expected, "round {round}: all of it, in order of making");
    }
}

pub(super) fn lists_all_of_one_subscription(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (holder, held) = holder_of_a_subscription(&tenant);
    let (open, mut done) = (recurring(&tenant, &held), recurring(&tenant, &held));
    let both = [open.clone(), done.clone()];
    tenant.customer(holder.key, |tx, _| tx.billing_records().insert(holder.key, &both));
    done.invoicing_instants.clear();
    tenant.customer(holder.key, |tx, _| {
        tx.billing_records().list(holder.key, held.id)?;
        tx.billing_records().update(holder.key, &done)
    });
    let list = |id| tenant.look(|tx, _| tx.billing_records().list(holder.key, id));
    assert_eq!(list(held.id), [open, done], "billed or not, in order of making");
    assert_eq!(list(tenant.build(Ids::next)), [], "no other's");
}

pub(super) fn lists_open_records_in_order(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (holder, held) = holder_of_a_subscription(&tenant);
    let at = |day| held.period.start() + Duration::days(day);
    let record = |instants: &[i64]| BillingRecord {
        invoicing_instants: instants.iter().map(|day| at(*day)).collect(),
        ..recurring(&tenant, &held)
    };
    let (late, early, done, tied) = (record(&[9, 30]), record(&[3]), record(&[]), record(&[9]));
    let waiting = BillingRecord { late_until: Some(at(4)), ..record(&[]) };
    let records = [late.clone(), early.clone(), done, tied.clone(), waiting.clone()];
    tenant.customer(holder.key, |tx, _| tx.billing_records().insert(holder.key, &records));
    let open = tenant.look(|tx, _| tx.billing_records().list_open(holder.key));
    assert_eq!(open, [early, waiting, late, tied], "by instant, then in order of making; none that is done with");
    let other = tenant.new_customer("other");
    assert_eq!(tenant.look(|tx, _| tx.billing_records().list_open(other.key)), []);
}

pub(super) fn lists_open_records_of_many(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (holder, held) = holder_of_a_subscription(&tenant);
    let (open, mut done) = (recurring(&tenant, &held), recurring(&tenant, &held));
    done.invoicing_instants.clear();
    tenant.customer(holder.key, |tx, _| tx.billing_records().insert(holder.key, &[open.clone(), done.clone()]));
    let other = tenant.new_customer("other");
    let list = |customers: &[CustomerKey]| tenant.look(|tx, _| tx.billing_records().list_open_of(customers));
    assert_eq!(list(&[other.key, holder.key]), [open], "what is open, of whoever has something");
    assert_eq!((list(&[other.key]), list(&[])), (vec![], vec![]));
}

pub(super) fn says_what_is_fully_billed(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (holder, held) = holder_of_a_subscription(&tenant);
    let is_billed = || {
        let listed = tenant.look(|tx, _| tx.subscriptions().list_with_billing(&[holder.key]));
        listed.into_iter().map(|(subscription, is_billed)| (subscription.id, is_billed)).collect::<Vec<_>>()
    };
    let (mut open, mut done) = (recurring(&tenant, &held), recurring(&tenant, &held));
    done.invoicing_instants.clear();
    done.late_until = Some(held.period.end());
    tenant.customer(holder.key, |tx, _| tx.billing_records().insert(holder.key, &[open.clone(), done.clone()]));
    assert_eq!(is_billed(), [(held.id, false)], "one record is left");
    tenant.customer(holder.key, |tx, _| {
        open = tx.billing_records().list_open(holder.key)?.remove(0);
        open.pass(held.period.end());
        tx.billing_records().update(holder.key, &open)
    });
    assert_eq!(is_billed(), [(held.id, true)]);
}
