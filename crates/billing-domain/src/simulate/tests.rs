use time::macros::datetime;

use super::*;
use crate::decimal::plain;
use crate::error::FieldCode;
use crate::plan::{ChargeBehavior, PriceAdjustment, PriceAdjustmentKind};
use crate::subscription::SubscriptionFilters;
use crate::tier::BatchRounding;

fn january() -> Simulation {
    Simulation::between(datetime!(2026-01-01 0:00 UTC), datetime!(2026-02-01 0:00 UTC))
}

fn total(simulation: &Simulation, offer: &Offer) -> String {
    plain(&simulation.price(offer).expect("a bill").total())
}

#[test]
fn prices_a_month_of_steady_usage() {
    let calls = january().steadily("call", 10);
    #[rustfmt::skip]
    let cases = [
        // offer,                                                          price,   why
        (Offer::monthly("a").fee("base", "30"),                            "30",    "no renewal at the end of the span"),
        (Offer::monthly("b").count("call", tiers().per_unit("0.01")),      "3.1",   "310 calls"),
        (Offer::monthly("c").count("call", tiers().free_to("300").per_unit("1")), "10", "10 beyond the free ones"),
        (Offer::monthly("d").count("call", tiers().flat_to("100", "5").per_unit("0.1")), "26", "5 and 210 at 0.1"),
        (Offer::monthly("e").count("call", tiers().per_unit("2").in_batches_of("100", BatchRounding::RoundUp)), "8",
                                                                                    "four started batches"),
        (Offer::monthly("f").count("call", tiers().per_unit_to("100", "1").per_unit("0.1").bulk()), "31",
                                                                                    "the tier of 310 prices them all"),
        (Offer::monthly("g").count("other", tiers().per_unit("1")),        "0",     "events of another name"),
        (Offer::yearly("h").fee("base", "120"),                            "120",   "a year that begins inside is whole"),
        (Offer::monthly("i").in_currency("JPY").count("call", tiers().per_unit("0.01")), "3", "yen have no cents"),
    ];
    for (offer, price, why) in cases {
        assert_eq!(total(&calls, &offer), price, "{}: {why}", offer.name);
    }
}

#[test]
fn options_of_the_subscription_count() {
    let metered = Offer::monthly("a").count("call", tiers().per_unit("0.01"));
    assert_eq!(total(&january().steadily("call", 10).taxed(10.into()), &metered), "3.41");

    let prepaid = Offer::monthly("b").count_prepaid("call", tiers().per_unit("1"), ChargeBehavior::Full);
    let usage = january().steadily("call", 10);
    assert!(usage.price(&prepaid).is_err(), "nobody says how many units");
    assert_eq!(total(&usage.clone().prepaying("call", 300.into()), &prepaid), "310", "300 prepaid and 10 more");
    assert_eq!(total(&usage.prepaying("call", 400.into()), &prepaid), "400", "400 prepaid");

    let eu = Properties::from_iter([("region".to_owned(), "eu".into())]);
    let filters = SubscriptionFilters::new([("region".to_owned(), "eu".to_owned())]).expect("filters");
    let usage = january().steadily("call", 1).filtered(filters);
    assert_eq!(total(&usage, &metered), "0");
    let sums = Offer::monthly("c").sum("upload", "mb", tiers().per_unit("0.5"));
    let upload = Properties::from_iter([("mb".to_owned(), 3.into())]);
    assert_eq!(total(&january().steadily_with("upload", 2, &upload), &sums), "93");
    let usage = usage.steadily_with("eu_call", 1, &eu);
    assert_eq!(total(&usage, &Offer::monthly("d").count("eu_call", tiers().per_unit("1"))), "31");
}

#[cfg(feature = "custom-sql")]
#[test]
fn a_query_is_priced_like_any_metric() {
    let busy_days = "WITH days AS (
            SELECT date_trunc('day', time_created) AS day FROM events
            WHERE event_name = 'call' AND time_created BETWEEN start_date AND end_date
            GROUP BY 1 HAVING COUNT(*) >= 10
        ) SELECT COUNT(*) AS usage_qty FROM days";
    let offer = Offer::monthly("a").custom("busy days", busy_days, tiers().free_to("1").per_unit("2"));
    assert_eq!(total(&january().steadily("call", 10), &offer), "60", "31 busy days, one of them free");
    assert_eq!(total(&january().steadily("call", 9), &offer), "0", "not one");
    assert_eq!(total(&january().steadily("other", 10), &offer), "0", "events of another name");
    let both = offer.count("call", tiers().per_unit("0.01"));
    assert_eq!(total(&january().steadily("call", 10), &both), "63.1", "beside a metric of another kind");

    let failing = "SELECT SUM((properties ->> 'mb')::numeric) AS usage_qty FROM events";
    let offer = Offer::monthly("b").fee("base", "30").custom("megabytes", failing, tiers().per_unit("1"));
    let text = Properties::from_iter([("mb".to_owned(), "many".into())]);
    let bill = january().steadily_with("upload", 1, &text).price(&offer).expect("a bill");
    let names: Vec<_> = bill.invoices().flat_map(|invoice| &invoice.lines).map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["b Flat Fee", "megabytes - Not Billed"], "as it would be on an invoice");

    let refused = january().price(&Offer::monthly("c").custom("naps", "SELECT pg_sleep(1)", tiers().per_unit("1")));
    let Err(Error::Fields(errors)) = refused else { panic!("refused") };
    assert_eq!((errors.0[0].attr.as_str(), errors.0[0].code), ("naps", FieldCode::CustomSqlNotAllowed));
}

#[test]
fn whatever_a_version_can_say_can_be_simulated() {
    let offer = Offer::monthly("a").fee("base", "30").configured(|version| {
        version.price_adjustment = Some(PriceAdjustment {
            name: "deal".to_owned(),
            description: None,
            kind: PriceAdjustmentKind::Percentage,
            amount: (-50).into(),
        });
    });
    assert_eq!(total(&january(), &offer), "15");
}

#[test]
fn every_fault_of_an_offer_is_told() {
    let offer =
        Offer::monthly("a").fee("base", "thirty").count("call", tiers().per_unit_to("5", "1").per_unit_to("3", "x"));
    let Err(Error::Fields(errors)) = january().price(&offer) else { panic!("refused") };
    let attrs: Vec<_> = errors.0.iter().map(|error| (error.attr.as_str(), error.code)).collect();
    assert!(attrs.contains(&("base", FieldCode::Invalid)), "{attrs:?}");
    assert!(attrs.contains(&("call.1", FieldCode::Invalid)), "{attrs:?}");
    assert!(attrs.contains(&("call.1.range_end", FieldCode::Invalid)), "an end before the start: {attrs:?}");
}

#[test]
fn an_empty_span_costs_nothing() {
    let at = datetime!(2026-01-01 0:00 UTC);
    assert_eq!(total(&Simulation::between(at, at), &Offer::monthly("a").fee("base", "30")), "0");
    assert_eq!(total(&Simulation::between(at, at - Duration::DAY).steadily("call", 5), &Offer::monthly("b")), "0");
}
