//! Subscriptions.

use std::collections::BTreeMap;

use bigdecimal::BigDecimal;
use billing_domain::adjustment::{AdjustmentState, Forgiven};
use billing_domain::decimal;
use billing_domain::id::{CustomerKey, MetricId, SubscriptionId};
use billing_domain::period::{Calendar, instant};
use billing_domain::store::SubscriptionRepo;
use billing_domain::subscription::{
    Cancellation, FlatFeeBehavior, Settled, Subscription, SubscriptionFilters, UsageBehavior,
};
use billing_domain::tax::TaxState;
use billing_domain::{Error, Noun, StoreError};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Date as SqlDate, Uuid as SqlUuid};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::{Date, OffsetDateTime};
use uuid::Uuid;

use crate::pg::column::{checked, choice, count, from_json, period, to_json, unreadable};
use crate::pg::schema::{billing_records, components, subscriptions};
use crate::pg::statement::{Prepared, ROWS_PER_INSERT, as_inserted, statement};
use crate::transaction::PgTransaction;

/// Units of prepaid components, as their column has them.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Units(#[serde(with = "decimal::number")] BigDecimal);

/// What voided invoices forgave of a period, as its column has it.
#[derive(Serialize, Deserialize)]
struct ForgivenColumn {
    #[serde(with = "decimal::number")]
    charges: BigDecimal,
    #[serde(with = "decimal::number")]
    adjustments: BigDecimal,
    #[serde(with = "decimal::number")]
    tax: BigDecimal,
}

/// The calendar of a subscription, as its column has it; where its other intervals begin is a column of its own.
#[derive(Serialize, Deserialize)]
struct CalendarColumn {
    #[serde(with = "instant")]
    from: OffsetDateTime,
    day: u8,
    months: u32,
}

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = subscriptions, primary_key(customer_key, id), treat_none_as_null = true, check_for_backend(Pg))]
pub(crate) struct SubscriptionRow {
    customer_key: Uuid,
    id: Uuid,
    organization_id: Uuid,
    plan_id: Uuid,
    plan_version_id: Uuid,
    start_at: OffsetDateTime,
    end_at: OffsetDateTime,
    full_start_at: OffsetDateTime,
    full_end_at: OffsetDateTime,
    anchor_at: OffsetDateTime,
    calendar: Value,
    chain_began_at: OffsetDateTime,
    auto_renew: bool,
    is_renewed: bool,
    is_new: bool,
    quantity: i64,
    filters: String,
    metadata: Value,
    prepaid_units: Value,
    carried_usage: Value,
    replaced_by: Option<Uuid>,
    flat_fee_behavior: Option<String>,
    usage_behavior: Option<String>,
    uncancelled_end_at: Option<OffsetDateTime>,
    settled_charges: BigDecimal,
    settled_adjustments: BigDecimal,
    settled_tax_exact: BigDecimal,
    settled_tax: BigDecimal,
    settled_taxed: Value,
    settled_forgiven: Value,
    created_at: OffsetDateTime,
    parent_id: Option<Uuid>,
}

impl SubscriptionRow {
    fn new(organization_id: Uuid, subscription: &Subscription) -> Result<Self, Error> {
        let units: BTreeMap<MetricId, Units> =
            subscription.prepaid_units.iter().map(|(metric, units)| (*metric, Units(units.clone()))).collect();
        let Calendar { start, from, day, months } = subscription.calendar;
        let Settled { adjustment, tax } = subscription.settled.clone();
        let Forgiven { charges, given } = adjustment.forgiven;
        let forgiven = ForgivenColumn { charges, adjustments: given, tax: tax.forgiven };
        let flat_fee_behavior = subscription.flat_fee_behavior();
        Ok(Self {
            customer_key: subscription.customer.uuid(),
            id: subscription.id.uuid(),
            organization_id,
            plan_id: subscription.plan.uuid(),
            plan_version_id: subscription.version.uuid(),
            start_at: subscription.period.start(),
            end_at: subscription.period.end(),
            full_start_at: subscription.full.start(),
            full_end_at: subscription.full.end(),
            anchor_at: start,
            calendar: to_json(&CalendarColumn { from, day, months })?,
            chain_began_at: subscription.chain_began_at,
            auto_renew: subscription.auto_renew,
            is_renewed: subscription.is_renewed,
            is_new: subscription.is_new,
            quantity: i64::from(subscription.quantity),
            filters: subscription.filters.canonical(),
            metadata: Value::Object(subscription.metadata.clone()),
            prepaid_units: to_json(&units)?,
            carried_usage: to_json(&subscription.carried_usage)?,
            replaced_by: subscription.replaced_by.map(SubscriptionId::uuid),
            flat_fee_behavior: flat_fee_behavior.map(|behavior| behavior.as_str().to_owned()),
            usage_behavior: subscription
                .cancellation
                .map(|cancellation| cancellation.usage_behavior.as_str().to_owned()),
            uncancelled_end_at: subscription.uncancelled_end,
            settled_charges: adjustment.charges,
            settled_adjustments: adjustment.given,
            settled_tax_exact: tax.exact,
            settled_tax: tax.given,
            settled_taxed: to_json(&tax.taxed)?,
            settled_forgiven: to_json(&forgiven)?,
            created_at: subscription.created_at,
            parent_id: subscription.parent.map(SubscriptionId::uuid),
        })
    }
}

