//! Who holds a plan. Each subscription is held against the time that its customer lives at: that of the test clock, or else
//! the present.

use diesel::sql_types::{BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
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

/// A holder as it is read: the customer's own id, name and e-mail address; the subscription, its start and end, and whether it renews.
pub(super) type HolderRow = (String, Option<String>, Option<String>, Uuid, OffsetDateTime, OffsetDateTime, bool);

statement! {
    /// The subscriptions to a plan version that run, behind a place, by end and id. Those of customers in real time are read in that order
    /// and no more of them than are wanted; those of customers under a test clock are few.
    ListHolders -> (Text, Nullable<Text>, Nullable<Text>, SqlUuid, Timestamptz, Timestamptz, Bool) {
        "WITH wanted AS (
            SELECT " organization: Uuid as SqlUuid; " AS organization_id, " version: Uuid as SqlUuid; " AS plan_version_id,
                " now: OffsetDateTime as Timestamptz; " AS now, " after_at: OffsetDateTime as Timestamptz; " AS after_at,
                " after_id: Uuid as SqlUuid; " AS after_id, " limit: i64 as BigInt; " AS rows
        ), in_real_time AS (
            SELECT customers.customer_id, customers.name, customers.email, held.id, held.start_at, held.end_at, held.auto_renew
            FROM subscriptions held
            JOIN customers USING (organization_id, customer_key)
            WHERE organization_id = (SELECT organization_id FROM wanted)
                AND held.plan_version_id = (SELECT plan_version_id FROM wanted)
                AND (held.end_at, held.id) > ((SELECT after_at FROM wanted), (SELECT after_id FROM wanted))
                AND held.end_at > (SELECT now FROM wanted)
                AND held.start_at <= (SELECT now FROM wanted)
                AND customers.test_clock_id IS NULL
            ORDER BY held.end_at, held.id
            LIMIT (SELECT rows FROM wanted)
        ), of_test_clocks AS (
            SELECT customers.*, " [TEST_TIME] " AS now
            FROM wanted
            JOIN test_clocks clock USING (organization_id)
            JOIN customers ON customers.organization_id = clock.organization_id AND customers.test_clock_id = clock.id
        )
        SELECT * FROM in_real_time
        UNION ALL
        SELECT living.customer_id, living.name, living.email, held.id, held.start_at, held.end_at, held.auto_renew
        FROM of_test_clocks living
        JOIN wanted USING (organization_id)
        JOIN subscriptions held USING (organization_id, customer_key, plan_version_id)
        WHERE held.start_at <= living.now AND held.end_at > living.now
            AND (held.end_at, held.id) > (after_at, after_id)
        ORDER BY end_at, id
        LIMIT (SELECT rows FROM wanted)"
    }
}
