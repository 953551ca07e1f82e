//! What one person may not do alone, and what another one's approval opens.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::approval::{Approval, ApprovalState, Approved, HeldCall, Outcome};
use crate::audit::Actor;
use crate::credit_note::Settlement;
use crate::error::{Error, HeldAmount, Refusal};
use crate::id::{ApprovalId, InvoiceId};
use crate::period::PlanDuration;
use crate::plan::ChargeTiming::InAdvance;
use crate::store::{ApprovedTransaction, Transaction};
use crate::testing::world::{World, component, decimal, fee, subscription, tiers, version};
use crate::workflow::{
    CreateCredit, CreateCreditNote, CreateOneOffLine, NotePayment, OneOffPrice, OrganizationPatch, RequestApproval,
    Share, approve_request, conclude_approval, create_credit, create_credit_note, create_one_off_line,
    decline_approval, note_payment, reissue_invoice, remove_one_off_line, request_approval, update_organization,
    void_credit, void_credit_note, void_invoice, withdraw_approval,
};

const START: OffsetDateTime = datetime!(2024-04-01 00:00 UTC);

fn limit(limit: Option<&str>) -> OrganizationPatch {
    OrganizationPatch { approval_limit: Some(limit.map(decimal)), ..OrganizationPatch::default() }
}

/// A customer with a fee of 100.01 in advance, and its invoice.
fn world() -> (World, InvoiceId) {
    let world = World::at(START);
    world.customer("acme");
    let metric = world.metric("call", None);
    let content = version(vec![fee("100.01", InAdvance)], vec![component(metric.id, tiers(&[("0", "", "1")]))]);
    let plan = world.plan(Some(PlanDuration::Monthly), content);
    world.subscribe(&subscription("acme", plan, START)).expect("subscribed");
    let invoice = world.invoices("acme").pop().expect("an invoice").id;
    (world, invoice)
}

fn credit(amount: &str) -> CreateCredit {
    CreateCredit {
        customer: "acme".parse().expect("an id"),
        amount: decimal(amount),
        currency_code: "USD".to_owned(),
        description: None,
        effective_at: None,
        expires_at: None,
        amount_paid: decimal("0"),
        amount_paid_currency_code: None,
    }
}

type Call = dyn Fn(&World, &mut dyn Transaction, InvoiceId, OffsetDateTime) -> Result<(), Error>;

fn note(world: &World, invoice: InvoiceId) -> CreateCreditNote {
    CreateCreditNote {
        customer: world.key("acme"),
        invoice,
        lines: Vec::new(),
        share: Some(Share::Amount(decimal("100.01"))),
        corrections: false,
        reason: "down".to_owned(),
        settlement: Settlement::Balance,
        reference: None,
    }
}

/// Each call that gives away or takes 100.01 USD.
fn calls() -> Vec<(&'static str, Box<Call>)> {
    vec![
        ("void an invoice", Box::new(|world, tx, id, now| void_invoice(tx, world.key("acme"), id, now).map(drop))),
        (
            "reissue an invoice",
            Box::new(|world, tx, id, now| reissue_invoice(tx, world.key("acme"), id, now).map(drop)),
        ),
        ("create a credit", Box::new(|_, tx, _, now| create_credit(tx, &credit("100.01"), now).map(drop))),
        (
            "void a credit",
            Box::new(|world, tx, _, now| {
                let key = world.key("acme");
                let id = tx.credits().list(key)?[0].credit().id;
                void_credit(tx, key, id, now).map(drop)
            }),
        ),
        (
            "create a credit note",
            Box::new(|world, tx, id, now| create_credit_note(tx, &note(world, id), now).map(drop)),
        ),
        (
            "overpay",
            Box::new(|world, tx, invoice, now| {
                // 100.01 are due.
                let (customer, amount) = (world.key("acme"), decimal("200.02"));
                let payment = NotePayment { customer, invoice, amount, at: None, method: None, reference: None };
                note_payment(tx, &payment, now).map(drop)
            }),
        ),
        (
            "remove a one-off line",
            Box::new(|world, tx, _, now| {
                let key = world.key("acme");
                let id = tx.customers().get(key)?.one_off_lines[0].id;
                remove_one_off_line(tx, key, id, now)
            }),
        ),
    ]
}

fn one_off(world: &World) {
    let line = CreateOneOffLine {
        customer: world.key("acme"),
        name: "Set-up".to_owned(),
        price: OneOffPrice::Amount(decimal("100.01")),
        currency_code: None,
        is_taxed: false,
        time: None,
        invoice_now: false,
    };
    world.on("acme", |tx, now| create_one_off_line(tx, &line, now)).expect("a line");
}

fn held(amount: &str) -> HeldAmount {
    HeldAmount { amount: Some(decimal(amount)), currency_code: Some("USD".to_owned()) }
}

fn approved(held: HeldAmount) -> Approved {
    Approved { approval: ApprovalId::from(uuid::Uuid::nil()), held, requested_by: Actor::api_key("abcdefgh", "x") }
}

