//! The users of one organization, and who is invited.

use time::Duration;

use super::{Harness, Tenant};
use crate::api_key::Fingerprint;
use crate::error::{Error, Noun};
use crate::id::UserId;
use crate::store::Scope;
use crate::user::{Invitation, Member, Role};

fn email(tenant: &Tenant<'_>, name: &str) -> String {
    format!("{name}@{}.example", tenant.id.uuid().simple())
}

fn fingerprint(tenant: &Tenant<'_>, nth: usize) -> Fingerprint {
    // The seed of the tenant's ids.
    let seed = tenant.id.uuid().as_u128() >> 64;
    Fingerprint { prefix: format!("{nth}{seed:07x}"), digest: vec![0, 1, 255] }
}

fn put(tenant: &Tenant<'_>, name: &str, role: Role) -> UserId {
    let email = email(tenant, name);
    tenant.catalog(|tx, _| tx.members().put(&email, "$hash", role)).0
}

fn members(tenant: &Tenant<'_>) -> Vec<Member> {
    tenant.look(|tx, _| tx.members().list())
}

pub(super) fn keeps_members(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let bob = put(&tenant, "bob", Role::Reader);
    let ada = put(&tenant, "ada", Role::Owner);
    let member = |user, name, role| Member { user, email: email(&tenant, name), role };
    assert_eq!(members(&tenant), [member(ada, "ada", Role::Owner), member(bob, "bob", Role::Reader)], "by address");
    let address = email(&tenant, "ada");
    let again = theirs.catalog(|tx, _| tx.members().put(&address, "$other", Role::Support));
    assert_eq!(again, (ada, false), "one user, whatever organization");
    let found = harness.users.find_user(&address).expect("read").expect("a user");
    assert_eq!((found.password_hash.as_str(), found.memberships.len()), ("$hash", 2), "whose password stays");
    tenant.catalog(|tx, _| tx.members().set_role(ada, Role::Finance));
    assert_eq!(members(&tenant)[0].role, Role::Finance);
    assert_eq!(members(&theirs)[0].role, Role::Support, "elsewhere nothing changes");
    let gone = Err(Error::NotFound(Noun::User));
    let scope = Scope::Catalog(theirs.id);
    assert_eq!(theirs.run(&scope, |tx, _| tx.members().set_role(bob, Role::Owner)), gone, "another tenant's");
    assert_eq!(theirs.run(&scope, |tx, _| tx.members().remove(bob)), gone);
    tenant.catalog(|tx, _| tx.members().remove(ada));
    assert_eq!(members(&tenant), [member(bob, "bob", Role::Reader)]);
    assert_eq!(members(&theirs).len(), 1, "what they are elsewhere stays");
    let undone: Result<(), Error> = tenant.run(&Scope::Catalog(tenant.id), |tx, _| {
        tx.members().remove(bob)?;
        Err(Error::NotFound(Noun::Metric))
    });
    assert!(undone.is_err());
    assert_eq!(members(&tenant).len(), 1, "with its transaction");
}

pub(super) fn ends_sessions_of_members(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let ada = put(&tenant, "ada", Role::Owner);
    let address = email(&tenant, "ada");
    theirs.catalog(|tx, _| tx.members().put(&address, "$hash", Role::Owner));
    let begin = |at: &Tenant<'_>, nth| {
        let fingerprint = fingerprint(&tenant, nth);
        harness.users.begin_session(&fingerprint, ada, at.id, "Browser").expect("begun");
        fingerprint.prefix
    };
    let (one, two, elsewhere) = (begin(&tenant, 1), begin(&tenant, 2), begin(&theirs, 3));
    let listed = |at: &Tenant<'_>| -> Vec<String> {
        let sessions = at.look(|tx, _| tx.members().list_sessions(ada));
        sessions.into_iter().map(|session| session.fingerprint.prefix).collect()
    };
    assert_eq!(listed(&tenant), [two.clone(), one.clone()], "newest first, those here");
    assert_eq!(listed(&theirs), std::slice::from_ref(&elsewhere));
    let gone = Err(Error::NotFound(Noun::Session));
    let end =
        |at: &Tenant<'_>, prefix: &str| at.run(&Scope::Catalog(at.id), |tx, _| tx.members().end_session(ada, prefix));
    assert_eq!(end(&theirs, &one), gone, "another tenant's");
    assert_eq!(end(&tenant, &one), Ok(()));
    assert_eq!(end(&tenant, &one), gone);
    assert!(harness.users.find_session(&one).expect("read").is_none());
    tenant.catalog(|tx, _| tx.members().remove(ada));
    assert!(harness.users.find_session(&two).expect("read").is_none(), "gone with its membership");
    assert!(harness.users.find_session(&elsewhere).expect("read").is_some());
    let nobody = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.members().list_sessions(ada));
    assert_eq!(nobody, Err(Error::NotFound(Noun::User)));
}

pub(super) fn keeps_invitations(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let now = tenant.now();
    let invitation = |nth: usize, name: &str, role| Invitation {
        fingerprint: fingerprint(&tenant, nth),
        organization: tenant.id,
        email: email(&tenant, name),
        role,
        created_at: now,
        expires_at: now + Duration::days(7),
    };
    let [first, second, other] =
        [invitation(4, "ada", Role::Reader), invitation(5, "ada", Role::Owner), invitation(6, "bob", Role::Support)];
    for one in [&first, &second, &other] {
        tenant.catalog(|tx, _| tx.members().invite(one));
    }
    let find = |one: &Invitation| harness.users.find_invitation(&one.fingerprint.prefix).expect("read");
    assert_eq!(find(&first), None, "a later one takes its place");
    let found = find(&second).expect("an invitation");
    assert_eq!((&found.invitation, found.is_user), (&second, false));
    assert!(!found.organization_name.is_empty() && found.now >= now);
    put(&theirs, "elsewhere", Role::Owner);
    let address = second.email.clone();
    theirs.catalog(|tx, _| tx.members().put(&address, "$hash", Role::Owner));
    assert!(find(&second).expect("an invitation").is_user, "there is somebody with this address");
    let take = |at: &Tenant<'_>, one: &Invitation| {
        at.run(&Scope::Catalog(at.id), |tx, _| tx.members().take_invitation(&one.fingerprint.prefix))
    };
    let gone = Err(Error::NotFound(Noun::Invitation));
    assert_eq!(take(&theirs, &second), gone, "another tenant's");
    assert_eq!(take(&tenant, &second), Ok(second.clone()));
    assert_eq!(take(&tenant, &second), gone, "once");
    assert!(find(&other).is_some());
    assert_eq!(members(&tenant), [], "nobody is a member for having been invited");
}
