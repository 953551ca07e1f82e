//! The audit log.

use time::Duration;

use super::message::{message, place};
use super::{Harness, Tenant};
use crate::audit::{Actor, AuditEntry, AuditFilter, Change};
use crate::error::{Error, Noun};
use crate::id::CustomerKey;
use crate::idempotency::{Answer, Attempt, Claim};
use crate::message::Payload;
use crate::store::{FeedRequest, PageRequest, Scope, Transaction};

/// A change that has everything an entry can have.
fn change(operation: &str, customer: Option<CustomerKey>) -> Change {
    Change {
        actor: Actor::api_key("abcdefgh", "backend"),
        address: Some("203.0.113.9".to_owned()),
        request_id: "request".to_owned(),
        operation: operation.to_owned(),
        kind: "customer".to_owned(),
        subject: Some("acme".to_owned()),
        customer,
        before: Some(r#"{"a": 1.10}"#.to_owned()),
        after: Some(r#"{"a": 1.20}"#.to_owned()),
    }
}

/// What is left out where it may be.
fn bare(operation: &str) -> Change {
    let nothing = Change { address: None, subject: None, before: None, after: None, ..change(operation, None) };
    Change { actor: Actor::user(uuid::Uuid::from_u128(7).into(), "ada@acme.io"), kind: "plan".to_owned(), ..nothing }
}

fn listed(tenant: &Tenant<'_>, filter: &AuditFilter) -> Vec<AuditEntry> {
    tenant.look(|tx, _| Ok(tx.audit_log().list(filter, &PageRequest::first())?.items))
}

fn operations(tenant: &Tenant<'_>, filter: &AuditFilter) -> Vec<String> {
    listed(tenant, filter).into_iter().map(|entry| entry.change.operation).collect()
}

pub(super) fn keeps_every_field(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let before = tenant.now();
    tenant.customer(acme.key, |tx, _| tx.audit_log().insert(change("update_customer", Some(acme.key))));
    tenant.catalog(|tx, _| tx.audit_log().insert(bare("create_plan")));
    let entries = listed(&tenant, &AuditFilter::default());
    let [own, of_customer] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((&own.change, &own.customer), (&bare("create_plan"), &None));
    assert_eq!(of_customer.change, change("update_customer", Some(acme.key)), "to the byte");
    assert_eq!(of_customer.customer.as_ref(), Some(&acme.id), "with the customer's own name for itself");
    assert!(before <= of_customer.at && of_customer.at <= own.at, "in real time: {entries:?}");
    assert_ne!(own.id, of_customer.id);
}

pub(super) fn keeps_what_was_done_alone(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let undone: Result<(), Error> = tenant.try_customer(acme.key, |tx, _| {
        tx.audit_log().insert(change("undone", Some(acme.key)))?;
        Err(Error::NotFound(Noun::Metric))
    });
    assert!(undone.is_err());
    let answer = Answer { status: 409, text: "{}".to_owned() };
    let claimed = |key: &str, operation: &str, attempt: Attempt| {
        let claim = Claim { key: key.to_owned(), fingerprint: vec![1] };
        harness.store.run_once(&Scope::Customer(tenant.id, acme.key), &claim, &mut |tx, _| {
            tx.audit_log().insert(change(operation, Some(acme.key)))?;
            Ok(attempt.clone())
        })
    };
    claimed("refused", "refused", Attempt::Refused(answer.clone())).expect("answered");
    assert_eq!(operations(&tenant, &AuditFilter::default()), [""; 0], "neither undone nor refused");
    claimed("done", "done", Attempt::Done(answer.clone())).expect("done");
    claimed("done", "done", Attempt::Done(answer)).expect_err("answered before");
    assert_eq!(operations(&tenant, &AuditFilter::default()), ["done"], "once");
}

pub(super) fn keeps_changes_beside_messages(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let write = |tx: &mut dyn Transaction, first: &str, second: &str| {
        tx.audit_log().insert(change(first, Some(acme.key)))?;
        for data in ["1", "2"] {
            let told = message(tx, Some(acme.key), data);
            tx.messages().insert(told)?;
        }
        tx.audit_log().insert(change(second, Some(acme.key)))
    };
    let undone: Result<(), Error> = tenant.try_customer(acme.key, |tx, _| {
        write(tx, "undone", "undone too")?;
        Err(Error::NotFound(Noun::Metric))
    });
    assert!(undone.is_err());
    tenant.customer(acme.key, |tx, _| write(tx, "first", "second"));
    place(&tenant);
    let mut noted = operations(&tenant, &AuditFilter::default());
    noted.sort_unstable();
    assert_eq!(noted, ["first", "second"], "each once, and nothing that was undone");
    let all = FeedRequest { after: 0, types: Vec::new(), limit: 10 };
    let told = tenant.look(|tx, _| tx.messages().list(&all));
    let told: Vec<Payload> = told.messages.into_iter().map(|(_, message)| message.payload).collect();
    assert_eq!(told, ["1", "2"].map(|data| Payload::Json(data.to_owned())), "in their order");
}

pub(super) fn lists_newest_first(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [acme, bold] = ["acme", "bold"].map(|id| tenant.new_customer(id));
    let mut expected = Vec::new();
    for number in 0..7 {
        let operation = format!("change_{number}");
        match number % 3 {
            0 => tenant.catalog(|tx, _| tx.audit_log().insert(bare(&operation))),
            of => {
                let key = if of == 1 { acme.key } else { bold.key };
                tenant.customer(key, |tx, _| tx.audit_log().insert(change(&operation, Some(key))));
            }
        }
        expected.insert(0, operation);
    }
    assert_eq!(operations(&tenant, &AuditFilter::default()), expected);
    let mut found = Vec::new();
    let mut page = PageRequest { limit: 3, after: None };
    loop {
        let some = tenant.look(|tx, _| tx.audit_log().list(&AuditFilter::default(), &page));
        assert!(some.items.len() <= 3);
        found.extend(some.items.into_iter().map(|entry| entry.change.operation));
        // What is added meanwhile moves nothing.
        tenant.catalog(|tx, _| tx.audit_log().insert(bare("meanwhile")));
        page.after = some.next;
        if page.after.is_none() {
            break;
        }
    }
    assert_eq!(found, expected, "page by page");
    let wrong = PageRequest { limit: 3, after: Some("nonsense".to_owned()) };
    let refused =
        tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.audit_log().list(&AuditFilter::default(), &wrong));
    assert!(matches!(refused, Err(Error::Fields(_))), "{refused:?}");
}

pub(super) fn filters(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [acme, bold] = ["acme", "bold"].map(|id| tenant.new_customer(id));
    for (key, operation) in [(acme.key, "update_customer"), (bold.key, "void_invoice")] {
        tenant.customer(key, |tx, _| tx.audit_log().insert(change(operation, Some(key))));
    }
    tenant.catalog(|tx, _| tx.audit_log().insert(bare("create_plan")));
    let all = listed(&tenant, &AuditFilter::default());
    let (first, last) = (all[2].at, all[0].at);
    let any = AuditFilter::default;
    let text = |text: &str| Some(text.to_owned());
    #[rustfmt::skip]
    let cases: [(AuditFilter, &[&str], &str); 12] = [
        // filter,                                                       kept,                                            why
        (any(),                                                          &["create_plan", "void_invoice", "update_customer"], "everything"),
        (AuditFilter { customer: Some(acme.key), ..any() },              &["update_customer"],                            "one customer's"),
        (AuditFilter { actor: text("abcdefgh"), ..any() },               &["void_invoice", "update_customer"],            "a key by its prefix"),
        (AuditFilter { actor: text("backend"), ..any() },                &["void_invoice", "update_customer"],            "or by its name"),
        (AuditFilter { actor: text("ada@acme.io"), ..any() },            &["create_plan"],                                "a user by address"),
        (AuditFilter { operation: text("void_invoice"), ..any() },       &["void_invoice"],                               "a call"),
        (AuditFilter { kind: text("plan"), ..any() },                    &["create_plan"],                                "a kind of thing"),
        (AuditFilter { subject: text("acme"), ..any() },                 &["void_invoice", "update_customer"],            "one thing"),
        (AuditFilter { from: Some(last + Duration::MICROSECOND), ..any() }, &[],                                          "later than the last"),
        (AuditFilter { from: Some(last), ..any() },                      &["create_plan"],                                "from its instant on"),
        (AuditFilter { to: Some(first), ..any() },                       &[],                                             "the end does not count"),
        (AuditFilter { customer: Some(acme.key), kind: text("plan"), ..any() }, &[],                                      "all of it must hold"),
    ];
    for (filter, kept, why) in cases {
        let found = operations(&tenant, &filter);
        // The clock of a store may stand still.
        let is_still = first == last && filter.from == Some(last);
        assert!(is_still || found == kept, "{why}: {found:?}");
    }
}

pub(super) fn belongs_to_one_organization(harness: &Harness<'_>) {
    let [ours, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let acme = ours.new_customer("acme");
    ours.customer(acme.key, |tx, _| tx.audit_log().insert(change("update_customer", Some(acme.key))));
    ours.catalog(|tx, _| tx.audit_log().insert(bare("create_plan")));
    assert_eq!(operations(&theirs, &AuditFilter::default()), [""; 0]);
    assert_eq!(operations(&theirs, &AuditFilter { customer: Some(acme.key), ..AuditFilter::default() }), [""; 0]);
}
