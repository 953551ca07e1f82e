//! What time it is: for the machine, and for each customer.
//!
//! A customer's own time is that of its test clock, or the instant that it has reached while the clock is on its way;
//! without a clock it is the machine's, but never before the customer's last change. It is said here and nowhere else.

use diesel::prelude::*;
use diesel::sql_types::{Array, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use super::statement::statement;

/// The time that a customer with a test clock lives at; `clock` is the clock's row, `customers` the customer's.
macro_rules! test_time {
    () => {
        "CASE WHEN clock.status = 'ready' THEN clock.frozen_time ELSE customers.last_instant END"
    };
}

/// The time that a customer with a test clock lives at; `clock` is the clock's row, `customers` the customer's.
pub(crate) const TEST_TIME: &str = test_time!();

/// The time that a customer lives at, in a statement that has their row at hand; one that has none lives in real time.
pub(crate) const OWN_NOW: &str = concat!(
    "CASE WHEN customers.test_clock_id IS NULL THEN greatest(clock_timestamp(), customers.last_instant)
    ELSE (
        SELECT ",
    test_time!(),
    "
        FROM test_clocks clock
        WHERE clock.organization_id = customers.organization_id AND clock.id = customers.test_clock_id
    ) END"
);

statement! {
    /// The time a customer lives at. A customer that does not exist yet lives in real time.
    CustomerNow -> Timestamptz {
        "SELECT " [OWN_NOW] "
        FROM (SELECT " organization: Uuid as SqlUuid; " AS organization_id, " customer: Uuid as SqlUuid; " AS customer_key) input
        LEFT JOIN customers USING (organization_id, customer_key)"
    }
}

statement! {
    /// The times that customers live at.
    CustomerNows -> (SqlUuid, Timestamptz) {
        "SELECT customer_key, " [OWN_NOW] "
        FROM customers
        WHERE organization_id = " organization: Uuid as SqlUuid; "
            AND customer_key = ANY (" customers: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

/// The time the customer lives at.
pub(crate) fn customer_now(pg: &mut PgConnection, organization: Uuid, customer: Uuid) -> QueryResult<OffsetDateTime> {
    CustomerNow { organization, customer }.get_result(pg)
}

/// The times that those of the customers live at that exist.
pub(crate) fn customer_nows(
    pg: &mut PgConnection,
    organization: Uuid,
    customers: Vec<Uuid>,
) -> QueryResult<Vec<(Uuid, OffsetDateTime)>> {
    CustomerNows { organization, customers }.load(pg)
}