/// Filters out of their canonical text.
pub(crate) fn filters(canonical: &str) -> Result<SubscriptionFilters, Error> {
    serde_json::from_str(canonical).map_err(unreadable)
}

fn cancellation(flat_fee: Option<&str>, usage: Option<&str>) -> Result<Option<Cancellation>, Error> {
    let Some(usage) = usage else { return Ok(None) };
    let flat_fee_behavior = match flat_fee {
        Some(text) => Some(choice(FlatFeeBehavior::ALL, FlatFeeBehavior::as_str, text)?),
        None => None,
    };
    let usage_behavior = choice(UsageBehavior::ALL, UsageBehavior::as_str, usage)?;
    Ok(Some(Cancellation { flat_fee_behavior, usage_behavior }))
}

impl TryFrom<SubscriptionRow> for Subscription {
    type Error = Error;

    fn try_from(row: SubscriptionRow) -> Result<Self, Error> {
        let units: BTreeMap<MetricId, Units> = from_json(row.prepaid_units)?;
        let CalendarColumn { from, day, months } = from_json(row.calendar)?;
        let forgiven: ForgivenColumn = from_json(row.settled_forgiven)?;
        Ok(Self {
            id: row.id.into(),
            customer: row.customer_key.into(),
            plan: row.plan_id.into(),
            version: row.plan_version_id.into(),
            period: period(row.start_at, row.end_at)?,
            full: period(row.full_start_at, row.full_end_at)?,
            calendar: Calendar { start: row.anchor_at, from, day, months },
            chain_began_at: row.chain_began_at,
            auto_renew: row.auto_renew,
            is_renewed: row.is_renewed,
            is_new: row.is_new,
            quantity: count(row.quantity)?,
            filters: filters(&row.filters)?,
            metadata: from_json(row.metadata)?,
            prepaid_units: units.into_iter().map(|(metric, Units(units))| (metric, units)).collect(),
            carried_usage: from_json(row.carried_usage)?,
            replaced_by: row.replaced_by.map(SubscriptionId::from),
            cancellation: cancellation(row.flat_fee_behavior.as_deref(), row.usage_behavior.as_deref())?,
            settled: Settled {
                adjustment: AdjustmentState {
                    charges: row.settled_charges,
                    given: row.settled_adjustments,
                    forgiven: Forgiven { charges: forgiven.charges, given: forgiven.adjustments },
                },
                tax: TaxState {
                    exact: row.settled_tax_exact,
                    given: row.settled_tax,
                    forgiven: forgiven.tax,
                    taxed: from_json(row.settled_taxed)?,
                },
            },
            uncancelled_end: row.uncancelled_end_at,
            created_at: row.created_at,
            parent: row.parent_id.map(SubscriptionId::from),
        })
    }
}

statement! {
    /// Counts one more scheduled invoicing of each subscription, from 1 on a later day than its latest.
    CountInvoicing -> (SqlUuid, BigInt) {
        "INSERT INTO invoicing_counts AS counted (customer_key, subscription_id, organization_id, invoiced_on, invoices)
        SELECT " customer: Uuid as SqlUuid; ", subscription_id, " organization: Uuid as SqlUuid; ", " day: Date as SqlDate; ", 1
        FROM unnest(" subscriptions: Vec<Uuid> as Array<SqlUuid>; ") subscription_id
        ON CONFLICT (customer_key, subscription_id) DO UPDATE SET
            invoices = CASE WHEN counted.invoiced_on < excluded.invoiced_on THEN 1 ELSE counted.invoices + 1 END,
            invoiced_on = greatest(counted.invoiced_on, excluded.invoiced_on)
        RETURNING subscription_id, invoices"
    }
}

