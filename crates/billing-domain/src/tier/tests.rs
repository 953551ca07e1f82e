use super::*;
use crate::choice::{Choice, UnknownChoice};
use crate::decimal::plain;
use crate::decimal::tests::number_of;

fn tier(start: &str, end: Option<&str>, price: TierPrice) -> Tier {
    Tier { range_start: number_of(start), range_end: end.map(number_of), price }
}

fn free(start: &str, end: Option<&str>) -> Tier {
    tier(start, end, TierPrice::Free)
}

fn flat(start: &str, end: Option<&str>, cost: &str) -> Tier {
    tier(start, end, TierPrice::Flat { cost: number_of(cost) })
}

fn batched(start: &str, end: Option<&str>, cost: &str, units: &str, batch_rounding: Option<BatchRounding>) -> Tier {
    let (cost_per_batch, metric_units_per_batch) = (number_of(cost), number_of(units));
    tier(start, end, TierPrice::PerUnit { cost_per_batch, metric_units_per_batch, batch_rounding })
}

fn per_unit(start: &str, end: Option<&str>, cost: &str) -> Tier {
    batched(start, end, cost, "1", None)
}

fn schedule(tiers: &[Tier]) -> TierSchedule {
    TierSchedule::new(tiers.to_vec(), false).expect("a valid schedule")
}

fn bulk(tiers: &[Tier]) -> TierSchedule {
    TierSchedule::new(tiers.to_vec(), true).expect("a valid schedule")
}

fn four_tiers() -> [Tier; 4] {
    [
        free("0", Some("50")),
        per_unit("50", Some("100"), "0.01"),
        per_unit("100", Some("200"), "0.05"),
        per_unit("200", Some("300"), "0.10"),
    ]
}

fn check(schedule: &TierSchedule, cases: &[(&str, &str, &str)]) {
    for (quantity, price, why) in cases {
        assert_eq!(plain(&schedule.rate(&number_of(quantity)).amount), *price, "{quantity}: {why}");
    }
}

#[test]
fn rates_at_every_boundary() {
    #[rustfmt::skip]
    check(&schedule(&four_tiers()), &[
        // quantity, price, why
        ("0",      "0",      "the free tier costs nothing"),
        ("49",     "0",      "inside the free tier"),
        ("50",     "0",      "a boundary belongs to the lower tier"),
        ("51",     "0.01",   "one unit past the free tier"),
        ("100",    "0.5",    "the second tier full"),
        ("150",    "3",      "half of the third"),
        ("200",    "5.5",    "the third full"),
        ("250",    "10.5",   "half of the fourth"),
        ("300",    "15.5",   "all full"),
        ("350",    "15.5",   "nothing is charged beyond the last end"),
        ("50.5",   "0.005",  "half a unit is half a price"),
        ("-5",     "0",      "more taken back than used is no usage"),
    ]);
}

#[test]
fn open_ends_and_limits() {
    #[rustfmt::skip]
    check(&schedule(&[free("0", Some("50")), per_unit("50", None, "0.01")]), &[
        // quantity, price, why
        ("50",      "0",       "all free"),
        ("100",     "0.5",     "fifty paid"),
        ("1e15",    "9999999999999.5", "no end, no float"),
    ]);
    #[rustfmt::skip]
    check(&schedule(&[per_unit("0", Some("10"), "0.25")]), &[
        // quantity, price, why
        ("10",      "2.5",     "up to the limit"),
        ("12",      "2.5",     "beyond it nothing more"),
    ]);
}

#[test]
fn integer_ranges_touch() {
    #[rustfmt::skip]
    check(&schedule(&[free("0", Some("3")), per_unit("4", None, "100")]), &[
        // quantity, price, why
        ("3",       "0",       "the last free unit"),
        ("4",       "100",     "the first paid one"),
        ("5",       "200",     "the second"),
        ("3.5",     "50",      "between 3 and 4 there is no gap: half a unit of the upper tier"),
    ]);
    let single = schedule(&[free("0", Some("3")), per_unit("4", Some("4"), "7"), per_unit("5", None, "1")]);
    check(&single, &[("4", "7", "a tier of one unit"), ("6", "9", "and those behind it")]);
    let none = schedule(&[flat("0", Some("0"), "5"), per_unit("1", None, "1")]);
    check(&none, &[("0", "5", "a tier for zero usage"), ("2", "7", "is entered by all")]);
}

