//! Taking events in, and finding them again.

use time::macros::datetime;
use time::{Duration, OffsetDateTime};

use super::{Harness, Tenant};
use crate::error::{Error, Noun};
use crate::event::{Event, Ingested};
use crate::id::{CustomerKey, OrganizationId};
use crate::organization::Organization;
use crate::store::{EventFilter, Page, PageRequest, Scope, Window};
use crate::subscription::SubscriptionFilters;
use crate::testing::build::{Ids, count_metric, customer, days_from, event, properties};
use crate::usage::UsageRequest;

/// Where the test clocks of these cases stand.
pub(super) const NOW: OffsetDateTime = datetime!(2024-03-05 12:00 UTC);

impl Tenant<'_> {
    /// Hands events in.
    pub(super) fn send(&self, events: &[Event]) -> Vec<Ingested> {
        self.harness.ingest.ingest(self.id, events, Window::Enforced).expect("taken in")
    }

    /// Takes events of any age in.
    pub(super) fn import(&self, events: &[Event]) -> Vec<Ingested> {
        self.harness.ingest.ingest(self.id, events, Window::Open).expect("taken in")
    }

    /// The key of a customer, whether it exists or not.
    pub(super) fn key(&self, id: &str) -> CustomerKey {
        customer(self.id, id, NOW).key
    }

    /// A customer `acme` that lives at [`NOW`].
    pub(super) fn new_customer_at_now(&self) -> CustomerKey {
        let clock = self.new_clock(NOW);
        self.new_customer_of(&clock, "acme").key
    }

    /// How many events of `name` the customer has, dated within a year of [`NOW`].
    fn count(&self, customer: CustomerKey, name: &str) -> u64 {
        let metric = self.build(|ids| count_metric(ids, name, NOW));
        let (none, period) = (SubscriptionFilters::none(), days_from(NOW - Duration::days(365), 730));
        let request = UsageRequest::billed(customer, metric, none, period, &period);
        self.look(|tx, _| tx.events().usages(std::slice::from_ref(&request)))[0].event_count
    }
}

pub(super) fn stores_each_event_once(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.now();
    let of = |id: &str| event("nobody yet", "call", id, now);
    let sent = [of("1"), of("2"), of("1"), of("3")];
    let stored = [Ingested::Stored, Ingested::Stored, Ingested::Duplicate, Ingested::Stored];
    assert_eq!(tenant.send(&sent), stored, "in the order of the events; the customer need not exist");
    assert_eq!(tenant.send(&[of("4"), of("2")]), [Ingested::Stored, Ingested::Duplicate]);
    let other = Event { name: "other".to_owned(), ..event("nobody yet", "call", "3", now - Duration::hours(1)) };
    assert_eq!(tenant.send(&[other]), [Ingested::Duplicate], "the id alone decides: the first one counts");
    assert_eq!(tenant.send(&[]), []);
    let since = now - Duration::days(1);
    let wanted = ["1", "2", "3", "4", "5"].map(str::to_owned);
    let missing = tenant.look(|tx, _| tx.events().missing(Some(tenant.key("nobody yet")), &wanted, since));
    assert_eq!(missing, ["5"]);
}

/// Of one customer, whatever others send: the number goes up with each transaction that stores an event that counts, and with those
/// that no metric counts.
pub(super) fn says_how_far_usage_saw(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let (metric, _) = tenant.new_metrics();
    let (none, period) = (SubscriptionFilters::none(), days_from(NOW - Duration::days(2), 4));
    let request = UsageRequest::billed(acme, metric, none, period, &period);
    let read = || tenant.look(|tx, _| tx.events().seen_usages(std::slice::from_ref(&request))).remove(0);
    let mut last = read();
    assert_eq!(last.usage.event_count, 0, "nothing has arrived");
    #[rustfmt::skip]
    let steps = [
        // name,   id,  hours before now, counted, why
        ("call",  "1",  0,                1,       "the first event"),
        ("call",  "2",  30,               2,       "one that is late, but dated before"),
        ("other", "3",  0,                2,       "one that no metric counts, and one may later"),
        ("call",  "4",  0,                3,       "one more"),
    ];
    for (name, id, hours, counted, why) in steps {
        assert_eq!(tenant.send(&[event("acme", name, id, NOW - Duration::hours(hours))]), [Ingested::Stored], "{why}");
        let seen = read();
        assert_eq!(seen.usage.event_count, counted, "{why}");
        assert!(seen.last_arrival > last.last_arrival, "{why}: {} after {}", seen.last_arrival, last.last_arrival);
        last = seen;
    }
    assert_eq!(read(), last, "nothing came in between");
}

