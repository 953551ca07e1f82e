//! What is asked without blocking, and may be answered together with others: the same answers as alone.

use std::sync::mpsc;

use time::Duration;

use super::event::NOW;
use super::{Harness, Tenant};
use crate::api_key::{ApiKey, KeyKind};
use crate::error::{Error, Refusal};
use crate::event::{Event, Ingested};
use crate::store::{Reply, Requester, Scope, Window};
use crate::subscription::SubscriptionFilters;
use crate::testing::build::{api_key, event};
use crate::workflow::{AccessQuestion, CheckMetricAccess, CheckedAccess, check_metric_access};

/// The answer to what is asked.
pub(super) fn wait<T: Send + 'static>(ask: impl FnOnce(Reply<T>)) -> Result<T, Error> {
    let (sender, receiver) = mpsc::channel();
    // Nobody waits any more only if the case has failed.
    ask(Box::new(move |answer| sender.send(answer).unwrap_or_default()));
    receiver.recv().expect("a reply is always used")
}

pub(super) fn finds_keys(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let prefix: String = tenant.id.uuid().simple().to_string().chars().rev().take(8).collect();
    let key = api_key(tenant.id, &prefix, tenant.now());
    let find = || wait(|reply| harness.keys.find_key_then(prefix.clone(), reply)).expect("looked up");
    assert!(find().is_none(), "it was never made");
    tenant.catalog(|tx, _| tx.api_keys().insert(&key));
    assert_eq!(find().map(|(found, _)| found), Some(key.clone()), "as soon as it is kept");
    tenant.catalog(|tx, _| tx.api_keys().delete(key.kind, &prefix));
    assert!(find().is_none(), "as soon as it is deleted");
}

pub(super) fn takes_events(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    // Customers whose events a store may keep apart from each other, and answer for in parts.
    let of = |customer: usize, id: &str| event(&format!("customer {customer}"), "call", id, now);
    let sent: Vec<Event> =
        (0..20).flat_map(|customer| [of(customer, "1"), of(customer, "2"), of(customer, "1")]).collect();
    let send = |events| wait(|reply| harness.ingest.ingest_then(tenant.id.into(), events, Window::Enforced, reply));
    let each = [Ingested::Stored, Ingested::Stored, Ingested::Duplicate];
    assert_eq!(send(sent.clone()), Ok(each.repeat(20)), "in the order of the events");
    let old = Event { time_created: now - Duration::days(31), ..of(0, "old") };
    assert_eq!(send(vec![old, of(0, "2")]), Ok(vec![Ingested::OutsideWindow, Ingested::Duplicate]));
    assert_eq!(tenant.send(&sent), vec![Ingested::Duplicate; 60], "both ways know the same events");
    assert_eq!(send(Vec::new()), Ok(Vec::new()));
}

pub(super) fn answers_questions(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (calls, amounts) = tenant.new_metrics();
    tenant.subscribe(acme, [&calls, &amounts], &SubscriptionFilters::none());
    let check = |customer: &str| CheckMetricAccess {
        customer: customer.parse().expect("an id"),
        metric: calls.id,
        filters: SubscriptionFilters::none(),
    };
    let together = |customer| {
        wait(|reply| {
            harness.store.ask(tenant.id.into(), Box::new(AccessQuestion::new(tenant.id, check(customer), reply)))
        })
    };
    let alone = |customer| {
        let scope = Scope::Organization(tenant.id);
        harness.store.run_for(&scope, |tx, now| check_metric_access(tx, &check(customer), now))
    };
    let seen = |checked: CheckedAccess| (checked.access, checked.subscriptions[0].access.usage.clone());
    for (id, quantity) in [("1", 1), ("2", 2), ("2", 2), ("3", 3)] {
        tenant.send(&[event("acme", "call", id, NOW)]);
        let expected = seen(alone("acme").expect("an answer"));
        assert_eq!(expected, (true, quantity.into()), "acknowledged is counted");
        // A store may want any question asked alone, but not answer it otherwise.
        if let Some(answer) = together("acme").expect("an answer") {
            assert_eq!(seen(answer), expected);
        }
    }
    match (together("nobody"), alone("nobody")) {
        (Ok(None), Err(_)) => {}
        (together, alone) => assert_eq!(together.err(), alone.err(), "who does not exist"),
    }
}

/// Keys that do not open the tenant, and why.
fn invalid_keys(tenant: &Tenant<'_>, other: &Tenant<'_>) -> Vec<(ApiKey, &'static str)> {
    let now = tenant.now();
    let named = |name: &str| api_key(tenant.id, &unused_prefix(tenant, name), now);
    let keep = |of: &Tenant<'_>, key: ApiKey| {
        of.catalog(|tx, _| tx.api_keys().insert(&key));
        key
    };
    let gone = keep(tenant, named("g"));
    tenant.catalog(|tx, _| tx.api_keys().delete(gone.kind, &gone.prefix));
    let kept = keep(tenant, named("k"));
    vec![
        (named("n"), "it was never made"),
        (gone, "it was deleted"),
        (ApiKey { digest: vec![8; 32], ..kept }, "another text behind the same prefix"),
        (keep(tenant, ApiKey { expires_at: Some(now - Duration::SECOND), ..named("e") }), "it has expired"),
        (keep(tenant, ApiKey { kind: KeyKind::AccessToken, ..named("t") }), "a token opens nothing by itself"),
        (keep(other, ApiKey { organization: other.id, ..named("o") }), "it opens another tenant"),
    ]
}