#[test]
fn flat_tiers_add_up_once_entered() {
    #[rustfmt::skip]
    check(&schedule(&[flat("0", Some("10"), "5"), per_unit("10", None, "1")]), &[
        // quantity, price, why
        ("0",       "5",       "a first flat tier is charged at zero usage too"),
        ("1",       "5",       "once"),
        ("10",      "5",       "up to its end"),
        ("11",      "6",       "then by the unit on top"),
        ("-1",      "5",       "below zero is zero usage"),
    ]);
    #[rustfmt::skip]
    check(&schedule(&[flat("0", Some("5"), "10"), flat("5", Some("10"), "20"), flat("10", None, "30")]), &[
        // quantity, price, why
        ("0",       "10",      "the first"),
        ("5",       "10",      "a boundary does not enter the next"),
        ("6",       "30",      "the first two"),
        ("10",      "30",      "still two"),
        ("11",      "60",      "all three"),
    ]);
}

#[test]
fn batches_are_rounded_per_tier() {
    use BatchRounding::{NoRounding, RoundDown, RoundNearest, RoundUp};
    #[rustfmt::skip]
    let cases = [
        // rounding,          at 1018, at 100, why
        (None,                "48.4",  "2.5",  "parts count as parts"),
        (Some(NoRounding),    "48.4",  "2.5",  "the same, said aloud"),
        (Some(RoundUp),       "50",    "5",    "a started batch is whole"),
        (Some(RoundDown),     "45",    "0",    "only full batches"),
        (Some(RoundNearest),  "50",    "5",    "9.68 is 10, and a half goes up"),
    ];
    for (rounding, at_1018, at_100, why) in cases {
        let schedule = schedule(&[free("0", Some("50")), batched("50", None, "5", "100", rounding)]);
        check(&schedule, &[("1018", at_1018, why), ("100", at_100, why)]);
    }
    for &rounding in BatchRounding::ALL {
        assert_eq!((rounding.as_str().parse(), rounding.to_string().as_str()), (Ok(rounding), rounding.as_str()));
        assert_eq!(serde_json::to_value(rounding).expect("json"), rounding.as_str());
    }
    for &kind in StepKind::ALL {
        assert_eq!((kind.as_str().parse(), kind.to_string().as_str()), (Ok(kind), kind.as_str()));
    }
    assert_eq!("ceil".parse::<BatchRounding>(), Err(UnknownChoice { choices: BatchRounding::TEXTS }));
}

#[test]
fn parts_of_a_batch_are_multiplied_before_they_are_divided() {
    let schedule = schedule(&[batched("0", None, "1", "3", None)]);
    check(
        &schedule,
        &[("3", "1", "three thirds"), ("6", "2", "are whole"), ("9e20", "300000000000000000000", "always")],
    );
}

#[test]
fn bulk_prices_everything_by_the_tier_that_holds_it() {
    #[rustfmt::skip]
    check(&bulk(&[free("0", Some("50")), per_unit("50", None, "0.01")]), &[
        // quantity, price, why
        ("50",      "0",       "the free tier holds it"),
        ("100",     "1",       "the second prices all hundred"),
    ]);
    #[rustfmt::skip]
    check(&bulk(&four_tiers()), &[
        // quantity, price, why
        ("0",       "0",       "zero is in the first tier"),
        ("150",     "7.5",     "all in the third"),
        ("200",     "10",      "a boundary belongs to the lower tier"),
        ("200.1",   "20.01",   "just past it everything is dearer"),
        ("250",     "25",      "all in the fourth"),
        ("300",     "30",      "the last end"),
        ("400",     "30",      "beyond it the last tier prices the last end"),
    ]);
    let flats = bulk(&[flat("0", Some("10"), "5"), flat("10", None, "8")]);
    check(&flats, &[("0", "5", "its own price"), ("11", "8", "and no other")]);
    let walk = bulk(&four_tiers()).rate(&number_of("150")).walk;
    assert_eq!(walk.iter().map(|step| step.tier).collect::<Vec<_>>(), [2], "one step");
}

#[test]
fn limits_are_those_of_the_first_and_last_tier() {
    #[rustfmt::skip]
    let cases = [
        // tiers,                                                free,       total,       why
        (vec![free("0", Some("50")), per_unit("50", None, "1")], Some("50"), None,        "fifty free, no end"),
        (four_tiers().to_vec(),                                  Some("50"), Some("300"), "fifty free of 300"),
        (vec![per_unit("0", Some("10"), "1")],                   Some("0"),  Some("10"),  "nothing free"),
        (vec![free("0", None)],                                  None,       None,        "everything free"),
    ];
    for (tiers, free, total, why) in cases {
        let schedule = schedule(&tiers);
        assert_eq!(schedule.free_limit(), free.map(number_of), "free: {why}");
        assert_eq!(schedule.total_limit(), total.map(number_of), "total: {why}");
    }
}

