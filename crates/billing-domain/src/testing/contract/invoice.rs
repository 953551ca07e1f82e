//! Invoices.

use std::collections::BTreeMap;

use time::Duration;

use super::billing_record::holder_of_a_subscription;
use super::{Harness, Tenant};
use crate::address::Address;
use crate::adjustment;
use crate::credit::Drawdown;
use crate::currency::Currency;
use crate::customer::Customer;
use crate::error::{Error, Noun};
use crate::id::{CustomerKey, SubscriptionId};
use crate::invoice::{
    Adjustment, AdjustmentBasis, BilledTo, BillingType, Invoice, LineItem, MetricTrace, NewInvoice, PaymentStatus,
    PlanVersionBrief, PrepaidSegmentTrace, Rounding, Seller, Trace, number,
};
use crate::metric::{CategoricalFilter, CategoricalOperator, NumericFilter, NumericOperator};
use crate::period::{Fraction, Period};
use crate::plan::{ChargeBehavior, ChargeTiming, PlanVersion};
use crate::store::{InvoiceFilter, PageRequest, Scope};
use crate::tax::TaxProvider;
use crate::testing::build::{Ids, days_from, invoice, line, payment};
use crate::testing::world::{decimal, filters, tiers};

pub(super) fn counts_without_gaps(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    let acme = tenant.new_customer("acme");
    let at = acme.created_at;
    let blank = |tenant: &Tenant<'_>| tenant.build(|ids| invoice(ids, &acme, at, vec![line("fee", "1.10", at)]));
    let sequence = |number: &str| number.split_once('-').map(|(_, sequence)| sequence.to_owned());
    let numbers = |tenant: &Tenant<'_>| {
        let all = tenant.look(|tx, _| tx.invoices().list(&InvoiceFilter::default(), &PageRequest::first())).items;
        let mut numbers: Vec<_> = all.into_iter().map(|invoice| (invoice.id, invoice.number)).collect();
        numbers.sort();
        numbers.into_iter().filter_map(|(_, number)| sequence(&number)).collect::<Vec<_>>()
    };
    tenant.customer(acme.key, |tx, _| tx.invoices().issue(blank(&tenant)));
    let failed = tenant.try_customer(acme.key, |tx, _| {
        let made = blank(&tenant);
        tx.invoices().issue(made.clone())?;
        assert_eq!(tx.invoices().get(made.id)?, made.numbered(2), "it can be read at once");
        Err::<(), _>(Error::NotFound(Noun::Invoice))
    });
    assert!(failed.is_err());
    assert_eq!(numbers(&tenant), ["000001"], "one that failed has left no trace");
    tenant.customer(acme.key, |tx, _| {
        tx.invoices().issue(blank(&tenant))?;
        tx.invoices().issue(blank(&tenant))?;
        assert_eq!(tx.invoices().list(&InvoiceFilter::default(), &PageRequest::first())?.items.len(), 3);
        tx.invoices().issue(blank(&tenant))
    });
    assert_eq!(
        numbers(&tenant),
        ["000001", "000002", "000003", "000004"],
        "a number that was not used is given again, and one transaction may take several, in order"
    );
    let elsewhere = other.new_customer("acme");
    let made = other.build(|ids| invoice(ids, &elsewhere, at, vec![line("fee", "1.10", at)]));
    other.customer(elsewhere.key, |tx, _| tx.invoices().issue(made.clone()));
    assert_eq!(numbers(&other), ["000001"], "each organization its own");
}

fn rounding(amount: &str) -> Rounding {
    Rounding {
        exact_so_far: decimal("3.333333333333333"),
        given_before: decimal("0"),
        forgiven: decimal("0.5"),
        decimals: 2,
        amount: decimal(amount),
    }
}

