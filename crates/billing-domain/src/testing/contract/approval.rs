//! Requests for a second person: kept, listed by where they stand, and decided about.

use time::Duration;

use super::{Harness, Tenant};
use crate::approval::{Approval, ApprovalState, HeldCall, Outcome};
use crate::audit::{Actor, ActorKind};
use crate::error::{Error, HeldAmount, Noun};
use crate::id::ApprovalId;
use crate::store::{PageRequest, Scope};
use crate::testing::world::decimal;

fn approval(tenant: &Tenant<'_>, amount: Option<&str>) -> Approval {
    let at = tenant.look(|_, now| Ok(now));
    Approval {
        id: tenant.build(|ids| ids.next()),
        call: HeldCall {
            operation: "create_credit".to_owned(),
            method: "POST".to_owned(),
            path: "/api/credits/?a=b".to_owned(),
            body: amount.map(|amount| format!("{{\"amount\": {amount}}}")),
        },
        held: HeldAmount { amount: amount.map(decimal), currency_code: amount.map(|_| "USD".to_owned()) },
        requested_by: Actor::api_key("abcdefgh", "nightly"),
        requested_at: at,
        expires_at: at + Approval::WAIT,
        state: ApprovalState::Waiting,
        decided_by: None,
        decided_at: None,
        reason: None,
        outcome: None,
    }
}

fn get(tenant: &Tenant<'_>, id: ApprovalId) -> Result<Approval, Error> {
    tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.approvals().get(id))
}

fn list(tenant: &Tenant<'_>, state: Option<ApprovalState>, later: Duration) -> Vec<Approval> {
    tenant.look(|tx, now| tx.approvals().list(state, now + later, &PageRequest::first())).items
}

pub(super) fn keeps_approvals(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let mut all = ["100.010", "2", "3"].map(|amount| approval(&tenant, Some(amount))).to_vec();
    all.push(approval(&tenant, None));
    for one in &all {
        tenant.catalog(|tx, _| tx.approvals().insert(one));
        assert_eq!(get(&tenant, one.id).as_ref(), Ok(one), "every field");
    }
    let person = Actor { kind: ActorKind::User, id: "user_1".to_owned(), name: "ann@acme.io".to_owned() };
    let mut decide = |place: usize, state, reason: Option<&str>, outcome| {
        let one = &mut all[place];
        one.state = state;
        one.decided_by = Some(person.clone());
        one.decided_at = Some(one.requested_at + Duration::MINUTE);
        one.reason = reason.map(str::to_owned);
        one.outcome = outcome;
        let one = one.clone();
        tenant.catalog(|tx, _| tx.approvals().update(&one));
        assert_eq!(get(&tenant, one.id), Ok(one), "every field");
    };
    let failed = Outcome { status: 409, code: Some("invalid_state".to_owned()) };
    decide(0, ApprovalState::Approved, None, None);
    decide(0, ApprovalState::Failed, None, Some(failed));
    decide(0, ApprovalState::Done, None, Some(Outcome { status: 201, code: None }));
    decide(1, ApprovalState::Declined, Some("too much"), None);
    let foreign = theirs.run(&Scope::Catalog(theirs.id), |tx, _| tx.approvals().update(&all[2]));
    assert_eq!(foreign, Err(Error::NotFound(Noun::Approval)), "another's");
    assert_eq!(get(&theirs, all[2].id), Err(Error::NotFound(Noun::Approval)));
    assert_eq!(list(&theirs, None, Duration::ZERO), []);
    let (rest, week) = ([all[3].clone(), all[2].clone()], Approval::WAIT + Duration::MINUTE);
    #[rustfmt::skip]
    let cases = [
        // state,                        later,          kept,                    why
        (Some(ApprovalState::Waiting),  Duration::ZERO, rest.to_vec(),           "the newest first"),
        (Some(ApprovalState::Waiting),  week,           vec![],                  "they wait no longer"),
        (Some(ApprovalState::Expired),  Duration::ZERO, vec![],                  "none yet"),
        (Some(ApprovalState::Expired),  week,           rest.to_vec(),           "nobody notes it"),
        (Some(ApprovalState::Declined), week,           vec![all[1].clone()],    "decided for good"),
        (Some(ApprovalState::Done),     Duration::ZERO, vec![all[0].clone()],    "done"),
        (Some(ApprovalState::Failed),   Duration::ZERO, vec![],                  "done after all"),
    ];
    for (state, later, kept, why) in cases {
        assert_eq!(list(&tenant, state, later), kept, "{state:?}: {why}");
    }
    let page = |after: Option<String>| {
        tenant.look(|tx, now| tx.approvals().list(None, now, &PageRequest { limit: 3, after: after.clone() }))
    };
    let first = page(None);
    assert_eq!(first.items.iter().map(|one| one.id).collect::<Vec<_>>(), [all[3].id, all[2].id, all[1].id]);
    let last = page(first.next);
    assert_eq!((last.items, last.next), (vec![all[0].clone()], None));
}