#[test]
fn refuses_a_bad_schedule_and_names_every_fault() {
    use TierFaultCode::*;
    let many: Vec<Tier> = (0..=TIERS_MAX).map(|n| free(&n.to_string(), Some(&(n + 1).to_string()))).collect();
    assert!(TierSchedule::new(many[..TIERS_MAX].to_vec(), false).is_ok(), "as many as there may be");
    #[rustfmt::skip]
    let cases: [(Vec<Tier>, &[(usize, &str, TierFaultCode)], &str); 17] = [
        (vec![],                                                          &[(0, "tiers", Required)],            "no tier"),
        (many,                                                            &[(0, "tiers", TooMany)],             "too many"),
        (vec![free("1", None)],                                           &[(0, "range_start", FirstNotZero)],  "starts at 1"),
        (vec![free("-1", None)],                                          &[(0, "range_start", FirstNotZero)],  "starts below 0"),
        (vec![free("0", Some("5")), free("7", None)],                     &[(1, "range_start", Gap)],           "6 has no price"),
        (vec![free("0", Some("5")), free("5.5", None)],                   &[(1, "range_start", Gap)],           "half a unit has none"),
        (vec![free("0", Some("5")), free("4", None)],                     &[(1, "range_start", Overlap)],       "5 has two"),
        (vec![free("0", None), free("5", None)],                          &[(0, "range_end", OpenEndNotLast)],  "an open end first"),
        (vec![free("0", Some("-1"))],                                     &[(0, "range_end", EmptyRange)],      "ends before it starts"),
        (vec![free("0", Some("5")), free("5", Some("5")), free("5", None)], &[(1, "range_end", EmptyRange)],    "holds nothing"),
        (vec![free("0", Some("0")), per_unit("0", None, "1")],            &[(0, "range_end", EmptyRange)],      "nothing is free"),
        (vec![per_unit("0", Some("0"), "1"), free("1", None)],            &[(0, "range_end", EmptyRange)],      "no unit has the price"),
        (vec![free("0", Some("5")), free("6", Some("5"))],                &[(1, "range_end", EmptyRange)],      "ends where the one before does"),
        (vec![flat("0", None, "-1")],                                     &[(0, "cost_per_batch", Negative)],   "pays the customer"),
        (vec![batched("0", None, "1", "0", None)],                        &[(0, "metric_units_per_batch", NotPositive)], "empty batches"),
        (vec![batched("0", None, "-1", "-1", None)],
            &[(0, "cost_per_batch", Negative), (0, "metric_units_per_batch", NotPositive)],                     "both of one tier"),
        (vec![free("1", Some("5")), flat("9", Some("10"), "-1")],
            &[(0, "range_start", FirstNotZero), (1, "range_start", Gap), (1, "cost_per_batch", Negative)],      "all of all tiers"),
    ];
    for (tiers, expected, why) in cases {
        let faults = TierSchedule::new(tiers, false).expect_err(why);
        let found: Vec<_> = faults.iter().map(|fault| (fault.tier, fault.field, fault.code)).collect();
        assert_eq!(found, expected, "{why}");
        assert!(faults.iter().all(|fault| !fault.detail.is_empty()));
        for fault in faults {
            assert_eq!(serde_json::to_value(fault.code).expect("json"), fault.code.as_str());
            assert_eq!(fault.code.to_string(), fault.code.as_str());
        }
    }
}

#[test]
fn json_reads_back_what_it_wrote_and_checks_it() {
    let schedule =
        schedule(&[flat("0", Some("10"), "5"), batched("10", None, "0.1", "3", Some(BatchRounding::RoundUp))]);
    let rating = schedule.rate(&number_of("11.5"));
    let text = serde_json::to_string(&rating).expect("json");
    assert_eq!(serde_json::from_str::<Rating>(&text).expect("read back"), rating);
    let text = serde_json::to_string(&schedule).expect("json");
    assert_eq!(serde_json::from_str::<TierSchedule>(&text).expect("read back"), schedule);
    let gap = text.replace(r#""range_start":10"#, r#""range_start":12"#);
    assert!(serde_json::from_str::<TierSchedule>(&gap).is_err(), "a stored schedule is checked again");
}

#[test]
fn what_was_accepted_once_stays_readable() {
    let nothing = vec![free("0", Some("0")), per_unit("0", None, "2")];
    let restored = TierSchedule::restore(nothing.clone(), false).expect("as it was agreed to");
    check(&restored, &[("0", "0", "no usage"), ("3", "6", "the tier of nothing prices nothing")]);
    let text = serde_json::to_string(&restored).expect("json");
    assert_eq!(serde_json::from_str::<TierSchedule>(&text).expect("read back"), restored);
    let backwards = vec![free("0", Some("-1"))];
    assert!(TierSchedule::restore(backwards, false).is_err(), "which never was accepted");
}
