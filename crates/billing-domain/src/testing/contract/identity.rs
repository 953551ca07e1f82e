//! Accounts of providers, roles by their groups, and who was sent to a provider.

use super::{Harness, Tenant};
use crate::api_key::Fingerprint;
use crate::error::{Error, Noun};
use crate::id::UserId;
use crate::store::Scope;
use crate::user::{HeldRole, Identity, Role};

const ISSUER: &str = "https://login.example";
const OTHER: &str = "https://elsewhere.example";

fn email(tenant: &Tenant<'_>, name: &str) -> String {
    format!("{name}@{}.example", tenant.id.uuid().simple())
}

/// An account that no other case has.
fn identity(tenant: &Tenant<'_>, issuer: &str, name: &str) -> Identity {
    Identity { issuer: issuer.to_owned(), subject: format!("{name} of {}", tenant.id) }
}

fn sign_up(tenant: &Tenant<'_>, name: &str, role: Role) -> UserId {
    let (email, identity) = (email(tenant, name), identity(tenant, ISSUER, name));
    tenant.catalog(|tx, _| tx.identities().sign_up(&email, &identity, role)).expect("somebody new")
}

fn put(tenant: &Tenant<'_>, name: &str, role: Role) -> UserId {
    let email = email(tenant, name);
    tenant.catalog(|tx, _| tx.members().put(&email, "$hash", role)).0
}

fn linked(harness: &Harness<'_>, identity: &Identity) -> Option<UserId> {
    harness.users.find_linked(identity).expect("read").map(|user| user.id)
}

fn role(tenant: &Tenant<'_>, user: UserId) -> Option<HeldRole> {
    tenant.look(|tx, _| tx.identities().find_role(user))
}

pub(super) fn signs_up_and_links(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let account = identity(&tenant, ISSUER, "ada");
    assert_eq!(linked(harness, &account), None);
    let ada = sign_up(&tenant, "ada", Role::Finance);
    let found = harness.users.find_linked(&account).expect("read").expect("a user");
    assert_eq!((found.id, found.email, found.password_hash.as_str()), (ada, email(&tenant, "ada"), ""));
    assert_eq!(
        found.memberships.iter().map(|one| (one.organization, one.role)).collect::<Vec<_>>(),
        [(tenant.id, Role::Finance)]
    );
    let bob = put(&theirs, "bob", Role::Owner);
    let (known, unknown) = (email(&theirs, "bob"), email(&tenant, "carl"));
    #[rustfmt::skip]
    let taken = [
        // address,  account,                              why
        (&known,     identity(&tenant, ISSUER, "carl"),    "there is a user with this address, who is not taken over"),
        (&unknown,   account.clone(),                      "the account is linked with somebody"),
    ];
    for (email, account, why) in taken {
        assert_eq!(tenant.catalog(|tx, _| tx.identities().sign_up(email, &account, Role::Owner)), None, "{why}");
    }
    assert_eq!(harness.users.find_user(&unknown).expect("read"), None, "and nobody was made");
    assert_eq!(linked(harness, &identity(&tenant, ISSUER, "carl")), None);
    assert_eq!(role(&tenant, bob), None, "nor got a role");
    let link = |user, account: &Identity| theirs.catalog(|tx, _| tx.identities().link(user, account));
    let of_bob = identity(&theirs, ISSUER, "bob");
    assert!(!link(bob, &account), "it is linked with somebody else");
    assert!(link(bob, &of_bob));
    assert!(!link(bob, &identity(&theirs, ISSUER, "bob's second")), "one of each issuer");
    assert!(link(bob, &identity(&theirs, OTHER, "bob")), "another issuer's is another one");
    assert_eq!(linked(harness, &of_bob), Some(bob));
    let listed = harness.users.list_identities(bob).expect("read");
    assert_eq!(listed, [identity(&theirs, OTHER, "bob"), of_bob], "by issuer");
}

