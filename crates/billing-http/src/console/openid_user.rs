//! Which user an account of the provider opens, and what its groups make of them.

use std::net::IpAddr;

use actix_web::web;
use billing_console::page::openid as pages;
use billing_domain::audit::{Actor, Change};
use billing_domain::id::{OrganizationId, UserId};
use billing_domain::store::Scope;
use billing_domain::text::check_email;
use billing_domain::user::{Identity, Role, User, normal_email};
use billing_domain::workflow::{AppliedRole, ApplyGroupRole, apply_group_role};
use serde_json::{Value, json};

use super::openid_failed::Failed;
use super::session::Session;
use crate::app::App;
use crate::error::ApiError;
use crate::openid::{Account, Provider};
use crate::request_id;

/// The user whom an account opens, with the roles that its groups give now; one who is new is made. Nobody is found by an address: who
/// has one at the provider today need not be who had it yesterday.
pub(super) async fn signed_in(
    app: &web::Data<App>,
    provider: &Provider,
    account: &Account,
    address: Option<IpAddr>,
) -> Result<User, Failed> {
    let roles = provider.settings().roles.of(&account.groups);
    let user = match find(app, &account.identity).await? {
        Some(user) => user,
        None => sign_up(app, account, &roles, address).await?,
    };
    let (id, issuer) = (user.id, account.identity.issuer.clone());
    let given = app.block(None, move |backend| Ok(backend.list_given(id, &issuer)?)).await?;
    let said = roles.iter().map(|(organization, role)| (*organization, Some(*role)));
    let silent = given.into_iter().filter(|one| !roles.iter().any(|(organization, _)| organization == one));
    for (organization, role) in said.chain(silent.map(|organization| (organization, None))) {
        apply(app, &user, &account.identity, (organization, role), address).await?;
    }
    Ok(find(app, &account.identity).await?.ok_or_else(|| ApiError::internal("the user is not there any more"))?)
}

async fn find(app: &web::Data<App>, identity: &Identity) -> Result<Option<User>, ApiError> {
    let identity = identity.clone();
    app.block(None, move |backend| Ok(backend.find_linked(&identity)?)).await
}

/// Makes a user of somebody whom a group gives a role.
async fn sign_up(
    app: &web::Data<App>,
    account: &Account,
    roles: &[(OrganizationId, Role)],
    address: Option<IpAddr>,
) -> Result<User, Failed> {
    let email = normal_email(account.email.as_deref().unwrap_or_default());
    if check_email(&email).is_err() || account.is_email_unverified {
        return Err((&pages::NO_EMAIL).into());
    }
    let asked = email.clone();
    if app.block(None, move |backend| Ok(backend.find_user(&asked)?)).await?.is_some() {
        return Err(Failed::of(&pages::HAS_ACCOUNT, &email));
    }
    let Some((organization, role)) = roles.first().copied() else { return Err(Failed::of(&pages::NO_ROLE, &email)) };
    let (identity, address, request) = (account.identity.clone(), of(address), request_id::current());
    let new = email.clone();
    app.run(Scope::Catalog(organization), move |tx, _| {
        let Some(user) = tx.identities().sign_up(&new, &identity, role)? else { return Ok(()) };
        let after = shown(user, &new, Some(role), &identity);
        let actor = Actor::identity_provider(&identity);
        tx.audit_log().insert(change(actor, (&address, &request), "sign_up", user, (None, after)))
    })
    .await?;
    // Somebody may have been quicker: a twin of this request, or a user of that address.
    find(app, &account.identity).await?.ok_or_else(|| Failed::of(&pages::HAS_ACCOUNT, &email))
}

/// Has the word of the groups hold in one organization.
async fn apply(
    app: &web::Data<App>,
    user: &User,
    identity: &Identity,
    (organization, role): (OrganizationId, Option<Role>),
    address: Option<IpAddr>,
) -> Result<(), ApiError> {
    let command = ApplyGroupRole { user: user.id, issuer: identity.issuer.clone(), role };
    let (email, identity, address, request) =
        (user.email.clone(), identity.clone(), of(address), request_id::current());
    let applied = app.run(Scope::Catalog(organization), move |tx, _| {
        let applied = apply_group_role(tx, &command)?;
        if let AppliedRole::Changed { before, after } = applied {
            let shown = |role: Option<Role>| role.and_then(|role| shown(command.user, &email, Some(role), &identity));
            let actor = Actor::identity_provider(&identity);
            let states = (shown(before), shown(after));
            tx.audit_log().insert(change(actor, (&address, &request), "apply_group_role", command.user, states))?;
        }
        Ok(applied)
    });
    if applied.await? == AppliedRole::LastOwner {
        log::warn!(organization_id:% = organization; "the last owner stays, whatever the groups of the provider say");
    }
    Ok(())
}

/// Links an account with the user who is signed in.
pub(super) async fn link(
    app: &web::Data<App>,
    session: &Session,
    identity: &Identity,
    address: Option<IpAddr>,
) -> Result<(), Failed> {
    let is_linked = change_link(app, session, identity, address, true).await?;
    if is_linked { Ok(()) } else { Err((&pages::LINKED_ELSEWHERE).into()) }
}

/// Links an account with the user who is signed in, or takes the link away; whether that was done.
pub(super) async fn change_link(
    app: &web::Data<App>,
    session: &Session,
    identity: &Identity,
    address: Option<IpAddr>,
    is_to_be: bool,
) -> Result<bool, ApiError> {
    let caller = session.caller();
    let (user, email) = (session.signed_in.session.user, session.signed_in.email.clone());
    let (identity, address, request) = (identity.clone(), of(address), request_id::current());
    app.run(Scope::Catalog(caller.organization), move |tx, _| {
        let state = shown(user, &email, None, &identity);
        let (is_done, operation, states) = match is_to_be {
            true => (tx.identities().link(user, &identity)?, "link_identity", (None, state)),
            false => (tx.identities().unlink(user, &identity)?, "unlink_identity", (state, None)),
        };
        if is_done {
            tx.audit_log().insert(change(caller.actor.clone(), (&address, &request), operation, user, states))?;
        }
        Ok(is_done)
    })
    .await
}

fn of(address: Option<IpAddr>) -> Option<String> {
    address.map(|address| address.to_string())
}

fn shown(user: UserId, email: &str, role: Option<Role>, identity: &Identity) -> Option<String> {
    let mut shown =
        json!({"user_id": user.to_string(), "email": email, "issuer": identity.issuer, "subject": identity.subject});
    if let Some(role) = role {
        shown["role"] = Value::from(role.as_str());
    }
    Some(shown.to_string())
}

fn change(
    actor: Actor,
    (address, request_id): (&Option<String>, &str),
    operation: &str,
    user: UserId,
    (before, after): (Option<String>, Option<String>),
) -> Change {
    Change {
        actor,
        address: address.clone(),
        request_id: request_id.to_owned(),
        operation: operation.to_owned(),
        kind: "user".to_owned(),
        subject: Some(user.to_string()),
        customer: None,
        before,
        after,
    }
}
