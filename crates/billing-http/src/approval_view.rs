//! Requests for a second person as answers show them.

use billing_domain::approval::{Approval, ApprovalState};
use billing_domain::audit::Actor;
use billing_domain::event::Properties;
use billing_domain::id::ApprovalId;
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::wire::{Instant, Number, view, words_of};

words_of! { ApprovalState }

view! {
    /// A call that a second person has to approve, of which nothing is done before.
    ApprovalView {
        /// Its id.
        approval_id: ApprovalId,
        /// Where it stands.
        state: ApprovalState,
        /// The call, by its `operationId` in the description of the interface.
        operation: String,
        /// The call's method.
        method: String,
        /// The call's path, with its query.
        path: String,
        /// The call's body; null where it has none.
        body: Option<Properties>,
        /// What the call gives away or takes; of a change of the limit the new one, null where it is to be taken away.
        amount: Option<Number>,
        /// What the amount is in; null where the call changes the limit.
        currency_code: Option<String>,
        /// Who asked.
        requested_by: PersonView,
        /// When.
        requested_at: Instant,
        /// From when on nobody can approve it.
        expires_at: Instant,
        /// Who approved, declined or withdrew it; null while it waits.
        decided_by: Option<PersonView>,
        /// When.
        decided_at: Option<Instant>,
        /// Why it was declined.
        reason: Option<String>,
        /// The status that the call was answered with when it was made; null before.
        outcome_status: Option<u16>,
        /// Why the call was refused then; null where it was not.
        outcome_code: Option<String>,
    }
}

view! {
    /// A person or a program, as it was called then.
    PersonView {
        /// What it is: `user` or `api_key`.
        r#type: String,
        /// The id of the user, or the prefix of the key.
        id: String,
        /// The address of the user, or the name of the key.
        name: String,
    }
}

impl From<&Actor> for PersonView {
    fn from(actor: &Actor) -> Self {
        Self { r#type: actor.kind.as_str().to_owned(), id: actor.id.clone(), name: actor.name.clone() }
    }
}

impl ApprovalView {
    /// As it stands at an instant.
    pub fn new(approval: &Approval, now: OffsetDateTime) -> Self {
        let body: Option<Map<String, Value>> =
            approval.call.body.as_deref().and_then(|body| serde_json::from_str(body).ok());
        let outcome = approval.outcome.as_ref();
        Self {
            approval_id: approval.id,
            state: approval.state_at(now),
            operation: approval.call.operation.clone(),
            method: approval.call.method.clone(),
            path: approval.call.path.clone(),
            body: body.map(Properties::from),
            amount: approval.held.amount.as_ref().map(Into::into),
            currency_code: approval.held.currency_code.clone(),
            requested_by: (&approval.requested_by).into(),
            requested_at: Instant(approval.requested_at),
            expires_at: Instant(approval.expires_at),
            decided_by: approval.decided_by.as_ref().map(Into::into),
            decided_at: approval.decided_at.map(Instant),
            reason: approval.reason.clone(),
            outcome_status: outcome.map(|outcome| outcome.status),
            outcome_code: outcome.and_then(|outcome| outcome.code.clone()),
        }
    }
}
