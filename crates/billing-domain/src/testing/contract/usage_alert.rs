//! Usage alerts: kept, fired once, and whoever may have reached one is marked.

use bigdecimal::BigDecimal;
use time::macros::datetime;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::message::message;
use super::{Harness, Tenant};
use crate::error::{Error, Noun};
use crate::event::Event;
use crate::id::{CustomerKey, UsageAlertId};
use crate::metric::Metric;
use crate::store::{MarkedCustomer, Scope, Window};
use crate::test_clock::{TestClock, TestClockStatus};
use crate::testing::build;
use crate::usage_alert::{AlertKind, AlertScope, AlertUnit, Firing, LaterLook, UsageAlert};

fn alert(tenant: &Tenant<'_>, metric: &Metric, scope: AlertScope, at: OffsetDateTime) -> UsageAlert {
    UsageAlert {
        id: tenant.build(|ids| ids.next()),
        kind: AlertKind::MetricUsage,
        metric: Some(metric.id),
        threshold: "12.50".parse().expect("a number"),
        unit: AlertUnit::PercentOfLimit,
        currency_code: None,
        scope,
        created_at: at,
    }
}

fn metric(tenant: &Tenant<'_>) -> Metric {
    tenant.catalog(|tx, now| {
        let metric = tenant.build(|ids| build::count_metric(ids, "call", now));
        tx.metrics().insert(&metric)?;
        Ok(metric)
    })
}

/// Who is marked of the tenant's customers, whose marks are dropped.
fn take_marked(tenant: &Tenant<'_>) -> Vec<MarkedCustomer> {
    let alerts = tenant.harness.alerts;
    alerts.mark_concerned(1).expect("marked");
    let mut marked = alerts.list_marked(1_000).expect("listed");
    marked.retain(|one| one.organization == tenant.id);
    alerts.drop_marks(&marked).expect("dropped");
    marked
}

fn keys(marked: &[MarkedCustomer]) -> Vec<CustomerKey> {
    marked.iter().map(|one| one.customer).collect()
}

pub(super) fn keeps_alerts(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let metric = metric(&tenant);
    let now = tenant.look(|_, now| Ok(now));
    let acme = tenant.new_customer("acme");
    let everybody = alert(&tenant, &metric, AlertScope::Everybody, now);
    let one = alert(&tenant, &metric, AlertScope::Customer(acme.id.clone()), now + Duration::SECOND);
    let spend = UsageAlert {
        kind: AlertKind::Spend,
        metric: None,
        threshold: BigDecimal::from(3),
        unit: AlertUnit::Absolute,
        currency_code: Some("USD".to_owned()),
        ..alert(&tenant, &metric, AlertScope::Everybody, now + Duration::MINUTE)
    };
    for alert in [&everybody, &one, &spend] {
        tenant.catalog(|tx, _| tx.usage_alerts().insert(alert));
    }
    assert_eq!(tenant.look(|tx, _| tx.usage_alerts().list()), [everybody.clone(), one.clone(), spend.clone()]);
    assert_eq!(tenant.look(|tx, _| tx.usage_alerts().get(one.id)), one);
    let gone = Err(Error::NotFound(Noun::UsageAlert));
    let scope = Scope::Catalog(theirs.id);
    assert_eq!(theirs.run(&scope, |tx, _| tx.usage_alerts().get(one.id).map(drop)), gone, "another tenant's");
    assert_eq!(theirs.run(&scope, |tx, _| tx.usage_alerts().delete(one.id)), gone);
    assert_eq!(theirs.look(|tx, _| tx.usage_alerts().list()), []);
    tenant.catalog(|tx, _| tx.usage_alerts().delete(one.id));
    assert_eq!(tenant.run(&Scope::Catalog(tenant.id), |tx, _| tx.usage_alerts().delete(one.id)), gone);
    assert_eq!(tenant.look(|tx, _| tx.usage_alerts().list()), [everybody, spend]);
}

pub(super) fn fires_once(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let acme = tenant.new_customer("acme");
    let alert = UsageAlertId::from(Uuid::from_u128(7));
    let firing = Firing { customer: acme.key, alert, interval_start: OffsetDateTime::UNIX_EPOCH };
    let next = Firing { interval_start: OffsetDateTime::UNIX_EPOCH + Duration::DAY, ..firing };
    let has_fired = |firing: Firing| tenant.customer(acme.key, |tx, _| tx.usage_alerts().has_fired(&firing));
    assert!(!has_fired(firing));
    let undone: Result<(), Error> = tenant.try_customer(acme.key, |tx, now| {
        tx.usage_alerts().insert_firing(&firing, now)?;
        Err(Error::NotFound(Noun::Metric))
    });
    assert!(undone.is_err() && !has_fired(firing), "with its transaction");
    tenant.customer(acme.key, |tx, now| tx.usage_alerts().insert_firing(&firing, now));
    assert!(has_fired(firing) && !has_fired(next), "for each interval");
}

