//! Organizations, API keys, currencies.

use std::thread;

use time::Duration;

use super::{Harness, Tenant};
use crate::address::Address;
use crate::api_key::{ApiKey, KeyKind, KeyScope, KeyScopes};
use crate::currency::Currency;
use crate::error::{Error, Noun, Refusal};
use crate::id::OrganizationId;
use crate::organization::{AccessPolicy, Organization};
use crate::store::Scope;
use crate::tax::{TaxFailure, TaxHook, TaxProvider};
use crate::testing::build::{Ids, api_key, organization};
use crate::testing::world::decimal;

fn address() -> Address {
    Address {
        city: "Zürich".to_owned(),
        country: "CH".to_owned(),
        line1: "Bahnhofstrasse 1".to_owned(),
        line2: None,
        postal_code: "8001".to_owned(),
        state: Some("ZH".to_owned()),
    }
}

fn full(id: OrganizationId, tenant: &Tenant<'_>) -> Organization {
    Organization {
        name: "Änderung \"GmbH\"".to_owned(),
        default_currency_code: "CHF".to_owned(),
        timezone: "Europe/Zurich".to_owned(),
        tax_rate: Some(decimal("7.7")),
        tax_providers: vec![TaxProvider::Http, TaxProvider::FlatRate],
        tax_hook: Some(TaxHook {
            id: id.uuid().into(),
            url: "https://tax.example".to_owned(),
            secret: "whsec_".to_owned(),
        }),
        on_tax_failure: TaxFailure::BillUntaxed,
        payment_grace_period_days: Some(30),
        invoice_grace_minutes: 0,
        subscription_filter_keys: vec!["region".to_owned(), "environment".to_owned()],
        access_policy: AccessPolicy::Any,
        event_window_days: 365,
        address: Some(address()),
        approval_limit: Some(decimal("100.5")),
        ..organization(id, tenant.now())
    }
}

pub(super) fn keeps_every_setting(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let id: OrganizationId = tenant.build(Ids::next);
    let made = full(id, &tenant);
    let scope = Scope::Catalog(id);
    assert_eq!(
        tenant.run(&scope, |tx, _| tx.organizations().get()),
        Err(Error::NotFound(Noun::Organization)),
        "not there yet"
    );
    tenant.run(&scope, |tx, _| tx.organizations().insert(&made)).expect("inserted");
    assert_eq!(tenant.run(&scope, |tx, _| tx.organizations().get()), Ok(made));
    assert!(harness.keys.list_organizations().expect("organizations").contains(&id));
}

pub(super) fn updates_all_but_filter_keys(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    tenant.catalog(|tx, _| tx.organizations().add_filter_keys(&["env"]));
    let before = tenant.look(|tx, _| tx.organizations().get());
    let changed = Organization { created_at: before.created_at, ..full(tenant.id, &tenant) };
    tenant.catalog(|tx, _| tx.organizations().update(&changed));
    let expected = Organization { subscription_filter_keys: vec!["env".to_owned()], ..changed };
    assert_eq!(tenant.look(|tx, _| tx.organizations().get()), expected);
    let bare = Organization {
        tax_rate: None,
        tax_hook: None,
        payment_grace_period_days: None,
        address: None,
        approval_limit: None,
        ..expected
    };
    tenant.catalog(|tx, _| tx.organizations().update(&bare));
    assert_eq!(tenant.look(|tx, _| tx.organizations().get()), bare, "settings can be cleared");
}

pub(super) fn adds_filter_keys_once(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let keys = |tenant: &Tenant<'_>| tenant.look(|tx, _| tx.organizations().get()).subscription_filter_keys;
    tenant.catalog(|tx, _| tx.organizations().add_filter_keys(&["b", "a"]));
    tenant.catalog(|tx, _| tx.organizations().add_filter_keys(&["a", "c", "c"]));
    assert_eq!(keys(&tenant), ["b", "a", "c"], "known ones change nothing");
    let more: Vec<String> = (3..Organization::SUBSCRIPTION_FILTER_KEYS_MAX).map(|n| format!("key {n}")).collect();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    tenant.catalog(|tx, _| tx.organizations().add_filter_keys(&more));
    let one_too_many = tenant.run(&Scope::Catalog(tenant.id), |tx, _| tx.organizations().add_filter_keys(&["z"]));
    assert!(matches!(one_too_many, Err(Error::Fields(_))), "{one_too_many:?}");
    assert_eq!(keys(&tenant).len(), Organization::SUBSCRIPTION_FILTER_KEYS_MAX);
}

pub(super) fn adds_filter_keys_side_by_side(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let names: Vec<String> = (0..4).map(|n| format!("key {n}")).collect();
    let customers: Vec<_> = (0..4).map(|n| tenant.new_customer(&format!("customer {n}"))).collect();
    let (store, id) = (harness.store, tenant.id);
    thread::scope(|threads| {
        for (name, customer) in names.iter().zip(&customers) {
            let scope = Scope::Customer(id, customer.key);
            threads.spawn(move || {
                let added =
                    store.run_for(&scope, |tx, _| tx.organizations().add_filter_keys(&[name.as_str(), "shared"]));
                added.expect("added");
            });
        }
    });
    let mut keys = tenant.look(|tx, _| tx.organizations().get()).subscription_filter_keys;
    keys.sort();
    assert_eq!(keys, ["key 0", "key 1", "key 2", "key 3", "shared"]);
}

