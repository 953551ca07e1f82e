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
    /// How many subscriptions of each plan version run: those that end later, which are counted as they are written, but for those that have
    /// ended within this quarter of an hour and those that start later; and those of customers under a test clock one by one.
    CountActive -> (SqlUuid, BigInt) {
        "WITH present AS (
            SELECT input.*, quarter_of_hour_before(now) AS quarter
            FROM (SELECT " now: OffsetDateTime as Timestamptz; " AS now, " organization: Uuid as SqlUuid; " AS organization_id) input
        ), counted AS (
            SELECT plan_version_id, sum(ends)::bigint - coalesce(sum(starts) FILTER (WHERE at > now), 0)::bigint AS subscriptions
            FROM present
            JOIN subscription_counts counts USING (organization_id)
            WHERE counts.at > quarter
            GROUP BY plan_version_id
        ), of_test_clocks AS (
            SELECT customers.organization_id, customers.customer_key, " [TEST_TIME] " AS now
            FROM present
            JOIN test_clocks clock USING (organization_id)
            JOIN customers ON customers.organization_id = clock.organization_id AND customers.test_clock_id = clock.id
        )
        SELECT plan_version_id, sum(subscriptions)::bigint
        FROM (
            SELECT plan_version_id, subscriptions FROM counted
            UNION ALL
            SELECT counted.plan_version_id, -ended.subscriptions
            FROM present
            CROSS JOIN counted
            CROSS JOIN LATERAL (
                SELECT count(*) AS subscriptions
                FROM subscriptions subscription
                JOIN customers customer USING (organization_id, customer_key)
                WHERE organization_id = present.organization_id AND plan_version_id = counted.plan_version_id
                    AND end_at > quarter AND end_at <= now AND test_clock_id IS NULL
            ) ended
            UNION ALL
            SELECT plan_version_id, count(*)
            FROM of_test_clocks
            JOIN subscriptions USING (organization_id, customer_key)
            WHERE start_at <= now AND end_at > now
            GROUP BY plan_version_id
        ) parts
        GROUP BY plan_version_id
        HAVING sum(subscriptions) > 0"
    }
}