fn traces(ids: &mut Ids, window: Period) -> Vec<Trace> {
    let metric = MetricTrace {
        metric_id: ids.next(),
        metric_name: "calls".to_owned(),
        event_name: "api_call".to_owned(),
        metric_type: "gauge".to_owned(),
        aggregation_type: "max".to_owned(),
        event_type: Some("delta".to_owned()),
        granularity: Some("months".to_owned()),
        proration: None,
        property_name: Some("amount".to_owned()),
        custom_sql: None,
        numeric_filters: vec![NumericFilter {
            property_name: "amount".to_owned(),
            operator: NumericOperator::Lt,
            comparison_value: decimal("123456789012345678901234567890.5"),
        }],
        categorical_filters: vec![CategoricalFilter {
            property_name: "tier".to_owned(),
            operator: CategoricalOperator::IsNotIn,
            comparison_value: vec!["free".to_owned(), String::new()],
        }],
        subscription_filters: filters(&[("region", "eu")]),
    };
    let fraction = Fraction { numerator: 1, denominator: 2_592_000_000_000 };
    let rating =
        tiers(&[("0", "10", "free"), ("10", "100", "flat 2"), ("100", "", "0.01 per 3")]).rate(&decimal("250"));
    vec![
        Trace::RecurringCharge {
            flat_fee_behavior: None,
            charge_name: "base".to_owned(),
            unit_amount: decimal("10.000"),
            quantity: 3,
            charge_timing: ChargeTiming::InAdvance,
            charge_behavior: ChargeBehavior::Prorate,
            window,
            fraction,
            charged_before_switch: decimal("12.5"),
            rounding: rounding("3.33"),
        },
        Trace::UsageHandedOn { metric: metric.clone(), window, rounding: rounding("-3.33") },
        Trace::UsageCharge {
            metric: metric.clone(),
            window,
            event_count: u64::from(u32::MAX) + 1,
            last_arrival: u64::from(u32::MAX) + 2,
            quantity: decimal("250.000000000000000000001"),
            billed_before: Some(decimal("249.5")),
            rating: rating.clone(),
            prepaid_amount: decimal("0"),
            rounding: rounding("3.33"),
        },
        Trace::PrepaidUsageCharge {
            metric,
            charge_behavior: ChargeBehavior::Full,
            segments: vec![PrepaidSegmentTrace { window, fraction, rating }],
            rounding: rounding("3.33"),
        },
        Trace::PlanAdjustment,
        Trace::CreditApplied { drawdowns: vec![Drawdown { credit: ids.next(), amount: decimal("1.25") }] },
        Trace::CreditGranted { credit_id: ids.next() },
        Trace::OneOff {
            one_off_line_id: ids.next(),
            quantity: Some(decimal("3")),
            unit_amount: Some(decimal("0.333333333333333")),
            is_taxed: true,
            created_at: window.start() + Duration::MICROSECOND,
        },
    ]
}

fn full_lines(tenant: &Tenant<'_>, version: &PlanVersion, at: time::OffsetDateTime) -> Vec<LineItem> {
    let tax = Adjustment {
        amount: decimal("0.01"),
        basis: AdjustmentBasis::SalesTax {
            rate: decimal("7.7"),
            provider: Some(TaxProvider::Http),
            taxable: decimal("0.10"),
            rounding: rounding("0.01"),
        },
    };
    let discount = Adjustment {
        amount: decimal("-1"),
        basis: AdjustmentBasis::PlanAdjustment {
            name: "loyal".to_owned(),
            rule: adjustment::PriceAdjustment::Percentage { percent: decimal("-10") },
            charges_so_far: decimal("10"),
            target: decimal("9.000000000000001"),
            given_before: decimal("0"),
        },
    };
    let plan = PlanVersionBrief {
        plan_name: "Gold".to_owned(),
        plan_id: version.plan,
        version_id: version.id,
        version: version.number,
    };
    let types = BillingType::ALL.iter().cycle();
    let traces = tenant.build(|ids| traces(ids, days_from(at, 30)));
    let lines = traces.into_iter().zip(types).enumerate().map(|(n, (trace, billing_type))| LineItem {
        period: days_from(at, 30),
        quantity: (n % 2 == 0).then(|| decimal("250.000000000000000000001")),
        billing_type: *billing_type,
        plan: (n % 2 == 0).then(|| plan.clone()),
        filters: filters(&[("region", "eu")]),
        base: decimal("10.99"),
        adjustments: vec![discount.clone(), tax.clone()],
        trace,
        ..line(&format!("line {n}"), "10.00", at)
    });
    lines.collect()
}

