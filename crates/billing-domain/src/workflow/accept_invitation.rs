//! Becoming a user by an invitation.

use time::OffsetDateTime;

use crate::api_key::Fingerprint;
use crate::error::{Error, Noun};
use crate::store::Transaction;
use crate::user::Member;

/// Makes whoever was invited a user: somebody new by the password that is chosen, and somebody who has proven to be a user elsewhere,
/// for whom none is chosen, by that of before.
///
/// # Errors
/// [`Error::NotFound`] when the invitation was taken, replaced, or its time is over; or when somebody has become a user meanwhile,
/// whose password is then to be proven.
pub fn accept_invitation(
    tx: &mut dyn Transaction,
    fingerprint: &Fingerprint,
    new_password: Option<&str>,
    now: OffsetDateTime,
) -> Result<Member, Error> {
    let invitation = tx.members().take_invitation(&fingerprint.prefix)?;
    if invitation.fingerprint != *fingerprint || invitation.is_over(now) {
        return Err(Error::NotFound(Noun::Invitation));
    }
    let (user, is_new) = tx.members().put(&invitation.email, new_password.unwrap_or_default(), invitation.role)?;
    if is_new != new_password.is_some() {
        return Err(Error::NotFound(Noun::Invitation));
    }
    Ok(Member { user, email: invitation.email, role: invitation.role })
}
