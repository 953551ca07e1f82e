//! Users, what they are in organizations, and their sessions.

use super::{Harness, Tenant};
use crate::api_key::Fingerprint;
use crate::error::{Error, Noun};
use crate::user::{Role, User};

/// An address that no other case has.
fn email(tenant: &Tenant<'_>, name: &str) -> String {
    format!("{name}@{}.example", tenant.id.uuid().simple())
}

fn fingerprint(tenant: &Tenant<'_>, nth: usize) -> Fingerprint {
    // The seed of the tenant's ids.
    let seed = tenant.id.uuid().as_u128() >> 64;
    Fingerprint { prefix: format!("{nth}{seed:07x}"), digest: vec![0, 1, 255] }
}

fn user(harness: &Harness<'_>, email: &str) -> User {
    harness.users.find_user(email).expect("read").expect("a user")
}

pub(super) fn keeps_users_and_their_roles(harness: &Harness<'_>) {
    let (first, second) = (Tenant::new(harness), Tenant::new(harness));
    let (ada, bob) = (email(&first, "ada"), email(&first, "bob"));
    let put = |email: &str, tenant: &Tenant<'_>, role| harness.users.put_user(email, "$hash", tenant.id, role);
    assert_eq!(harness.users.find_user(&ada).expect("read"), None);
    assert!(put(&ada, &first, Role::Owner).expect("made"));
    assert!(put(&bob, &first, Role::Reader).expect("made"));
    assert!(!put(&ada, &second, Role::Support).expect("a member of another one too"));
    assert!(harness.users.has_users().expect("read"));
    let found = user(harness, &ada);
    assert_eq!((found.email.as_str(), found.password_hash.as_str()), (ada.as_str(), "$hash"));
    let mut roles: Vec<_> = found.memberships.iter().map(|one| (one.organization, one.role)).collect();
    roles.sort();
    let mut expected = vec![(first.id, Role::Owner), (second.id, Role::Support)];
    expected.sort();
    assert_eq!(roles, expected);
    assert!(found.memberships.iter().all(|one| !one.organization_name.is_empty()));
    let members = harness.users.list_members(first.id).expect("read");
    assert_eq!(members, [(ada.clone(), Role::Owner), (bob, Role::Reader)], "by address");
    assert_eq!(harness.users.list_members(second.id).expect("read"), [(ada, Role::Support)]);
    let nowhere = first.build(|ids| ids.next());
    let nobody = email(&first, "nobody");
    let refused = harness.users.put_user(&nobody, "$hash", nowhere, Role::Owner);
    assert_eq!(refused, Err(Error::NotFound(Noun::Organization)));
    assert_eq!(harness.users.find_user(&nobody).expect("read"), None, "and nobody was made");
}

pub(super) fn changes_roles_and_passwords(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let ada = email(&tenant, "ada");
    for role in [Role::Owner, Role::Finance] {
        harness.users.put_user(&ada, "$old", tenant.id, role).expect("made");
    }
    assert_eq!(user(harness, &ada).memberships[0].role, Role::Finance);
    assert!(harness.users.set_password(&ada, "$new").expect("set"));
    assert_eq!(user(harness, &ada).password_hash, "$new");
    assert!(!harness.users.set_password(&email(&tenant, "nobody"), "$new").expect("nothing to set"));
    assert!(harness.users.remove_member(tenant.id, &ada).expect("removed"));
    assert!(!harness.users.remove_member(tenant.id, &ada).expect("nothing left to remove"));
    assert_eq!(user(harness, &ada).memberships, []);
}

pub(super) fn keeps_sessions(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let ada = email(&tenant, "ada");
    harness.users.put_user(&ada, "$hash", tenant.id, Role::Owner).expect("made");
    let id = user(harness, &ada).id;
    let [first, second] = [1, 2].map(|nth| fingerprint(&tenant, nth));
    for one in [&first, &second] {
        harness.users.begin_session(one, id, tenant.id, "Browser").expect("begun");
    }
    let found = harness.users.find_session(&first.prefix).expect("read").expect("a session");
    assert_eq!((found.session.fingerprint, found.session.user), (first.clone(), id));
    assert_eq!((found.session.browser.as_str(), found.email.as_str()), ("Browser", ada.as_str()));
    assert_eq!((found.membership.organization, found.membership.role), (tenant.id, Role::Owner));
    assert_eq!(found.session.created_at, found.session.seen_at);
    assert!(found.session.created_at <= found.now);
    harness.users.note_seen(&first.prefix).expect("noted");
    let again = harness.users.find_session(&first.prefix).expect("read").expect("a session");
    assert!(again.session.seen_at >= found.session.seen_at);
    let listed = harness.users.list_sessions(id).expect("read");
    let prefixes: Vec<_> = listed.iter().map(|session| &session.fingerprint.prefix).collect();
    assert_eq!(prefixes, [&second.prefix, &first.prefix], "newest first");
    harness.users.put_user(&ada, "$hash", tenant.id, Role::Reader).expect("changed");
    let after = harness.users.find_session(&first.prefix).expect("read").expect("a session");
    assert_eq!(after.membership.role, Role::Reader, "a role holds at once");
}

