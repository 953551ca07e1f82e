//! Billing records.

use bigdecimal::BigDecimal;
use billing_domain::charge::{Billed, BillingRecord, ChargeRef, UsageBilling};
use billing_domain::id::{CustomerKey, SubscriptionId};
use billing_domain::store::BillingRecordRepo;
use billing_domain::{Error, StoreError};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{choice, from_json, period, to_json, unreadable};
use crate::pg::schema::billing_records;
use crate::pg::statement::{Prepared, ROWS_PER_INSERT, as_inserted};
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = billing_records, primary_key(customer_key, id), treat_none_as_null = true, check_for_backend(Pg))]
pub(crate) struct BillingRecordRow {
    customer_key: Uuid,
    id: Uuid,
    organization_id: Uuid,
    revision: i64,
    subscription_id: Uuid,
    plan_version_id: Uuid,
    recurring_charge_id: Option<Uuid>,
    component_id: Option<Uuid>,
    start_at: OffsetDateTime,
    end_at: OffsetDateTime,
    full_start_at: OffsetDateTime,
    full_end_at: OffsetDateTime,
    invoicing_instants: Vec<OffsetDateTime>,
    late_until: Option<OffsetDateTime>,
    billed_quantity: BigDecimal,
    billed_exact: BigDecimal,
    billed_given: BigDecimal,
    billed_forgiven: BigDecimal,
    billed_taxed: Value,
    charged_before_switch: BigDecimal,
    usage_billing: String,
    tax_rate: Option<BigDecimal>,
    prepaid: Option<Value>,
}

impl BillingRecordRow {
    fn new(organization_id: Uuid, customer: CustomerKey, revision: i64, record: &BillingRecord) -> Result<Self, Error> {
        let (recurring_charge_id, component_id) = match record.charge {
            ChargeRef::Recurring(id) => (Some(id.uuid()), None),
            ChargeRef::Component(id) => (None, Some(id.uuid())),
        };
        Ok(Self {
            customer_key: customer.uuid(),
            id: record.id.uuid(),
            organization_id,
            revision,
            subscription_id: record.subscription.uuid(),
            plan_version_id: record.version.uuid(),
            recurring_charge_id,
            component_id,
            start_at: record.period.start(),
            end_at: record.period.end(),
            full_start_at: record.full.start(),
            full_end_at: record.full.end(),
            invoicing_instants: record.invoicing_instants.clone(),
            late_until: record.late_until,
            billed_quantity: record.billed.quantity.clone(),
            billed_exact: record.billed.exact.clone(),
            billed_given: record.billed.given.clone(),
            billed_forgiven: record.billed.forgiven.clone(),
            billed_taxed: to_json(&record.billed.taxed)?,
            charged_before_switch: record.charged_before_switch.clone(),
            usage_billing: record.usage.as_str().to_owned(),
            tax_rate: record.tax_rate.clone(),
            prepaid: record.prepaid.as_ref().map(to_json).transpose()?,
        })
    }
}

impl TryFrom<BillingRecordRow> for BillingRecord {
    type Error = Error;

    fn try_from(row: BillingRecordRow) -> Result<Self, Error> {
        let charge = match (row.recurring_charge_id, row.component_id) {
            (Some(id), None) => ChargeRef::Recurring(id.into()),
            (None, Some(id)) => ChargeRef::Component(id.into()),
            _ => return Err(unreadable("charge of a billing record")),
        };
        Ok(Self {
            id: row.id.into(),
            subscription: row.subscription_id.into(),
            version: row.plan_version_id.into(),
            charge,
            period: period(row.start_at, row.end_at)?,
            full: period(row.full_start_at, row.full_end_at)?,
            invoicing_instants: row.invoicing_instants,
            late_until: row.late_until,
            billed: Billed {
                quantity: row.billed_quantity,
                exact: row.billed_exact,
                given: row.billed_given,
                forgiven: row.billed_forgiven,
                taxed: from_json(row.billed_taxed)?,
            },
            tax_rate: row.tax_rate,
            charged_before_switch: row.charged_before_switch,
            usage: choice(UsageBilling::ALL, UsageBilling::as_str, &row.usage_billing)?,
            prepaid: row.prepaid.map(from_json).transpose()?,
        })
    }
}

