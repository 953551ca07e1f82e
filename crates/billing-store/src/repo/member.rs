//! The users of one organization, and who is invited.

use billing_domain::api_key::Fingerprint;
use billing_domain::id::{OrganizationId, UserId};
use billing_domain::store::MemberRepo;
use billing_domain::user::{Invitation, Invited, Member, Role, Session};
use billing_domain::{Error, Noun};
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::error::Failure;
use crate::pg::schema::{memberships, organizations, user_invitations, user_sessions, users};
use crate::pg::statement::fixed;
use crate::repo::user::{self, SessionRow, role};
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable)]
#[diesel(table_name = user_invitations, check_for_backend(Pg))]
struct InvitationRow {
    prefix: String,
    digest: Vec<u8>,
    organization_id: Uuid,
    email: String,
    role: String,
    created_at: OffsetDateTime,
    expires_at: OffsetDateTime,
}

impl TryFrom<InvitationRow> for Invitation {
    type Error = Error;

    fn try_from(row: InvitationRow) -> Result<Self, Error> {
        Ok(Self {
            fingerprint: Fingerprint { prefix: row.prefix, digest: row.digest },
            organization: row.organization_id.into(),
            email: row.email,
            role: role(&row.role)?,
            created_at: row.created_at,
            expires_at: row.expires_at,
        })
    }
}

/// The invitation with this prefix, over or not.
pub(crate) fn find_invitation(pg: &mut PgConnection, prefix: &str) -> Result<Option<Invited>, Failure> {
    let query = user_invitations::table
        .inner_join(organizations::table.on(organizations::id.eq(user_invitations::organization_id)))
        .filter(user_invitations::prefix.eq(prefix))
        .select((InvitationRow::as_select(), organizations::name, fixed::<Timestamptz>("clock_timestamp()")));
    let found: Option<(InvitationRow, String, OffsetDateTime)> = query.first(pg).optional()?;
    let Some((row, organization_name, now)) = found else { return Ok(None) };
    let of_address = users::table.filter(users::email.eq(&row.email));
    let is_user = diesel::select(exists(of_address)).get_result(pg)?;
    Ok(Some(Invited { invitation: row.try_into()?, organization_name, is_user, now }))
}

impl MemberRepo for PgTransaction<'_> {
    fn list(&mut self) -> Result<Vec<Member>, Error> {
        let query = memberships::table
            .inner_join(users::table.on(users::id.eq(memberships::user_id)))
            .filter(memberships::organization_id.eq(self.tenant()))
            .order(users::email)
            .select((users::id, users::email, memberships::role));
        let rows: Vec<(Uuid, String, String)> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(|(id, email, text)| Ok(Member { user: id.into(), email, role: role(&text)? })).collect()
    }

    fn set_role(&mut self, user: UserId, role: Role) -> Result<(), Error> {
        let target = memberships::table.find((user.uuid(), self.tenant()));
        let by_hand = (memberships::role.eq(role.as_str()), memberships::issuer.eq(None::<String>));
        let set = self.query(|pg| diesel::update(target).set(by_hand).execute(pg))?;
        expect_one(set, Noun::User)
    }

    fn remove(&mut self, user: UserId) -> Result<(), Error> {
        let target = memberships::table.find((user.uuid(), self.tenant()));
        // The sessions there go with it.
        expect_one(self.query(|pg| diesel::delete(target).execute(pg))?, Noun::User)
    }

    fn list_sessions(&mut self, user: UserId) -> Result<Vec<Session>, Error> {
        let tenant = self.tenant();
        let member = memberships::table.find((user.uuid(), tenant));
        if !self.query(|pg| diesel::select(exists(member)).get_result::<bool>(pg))? {
            return Err(Error::NotFound(Noun::User));
        }
        let query = user_sessions::table
            .filter(user_sessions::user_id.eq(user.uuid()).and(user_sessions::organization_id.eq(tenant)))
            .order((user_sessions::created_at.desc(), user_sessions::prefix.desc()))
            .select(SessionRow::as_select());
        let rows: Vec<SessionRow> = self.query(|pg| query.load(pg))?;
        Ok(rows.into_iter().map(Session::from).collect())
    }

    fn end_session(&mut self, user: UserId, prefix: &str) -> Result<(), Error> {
        let of_member = user_sessions::user_id.eq(user.uuid()).and(user_sessions::organization_id.eq(self.tenant()));
        let target = user_sessions::table.find(prefix).filter(of_member);
        expect_one(self.query(|pg| diesel::delete(target).execute(pg))?, Noun::Session)
    }

    fn invite(&mut self, invitation: &Invitation) -> Result<(), Error> {
        let tenant = self.tenant();
        let of_address =
            user_invitations::organization_id.eq(tenant).and(user_invitations::email.eq(&invitation.email));
        let row = (
            user_invitations::prefix.eq(&invitation.fingerprint.prefix),
            user_invitations::digest.eq(&invitation.fingerprint.digest),
            user_invitations::organization_id.eq(tenant),
            user_invitations::email.eq(&invitation.email),
            user_invitations::role.eq(invitation.role.as_str()),
            user_invitations::created_at.eq(invitation.created_at),
            user_invitations::expires_at.eq(invitation.expires_at),
        );
        self.query(|pg| {
            diesel::delete(user_invitations::table.filter(of_address)).execute(pg)?;
            diesel::insert_into(user_invitations::table).values(row).execute(pg)
        })
        .map(drop)
    }

    fn take_invitation(&mut self, prefix: &str) -> Result<Invitation, Error> {
        let target = user_invitations::table.find(prefix).filter(user_invitations::organization_id.eq(self.tenant()));
        let taken: Option<InvitationRow> =
            self.query(|pg| diesel::delete(target).returning(InvitationRow::as_select()).get_result(pg).optional())?;
        taken.ok_or(Error::NotFound(Noun::Invitation))?.try_into()
    }

    fn put(&mut self, email: &str, password_hash: &str, role: Role) -> Result<(UserId, bool), Error> {
        let tenant = self.tenant();
        self.query(|pg| user::put_member(pg, email, password_hash, OrganizationId::from(tenant), role))
            .map(|(id, is_new)| (id.into(), is_new))
    }
}

fn expect_one(changed: usize, noun: Noun) -> Result<(), Error> {
    if changed == 1 { Ok(()) } else { Err(Error::NotFound(noun)) }
}