pub(super) fn keeps_every_line(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (_, version) = tenant.new_plan("gold");
    let acme = tenant.new_customer("acme");
    let at = acme.created_at;
    let address = Address {
        city: "Bern".to_owned(),
        country: "CH".to_owned(),
        line1: "1 Street".to_owned(),
        line2: None,
        postal_code: "3000".to_owned(),
        state: None,
    };
    let lines = full_lines(&tenant, &version, at);
    let made = NewInvoice {
        billed_to: BilledTo {
            name: Some("Acme".to_owned()),
            email: Some("a@acme.io".to_owned()),
            address: Some(address.clone()),
            customer_id: "acme".to_owned(),
        },
        seller: Seller { name: "Seller".to_owned(), address: Some(address) },
        due_at: Some(at + Duration::days(30)),
        ..tenant.build(|ids| invoice(ids, &acme, at, lines))
    };
    tenant.customer(acme.key, |tx, _| tx.invoices().issue(made.clone()));
    let made = made.numbered(1);
    assert_eq!(tenant.look(|tx, _| tx.invoices().get(made.id)), made);
    assert_eq!(tenant.look(|tx, _| tx.invoices().find_by_number(&made.number)), Some(made.id));
    assert_eq!(tenant.look(|tx, _| tx.invoices().find_by_number(&number(at, 2))), None);
    let absent = tenant.build(Ids::next);
    let missing = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.invoices().get(absent));
    assert_eq!(missing, Err(Error::NotFound(Noun::Invoice)));
}

/// Issues an invoice of 3.30, the `sequence`th of its organization, and notes its payment status.
pub(super) fn issue(
    tenant: &Tenant<'_>,
    customer: &Customer,
    sequence: u64,
    age_days: i64,
    status: PaymentStatus,
) -> Invoice {
    let at = customer.created_at - Duration::days(age_days);
    let made = tenant.build(|ids| invoice(ids, customer, at, vec![line("fee", "1.10", at), line("fee", "2.20", at)]));
    let mut issued = made.clone().numbered(sequence);
    let paid = (status == PaymentStatus::Paid).then(|| tenant.build(|ids| payment(ids, made.id, "3.30", at)));
    paid.iter().for_each(|paid| issued.settle(&paid.amount));
    if status == PaymentStatus::Voided {
        (issued.payment_status, issued.voided_at) = (status, Some(at));
    }
    tenant.customer(customer.key, |tx, _| {
        tx.invoices().issue(made.clone())?;
        match &paid {
            Some(paid) => tx.invoices().add_payment(customer.key, paid),
            None => tx.invoices().update(&issued),
        }
    });
    issued
}

pub(super) fn lists_newest_first(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (acme, other) = (tenant.new_customer("acme"), tenant.new_customer("other"));
    let other = Customer { created_at: acme.created_at, ..other };
    let old = issue(&tenant, &acme, 1, 9, PaymentStatus::Paid);
    let new = issue(&tenant, &other, 2, 0, PaymentStatus::Unpaid);
    let middle = issue(&tenant, &acme, 3, 5, PaymentStatus::Unpaid);
    let tied = issue(&tenant, &acme, 4, 5, PaymentStatus::Unpaid);
    let all = [new, tied, middle, old];
    let everything = InvoiceFilter::default();
    let list = |limit, after| {
        tenant.look(|tx, _| tx.invoices().list(&everything, &PageRequest { limit, after: Option::clone(&after) }))
    };
    assert_eq!(list(10, None).items, all, "the later made first of two that were issued at once");
    let (mut seen, mut after) = (Vec::new(), None);
    for _ in 0..4 {
        let part = list(1, after);
        seen.extend(part.items);
        after = part.next;
    }
    assert_eq!((seen.as_slice(), after), (all.as_slice(), None), "page by page");
}

