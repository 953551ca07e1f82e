//! Events, read by folding them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use time::OffsetDateTime;

use super::transaction::MemoryTransaction;
use super::{AccountState, Arrival};
use crate::custom_sql::{CustomFailure, CustomUsageRequest};
use crate::error::{Error, StoreError};
use crate::event::{Event, EventCorrection, EventHistory, EventState, EventVersion, KeptEvent};
use crate::id::{CustomerKey, JobId};
use crate::store::{EventCursor, EventFilter, EventRepo, Page, PageRequest, SharedIdCursor};
use crate::usage::fold_custom;
use crate::usage::{SeenUsage, UsageRequest, fold};

impl EventRepo for MemoryTransaction {
    fn seen_usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<SeenUsage>, Error> {
        let tenant = self.tenant()?;
        UsageRequest::refuse_custom(requests)?;
        let usage = |request: &UsageRequest| {
            let account = tenant.accounts.get(&request.customer);
            let events = account.into_iter().flat_map(|account| account.events.values());
            fold(request, events).seen_to(account.map_or(0, |account| account.last_arrival()))
        };
        Ok(requests.iter().map(usage).collect())
    }

    fn seen_custom_usages(
        &mut self,
        requests: &[CustomUsageRequest],
    ) -> Result<Vec<Result<SeenUsage, CustomFailure>>, Error> {
        let tenant = self.tenant()?;
        let usage = |request: &CustomUsageRequest| {
            let account = tenant.accounts.get(&request.customer);
            let events = account.into_iter().flat_map(|account| account.events.values());
            let last_arrival = account.map_or(0, |account| account.last_arrival());
            fold_custom(request, events).map(|usage| usage.seen_to(last_arrival))
        };
        Ok(requests.iter().map(usage).collect())
    }

    fn list(&mut self, filter: &EventFilter, page: &PageRequest) -> Result<Page<KeptEvent>, Error> {
        let after = page.after.as_deref().map(EventCursor::parse).transpose()?;
        let account = self.tenant()?.accounts.get(&filter.customer);
        let mut events: Vec<KeptEvent> = account
            .into_iter()
            .flat_map(|account| account.kept_events_seen(filter.seen_to))
            .filter(|kept| filter.takes(&kept.event) && filter.state.is_none_or(|state| kept.state == state))
            .filter(|kept| after.as_ref().is_none_or(|after| EventCursor::of(&kept.event) < *after))
            .collect();
        events.sort_by_key(|kept| Reverse(EventCursor::of(&kept.event)));
        let limit = page.limit as usize;
        let is_last = events.len() <= limit;
        events.truncate(limit);
        let next = events.last().filter(|_| !is_last).map(|kept| EventCursor::of(&kept.event).to_text());
        Ok(Page { items: events, next })
    }

    fn list_with_id(&mut self, idempotency_id: &str, page: &PageRequest) -> Result<Page<KeptEvent>, Error> {
        let after = page.after.as_deref().map(SharedIdCursor::parse).transpose()?;
        let organization = self.organization;
        let place = |kept: &KeptEvent| SharedIdCursor::of(organization, &kept.event);
        let kept = self.tenant()?.accounts.values().flat_map(|account| account.kept_events());
        let mut found: Vec<KeptEvent> = kept
            .filter(|kept| kept.event.idempotency_id == idempotency_id && after.is_none_or(|after| place(kept) > after))
            .collect();
        found.sort_by_key(place);
        let is_last = found.len() <= page.limit as usize;
        found.truncate(page.limit as usize);
        let next = found.last().filter(|_| !is_last).map(|last| place(last).to_text());
        Ok(Page { items: found, next })
    }

    fn find(&mut self, customer: CustomerKey, ids: &[String]) -> Result<Vec<KeptEvent>, Error> {
        let account = self.tenant()?.accounts.get(&customer);
        let kept = account.into_iter().flat_map(|account| account.kept_events());
        Ok(kept.filter(|kept| ids.contains(&kept.event.idempotency_id)).collect())
    }

    fn correct(&mut self, customer: CustomerKey, corrections: &[EventCorrection]) -> Result<(), Error> {
        let at = self.state.now;
        let account = self.account(customer)?;
        for correction in corrections {
            let id = &correction.before.idempotency_id;
            if account.events.get(id) != Some(&correction.before) {
                return Err(StoreError::Internal(format!("event {id:?} is not as its correction has it")).into());
            }
            match &correction.after {
                Some(after) => drop(account.events.insert(id.clone(), after.clone())),
                None => {
                    account.events.remove(id);
                    account.voided.insert(id.clone(), correction.before.clone());
                }
            }
            account.arrivals.push(Arrival { id: id.clone(), event: correction.after.clone(), at });
            account.corrections.push(correction.clone());
        }
        Ok(())
    }

