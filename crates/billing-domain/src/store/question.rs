//! Questions about usage that many ask at once.

use super::Transaction;
use crate::catalog::Catalog;
use crate::error::Error;
use crate::id::{CustomerKey, MetricId};
use crate::usage::{Usage, UsageRequest};

/// A question about the usage of one customer, which a store may answer together with those of others.
pub trait Question: Send {
    /// Whose usage.
    fn customer(&self) -> CustomerKey;
    /// Of which metric.
    fn metric(&self) -> MetricId;
    /// What must be known to answer it. What it looks up of the catalogue it keeps for the next that is asked in the same snapshot.
    /// May be called again, in another transaction.
    fn prepare(&mut self, tx: &mut dyn Transaction, catalog: &mut Catalog) -> Result<Vec<UsageRequest>, Error>;
    /// Takes the outcome.
    fn conclude(self: Box<Self>, outcome: Answered);
}

/// What became of a [`Question`].
#[derive(Debug)]
pub enum Answered {
    /// The usage behind each request that its last [`Question::prepare`] made, in order, all of one snapshot with that.
    Known(Vec<Usage>),
    /// It has no answer.
    Failed(Error),
    /// It takes more than others should wait for: ask in a transaction of its own.
    Alone,
}
