//! Webhook endpoints: kept with what waits for them, leased to one process at a time.

use std::collections::BTreeMap;

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::message::{message, place};
use super::{Harness, Tenant};
use crate::error::{Error, Noun};
use crate::id::{MessageId, WebhookEndpointId};
use crate::message::MessageType;
use crate::store::{DeliveryRecord, EndpointStanding, LeaseRequest, Page, PageRequest, Scope, WebhookRepo};
use crate::webhook::{DeliveryAttempt, EndpointStatus, PendingDelivery, WebhookEndpoint};

const MINUTE: Duration = Duration::MINUTE;

fn endpoint(tenant: &Tenant<'_>, seconds: i64) -> WebhookEndpoint {
    WebhookEndpoint {
        id: tenant.build(|ids| ids.next()),
        url: "https://example.com/hook".to_owned(),
        event_types: vec![MessageType::InvoicePaid, MessageType::CustomerCreated],
        description: Some("books".to_owned()),
        public_key: "whpk_AAAA".to_owned(),
        secret: vec![0, 1, 255],
        old_secret: None,
        status: EndpointStatus::Enabled,
        disabled_reason: None,
        failing_since: None,
        position: 0,
        replays: 0,
        created_at: OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds),
    }
}

fn on<T>(tenant: &Tenant<'_>, mut work: impl FnMut(&mut dyn WebhookRepo) -> Result<T, Error>) -> T {
    tenant.catalog(|tx, _| work(tx.webhooks()))
}

/// Tells so many facts, which get the next positions.
fn tell(tenant: &Tenant<'_>, count: usize) -> Vec<MessageId> {
    let told = (0..count).map(|_| {
        tenant.catalog(|tx, _| {
            let message = message(tx, None, "1");
            tx.messages().insert(message.clone())?;
            Ok(message.id)
        })
    });
    let told = told.collect();
    place(tenant);
    told
}

pub(super) fn keeps_endpoints(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let [mut first, second] = [2, 3].map(|at| endpoint(&tenant, at));
    let plain = WebhookEndpoint { event_types: Vec::new(), description: None, ..endpoint(&tenant, 1) };
    for one in [&second, &first, &plain] {
        on(&tenant, |webhooks| webhooks.insert(one));
    }
    assert_eq!(on(&tenant, |webhooks| webhooks.list()), [plain, first.clone(), second.clone()], "oldest first");
    first.url = "https://example.com/other".to_owned();
    first.old_secret = Some((vec![7], first.created_at + Duration::DAY));
    let asked = WebhookEndpoint { position: 9, failing_since: Some(first.created_at), ..first.clone() };
    on(&tenant, |webhooks| webhooks.update(&asked));
    assert_eq!(on(&tenant, |webhooks| webhooks.get(first.id)), first, "but for what deliveries change");
    let disabled = WebhookEndpoint {
        status: EndpointStatus::Disabled,
        disabled_reason: Some("It answered 410.".to_owned()),
        ..asked
    };
    let waiting = PendingDelivery::new(1, MessageId::from(Uuid::from_u128(1)), first.created_at);
    on(&tenant, |webhooks| webhooks.put_pending(first.id, std::slice::from_ref(&waiting)));
    on(&tenant, |webhooks| webhooks.update(&disabled));
    assert_eq!(on(&tenant, |webhooks| webhooks.get(first.id)), disabled, "with those, when it is disabled");
    assert_eq!(on(&tenant, |webhooks| webhooks.list_pending(first.id, waiting.next_at, 9)), [], "and nothing waits");
    on(&tenant, |webhooks| webhooks.delete(second.id));
    let scope = Scope::Catalog(tenant.id);
    let gone = Err(Error::NotFound(Noun::WebhookEndpoint));
    assert_eq!(tenant.run(&scope, |tx, _| tx.webhooks().delete(second.id)), gone);
    assert_eq!(tenant.run(&scope, |tx, _| tx.webhooks().get(second.id).map(drop)), gone);
}

