//! Accounts of OpenID providers, what their groups make of users, and who was sent to a provider.

use billing_domain::Error;
use billing_domain::api_key::Fingerprint;
use billing_domain::id::{OrganizationId, UserId};
use billing_domain::store::IdentityRepo;
use billing_domain::user::{HeldRole, Identity, Role, SignInAttempt, User};
use diesel::dsl::{exists, not};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::error::Failure;
use crate::pg::schema::{memberships, sign_in_attempts, user_identities, users};
use crate::pg::statement::fixed;
use crate::repo::user::{role, with_memberships};
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable)]
#[diesel(table_name = sign_in_attempts, check_for_backend(Pg))]
struct AttemptRow {
    prefix: String,
    digest: Vec<u8>,
    linking: Option<Uuid>,
    destination: String,
    created_at: OffsetDateTime,
}

impl From<AttemptRow> for SignInAttempt {
    fn from(row: AttemptRow) -> Self {
        Self {
            fingerprint: Fingerprint { prefix: row.prefix, digest: row.digest },
            linking: row.linking.map(Into::into),
            destination: row.destination,
            created_at: row.created_at,
        }
    }
}

pub(crate) fn find_linked(pg: &mut PgConnection, identity: &Identity) -> Result<Option<User>, Failure> {
    let query = user_identities::table
        .inner_join(users::table.on(users::id.eq(user_identities::user_id)))
        .filter(user_identities::issuer.eq(&identity.issuer).and(user_identities::subject.eq(&identity.subject)))
        .select((users::id, users::email, users::password_hash));
    let found = query.first(pg).optional()?;
    found.map(|row| with_memberships(pg, row)).transpose()
}

pub(crate) fn list(pg: &mut PgConnection, user: UserId) -> QueryResult<Vec<Identity>> {
    let query = user_identities::table
        .filter(user_identities::user_id.eq(user.uuid()))
        .order(user_identities::issuer)
        .select((user_identities::issuer, user_identities::subject));
    let rows: Vec<(String, String)> = query.load(pg)?;
    Ok(rows.into_iter().map(|(issuer, subject)| Identity { issuer, subject }).collect())
}

pub(crate) fn list_given(pg: &mut PgConnection, user: UserId, issuer: &str) -> QueryResult<Vec<OrganizationId>> {
    let query = memberships::table
        .filter(memberships::user_id.eq(user.uuid()).and(memberships::issuer.eq(issuer)))
        .order(memberships::organization_id)
        .select(memberships::organization_id);
    let rows: Vec<Uuid> = query.load(pg)?;
    Ok(rows.into_iter().map(Into::into).collect())
}

pub(crate) fn begin_attempt(
    pg: &mut PgConnection,
    fingerprint: &Fingerprint,
    linking: Option<UserId>,
    destination: &str,
) -> QueryResult<()> {
    pg.transaction(|pg| {
        let now: OffsetDateTime = diesel::select(fixed::<Timestamptz>("clock_timestamp()")).get_result(pg)?;
        let over = sign_in_attempts::table.filter(sign_in_attempts::created_at.le(now - SignInAttempt::LASTS));
        diesel::delete(over).execute(pg)?;
        diesel::insert_into(sign_in_attempts::table)
            .values((
                sign_in_attempts::prefix.eq(&fingerprint.prefix),
                sign_in_attempts::digest.eq(&fingerprint.digest),
                sign_in_attempts::linking.eq(linking.map(|user| user.uuid())),
                sign_in_attempts::destination.eq(destination),
                sign_in_attempts::created_at.eq(now),
            ))
            .execute(pg)?;
        Ok(())
    })
}

pub(crate) fn take_attempt(
    pg: &mut PgConnection,
    prefix: &str,
) -> QueryResult<Option<(SignInAttempt, OffsetDateTime)>> {
    let taken = diesel::delete(sign_in_attempts::table.find(prefix));
    let taken = taken.returning((AttemptRow::as_select(), fixed::<Timestamptz>("clock_timestamp()")));
    let row: Option<(AttemptRow, OffsetDateTime)> = taken.get_result(pg).optional()?;
    Ok(row.map(|(row, now)| (row.into(), now)))
}

/// Links a user, unless the account is linked, or the user with another one of the issuer.
fn link(pg: &mut PgConnection, user: Uuid, identity: &Identity) -> QueryResult<bool> {
    let made = diesel::insert_into(user_identities::table)
        .values((
            user_identities::issuer.eq(&identity.issuer),
            user_identities::subject.eq(&identity.subject),
            user_identities::user_id.eq(user),
        ))
        .on_conflict_do_nothing();
    Ok(made.execute(pg)? == 1)
}

fn give_role(pg: &mut PgConnection, user: Uuid, tenant: Uuid, issuer: &str, role: Role) -> QueryResult<()> {
    let given = (memberships::role.eq(role.as_str()), memberships::issuer.eq(issuer));
    diesel::insert_into(memberships::table)
        .values((memberships::user_id.eq(user), memberships::organization_id.eq(tenant), given))
        .on_conflict((memberships::user_id, memberships::organization_id))
        .do_update()
        .set(given)
        .execute(pg)?;
    Ok(())
}

impl IdentityRepo for PgTransaction<'_> {
    fn sign_up(&mut self, email: &str, identity: &Identity, role: Role) -> Result<Option<UserId>, Error> {
        let (tenant, id) = (self.tenant(), Uuid::now_v7());
        self.query(|pg| {
            let made = diesel::insert_into(users::table)
                .values((users::id.eq(id), users::email.eq(email), users::password_hash.eq("")))
                .on_conflict(users::email)
                .do_nothing();
            if made.execute(pg)? == 0 {
                return Ok(None);
            }
            if !link(pg, id, identity)? {
                // Nobody has seen it yet.
                diesel::delete(users::table.find(id)).execute(pg)?;
                return Ok(None);
            }
            give_role(pg, id, tenant, &identity.issuer, role)?;
            Ok(Some(id.into()))
        })
    }

    fn link(&mut self, user: UserId, identity: &Identity) -> Result<bool, Error> {
        self.query(|pg| link(pg, user.uuid(), identity))
    }

    fn unlink(&mut self, user: UserId, identity: &Identity) -> Result<bool, Error> {
        let with_password = users::table.find(user.uuid()).filter(users::password_hash.ne(""));
        let given = memberships::table
            .filter(memberships::user_id.eq(user.uuid()).and(memberships::issuer.eq(&identity.issuer)));
        let target = user_identities::table
            .find((&identity.issuer, &identity.subject))
            .filter(user_identities::user_id.eq(user.uuid()))
            .filter(exists(with_password).and(not(exists(given))));
        Ok(self.query(|pg| diesel::delete(target).execute(pg))? == 1)
    }

    fn find_role(&mut self, user: UserId) -> Result<Option<HeldRole>, Error> {
        let query =
            memberships::table.find((user.uuid(), self.tenant())).select((memberships::role, memberships::issuer));
        let row: Option<(String, Option<String>)> = self.query(|pg| query.first(pg).optional())?;
        row.map(|(text, issuer)| Ok(HeldRole { role: role(&text)?, issuer })).transpose()
    }

    fn give_role(&mut self, user: UserId, issuer: &str, role: Role) -> Result<(), Error> {
        let tenant = self.tenant();
        self.query(|pg| give_role(pg, user.uuid(), tenant, issuer, role))
    }
}
