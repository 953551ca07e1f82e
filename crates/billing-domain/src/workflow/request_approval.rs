//! Asks for a second person.

use time::OffsetDateTime;

use crate::approval::{Approval, ApprovalState, HeldCall};
use crate::audit::Actor;
use crate::error::{Error, HeldAmount, Refusal};
use crate::store::{PageRequest, Transaction};

/// A call that was held, and by whom it was made.
#[derive(Clone, Debug)]
pub struct RequestApproval {
    /// The call.
    pub call: HeldCall,
    /// What it comes to.
    pub held: HeldAmount,
    /// Who made it.
    pub by: Actor,
}

/// Most requests that wait in one organization.
pub const WAITING_APPROVALS_MAX: u32 = 1_000;

/// Keeps a call that was held until another person decides about it: the request, and whether it is new.
///
/// # Errors
/// [`Refusal::TooManyApprovals`]; [`Error::Store`].
pub fn request_approval(
    tx: &mut dyn Transaction,
    command: &RequestApproval,
    now: OffsetDateTime,
) -> Result<(Approval, bool), Error> {
    let all = PageRequest { limit: WAITING_APPROVALS_MAX, after: None };
    let waiting = tx.approvals().list(Some(ApprovalState::Waiting), now, &all)?;
    if waiting.items.len() >= WAITING_APPROVALS_MAX as usize {
        return Err(Refusal::TooManyApprovals.into());
    }
    // What takes no key of its request comes to the same however often it is asked for.
    let is_same = |other: &&Approval| other.call == command.call && other.requested_by == command.by;
    if command.call.method != "POST"
        && let Some(same) = waiting.items.iter().find(is_same)
    {
        return Ok((same.clone(), false));
    }
    let approval = Approval {
        id: tx.new_uuid().into(),
        call: command.call.clone(),
        held: command.held.clone(),
        requested_by: command.by.clone(),
        requested_at: now,
        expires_at: now + Approval::WAIT,
        state: ApprovalState::Waiting,
        decided_by: None,
        decided_at: None,
        reason: None,
        outcome: None,
    };
    tx.approvals().insert(&approval)?;
    Ok((approval, true))
}