#[test]
fn what_is_above_the_limit_waits() {
    for (name, call) in calls() {
        #[rustfmt::skip]
        let cases = [
            // limit,        approved,        is done, why
            (None,           None,            true,  "without a limit nothing waits"),
            (Some("100.02"), None,            true,  "below"),
            (Some("100.01"), None,            true,  "at the limit"),
            (Some("100"),    None,            false, "a cent above"),
            (Some("0"),      None,            false, "with 0 everything waits"),
            (Some("100"),    Some("100.01"),  true,  "another person has approved as much"),
            (Some("100"),    Some("100.010"), true,  "written otherwise"),
            (Some("100"),    Some("100.005"), false, "another person has approved less"),
        ];
        for (the_limit, of_another, is_done, why) in cases {
            let (world, invoice) = world();
            if name == "void a credit" {
                world.on("acme", |tx, now| create_credit(tx, &credit("100.01"), now)).expect("a credit");
            }
            if name == "remove a one-off line" {
                one_off(&world);
            }
            world.set(&limit(the_limit));
            let key = world.key("acme");
            let books = |world: &World| {
                let credits = world.on("acme", |tx, _| tx.credits().list(key)).expect("credits");
                let lines = world.on("acme", |tx, _| Ok(tx.customers().get(key)?.one_off_lines)).expect("a customer");
                (world.invoices("acme"), credits, lines)
            };
            let before = books(&world);
            let done = world.on("acme", |tx, now| match of_another {
                None => call(&world, tx, invoice, now),
                Some(amount) => call(&world, &mut ApprovedTransaction::new(tx, approved(held(amount))), invoice, now),
            });
            let refused = match of_another {
                None => Refusal::NeedsApproval(Box::new(held("100.01"))),
                Some(_) => Refusal::ApprovalExceeded,
            };
            assert_eq!(done, if is_done { Ok(()) } else { Err(refused.into()) }, "{name}: {why}");
            if !is_done {
                assert_eq!(books(&world), before, "{name}: {why}");
            }
        }
    }
}

#[test]
fn a_credit_note_is_taken_back_by_two() {
    let (world, invoice) = world();
    let (_, note) = world.on("acme", |tx, now| create_credit_note(tx, &note(&world, invoice), now)).expect("a note");
    world.set(&limit(Some("100")));
    let void = || world.on("acme", |tx, now| void_credit_note(tx, world.key("acme"), note.id, now)).map(drop);
    assert_eq!(void(), Err(Refusal::NeedsApproval(Box::new(held("100.01"))).into()));
    world
        .catalog(|tx, _| {
            let raised = HeldAmount { amount: Some(decimal("100.01")), currency_code: None };
            update_organization(&mut ApprovedTransaction::new(tx, approved(raised)), &limit(Some("100.01")))
        })
        .expect("raised");
    assert_eq!(void(), Ok(()));
}

#[test]
fn another_currency_is_another_amount() {
    let (world, _) = world();
    world.set(&limit(Some("1")));
    let euros = HeldAmount { currency_code: Some("EUR".to_owned()), ..held("5") };
    let done = world.on("acme", |tx, now| {
        create_credit(&mut ApprovedTransaction::new(tx, approved(euros.clone())), &credit("5"), now).map(drop)
    });
    assert_eq!(done, Err(Refusal::ApprovalExceeded.into()));
}

#[test]
fn the_limit_is_loosened_by_two() {
    #[rustfmt::skip]
    let cases = [
        // before,     after,         is alone, why
        (None,         Some("100"),   true,  "whoever sets the first limit does it alone"),
        (Some("100"),  Some("100.0"), true,  "it stays"),
        (Some("100"),  Some("99.99"), true,  "it becomes tighter"),
        (Some("100"),  Some("100.5"), false, "raised"),
        (Some("100"),  None,          false, "turned off"),
    ];
    for (before, after, is_alone, why) in cases {
        let (world, _) = world();
        world.set(&limit(before));
        let change = || world.catalog(|tx, _| update_organization(tx, &limit(after)));
        let asked = HeldAmount { amount: after.map(decimal), currency_code: None };
        match is_alone {
            true => assert_eq!(change().expect(why).approval_limit, after.map(decimal), "{why}"),
            false => {
                assert_eq!(change(), Err(Refusal::NeedsApproval(Box::new(asked.clone())).into()), "{why}");
                let together = OrganizationPatch { name: Some("New".to_owned()), ..limit(after) };
                let together = world.catalog(|tx, _| update_organization(tx, &together));
                assert!(matches!(together, Err(Error::Fields(_))), "a secret may be among the rest: {together:?}");
                let by_two = |held: HeldAmount| {
                    world.catalog(|tx, _| {
                        update_organization(&mut ApprovedTransaction::new(tx, approved(held.clone())), &limit(after))
                    })
                };
                let other = HeldAmount { amount: Some(decimal("7")), currency_code: None };
                assert_eq!(by_two(other), Err(Refusal::ApprovalExceeded.into()), "{why}");
                assert_eq!(by_two(asked).expect(why).approval_limit, after.map(decimal), "{why}");
            }
        }
    }
    let (world, _) = world();
    let negative = world.catalog(|tx, _| update_organization(tx, &limit(Some("-1"))));
    assert!(matches!(negative, Err(Error::Fields(_))), "{negative:?}");
}