pub(super) fn takes_links_away(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let (ada, bob) = (sign_up(&tenant, "ada", Role::Owner), put(&tenant, "bob", Role::Reader));
    let [of_ada, of_bob] = ["ada", "bob"].map(|name| identity(&tenant, ISSUER, name));
    let unlink = |user, account: &Identity| tenant.catalog(|tx, _| tx.identities().unlink(user, account));
    assert!(!unlink(bob, &of_bob), "there is none");
    assert!(tenant.catalog(|tx, _| tx.identities().link(bob, &of_bob)));
    assert!(!unlink(bob, &of_ada), "it is not his");
    tenant.catalog(|tx, _| tx.identities().give_role(bob, ISSUER, Role::Support));
    assert!(!unlink(bob, &of_bob), "he has a role by its groups");
    tenant.catalog(|tx, _| tx.members().set_role(bob, Role::Support));
    assert!(unlink(bob, &of_bob), "which a person gives now");
    assert_eq!((linked(harness, &of_bob), role(&tenant, bob).map(|held| held.role)), (None, Some(Role::Support)));
    tenant.catalog(|tx, _| tx.members().set_role(ada, Role::Owner));
    assert!(!unlink(ada, &of_ada), "she has no password, and could not sign in any more");
    harness.users.set_password(&email(&tenant, "ada"), "$hash").expect("set");
    assert!(unlink(ada, &of_ada));
}

pub(super) fn gives_roles_by_groups(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let ada = sign_up(&tenant, "ada", Role::Reader);
    let by = |issuer: Option<&str>, role| Some(HeldRole { role, issuer: issuer.map(str::to_owned) });
    let given = || {
        let mut given = harness.users.list_given(ada, ISSUER).expect("read");
        given.sort();
        given
    };
    assert_eq!((role(&tenant, ada), role(&theirs, ada)), (by(Some(ISSUER), Role::Reader), None));
    theirs.catalog(|tx, _| tx.identities().give_role(ada, ISSUER, Role::Support));
    tenant.catalog(|tx, _| tx.identities().give_role(ada, ISSUER, Role::Owner));
    assert_eq!(role(&tenant, ada), by(Some(ISSUER), Role::Owner));
    let mut both = [tenant.id, theirs.id];
    both.sort();
    assert_eq!(given(), both);
    assert_eq!(harness.users.list_given(ada, OTHER).expect("read"), []);
    #[rustfmt::skip]
    let by_hand: [(&str, &dyn Fn()); 2] = [
        ("by its page",          &|| tenant.catalog(|tx, _| tx.members().set_role(ada, Role::Finance))),
        ("by another invitation", &|| drop(harness.users.put_user(&email(&tenant, "ada"), "", tenant.id, Role::Finance))),
    ];
    for (how, give) in by_hand {
        tenant.catalog(|tx, _| tx.identities().give_role(ada, ISSUER, Role::Owner));
        give();
        assert_eq!(role(&tenant, ada), by(None, Role::Finance), "{how} it is a person's from then on");
        assert_eq!(given(), [theirs.id], "{how}");
    }
    theirs.catalog(|tx, _| tx.members().remove(ada));
    assert_eq!((role(&theirs, ada), given()), (None, vec![]));
    let undone: Result<(), Error> = tenant.run(&Scope::Catalog(tenant.id), |tx, _| {
        tx.identities().give_role(ada, ISSUER, Role::Owner)?;
        Err(Error::NotFound(Noun::Metric))
    });
    assert!(undone.is_err());
    assert_eq!(role(&tenant, ada), by(None, Role::Finance), "with its transaction");
}

pub(super) fn waits_for_whoever_was_sent(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let ada = put(&tenant, "ada", Role::Owner);
    // The seed of the tenant's ids.
    let seed = tenant.id.uuid().as_u128() >> 64;
    let [first, second] =
        [1, 2].map(|nth| Fingerprint { prefix: format!("{nth}{seed:07x}"), digest: vec![0, nth, 255] });
    harness.users.begin_attempt(&first, None, "/console/plans/").expect("kept");
    harness.users.begin_attempt(&second, Some(ada), "/console/").expect("kept");
    let take = |prefix: &str| harness.users.take_attempt(prefix).expect("looked at");
    assert_eq!(take("nothing"), None);
    let (attempt, now) = take(&second.prefix).expect("she was sent");
    assert_eq!(
        (attempt.fingerprint, attempt.linking, attempt.destination.as_str()),
        (second.clone(), Some(ada), "/console/")
    );
    assert!(attempt.created_at <= now);
    assert_eq!(take(&second.prefix), None, "once");
    let (attempt, _) = take(&first.prefix).expect("another's stays");
    assert_eq!((attempt.linking, attempt.destination.as_str()), (None, "/console/plans/"));
}
