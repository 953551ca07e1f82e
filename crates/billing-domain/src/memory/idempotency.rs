//! Kept answers.

use time::Duration;

use super::{MemoryStore, State};
use crate::error::{Error, Noun};
use crate::id::OrganizationId;
use crate::idempotency::{Answer, Claim, IdempotencyStore, KeptAnswer, RETENTION_DAYS};

impl State {
    /// Keeps an answer under a key that is free.
    pub(super) fn keep(&mut self, organization: OrganizationId, claim: &Claim, answer: Answer) -> Result<(), Error> {
        let now = self.now;
        let tenant = self.tenants.get_mut(&organization).ok_or(Error::NotFound(Noun::Organization))?;
        let kept = KeptAnswer { fingerprint: claim.fingerprint.clone(), answer };
        tenant.answers.insert(claim.key.clone(), (kept, now));
        Ok(())
    }
}

impl IdempotencyStore for MemoryStore {
    fn find_answer(&self, organization: OrganizationId, key: &str) -> Result<Option<KeptAnswer>, Error> {
        Ok(self.lock().tenant(organization)?.answers.get(key).map(|(kept, _)| kept.clone()))
    }

    fn keep_answer(&self, organization: OrganizationId, claim: &Claim, answer: &Answer) -> Result<KeptAnswer, Error> {
        let mut state = self.lock();
        if let Some((kept, _)) = state.tenant(organization)?.answers.get(&claim.key) {
            return Ok(kept.clone());
        }
        state.keep(organization, claim, answer.clone())?;
        Ok(KeptAnswer { fingerprint: claim.fingerprint.clone(), answer: answer.clone() })
    }

    fn forget_answers(&self, limit: u32) -> Result<u32, Error> {
        let mut state = self.lock();
        let horizon = state.now - Duration::days(i64::from(RETENTION_DAYS));
        let mut forgotten = 0;
        for tenant in state.tenants.values_mut() {
            tenant.answers.retain(|_, (_, kept_at)| {
                let is_old = *kept_at < horizon && forgotten < limit;
                forgotten += u32::from(is_old);
                !is_old
            });
        }
        Ok(forgotten)
    }
}