impl PgTransaction<'_> {
    /// [`SubscriptionRepo::list_current`] of several customers.
    pub(crate) fn load_current(
        &mut self,
        customers: &[Uuid],
        instant: OffsetDateTime,
    ) -> Result<Vec<Subscription>, Error> {
        let awaits_renewal = subscriptions::auto_renew.eq(true).and(subscriptions::is_renewed.eq(false));
        let query = subscriptions::table
            .filter(checked(subscriptions::organization_id.eq(self.tenant())))
            .filter(subscriptions::customer_key.eq_any(customers).and(subscriptions::replaced_by.is_null()))
            .filter(subscriptions::end_at.gt(instant).or(awaits_renewal))
            .order((subscriptions::start_at, subscriptions::id))
            .select(SubscriptionRow::as_select());
        self.query(|pg| query.load(pg))?.into_iter().map(Subscription::try_from).collect()
    }

    /// Writes subscriptions, of one customer or of several.
    pub(crate) fn write_subscriptions(&mut self, new: &[Subscription], changed: &[Subscription]) -> Result<(), Error> {
        let tenant = self.tenant();
        // Those that changed come first: they may make room for new ones.
        let rows = changed.iter().chain(new).map(|subscription| SubscriptionRow::new(tenant, subscription));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        for chunk in rows.chunks(ROWS_PER_INSERT) {
            let save = diesel::insert_into(subscriptions::table)
                .values(chunk)
                .on_conflict((subscriptions::customer_key, subscriptions::id))
                .do_update()
                .set(as_inserted!(subscriptions:
                    plan_id, plan_version_id, start_at, end_at, full_start_at, full_end_at, anchor_at, calendar,
                    chain_began_at, auto_renew, is_renewed, is_new, quantity, filters, metadata, prepaid_units,
                    carried_usage, replaced_by, flat_fee_behavior, usage_behavior, settled_charges,
                    settled_adjustments, settled_tax_exact, settled_tax, settled_taxed, settled_forgiven,
                    uncancelled_end_at, created_at, parent_id,
                ));
            let save = diesel::query_dsl::methods::FilterDsl::filter(save, subscriptions::organization_id.eq(tenant));
            if self.query(|pg| Prepared(save.returning(subscriptions::id)).load::<Uuid>(pg))?.len() != chunk.len() {
                return Err(StoreError::Internal("a subscription is another organization's".to_owned()).into());
            }
        }
        changed.iter().for_each(|subscription| self.deeds.changed(subscription));
        new.iter().try_for_each(|subscription| {
            self.deeds.subscribed(subscription);
            self.start_filtered_rollups(subscription)
        })
    }

    /// The subscriptions with these ids, of those that are one of the customers'.
    pub(crate) fn load_subscriptions(&mut self, customers: &[Uuid], ids: &[Uuid]) -> Result<Vec<Subscription>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let query = subscriptions::table
            .filter(checked(subscriptions::organization_id.eq(self.tenant())))
            .filter(subscriptions::customer_key.eq_any(customers).and(subscriptions::id.eq_any(ids)))
            .select(SubscriptionRow::as_select());
        self.query(|pg| query.load(pg))?.into_iter().map(Subscription::try_from).collect()
    }

    /// Sees to it that usage under the filters of a new subscription is rolled up from now on.
    fn start_filtered_rollups(&mut self, subscription: &Subscription) -> Result<(), Error> {
        let keys: Vec<String> = subscription.filters.iter().map(|(name, _)| name.to_owned()).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let query = components::table
            .filter(components::organization_id.eq(self.tenant()))
            .filter(components::plan_version_id.eq(subscription.version.uuid()))
            .order(components::metric_id)
            .select(components::metric_id);
        let metrics: Vec<Uuid> = self.query(|pg| query.load(pg))?;
        self.start_rollups(&metrics, &keys)
    }
}