pub(super) fn keeps_what_waits(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let made = endpoint(&tenant, 1);
    let at = made.created_at;
    on(&tenant, |webhooks| webhooks.insert(&made));
    let messages = tell(&tenant, 3);
    assert_eq!(on(&tenant, |webhooks| webhooks.last_position()), 3);
    let of = |index: usize, next_at| PendingDelivery::new(index as u64 + 1, messages[index], next_at);
    let [late, again] = [of(0, at + MINUTE), of(0, at + 3 * MINUTE).after(4, Some(at))];
    let [second, third] = [of(1, at + 2 * MINUTE), of(2, at + 2 * MINUTE)];
    on(&tenant, |webhooks| webhooks.put_pending(made.id, &[third.clone(), late.clone(), second.clone()]));
    let due =
        |minutes: i32, limit| on(&tenant, |webhooks| webhooks.list_pending(made.id, at + minutes * MINUTE, limit));
    assert_eq!(due(2, 9), [late.clone(), second.clone(), third.clone()], "by time, then by position");
    assert_eq!(due(1, 9), std::slice::from_ref(&late), "what is due");
    assert_eq!(due(2, 2), [late, second.clone()], "so many");
    on(&tenant, |webhooks| webhooks.put_pending(made.id, std::slice::from_ref(&again)));
    assert_eq!(due(3, 9), [second, third, again], "in place of what was said before");
    on(&tenant, |webhooks| webhooks.put_pending(made.id, &[]));
    // Written at once, so that only the whole feed is certain to be younger than an instant.
    let long_ago = OffsetDateTime::UNIX_EPOCH - Duration::weeks(52);
    let ahead = WebhookEndpoint { position: 3, ..endpoint(&tenant, 2) };
    on(&tenant, |webhooks| webhooks.insert(&ahead));
    on(&tenant, |webhooks| webhooks.rewind(ahead.id, OffsetDateTime::UNIX_EPOCH + Duration::weeks(52 * 200)));
    assert_eq!(on(&tenant, |webhooks| webhooks.get(ahead.id)).position, 3, "nothing is so young");
    let stands = || on(&tenant, |webhooks| webhooks.get(ahead.id));
    assert_eq!(stands().replays, 0, "nor was it sent back");
    on(&tenant, |webhooks| webhooks.rewind(ahead.id, long_ago));
    assert_eq!((stands().position, stands().replays), (0, 1), "all of it");
    on(&tenant, |webhooks| webhooks.rewind(ahead.id, long_ago));
    assert_eq!((stands().position, stands().replays), (0, 2), "a turn that began there is made again");
}

