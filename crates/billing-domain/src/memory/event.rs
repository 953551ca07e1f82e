//! Events, read by folding them.

use std::collections::BTreeSet;

use time::OffsetDateTime;

use super::transaction::MemoryTransaction;
use crate::error::Error;
use crate::id::CustomerKey;
use crate::store::EventRepo;
use crate::usage::{Usage, UsageRequest, fold};

impl EventRepo for MemoryTransaction {
    fn usages(&mut self, requests: &[UsageRequest]) -> Result<Vec<Usage>, Error> {
        let tenant = self.tenant()?;
        let usage = |request: &UsageRequest| {
            let events = tenant.accounts.get(&request.customer).into_iter().flat_map(|account| account.events.values());
            fold(&request.metric, &request.filters, &request.period, events)
        };
        Ok(requests.iter().map(usage).collect())
    }

    fn missing(
        &mut self,
        customer: Option<CustomerKey>,
        ids: &[String],
        since: OffsetDateTime,
    ) -> Result<Vec<String>, Error> {
        let accounts = self.tenant()?.accounts.iter().filter(|(key, _)| customer.is_none_or(|wanted| **key == wanted));
        let events = accounts.flat_map(|(_, account)| account.events.values());
        let known: BTreeSet<_> =
            events.filter(|event| event.time_created >= since).map(|event| event.idempotency_id.as_str()).collect();
        let mut reported = BTreeSet::new();
        let missing = ids.iter().filter(|id| !known.contains(id.as_str()) && reported.insert(id.as_str()));
        Ok(missing.cloned().collect())
    }
}