pub(super) fn lists_by_customer_and_status(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [acme, other, third] = ["acme", "other", "third"].map(|id| tenant.new_customer(id));
    let paid = issue(&tenant, &acme, 1, 3, PaymentStatus::Paid);
    let unpaid = issue(&tenant, &acme, 2, 2, PaymentStatus::Unpaid);
    let voided = issue(&tenant, &acme, 3, 1, PaymentStatus::Voided);
    let others = issue(&tenant, &other, 4, 9, PaymentStatus::Paid);
    #[rustfmt::skip]
    let cases = [
        // customers,                      statuses,                                                  expected
        (Some(vec![acme.key]),             None,                                                      vec![&voided, &unpaid, &paid]),
        (Some(vec![acme.key]),             Some(vec![PaymentStatus::Paid]),                           vec![&paid]),
        (Some(vec![acme.key, other.key]),  None,                                                      vec![&voided, &unpaid, &paid, &others]),
        (Some(vec![other.key, acme.key]),  Some(vec![PaymentStatus::Paid]),                           vec![&paid, &others]),
        (Some(vec![third.key, other.key]), None,                                                      vec![&others]),
        (Some(vec![]),                     None,                                                      vec![]),
        (None,                              Some(vec![PaymentStatus::Paid]),                           vec![&paid, &others]),
        (None,                              Some(vec![PaymentStatus::Unpaid, PaymentStatus::Voided]),  vec![&voided, &unpaid]),
        (None,                              Some(vec![PaymentStatus::Draft]),                          vec![]),
        (None,                              Some(vec![]),                                              vec![]),
    ];
    for (customers, statuses, expected) in cases {
        let filter = InvoiceFilter { customers, statuses };
        let found = tenant.look(|tx, _| tx.invoices().list(&filter, &PageRequest::first())).items;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{filter:?}");
        let (mut seen, mut after) = (Vec::new(), None);
        for _ in 0..=expected.len() {
            let part = tenant
                .look(|tx, _| tx.invoices().list(&filter, &PageRequest { limit: 1, after: Option::clone(&after) }));
            seen.extend(part.items);
            after = part.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "page by page: {filter:?}");
    }
}

pub(super) fn lists_of_many_customers(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [acme, beta, coop] = ["acme", "beta", "coop"].map(|id| tenant.new_customer(id));
    let first = issue(&tenant, &acme, 1, 3, PaymentStatus::Paid);
    let voided = issue(&tenant, &acme, 2, 2, PaymentStatus::Voided);
    let third = issue(&tenant, &beta, 3, 1, PaymentStatus::Unpaid);
    issue(&tenant, &coop, 4, 9, PaymentStatus::Paid);
    let ask = |customers: &[CustomerKey], statuses: &[PaymentStatus]| {
        tenant.look(|tx, _| tx.invoices().list_of(customers, statuses, 1_000))
    };
    let statuses = [PaymentStatus::Paid, PaymentStatus::Unpaid];
    assert_eq!(ask(&[acme.key, beta.key], &statuses), [third.summary(), first.summary()], "newest first");
    assert_eq!(ask(&[beta.key, acme.key], &[PaymentStatus::Paid]), [first.summary()]);
    let void = ask(&[acme.key], &[PaymentStatus::Voided]);
    assert!(void[0].voided_at.is_some(), "when it was voided");
    assert_eq!(void, [voided.summary()]);
    assert_eq!((ask(&[], &statuses), ask(&[acme.key], &[])), (vec![], vec![]));
}