    fn histories(&mut self, customer: CustomerKey, idempotency_id: &str) -> Result<Vec<EventHistory>, Error> {
        let account = self.tenant()?.accounts.get(&customer);
        Ok(account.and_then(|account| account.history(idempotency_id)).into_iter().collect())
    }

    fn count_corrections(&mut self, jobs: &[JobId]) -> Result<BTreeMap<JobId, u64>, Error> {
        let corrections = self.tenant()?.accounts.values().flat_map(|account| account.corrections.iter());
        let mut counts = BTreeMap::new();
        for job in corrections.filter_map(|correction| correction.job).filter(|job| jobs.contains(job)) {
            *counts.entry(job).or_default() += 1;
        }
        Ok(counts)
    }

    fn list_corrections(&mut self, customer: CustomerKey, idempotency_id: &str) -> Result<Vec<EventCorrection>, Error> {
        let account = self.tenant()?.accounts.get(&customer);
        let corrections = account.into_iter().flat_map(|account| account.corrections.iter());
        Ok(corrections.filter(|correction| correction.before.idempotency_id == idempotency_id).cloned().collect())
    }

    fn next_after(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Option<OffsetDateTime>, Error> {
        let events = self.tenant()?.accounts.get(&customer).into_iter().flat_map(|account| account.events.values());
        Ok(events.map(|event| event.time_created).filter(|time| *time > instant).min())
    }

    fn missing(
        &mut self,
        customer: Option<CustomerKey>,
        ids: &[String],
        since: OffsetDateTime,
    ) -> Result<Vec<String>, Error> {
        let accounts = self.tenant()?.accounts.iter().filter(|(key, _)| customer.is_none_or(|wanted| **key == wanted));
        let events = accounts.flat_map(|(_, account)| account.events.values().chain(account.voided.values()));
        let known: BTreeSet<_> =
            events.filter(|event| event.time_created >= since).map(|event| event.idempotency_id.as_str()).collect();
        let mut reported = BTreeSet::new();
        let missing = ids.iter().filter(|id| !known.contains(id.as_str()) && reported.insert(id.as_str()));
        Ok(missing.cloned().collect())
    }
}

impl AccountState {
    /// All events that ever arrived, each with what has become of it.
    fn kept_events(&self) -> impl Iterator<Item = KeptEvent> {
        let counted = self.events.values().map(|event| {
            let is_amended = self.corrections.iter().any(|one| one.before.idempotency_id == event.idempotency_id);
            let state = if is_amended { EventState::Amended } else { EventState::Counted };
            KeptEvent { event: event.clone(), state }
        });
        let voided = self.voided.values().map(|event| KeptEvent { event: event.clone(), state: EventState::Voided });
        counted.chain(voided)
    }

    /// The events with arrival numbers up to `seen_to` that counted then, as they were; all that ever arrived where there is no such number.
    fn kept_events_seen(&self, seen_to: Option<u64>) -> Vec<KeptEvent> {
        let Some(seen_to) = seen_to else { return self.kept_events().collect() };
        let limit = usize::try_from(seen_to).unwrap_or(usize::MAX);
        let mut seen: BTreeMap<&str, (Option<&Event>, EventState)> = BTreeMap::new();
        for Arrival { id, event, .. } in self.arrivals.iter().take(limit) {
            let state = if seen.contains_key(id.as_str()) { EventState::Amended } else { EventState::Counted };
            seen.insert(id, (event.as_ref(), state));
        }
        let counted = seen.into_values().filter_map(|(event, state)| Some(KeptEvent { event: event?.clone(), state }));
        counted.collect()
    }

    /// All that is kept of the event with this id.
    fn history(&self, idempotency_id: &str) -> Option<EventHistory> {
        let arrivals = (1..).zip(self.arrivals.iter()).filter(|(_, arrival)| arrival.id == idempotency_id);
        let arrivals: Vec<(u64, &Arrival)> = arrivals.collect();
        let received_at = arrivals.first()?.1.at;
        let version = |(place, (arrival, arrived)): (usize, &(u64, &Arrival))| {
            let until = arrivals.get(place + 1).map(|(until, _)| *until);
            arrived.event.as_ref().map(|event| EventVersion { event: event.clone(), arrival: *arrival, until })
        };
        let versions = arrivals.iter().enumerate().filter_map(version).collect();
        let state = match arrivals[..] {
            [.., (_, Arrival { event: None, .. })] => EventState::Voided,
            [_] => EventState::Counted,
            _ => EventState::Amended,
        };
        let corrections = self.corrections.iter().filter(|one| one.before.idempotency_id == idempotency_id);
        Some(EventHistory { received_at, state, versions, corrections: corrections.cloned().collect() })
    }
}