pub(super) fn knows_an_id_across_months(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let at = |time| event("acme", "call", "1", time);
    let february = datetime!(2024-02-20 0:00 UTC);
    assert_eq!(tenant.send(&[at(february)]), [Ingested::Stored]);
    assert_eq!(tenant.send(&[at(NOW)]), [Ingested::Duplicate], "known from the month before");
    assert_eq!(tenant.send(&[event("acme", "call", "2", NOW)]), [Ingested::Stored]);
    assert_eq!(tenant.send(&[event("acme", "call", "2", february)]), [Ingested::Duplicate], "and from the month after");
    assert_eq!(tenant.count(acme, "call"), 2);
}

pub(super) fn keeps_ids_apart_by_customer(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    let now = tenant.now();
    let of = |customer: &str| event(customer, "call", "1", now);
    assert_eq!(tenant.send(&[of("a"), of("b")]), [Ingested::Stored, Ingested::Stored]);
    assert_eq!(other.send(&[of("a")]), [Ingested::Stored], "and by organization");
}

pub(super) fn accepts_its_window(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    let us = Duration::MICROSECOND;
    let (oldest, latest) = (NOW - Duration::days(30), NOW + Duration::days(1));
    #[rustfmt::skip]
    let cases = [
        // time,        outcome,                  why
        (oldest,        Ingested::Stored,         "as old as can be"),
        (oldest - us,   Ingested::OutsideWindow,  "too old"),
        (latest,        Ingested::Stored,         "as far ahead as can be"),
        (latest + us,   Ingested::OutsideWindow,  "too far ahead"),
    ];
    for (n, (time, outcome, why)) in cases.into_iter().enumerate() {
        assert_eq!(tenant.send(&[event("acme", "call", &n.to_string(), time)]), [outcome], "{why}");
    }
    let same_id = [event("acme", "call", "x", oldest - us), event("acme", "call", "x", oldest)];
    assert_eq!(tenant.send(&same_id), [Ingested::OutsideWindow, Ingested::Stored], "what is refused uses no id up");
    assert_eq!(tenant.count(acme, "call"), 3);
    let in_real_time = event("nobody", "call", "1", tenant.now());
    assert_eq!(
        tenant.send(&[event("nobody", "call", "1", NOW), in_real_time]),
        [Ingested::OutsideWindow, Ingested::Stored]
    );
    let organization = tenant.look(|tx, _| tx.organizations().get());
    let changed = Organization { event_window_days: 31, ..organization };
    tenant.catalog(|tx, _| tx.organizations().update(&changed));
    assert_eq!(
        tenant.send(&[event("acme", "call", "y", oldest - us)]),
        [Ingested::Stored],
        "the setting counts at once"
    );
}

pub(super) fn accepts_anything_when_open(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let of = |id: &str, time| event("acme", "call", id, time);
    let old = datetime!(1999-12-31 23:59:59.999999 UTC);
    let far = datetime!(2150-01-01 0:00 UTC);
    assert_eq!(
        tenant.import(&[of("1", old), of("2", far), of("1", old)]),
        [Ingested::Stored, Ingested::Stored, Ingested::Duplicate]
    );
    assert_eq!(tenant.import(&[of("1", old - Duration::days(10))]), [Ingested::Duplicate]);
    let missing = tenant.look(|tx, _| tx.events().missing(Some(tenant.key("acme")), &["1".to_owned()], old));
    assert_eq!(missing, Vec::<String>::new());
}

pub(super) fn says_what_is_missing(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer_at_now();
    tenant.send(&[event("acme", "call", "a", NOW), event("acme", "call", "b", NOW - Duration::days(10))]);
    tenant.send(&[event("other", "call", "c", tenant.now())]);
    let missing = |customer, ids: &[&str], since| {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        tenant.look(|tx, _| tx.events().missing(customer, &ids, since))
    };
    let since = NOW - Duration::days(30);
    assert_eq!(missing(Some(acme), &["z", "a", "y", "b", "z", "c"], since), ["z", "y", "c"], "in order, each once");
    assert_eq!(missing(None, &["z", "a", "c"], since), ["z"], "of any customer");
    assert_eq!(missing(Some(acme), &["a"], NOW), Vec::<String>::new(), "dated at the instant is found");
    assert_eq!(missing(Some(acme), &["a", "b"], NOW + Duration::MICROSECOND), ["a", "b"], "dated before it is not");
    assert_eq!(missing(Some(tenant.key("nobody")), &["a"], since), ["a"]);
    assert_eq!(missing(Some(acme), &[], since), Vec::<String>::new());
}