impl PgTransaction<'_> {
    /// [`BillingRecordRepo::list_open`] of several customers: for each by what is due next, then in order of making.
    pub(crate) fn load_open(&mut self, customers: &[Uuid]) -> Result<Vec<(CustomerKey, BillingRecord)>, Error> {
        let query = billing_records::table
            .filter(billing_records::organization_id.eq(self.tenant()))
            .filter(billing_records::customer_key.eq_any(customers))
            .filter(billing_records::next_invoicing_at.is_not_null().or(billing_records::late_until.is_not_null()))
            .order(billing_records::position)
            .select(BillingRecordRow::as_select());
        let rows = self.query(|pg| query.load(pg))?;
        self.open_records(rows)
    }

    /// What rows of open records say, in the order of [`PgTransaction::load_open`].
    pub(crate) fn open_records(
        &mut self,
        rows: Vec<BillingRecordRow>,
    ) -> Result<Vec<(CustomerKey, BillingRecord)>, Error> {
        self.revisions.extend(rows.iter().map(|row| (row.id.into(), row.revision)));
        let open = |row: BillingRecordRow| Ok::<_, Error>((row.customer_key.into(), BillingRecord::try_from(row)?));
        let mut records = rows.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        records.sort_by_key(|(_, record)| record.next_due_at());
        Ok(records)
    }

    /// Writes records, of one customer or of several.
    pub(crate) fn write_records<'r>(
        &mut self,
        records: impl Iterator<Item = (CustomerKey, &'r BillingRecord)>,
    ) -> Result<(), Error> {
        let tenant = self.tenant();
        let revision = |record: &BillingRecord| self.revisions.get(&record.id).map_or(1, |seen| seen + 1);
        let rows = records.map(|(customer, record)| BillingRecordRow::new(tenant, customer, revision(record), record));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        for chunk in rows.chunks(ROWS_PER_INSERT) {
            // The table refuses any other revision than the next one.
            let save = diesel::insert_into(billing_records::table)
                .values(chunk)
                .on_conflict((billing_records::customer_key, billing_records::id))
                .do_update()
                .set(as_inserted!(billing_records:
                    revision, subscription_id, plan_version_id, recurring_charge_id, component_id, start_at, end_at,
                    full_start_at, full_end_at, invoicing_instants, late_until, billed_quantity, billed_exact,
                    billed_given, billed_forgiven, billed_taxed, charged_before_switch, usage_billing, tax_rate,
                    prepaid,
                ));
            let save = diesel::query_dsl::methods::FilterDsl::filter(save, billing_records::organization_id.eq(tenant));
            if self.query(|pg| Prepared(save.returning(billing_records::id)).load::<Uuid>(pg))?.len() != chunk.len() {
                return Err(StoreError::Internal("a billing record is another organization's".to_owned()).into());
            }
        }
        self.revisions.extend(rows.iter().map(|row| (row.id.into(), row.revision)));
        Ok(())
    }
}

impl BillingRecordRepo for PgTransaction<'_> {
    fn insert(&mut self, customer: CustomerKey, records: &[BillingRecord]) -> Result<(), Error> {
        let tenant = self.tenant();
        let rows = records.iter().map(|record| BillingRecordRow::new(tenant, customer, 1, record));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        for chunk in rows.chunks(ROWS_PER_INSERT) {
            let insert = diesel::insert_into(billing_records::table).values(chunk).returning(billing_records::id);
            self.query(|pg| Prepared(insert).load::<Uuid>(pg))?;
        }
        self.revisions.extend(records.iter().map(|record| (record.id, 1)));
        Ok(())
    }

    fn list_open(&mut self, customer: CustomerKey) -> Result<Vec<BillingRecord>, Error> {
        self.list_open_of(&[customer])
    }

    fn list_open_of(&mut self, customers: &[CustomerKey]) -> Result<Vec<BillingRecord>, Error> {
        let keys: Vec<Uuid> = customers.iter().map(|customer| customer.uuid()).collect();
        Ok(self.load_open(&keys)?.into_iter().map(|(_, record)| record).collect())
    }

    fn list(&mut self, customer: CustomerKey, subscription: SubscriptionId) -> Result<Vec<BillingRecord>, Error> {
        let query = billing_records::table
            .filter(billing_records::organization_id.eq(self.tenant()))
            .filter(billing_records::customer_key.eq(customer.uuid()))
            .filter(billing_records::subscription_id.eq(subscription.uuid()))
            .order(billing_records::position)
            .select(BillingRecordRow::as_select());
        let rows = self.query(|pg| query.load(pg))?;
        self.revisions.extend(rows.iter().map(|row| (row.id.into(), row.revision)));
        rows.into_iter().map(BillingRecord::try_from).collect()
    }

    fn update(&mut self, customer: CustomerKey, record: &BillingRecord) -> Result<(), Error> {
        let Some(seen) = self.revisions.get(&record.id).copied() else {
            let message = format!("billing record {} was written without having been read", record.id);
            return Err(StoreError::Internal(message).into());
        };
        let row = BillingRecordRow::new(self.tenant(), customer, seen + 1, record)?;
        let target = billing_records::table
            .find((row.customer_key, row.id))
            .filter(billing_records::organization_id.eq(row.organization_id));
        // The table refuses any other revision than the next one.
        let update = diesel::update(target).set(&row).returning(billing_records::id);
        match self.query(|pg| Prepared(update).load::<Uuid>(pg))?.len() {
            0 => Err(StoreError::Internal(format!("billing record {} is gone", record.id)).into()),
            _ => {
                self.revisions.insert(record.id, seen + 1);
                Ok(())
            }
        }
    }

    fn save(&mut self, customer: CustomerKey, records: &[BillingRecord]) -> Result<(), Error> {
        self.write_records(records.iter().map(|record| (customer, record)))
    }
}
