//! Inviting somebody to be a user.

use time::OffsetDateTime;

use crate::api_key::Fingerprint;
use crate::error::{Error, FieldErrors, Refusal};
use crate::store::Transaction;
use crate::text::check_email;
use crate::user::{Invitation, Role, normal_email};

/// Somebody is to be a user.
#[derive(Clone, Debug)]
pub struct InviteUser {
    /// Their address.
    pub email: String,
    /// What they will be.
    pub role: Role,
    /// What is kept of the text of the link.
    pub fingerprint: Fingerprint,
}

/// Keeps an invitation for [`Invitation::LASTS`], in the place of an earlier one to the same address.
///
/// # Errors
/// No address; [`Refusal::DuplicateResource`] when the user is there already.
pub fn invite_user(tx: &mut dyn Transaction, command: &InviteUser, now: OffsetDateTime) -> Result<Invitation, Error> {
    let email = normal_email(&command.email);
    let mut errors = FieldErrors::default();
    errors.keep("email", check_email(&email));
    errors.finish(())?;
    if tx.members().list()?.iter().any(|member| member.email == email) {
        return Err(Refusal::DuplicateResource("A user with this address is there: PATCH changes the role.").into());
    }
    let invitation = Invitation {
        fingerprint: command.fingerprint.clone(),
        organization: tx.organization(),
        email,
        role: command.role,
        created_at: now,
        expires_at: now + Invitation::LASTS,
    };
    tx.members().invite(&invitation)?;
    Ok(invitation)
}
