//! Usage alerts, for whom they have fired, and whose figures are to be looked at.

use std::collections::{BTreeMap, BTreeSet};

use bigdecimal::BigDecimal;
use billing_domain::id::{CustomerKey, UsageAlertId};
use billing_domain::store::UsageAlertRepo;
use billing_domain::usage_alert::{AlertKind, AlertScope, AlertUnit, Firing, UsageAlert};
use billing_domain::{Error, Noun};
use diesel::dsl::exists;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Timestamptz, Uuid as SqlUuid};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{choice, unreadable};
use crate::pg::schema::{usage_alert_firings, usage_alerts};
use crate::pg::statement::statement;
use crate::rollup::{lock_key_ranges, renew_ingest_version};
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = usage_alerts, check_for_backend(Pg))]
pub(crate) struct AlertRow {
    pub(crate) organization_id: Uuid,
    id: Uuid,
    kind: String,
    metric_id: Option<Uuid>,
    threshold: BigDecimal,
    unit: String,
    currency_code: Option<String>,
    customer_key: Option<Uuid>,
    customer_id: Option<String>,
    plan_version_id: Option<Uuid>,
    created_at: OffsetDateTime,
}

impl AlertRow {
    fn new(tx: &PgTransaction<'_>, alert: &UsageAlert) -> Self {
        let (customer_key, customer_id, plan_version_id) = match &alert.scope {
            AlertScope::Everybody => (None, None, None),
            AlertScope::Customer(id) => {
                let key = CustomerKey::derive(tx.organization, id);
                (Some(key.uuid()), Some(id.as_str().to_owned()), None)
            }
            AlertScope::PlanVersion(version) => (None, None, Some(version.uuid())),
        };
        Self {
            organization_id: tx.tenant(),
            id: alert.id.uuid(),
            kind: alert.kind.as_str().to_owned(),
            metric_id: alert.metric.map(|metric| metric.uuid()),
            threshold: alert.threshold.clone(),
            unit: alert.unit.as_str().to_owned(),
            currency_code: alert.currency_code.clone(),
            customer_key,
            customer_id,
            plan_version_id,
            created_at: alert.created_at,
        }
    }
}

impl TryFrom<AlertRow> for UsageAlert {
    type Error = Error;

    fn try_from(row: AlertRow) -> Result<Self, Error> {
        let scope = match (row.customer_id, row.plan_version_id) {
            (Some(customer), _) => AlertScope::Customer(customer.parse().map_err(|_| unreadable("customer_id"))?),
            (None, Some(version)) => AlertScope::PlanVersion(version.into()),
            (None, None) => AlertScope::Everybody,
        };
        Ok(Self {
            id: row.id.into(),
            kind: choice(AlertKind::ALL, AlertKind::as_str, &row.kind)?,
            metric: row.metric_id.map(Into::into),
            threshold: row.threshold,
            unit: choice(AlertUnit::ALL, AlertUnit::as_str, &row.unit)?,
            currency_code: row.currency_code,
            scope,
            created_at: row.created_at,
        })
    }
}

statement! {
    /// Has customers' figures looked at.
    MarkCustomers -> BigInt {
        "INSERT INTO usage_alert_marks (organization_id, customer_key, at, may_lie_ahead)
        SELECT " organization: Uuid as SqlUuid; ", marked.*
        FROM unnest(
            " customers: Vec<Uuid> as Array<SqlUuid>; ", " ats: Vec<Option<OffsetDateTime>> as Array<Nullable<Timestamptz>>; ",
            " may_lie_ahead: Vec<bool> as Array<Bool>; "
        ) AS marked (customer_key, at, may_lie_ahead)"
    }
}

impl MarkCustomers {
    /// Those of whom something else than events has changed.
    pub(crate) fn now(organization: Uuid, customers: Vec<Uuid>) -> Self {
        let (ats, may_lie_ahead) = (vec![None; customers.len()], vec![true; customers.len()]);
        Self { organization, customers, ats, may_lie_ahead }
    }

    /// Those who have stored events, or whose events begin to count, each with the instant of that in their own time, and whether there may
    /// be events that are dated ahead of it.
    pub(crate) fn at(organization: Uuid, stored: BTreeMap<Uuid, (OffsetDateTime, bool)>) -> Self {
        let (customers, rest): (_, Vec<_>) = stored.into_iter().unzip();
        let (ats, may_lie_ahead) = rest.into_iter().map(|(at, may_lie_ahead)| (Some(at), may_lie_ahead)).unzip();
        Self { organization, customers, ats, may_lie_ahead }
    }
}

