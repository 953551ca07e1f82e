//! What a plan would come to that nobody has made, held against what the same plan is invoiced with.

use bigdecimal::BigDecimal;
use serde_json::json;
use time::OffsetDateTime;
use time::macros::datetime;

use crate::decimal::plain;
use crate::error::{Error, FieldErrors, Refusal};
use crate::id::MetricId;
use crate::invoice::{LineItem, Trace};
use crate::period::{Interval, IntervalUnit, PlanDuration};
use crate::plan::ChargeTiming::{InAdvance, InArrears};
use crate::plan::{ChargeBehavior, PriceAdjustment, PriceAdjustmentKind};
use crate::testing::world::{World, component, decimal, fee, prepaid_component, subscription, tiers, version};
use crate::tier::{BatchRounding, Tier, TierPrice, TierSchedule};
use crate::workflow::{
    CreatePlan, CreateSubscription, NewComponent, NewPlanVersion, NewRecurringCharge, PlanPreview, PreviewPlan,
    preview_plan,
};

const APRIL: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
/// When usage comes in.
const MONTHS: [OffsetDateTime; 3] =
    [datetime!(2024-04-02 00:00 UTC), datetime!(2024-05-02 00:00 UTC), datetime!(2024-06-02 00:00 UTC)];

fn plan(duration: Option<PlanDuration>, version: NewPlanVersion) -> CreatePlan {
    CreatePlan {
        name: "Pro".to_owned(),
        description: None,
        duration,
        tags: Vec::new(),
        external_links: Vec::new(),
        initial_version: Some(version),
    }
}

fn preview(world: &World, plan: CreatePlan, usage: Vec<(MetricId, BigDecimal)>) -> Result<PlanPreview, Error> {
    let command = PreviewPlan { plan, usage };
    world.catalog(|tx, now| preview_plan(tx, &command, now))
}

/// Ten free, a part of a cent each up to a thousand, then started hundreds.
fn graduated() -> Vec<Tier> {
    let tier = |start: &str, end: &str, price| Tier {
        range_start: decimal(start),
        range_end: (!end.is_empty()).then(|| decimal(end)),
        price,
    };
    let per = |cost: &str, units: &str, batch_rounding| TierPrice::PerUnit {
        cost_per_batch: decimal(cost),
        metric_units_per_batch: decimal(units),
        batch_rounding,
    };
    vec![
        tier("0", "10", TierPrice::Free),
        tier("10", "1000", per("0.0137", "3", None)),
        tier("1000", "2000", TierPrice::Flat { cost: decimal("4.5") }),
        tier("2000", "", per("0.77", "100", Some(BatchRounding::RoundUp))),
    ]
}

fn summed(metric: MetricId, is_bulk: bool) -> NewComponent {
    component(metric, TierSchedule::new(graduated(), is_bulk).expect("tiers"))
}

/// The amounts of the lines, and of their walks through the tiers the steps with what they come to.
fn shown<'l>(lines: impl IntoIterator<Item = &'l LineItem>) -> (Vec<String>, Vec<(usize, String)>) {
    let (mut amounts, mut steps) = (Vec::new(), Vec::new());
    for line in lines {
        amounts.push(plain(&line.amount));
        if let Trace::UsageCharge { rating, .. } = &line.trace {
            steps.extend(rating.walk.iter().map(|step| (step.tier, plain(&step.amount))));
        }
    }
    (amounts, steps)
}

fn adjusted(kind: PriceAdjustmentKind, amount: &str, version: NewPlanVersion) -> NewPlanVersion {
    let adjustment = PriceAdjustment { name: "deal".to_owned(), description: None, kind, amount: decimal(amount) };
    NewPlanVersion { price_adjustment: Some(adjustment), ..version }
}

#[test]
fn a_preview_is_what_is_invoiced_later() {
    use PlanDuration::{Monthly, Quarterly};
    let world = World::at(APRIL);
    let id = world.metric("call", Some("units")).id;
    let monthly = Interval::new(IntervalUnit::Month, 1).expect("an interval");
    let by_month = NewComponent { reset_interval: Some(monthly), ..summed(id, false) };
    let priced = |is_bulk| version(vec![fee("9.99", InAdvance)], vec![summed(id, is_bulk)]);
    let prepaid = |units| {
        let tiers = TierSchedule::new(graduated(), false).expect("tiers");
        version(Vec::new(), vec![prepaid_component(id, tiers, units, ChargeBehavior::Full)])
    };
    #[rustfmt::skip]
    let cases = [
        // duration, version,                                                           quantity, why
        (Monthly,    priced(false),                                                     "2345",   "every tier, and started batches"),
        (Monthly,    priced(false),                                                     "77.5",   "parts of units and of cents"),
        (Monthly,    priced(false),                                                     "0",      "nothing is used"),
        (Monthly,    priced(true),                                                      "2345",   "one tier for all of it"),
        (Monthly,    version(vec![fee("3", InArrears)], vec![summed(id, false)]),       "999",    "a fee at the end"),
        (Monthly,    prepaid("500"),                                                    "700",    "more than was paid for in advance"),
        (Quarterly,  version(vec![fee("9.99", InAdvance)], vec![by_month]),             "1500",   "three months, each from nothing"),
        (Monthly,    adjusted(PriceAdjustmentKind::Percentage, "-10", priced(false)),   "2345",   "ten percent off"),
        (Monthly,    adjusted(PriceAdjustmentKind::PriceOverride, "50", priced(false)), "700",    "a price for all of it"),
    ];
    let mut previews = Vec::new();
    for (place, (duration, priced, quantity, why)) in cases.iter().enumerate() {
        let looked_at = preview(&world, plan(Some(*duration), priced.clone()), vec![(id, decimal(quantity))]);
        previews.push(looked_at.unwrap_or_else(|error| panic!("{why}: {error:?}")));
        let customer = format!("c{place}");
        let plan = world.plan(Some(*duration), priced.clone());
        world.customer(&customer);
        let command = CreateSubscription { auto_renew: false, ..subscription(&customer, plan, APRIL) };
        world.subscribe(&command).expect("subscribed");
        let units: serde_json::Value = serde_json::from_str(quantity).expect("a number");
        for month in MONTHS {
            world.track(&customer, "call", month, &json!({"units": units}));
        }
    }
    for (place, ((_, priced, _, why), previewed)) in cases.iter().zip(&previews).enumerate() {
        let customer = format!("c{place}");
        world.advance(&customer, datetime!(2024-08-01 00:00 UTC));
        let invoices = world.invoices(&customer);
        let (expected, expected_steps) = shown(invoices.iter().flat_map(|invoice| &invoice.lines));
        let (amounts, steps) = shown(&previewed.lines);
        let sum = |amounts: &[String]| amounts.iter().map(|amount| decimal(amount)).sum::<BigDecimal>();
        assert_eq!(sum(&amounts), sum(&expected), "{why}");
        assert_eq!(previewed.amount(), sum(&amounts), "{why}");
        if priced.price_adjustment.is_none() {
            assert_eq!(amounts, expected, "{why}: line by line");
        }
        assert_eq!(steps, expected_steps, "{why}: tier by tier");
    }
}