fn person(name: &str) -> Actor {
    Actor::user(uuid::Uuid::from_u128(name.len() as u128).into(), name)
}

fn requested(world: &World, method: &str, by: &Actor) -> (Approval, bool) {
    let call =
        HeldCall { operation: "x".to_owned(), method: method.to_owned(), path: "/api/x/".to_owned(), body: None };
    let command = RequestApproval { call, held: held("5"), by: by.clone() };
    world.catalog(|tx, now| request_approval(tx, &command, now)).expect("a request")
}

#[test]
fn another_person_decides_once_and_in_time() {
    let (ann, robert, key) = (person("ann"), person("robert"), Actor::api_key("abcdefgh", "x"));
    let world = World::at(START);
    let decide = |id, by: &Actor| world.catalog(|tx, now| approve_request(tx, id, by, now));
    let decline = |id, by: &Actor, why: &str| world.catalog(|tx, now| decline_approval(tx, id, (by, why), now));
    let withdraw = |id, by: &Actor| world.catalog(|tx, now| withdraw_approval(tx, id, by, now));
    let conclude = |id, status, code: Option<&str>| {
        let outcome = Outcome { status, code: code.map(str::to_owned) };
        world.catalog(|tx, _| conclude_approval(tx, id, &outcome)).expect("concluded").state
    };
    let decided = |state: ApprovalState| Err(Error::from(Refusal::ApprovalDecided(state.as_str())));

    let (one, is_new) = requested(&world, "POST", &ann);
    assert!(is_new);
    assert_eq!(decide(one.id, &ann), Err(Refusal::OwnRequest.into()));
    assert_eq!(decline(one.id, &ann, "no"), Err(Refusal::OwnRequest.into()));
    assert_eq!(decide(one.id, &key), Err(Refusal::NotAPerson.into()));
    assert_eq!(decline(one.id, &key, "no"), Err(Refusal::NotAPerson.into()));
    assert_eq!(withdraw(one.id, &robert), Err(Refusal::OthersRequest.into()));
    let renamed = Actor { name: "ann@other.example".to_owned(), ..ann.clone() };
    assert_eq!(decide(one.id, &renamed), Err(Refusal::OwnRequest.into()), "whatever they are called");
    let approved = decide(one.id, &robert).expect("approved");
    assert_eq!((approved.state, &approved.decided_by), (ApprovalState::Approved, &Some(robert.clone())));
    assert_eq!(decide(one.id, &robert), Ok(approved.clone()), "its call may be made again");
    assert_eq!(decline(one.id, &robert, "no"), decided(ApprovalState::Approved));
    assert_eq!(withdraw(one.id, &ann), decided(ApprovalState::Approved));
    assert_eq!(conclude(one.id, 409, Some("invalid_state")), ApprovalState::Failed);
    assert_eq!(conclude(one.id, 201, None), ApprovalState::Done, "what was done was done");
    assert_eq!(conclude(one.id, 409, Some("invalid_state")), ApprovalState::Done);
    assert_eq!(decide(one.id, &robert), decided(ApprovalState::Done));

    let (two, is_new) = requested(&world, "POST", &ann);
    assert!(is_new, "two credits are two");
    assert!(matches!(decline(two.id, &robert, " "), Err(Error::Fields(_))), "without a reason");
    let declined = decline(two.id, &robert, "too much").expect("declined");
    assert_eq!((declined.state, declined.reason.as_deref()), (ApprovalState::Declined, Some("too much")));
    assert_eq!(decide(two.id, &robert), decided(ApprovalState::Declined));

    let (three, _) = requested(&world, "PATCH", &key);
    assert_eq!(requested(&world, "PATCH", &key), (three.clone(), false), "it comes to the same");
    assert!(requested(&world, "PATCH", &ann).1, "of another");
    assert_eq!(withdraw(three.id, &key).expect("withdrawn").state, ApprovalState::Withdrawn);
    assert!(requested(&world, "PATCH", &key).1, "the first waits no more");

    let (four, _) = requested(&world, "POST", &ann);
    let (five, _) = requested(&world, "POST", &ann);
    decide(five.id, &robert).expect("approved");
    world.store.set_now(START + Approval::WAIT - Duration::MICROSECOND);
    assert_eq!(four.state_at(START + Approval::WAIT - Duration::MICROSECOND), ApprovalState::Waiting);
    world.store.set_now(START + Approval::WAIT);
    assert_eq!(decide(four.id, &robert), decided(ApprovalState::Expired));
    assert_eq!(withdraw(four.id, &ann), decided(ApprovalState::Expired));
    assert!(decide(five.id, &robert).is_ok(), "what was approved is finished");
    world.store.set_now(START + Approval::WAIT * 2);
    assert_eq!(decide(five.id, &robert), decided(ApprovalState::Approved), "but not when its answer may be forgotten");
}
