//! Who holds a plan. Each subscription is held against the time that its customer lives at: that of the test clock, or else
//! the present.

use diesel::sql_types::{BigInt, Bool, Nullable, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::now::TEST_TIME;
use crate::pg::statement::statement;

statement! {
    /// Whether a subscription to a plan, or to one version of it, has not ended or is to renew.
    IsHeld -> Bool {
        "SELECT EXISTS (
            SELECT
            FROM subscriptions
            JOIN customers USING (organization_id, customer_key)
            LEFT JOIN test_clocks clock
                ON clock.organization_id = customers.organization_id AND clock.id = customers.test_clock_id
            WHERE subscriptions.organization_id = " organization: Uuid as SqlUuid; "
                AND plan_id = " plan: Uuid as SqlUuid; "
                AND plan_version_id = coalesce(" version: Option<Uuid> as Nullable<SqlUuid>; ", plan_version_id)
                AND replaced_by IS NULL
                AND (
                    auto_renew AND NOT is_renewed
                    OR end_at > CASE WHEN clock.id IS NULL THEN " now: OffsetDateTime as Timestamptz; " ELSE " [TEST_TIME] " END
                )
        )"
    }
}

statement! {
    /// How many subscriptions of each plan version run.
    CountActive -> (SqlUuid, BigInt) {
        "SELECT plan_version_id, count(*)
        FROM subscriptions
        JOIN customers USING (organization_id, customer_key)
        LEFT JOIN test_clocks clock
            ON clock.organization_id = customers.organization_id AND clock.id = customers.test_clock_id
        CROSS JOIN LATERAL (
            SELECT CASE WHEN clock.id IS NULL THEN " now: OffsetDateTime as Timestamptz; " ELSE " [TEST_TIME] " END AS now
        ) present
        WHERE subscriptions.organization_id = " organization: Uuid as SqlUuid; "
            AND start_at <= present.now AND end_at > present.now
        GROUP BY plan_version_id"
    }
}
