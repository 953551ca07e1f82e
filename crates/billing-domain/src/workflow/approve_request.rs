//! Decides about what waits for a second person.

use time::OffsetDateTime;

use crate::approval::{Approval, ApprovalState, Outcome};
use crate::audit::{Actor, ActorKind};
use crate::error::{Error, FieldCode, FieldErrors, Refusal};
use crate::id::ApprovalId;
use crate::store::Transaction;
use crate::text;

/// Approves a request, whose call is made next; one that was approved before stays so, and its call is made again if nobody knows what
/// came of it.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::NotAPerson`], [`Refusal::OwnRequest`]; [`Refusal::ApprovalDecided`].
pub fn approve_request(
    tx: &mut dyn Transaction,
    id: ApprovalId,
    by: &Actor,
    now: OffsetDateTime,
) -> Result<Approval, Error> {
    let mut approval = tx.approvals().get(id)?;
    expect_other_person(&approval, by)?;
    // While the answer to its call is kept, making it again does it once.
    if approval.state == ApprovalState::Approved && now < approval.expires_at + Approval::WAIT {
        return Ok(approval);
    }
    approval.decide(ApprovalState::Approved, by, now)?;
    tx.approvals().update(&approval)?;
    Ok(approval)
}

/// Notes what came of the call of an approved request. What was done stays done, whoever else may have met a refusal.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Store`].
pub fn conclude_approval(tx: &mut dyn Transaction, id: ApprovalId, outcome: &Outcome) -> Result<Approval, Error> {
    let mut approval = tx.approvals().get(id)?;
    let state = match outcome.code {
        None => ApprovalState::Done,
        Some(_) => ApprovalState::Failed,
    };
    let is_open = approval.state == ApprovalState::Approved;
    if is_open || (approval.state == ApprovalState::Failed && state == ApprovalState::Done) {
        approval.state = state;
        approval.outcome = Some(outcome.clone());
        tx.approvals().update(&approval)?;
    }
    Ok(approval)
}

/// Declines a request for a reason: its call is never made.
///
/// # Errors
/// A bad reason; [`Error::NotFound`]; [`Refusal::NotAPerson`], [`Refusal::OwnRequest`]; [`Refusal::ApprovalDecided`].
pub fn decline_approval(
    tx: &mut dyn Transaction,
    id: ApprovalId,
    (by, reason): (&Actor, &str),
    now: OffsetDateTime,
) -> Result<Approval, Error> {
    let mut errors = FieldErrors::default();
    if reason.trim().is_empty() {
        errors.push("reason", FieldCode::Blank, "Say why: whoever asked reads it.");
    }
    errors.keep("reason", text::check_length(reason, text::DESCRIPTION_CHARACTERS_MAX));
    errors.finish(())?;
    let mut approval = tx.approvals().get(id)?;
    expect_other_person(&approval, by)?;
    approval.decide(ApprovalState::Declined, by, now)?;
    approval.reason = Some(reason.to_owned());
    tx.approvals().update(&approval)?;
    Ok(approval)
}

/// Withdraws a request: nobody but whoever made it can.
///
/// # Errors
/// [`Error::NotFound`]; [`Refusal::OthersRequest`]; [`Refusal::ApprovalDecided`].
pub fn withdraw_approval(
    tx: &mut dyn Transaction,
    id: ApprovalId,
    by: &Actor,
    now: OffsetDateTime,
) -> Result<Approval, Error> {
    let mut approval = tx.approvals().get(id)?;
    if !is_same(&approval.requested_by, by) {
        return Err(Refusal::OthersRequest.into());
    }
    approval.decide(ApprovalState::Withdrawn, by, now)?;
    tx.approvals().update(&approval)?;
    Ok(approval)
}

/// Refuses a program, and whoever asked.
fn expect_other_person(approval: &Approval, by: &Actor) -> Result<(), Refusal> {
    match by.kind {
        ActorKind::ApiKey | ActorKind::IdentityProvider => Err(Refusal::NotAPerson),
        ActorKind::User if is_same(&approval.requested_by, by) => Err(Refusal::OwnRequest),
        ActorKind::User => Ok(()),
    }
}

/// Whether both are one, however they were called at the time.
fn is_same(one: &Actor, other: &Actor) -> bool {
    (one.kind, &one.id) == (other.kind, &other.id)
}
