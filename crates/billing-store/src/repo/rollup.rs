//! Rolling metrics up from now on.

use billing_domain::Error;
use uuid::Uuid;

use crate::rollup::Starting;
use crate::transaction::PgTransaction;

impl PgTransaction<'_> {
    /// Starts rolling `metrics` up by `filter_keys` (none: in total), unless that goes on already or cannot be. What is complete
    /// lies behind the last event of any lane.
    pub(crate) fn start_rollups(&mut self, metrics: &[Uuid], filter_keys: &[String]) -> Result<(), Error> {
        let (tenant, key_ranges) = (self.tenant(), self.shared.key_ranges);
        let starting = self.query(|pg| Starting::begin(pg, tenant, key_ranges, metrics, filter_keys))?;
        let Some(mut starting) = starting else { return Ok(()) };
        self.in_every_lane(|pg| starting.look(pg))?;
        self.query(|pg| starting.end(pg))
    }
}
