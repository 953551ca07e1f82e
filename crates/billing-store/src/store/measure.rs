//! Measuring the database, which a worker does once in a while.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::currency::Currency;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Numeric, Text, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::PgStore;
use crate::issued::OWN_CURRENCIES;
use crate::measured::{ExpiringCredits, Measured, ORGANIZATIONS_TOLD_MAX};
use crate::pg::error::Failure;
use crate::pg::statement::statement;

statement! {
    /// How much room the database takes, in bytes, and how many rows wait for vacuum.
    DatabaseSize -> (BigInt, BigInt) {
        "SELECT pg_database_size(current_database()), coalesce((SELECT sum(n_dead_tup) FROM pg_stat_user_tables), 0)::bigint"
    }
}

statement! {
    /// What expires within seven days and is not used up, by currency. Credits under a test clock expire in its time.
    ReadExpiring -> (Text, BigInt, Numeric) {
        "SELECT credit.currency_code, count(*), sum(credit.remaining)
        FROM credits credit
        JOIN customers customer USING (customer_key)
        WHERE credit.remaining > 0 AND credit.expires_at > statement_timestamp()
            AND credit.expires_at <= statement_timestamp() + interval '7 days' AND customer.test_clock_id IS NULL
        GROUP BY credit.currency_code"
    }
}

statement! {
    /// How many customers of each organization are due.
    CountDue -> (SqlUuid, BigInt) {
        "SELECT organization_id, count(*) FROM billing_due WHERE due_at <= statement_timestamp() GROUP BY organization_id"
    }
}

statement! {
    /// How many marks of customers wait to be looked at for usage alerts, and since when the oldest.
    MeasureMarks -> (BigInt, Nullable<Timestamptz>) {
        "SELECT count(*), min(written_at) FROM usage_alert_marks"
    }
}

impl PgStore {
    /// Measures the database, for [`PgStore::load`].
    ///
    /// # Errors
    /// Those of the connection.
    pub fn measure_database(&self) -> Result<(), Error> {
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        let size = self.shared.worker_pool.run(|pg| DatabaseSize {}.get_result(pg));
        let (bytes, dead_rows): (i64, i64) = size.map_err(Failure::into_error)?;
        let mut measured = Measured { bytes: count(bytes), dead_rows: count(dead_rows), ..Measured::default() };
        let mut due: BTreeMap<Uuid, u64> = BTreeMap::new();
        for lane in self.shared.lanes.all() {
            let read = |pg: &mut PgConnection| {
                let expiring: Vec<(String, i64, BigDecimal)> = ReadExpiring {}.load(pg)?;
                let marks: (i64, Option<OffsetDateTime>) = MeasureMarks {}.get_result(pg)?;
                Ok((expiring, CountDue {}.load::<(Uuid, i64)>(pg)?, marks))
            };
            let read = self.shared.lanes.with(lane, |lane| lane.worker_pool.run(read));
            let (expiring, of_lane, (marks, oldest)) = read.map_err(Failure::into_error)?;
            measured.alert_marks += count(marks);
            measured.oldest_alert_mark = [measured.oldest_alert_mark, oldest].into_iter().flatten().min();
            for (code, credits, remaining) in expiring {
                let is_known = Currency::iso_4217(&code).is_some();
                let code = if is_known { code } else { OWN_CURRENCIES.to_owned() };
                let of_currency: &mut ExpiringCredits = measured.credits_expiring.entry(code).or_default();
                of_currency.credits += count(credits);
                if is_known {
                    of_currency.remaining += remaining;
                }
            }
            of_lane
                .into_iter()
                .for_each(|(organization, customers)| *due.entry(organization).or_default() += count(customers));
        }
        let mut due: Vec<_> =
            due.into_iter().map(|(organization, customers)| (organization.into(), customers)).collect();
        due.sort_by_key(|(_, customers)| std::cmp::Reverse(*customers));
        due.truncate(ORGANIZATIONS_TOLD_MAX);
        measured.due_customers = due;
        self.shared.measured.keep(measured);
        Ok(())
    }
}