pub(super) fn keeps_endpoints_apart(harness: &Harness<'_>) {
    let [ours, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let made = endpoint(&ours, 1);
    on(&ours, |webhooks| webhooks.insert(&made));
    let told = tell(&ours, 1)[0];
    let gone = Err(Error::NotFound(Noun::WebhookEndpoint));
    type Touch = fn(&mut dyn WebhookRepo, &WebhookEndpoint) -> Result<(), Error>;
    #[rustfmt::skip]
    let cases: [(&str, Touch); 6] = [
        ("get",           |webhooks, made| webhooks.get(made.id).map(drop)),
        ("update",        |webhooks, made| webhooks.update(made)),
        ("delete",        |webhooks, made| webhooks.delete(made.id)),
        ("rewind",        |webhooks, made| webhooks.rewind(made.id, made.created_at)),
        ("list_attempts", |webhooks, made| webhooks.list_attempts(made.id, None, &PageRequest::first()).map(drop)),
        ("list_pending",  |webhooks, made| webhooks.get(made.id).and_then(|made| webhooks.list_pending(made.id, made.created_at, 1)).map(drop)),
    ];
    for (name, touch) in cases {
        assert_eq!(theirs.run(&Scope::Catalog(theirs.id), |tx, _| touch(tx.webhooks(), &made)), gone, "{name}");
    }
    assert_eq!(on(&theirs, |webhooks| webhooks.list()), []);
    assert_eq!(theirs.look(|tx, _| tx.messages().list_by_id(&[told])), [], "nor another's messages");
    assert_eq!(on(&ours, |webhooks| webhooks.get(made.id)), made);
}

/// The only case that leases: endpoints of all organizations are leased together.
pub(super) fn leases_endpoints_to_one_at_a_time(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let made = endpoint(&tenant, 1);
    let disabled = WebhookEndpoint { status: EndpointStatus::Disabled, ..endpoint(&tenant, 2) };
    for one in [&made, &disabled] {
        on(&tenant, |webhooks| webhooks.insert(one));
    }
    let (place, [one, other]) = ((tenant.id, made.id), [1, 2].map(Uuid::from_u128));
    let at = |minutes: i32| OffsetDateTime::UNIX_EPOCH + Duration::weeks(52 * 60) + minutes * MINUTE;
    let lease = |owner, are_failing, minutes| {
        let wanted = wanted(owner, are_failing, at(minutes));
        let leased = harness.deliveries.lease_endpoints(&wanted).expect("leased");
        leased.into_iter().filter(|(organization, _)| *organization == tenant.id).collect::<Vec<_>>()
    };
    assert_eq!(lease(one, false, 0), [], "nothing is to be sent");
    let messages = tell(&tenant, 2);
    assert_eq!(lease(one, true, 0), [], "it does not fail");
    assert_eq!(lease(one, false, 0), [place], "and not the one that is disabled");
    assert_eq!(lease(other, false, 0), [], "it is somebody's");
    harness.deliveries.renew_leases(one, at(0), 3 * MINUTE).expect("renewed");
    assert_eq!(lease(other, false, 2), [], "and stays it as long as that goes on");
    assert_eq!(lease(other, false, 3), [place], "the lease has run out");
    harness.deliveries.renew_leases(one, at(3), 9 * MINUTE).expect("renewed");
    let record = |owner, record: &DeliveryRecord| {
        harness.deliveries.record_deliveries(owner, tenant.id, made.id, record).expect("recorded")
    };
    let failed = DeliveryAttempt::new((messages[0], 1), at(3), Some(500), 12, "no");
    let taken = DeliveryAttempt::new((messages[1], 1), at(3), Some(204), 7, "");
    let again = PendingDelivery::new(1, messages[0], at(4)).after(1, Some(at(3)));
    let mut turn = DeliveryRecord::new(Some(at(3)));
    (turn.reached, turn.attempts, turn.pending) =
        (Some((0, 2)), vec![failed.clone(), taken.clone()], vec![again.clone()]);
    assert_eq!(record(one, &turn), None, "it is not one's any more");
    let stands = record(other, &turn);
    let kept = || on(&tenant, |webhooks| webhooks.get(made.id));
    assert_eq!(stands, Some(kept()), "as it stands behind the turn");
    assert_eq!((kept().position, kept().failing_since), (2, Some(at(3))));
    let listed = |message, page: PageRequest| on(&tenant, |webhooks| webhooks.list_attempts(made.id, message, &page));
    let whole = Page { items: vec![taken.clone(), failed.clone()], next: None };
    assert_eq!(listed(None, PageRequest::first()), whole, "newest first");
    assert_eq!(listed(Some(messages[0]), PageRequest::first()).items, std::slice::from_ref(&failed), "of one message");
    let first = listed(None, PageRequest { limit: 1, after: None });
    assert_eq!(first.items, [taken]);
    assert_eq!(
        listed(None, PageRequest { limit: 1, after: first.next }).items,
        std::slice::from_ref(&failed),
        "page by page"
    );
    shows_standings(&tenant, (&made, &disabled), at(3));
    harness.deliveries.renew_leases(other, at(3), 9 * MINUTE).expect("renewed");
    harness.deliveries.release_endpoint(one, tenant.id, made.id).expect("not one's");
    assert_eq!(lease(one, true, 4), [], "still the other's");
    harness.deliveries.release_endpoint(other, tenant.id, made.id).expect("released");
    assert_eq!(lease(one, true, 3), [], "it is not to be sent yet");
    assert_eq!(lease(one, false, 4), [], "it fails");
    assert_eq!(lease(one, true, 4), [place], "what waits is due");
    let mut turn = DeliveryRecord::new(None);
    (turn.reached, turn.settled) = (Some((0, 1)), vec![messages[0]]);
    assert!(record(one, &turn).is_some());
    assert_eq!((kept().position, kept().failing_since), (2, None), "it had moved on from there");
    moves_on_if_it_was_not_sent_back(&tenant, &made, &|turn| record(one, turn));
    assert_eq!(on(&tenant, |webhooks| webhooks.list_pending(made.id, at(9), 9)), []);
    assert!(harness.deliveries.drop_attempts(at(9), 1).expect("dropped") >= 1);
    on(&tenant, |webhooks| webhooks.delete(made.id));
    assert_eq!(record(one, &turn), None, "it is gone");
    on(&tenant, |webhooks| webhooks.insert(&made));
    assert_eq!(listed(None, PageRequest::first()).items, [], "with what was sent to it");
    on(&tenant, |webhooks| webhooks.delete(made.id));
    let unknown = WebhookEndpointId::from(Uuid::from_u128(3));
    assert_eq!(harness.deliveries.release_endpoint(one, tenant.id, unknown), Ok(()));
    leases_so_many_of_each(harness);
}

/// `record` writes a turn for whoever holds the endpoint.
fn moves_on_if_it_was_not_sent_back(
    tenant: &Tenant<'_>,
    made: &WebhookEndpoint,
    record: &dyn Fn(&DeliveryRecord) -> Option<WebhookEndpoint>,
) {
    on(tenant, |webhooks| webhooks.rewind(made.id, OffsetDateTime::UNIX_EPOCH - Duration::weeks(52)));
    let mut turn = DeliveryRecord::new(None);
    turn.reached = Some((0, 1));
    let stands = record(&turn).expect("held");
    assert_eq!(
        (stands.position, stands.replays),
        (0, 1),
        "it was read before the endpoint was sent back to where it began"
    );
    turn.replays = stands.replays;
    assert_eq!(record(&turn).map(|stands| stands.position), Some(1), "and this one behind that");
}

fn wanted(owner: Uuid, are_failing: bool, now: OffsetDateTime) -> LeaseRequest {
    let (limit, most_of_each) = (1_000, 1_000);
    LeaseRequest { owner, limit, most_of_each, room_of: BTreeMap::new(), are_failing, now, lease: MINUTE }
}

/// Of two organizations, with four endpoints and one.
fn leases_so_many_of_each(harness: &Harness<'_>) {
    let [many, one] = [Tenant::new(harness), Tenant::new(harness)];
    for (tenant, endpoints) in [(&many, 4), (&one, 1)] {
        for n in 1..=endpoints {
            let made = endpoint(tenant, n);
            on(tenant, |webhooks| webhooks.insert(&made));
        }
        tell(tenant, 1);
    }
    let begin = OffsetDateTime::UNIX_EPOCH + Duration::weeks(52 * 70);
    #[rustfmt::skip]
    let cases = [
        // of each, of the one with many, leased of it, of the other, why
        (3,         None,                 3,            1,            "no more than so many of each"),
        (3,         Some(2),              2,            1,            "some of it are served already"),
        (3,         Some(0),              0,            1,            "it has all that it may have, and the other does not wait for it"),
        (0,         Some(4),              4,            0,            "each has its own"),
    ];
    for (minutes, (most_of_each, room, of_many, of_one, why)) in (0..).map(|n| 2 * n).zip(cases) {
        let room_of = room.map(|room| (many.id, room)).into_iter().collect();
        // The leases of the case before have run out by then.
        let now = begin + minutes * MINUTE;
        let wanted = LeaseRequest { most_of_each, room_of, ..wanted(Uuid::from_u128(9), false, now) };
        let leased = harness.deliveries.lease_endpoints(&wanted).expect("leased");
        let of = |tenant: &Tenant<'_>| leased.iter().filter(|(organization, _)| *organization == tenant.id).count();
        assert_eq!((of(&many), of(&one)), (of_many, of_one), "{why}");
    }
    let turns = |minutes: i32| {
        let wanted = LeaseRequest { most_of_each: 2, ..wanted(Uuid::from_u128(9), false, begin + minutes * MINUTE) };
        let leased = harness.deliveries.lease_endpoints(&wanted).expect("leased");
        leased.into_iter().filter(|(organization, _)| *organization == many.id).map(|(_, id)| id).collect::<Vec<_>>()
    };
    let mut served = [turns(20), turns(30)].concat();
    served.sort_unstable();
    served.dedup();
    assert_eq!(served.len(), 4, "those that were left out come first the next time");
}

/// One endpoint has failed since an instant, with one message that waits; the other is disabled.
fn shows_standings(tenant: &Tenant<'_>, (made, disabled): (&WebhookEndpoint, &WebhookEndpoint), since: OffsetDateTime) {
    let all = tenant.harness.deliveries.list_standings(1_000).expect("measured");
    let of = |id: WebhookEndpointId| all.iter().find(|standing| standing.endpoint == id).expect("it is told of");
    let failing: &EndpointStanding = of(made.id);
    assert_eq!((failing.organization, failing.waiting, failing.behind), (tenant.id, 1, 0));
    assert_eq!((failing.failing_since, failing.is_disabled), (Some(since), false));
    assert!(failing.oldest.is_some());
    let off = of(disabled.id);
    assert_eq!((off.behind, off.oldest, off.is_disabled), (2, None, true), "nothing waits for it");
}
