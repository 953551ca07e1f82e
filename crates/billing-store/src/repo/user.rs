//! Users, what they are in organizations, and their sessions.

use billing_domain::api_key::Fingerprint;
use billing_domain::id::{OrganizationId, UserId};
use billing_domain::user::{Membership, Role, Session, SignedIn, User};
use billing_domain::{Error, Noun};
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Timestamptz};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::choice;
use crate::pg::error::Failure;
use crate::pg::schema::{memberships, organizations, user_sessions, users};
use crate::pg::statement::fixed;

/// Whether the user of a session belongs to other organizations as well.
const HAS_OTHERS: &str = "EXISTS (SELECT FROM memberships AS others
    WHERE others.user_id = user_sessions.user_id AND others.organization_id <> user_sessions.organization_id)";

#[derive(Queryable, Selectable)]
#[diesel(table_name = user_sessions, check_for_backend(Pg))]
pub(crate) struct SessionRow {
    prefix: String,
    digest: Vec<u8>,
    user_id: Uuid,
    organization_id: Uuid,
    browser: String,
    created_at: OffsetDateTime,
    seen_at: OffsetDateTime,
}

impl From<SessionRow> for Session {
    fn from(row: SessionRow) -> Self {
        Self {
            fingerprint: Fingerprint { prefix: row.prefix, digest: row.digest },
            user: row.user_id.into(),
            organization: row.organization_id.into(),
            browser: row.browser,
            created_at: row.created_at,
            seen_at: row.seen_at,
        }
    }
}

pub(crate) fn role(text: &str) -> Result<Role, Error> {
    choice(Role::ALL, Role::as_str, text)
}

fn membership((organization, organization_name, text): (Uuid, String, String)) -> Result<Membership, Error> {
    Ok(Membership { organization: organization.into(), organization_name, role: role(&text)? })
}

pub(crate) fn has_any(pg: &mut PgConnection) -> QueryResult<bool> {
    diesel::select(exists(users::table.select(users::id))).get_result(pg)
}

pub(crate) fn find(pg: &mut PgConnection, email: &str) -> Result<Option<User>, Failure> {
    let found = users::table.filter(users::email.eq(email)).select((users::id, users::email, users::password_hash));
    let found = found.first(pg).optional()?;
    found.map(|row| with_memberships(pg, row)).transpose()
}

/// A user with everything that it belongs to.
pub(crate) fn with_memberships(
    pg: &mut PgConnection,
    (id, email, password_hash): (Uuid, String, String),
) -> Result<User, Failure> {
    let belongs = memberships::table
        .inner_join(organizations::table.on(organizations::id.eq(memberships::organization_id)))
        .filter(memberships::user_id.eq(id))
        .order((organizations::name, organizations::id))
        .select((organizations::id, organizations::name, memberships::role));
    let rows: Vec<(Uuid, String, String)> = belongs.load(pg)?;
    let memberships = rows.into_iter().map(membership).collect::<Result<_, _>>()?;
    Ok(User { id: id.into(), email, password_hash, memberships })
}

/// Whether the user was made.
pub(crate) fn put(
    pg: &mut PgConnection,
    email: &str,
    password_hash: &str,
    organization: OrganizationId,
    role: Role,
) -> Result<bool, Failure> {
    pg.transaction(|pg| {
        let is_known = organizations::table.find(organization.uuid());
        if !diesel::select(exists(is_known)).get_result::<bool>(pg)? {
            return Err(Error::NotFound(Noun::Organization).into());
        }
        Ok(put_member(pg, email, password_hash, organization, role)?.1)
    })
}

/// The user, made where there is none with this address, with a role in an organization that there is; and whether it was made.
pub(crate) fn put_member(
    pg: &mut PgConnection,
    email: &str,
    password_hash: &str,
    organization: OrganizationId,
    role: Role,
) -> QueryResult<(Uuid, bool)> {
    let made = diesel::insert_into(users::table)
        .values((users::id.eq(Uuid::now_v7()), users::email.eq(email), users::password_hash.eq(password_hash)))
        .on_conflict(users::email)
        .do_nothing()
        .execute(pg)?;
    let id: Uuid = users::table.filter(users::email.eq(email)).select(users::id).first(pg)?;
    diesel::insert_into(memberships::table)
        .values((
            memberships::user_id.eq(id),
            memberships::organization_id.eq(organization.uuid()),
            memberships::role.eq(role.as_str()),
        ))
        .on_conflict((memberships::user_id, memberships::organization_id))
        .do_update()
        // It is a person's now.
        .set((memberships::role.eq(role.as_str()), memberships::issuer.eq(None::<String>)))
        .execute(pg)?;
    Ok((id, made == 1))
}

pub(crate) fn set_password(pg: &mut PgConnection, email: &str, password_hash: &str) -> Result<bool, Failure> {
    pg.transaction(|pg| {
        let changed = diesel::update(users::table.filter(users::email.eq(email)))
            .set(users::password_hash.eq(password_hash))
            .returning(users::id)
            .get_result::<Uuid>(pg)
            .optional()?;
        let Some(id) = changed else { return Ok(false) };
        diesel::delete(user_sessions::table.filter(user_sessions::user_id.eq(id))).execute(pg)?;
        Ok(true)
    })
}

pub(crate) fn set_timezone(pg: &mut PgConnection, user: UserId, timezone: Option<&str>) -> QueryResult<bool> {
    Ok(diesel::update(users::table.find(user.uuid())).set(users::timezone.eq(timezone)).execute(pg)? == 1)
}

