//! Test clocks.

use billing_domain::id::{CustomerKey, TestClockId};
use billing_domain::store::{HeldVersion, TestClockRepo};
use billing_domain::test_clock::{TestClock, TestClockStatus};
use billing_domain::{Error, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::choice;
use crate::pg::schema::{customers, test_clocks};
use crate::pg::statement::statement;
use crate::rollup::renew_ingest_version;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = test_clocks, check_for_backend(Pg))]
struct TestClockRow {
    organization_id: Uuid,
    id: Uuid,
    name: String,
    frozen_time: OffsetDateTime,
    status: String,
    created_at: OffsetDateTime,
}

impl TryFrom<TestClockRow> for TestClock {
    type Error = Error;

    fn try_from(row: TestClockRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            frozen_time: row.frozen_time,
            status: choice(TestClockStatus::ALL, TestClockStatus::as_str, &row.status)?,
            created_at: row.created_at,
        })
    }
}

statement! {
    /// The plan versions of what a clock's customers hold: whether one awaits renewal, and when the last one ends.
    ListVersions -> (SqlUuid, Bool, Timestamptz) {
        "SELECT subscription.plan_version_id, bool_or(subscription.auto_renew AND NOT subscription.is_renewed), max(subscription.end_at)
        FROM customers customer
        JOIN subscriptions subscription USING (customer_key)
        WHERE customer.organization_id = " organization: Uuid as SqlUuid; "
            AND customer.test_clock_id = " clock: Uuid as SqlUuid; " AND customer.deleted_at IS NULL
            AND (subscription.organization_id = customer.organization_id) IS TRUE AND subscription.replaced_by IS NULL
            AND (subscription.end_at > " instant: OffsetDateTime as Timestamptz; " OR subscription.auto_renew AND NOT subscription.is_renewed)
        GROUP BY subscription.plan_version_id
        ORDER BY subscription.plan_version_id"
    }
}

impl TestClockRepo for PgTransaction<'_> {
    fn insert(&mut self, clock: &TestClock) -> Result<(), Error> {
        let row = TestClockRow {
            organization_id: self.tenant(),
            id: clock.id.uuid(),
            name: clock.name.clone(),
            frozen_time: clock.frozen_time,
            status: clock.status.as_str().to_owned(),
            created_at: clock.created_at,
        };
        self.query(|pg| diesel::insert_into(test_clocks::table).values(&row).execute(pg))?;
        // From now on the organization's events may be those of customers that live at another time.
        let tenant = self.tenant();
        self.query(|pg| renew_ingest_version(pg, tenant))
    }

    fn get(&mut self, id: TestClockId) -> Result<TestClock, Error> {
        let query = test_clocks::table.find((self.tenant(), id.uuid())).select(TestClockRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::TestClock))?.try_into()
    }

    fn list(&mut self) -> Result<Vec<TestClock>, Error> {
        let query = test_clocks::table.filter(test_clocks::organization_id.eq(self.tenant()));
        let query = query.order((test_clocks::created_at, test_clocks::id)).select(TestClockRow::as_select());
        self.query(|pg| query.load(pg))?.into_iter().map(TestClock::try_from).collect()
    }

    fn update(&mut self, clock: &TestClock) -> Result<(), Error> {
        let target = test_clocks::table.find((self.tenant(), clock.id.uuid()));
        let changes = (test_clocks::frozen_time.eq(clock.frozen_time), test_clocks::status.eq(clock.status.as_str()));
        match self.query(|pg| diesel::update(target).set(changes).execute(pg))? {
            0 => Err(Error::NotFound(Noun::TestClock)),
            _ => Ok(()),
        }
    }

    fn list_customers(&mut self, id: TestClockId) -> Result<Vec<CustomerKey>, Error> {
        let query = customers::table
            .filter(customers::organization_id.eq(self.tenant()))
            .filter(customers::test_clock_id.eq(id.uuid()).and(customers::deleted_at.is_null()))
            .order(customers::customer_key)
            .select(customers::customer_key);
        Ok(self.query(|pg| query.load::<Uuid>(pg))?.into_iter().map(CustomerKey::from).collect())
    }

    fn list_versions(&mut self, id: TestClockId, instant: OffsetDateTime) -> Result<Vec<HeldVersion>, Error> {
        let statement = ListVersions { organization: self.tenant(), clock: id.uuid(), instant };
        let rows = self.query(|pg| statement.clone().load::<(Uuid, bool, OffsetDateTime)>(pg))?.into_iter();
        Ok(rows.map(|(version, renews, ends_at)| HeldVersion { version: version.into(), renews, ends_at }).collect())
    }
}
