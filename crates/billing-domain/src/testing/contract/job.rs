//! Jobs: kept, done by one worker at a time, and stopped for good.

use std::collections::BTreeMap;

use time::{Duration, OffsetDateTime};

use super::{Harness, Tenant};
use crate::error::{Error, Noun};
use crate::event::EventCorrection;
use crate::id::{JobId, OrganizationId};
use crate::job::{CorrectionOrder, EventSelection, EventsChange, Job, JobState};
use crate::store::PageRequest;
use crate::testing::build::event;
use crate::testing::world::filters;

const LEASE: Duration = Duration::hours(1);

fn job(tenant: &Tenant<'_>, change: EventsChange, at: OffsetDateTime) -> Job {
    let selection = EventSelection {
        customer: Some("acme".parse().expect("an id")),
        metric: Some(tenant.build(|ids| ids.next())),
        event_name: Some("call".to_owned()),
        from: Some(at - Duration::days(3)),
        to: None,
        properties: filters(&[("env", "prod")]),
    };
    let (by, reason) = (Some("abcdefgh".to_owned()), Some("wrong".to_owned()));
    Job {
        id: tenant.build(|ids| ids.next()),
        order: CorrectionOrder { selection, change, beyond_window: true, by, reason },
        state: JobState::Running,
        created_at: at,
        finished_at: None,
        customers_done: 0,
        cursor: None,
        events_after: None,
        failure: None,
    }
}

fn get(tenant: &Tenant<'_>, id: JobId) -> Job {
    tenant.look(|tx, _| tx.jobs().get(id))
}

pub(super) fn keeps_jobs(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let now = tenant.look(|_, now| Ok(now));
    let set = serde_json::json!({"n": 1.50, "env": "test"});
    let set = EventsChange::SetProperties(set.as_object().expect("an object").clone());
    let jobs: Vec<Job> =
        [EventsChange::Void, set, EventsChange::Void].into_iter().map(|change| job(&tenant, change, now)).collect();
    for one in &jobs {
        tenant.catalog(|tx, _| tx.jobs().insert(one));
        assert_eq!(get(&tenant, one.id), *one, "every field");
    }
    let list = |limit, after| tenant.look(|tx, _| tx.jobs().list(&PageRequest { limit, after: Option::clone(&after) }));
    let first = list(2, None);
    assert_eq!(first.items, [jobs[2].clone(), jobs[1].clone()], "newest first");
    let rest = list(2, first.next);
    assert_eq!((rest.items, rest.next), (vec![jobs[0].clone()], None));
    assert_eq!(theirs.look(|tx, _| tx.jobs().list(&PageRequest::first())).items, []);
    let foreign = theirs.run(&crate::store::Scope::Catalog(theirs.id), |tx, now| tx.jobs().cancel(jobs[0].id, now));
    assert_eq!(foreign, Err(Error::NotFound(Noun::Job)), "another's");
    for one in &jobs {
        let at = tenant.catalog(|tx, now| tx.jobs().cancel(one.id, now).map(|()| now));
        let stopped = get(&tenant, one.id);
        assert_eq!((stopped.state, stopped.finished_at), (JobState::Cancelled, Some(at)));
    }
}

/// Leases whatever there is; those of other tenants, who share the store, are left again.
fn lease(harness: &Harness<'_>, organization: OrganizationId) -> Vec<Job> {
    let mut all = Vec::new();
    while let Some(leased) = harness.jobs.lease_job(LEASE).expect("leased") {
        all.push(leased);
    }
    let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(owner, _)| *owner == organization);
    others.into_iter().for_each(|(owner, job)| harness.jobs.leave_job(owner, job.id).expect("left"));
    own.into_iter().map(|(_, job)| job).collect()
}

pub(super) fn are_one_workers(harness: &Harness<'_>) {
    let tenant = Tenant::new(harness);
    let now = tenant.look(|_, now| Ok(now));
    let made = job(&tenant, EventsChange::Void, now);
    tenant.catalog(|tx, _| tx.jobs().insert(&made));
    assert_eq!(lease(harness, tenant.id), std::slice::from_ref(&made));
    assert_eq!(lease(harness, tenant.id), [], "somebody is at it");
    let on =
        Job { cursor: Some("x".to_owned()), events_after: Some("y".to_owned()), customers_done: 7, ..made.clone() };
    assert_eq!(harness.jobs.keep_job(tenant.id, &on, LEASE), Ok(true));
    assert_eq!(get(&tenant, made.id), on);
    harness.jobs.leave_job(tenant.id, made.id).expect("left");
    assert_eq!(lease(harness, tenant.id), std::slice::from_ref(&on), "the next goes on where it was left");
    tenant.catalog(|tx, now| tx.jobs().cancel(made.id, now));
    assert_eq!(harness.jobs.keep_job(tenant.id, &made, LEASE), Ok(false), "it was stopped");
    assert_eq!(get(&tenant, made.id).customers_done, 7, "and stays as it was");
    harness.jobs.leave_job(tenant.id, made.id).expect("left");
    assert_eq!(lease(harness, tenant.id), [], "for good");
    let failing = job(&tenant, EventsChange::Void, now);
    tenant.catalog(|tx, _| tx.jobs().insert(&failing));
    let (state, failure) = (JobState::Failed, Some("no".to_owned()));
    let failed = Job { state, failure, ..failing };
    assert_eq!(harness.jobs.keep_job(tenant.id, &failed, LEASE), Ok(true));
    let kept = get(&tenant, failed.id);
    assert!(kept.finished_at.is_some_and(|at| at >= now), "by the clock of the store: {kept:?}");
    assert_eq!((Job { finished_at: None, ..kept }, lease(harness, tenant.id)), (failed, Vec::new()), "nobody goes on");
}

pub(super) fn count_what_they_corrected(harness: &Harness<'_>) {
    let [tenant, theirs] = [Tenant::new(harness), Tenant::new(harness)];
    let job: JobId = tenant.build(|ids| ids.next());
    for name in ["acme", "other"] {
        let customer = tenant.new_customer(name);
        let now = tenant.look(|tx, _| tx.customers().now(customer.key));
        let sent: Vec<_> = (0..3).map(|n| event(name, "call", &format!("{name} {n}"), now)).collect();
        tenant.import(&sent);
        let correction = |(event, job): (&crate::event::Event, Option<JobId>)| EventCorrection {
            id: tenant.build(|ids| ids.next()),
            before: event.clone(),
            after: None,
            at: now,
            by: None,
            reason: None,
            job,
        };
        let corrections: Vec<_> = sent.iter().zip([Some(job), None, Some(job)]).map(correction).collect();
        tenant.customer(customer.key, |tx, _| tx.events().correct(customer.key, &corrections));
    }
    let idle: JobId = tenant.build(|ids| ids.next());
    let counts = |tenant: &Tenant<'_>, jobs: &[JobId]| tenant.look(|tx, _| tx.events().count_corrections(jobs));
    assert_eq!(counts(&tenant, &[idle, job]), BTreeMap::from([(job, 4)]), "wherever the customers are");
    assert_eq!(counts(&tenant, &[idle]), BTreeMap::new(), "it was not asked for");
    assert_eq!(counts(&theirs, &[job]), BTreeMap::new(), "another's");
}
