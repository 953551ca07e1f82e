//! A question and who asks it.

use billing_domain::Error;
use billing_domain::id::OrganizationId;
use billing_domain::store::{Answered, Question, Requester};
use billing_domain::usage::Usage;

use crate::batcher::{BatchBudget, Job, PartsMax};
use crate::repo::api_key;

/// Most questions in one snapshot.
const QUESTIONS_MAX: PartsMax = PartsMax { alone: 200, in_company: 16 };

/// A question and who asks it.
pub(crate) struct PendingQuestion {
    pub(crate) requester: Requester,
    pub(crate) question: Box<dyn Question>,
}

impl PendingQuestion {
    /// The prefixes of the keys of those who ask.
    pub(super) fn prefixes(jobs: &[Self]) -> Vec<String> {
        api_key::prefixes(jobs.iter().filter_map(|job| job.requester.key.as_ref()))
    }
}

impl Job for PendingQuestion {
    fn organization(&self) -> Option<OrganizationId> {
        Some(self.requester.organization)
    }

    fn joins_batch(&self, _: &Self, budget: &mut BatchBudget) -> bool {
        budget.take(1, QUESTIONS_MAX)
    }

    fn refuse(self, error: Error) {
        self.question.conclude(Answered::Failed(error));
    }
}

/// The answer when all of these usages are known.
pub(super) fn answered(usages: impl IntoIterator<Item = Option<Usage>>) -> Answered {
    usages.into_iter().collect::<Option<_>>().map_or(Answered::Alone, Answered::Known)
}
