//! How long the queries of one call may take.

use std::time::Duration;

/// Longest time of one query.
pub(crate) const STATEMENT_MAX: Duration = Duration::from_secs(2);
/// Longest time of all queries of one call together. The call's own transaction waits meanwhile, and Postgres ends those that
/// wait for ten seconds.
pub(crate) const CALL_MAX: Duration = Duration::from_secs(5);
/// What is kept back for each query behind, as long as there is that much: what is fast is not to fail because of what is slow.
const KEPT_BACK: Duration = Duration::from_millis(100);
/// With less than this nothing is begun.
const STATEMENT_MIN: Duration = Duration::from_millis(1);

/// What is left of the time of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    left: Duration,
}

impl Budget {
    pub(crate) fn of_call() -> Self {
        Self { left: CALL_MAX }
    }

    /// How long the next query may take, when so many come behind it; `None`: there is no time left.
    pub(crate) fn next(self, behind: usize) -> Option<Duration> {
        let behind = u32::try_from(behind).unwrap_or(u32::MAX - 1);
        let kept_back = KEPT_BACK.min(self.left / (behind + 1)) * behind;
        let time = self.left.saturating_sub(kept_back).min(STATEMENT_MAX);
        (time >= STATEMENT_MIN).then_some(time)
    }

    pub(crate) fn spend(&mut self, taken: Duration) {
        self.left = self.left.saturating_sub(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_for_all_of_a_call() {
        #[rustfmt::skip]
        let cases: &[(usize, &[u64], &[u64], &str)] = &[
            // queries, what each would take in ms, what it may,                            why
            (1,         &[9_000],                   &[2_000],                               "one has what one may have"),
            (2,         &[9_000, 9_000],            &[2_000, 2_000],                        "two have it as well"),
            (4,         &[9_000, 9_000, 9_000, 1],  &[2_000, 2_000, 900, 100],              "what is fast has its time behind what is slow"),
            (5,         &[10, 10, 10, 10, 10],      &[2_000, 2_000, 2_000, 2_000, 2_000],   "what is fast takes nothing from the others"),
            (31,        &[9_000, 9_000],            &[2_000, 100],                          "windows: there is an end to it"),
        ];
        for (queries, takes, may, why) in cases {
            let mut budget = Budget::of_call();
            for (place, (take, may)) in takes.iter().zip(*may).enumerate() {
                let time = budget.next(queries - place - 1);
                assert_eq!(time, Some(Duration::from_millis(*may)), "query {place} of {queries}: {why}");
                budget.spend(Duration::from_millis(*take).min(Duration::from_millis(*may)));
            }
        }
    }

    #[test]
    fn nothing_is_begun_without_time() {
        let mut budget = Budget::of_call();
        budget.spend(CALL_MAX);
        assert_eq!(budget.next(0), None);
        // However they take their time, all together take no more than there is.
        let (mut budget, mut total) = (Budget::of_call(), Duration::ZERO);
        for behind in (0..1_000).rev() {
            let time = budget.next(behind).unwrap_or_default();
            total += time;
            budget.spend(time);
        }
        assert!(total <= CALL_MAX, "{total:?}");
    }
}
