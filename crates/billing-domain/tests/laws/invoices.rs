//! Laws of whole lives: random plans, random usage, random changes, billed by the workflows of the service.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, Zero};
use billing_domain::id::SubscriptionId;
use billing_domain::invoice::{AdjustmentBasis, AdjustmentKind, Invoice, LineItem, PaymentStatus, Trace};
use billing_domain::money::round_half_away_from_zero;
use billing_domain::period::Period;
use proptest::prelude::*;
use serde_json::Value;
use time::{Duration, OffsetDateTime};

use crate::laws;
use crate::life::{Books, DAYS, Recorded, START, any_life, end};
use crate::recompute::{check, exact, in_minor_units};

/// An invoice is the sum of its lines, is never below nothing, and each line follows from its trace; numbers have no
/// gap, time goes on.
fn adds_up_and_explains_itself(books: &Books) {
    for (sequence, invoice) in (1_u64..).zip(&books.invoices) {
        let decimals = invoice.currency.decimals;
        let sum: BigInt = invoice.lines.iter().map(|line| in_minor_units(&line.amount, decimals)).sum();
        assert_eq!(in_minor_units(&invoice.amount, decimals), sum);
        assert!(invoice.amount >= BigDecimal::zero(), "less than nothing becomes a credit");
        let is_settled = invoice.payment_status == PaymentStatus::Paid;
        assert!(invoice.payment_status == PaymentStatus::Voided || is_settled == invoice.amount.is_zero());
        assert!(invoice.number.ends_with(&format!("-{sequence:06}")), "{}: no gap", invoice.number);
        invoice.lines.iter().for_each(|line| check(line, decimals));
    }
    assert!(books.invoices.is_sorted_by_key(|invoice| invoice.issued_at));
}

/// The price adjustments of a subscription on one invoice bring its period to the target, to the last digit.
fn adjustments_bring_the_period_to_its_target(invoice: &Invoice) {
    let mut sums: BTreeMap<SubscriptionId, (BigDecimal, BigDecimal)> = BTreeMap::new();
    for line in &invoice.lines {
        for adjustment in &line.adjustments {
            let AdjustmentBasis::PlanAdjustment { charges_so_far, target, given_before, .. } = &adjustment.basis else {
                continue;
            };
            let owed = round_half_away_from_zero(target, invoice.currency.decimals) - charges_so_far - given_before;
            let (sum, last) = sums.entry(line.subscription.expect("a charge")).or_default();
            *sum += &adjustment.amount;
            *last = owed;
        }
    }
    for (id, (sum, owed)) in sums {
        assert_eq!(sum, owed, "{id} on {}", invoice.number);
    }
}

/// What comes back never exceeds what was billed and not voided: the base for each charge, adjustments and tax for each
/// period of a subscription.
fn nothing_comes_back_that_was_not_paid(books: &Books) {
    let mut paid: BTreeMap<String, BigDecimal> = BTreeMap::new();
    let mut add = |what: String, amount: &BigDecimal, line: &LineItem| {
        let so_far = paid.entry(what).or_default();
        *so_far += amount;
        assert!(*so_far >= BigDecimal::zero(), "{}: {so_far} after {line:?}", line.name);
    };
    for invoice in books.invoices.iter().filter(|invoice| invoice.payment_status != PaymentStatus::Voided) {
        let mut periods: BTreeMap<SubscriptionId, (BigDecimal, BigDecimal, &LineItem)> = BTreeMap::new();
        for line in &invoice.lines {
            let Some(subscription) = line.subscription else { continue };
            if let Some(record) = line.record {
                let is_prepaid = matches!(line.trace, Trace::PrepaidUsageCharge { .. });
                add(format!("{record} {is_prepaid}"), &line.base, line);
            }
            let taxes = line.adjustments.iter().filter(|adjustment| adjustment.kind() == AdjustmentKind::SalesTax);
            let tax: BigDecimal = taxes.map(|tax| &tax.amount).sum();
            let period = periods.entry(subscription).or_insert_with(|| (BigDecimal::zero(), BigDecimal::zero(), line));
            period.0 += &line.amount - &tax;
            period.1 += tax;
        }
        for (subscription, (adjusted, tax, line)) in periods {
            add(format!("{subscription} adjusted"), &adjusted, line);
            add(format!("{subscription} tax"), &tax, line);
        }
    }
}