pub(super) fn keeps_api_keys(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let id: uuid::Uuid = tenant.build(Ids::next);
    // Unique in the whole store.
    let prefix = |n: u8| format!("{:05x}{n:03}", id.as_u64_pair().0 & 0xf_ffff);
    let now = tenant.now();
    let older = api_key(tenant.id, &prefix(2), now - Duration::days(1));
    let scopes = KeyScopes::of([KeyScope::Ingest, KeyScope::AccessCheck]);
    let newer = ApiKey { expires_at: Some(now), scopes, ..api_key(tenant.id, &prefix(1), now) };
    tenant.catalog(|tx, _| {
        tx.api_keys().insert(&newer)?;
        tx.api_keys().insert(&older)
    });
    assert_eq!(
        tenant.look(|tx, _| tx.api_keys().list(KeyKind::ApiKey)),
        [older.clone(), newer.clone()],
        "oldest first, expired too"
    );
    let (found, at) = harness.keys.find_key(&newer.prefix).expect("no error").expect("found");
    assert_eq!(found, newer);
    assert!(at >= now);
    tenant.catalog(|tx, _| tx.api_keys().delete(KeyKind::ApiKey, &newer.prefix));
    assert_eq!(harness.keys.find_key(&newer.prefix).expect("no error"), None, "worthless from the commit on");
    assert_eq!(tenant.look(|tx, _| tx.api_keys().list(KeyKind::ApiKey)), [older]);
    let again = tenant.run(&Scope::Catalog(tenant.id), |tx, _| tx.api_keys().delete(KeyKind::ApiKey, &newer.prefix));
    assert_eq!(again, Err(Error::NotFound(Noun::ApiKey)));
}

pub(super) fn notes_which_keys_were_used(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let id: uuid::Uuid = tenant.build(Ids::next);
    // Unique in the whole store.
    let prefix = |n: u8| format!("{:05x}{n:03}", id.as_u64_pair().0 & 0xf_ffff);
    let now = tenant.now();
    let [used, unused] = [21, 22].map(|number| api_key(tenant.id, &prefix(number), now));
    for key in [&used, &unused] {
        tenant.catalog(|tx, _| tx.api_keys().insert(key));
    }
    let noted = |key: &ApiKey| {
        let listed = tenant.look(|tx, _| tx.api_keys().list(KeyKind::ApiKey));
        listed.into_iter().find(|one| one.prefix == key.prefix).expect("a key").last_used_at
    };
    assert_eq!((noted(&used), noted(&unused)), (None, None));
    let note = || harness.keys.note_uses(&[used.prefix.clone(), prefix(29)]).expect("noted");
    note();
    let first = noted(&used).expect("noted");
    assert!(first >= now && noted(&unused).is_none());
    note();
    assert_eq!(noted(&used), Some(first), "once a minute");
    let (found, _) = harness.keys.find_key(&used.prefix).expect("read").expect("a key");
    assert_eq!(found.last_used_at, Some(first));
}

pub(super) fn keeps_access_tokens_apart_from_keys(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let id: uuid::Uuid = tenant.build(Ids::next);
    let prefix = |n: u8| format!("{:05x}{n:03}", id.as_u64_pair().0 & 0xf_ffff);
    let now = tenant.now();
    let key = api_key(tenant.id, &prefix(11), now);
    let token = ApiKey { kind: KeyKind::AccessToken, ..api_key(tenant.id, &prefix(12), now) };
    tenant.catalog(|tx, _| {
        tx.api_keys().insert(&key)?;
        tx.api_keys().insert(&token)
    });
    let list = |kind| tenant.look(|tx, _| tx.api_keys().list(kind));
    assert_eq!((list(KeyKind::ApiKey), list(KeyKind::AccessToken)), (vec![key.clone()], vec![token.clone()]));
    let found = harness.keys.find_key(&token.prefix).expect("no error").expect("found");
    assert_eq!(found.0, token, "found with its kind");
    for (kind, other) in [(KeyKind::ApiKey, &token), (KeyKind::AccessToken, &key)] {
        let deleted = tenant.run(&Scope::Catalog(tenant.id), |tx, _| tx.api_keys().delete(kind, &other.prefix));
        assert_eq!(deleted, Err(Error::NotFound(kind.noun())), "one of the other kind is not there");
    }
    tenant.catalog(|tx, _| tx.api_keys().delete(KeyKind::AccessToken, &token.prefix));
    assert_eq!((list(KeyKind::ApiKey), list(KeyKind::AccessToken)), (vec![key], vec![]));
}

pub(super) fn keeps_currencies(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let currency = |code: &str, decimals| Currency {
        code: code.to_owned(),
        name: format!("{code} units"),
        symbol: "¤".to_owned(),
        decimals,
    };
    let (tokens, minutes) = (currency("TOKENS", 0), currency("MINUTES", 6));
    tenant.catalog(|tx, _| tx.currencies().insert(&tokens));
    tenant.catalog(|tx, _| tx.currencies().insert(&minutes));
    assert_eq!(tenant.look(|tx, _| tx.currencies().list()), [minutes, tokens.clone()], "by code");
    let again = tenant.run(&Scope::Catalog(tenant.id), |tx, _| tx.currencies().insert(&tokens));
    assert!(matches!(again, Err(Error::Refused(Refusal::DuplicateResource(_)))), "{again:?}");
}