statement! {
    /// Notes that alerts fire.
    InsertFirings -> BigInt {
        "INSERT INTO usage_alert_firings (organization_id, customer_key, usage_alert_id, interval_start, fired_at)
        SELECT " organization: Uuid as SqlUuid; ", fired.*
        FROM unnest(" customers: Vec<Uuid> as Array<SqlUuid>; ", " alerts: Vec<Uuid> as Array<SqlUuid>; ",
            " starts: Vec<OffsetDateTime> as Array<Timestamptz>; ", " ats: Vec<OffsetDateTime> as Array<Timestamptz>; ")
            AS fired (customer_key, usage_alert_id, interval_start, fired_at)"
    }
}

impl InsertFirings {
    pub(crate) fn new(organization: Uuid, fired: &[(Firing, OffsetDateTime)]) -> Self {
        Self {
            organization,
            customers: fired.iter().map(|(firing, _)| firing.customer.uuid()).collect(),
            alerts: fired.iter().map(|(firing, _)| firing.alert.uuid()).collect(),
            starts: fired.iter().map(|(firing, _)| firing.interval_start).collect(),
            ats: fired.iter().map(|(_, at)| *at).collect(),
        }
    }
}

impl PgTransaction<'_> {
    /// What has fired for each of these customers; those for whom nothing has are left out.
    pub(crate) fn load_firings(&mut self, customers: &[Uuid]) -> Result<BTreeMap<Uuid, BTreeSet<Firing>>, Error> {
        let query = usage_alert_firings::table
            .filter(usage_alert_firings::customer_key.eq_any(customers))
            .filter(usage_alert_firings::organization_id.eq(self.tenant()))
            .select((
                usage_alert_firings::customer_key,
                usage_alert_firings::usage_alert_id,
                usage_alert_firings::interval_start,
            ));
        let rows: Vec<(Uuid, Uuid, OffsetDateTime)> = self.query(|pg| query.load(pg))?;
        let mut firings: BTreeMap<Uuid, BTreeSet<Firing>> = BTreeMap::new();
        for (customer, alert, interval_start) in rows {
            let firing = Firing { customer: customer.into(), alert: alert.into(), interval_start };
            firings.entry(customer).or_default().insert(firing);
        }
        Ok(firings)
    }
}

impl UsageAlertRepo for PgTransaction<'_> {
    fn insert(&mut self, alert: &UsageAlert) -> Result<(), Error> {
        let (row, tenant, key_ranges) = (AlertRow::new(self, alert), self.tenant(), self.shared.key_ranges);
        // Whoever stores events afterwards marks their customers for it; who did before is seen when those are marked because of it.
        self.query(|pg| lock_key_ranges(pg, key_ranges.all()))?;
        self.query(|pg| diesel::insert_into(usage_alerts::table).values(&row).execute(pg))?;
        self.deeds.has_marked = true;
        self.query(|pg| renew_ingest_version(pg, tenant))
    }

    fn get(&mut self, id: UsageAlertId) -> Result<UsageAlert, Error> {
        let query = usage_alerts::table.find((self.tenant(), id.uuid())).select(AlertRow::as_select());
        let row: Option<AlertRow> = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::UsageAlert))?.try_into()
    }

    fn list(&mut self) -> Result<Vec<UsageAlert>, Error> {
        let query = usage_alerts::table
            .filter(usage_alerts::organization_id.eq(self.tenant()))
            .order((usage_alerts::created_at, usage_alerts::id))
            .select(AlertRow::as_select());
        let rows: Vec<AlertRow> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    fn delete(&mut self, id: UsageAlertId) -> Result<(), Error> {
        let tenant = self.tenant();
        let target = usage_alerts::table.find((tenant, id.uuid()));
        match self.query(|pg| diesel::delete(target).execute(pg))? {
            0 => Err(Error::NotFound(Noun::UsageAlert)),
            _ => self.query(|pg| renew_ingest_version(pg, tenant)),
        }
    }

    fn has_fired(&mut self, firing: &Firing) -> Result<bool, Error> {
        let key = (firing.customer.uuid(), firing.alert.uuid(), firing.interval_start);
        let there = usage_alert_firings::table.find(key).filter(usage_alert_firings::organization_id.eq(self.tenant()));
        self.query(|pg| diesel::select(exists(there)).get_result(pg))
    }

    fn insert_firing(&mut self, firing: &Firing, at: OffsetDateTime) -> Result<(), Error> {
        let values = (
            usage_alert_firings::customer_key.eq(firing.customer.uuid()),
            usage_alert_firings::usage_alert_id.eq(firing.alert.uuid()),
            usage_alert_firings::interval_start.eq(firing.interval_start),
            usage_alert_firings::organization_id.eq(self.tenant()),
            usage_alert_firings::fired_at.eq(at),
        );
        self.query(|pg| diesel::insert_into(usage_alert_firings::table).values(values).execute(pg)).map(drop)
    }

    fn mark(&mut self, customer: CustomerKey) -> Result<(), Error> {
        let mark = MarkCustomers::now(self.tenant(), vec![customer.uuid()]);
        self.query(|pg| mark.execute(pg))?;
        self.deeds.has_marked = true;
        Ok(())
    }
}
