//! The access rule: may this customer use this metric now?

use bigdecimal::BigDecimal;

use crate::organization::AccessPolicy;

/// What one subscription says to an access check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricAccess {
    /// Whether its plan version meters the metric at all.
    pub has_metric: bool,
    /// Usage in the current reset interval.
    pub usage: BigDecimal,
    /// Up to here usage is free; `None`: without end.
    pub free_limit: Option<BigDecimal>,
    /// From here on there is no access; `None`: no limit.
    pub total_limit: Option<BigDecimal>,
}

impl MetricAccess {
    /// Of a subscription that does not meter the metric: no usage, no limits, no access.
    pub fn absent() -> Self {
        let zero = BigDecimal::default();
        Self { has_metric: false, usage: zero.clone(), free_limit: Some(zero.clone()), total_limit: Some(zero) }
    }

    /// Whether usage is strictly below the limit: usage at the limit is no access.
    pub fn is_below_limit(&self) -> bool {
        self.has_metric && self.total_limit.as_ref().is_none_or(|limit| self.usage < *limit)
    }
}

/// Decides one check over all considered subscriptions: those that have the metric must all be below their
/// limit (or one of them, as the policy says); none having it is no access.
pub fn decide<'a>(policy: AccessPolicy, considered: impl IntoIterator<Item = &'a MetricAccess>) -> bool {
    let mut metered = considered.into_iter().filter(|access| access.has_metric).peekable();
    metered.peek().is_some()
        && match policy {
            AccessPolicy::All => metered.all(MetricAccess::is_below_limit),
            AccessPolicy::Any => metered.any(MetricAccess::is_below_limit),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(usage: i64, limit: Option<i64>) -> MetricAccess {
        MetricAccess {
            has_metric: true,
            usage: usage.into(),
            free_limit: Some(0.into()),
            total_limit: limit.map(Into::into),
        }
    }

    #[test]
    fn decides_over_all_subscriptions_that_have_the_metric() {
        let (below, at, open) = (access(2, Some(3)), access(3, Some(3)), access(9, None));
        let absent = MetricAccess::absent();
        #[rustfmt::skip]
        let cases = [
            // subscriptions,                          all,   any,   why
            (vec![],                                   false, false, "no subscription, no access"),
            (vec![absent.clone()],                     false, false, "none has the metric"),
            (vec![below.clone()],                      true,  true,  "below the limit"),
            (vec![at.clone()],                         false, false, "at the limit is over"),
            (vec![open.clone()],                       true,  true,  "no limit"),
            (vec![below.clone(), at.clone()],          false, true,  "one of two is over"),
            (vec![absent, below],                      true,  true,  "one without the metric has no say"),
            (vec![open, at],                           false, true,  "an open one does not open the other"),
        ];
        for (subscriptions, all, any, why) in cases {
            assert_eq!(decide(AccessPolicy::All, &subscriptions), all, "all: {why}");
            assert_eq!(decide(AccessPolicy::Any, &subscriptions), any, "any: {why}");
        }
    }
}
