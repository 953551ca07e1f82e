//! Webhook endpoints, and the attempts at them.

use std::collections::BTreeMap;

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::message::KeptMessage;
use super::page::page_of;
use super::transaction::MemoryTransaction;
use super::{MemoryStore, Tenant};
use crate::error::{Error, Noun};
use crate::id::{MessageId, OrganizationId, WebhookEndpointId};
use crate::store::{Deliveries, DeliveryRecord, EndpointStanding, LeaseRequest, Page, PageRequest, WebhookRepo};
use crate::webhook::{DeliveryAttempt, EndpointStatus, PendingDelivery, WebhookEndpoint};

/// An endpoint and what belongs to it.
#[derive(Clone, Debug)]
pub(super) struct EndpointState {
    endpoint: WebhookEndpoint,
    pending: BTreeMap<MessageId, PendingDelivery>,
    attempts: Vec<DeliveryAttempt>,
    lease: Option<(Uuid, OffsetDateTime)>,
    served_at: Option<OffsetDateTime>,
}

impl EndpointState {
    pub(super) fn is_failing(&self) -> bool {
        self.endpoint.status == EndpointStatus::Enabled && self.endpoint.failing_since.is_some()
    }

    fn has_work(&self, last: u64, now: OffsetDateTime) -> bool {
        self.endpoint.status == EndpointStatus::Enabled
            && (self.endpoint.position < last || self.pending.values().any(|pending| pending.next_at <= now))
    }
}

impl Tenant {
    fn last_message(&self) -> u64 {
        self.messages.len() as u64
    }

    fn endpoint(&mut self, id: WebhookEndpointId) -> Result<&mut EndpointState, Error> {
        self.endpoints.get_mut(&id).ok_or(Error::NotFound(Noun::WebhookEndpoint))
    }
}

impl WebhookRepo for MemoryTransaction {
    fn insert(&mut self, endpoint: &WebhookEndpoint) -> Result<(), Error> {
        let state = EndpointState {
            endpoint: endpoint.clone(),
            pending: BTreeMap::new(),
            attempts: Vec::new(),
            lease: None,
            served_at: None,
        };
        self.tenant()?.endpoints.insert(endpoint.id, state);
        Ok(())
    }

    fn get(&mut self, id: WebhookEndpointId) -> Result<WebhookEndpoint, Error> {
        Ok(self.tenant()?.endpoint(id)?.endpoint.clone())
    }

    fn list(&mut self) -> Result<Vec<WebhookEndpoint>, Error> {
        let mut all: Vec<_> = self.tenant()?.endpoints.values().map(|state| state.endpoint.clone()).collect();
        all.sort_by_key(|endpoint| (endpoint.created_at, endpoint.id));
        Ok(all)
    }

    fn update(&mut self, endpoint: &WebhookEndpoint) -> Result<(), Error> {
        let state = self.tenant()?.endpoint(endpoint.id)?;
        let WebhookEndpoint { position, replays, failing_since, status, .. } = state.endpoint;
        state.endpoint = WebhookEndpoint { replays, ..endpoint.clone() };
        if status == endpoint.status {
            (state.endpoint.position, state.endpoint.failing_since) = (position, failing_since);
        } else {
            state.pending.clear();
        }
        Ok(())
    }

    fn delete(&mut self, id: WebhookEndpointId) -> Result<(), Error> {
        let removed = self.tenant()?.endpoints.remove(&id);
        removed.map(drop).ok_or(Error::NotFound(Noun::WebhookEndpoint))
    }

    fn list_pending(
        &mut self,
        id: WebhookEndpointId,
        until: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<PendingDelivery>, Error> {
        let state = self.tenant()?.endpoint(id)?;
        let mut due: Vec<_> = state.pending.values().filter(|pending| pending.next_at <= until).cloned().collect();
        due.sort_by_key(|pending| (pending.next_at, pending.position));
        due.truncate(limit as usize);
        Ok(due)
    }

    fn put_pending(&mut self, id: WebhookEndpointId, pending: &[PendingDelivery]) -> Result<(), Error> {
        let state = self.tenant()?.endpoint(id)?;
        state.pending.extend(pending.iter().map(|pending| (pending.message, pending.clone())));
        Ok(())
    }

    fn rewind(&mut self, id: WebhookEndpointId, since: OffsetDateTime) -> Result<(), Error> {
        let tenant = self.tenant()?;
        let older = tenant.messages.iter().position(|kept| kept.written_at() >= since);
        let older = older.map_or(u64::MAX, |index| index as u64);
        let endpoint = &mut tenant.endpoint(id)?.endpoint;
        if older <= endpoint.position {
            endpoint.position = older;
            endpoint.replays += 1;
        }
        Ok(())
    }

    fn list_attempts(
        &mut self,
        id: WebhookEndpointId,
        message: Option<MessageId>,
        page: &PageRequest,
    ) -> Result<Page<DeliveryAttempt>, Error> {
        let newest_first = self.tenant()?.endpoint(id)?.attempts.iter().rev();
        let wanted = newest_first.filter(|attempt| message.is_none_or(|message| attempt.message == message));
        page_of(wanted.cloned().collect(), page)
    }

    fn last_position(&mut self) -> Result<u64, Error> {
        Ok(self.tenant()?.last_message())
    }
}

impl Deliveries for MemoryStore {
    fn lease_endpoints(&self, wanted: &LeaseRequest) -> Result<Vec<(OrganizationId, WebhookEndpointId)>, Error> {
        let LeaseRequest { owner, limit, most_of_each, ref room_of, are_failing, now, lease } = *wanted;
        let mut state = self.lock();
        let mut due = Vec::new();
        for (organization, tenant) in &mut state.tenants {
            let last = tenant.last_message();
            if tenant.endpoints.is_empty() {
                continue;
            }
            for (id, endpoint) in tenant.endpoints.iter_mut() {
                let is_free = endpoint.lease.is_none_or(|(_, until)| until <= now);
                let is_wanted = endpoint.endpoint.failing_since.is_some() == are_failing;
                if is_wanted && is_free && endpoint.has_work(last, now) {
                    due.push((endpoint.served_at, *organization, *id, endpoint));
                }
            }
        }
        due.sort_by_key(|(served_at, _, id, _)| (*served_at, *id));
        let mut of_each: BTreeMap<OrganizationId, u32> = BTreeMap::new();
        due.retain(|(_, organization, ..)| {
            let so_far = of_each.entry(*organization).or_default();
            *so_far += 1;
            *so_far <= room_of.get(organization).copied().unwrap_or(most_of_each)
        });
        let leased = due.into_iter().take(limit as usize).map(|(_, organization, id, endpoint)| {
            (endpoint.lease, endpoint.served_at) = (Some((owner, now + lease)), Some(now));
            (organization, id)
        });
        Ok(leased.collect())
    }

