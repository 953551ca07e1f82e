//! What ingesting looks at besides the events: settings, metrics, months, names, and whose time it is.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use billing_domain::event::AHEAD_MAX;
use billing_domain::store::{UncountedReason, Window};
use billing_domain::{Error, Noun};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Binary, Bool, Integer, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use super::Row;
use crate::pg::error::Failure;
use crate::pg::month::{Month, moved};
use crate::pg::now::TEST_TIME;
use crate::pg::statement::statement;
use crate::remembered::{Alerted, IngestCache, IngestRules};
use crate::repo::api_key::VALID_KEYS;
use crate::repo::rollup::rolled_metrics;
use crate::rollup::Transaction;

statement! {
    /// The present instant, the transaction, the organization's version, which of some keys are valid, and which of some customers
    /// are there.
    ReadIngestVersion -> (Timestamptz, BigInt, BigInt, Array<Binary>, Array<SqlUuid>) {
        "SELECT clock_timestamp(), pg_current_xact_id()::xid::text::bigint, version, " [VALID_KEYS] ",
            ARRAY(SELECT customer_key FROM customers WHERE customer_key = ANY (" customers: Vec<Uuid> as Array<SqlUuid>; "))
        FROM (
            SELECT version, organization_id, " prefixes: Vec<String> as Array<Text>; "::text[] AS prefixes
            FROM ingest_versions WHERE organization_id = " organization: Uuid as SqlUuid; "
        ) input"
    }
}

statement! {
    /// The settings that ingesting looks at.
    ReadSettings -> (Integer, Bool, Bool) {
        "SELECT event_window_days, EXISTS (SELECT FROM test_clocks clock WHERE clock.organization_id = organization.id),
            EXISTS (SELECT FROM metrics metric WHERE metric.organization_id = organization.id AND metric.metric_type = 'custom')
        FROM organizations organization WHERE organization.id = " organization: Uuid as SqlUuid; ""
    }
}

statement! {
    /// The event names that usage alerts look at, or none where they look at all, and the customers.
    ReadAlerted -> (Nullable<Text>, Nullable<SqlUuid>) {
        "SELECT DISTINCT CASE WHEN metric.metric_type <> 'custom' THEN metric.event_name END, alert.customer_key
        FROM usage_alerts alert
        LEFT JOIN metrics metric ON metric.organization_id = alert.organization_id AND metric.id = alert.metric_id
        WHERE alert.organization_id = " organization: Uuid as SqlUuid; " AND alert.kind <> 'credit_balance'"
    }
}

/// The row of [`ReadIngestVersion`].
#[derive(Queryable)]
struct IngestVersionRow {
    now: OffsetDateTime,
    transaction: i64,
    version: i64,
    valid_keys: Vec<Vec<u8>>,
    customers: Vec<Uuid>,
}

