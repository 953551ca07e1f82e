//! Transactions as such: run again when another was in the way, or when their connection was dead.

use diesel::PgConnection;

use super::citus;
use super::error::Failure;
use super::place::Ending;
use super::pool::Pool;

/// How often work is run again because another transaction was in the way.
const CONFLICTS_MAX: u32 = 3;

/// What a transaction sees.
#[derive(Clone, Copy)]
pub(crate) enum Isolation {
    /// Each statement sees what is committed when it begins.
    ReadCommitted,
    /// Everything as of its first statement, and nothing can be written.
    OneSnapshot,
}

/// Whether work is run again on another connection when its own was lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeatable {
    /// Only before COMMIT was sent: from then on nobody knows whether it happened.
    UntilCommit,
    /// In any case.
    Always,
}

impl Pool {
    /// Runs `work` in a transaction of its own, again when another was in the way or the connection was dead.
    pub(crate) fn transact<T>(&self, work: impl FnMut(&mut PgConnection) -> Result<T, Failure>) -> Result<T, Failure> {
        self.transact_at(Isolation::ReadCommitted, work)
    }

    /// [`Pool::transact`] of what is to see more than each statement by itself.
    pub(crate) fn transact_at<T>(
        &self,
        isolation: Isolation,
        work: impl FnMut(&mut PgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.transact_on(isolation, Repeatable::UntilCommit, work)
    }

    /// [`Pool::transact`] of work that may be done twice without harm: also when nobody knows whether it was committed.
    pub(crate) fn transact_again<T>(
        &self,
        work: impl FnMut(&mut PgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.transact_on(Isolation::ReadCommitted, Repeatable::Always, work)
    }

    /// Reading, all of it as of one instant.
    pub(crate) fn read_together<T>(
        &self,
        work: impl FnMut(&mut PgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.transact_on(Isolation::OneSnapshot, Repeatable::Always, work)
    }

    fn transact_on<T>(
        &self,
        isolation: Isolation,
        repeatable: Repeatable,
        mut work: impl FnMut(&mut PgConnection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let is_confirming = self.is_confirming && matches!(isolation, Isolation::ReadCommitted);
        let mut connection = self.take()?;
        let (mut conflicts, mut is_second_connection) = (0, false);
        loop {
            let mut is_committing = false;
            let result = connection.attempt(|pg| {
                let mut builder = match isolation {
                    Isolation::ReadCommitted => pg.build_transaction().read_committed(),
                    Isolation::OneSnapshot => pg.build_transaction().repeatable_read().read_only(),
                };
                let (value, ending) = builder.run(|pg| -> Result<_, Failure> {
                    if self.is_placed {
                        citus::expect_here(pg, matches!(isolation, Isolation::ReadCommitted))?;
                    }
                    let value = work(pg)?;
                    let ending = if is_confirming { Some(Ending::begin(pg)?) } else { None };
                    is_committing = true;
                    Ok((value, ending))
                })?;
                ending.map_or(Ok(()), |ending| ending.expect_committed(pg))?;
                Ok(value)
            });
            match result {
                Err(Failure::Conflict(message)) if conflicts < CONFLICTS_MAX => {
                    conflicts += 1;
                    log::debug!("running a transaction again: {message}");
                }
                // Once COMMIT has been sent nobody knows whether it happened.
                Err(Failure::Disconnected(message))
                    if !is_second_connection && (!is_committing || repeatable == Repeatable::Always) =>
                {
                    is_second_connection = true;
                    log::info!("running a transaction on another connection: {message}");
                    drop(connection);
                    connection = self.take_checked()?;
                }
                result => return result,
            }
        }
    }
}
