//! Users: people who sign in, what they are in each organization, and their sessions. The store sees only digests of what opens
//! anything.

use time::{Duration, OffsetDateTime};

use crate::api_key::Fingerprint;
use crate::id::{OrganizationId, UserId};

choices! {
    /// What a user is in an organization.
    pub Role {
        /// Everything, users included.
        Owner = "owner",
        /// Invoices, payments and credits.
        Finance = "finance",
        /// Customers and their subscriptions, but no money.
        Support = "support",
        /// Plans, metrics, events, webhooks.
        Developer = "developer",
        /// Looks at everything and changes nothing.
        Reader = "reader",
    }
}

/// An organization that a user belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Which one.
    pub organization: OrganizationId,
    /// Its name.
    pub organization_name: String,
    /// What the user is there.
    pub role: Role,
}

/// A person who signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Names it for ever.
    pub id: UserId,
    /// Its address in lower case, unique in the whole store.
    pub email: String,
    /// The password as its hash says, parameters and salt included; empty where there is none, and nobody signs in with one.
    pub password_hash: String,
    /// Where it belongs, by the name of the organization.
    pub memberships: Vec<Membership>,
}

/// A user who has signed in, with one browser and in one organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// What the store knows of the text that opens it.
    pub fingerprint: Fingerprint,
    /// Whose it is.
    pub user: UserId,
    /// The organization that is looked at.
    pub organization: OrganizationId,
    /// The browser, as it calls itself.
    pub browser: String,
    /// Since when.
    pub created_at: OffsetDateTime,
    /// When it was last used, give or take [`Session::SEEN_EVERY`].
    pub seen_at: OffsetDateTime,
}

impl Session {
    /// How long it may rest.
    pub const IDLE_MAX: Duration = Duration::hours(2);
    /// How long it lasts, however busy.
    pub const AGE_MAX: Duration = Duration::hours(12);
    /// How old [`Session::seen_at`] gets before it is written again.
    pub const SEEN_EVERY: Duration = Duration::MINUTE;

    /// Whether it opens nothing any more. The last instant of either limit is too late.
    pub fn is_over(&self, now: OffsetDateTime) -> bool {
        now >= self.seen_at + Self::IDLE_MAX || now >= self.created_at + Self::AGE_MAX
    }

    /// Whether it is time to note that it was used.
    pub fn is_to_be_noted(&self, now: OffsetDateTime) -> bool {
        now >= self.seen_at + Self::SEEN_EVERY
    }
}

/// A session that is found, with everything that a page needs to know of its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedIn {
    /// The session.
    pub session: Session,
    /// Its user's address.
    pub email: String,
    /// What the user is in the organization of the session now.
    pub membership: Membership,
    /// Whether the user belongs to other organizations as well.
    pub has_others: bool,
    /// The time zone that the user reads instants in; `None`: the organization's.
    pub timezone: Option<String>,
    /// The organization's.
    pub organization_timezone: String,
    /// The present instant.
    pub now: OffsetDateTime,
}

/// A user as one of its organizations sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which one.
    pub user: UserId,
    /// Its address.
    pub email: String,
    /// What it is there.
    pub role: Role,
}

/// An organization's word that whoever has a link is to be one of its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// What the store knows of the link.
    pub fingerprint: Fingerprint,
    /// Where they are invited to.
    pub organization: OrganizationId,
    /// Their address.
    pub email: String,
    /// What they will be.
    pub role: Role,
    /// Since when.
    pub created_at: OffsetDateTime,
    /// From this instant on it opens nothing.
    pub expires_at: OffsetDateTime,
}

impl Invitation {
    /// How long it opens.
    pub const LASTS: Duration = Duration::days(7);

    /// Whether it opens nothing any more. The last instant is too late.
    pub fn is_over(&self, now: OffsetDateTime) -> bool {
        now >= self.expires_at
    }
}

/// An invitation that is found, with everything that its page needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invited {
    /// The invitation.
    pub invitation: Invitation,
    /// Who invites.
    pub organization_name: String,
    /// Whether there is a user with the address already.
    pub is_user: bool,
    /// The present instant.
    pub now: OffsetDateTime,
}

/// An account of an OpenID provider. Issuer and subject name it for ever; its address may change, and may become somebody else's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    /// The provider, as it calls itself.
    pub issuer: String,
    /// The account, as the provider calls it.
    pub subject: String,
}

impl Identity {
    /// Longest subject that is taken, in characters: what the specification allows.
    pub const SUBJECT_CHARACTERS_MAX: usize = 255;
}

/// What a user is in an organization, and who said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRole {
    /// The role.
    pub role: Role,
    /// The issuer by whose groups it was given; `None`: a person gave it.
    pub issuer: Option<String>,
}

/// Somebody who was sent to the provider, and is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInAttempt {
    /// What the store knows of the cookie of the browser that was sent.
    pub fingerprint: Fingerprint,
    /// The user who links an account; `None`: whoever comes back signs in.
    pub linking: Option<UserId>,
    /// The page to go to then.
    pub destination: String,
    /// Since when.
    pub created_at: OffsetDateTime,
}

impl SignInAttempt {
    /// How long it is waited for.
    pub const LASTS: Duration = Duration::minutes(10);

    /// Whether nobody is waited for any more. The last instant is too late.
    pub fn is_over(&self, now: OffsetDateTime) -> bool {
        now >= self.created_at + Self::LASTS
    }
}

/// The address as it is kept: case and surrounding space do not make another user.
pub fn normal_email(text: &str) -> String {
    text.trim().to_lowercase()
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn sessions_end() {
        let start = datetime!(2026-01-01 08:00 UTC);
        let minutes = Duration::minutes;
        #[rustfmt::skip]
        let cases = [
            // seen,          now,            over,  noted, why
            (minutes(0),      minutes(0),     false, false, "just begun"),
            (minutes(0),      minutes(1),     false, true,  "used after a minute"),
            (minutes(0),      minutes(119),   false, true,  "rested for less than two hours"),
            (minutes(0),      minutes(120),   true,  true,  "rested for two hours"),
            (minutes(719),    minutes(719),   false, false, "used to the last"),
            (minutes(719),    minutes(720),   true,  true,  "twelve hours old, however busy"),
        ];
        for (seen, now, over, noted, why) in cases {
            let session = Session {
                fingerprint: Fingerprint { prefix: "abcdefgh".to_owned(), digest: vec![1] },
                user: Uuid::nil().into(),
                organization: Uuid::nil().into(),
                browser: String::new(),
                created_at: start,
                seen_at: start + seen,
            };
            assert_eq!(session.is_over(start + now), over, "{why}");
            assert_eq!(session.is_to_be_noted(start + now), noted, "{why}");
        }
    }
}