#[test]
fn a_plan_without_duration_is_looked_at_for_a_month() {
    let world = World::at(datetime!(2024-01-31 13:30 UTC));
    let id = world.metric("call", Some("units")).id;
    let previewed =
        preview(&world, plan(None, version(vec![fee("9", InAdvance)], vec![summed(id, false)])), Vec::new());
    let previewed = previewed.expect("a preview");
    let (start, end) = (previewed.period.start(), previewed.period.end());
    assert_eq!((start, end), (datetime!(2024-01-31 0:00 UTC), datetime!(2024-02-29 0:00 UTC)), "from today on");
    assert_eq!(shown(&previewed.lines).0, ["9", "0"]);
}

#[test]
fn what_cannot_be_priced_is_refused_at_its_field() {
    let world = World::at(APRIL);
    let (id, other) = (world.metric("call", Some("units")).id, world.metric("mail", None).id);
    let of = |version: NewPlanVersion| plan(Some(PlanDuration::Yearly), version);
    let daily = Interval::new(IntervalUnit::Day, 1).expect("an interval");
    let by_day = |tiers: Vec<Tier>| {
        let component = component(id, TierSchedule::new(tiers, false).expect("tiers"));
        version(Vec::new(), vec![NewComponent { reset_interval: Some(daily), ..component }])
    };
    let flat = |start: usize| Tier {
        range_start: start.to_string().parse().expect("a number"),
        range_end: Some((start + 1).to_string().parse().expect("a number")),
        price: TierPrice::Flat { cost: decimal("1") },
    };
    let many_fees = (0..1_001).map(|n| NewRecurringCharge { name: n.to_string(), ..fee("1", InAdvance) }).collect();
    let metered = version(Vec::new(), vec![summed(id, false)]);
    let unnamed = CreatePlan { name: String::new(), ..of(metered.clone()) };
    #[rustfmt::skip]
    let cases = [
        // plan,                                                usage,                                        at,                           why
        (of(metered.clone()),                                    vec![(other, decimal("1"))],                  "usage.0.metric_id",          "nothing is charged by it"),
        (of(metered.clone()),                                    vec![(id, decimal("1")), (id, decimal("2"))], "usage.1.metric_id",          "twice"),
        (of(metered.clone()),                                    vec![(id, decimal("-1"))],                    "usage.0.quantity",           "less than nothing"),
        (unnamed,                                               Vec::new(),                                   "plan.plan_name",             "as when it is made"),
        (CreatePlan { initial_version: None, ..of(metered) },    Vec::new(),                                   "plan.initial_version",       "nothing has a price"),
        (of(version(many_fees, Vec::new())),                    Vec::new(),                                   "plan.initial_version",       "more than a thousand lines"),
        (of(by_day((0..100).map(flat).collect())),              Vec::new(),                                   "plan.initial_version",       "366 days of a hundred tiers"),
        (of(version(Vec::new(), vec![summed(id, false), summed(id, false)])), Vec::new(),                     "plan.initial_version.components.1.metric_id", "as when it is made"),
    ];
    for (plan, usage, at, why) in cases {
        match preview(&world, plan, usage) {
            Err(Error::Fields(FieldErrors(faults))) => assert_eq!(faults[0].attr, at, "{why}"),
            other => panic!("{why}: {other:?}"),
        }
    }
    let fits =
        preview(&world, of(by_day(graduated())), vec![(id, decimal("5"))]).expect("a year of days, four tiers each");
    assert_eq!(fits.lines.len(), 365);
    let unsaid = prepaid_component(id, tiers(&[("0", "", "1")]), "", ChargeBehavior::Full);
    let refused = preview(&world, of(version(Vec::new(), vec![unsaid])), Vec::new());
    assert_eq!(refused.map(drop), Err(Refusal::PrepaymentCantDetermineUnits(id).into()), "the subscription would say");
}