pub(super) fn lists_the_newest_of_each_customer(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (acme, beta) = (tenant.new_customer("acme"), tenant.new_customer("beta"));
    issue(&tenant, &acme, 1, 9, PaymentStatus::Unpaid);
    let older = issue(&tenant, &acme, 2, 8, PaymentStatus::Unpaid);
    let newer = issue(&tenant, &acme, 3, 4, PaymentStatus::Paid);
    let only = issue(&tenant, &beta, 4, 6, PaymentStatus::Unpaid);
    issue(&tenant, &acme, 5, 1, PaymentStatus::Voided);
    let statuses = [PaymentStatus::Paid, PaymentStatus::Unpaid];
    let newest = |each: u32| {
        let customers = [acme.key, beta.key];
        tenant.look(|tx, _| tx.invoices().list_of(&customers, &statuses, each))
    };
    assert_eq!(newest(1), [newer.summary(), only.summary()], "one of each");
    assert_eq!(newest(2), [newer.summary(), only.summary(), older.summary()], "two where there are two");
    assert_eq!(newest(0), [], "none at all");
}

pub(super) fn sums_what_is_due(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [acme, beta, coop] = ["acme", "beta", "coop"].map(|id| tenant.new_customer(id));
    let first = issue(&tenant, &acme, 1, 3, PaymentStatus::Unpaid);
    let second = issue(&tenant, &acme, 2, 2, PaymentStatus::Unpaid);
    issue(&tenant, &acme, 3, 2, PaymentStatus::Paid);
    issue(&tenant, &beta, 4, 2, PaymentStatus::Voided);
    issue(&tenant, &coop, 5, 2, PaymentStatus::Unpaid);
    let mut euros =
        tenant.build(|ids| invoice(ids, &acme, acme.created_at, vec![line("fee", "7.25", acme.created_at)]));
    euros.currency = Currency::iso_4217("EUR").expect("a currency");
    tenant.customer(acme.key, |tx, _| tx.invoices().issue(euros.clone()));
    let due = tenant.look(|tx, _| tx.invoices().due_of(&[acme.key, beta.key]));
    let expected = [("EUR".to_owned(), euros.amount()), ("USD".to_owned(), first.amount + second.amount)];
    assert_eq!(due.into_iter().collect::<Vec<_>>(), [(acme.key, BTreeMap::from(expected))], "each on its own");
    assert!(tenant.look(|tx, _| tx.invoices().due_of(&[])).is_empty());
}

pub(super) fn lists_by_the_days_of_charges(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (holder, held) = holder_of_a_subscription(&tenant);
    let charged = charge_for_days(&tenant, &holder, held.id);
    let today = holder.created_at.date();
    let expected = (today - Duration::days(20), today - Duration::days(2));
    let found = tenant.look(|tx, _| tx.invoices().list_of(&[holder.key], &[PaymentStatus::Unpaid], 1));
    assert_eq!(found.iter().map(|one| (one.start_date, one.end_date)).collect::<Vec<_>>(), [expected]);
    assert_eq!(found, [charged.summary()], "one charge is for no time");
}

/// An unpaid invoice with charges for the days from the twentieth before today to the second.
fn charge_for_days(tenant: &Tenant<'_>, customer: &Customer, id: SubscriptionId) -> Invoice {
    let today = customer.created_at.date().midnight().assume_utc();
    let ago = Duration::days;
    let charge = |from: i64, to: i64| LineItem {
        period: Period::new(today - ago(from), today - ago(to)).expect("a period"),
        subscription: Some(id),
        ..line("usage", "1.50", today)
    };
    let lines = vec![charge(20, 10), charge(3, 3), charge(12, 1), line("fee", "1.10", today)];
    let made = tenant.build(|ids| invoice(ids, customer, today, lines));
    tenant.customer(customer.key, |tx, _| tx.invoices().issue(made.clone()));
    made.numbered(1)
}
