//! What a transaction of a lane on a node does at home, where the catalogue is: in short transactions of their own, before it ends.

use billing_domain::Error;
use diesel::prelude::*;
use uuid::Uuid;

use super::PgTransaction;
use crate::lanes::Lane;
use crate::pg::deadline;
use crate::pg::error::Failure;
use crate::reservation::{Holder, write_token};

impl<'c> PgTransaction<'c> {
    /// Its lane, if that is in another database than the catalogue.
    pub(crate) fn away(&self) -> Option<&'c Lane> {
        self.lane.filter(|lane| lane.replica.is_some())
    }

    /// Changes the catalogue where it is. The change stays, whatever becomes of this transaction.
    pub(crate) fn at_home<T>(&mut self, work: impl FnMut(&mut PgConnection) -> Result<T, Failure>) -> Result<T, Error> {
        self.expect_statements()?;
        deadline::check()?;
        self.shared.lanes.home.transact(work).map_err(|failure| self.fail(failure))
    }

    /// Reads the catalogue where it is.
    pub(crate) fn ask_home<T>(&mut self, ask: impl FnMut(&mut PgConnection) -> QueryResult<T>) -> Result<T, Error> {
        self.expect_statements()?;
        deadline::check()?;
        self.shared.lanes.home.run(ask).map_err(|failure| self.fail(failure))
    }

    /// Reserves something at home, which is this transaction's if it is committed, and otherwise nobody's.
    pub(crate) fn reserve<T>(
        &mut self,
        lane: &Lane,
        mut reserve: impl FnMut(&mut PgConnection, &Holder) -> QueryResult<T>,
    ) -> Result<T, Error> {
        let organization = self.organization;
        let holder = *self.holder.get_or_insert_with(|| Holder::new(lane, organization));
        self.at_home(|home| Ok(reserve(home, &holder)?))
    }

    /// Finds out what became of others' reservations for a customer, of whom nobody is at work while this transaction has the lock.
    pub(crate) fn resolve_others(&mut self, lane: &Lane, customer: Uuid) -> Result<(), Error> {
        self.expect_statements()?;
        let holder = self.holder.unwrap_or_else(|| Holder::new(lane, self.organization));
        self.shared.resolve_others(lane, &holder, customer).map_err(|failure| self.fail(failure))
    }

    /// Waits until this transaction sees what was changed at home.
    pub(crate) fn catch_up(&mut self) -> Result<(), Error> {
        match self.lane {
            Some(lane) => self.attempt(|pg| lane.catch_up(pg)),
            None => Ok(()),
        }
    }

    /// Writes what says that it is committed, as the last thing before that, if it has reserved anything.
    pub(crate) fn write_token(&mut self) -> Result<(), Error> {
        match self.holder {
            Some(holder) if !self.has_failed() => self.attempt(|pg| write_token(pg, holder.token, None)),
            _ => Ok(()),
        }
    }

    /// As whom it has reserved something.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.holder
    }
}
