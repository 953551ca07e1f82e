//! What everything that touches the database shares.

use std::sync::Arc;

use billing_domain::store::Scope;
use diesel::{Connection, PgConnection};

use crate::issued::Issued;
use crate::lanes::{Lane, Lanes};
use crate::measured::LastMeasured;
use crate::pg::error::Failure;
use crate::pg::pool::Pool;
use crate::remembered::Remembered;
use crate::rollup::{KeyRanges, lock_key_ranges};
use crate::tallies::EventTallies;
use crate::told::Told;

/// What all clones of a store and its workers share.
pub(crate) struct Shared {
    /// Where the database is, for connections of one's own; with the password.
    pub(crate) url: String,
    /// Connections of requests that are about no customer.
    pub(crate) pool: Pool,
    /// Connections of the workers for the same, who never wait behind requests.
    pub(crate) worker_pool: Pool,
    /// Where customers are.
    pub(crate) lanes: Lanes,
    pub(crate) key_ranges: KeyRanges,
    pub(crate) remembered: Remembered,
    /// What this process has issued.
    pub(crate) issued: Issued,
    pub(crate) measured: LastMeasured,
    /// Events that this process has stored and not yet told of.
    pub(crate) tallies: EventTallies,
    pub(crate) messages: Told,
}

impl Shared {
    /// Waits, in every database, for whoever stores events and may not have seen a change of the catalogue that is committed. Whoever
    /// begins later sees it.
    pub(crate) fn wait_for_ingestion(&self) -> Result<(), Failure> {
        let (key_ranges, mut seen) = (self.key_ranges, Vec::new());
        // A lane that comes to a node later is worked with there later, too.
        if self.lanes.have_nodes() {
            self.lanes.look()?;
        }
        self.pool.transact_again(|pg| Ok(lock_key_ranges(pg, key_ranges.all())?))?;
        for lane in self.lanes.all() {
            let Some(replica) = &lane.replica else { continue };
            if seen.iter().any(|known| Arc::ptr_eq(known, replica)) {
                continue;
            }
            seen.push(Arc::clone(replica));
            let wait = |pg: &mut PgConnection| {
                pg.transaction(|pg| -> Result<(), Failure> { Ok(lock_key_ranges(pg, key_ranges.all())?) })
            };
            lane.worker_pool.try_run_anywhere(wait)?;
        }
        Ok(())
    }

    /// The lane in which the scope's work is done; `None`: it is about customers of several.
    pub(crate) fn lane_of(&self, scope: &Scope) -> Option<&Lane> {
        match scope {
            Scope::Customer(_, customer) | Scope::CustomerReading(_, customer) => Some(self.lanes.of(*customer)),
            Scope::Catalog(_) | Scope::Organization(_) => self.lanes.only(),
        }
    }
}