/// A prefix that no other tenant uses: keys are found before the tenant is known.
fn unused_prefix(tenant: &Tenant<'_>, name: &str) -> String {
    format!("{name}{:07x}", tenant.id.uuid().as_u128() >> 64)
}

pub(super) fn takes_events_from_whoever_has_a_valid_key(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    let now = tenant.now();
    let send = |key: &ApiKey, id: &str| {
        let requester = Requester { organization: tenant.id, key: Some(key.fingerprint()) };
        // Customers whose events a store may keep apart from each other.
        let events = (0..60).map(|customer| event(&format!("customer {customer}"), "call", id, now)).collect();
        wait(|reply| harness.ingest.ingest_then(requester, events, Window::Enforced, reply))
    };
    let soon =
        ApiKey { expires_at: Some(now + Duration::HOUR), ..api_key(tenant.id, &unused_prefix(&tenant, "s"), now) };
    tenant.catalog(|tx, _| tx.api_keys().insert(&soon));
    for (key, why) in invalid_keys(&tenant, &other) {
        assert_eq!(send(&key, why), Err(Refusal::InvalidKey.into()), "{why}");
        assert_eq!(send(&soon, why), Ok(vec![Ingested::Stored; 60]), "nothing was stored: {why}");
    }
    tenant.catalog(|tx, _| tx.api_keys().delete(soon.kind, &soon.prefix));
    assert_eq!(send(&soon, "late"), Err(Refusal::InvalidKey.into()), "as soon as it is deleted");
}

pub(super) fn answers_whoever_has_a_valid_key(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    let acme = tenant.new_customer_at_now();
    let (calls, amounts) = tenant.new_metrics();
    tenant.subscribe(acme, [&calls, &amounts], &SubscriptionFilters::none());
    let command = CheckMetricAccess {
        customer: "acme".parse().expect("an id"),
        metric: calls.id,
        filters: SubscriptionFilters::none(),
    };
    let ask = |key: &ApiKey| {
        let requester = Requester { organization: tenant.id, key: Some(key.fingerprint()) };
        wait(|reply| harness.store.ask(requester, Box::new(AccessQuestion::new(tenant.id, command.clone(), reply))))
    };
    let key = api_key(tenant.id, &unused_prefix(&tenant, "v"), tenant.now());
    tenant.catalog(|tx, _| tx.api_keys().insert(&key));
    let scope = Scope::Organization(tenant.id);
    let alone = harness.store.run_for(&scope, |tx, now| check_metric_access(tx, &command, now)).expect("an answer");
    let Some(answer) = ask(&key).expect("an answer") else {
        // This store wants every question asked alone.
        return;
    };
    assert_eq!(answer.access, alone.access);
    for (invalid, why) in invalid_keys(&tenant, &other) {
        assert_eq!(ask(&invalid).err(), Some(Refusal::InvalidKey.into()), "{why}");
    }
    tenant.catalog(|tx, _| tx.api_keys().delete(key.kind, &key.prefix));
    assert_eq!(ask(&key).err(), Some(Refusal::InvalidKey.into()), "as soon as it is deleted");
}

pub(super) fn works_for_whoever_has_a_valid_key(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    let made = tenant.new_customer("acme");
    let scopes = [
        Scope::Customer(tenant.id, made.key),
        Scope::Catalog(tenant.id),
        Scope::Organization(tenant.id),
        Scope::CustomerReading(tenant.id, made.key),
    ];
    let works = |scope: &Scope, key: &ApiKey| {
        harness.store.run_for_key(scope, Some(&key.fingerprint()), |tx, _| Ok(tx.customers().get(made.key)?.id))
    };
    let key = api_key(tenant.id, &unused_prefix(&tenant, "w"), tenant.now());
    tenant.catalog(|tx, _| tx.api_keys().insert(&key));
    for scope in &scopes {
        assert_eq!(works(scope, &key), Ok(made.id.clone()), "{scope:?}");
    }
    for (invalid, why) in invalid_keys(&tenant, &other) {
        for scope in &scopes {
            let mut has_begun = false;
            let refused = harness.store.run_for_key(scope, Some(&invalid.fingerprint()), |_, _| {
                has_begun = true;
                Ok(())
            });
            assert_eq!((refused, has_begun), (Err(Refusal::InvalidKey.into()), false), "{scope:?}: {why}");
        }
    }
    tenant.catalog(|tx, _| tx.api_keys().delete(key.kind, &key.prefix));
    for scope in &scopes {
        assert_eq!(works(scope, &key), Err(Refusal::InvalidKey.into()), "{scope:?}: as soon as it is deleted");
    }
}
