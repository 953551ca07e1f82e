//! How long calls took, in buckets.

use std::time::Duration;

/// Upper bounds in microseconds, and as Prometheus wants them: in seconds.
const BOUNDS: [(u64, &str); 13] = [
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (10_000_000, "10"),
];

/// A histogram.
#[derive(Debug, Default)]
pub struct Latency {
    counts: [u64; BOUNDS.len()],
    /// Also those beyond the last bound.
    pub count: u64,
    sum_us: u64,
}

impl Latency {
    /// Adds one call.
    pub fn add(&mut self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some(bucket) = BOUNDS.iter().position(|(bound, _)| took_us <= *bound) {
            self.counts[bucket] += 1;
        }
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(took_us);
    }

    /// Each bound in seconds, and the calls that took no longer.
    pub fn cumulative(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let mut so_far = 0;
        BOUNDS.iter().zip(self.counts).map(move |((_, bound), count)| {
            so_far += count;
            (*bound, so_far)
        })
    }

    /// All the time that calls took, in seconds.
    pub fn sum_seconds(&self) -> String {
        seconds(self.sum_us)
    }
}

/// Microseconds as seconds, exactly.
pub fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_inside_its_bucket_and_buckets_add_up() {
        let mut latency = Latency::default();
        for us in [0, 500, 501, 10_000_000, 10_000_001] {
            latency.add(Duration::from_micros(us));
        }
        let counts: Vec<_> = latency.cumulative().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4]);
        assert_eq!((latency.count, latency.sum_seconds()), (5, "20.001002".to_owned()));
    }
}
