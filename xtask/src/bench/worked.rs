//! What work takes of the processors: that is steadier than how fast it goes on a machine with other things to do.

use std::time::Instant;

use super::beside::median;
use super::stage::Stage;

/// What some work came to: how much a second, and microseconds of a processor for each, of the server and of Postgres.
#[derive(Clone, Copy)]
pub struct Worked {
    pub rate: f64,
    pub server_us: f64,
    pub postgres_us: f64,
}

impl Worked {
    /// Of work that says how much it was.
    ///
    /// # Errors
    /// Those of the work, and when the system does not tell.
    pub fn measure(stage: &Stage, work: impl FnOnce() -> anyhow::Result<u64>) -> anyhow::Result<Self> {
        let seconds = || Ok::<_, anyhow::Error>((stage.service.cpu_seconds()?, stage.postgres_cpu_seconds()?));
        let (before, began) = (seconds()?, Instant::now());
        let count = work()?.max(1) as f64;
        let (took, after) = (began.elapsed().as_secs_f64(), seconds()?);
        let each_us = |seconds: f64| seconds * 1e6 / count;
        Ok(Self {
            rate: count / took,
            server_us: each_us(after.0 - before.0),
            postgres_us: each_us(after.1 - before.1),
        })
    }

    /// Of both together.
    pub fn us(&self) -> f64 {
        self.server_us + self.postgres_us
    }

    /// The middle of several, figure by figure.
    pub fn median(all: &[Self]) -> Self {
        let middle = |of: fn(&Self) -> f64| median(&all.iter().map(of).collect::<Vec<_>>());
        Self {
            rate: middle(|one| one.rate),
            server_us: middle(|one| one.server_us),
            postgres_us: middle(|one| one.postgres_us),
        }
    }
}
