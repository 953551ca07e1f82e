use time::OffsetDateTime;
use time::macros::datetime;

use crate::decimal::plain;
use crate::error::{Error, Noun, Refusal};
use crate::id::{PlanId, PlanVersionId};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::plan::{ChargeBehavior, PlanVersion, PlanVersionStatus};
use crate::testing::world::{World, fee, prepaid_component, subscription, tiers, version};
use crate::workflow::{
    ActiveFrom, CreatePlanVersion, MakeActiveType, NewPlanVersion, UpdatePlanVersion, create_plan_version, delete_plan,
    delete_plan_version, update_plan_version,
};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);
const RENEWED: OffsetDateTime = datetime!(2024-05-01 00:30 UTC);

fn costing(amount: &str) -> NewPlanVersion {
    version(vec![fee(amount, InAdvance)], Vec::new())
}

/// `acme` on a monthly plan of 30.
fn subscribed() -> (World, PlanId) {
    let world = World::at(START);
    let plan = world.plan(Some(PlanDuration::Monthly), costing("30"));
    world.customer("acme");
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    (world, plan)
}

pub(super) fn versions(world: &World, plan: PlanId) -> Vec<PlanVersion> {
    world.catalog(|tx, _| tx.plans().list_versions(Some(plan))).expect("versions")
}

fn add(world: &World, plan: PlanId, version: NewPlanVersion) -> Result<PlanVersionId, Error> {
    let command = CreatePlanVersion { plan, version };
    world.catalog(|tx, now| create_plan_version(tx, &command, now)).map(|made| made.id)
}

pub(super) fn change(id: PlanVersionId) -> UpdatePlanVersion {
    UpdatePlanVersion {
        version: id,
        localized_name: None,
        active_from: None,
        active_to: None,
        replace_with: None,
        transition_to: None,
        target_customers: None,
        make_active_type: MakeActiveType::ReplaceOnRenewal,
    }
}

fn update(world: &World, command: &UpdatePlanVersion) -> Result<PlanVersion, Error> {
    world.catalog(|tx, now| update_plan_version(tx, command, now))
}

fn billed(world: &World) -> Vec<String> {
    world.advance("acme", RENEWED);
    world.invoices("acme").iter().map(|invoice| plain(&invoice.amount)).collect()
}

#[test]
fn a_renewal_goes_where_its_version_says() {
    type Change = fn(&World, PlanId, PlanId);
    let first = |world: &World, plan| versions(world, plan)[0].id;
    #[rustfmt::skip]
    let cases: [(Change, &str, &str); 7] = [
        // what is changed, the second fee, why
        (|_, _, _| {},                                              "30", "nothing"),
        (|world, plan, _| drop(add(world, plan, costing("40"))),    "40", "a new version replaces the old one"),
        (|world, plan, _| {
            let kept = NewPlanVersion { make_active_type: MakeActiveType::Grandfather, ..costing("40") };
            add(world, plan, kept).expect("a version");
        },                                                          "30", "grandfathered"),
        (|world, plan, other| {
            let command = UpdatePlanVersion { transition_to: Some(Some(other)), ..change(versions(world, plan)[0].id) };
            add(world, plan, costing("40")).expect("a version");
            update(world, &command).expect("updated");
        },                                                          "99", "another plan comes before another version"),
        (|world, plan, other| {
            let command = UpdatePlanVersion { transition_to: Some(Some(other)), ..change(versions(world, plan)[0].id) };
            update(world, &command).expect("updated");
            world.catalog(|tx, now| delete_plan(tx, other, now)).expect("deleted");
        },                                                          "30", "a plan that is gone is passed over"),
        (|world, plan, _| {
            let next = add(world, plan, costing("40")).expect("a version");
            world.catalog(|tx, now| delete_plan_version(tx, next, now)).expect("deleted");
        },                                                          "30", "so is a version that is gone"),
        (|world, plan, _| {
            let metric = world.metric("call", None).id;
            let part = prepaid_component(metric, tiers(&[("0", "", "1")]), "", ChargeBehavior::Full);
            add(world, plan, version(vec![fee("40", InAdvance)], vec![part])).expect("a version");
        },                                                          "30", "and one that needs units nobody named"),
    ];
    for (change, second, why) in cases {
        let (world, plan) = subscribed();
        let other = world.plan(Some(PlanDuration::Monthly), costing("99"));
        let old = first(&world, plan);
        change(&world, plan, other);
        assert_eq!(billed(&world), ["30", second], "{why}");
        let renewed = world.subscriptions("acme").pop().expect("a renewal");
        assert_eq!(renewed.version == old, second == "30", "{why}");
        assert_eq!(renewed.plan == plan, second != "99", "{why}");
    }
}

#[test]
fn prepaid_units_stay_when_another_version_takes_the_place() {
    for (default, why) in [("", "nobody has to name them again"), ("5", "they had 20")] {
        let world = World::at(START);
        let seats = world.metric("seat", None).id;
        let seating = |units, price| {
            version(Vec::new(), vec![prepaid_component(seats, tiers(&[("0", "", price)]), units, ChargeBehavior::Full)])
        };
        let plan = world.plan(Some(PlanDuration::Monthly), seating("20", "1"));
        world.customer("acme");
        world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
        add(&world, plan, seating(default, "2")).expect("a version");
        assert_eq!(billed(&world), ["20", "40"], "{why}");
    }
}