pub(super) fn lists_an_id_of_anybody(harness: &Harness<'_>) {
    let (tenant, other) = (Tenant::new(harness), Tenant::new(harness));
    let old = NOW - Duration::days(40);
    // A customer need not be there to have events.
    let sent: Vec<Event> = (0..7).map(|n| event(&format!("c{n}"), "call", "a", NOW)).collect();
    tenant.import(&sent);
    tenant.import(&[event("c0", "call", "b", NOW), event("c1", "call", "c", old)]);
    other.import(&[event("c0", "call", "a", NOW)]);
    let list = |id: &str, limit, after: Option<String>| {
        tenant.look(|tx, _| tx.events().list_with_id(id, &PageRequest { limit, after: after.clone() }))
    };
    let mut wanted: Vec<Event> = sent;
    wanted.sort_by_key(|event| tenant.key(event.customer.as_str()));
    for limit in [1, 3, 7, 8] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = list("a", limit, after);
            assert!(page.items.len() <= limit as usize);
            found.extend(page.items.into_iter().map(|kept| kept.event));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, wanted, "{limit} to a page, and nobody else's");
    }
    assert_eq!(list("c", 9, None).items.into_iter().map(|kept| kept.event.time_created).collect::<Vec<_>>(), [old]);
    assert_eq!(list("nothing", 9, None).items, []);
    for broken in ["x", "1_x", "x_0190a5f3c2b17f00a1b2c3d4e5f60718"] {
        let page = PageRequest { limit: 1, after: Some(broken.to_owned()) };
        let answer = tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.events().list_with_id("a", &page));
        assert!(answer.is_err(), "{broken}");
    }
}

pub(super) fn needs_an_organization(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let absent: OrganizationId = tenant.build(Ids::next);
    let sent = [event("acme", "call", "1", tenant.now())];
    let refused = harness.ingest.ingest(absent, &sent, Window::Enforced);
    assert_eq!(refused, Err(Error::NotFound(Noun::Organization)));
    let none = tenant.run(&Scope::Organization(tenant.id), |tx, now| {
        tx.events().missing(None, &["1".to_owned()], now - Duration::days(1))
    });
    assert_eq!(none, Ok(vec!["1".to_owned()]));
}

pub(super) fn lists_the_newest_first(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let old = NOW - Duration::days(40);
    let json = r#"{"n": 1.50, "s": "é", "list": [1e30, null], "big": 123456789012345678901234567890.5}"#;
    let sent = [
        Event { properties: properties(json), ..event("acme", "call", "a", NOW) },
        event("acme", "mail", "é", NOW),
        event("acme", "call", "Z", NOW),
        event("acme", "call", "b", NOW - Duration::MICROSECOND),
        event("acme", "call", "old_1", old),
        event("other", "call", "a", NOW),
    ];
    tenant.import(&sent);
    let customer = tenant.key("acme");
    let all = EventFilter::of(customer);
    let list = |filter: &EventFilter, limit, after| {
        let page = tenant.look(|tx, _| tx.events().list(filter, &PageRequest { limit, after: Clone::clone(&after) }));
        Page { items: page.items.into_iter().map(|kept| kept.event).collect(), next: page.next }
    };
    let newest_first = [1, 0, 2, 3, 4].map(|index: usize| sent[index].clone());
    assert_eq!(list(&all, 9, None).items, newest_first, "with every digit");
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = list(&all, 2, after);
        found.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, newest_first, "page by page");
    let of_name = EventFilter { name: Some("mail".to_owned()), ..all.clone() };
    assert_eq!(list(&of_name, 9, None).items, [sent[1].clone()]);
    let of_id = EventFilter { idempotency_id: Some("old_1".to_owned()), ..all.clone() };
    assert_eq!(list(&of_id, 9, None).items, [sent[4].clone()]);
    let (b, later) = (NOW - Duration::MICROSECOND, NOW + Duration::MICROSECOND);
    #[rustfmt::skip]
    let cases = [
        // from,      to,          found,               why
        (Some(NOW),   None,        vec![1, 0, 2],       "the first instant is inside"),
        (None,        Some(NOW),   vec![3, 4],          "the last is outside"),
        (Some(b),     Some(NOW),   vec![3],             "so times that meet share nothing"),
        (Some(NOW),   Some(NOW),   vec![],              "a time of no length"),
        (Some(old),   Some(later), vec![1, 0, 2, 3, 4], "over months"),
        (Some(later), None,        vec![],              "behind all of them"),
        (None,        Some(old),   vec![],              "before all of them"),
    ];
    for (from, to, found, why) in cases {
        let filter = EventFilter { from, to, ..all.clone() };
        let found: Vec<_> = found.into_iter().map(|index: usize| sent[index].clone()).collect();
        assert_eq!(list(&filter, 9, None).items, found, "{why}");
        let first = list(&filter, 1, None);
        let second = first.next.map_or(Vec::new(), |next| list(&filter, 1, Some(next)).items);
        let two: Vec<_> = found.into_iter().take(2).collect();
        assert_eq!([first.items, second].concat(), two, "page by page: {why}");
    }
    let page = PageRequest { limit: 1, after: Some("x".to_owned()) };
    assert!(tenant.run(&Scope::Organization(tenant.id), |tx, _| tx.events().list(&all, &page)).is_err());
}
