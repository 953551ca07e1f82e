use time::OffsetDateTime;
use time::macros::datetime;

use crate::id::UserId;
use crate::store::Users;
use crate::testing::world::World;
use crate::user::{HeldRole, Identity, Role};
use crate::workflow::{AppliedRole, ApplyGroupRole, apply_group_role};

const NOW: OffsetDateTime = datetime!(2024-01-15 12:00 UTC);
const ISSUER: &str = "https://login.example";

/// Somebody who is linked with an account of the issuer, with a role by hand or none, beside another owner or without one.
fn person(role: Option<HeldRole>, has_other_owner: bool) -> (World, UserId) {
    let world = World::at(NOW);
    let identity = Identity { issuer: ISSUER.to_owned(), subject: "ada".to_owned() };
    let user = world.catalog(|tx, _| {
        let (user, _) = tx.members().put("ada@acme.example", "$hash", Role::Reader)?;
        tx.identities().link(user, &identity)?;
        if has_other_owner {
            tx.members().put("bob@acme.example", "$hash", Role::Owner)?;
        }
        match &role {
            Some(HeldRole { role, issuer: Some(issuer) }) => tx.identities().give_role(user, issuer, *role)?,
            Some(HeldRole { role, issuer: None }) => tx.members().set_role(user, *role)?,
            None => tx.members().remove(user)?,
        }
        Ok(user)
    });
    (world, user.expect("a user"))
}

#[test]
fn groups_give_change_and_take_away_what_is_theirs() {
    use AppliedRole::{LastOwner, Unchanged};
    let by = |issuer: &str, role| Some(HeldRole { role, issuer: Some(issuer.to_owned()) });
    let (theirs, others) = (|role| by(ISSUER, role), |role| by("https://elsewhere.example", role));
    let by_hand = |role| Some(HeldRole { role, issuer: None });
    let changed = |before, after| AppliedRole::Changed { before, after };
    let [owner, finance, reader] = [Role::Owner, Role::Finance, Role::Reader];
    #[rustfmt::skip]
    let cases = [
        // held,          other owner, groups say,    applied,                              held then,        why
        (None,            true,        None,          Unchanged,                            None,             "nothing, and nothing"),
        (None,            true,        Some(finance), changed(None, Some(finance)),         theirs(finance),  "given"),
        (theirs(finance), true,        Some(finance), Unchanged,                            theirs(finance),  "as before"),
        (theirs(finance), true,        Some(reader),  changed(Some(finance), Some(reader)), theirs(reader),   "changed"),
        (theirs(finance), true,        None,          changed(Some(finance), None),         None,             "taken away"),
        (by_hand(finance), true,       None,          Unchanged,                            by_hand(finance), "what a person gave stays"),
        (by_hand(finance), true,       Some(reader),  changed(Some(finance), Some(reader)), theirs(reader),   "the groups' word holds"),
        (by_hand(finance), true,       Some(finance), Unchanged,                            theirs(finance),  "the same, which is the groups' from now on"),
        (others(finance), true,        None,          Unchanged,                            others(finance),  "another provider's groups gave it"),
        (theirs(owner),   true,        Some(reader),  changed(Some(owner), Some(reader)),   theirs(reader),   "there is another owner"),
        (theirs(owner),   true,        None,          changed(Some(owner), None),           None,             "there is another owner"),
        (theirs(owner),   false,       Some(reader),  LastOwner,                            theirs(owner),    "there would be no owner"),
        (theirs(owner),   false,       None,          LastOwner,                            theirs(owner),    "there would be no owner"),
        (by_hand(owner),  false,       Some(reader),  LastOwner,                            by_hand(owner),   "there would be no owner"),
        (by_hand(owner),  false,       Some(owner),   Unchanged,                            theirs(owner),    "an owner still"),
        (by_hand(owner),  false,       None,          Unchanged,                            by_hand(owner),   "nobody takes it away"),
    ];
    for (held, has_other_owner, role, applied, then, why) in cases {
        let (world, user) = person(held, has_other_owner);
        let command = ApplyGroupRole { user, issuer: ISSUER.to_owned(), role };
        assert_eq!(world.catalog(|tx, _| apply_group_role(tx, &command)), Ok(applied), "{why}");
        assert_eq!(world.catalog(|tx, _| tx.identities().find_role(user)), Ok(then), "{why}");
        assert_eq!(
            world
                .catalog(|tx, _| apply_group_role(tx, &command))
                .map(|again| matches!(again, AppliedRole::Changed { .. })),
            Ok(false),
            "{why}: once"
        );
    }
}

#[test]
fn whoever_was_sent_is_waited_for_ten_minutes() {
    let world = World::at(NOW);
    let fingerprint = crate::api_key::Fingerprint { prefix: "abcdefgh".to_owned(), digest: vec![1] };
    #[rustfmt::skip]
    let cases = [
        // seconds later, over,  why
        (0,               false, "at once"),
        (599,             false, "the last second"),
        (600,             true,  "the last instant is too late"),
    ];
    for (later, over, why) in cases {
        world.store.begin_attempt(&fingerprint, None, "/console/").expect("kept");
        let (attempt, now) = world.store.take_attempt("abcdefgh").expect("looked at").expect("an attempt");
        assert_eq!(attempt.is_over(now + time::Duration::seconds(later)), over, "{why}");
    }
}
