use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use crate::api_key::{ApiKey, Fingerprint, KeyKind};
use crate::error::{Error, FieldCode, Noun};
use crate::testing::world::World;
use crate::workflow::{CreateApiKey, RegenerateApiKey, create_api_key, regenerate_api_key};

const NOW: OffsetDateTime = datetime!(2024-01-15 12:00 UTC);

fn fingerprint(prefix: &str) -> Fingerprint {
    Fingerprint { prefix: prefix.to_owned(), digest: vec![7; 32] }
}

fn command(prefix: &str) -> CreateApiKey {
    let kind = KeyKind::ApiKey;
    CreateApiKey {
        kind,
        name: "reporting".to_owned(),
        expires_at: None,
        scopes: None,
        fingerprint: fingerprint(prefix),
    }
}

fn keys(world: &World, kind: KeyKind) -> Vec<ApiKey> {
    world.catalog(|tx, _| tx.api_keys().list(kind)).expect("keys")
}

#[test]
fn a_key_keeps_its_kind_and_expiry() {
    let world = World::at(NOW);
    let expires_at = Some(NOW + Duration::MICROSECOND);
    let token = CreateApiKey { kind: KeyKind::AccessToken, expires_at, ..command("aaaaaaaa") };
    let made = world.catalog(|tx, now| create_api_key(tx, &token, now)).expect("a token");
    assert_eq!((made.created_at, made.expires_at), (NOW, expires_at));
    assert_eq!(keys(&world, KeyKind::AccessToken), [made]);
    assert_eq!(keys(&world, KeyKind::ApiKey), [], "a token is no key");
}

#[test]
fn bad_keys_are_refused_with_every_fault_and_leave_nothing() {
    #[rustfmt::skip]
    let cases = [
        // name, expires in, faults,                                                             why
        ("",     0,          &[("name", FieldCode::Blank), ("expires_at", FieldCode::Invalid)][..], "both at once"),
        ("ci",   0,          &[("expires_at", FieldCode::Invalid)][..],                          "at its expiry a key is worthless already"),
        ("ci",   -1,         &[("expires_at", FieldCode::Invalid)][..],                          "the past"),
    ];
    let world = World::at(NOW);
    for (name, microseconds, faults, why) in cases {
        let expires_at = Some(NOW + Duration::microseconds(microseconds));
        let bad = CreateApiKey { name: name.to_owned(), expires_at, ..command("aaaaaaaa") };
        let Err(Error::Fields(errors)) = world.catalog(|tx, now| create_api_key(tx, &bad, now)) else {
            panic!("{why}: not refused");
        };
        let found: Vec<_> = errors.0.iter().map(|error| (error.attr.as_str(), error.code)).collect();
        assert_eq!(found, faults, "{why}");
    }
    assert_eq!(keys(&world, KeyKind::ApiKey), []);
}

#[test]
fn a_regenerated_key_takes_the_place_of_the_old() {
    let world = World::at(NOW);
    let old = CreateApiKey { expires_at: Some(NOW + Duration::days(9)), ..command("aaaaaaaa") };
    let old = world.catalog(|tx, now| create_api_key(tx, &old, now)).expect("a key");
    world.store.set_now(NOW + Duration::days(1));
    let again = RegenerateApiKey { prefix: old.prefix.clone(), fingerprint: fingerprint("bbbbbbbb") };
    let new = world.catalog(|tx, now| regenerate_api_key(tx, &again, now)).expect("a new key");
    let expected = ApiKey { prefix: "bbbbbbbb".to_owned(), created_at: NOW + Duration::days(1), ..old };
    assert_eq!(new, expected);
    assert_eq!(keys(&world, KeyKind::ApiKey), [expected]);
    let gone = world.catalog(|tx, now| regenerate_api_key(tx, &again, now));
    assert!(matches!(gone, Err(Error::NotFound(Noun::ApiKey))), "the old one is there no more");
}