impl SubscriptionRepo for PgTransaction<'_> {
    fn insert(&mut self, subscription: &Subscription) -> Result<(), Error> {
        let row = SubscriptionRow::new(self.tenant(), subscription)?;
        let insert = diesel::insert_into(subscriptions::table).values(&row).returning(subscriptions::id);
        self.query(|pg| Prepared(insert).load::<Uuid>(pg))?;
        self.deeds.subscribed(subscription);
        self.start_filtered_rollups(subscription)
    }

    fn customer_of(&mut self, id: SubscriptionId) -> Result<CustomerKey, Error> {
        let query = subscriptions::table
            .filter(subscriptions::organization_id.eq(self.tenant()).and(subscriptions::id.eq(id.uuid())))
            .filter(subscriptions::replaced_by.is_null().and(subscriptions::parent_id.is_null()))
            .select(subscriptions::customer_key);
        let key: Option<Uuid> = self.query(|pg| query.first(pg).optional())?;
        key.map(CustomerKey::from).ok_or(Error::NotFound(Noun::Subscription))
    }

    fn get(&mut self, customer: CustomerKey, id: SubscriptionId) -> Result<Subscription, Error> {
        let query = subscriptions::table
            .find((customer.uuid(), id.uuid()))
            .filter(subscriptions::organization_id.eq(self.tenant()))
            .select(SubscriptionRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::Subscription))?.try_into()
    }

    fn list(&mut self, customer: CustomerKey) -> Result<Vec<Subscription>, Error> {
        let query = subscriptions::table
            .filter(checked(subscriptions::organization_id.eq(self.tenant())))
            .filter(subscriptions::customer_key.eq(customer.uuid()).and(subscriptions::replaced_by.is_null()))
            .order((subscriptions::start_at, subscriptions::id))
            .select(SubscriptionRow::as_select());
        self.query(|pg| query.load(pg))?.into_iter().map(Subscription::try_from).collect()
    }

    fn list_with_billing(&mut self, customers: &[CustomerKey]) -> Result<Vec<(Subscription, bool)>, Error> {
        let open = billing_records::table
            .filter(billing_records::customer_key.eq(subscriptions::customer_key))
            .filter(billing_records::subscription_id.eq(subscriptions::id))
            .filter(billing_records::next_invoicing_at.is_not_null());
        let query = subscriptions::table
            .filter(checked(subscriptions::organization_id.eq(self.tenant())))
            .filter(subscriptions::customer_key.eq_any(customers.iter().map(|key| key.uuid())))
            .filter(subscriptions::replaced_by.is_null())
            .order((subscriptions::start_at, subscriptions::id))
            .select((SubscriptionRow::as_select(), diesel::dsl::not(diesel::dsl::exists(open))));
        let rows: Vec<(SubscriptionRow, bool)> = self.query(|pg| query.load(pg))?;
        rows.into_iter().map(|(row, is_billed)| Ok((row.try_into()?, is_billed))).collect()
    }

    fn list_current(&mut self, customer: CustomerKey, instant: OffsetDateTime) -> Result<Vec<Subscription>, Error> {
        self.load_current(&[customer.uuid()], instant)
    }

    fn update(&mut self, subscription: &Subscription) -> Result<(), Error> {
        let row = SubscriptionRow::new(self.tenant(), subscription)?;
        let target = subscriptions::table
            .find((row.customer_key, row.id))
            .filter(subscriptions::organization_id.eq(row.organization_id));
        let update = diesel::update(target).set(&row).returning(subscriptions::id);
        match self.query(|pg| Prepared(update).load::<Uuid>(pg))?.len() {
            0 => Err(Error::NotFound(Noun::Subscription)),
            _ => {
                self.deeds.changed(subscription);
                Ok(())
            }
        }
    }

    fn save(&mut self, new: &[Subscription], changed: &[Subscription]) -> Result<(), Error> {
        self.write_subscriptions(new, changed)
    }

    fn count_invoicing(
        &mut self,
        customer: CustomerKey,
        subscriptions: &[SubscriptionId],
        day: Date,
    ) -> Result<Vec<u32>, Error> {
        let statement = CountInvoicing {
            customer: customer.uuid(),
            organization: self.tenant(),
            day,
            subscriptions: subscriptions.iter().map(|id| id.uuid()).collect(),
        };
        let counted: BTreeMap<Uuid, i64> = self.query(|pg| statement.load(pg))?.into_iter().collect();
        let of = |id: &SubscriptionId| count(counted.get(&id.uuid()).copied().unwrap_or_default());
        subscriptions.iter().map(of).collect()
    }
}