pub(crate) fn remove_member(pg: &mut PgConnection, organization: OrganizationId, email: &str) -> QueryResult<bool> {
    let named = users::table.filter(users::email.eq(email)).select(users::id);
    let target = memberships::table
        .filter(memberships::organization_id.eq(organization.uuid()).and(memberships::user_id.eq_any(named)));
    // Its sessions there go with it.
    Ok(diesel::delete(target).execute(pg)? == 1)
}

pub(crate) fn list_members(
    pg: &mut PgConnection,
    organization: OrganizationId,
) -> Result<Vec<(String, Role)>, Failure> {
    let query = memberships::table
        .inner_join(users::table.on(users::id.eq(memberships::user_id)))
        .filter(memberships::organization_id.eq(organization.uuid()))
        .order(users::email)
        .select((users::email, memberships::role));
    let rows: Vec<(String, String)> = query.load(pg)?;
    Ok(rows.into_iter().map(|(email, text)| Ok((email, role(&text)?))).collect::<Result<_, Error>>()?)
}

pub(crate) fn begin_session(
    pg: &mut PgConnection,
    fingerprint: &Fingerprint,
    user: UserId,
    organization: OrganizationId,
    browser: &str,
) -> QueryResult<()> {
    pg.transaction(|pg| {
        let now: OffsetDateTime = diesel::select(fixed::<Timestamptz>("clock_timestamp()")).get_result(pg)?;
        let is_over =
            user_sessions::seen_at.le(now - Session::IDLE_MAX).or(user_sessions::created_at.le(now - Session::AGE_MAX));
        let over = user_sessions::table.filter(user_sessions::user_id.eq(user.uuid())).filter(is_over);
        diesel::delete(over).execute(pg)?;
        diesel::insert_into(user_sessions::table)
            .values((
                user_sessions::prefix.eq(&fingerprint.prefix),
                user_sessions::digest.eq(&fingerprint.digest),
                user_sessions::user_id.eq(user.uuid()),
                user_sessions::organization_id.eq(organization.uuid()),
                user_sessions::browser.eq(browser),
                user_sessions::created_at.eq(now),
                user_sessions::seen_at.eq(now),
            ))
            .execute(pg)?;
        Ok(())
    })
}

pub(crate) fn find_session(pg: &mut PgConnection, prefix: &str) -> Result<Option<SignedIn>, Failure> {
    type Row = (SessionRow, (String, Option<String>), (String, String), String, bool, OffsetDateTime);
    let query = user_sessions::table
        .inner_join(users::table.on(users::id.eq(user_sessions::user_id)))
        .inner_join(
            memberships::table.on(memberships::user_id
                .eq(user_sessions::user_id)
                .and(memberships::organization_id.eq(user_sessions::organization_id))),
        )
        .inner_join(organizations::table.on(organizations::id.eq(user_sessions::organization_id)))
        .filter(user_sessions::prefix.eq(prefix))
        .select((
            SessionRow::as_select(),
            (users::email, users::timezone),
            (organizations::name, organizations::timezone),
            memberships::role,
            fixed::<Bool>(HAS_OTHERS),
            fixed::<Timestamptz>("clock_timestamp()"),
        ));
    let found: Option<Row> = query.first(pg).optional()?;
    let Some((row, (email, timezone), (organization_name, organization_timezone), text, has_others, now)) = found
    else {
        return Ok(None);
    };
    let membership = membership((row.organization_id, organization_name, text))?;
    let session = row.into();
    Ok(Some(SignedIn { session, email, membership, has_others, timezone, organization_timezone, now }))
}

pub(crate) fn switch_session(
    pg: &mut PgConnection,
    user: UserId,
    prefix: &str,
    fingerprint: &Fingerprint,
    organization: OrganizationId,
) -> QueryResult<bool> {
    let belongs = memberships::table
        .filter(memberships::user_id.eq(user.uuid()))
        .filter(memberships::organization_id.eq(organization.uuid()));
    let target = user_sessions::table.find(prefix).filter(user_sessions::user_id.eq(user.uuid()));
    let changes = (
        user_sessions::prefix.eq(&fingerprint.prefix),
        user_sessions::digest.eq(&fingerprint.digest),
        user_sessions::organization_id.eq(organization.uuid()),
        user_sessions::seen_at.eq(fixed::<Timestamptz>("clock_timestamp()")),
    );
    Ok(diesel::update(target.filter(exists(belongs))).set(changes).execute(pg)? == 1)
}

pub(crate) fn note_seen(pg: &mut PgConnection, prefix: &str) -> QueryResult<()> {
    let target = user_sessions::table.find(prefix);
    diesel::update(target).set(user_sessions::seen_at.eq(fixed::<Timestamptz>("clock_timestamp()"))).execute(pg)?;
    Ok(())
}

pub(crate) fn end_session(pg: &mut PgConnection, user: UserId, prefix: &str) -> QueryResult<bool> {
    let target = user_sessions::table.find(prefix).filter(user_sessions::user_id.eq(user.uuid()));
    Ok(diesel::delete(target).execute(pg)? == 1)
}

pub(crate) fn list_sessions(pg: &mut PgConnection, user: UserId) -> QueryResult<Vec<Session>> {
    let query = user_sessions::table.filter(user_sessions::user_id.eq(user.uuid()));
    let query = query.order((user_sessions::created_at.desc(), user_sessions::prefix.desc()));
    let rows: Vec<SessionRow> = query.select(SessionRow::as_select()).load(pg)?;
    Ok(rows.into_iter().map(Session::from).collect())
}
