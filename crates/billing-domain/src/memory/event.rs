//! Events, read by folding them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::AccountState;
use super::transaction::MemoryTransaction;
use crate::custom_sql::{CustomFailure, CustomUsageRequest};
use crate::error::{Error, StoreError};
use crate::event::{EventCorrection, EventState, KeptEvent};
use crate::id::CustomerKey;
use crate::store::{EventCursor, EventFilter, EventRepo, Page, PageRequest};
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
            .flat_map(|account| account.kept_events())
            .filter(|kept| filter.name.as_ref().is_none_or(|name| kept.event.name == *name))
            .filter(|kept| filter.idempotency_id.as_ref().is_none_or(|id| kept.event.idempotency_id == *id))
            .filter(|kept| filter.from.is_none_or(|from| kept.event.time_created >= from))
            .filter(|kept| filter.to.is_none_or(|to| kept.event.time_created < to))
            .filter(|kept| after.as_ref().is_none_or(|after| EventCursor::of(&kept.event) < *after))
            .collect();
        events.sort_by_key(|kept| Reverse(EventCursor::of(&kept.event)));
        let limit = page.limit as usize;
        let is_last = events.len() <= limit;
        events.truncate(limit);
        let next = events.last().filter(|_| !is_last).map(|kept| EventCursor::of(&kept.event).to_text());
        Ok(Page { items: events, next })
    }

    fn find(&mut self, customer: CustomerKey, ids: &[String]) -> Result<Vec<KeptEvent>, Error> {
        let account = self.tenant()?.accounts.get(&customer);
        let kept = account.into_iter().flat_map(|account| account.kept_events());
        Ok(kept.filter(|kept| ids.contains(&kept.event.idempotency_id)).collect())
    }

    fn correct(&mut self, customer: CustomerKey, corrections: &[EventCorrection]) -> Result<(), Error> {
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
            account.arrivals.push((id.clone(), correction.after.clone()));
            account.corrections.push(correction.clone());
        }
        Ok(())
    }

    fn list_corrections(&mut self, customer: CustomerKey, idempotency_id: &str) -> Result<Vec<EventCorrection>, Error> {
        let account = self.tenant()?.accounts.get(&customer);
        let corrections = account.into_iter().flat_map(|account| account.corrections.iter());
        Ok(corrections.filter(|correction| correction.before.idempotency_id == idempotency_id).cloned().collect())
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
}
