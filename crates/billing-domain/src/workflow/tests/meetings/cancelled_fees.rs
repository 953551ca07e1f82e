//! Cancellations of adjusted fees: `charge_full` leaves what the fee would have come to, `refund` nothing of it.

use time::OffsetDateTime;
use time::macros::datetime;

use super::{Life, adjusted, every};
use crate::period::Interval;
use crate::period::IntervalUnit::{Day, Week};
use crate::plan::ChargeBehavior::{Full, Prorate};
use crate::plan::ChargeTiming::{self, InAdvance, InArrears};
use crate::plan::PriceAdjustmentKind::{self, Fixed, Percentage, PriceOverride};
use crate::subscription::FlatFeeBehavior::{ChargeFull, ChargeProrated, Refund};
use crate::subscription::InvoicingBehavior::{AddToNextInvoice, InvoiceNow};
use crate::subscription::UsageBehavior::{BillFull, BillNone};
use crate::testing::world::{component, fee, prepaid_component, tiers, version};

/// A month of 30 days, and the end of its first third.
const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const CANCELLED: OffsetDateTime = datetime!(2024-04-11 00:00 UTC);

fn life(adjustment: Option<(PriceAdjustmentKind, &str)>, timing: ChargeTiming) -> Life {
    Life::monthly(START, |world| {
        let calls = world.metric("call", None).id;
        let priced = version(vec![fee("30", timing)], vec![component(calls, tiers(&[("0", "", "1")]))]);
        match adjustment {
            Some((kind, amount)) => adjusted(priced, kind, amount),
            None => priced,
        }
    })
}

#[test]
fn what_an_adjusted_fee_comes_to_after_ten_of_thirty_days() {
    #[rustfmt::skip]
    let cases = [
        // adjustment,                 behavior,             calls, paid,    why
        (None,                         Some(ChargeFull),     0,     "30",    "all of it"),
        (None,                         Some(Refund),         0,     "0",     "nothing of it"),
        (None,                         None,                 0,     "10",    "a third"),
        (Some((Percentage, "-10")),    Some(ChargeFull),     0,     "27",    "all of it, less ten percent"),
        (Some((Percentage, "-10")),    Some(Refund),         0,     "0",     "nothing"),
        (Some((Fixed, "-10")),         Some(ChargeFull),     0,     "20",    "the whole discount: it is not prorated"),
        (Some((Fixed, "-10")),         Some(ChargeProrated), 0,     "6.67",  "a third of both"),
        (Some((Fixed, "-10")),         Some(Refund),         0,     "0",     "a discount on nothing is nothing"),
        (Some((Fixed, "-10")),         Some(Refund),         9,     "5.67",  "9 for the calls, less a third of the discount"),
        (Some((PriceOverride, "20")),  Some(ChargeFull),     0,     "20",    "the whole price"),
        (Some((PriceOverride, "20")),  Some(ChargeProrated), 0,     "6.67",  "a third of it"),
        (Some((PriceOverride, "20")),  Some(Refund),         0,     "0",     "no charge is left that it could be the price of"),
        (Some((PriceOverride, "20")),  Some(Refund),         9,     "6.67",  "as if there were only the calls"),
    ];
    for (adjustment, behavior, calls, paid, why) in cases {
        for timing in [InAdvance, InArrears] {
            for invoicing in [InvoiceNow, AddToNextInvoice] {
                let life = life(adjustment, timing);
                life.world.track_many("acme", "call", START, calls);
                life.at(CANCELLED);
                life.cancel_by(behavior, BillFull, invoicing);
                life.at(datetime!(2024-05-02 00:00 UTC));
                assert_eq!(life.paid(), paid, "{why}, {timing:?}, {invoicing:?}");
            }
        }
    }
}

#[test]
fn nothing_of_the_period_s_fee_stays_after_a_refund_whatever_the_instants() {
    let invoicing: [Option<Interval>; 3] = [None, every(1, Week), every(3, Day)];
    for invoicing_interval in invoicing {
        for (reset_interval, timing, behavior) in
            [(every(1, Week), InArrears, Prorate), (every(1, Week), InAdvance, Full), (None, InArrears, Prorate)]
        {
            let life = Life::monthly(START, |_| {
                let mut fee = fee("7", timing);
                (fee.reset_interval, fee.invoicing_interval, fee.behavior) =
                    (reset_interval, invoicing_interval, behavior);
                version(vec![fee], Vec::new())
            });
            life.at(CANCELLED);
            life.cancel(Some(Refund));
            assert_eq!(life.paid(), "0", "{reset_interval:?} invoiced {invoicing_interval:?}, {timing:?}");
        }
    }
}

#[test]
fn earlier_periods_stay() {
    for behavior in [Refund, ChargeFull] {
        let life = life(None, InArrears);
        life.at(datetime!(2024-05-01 00:30 UTC));
        let renewed = life.world.subscriptions("acme").pop().expect("renewed").id;
        let life = Life { id: renewed, ..life };
        life.at(datetime!(2024-05-11 00:00 UTC));
        life.cancel(Some(behavior));
        let paid = if behavior == Refund { "30" } else { "60" };
        assert_eq!(life.paid(), paid, "{behavior:?}: April was not cancelled");
    }
}

#[test]
fn dropped_usage_leaves_prepaid_units_as_they_are_without_it() {
    #[rustfmt::skip]
    let cases = [
        // behavior, usage,    paid,   why
        (Prorate,    BillFull, "103.33", "10 of 30 days of 10, and 100 calls beyond them"),
        (Prorate,    BillNone, "3.33",  "the time to come is not paid for, used or not"),
        (Full,       BillFull, "110",   "whole units stay"),
        (Full,       BillNone, "10",    "whatever was used"),
    ];
    for (behavior, usage, paid, why) in cases {
        let life = Life::monthly(START, |world| {
            let calls = world.metric("call", None).id;
            let first = tiers(&[("0", "10", "1"), ("10", "", "1")]);
            version(Vec::new(), vec![prepaid_component(calls, first, "10", behavior)])
        });
        let calls = if behavior == Full { 110 } else { 103 };
        life.world.track_many("acme", "call", START, calls);
        life.at(CANCELLED);
        life.cancel_by(None, usage, InvoiceNow);
        life.at(datetime!(2024-06-30 00:00 UTC));
        let expected = if behavior == Prorate && usage == BillFull { "103" } else { paid };
        assert_eq!(life.paid(), expected, "{why}");
    }
}
