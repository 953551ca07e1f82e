//! What a second person has to approve: who asked for which call, what it comes to, and what became of it.

use time::{Duration, OffsetDateTime};

use crate::audit::Actor;
use crate::error::{HeldAmount, Refusal};
use crate::id::ApprovalId;

choices! {
    /// Where a request for an approval stands.
    pub ApprovalState {
        /// Nobody has decided about it.
        Waiting = "waiting",
        /// Somebody has approved it, and its call is being made.
        Approved = "approved",
        /// Its call was made.
        Done = "done",
        /// Its call was refused, and nothing was done.
        Failed = "failed",
        /// Somebody has said no.
        Declined = "declined",
        /// Whoever asked wants it no more.
        Withdrawn = "withdrawn",
        /// Nobody decided in time.
        Expired = "expired",
    }
}

/// A call as it was made, to be made again when it is approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldCall {
    /// What is called, by the name that the interface gives it.
    pub operation: String,
    /// The method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The body; `None`: it had none.
    pub body: Option<String>,
}

/// What became of an approved call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The status of its answer, as a number of the interface.
    pub status: u16,
    /// Why it was refused; `None`: it was not.
    pub code: Option<String>,
}

/// A request for an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// What is asked for.
    pub call: HeldCall,
    /// What that comes to.
    pub held: HeldAmount,
    /// Who asked.
    pub requested_by: Actor,
    /// When.
    pub requested_at: OffsetDateTime,
    /// From when on nobody can approve it.
    pub expires_at: OffsetDateTime,
    /// Where it stands, but for [`ApprovalState::Expired`], which time alone makes of one that waits: ask [`Approval::state_at`].
    pub state: ApprovalState,
    /// Who decided.
    pub decided_by: Option<Actor>,
    /// When.
    pub decided_at: Option<OffsetDateTime>,
    /// Why it was declined.
    pub reason: Option<String>,
    /// What became of its call.
    pub outcome: Option<Outcome>,
}

impl Approval {
    /// How long a request waits.
    pub const WAIT: Duration = Duration::days(7);

    /// Where it stands at an instant.
    pub fn state_at(&self, now: OffsetDateTime) -> ApprovalState {
        match self.state {
            ApprovalState::Waiting if now >= self.expires_at => ApprovalState::Expired,
            state => state,
        }
    }

    /// Refuses to decide once more.
    ///
    /// # Errors
    /// [`Refusal::ApprovalDecided`].
    fn expect_waiting(&self, now: OffsetDateTime) -> Result<(), Refusal> {
        match self.state_at(now) {
            ApprovalState::Waiting => Ok(()),
            state => Err(Refusal::ApprovalDecided(state.as_str())),
        }
    }

    /// Notes a decision about one that waits.
    ///
    /// # Errors
    /// [`Refusal::ApprovalDecided`].
    pub fn decide(&mut self, state: ApprovalState, by: &Actor, now: OffsetDateTime) -> Result<(), Refusal> {
        self.expect_waiting(now)?;
        self.state = state;
        self.decided_by = Some(by.clone());
        self.decided_at = Some(now);
        Ok(())
    }

    /// What its call may come to.
    pub fn approved(&self) -> Approved {
        Approved { approval: self.id, held: self.held.clone(), requested_by: self.requested_by.clone() }
    }
}

/// What a second person has approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approved {
    /// Which request.
    pub approval: ApprovalId,
    /// What the call was going to come to when it was asked for.
    pub held: HeldAmount,
    /// Who asked.
    pub requested_by: Actor,
}