    fn renew_leases(&self, owner: Uuid, now: OffsetDateTime, lease: Duration) -> Result<(), Error> {
        for tenant in self.lock().tenants.values_mut().filter(|tenant| !tenant.endpoints.is_empty()) {
            for endpoint in tenant.endpoints.values_mut() {
                if endpoint.lease.is_some_and(|(holder, ends)| holder == owner && ends > now) {
                    endpoint.lease = Some((owner, now + lease));
                }
            }
        }
        Ok(())
    }

    fn release_endpoint(
        &self,
        owner: Uuid,
        organization: OrganizationId,
        endpoint: WebhookEndpointId,
    ) -> Result<(), Error> {
        if let Some(tenant) = self.lock().tenants.get_mut(&organization)
            && let Ok(state) = tenant.endpoint(endpoint)
        {
            state.lease = state.lease.filter(|(holder, _)| *holder != owner);
        }
        Ok(())
    }

    fn record_deliveries(
        &self,
        owner: Uuid,
        organization: OrganizationId,
        endpoint: WebhookEndpointId,
        record: &DeliveryRecord,
    ) -> Result<Option<WebhookEndpoint>, Error> {
        let mut state = self.lock();
        let Some(tenant) = state.tenants.get_mut(&organization) else { return Ok(None) };
        let Ok(state) = tenant.endpoint(endpoint) else { return Ok(None) };
        if state.lease.is_none_or(|(holder, _)| holder != owner) {
            return Ok(None);
        }
        if let Some((from, to)) = record.reached
            && (state.endpoint.position, state.endpoint.replays) == (from, record.replays)
        {
            state.endpoint.position = to;
        }
        state.endpoint.failing_since = record.failing_since;
        state.attempts.extend(record.attempts.iter().cloned());
        for message in &record.settled {
            state.pending.remove(message);
        }
        state.pending.extend(record.pending.iter().map(|pending| (pending.message, pending.clone())));
        Ok(Some(state.endpoint.clone()))
    }

    fn list_standings(&self, limit: u32) -> Result<Vec<EndpointStanding>, Error> {
        let state = self.lock();
        let standings = state.tenants.iter().flat_map(|(organization, tenant)| {
            let last = tenant.last_message();
            tenant.endpoints.values().map(move |state| {
                let endpoint = &state.endpoint;
                let is_disabled = endpoint.status == EndpointStatus::Disabled;
                let counts = (state.pending.len() as u64, last.saturating_sub(endpoint.position));
                let first = state.pending.values().map(|pending| pending.position).chain([endpoint.position + 1]).min();
                let first = first.and_then(|first| usize::try_from(first).ok()).filter(|_| !is_disabled);
                let oldest =
                    first.and_then(|first| tenant.messages.get(first.checked_sub(1)?)).map(KeptMessage::written_at);
                let instants = (oldest, endpoint.failing_since);
                EndpointStanding::new((*organization, endpoint.id), counts, instants, is_disabled)
            })
        });
        let is_told = |standing: &EndpointStanding| {
            standing.waiting + standing.behind > 0 || standing.failing_since.is_some() || standing.is_disabled
        };
        let mut told: Vec<_> = standings.filter(is_told).collect();
        told.sort_by_key(|standing| {
            let EndpointStanding { endpoint, waiting, behind, failing_since, .. } = *standing;
            (failing_since.is_none(), failing_since, std::cmp::Reverse(waiting + behind), endpoint)
        });
        told.truncate(limit as usize);
        Ok(told)
    }

    fn drop_attempts(&self, before: OffsetDateTime, limit: u32) -> Result<u64, Error> {
        let mut dropped = 0;
        for tenant in self.lock().tenants.values_mut().filter(|tenant| !tenant.endpoints.is_empty()) {
            for endpoint in tenant.endpoints.values_mut() {
                endpoint.attempts.retain(|attempt| {
                    let is_old = attempt.at < before && dropped < u64::from(limit);
                    dropped += u64::from(is_old);
                    !is_old
                });
            }
        }
        Ok(dropped)
    }
}
