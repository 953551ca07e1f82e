//! Whether several organizations use the service at the moment.
//!
//! Alone, an organization may have all that the machine can do. In company what it gets at once is small, so that whoever comes
//! meanwhile waits for little.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;

/// How long an organization is company to others after its last request.
const COMPANY: Duration = Duration::from_secs(10);

/// Who asked last.
#[derive(Debug, Default)]
pub struct Company(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The organization that asked last, and when.
    latest: Option<(OrganizationId, Instant)>,
    /// When an organization asked last that is not the latest.
    other_at: Option<Instant>,
}

impl Company {
    /// Notes that an organization asks for something now.
    pub fn note(&self, organization: OrganizationId, now: Instant) {
        let mut state = self.lock();
        if let Some((latest, at)) = state.latest
            && latest != organization
        {
            state.other_at = Some(at);
        }
        state.latest = Some((organization, now));
    }

    /// Whether more than one organization has asked of late.
    pub fn is_company(&self, now: Instant) -> bool {
        self.lock().other_at.is_some_and(|at| now.duration_since(at) < COMPANY)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn company_is_forgotten() {
        let (company, start) = (Company::default(), Instant::now());
        let organization = |n: u128| OrganizationId::from(uuid::Uuid::from_u128(n));
        #[rustfmt::skip]
        let cases = [
            // asks,            second, is company, why
            (organization(1),   0,      false,      "nobody else has asked"),
            (organization(2),   2,      true,       "two"),
            (organization(2),   9,      true,       "the first asked nine seconds ago"),
            (organization(2),   11,     false,      "long ago"),
            (organization(1),   12,     true,       "again"),
        ];
        for (asks, second, is_company, why) in cases {
            let now = start + Duration::from_secs(second);
            company.note(asks, now);
            assert_eq!(company.is_company(now), is_company, "{why}");
        }
    }
}