/// What is paid by time comes to the price of the time that the subscription lasted, whatever was paid in advance: once
/// the period is over that settles it. Prepaid units are those of the record: no line tells of a change that comes to
/// less than a minor unit.
fn only_its_own_time_is_paid(books: &Books) {
    let mut paid: BTreeMap<String, (BigDecimal, &LineItem)> = BTreeMap::new();
    let voided = books.invoices.iter().filter(|invoice| invoice.payment_status == PaymentStatus::Voided);
    let forgiven: BTreeSet<_> = voided.flat_map(|invoice| &invoice.lines).filter_map(|line| line.record).collect();
    let lines = books.invoices.iter().flat_map(|invoice| &invoice.lines);
    for line in lines.filter(|line| line.record.is_none_or(|record| !forgiven.contains(&record))) {
        if let Some(record) = line.record {
            let is_by_time = matches!(line.trace, Trace::RecurringCharge { .. } | Trace::PrepaidUsageCharge { .. });
            let (sum, last) =
                paid.entry(format!("{record} {is_by_time}")).or_insert_with(|| (BigDecimal::zero(), line));
            *sum += &line.base;
            *last = line;
        }
    }
    for (sum, last) in paid.into_values() {
        let Recorded { subscription, segments } = &books.records[&last.record.expect("a charge")];
        let mut trace = serde_json::to_value(&last.trace).expect("json");
        let cancellation = subscription.cancellation.unwrap_or_default();
        let is_by_time = match trace["kind"].as_str() {
            Some("recurring_charge") => cancellation.flat_fee_behavior.is_none(),
            _ => true,
        };
        let is_settled = subscription.full.end() + Duration::days(1) < end();
        if trace["charge_behavior"] != "prorate" || !is_by_time || !is_settled {
            continue;
        }
        if trace["kind"] == "prepaid_usage_charge" {
            trace["segments"].clone_from(segments);
        }
        match trace["segments"].as_array_mut() {
            Some(segments) => segments.iter_mut().for_each(|segment| cut_at(segment, subscription.period.end())),
            None => cut_at(&mut trace, subscription.period.end()),
        }
        let decimals = u8::try_from(trace["rounding"]["decimals"].as_u64().expect("a number")).expect("a few");
        let price = exact(&trace).expect("a charge").rounded(decimals.into());
        assert_eq!(in_minor_units(&sum, decimals), price, "{subscription:?}");
    }
}

/// Lets the fraction of a traced part count no time from `end` on.
fn cut_at(part: &mut Value, end: OffsetDateTime) {
    let window: Period = serde_json::from_value(part["window"].clone()).expect("a window");
    let beyond = (window.end() - end.max(window.start())).max(Duration::ZERO).whole_microseconds();
    let counted: i128 = part["fraction"]["numerator"].to_string().parse().expect("microseconds");
    part["fraction"]["numerator"] = serde_json::from_str(&(counted - beyond).to_string()).expect("a number");
}

/// What invoices drew from credits and gave back as credits is what the credits say, and every credit balances.
fn credits_balance(books: &Books) {
    let (mut granted, mut drawn) = (BigDecimal::zero(), BigDecimal::zero());
    let standing = books.invoices.iter().filter(|invoice| invoice.payment_status != PaymentStatus::Voided);
    for line in standing.flat_map(|invoice| &invoice.lines) {
        match line.trace {
            Trace::CreditGranted { .. } => granted += &line.amount,
            Trace::CreditApplied { .. } => drawn -= &line.amount,
            _ => {}
        }
    }
    let (mut granted_by_invoices, mut used) = (BigDecimal::zero(), BigDecimal::zero());
    for ledger in &books.credits {
        let (credit, balance) = (ledger.credit(), ledger.balance());
        let net = &balance.drawn - &balance.restored;
        let parts = [&balance.remaining(), &net, &balance.voided, &balance.expired];
        assert!(parts.iter().all(|part| **part >= BigDecimal::zero()), "{balance:?}");
        assert_eq!(credit.amount, parts.into_iter().sum::<BigDecimal>());
        used += net;
        // Only the one that the customer began with expires.
        if credit.expires_at.is_none() {
            granted_by_invoices += &credit.amount;
        }
    }
    assert_eq!((granted, drawn), (granted_by_invoices, used));
}

proptest! {
    #![proptest_config(laws())]

    #[test]
    fn the_books_of_any_life_balance(life in any_life()) {
        let books = life.books(&[end()]);
        adds_up_and_explains_itself(&books);
        books.invoices.iter().for_each(adjustments_bring_the_period_to_its_target);
        nothing_comes_back_that_was_not_paid(&books);
        only_its_own_time_is_paid(&books);
        credits_balance(&books);
    }

    #[test]
    fn billing_in_steps_is_billing_at_once(
        life in any_life(),
        mut minutes in prop::collection::vec(0..DAYS * 24 * 60, 0..12),
    ) {
        minutes.sort_unstable();
        let mut runs: Vec<_> = minutes.into_iter().map(|minutes| START + Duration::minutes(minutes)).collect();
        runs.push(end());
        let (in_steps, at_once) = (life.books(&runs), life.books(&[end()]));
        prop_assert_eq!(in_steps, at_once);
    }

    #[test]
    fn billing_in_parts_is_billing_at_once(
        life in any_life(),
        minutes in prop::option::of(0..DAYS * 24 * 60),
        work_max in 0..5_usize,
    ) {
        let mut runs: Vec<_> = minutes.map(|minutes| START + Duration::minutes(minutes)).into_iter().collect();
        runs.push(end());
        let (in_parts, at_once) = (life.books_in_parts(&runs, work_max), life.books(&[end()]));
        prop_assert_eq!(in_parts, at_once);
    }
}