#[test]
fn a_version_that_is_given_a_start_takes_the_place_of_others() {
    let (world, plan) = subscribed();
    let waiting = NewPlanVersion { active_from: ActiveFrom::NotStarted, ..costing("40") };
    let next = add(&world, plan, waiting).expect("a version");
    assert_eq!(versions(&world, plan)[0].active_to, None, "it waits");
    let command = UpdatePlanVersion { active_from: Some(Some(START)), ..change(next) };
    update(&world, &command).expect("updated");
    let old = versions(&world, plan).remove(0);
    assert_eq!((old.active_to, old.replace_with), (Some(START), Some(next)));
    assert_eq!(billed(&world), ["30", "40"]);
}

#[test]
fn there_are_never_two_versions_to_choose_from() {
    let [past, soon, later] =
        [datetime!(2024-03-01 0:00 UTC), datetime!(2024-06-01 0:00 UTC), datetime!(2024-09-01 0:00 UTC)];
    #[rustfmt::skip]
    let cases: [(&[OffsetDateTime], usize, &str); 5] = [
        // starts of new versions, which is active now, why
        (&[past],                  1, "one that started before the first does take its place"),
        (&[START],                 1, "as does one of the same instant"),
        (&[later, soon],           0, "both are to come"),
        (&[soon, past],            2, "one is to come"),
        (&[past, later, soon],     1, "in any order"),
    ];
    for (starts, active, why) in cases {
        let (world, plan) = subscribed();
        for start in starts {
            let made = NewPlanVersion { active_from: ActiveFrom::At(*start), ..costing("40") };
            add(&world, plan, made).expect("a version");
        }
        for (at, only) in [(START, Some(active)), (soon, None), (later, None), (datetime!(2025-01-01 0:00 UTC), None)] {
            let all = versions(&world, plan);
            let on_offer: Vec<_> = (0..all.len()).filter(|i| all[*i].is_active(at)).collect();
            assert_eq!(on_offer.len(), 1, "{why} at {at}: {on_offer:?}");
            assert!(only.is_none_or(|only| on_offer == [only]), "{why} at {at}: {on_offer:?}");
        }
    }
}

#[test]
fn a_version_stands_in_one_of_six_ways() {
    use PlanVersionStatus::{Active, Deleted, Grandfathered, Inactive, NotStarted, Retiring};
    let (world, plan) = subscribed();
    let made = versions(&world, plan).remove(0);
    let (past, future) = (Some(datetime!(2024-03-01 0:00 UTC)), Some(datetime!(2024-06-01 0:00 UTC)));
    let other = PlanVersionId::from(uuid::Uuid::from_u128(99));
    let ended = PlanVersion { active_from: past, active_to: Some(START), ..made.clone() };
    #[rustfmt::skip]
    let cases = [
        // version,                                                      subscriptions, status,        why
        (PlanVersion { active_from: None, ..made.clone() },              0,             NotStarted,    "no start"),
        (PlanVersion { active_from: future, ..made.clone() },            0,             NotStarted,    "a start to come"),
        (made.clone(),                                                   0,             Active,        "started"),
        (PlanVersion { active_to: future, ..made.clone() },              3,             Active,        "an end to come"),
        (ended.clone(),                                                  0,             Inactive,      "ended, nobody is left"),
        (ended.clone(),                                                  1,             Grandfathered, "ended, and they stay"),
        (PlanVersion { replace_with: Some(made.id), ..ended.clone() },   1,             Grandfathered, "replaced by itself"),
        (PlanVersion { replace_with: Some(other), ..ended.clone() },     1,             Retiring,      "they move on to another version"),
        (PlanVersion { transition_to: Some(plan), ..ended.clone() },     1,             Retiring,      "or to another plan"),
        (PlanVersion { deleted_at: Some(START), ..ended },               1,             Deleted,       "deleted"),
    ];
    for (version, subscriptions, status, why) in cases {
        assert_eq!(version.status(START, subscriptions), status, "{why}");
    }
}

#[test]
fn what_is_held_cannot_be_deleted() {
    let (world, plan) = subscribed();
    let id = versions(&world, plan)[0].id;
    assert_eq!(world.catalog(|tx, now| delete_plan(tx, plan, now)).map(drop), Err(Refusal::PlanInUse.into()));
    assert_eq!(world.catalog(|tx, now| delete_plan_version(tx, id, now)).map(drop), Err(Refusal::PlanInUse.into()));
    let empty = world.plan(Some(PlanDuration::Monthly), costing("1"));
    let gone = versions(&world, empty)[0].id;
    world.catalog(|tx, now| delete_plan(tx, empty, now)).expect("deleted");
    assert_eq!(world.catalog(|tx, _| tx.plans().get(empty)).map(drop), Err(Error::NotFound(Noun::Plan)));
    assert_eq!(versions(&world, empty), []);
    assert_eq!(update(&world, &change(gone)).map(drop), Err(Error::NotFound(Noun::PlanVersion)));
    assert!(world.subscribe(&subscription("acme", empty, START)).is_err(), "nobody can subscribe to it");
}
