//! Claimed work: once for all requests with one key, effects and answer together.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::together::wait;
use super::{Harness, Tenant};
use crate::error::{Error, Refusal, StoreError};
use crate::idempotency::{Answer, Attempt, Claim, KeptAnswer};
use crate::store::{Scope, Transaction};

/// Requests with one key that come at once.
const TWINS: u32 = 6;

fn claim(key: &str) -> Claim {
    Claim { key: key.to_owned(), fingerprint: vec![7; 32] }
}

fn answer(text: &str) -> Answer {
    Answer { status: 201, text: text.to_owned() }
}

fn kept(text: &str) -> Option<KeptAnswer> {
    Some(KeptAnswer { fingerprint: vec![7; 32], answer: answer(text) })
}

/// An effect that can be counted.
fn add_one(tx: &mut dyn Transaction) -> Result<(), Error> {
    let mut organization = tx.organizations().get()?;
    organization.invoice_grace_minutes += 1;
    tx.organizations().update(&organization)
}

impl Tenant<'_> {
    fn effects(&self) -> u32 {
        self.look(|tx, _| tx.organizations().get()).invoice_grace_minutes
    }

    /// What both ways to look for it find.
    fn find(&self, key: &str) -> Option<KeptAnswer> {
        let found = self.harness.answers.find_answer(self.id, key).expect("no error");
        let together = wait(|reply| self.harness.answers.find_answer_then(self.id, key.to_owned(), reply));
        assert_eq!(together, Ok(found.clone()), "the same in either way");
        found
    }

    /// Claimed work with one effect.
    fn once(&self, key: &str, mut end: impl FnMut() -> Result<Attempt, Error>) -> Result<(), Error> {
        self.harness.store.run_once(&Scope::Catalog(self.id), &claim(key), &mut |tx, _| {
            add_one(tx)?;
            end()
        })
    }
}

pub(super) fn keeps_effects_and_answer_together(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let before = tenant.effects();
    assert_eq!(tenant.find("k"), None);
    tenant.once("k", || Ok(Attempt::Done(answer("{\"a\": \"é\"}")))).expect("done");
    assert_eq!(tenant.find("k"), kept("{\"a\": \"é\"}"));
    assert_eq!(tenant.effects(), before + 1);
    let customer = tenant.new_customer("acme");
    let scope = Scope::Customer(tenant.id, customer.key);
    let mut at = None;
    let done = harness.store.run_once(&scope, &claim("on a customer"), &mut |tx, now| {
        at = Some(now);
        assert_eq!(tx.customers().get(customer.key)?, customer);
        Ok(Attempt::Done(answer("x")))
    });
    done.expect("done");
    assert!(at.expect("it ran") >= customer.created_at, "the customer's own now");
    assert_eq!(tenant.find("on a customer"), kept("x"));
}

pub(super) fn keeps_the_answer_of_a_refusal_alone(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let before = tenant.effects();
    let customer = tenant.new_customer("acme");
    tenant.once("k", || Ok(Attempt::Refused(answer("no")))).expect("refused");
    assert_eq!((tenant.find("k"), tenant.effects()), (kept("no"), before));
    // Also when it was the store that refused.
    let scope = Scope::Customer(tenant.id, customer.key);
    let refused = harness.store.run_once(&scope, &claim("taken"), &mut |tx, now| {
        tx.customers().advance_instant(customer.key, now + time::Duration::days(9))?;
        match tx.customers().insert(&customer) {
            Err(Error::Refused(_)) => Ok(Attempt::Refused(answer("taken"))),
            other => panic!("{other:?}"),
        }
    });
    refused.expect("refused");
    assert_eq!(tenant.find("taken"), kept("taken"));
    let now = tenant.customer(customer.key, |_, now| Ok(now));
    assert!(now < customer.created_at + time::Duration::days(9), "the work is undone");
}

pub(super) fn keeps_nothing_of_an_error(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let before = tenant.effects();
    let error = Error::from(StoreError::DeadlineExceeded);
    assert_eq!(tenant.once("k", || Err(error.clone())), Err(error));
    assert_eq!((tenant.find("k"), tenant.effects()), (None, before));
    tenant.once("k", || Ok(Attempt::Done(answer("later")))).expect("the key is still free");
    assert_eq!((tenant.find("k"), tenant.effects()), (kept("later"), before + 1));
}

pub(super) fn takes_a_key_once(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    tenant.once("k", || Ok(Attempt::Done(answer("first")))).expect("done");
    let before = tenant.effects();
    let again = tenant.once("k", || panic!("the work runs once"));
    assert_eq!(again, Err(Refusal::IdempotencyKeyInUse.into()));
    assert_eq!((tenant.find("k"), tenant.effects()), (kept("first"), before));
}

pub(super) fn takes_a_key_once_among_twins(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let before = tenant.effects();
    let (done, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    let (store, scope) = (harness.store, Scope::Catalog(tenant.id));
    thread::scope(|threads| {
        for _ in 0..TWINS {
            threads.spawn(|| {
                let result = store.run_once(&scope, &claim("k"), &mut |tx, _| {
                    add_one(tx)?;
                    Ok(Attempt::Done(answer("one of them")))
                });
                match result {
                    Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                    Err(Error::Refused(Refusal::IdempotencyKeyInUse)) => refused.fetch_add(1, Ordering::Relaxed),
                    Err(error) => panic!("{error}"),
                }
            });
        }
    });
    assert_eq!((done.into_inner(), refused.into_inner()), (1, TWINS - 1));
    assert_eq!((tenant.find("k"), tenant.effects()), (kept("one of them"), before + 1));
}

pub(super) fn keeps_keys_apart_by_organization(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    tenant.once("k", || Ok(Attempt::Done(answer("ours")))).expect("done");
    assert_eq!(other.find("k"), None);
    other.once("k", || Ok(Attempt::Done(answer("theirs")))).expect("the key is free");
    assert_eq!((tenant.find("k"), other.find("k")), (kept("ours"), kept("theirs")));
}

pub(super) fn keeps_the_first_of_two_answers(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let keep = |key: &str, text: &str| harness.answers.keep_answer(tenant.id, &claim(key), &answer(text));
    assert_eq!(keep("k", "first").ok(), kept("first"));
    assert_eq!(keep("k", "second").ok(), kept("first"));
    tenant.once("done", || Ok(Attempt::Done(answer("work")))).expect("done");
    assert_eq!(keep("done", "late").ok(), kept("work"));
}

pub(super) fn forgets_only_what_is_old(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    tenant.once("k", || Ok(Attempt::Done(answer("new")))).expect("done");
    harness.answers.forget_answers(1_000).expect("no error");
    assert_eq!(tenant.find("k"), kept("new"));
}