pub(super) fn switches_sessions(harness: &Harness<'_>) {
    let [tenant, theirs, foreign] = [Tenant::new(harness), Tenant::new(harness), Tenant::new(harness)];
    let [ada, bob] = ["ada", "bob"].map(|name| email(&tenant, name));
    harness.users.put_user(&ada, "$hash", tenant.id, Role::Owner).expect("made");
    harness.users.put_user(&bob, "$hash", foreign.id, Role::Owner).expect("made");
    let [ada_id, bob_id] = [&ada, &bob].map(|email| user(harness, email).id);
    let [first, second] = [1, 2].map(|nth| fingerprint(&tenant, nth));
    harness.users.begin_session(&first, ada_id, tenant.id, "Browser").expect("begun");
    let found = |prefix: &str| harness.users.find_session(prefix).expect("read");
    let before = found(&first.prefix).expect("a session");
    assert!(!before.has_others, "there is one organization");
    let switch =
        |id, organization| harness.users.switch_session(id, &first.prefix, &second, organization).expect("looked at");
    assert!(!switch(ada_id, theirs.id), "she does not belong there yet");
    harness.users.put_user(&ada, "$hash", theirs.id, Role::Reader).expect("made");
    assert!(!switch(bob_id, foreign.id), "it is not his session");
    assert!(!switch(ada_id, foreign.id), "nor does she belong to his organization");
    assert!(found(&first.prefix).is_some_and(|same| same.membership == before.membership && same.has_others));
    assert!(switch(ada_id, theirs.id));
    assert!(found(&first.prefix).is_none(), "the old text opens nothing");
    let after = found(&second.prefix).expect("a session");
    assert_eq!((after.membership.organization, after.membership.role), (theirs.id, Role::Reader));
    assert_eq!(after.session.created_at, before.session.created_at, "it does not get younger");
    assert_eq!((after.session.fingerprint, after.session.browser), (second.clone(), "Browser".to_owned()));
    assert!(!switch(ada_id, tenant.id), "nor is there such a session any more");
}

pub(super) fn ends_sessions(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [ada, bob] = ["ada", "bob"].map(|name| email(&tenant, name));
    for email in [&ada, &bob] {
        harness.users.put_user(email, "$hash", tenant.id, Role::Owner).expect("made");
    }
    let [ada_id, bob_id] = [&ada, &bob].map(|email| user(harness, email).id);
    let begin = |nth, id| {
        let fingerprint = fingerprint(&tenant, nth);
        harness.users.begin_session(&fingerprint, id, tenant.id, "").expect("begun");
        fingerprint.prefix
    };
    let is_there = |prefix: &str| harness.users.find_session(prefix).expect("read").is_some();
    let (one, two, three, of_bob) = (begin(3, ada_id), begin(4, ada_id), begin(5, ada_id), begin(6, bob_id));
    assert!(!harness.users.end_session(bob_id, &one).expect("nobody else's"));
    assert!(harness.users.end_session(ada_id, &one).expect("ended"));
    assert!(!is_there(&one) && is_there(&two));
    harness.users.set_password(&ada, "$new").expect("set");
    assert!(!is_there(&two) && !is_there(&three), "a new password ends them all");
    assert!(is_there(&of_bob), "but nobody else's");
    harness.users.remove_member(tenant.id, &bob).expect("removed");
    assert!(!is_there(&of_bob), "as leaving does");
}

pub(super) fn keeps_time_zones(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [ada, bob] = ["ada", "bob"].map(|name| email(&tenant, name));
    let ids = [&ada, &bob].map(|email| {
        harness.users.put_user(email, "$hash", tenant.id, Role::Owner).expect("made");
        user(harness, email).id
    });
    let prints = [11, 12].map(|nth| fingerprint(&tenant, nth));
    for (id, print) in ids.iter().zip(&prints) {
        harness.users.begin_session(print, *id, tenant.id, "a browser").expect("begun");
    }
    let zones = || {
        prints.each_ref().map(|print| {
            let found = harness.users.find_session(&print.prefix).expect("read").expect("a session");
            (found.timezone, found.organization_timezone)
        })
    };
    let own = |name: &str| Some(name.to_owned());
    tenant.catalog(|tx, _| {
        let mut organization = tx.organizations().get()?;
        organization.timezone = "America/New_York".to_owned();
        tx.organizations().update(&organization)
    });
    let of_organization = || "America/New_York".to_owned();
    assert_eq!(zones(), [(None, of_organization()), (None, of_organization())], "nobody has one yet");
    assert!(harness.users.set_timezone(ids[0], Some("Europe/Berlin")).expect("noted"));
    assert_eq!(zones(), [(own("Europe/Berlin"), of_organization()), (None, of_organization())], "each their own");
    assert!(harness.users.set_timezone(ids[0], None).expect("noted"));
    assert_eq!(zones()[0], (None, of_organization()));
    assert!(!harness.users.set_timezone(tenant.build(|ids| ids.next()), None).expect("nobody"));
}
