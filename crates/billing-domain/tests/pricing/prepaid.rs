use billing_domain::BigDecimal;
use billing_domain::charge::{Billed, BillingRecord, ChargeRef, Charged, Prepaid, PrepaidSegment};
use billing_domain::decimal::plain;
use billing_domain::metric::Metric;
use billing_domain::period::Period;
use billing_domain::plan::{ChargeBehavior, Component, PrepaidCharge};
use billing_domain::subscription::SubscriptionFilters;
use billing_domain::testing::build::{self, Ids, days_from};
use billing_domain::usage::Usage;
use time::{Duration, OffsetDateTime};

use super::{instant, number, table};
use crate::tiers::schedule;

const SPANS: &str = "| prepaid tiers | behaviour | spans | K | used | usage due |";
const CHANGES: &str = "| prepaid tiers | behaviour | units | billed at each |";
pub const TABLES: [&str; 2] = [SPANS, CHANGES];

const DECIMALS: u8 = 2;

/// One record of prepaid units over a week, and what it takes to bill it.
struct Week {
    start: OffsetDateTime,
    component: Component,
    metric: Metric,
    record: BillingRecord,
}

impl Week {
    fn new(tiers: &str, behavior: &str) -> Self {
        let (mut ids, start) = (Ids::new(1), instant("2026-01-01"));
        let metric = build::count_metric(&mut ids, "seat", start);
        let mut component = build::component(&mut ids, metric.id);
        component.tiers = schedule(tiers, false);
        let behavior = match behavior {
            "full" => ChargeBehavior::Full,
            "prorate" => ChargeBehavior::Prorate,
            other => panic!("{other} is not a behaviour"),
        };
        component.prepaid_charge = Some(PrepaidCharge { units: None, behavior });
        let plan = build::plan(&mut ids, "Pro", start);
        let version = build::plan_version(&mut ids, &plan, start);
        let customer = build::customer(ids.next(), "acme", start).key;
        let subscription = build::subscription(&mut ids, customer, &version, days_from(start, 7));
        let record = build::billing_record(&mut ids, &subscription, ChargeRef::Component(component.id));
        let record =
            BillingRecord { prepaid: Some(Prepaid { segments: Vec::new(), billed: Billed::default() }), ..record };
        Self { start, component, metric, record }
    }

    fn segment(&self, units: &str, from: i64, to: i64) -> PrepaidSegment {
        let at = |day| self.start + Duration::days(day);
        PrepaidSegment::new(number(units), Period::new(at(from), at(to)).expect("a period"))
    }

    fn bill_prepaid(&mut self) -> BigDecimal {
        let charged = self.record.charge_prepaid(&self.component, &self.metric, &SubscriptionFilters::none(), DECIMALS);
        charged.map_or_else(BigDecimal::default, |charged| charged.amount)
    }

    fn bill_usage(&mut self, quantity: &str) -> Charged {
        let usage = Usage { quantity: number(quantity), event_count: 1 }.seen_to(1);
        let at = self.record.period.end();
        self.record.charge_usage(&self.component, &self.metric, &SubscriptionFilters::none(), &usage, DECIMALS, at)
    }
}

#[test]
fn prepaid_units_are_subtracted_from_usage() {
    for row in table(SPANS) {
        let mut week = Week::new(&row[0], &row[1]);
        let (mut segments, mut from) = (Vec::new(), 0);
        for span in row[2].split(", ") {
            let (units, days) = span.split_once('x').expect("units x days");
            let to = from + days.parse::<i64>().expect("days");
            segments.push(week.segment(units, from, to));
            from = to;
        }
        week.record.prepaid.as_mut().expect("it has prepaid units").segments = segments;
        let found = (plain(&week.bill_prepaid()), plain(&week.bill_usage(&row[4]).amount));
        assert_eq!(found, (row[3].clone(), row[5].clone()), "{row:?}");
    }
}

#[test]
fn a_change_of_prepaid_units_bills_the_difference() {
    for row in table(CHANGES) {
        let mut week = Week::new(&row[0], &row[1]);
        let mut billed = Vec::new();
        for change in row[2].split(", ") {
            let (units, day) = change.split_once(" from day ").expect("units from day n");
            let from = week.start + Duration::days(day.parse().expect("a day"));
            week.record.change_prepaid_units(&number(units), from);
            billed.push(plain(&week.bill_prepaid()));
        }
        assert_eq!(billed.join(", "), row[3], "{row:?}");
    }
}