statement! {
    /// The time of those customers that live by a test clock.
    ReadTestTimes -> (SqlUuid, Timestamptz) {
        "SELECT customers.customer_key, " [TEST_TIME] "
        FROM customers
        JOIN test_clocks clock
            ON clock.organization_id = customers.organization_id AND clock.id = customers.test_clock_id
        WHERE customers.organization_id = " organization: Uuid as SqlUuid; "
            AND customers.customer_key = ANY (" customers: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

/// Reads what ingesting the organization's events looks at.
fn read_rules(pg: &mut PgConnection, organization: Uuid) -> Result<IngestRules, Failure> {
    let (window_days, has_test_clocks, has_custom_metrics): (i32, bool, bool) =
        ReadSettings { organization }.get_result(pg)?;
    let window_days = u16::try_from(window_days).unwrap_or(u16::MAX);
    let metrics = rolled_metrics(pg, organization)?;
    let mut alerted = Alerted::default();
    let rows: Vec<(Option<String>, Option<Uuid>)> = ReadAlerted { organization }.load(pg)?;
    rows.into_iter().for_each(|(event_name, customer)| alerted.add(event_name, customer));
    Ok(IngestRules { window_days, has_test_clocks, has_custom_metrics, metrics, alerted })
}

/// The organization's rules of this very version.
fn rules_at(
    cache: &IngestCache,
    pg: &mut PgConnection,
    organization: Uuid,
    version: i64,
) -> Result<Arc<IngestRules>, Failure> {
    if let Some(rules) = cache.rules.find(&organization, &version) {
        return Ok(rules);
    }
    let rules = Arc::new(read_rules(pg, organization)?);
    cache.rules.keep(organization, version, Arc::clone(&rules));
    Ok(rules)
}

/// The rules that hold in one transaction, and the times at which its customers live.
pub(crate) struct IngestState {
    pub(crate) rules: Arc<IngestRules>,
    /// The version that they are of.
    pub(super) version: i64,
    pub(super) transaction: Transaction,
    /// Of the senders' keys: see [`VALID_KEYS`].
    pub(super) valid_keys: Vec<Vec<u8>>,
    /// The present instant.
    pub(super) now: OffsetDateTime,
    /// The first and the last month that events are taken in from now.
    months: (Month, Month),
    of_test_clocks: HashMap<Uuid, OffsetDateTime>,
    /// Whose events came although they are not there.
    unknown: HashSet<Uuid>,
}

impl IngestState {
    pub(crate) fn read(
        cache: &IngestCache,
        pg: &mut PgConnection,
        organization: Uuid,
        prefixes: Vec<String>,
        customers: impl Iterator<Item = Uuid> + Clone,
    ) -> Result<Self, Failure> {
        let mut unknown: HashSet<Uuid> = customers.clone().filter(|customer| !cache.has_customer(*customer)).collect();
        let statement = ReadIngestVersion { customers: unknown.iter().copied().collect(), prefixes, organization };
        let found: Option<IngestVersionRow> = statement.get_result(pg).optional()?;
        let found = found.ok_or(Error::NotFound(Noun::Organization))?;
        let IngestVersionRow { now, transaction, version, valid_keys, customers: known } = found;
        unknown.retain(|customer| !known.contains(customer));
        cache.remember_customers(known);
        let rules = rules_at(cache, pg, organization, version)?;
        let mut of_test_clocks = HashMap::new();
        if rules.has_test_clocks {
            let customers: BTreeSet<Uuid> = customers.collect();
            let statement = ReadTestTimes { organization, customers: customers.into_iter().collect() };
            of_test_clocks.extend(statement.load::<(Uuid, OffsetDateTime)>(pg)?);
        }
        let months = months_around(now, &rules);
        let transaction = Transaction(transaction);
        Ok(Self { rules, version, transaction, valid_keys, now, months, of_test_clocks, unknown })
    }

    /// Why an event of this customer counts for nothing, if it does.
    pub(super) fn why_uncounted(&self, customer: Uuid, has_metrics: bool) -> Option<UncountedReason> {
        if self.unknown.contains(&customer) {
            return Some(UncountedReason::UnknownCustomer);
        }
        // The query of a custom metric may look at any name.
        (!has_metrics && !self.rules.has_custom_metrics).then_some(UncountedReason::UnknownEventName)
    }

    /// The time at which the customer lives.
    pub(crate) fn now_of(&self, customer: Uuid) -> OffsetDateTime {
        self.of_test_clocks.get(&customer).copied().unwrap_or(self.now)
    }

    /// Whether the event is dated so that it is taken in.
    pub(super) fn accepts(&self, row: &Row, window: Window) -> bool {
        let now = self.now_of(row.customer.uuid());
        window == Window::Open
            || billing_domain::event::is_within_window(row.event.time_created, now, self.rules.window_days)
    }

    /// The first and the last month in which an event of the same id would be the same event.
    pub(super) fn probed(&self, row: &Row, window: Window) -> (Month, Month) {
        let days = Duration::days(i64::from(self.rules.window_days));
        let (time, now) = (row.event.time_created, self.now_of(row.customer.uuid()));
        match window {
            Window::Open => (Month::of(moved(time, -days)), Month::of(moved(time, days))),
            Window::Enforced if now == self.now => self.months,
            Window::Enforced => months_around(now, &self.rules),
        }
    }
}

/// The first and the last month that events are taken in from.
fn months_around(now: OffsetDateTime, rules: &IngestRules) -> (Month, Month) {
    let days = Duration::days(i64::from(rules.window_days));
    (Month::of(moved(now, -days)), Month::of(moved(now, AHEAD_MAX)))
}