pub(super) fn marks_whoever_may_have_reached_one(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let metric = metric(&tenant);
    let [acme, bold] = ["acme", "bold"].map(|id| tenant.new_customer(id));
    let now = tenant.look(|_, now| Ok(now));
    let store = |customer: &str, id: &str| {
        let event: Event = build::event(customer, "call", id, now);
        harness.ingest.ingest(tenant.id, &[event], Window::Enforced).expect("taken in");
    };
    store("acme", "1");
    assert_eq!(take_marked(&tenant), [], "there is no alert");
    let made = alert(&tenant, &metric, AlertScope::Everybody, now);
    tenant.catalog(|tx, _| tx.usage_alerts().insert(&made));
    let mut both = vec![acme.key, bold.key];
    both.sort();
    assert_eq!(keys(&take_marked(&tenant)), both, "whoever a new alert may concern, page by page");
    assert_eq!(take_marked(&tenant), [], "once");
    store("bold", "2");
    let marked = take_marked(&tenant);
    assert_eq!(keys(&marked), [bold.key], "whoever stores an event");
    assert!(marked[0].since.is_some(), "with the instant");
    tenant.customer(acme.key, |tx, _| {
        let message = message(tx, Some(acme.key), "1");
        tx.messages().insert(message)
    });
    let marked = take_marked(&tenant);
    assert_eq!((keys(&marked), marked[0].since), (vec![acme.key], None), "whoever is told of");
    tenant.customer(bold.key, |tx, _| tx.usage_alerts().mark(bold.key));
    assert_eq!(keys(&take_marked(&tenant)), [bold.key], "whoever somebody marks");
    tenant.catalog(|tx, _| tx.usage_alerts().delete(made.id));
    store("bold", "3");
    assert_eq!(take_marked(&tenant), [], "there is no alert any more");
}

pub(super) fn marks_whoever_is_to_be_looked_at_again(harness: &Harness<'_>) {
    let (tenant, theirs) = (Tenant::new(harness), Tenant::new(harness));
    let metric = metric(&tenant);
    let clock = tenant.new_clock(datetime!(2024-03-05 12:00 UTC));
    let (acme, test) = (tenant.new_customer("acme"), tenant.new_customer_of(&clock, "test"));
    let made = alert(&tenant, &metric, AlertScope::Everybody, tenant.now());
    tenant.catalog(|tx, _| tx.usage_alerts().insert(&made));
    let marked = take_marked(&tenant);
    assert!(marked.len() == 2 && marked.iter().all(|one| one.may_lie_ahead), "what was stored before: {marked:?}");
    let (second, hour, now) = (Duration::SECOND, Duration::HOUR, tenant.now());
    for (ahead, may_lie_ahead) in [(-second, false), (hour, true)] {
        tenant.send(&[build::event("acme", "call", &ahead.to_string(), now + ahead)]);
        let marked = take_marked(&tenant);
        assert_eq!(marked.iter().map(|one| one.may_lie_ahead).collect::<Vec<_>>(), [may_lie_ahead], "{ahead}");
    }
    let look_again = |whose: &Tenant<'_>, key, looks: &[(OffsetDateTime, bool)]| {
        for (at, is_on_clock) in looks {
            let mut seen = MarkedCustomer::new((whose.id, key), None, Vec::new());
            seen.later = Some(LaterLook::new(*at, *is_on_clock));
            harness.alerts.drop_marks(&[seen]).expect("kept");
        }
    };
    let due = || -> Vec<_> {
        take_marked(&tenant).into_iter().map(|one| (one.customer, one.since, one.may_lie_ahead)).collect()
    };
    look_again(&theirs, theirs.key("acme"), &[(now - hour, false)]);
    look_again(&tenant, acme.key, &[(now + hour, false)]);
    assert_eq!(due(), [], "in an hour");
    look_again(&tenant, acme.key, &[(now - second, false), (now + hour * 2, false), (now - second * 2, false)]);
    assert_eq!(due(), [(acme.key, Some(now - second * 2), true)], "the earliest counts, and more may lie ahead");
    assert_eq!(due(), [], "once");
    let frozen = clock.frozen_time;
    look_again(&tenant, test.key, &[(frozen + second, true)]);
    assert_eq!(due(), [], "by the customer's own time");
    let mut later = TestClock { frozen_time: frozen + second, ..clock };
    tenant.catalog(|tx, _| tx.test_clocks().update(&later));
    assert_eq!(due(), [(test.key, Some(frozen + second), true)], "when the clock is there");
    look_again(&tenant, test.key, &[(frozen + hour, true)]);
    (later.frozen_time, later.status) = (frozen + hour, TestClockStatus::Advancing);
    tenant.catalog(|tx, _| tx.test_clocks().update(&later));
    assert_eq!(due(), [], "the customer is on the way");
    later.status = TestClockStatus::Ready;
    tenant.catalog(|tx, _| tx.test_clocks().update(&later));
    assert_eq!(due(), [(test.key, Some(frozen + hour), true)], "and has arrived");
    let theirs =
        harness.alerts.list_marked(1_000).expect("listed").into_iter().find(|one| one.organization == theirs.id);
    assert_eq!(theirs.and_then(|one| one.since), Some(now - hour), "each organization's own");
}
