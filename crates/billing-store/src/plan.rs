//! Plans and their versions. A version is one row and its parts: components, recurring charges, features, targets.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bigdecimal::BigDecimal;
use billing_domain::id::{PlanId, PlanVersionId};
use billing_domain::period::{Anchors, PlanDuration};
use billing_domain::plan::{
    ChargeBehavior, ChargeTiming, Component, Plan, PlanVersion, PrepaidCharge, PriceAdjustment, PriceAdjustmentKind,
    RecurringCharge, TargetCustomer,
};
use billing_domain::store::PlanRepo;
use billing_domain::subscription::Subscription;
use billing_domain::tier::{Tier, TierSchedule};
use billing_domain::{Error, Noun};
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Bool;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::column::{choice, count, from_json, interval, interval_columns, to_json, unreadable};
use crate::plan_holders::{CountActive, IsHeld};
use crate::schema::{components, plan_version_features, plan_version_targets, plan_versions, plans, recurring_charges};
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = plans, check_for_backend(Pg))]
pub(crate) struct PlanRow {
    organization_id: Uuid,
    pub id: Uuid,
    name: String,
    description: Option<String>,
    duration: Option<String>,
    tags: Vec<String>,
    external_links: Value,
    created_at: OffsetDateTime,
    pub billing_frequency: Option<String>,
    pub invoice_when: Option<String>,
    deleted_at: Option<OffsetDateTime>,
}

impl PlanRow {
    pub(crate) fn new(organization_id: Uuid, plan: &Plan) -> Result<Self, Error> {
        Ok(Self {
            organization_id,
            id: plan.id.uuid(),
            name: plan.name.clone(),
            description: plan.description.clone(),
            duration: plan.duration.map(|duration| duration.as_str().to_owned()),
            tags: plan.tags.clone(),
            external_links: to_json(&plan.external_links)?,
            created_at: plan.created_at,
            billing_frequency: None,
            invoice_when: None,
            deleted_at: plan.deleted_at,
        })
    }
}

impl TryFrom<PlanRow> for Plan {
    type Error = Error;

    fn try_from(row: PlanRow) -> Result<Self, Error> {
        let duration = |text: String| text.parse::<PlanDuration>().map_err(unreadable);
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            description: row.description,
            duration: row.duration.map(duration).transpose()?,
            tags: row.tags,
            external_links: from_json(row.external_links)?,
            created_at: row.created_at,
            deleted_at: row.deleted_at,
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = plan_versions, check_for_backend(Pg))]
struct PlanVersionRow {
    organization_id: Uuid,
    id: Uuid,
    plan_id: Uuid,
    number: i64,
    localized_name: Option<String>,
    description: Option<String>,
    currency_code: String,
    price_adjustment_name: Option<String>,
    price_adjustment_description: Option<String>,
    price_adjustment_kind: Option<String>,
    price_adjustment_amount: Option<BigDecimal>,
    day_anchor: Option<i16>,
    month_anchor: Option<i16>,
    active_from: Option<OffsetDateTime>,
    active_to: Option<OffsetDateTime>,
    replace_with: Option<Uuid>,
    created_at: OffsetDateTime,
    transition_to: Option<Uuid>,
    deleted_at: Option<OffsetDateTime>,
}

impl PlanVersionRow {
    fn new(organization_id: Uuid, version: &PlanVersion) -> Self {
        let adjustment = version.price_adjustment.as_ref();
        Self {
            organization_id,
            id: version.id.uuid(),
            plan_id: version.plan.uuid(),
            number: i64::from(version.number),
            localized_name: version.localized_name.clone(),
            description: version.description.clone(),
            currency_code: version.currency_code.clone(),
            price_adjustment_name: adjustment.map(|adjustment| adjustment.name.clone()),
            price_adjustment_description: adjustment.and_then(|adjustment| adjustment.description.clone()),
            price_adjustment_kind: adjustment.map(|adjustment| adjustment.kind.as_str().to_owned()),
            price_adjustment_amount: adjustment.map(|adjustment| adjustment.amount.clone()),
            day_anchor: version.anchors.day.map(i16::from),
            month_anchor: version.anchors.month.map(i16::from),
            active_from: version.active_from,
            active_to: version.active_to,
            replace_with: version.replace_with.map(PlanVersionId::uuid),
            created_at: version.created_at,
            transition_to: version.transition_to.map(PlanId::uuid),
            deleted_at: version.deleted_at,
        }
    }

    fn into_version(self, parts: Parts) -> Result<PlanVersion, Error> {
        let adjustment = (self.price_adjustment_name, self.price_adjustment_kind, self.price_adjustment_amount);
        let price_adjustment = match adjustment {
            (Some(name), Some(kind), Some(amount)) => Some(PriceAdjustment {
                name,
                description: self.price_adjustment_description,
                kind: choice(PriceAdjustmentKind::ALL, PriceAdjustmentKind::as_str, &kind)?,
                amount,
            }),
            _ => None,
        };
        let anchor = |column: Option<i16>| column.map(count).transpose();
        Ok(PlanVersion {
            id: self.id.into(),
            plan: self.plan_id.into(),
            number: count(self.number)?,
            localized_name: self.localized_name,
            description: self.description,
            currency_code: self.currency_code,
            components: parts.components,
            recurring_charges: parts.recurring_charges,
            features: parts.features,
            price_adjustment,
            anchors: Anchors::new(anchor(self.day_anchor)?, anchor(self.month_anchor)?).map_err(unreadable)?,
            target_customers: parts.target_customers,
            active_from: self.active_from,
            active_to: self.active_to,
            replace_with: self.replace_with.map(PlanVersionId::from),
            transition_to: self.transition_to.map(PlanId::from),
            created_at: self.created_at,
            deleted_at: self.deleted_at,
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = components, check_for_backend(Pg))]
struct ComponentRow {
    organization_id: Uuid,
    id: Uuid,
    plan_version_id: Uuid,
    position: i32,
    metric_id: Uuid,
    tiers: Value,
    is_bulk: bool,
    invoicing_interval_unit: Option<String>,
    invoicing_interval_count: Option<i64>,
    reset_interval_unit: Option<String>,
    reset_interval_count: Option<i64>,
    prepaid_units: Option<BigDecimal>,
    prepaid_charge_behavior: Option<String>,
}

impl ComponentRow {
    fn new(organization_id: Uuid, version: PlanVersionId, position: i32, component: &Component) -> Result<Self, Error> {
        let (invoicing_interval_unit, invoicing_interval_count) = interval_columns(component.invoicing_interval);
        let (reset_interval_unit, reset_interval_count) = interval_columns(component.reset_interval);
        let prepaid = component.prepaid_charge.as_ref();
        Ok(Self {
            organization_id,
            id: component.id.uuid(),
            plan_version_id: version.uuid(),
            position,
            metric_id: component.metric.uuid(),
            tiers: to_json(&component.tiers.tiers())?,
            is_bulk: component.tiers.is_bulk(),
            invoicing_interval_unit,
            invoicing_interval_count,
            reset_interval_unit,
            reset_interval_count,
            prepaid_units: prepaid.and_then(|charge| charge.units.clone()),
            prepaid_charge_behavior: prepaid.map(|charge| charge.behavior.as_str().to_owned()),
        })
    }
}

impl TryFrom<ComponentRow> for Component {
    type Error = Error;

    fn try_from(row: ComponentRow) -> Result<Self, Error> {
        let tiers: Vec<Tier> = from_json(row.tiers)?;
        let prepaid_charge = match row.prepaid_charge_behavior {
            Some(behavior) => Some(PrepaidCharge {
                units: row.prepaid_units,
                behavior: choice(ChargeBehavior::ALL, ChargeBehavior::as_str, &behavior)?,
            }),
            None => None,
        };
        Ok(Self {
            id: row.id.into(),
            metric: row.metric_id.into(),
            tiers: TierSchedule::new(tiers, row.is_bulk).map_err(|faults| unreadable(format!("tiers {faults:?}")))?,
            invoicing_interval: interval(row.invoicing_interval_unit, row.invoicing_interval_count)?,
            reset_interval: interval(row.reset_interval_unit, row.reset_interval_count)?,
            prepaid_charge,
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = recurring_charges, check_for_backend(Pg))]
struct RecurringChargeRow {
    organization_id: Uuid,
    id: Uuid,
    plan_version_id: Uuid,
    position: i32,
    name: String,
    amount: BigDecimal,
    charge_timing: String,
    charge_behavior: String,
    invoicing_interval_unit: Option<String>,
    invoicing_interval_count: Option<i64>,
    reset_interval_unit: Option<String>,
    reset_interval_count: Option<i64>,
}

impl RecurringChargeRow {
    fn new(organization_id: Uuid, version: PlanVersionId, position: i32, charge: &RecurringCharge) -> Self {
        let (invoicing_interval_unit, invoicing_interval_count) = interval_columns(charge.invoicing_interval);
        let (reset_interval_unit, reset_interval_count) = interval_columns(charge.reset_interval);
        Self {
            organization_id,
            id: charge.id.uuid(),
            plan_version_id: version.uuid(),
            position,
            name: charge.name.clone(),
            amount: charge.amount.clone(),
            charge_timing: charge.timing.as_str().to_owned(),
            charge_behavior: charge.behavior.as_str().to_owned(),
            invoicing_interval_unit,
            invoicing_interval_count,
            reset_interval_unit,
            reset_interval_count,
        }
    }
}

impl TryFrom<RecurringChargeRow> for RecurringCharge {
    type Error = Error;

    fn try_from(row: RecurringChargeRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            amount: row.amount,
            timing: choice(ChargeTiming::ALL, ChargeTiming::as_str, &row.charge_timing)?,
            behavior: choice(ChargeBehavior::ALL, ChargeBehavior::as_str, &row.charge_behavior)?,
            invoicing_interval: interval(row.invoicing_interval_unit, row.invoicing_interval_count)?,
            reset_interval: interval(row.reset_interval_unit, row.reset_interval_count)?,
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = plan_version_features, check_for_backend(Pg))]
struct FeatureRow {
    organization_id: Uuid,
    plan_version_id: Uuid,
    feature_id: Uuid,
    position: i32,
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = plan_version_targets, check_for_backend(Pg))]
struct TargetRow {
    organization_id: Uuid,
    plan_version_id: Uuid,
    customer_key: Uuid,
    customer_id: String,
    position: i32,
}

impl TryFrom<TargetRow> for TargetCustomer {
    type Error = Error;

    fn try_from(row: TargetRow) -> Result<Self, Error> {
        let id = row.customer_id.parse().map_err(|_| unreadable("customer_id"))?;
        Ok(Self { key: row.customer_key.into(), id })
    }
}

/// What one version consists of besides its own row.
#[derive(Clone, Default)]
struct Parts {
    components: Vec<Component>,
    recurring_charges: Vec<RecurringCharge>,
    features: Vec<billing_domain::id::FeatureId>,
    target_customers: Vec<TargetCustomer>,
}

/// Most versions whose content is remembered.
const CONTENTS_MAX: usize = 10_000;
/// Whether a version is made for certain customers.
const HAS_TARGETS: &str = "EXISTS (
    SELECT FROM plan_version_targets target
    WHERE target.organization_id = plan_versions.organization_id AND target.plan_version_id = plan_versions.id
)";

/// What versions consist of, but for whom they are made for. That never changes: an edit makes another version.
#[derive(Default)]
pub(crate) struct Contents {
    known: Mutex<HashMap<Uuid, Parts>>,
}

impl Contents {
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Parts>> {
        // Nobody panics half way through a change in here.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `(position, item)` for every item, in the columns' type.
fn positions<T>(items: &[T]) -> impl Iterator<Item = (i32, &T)> {
    (0_i32..).zip(items)
}

impl PgTransaction<'_> {
    fn assemble(&mut self, rows: Vec<PlanVersionRow>) -> Result<Vec<PlanVersion>, Error> {
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let mut parts = self.load_parts(&ids)?;
        rows.into_iter()
            .map(|row| {
                let own = parts.remove(&row.id).unwrap_or_default();
                row.into_version(own)
            })
            .collect()
    }

    /// The versions of subscriptions, each with its plan unless that is an add-on. A version that is made for certain
    /// customers is left out.
    pub(crate) fn load_offers(&mut self, held: &[Subscription]) -> Result<Vec<(PlanVersion, Option<Plan>)>, Error> {
        let mut ids: Vec<Uuid> = held.iter().map(|own| own.version.uuid()).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let of_version = plans::organization_id.eq(plan_versions::organization_id);
        let query = plan_versions::table
            .inner_join(plans::table.on(of_version.and(plans::id.eq(plan_versions::plan_id))))
            .filter(plan_versions::organization_id.eq(self.tenant()).and(plan_versions::id.eq_any(&ids)))
            .select((PlanVersionRow::as_select(), PlanRow::as_select(), sql::<Bool>(HAS_TARGETS)));
        let rows: Vec<(PlanVersionRow, PlanRow, bool)> = self.query(|pg| query.load(pg))?;
        let rows: Vec<_> = rows.into_iter().filter(|(_, _, has_targets)| !has_targets).collect();
        let mut parts: BTreeMap<Uuid, Parts> = {
            let known = self.shared.contents.lock();
            rows.iter().filter_map(|(row, ..)| Some((row.id, known.get(&row.id)?.clone()))).collect()
        };
        let unknown: Vec<Uuid> = rows.iter().map(|(row, ..)| row.id).filter(|id| !parts.contains_key(id)).collect();
        if !unknown.is_empty() {
            let mut found = self.load_parts(&unknown)?;
            let found: Vec<_> = unknown.into_iter().map(|id| (id, found.remove(&id).unwrap_or_default())).collect();
            let mut known = self.shared.contents.lock();
            if known.len() > CONTENTS_MAX {
                known.clear();
            }
            known.extend(found.iter().cloned());
            parts.extend(found);
        }
        let offer = |(row, plan, _): (PlanVersionRow, PlanRow, bool)| {
            let plan = if plan.billing_frequency.is_none() { Some(plan.try_into()?) } else { None };
            let own = parts.remove(&row.id).unwrap_or_default();
            Ok((row.into_version(own)?, plan))
        };
        rows.into_iter().map(offer).collect()
    }

    fn load_parts(&mut self, versions: &[Uuid]) -> Result<BTreeMap<Uuid, Parts>, Error> {
        let tenant = self.tenant();
        let mut parts: BTreeMap<Uuid, Parts> = BTreeMap::new();
        let query = components::table
            .filter(components::organization_id.eq(tenant).and(components::plan_version_id.eq_any(versions)))
            .order(components::position)
            .select(ComponentRow::as_select());
        for row in self.query(|pg| query.load(pg))? {
            parts.entry(row.plan_version_id).or_default().components.push(row.try_into()?);
        }
        let query = recurring_charges::table
            .filter(recurring_charges::organization_id.eq(tenant))
            .filter(recurring_charges::plan_version_id.eq_any(versions))
            .order(recurring_charges::position)
            .select(RecurringChargeRow::as_select());
        for row in self.query(|pg| query.load(pg))? {
            parts.entry(row.plan_version_id).or_default().recurring_charges.push(row.try_into()?);
        }
        let query = plan_version_features::table
            .filter(plan_version_features::organization_id.eq(tenant))
            .filter(plan_version_features::plan_version_id.eq_any(versions))
            .order(plan_version_features::position)
            .select(FeatureRow::as_select());
        for row in self.query(|pg| query.load(pg))? {
            parts.entry(row.plan_version_id).or_default().features.push(row.feature_id.into());
        }
        let query = plan_version_targets::table
            .filter(plan_version_targets::organization_id.eq(tenant))
            .filter(plan_version_targets::plan_version_id.eq_any(versions))
            .order(plan_version_targets::position)
            .select(TargetRow::as_select());
        for row in self.query(|pg| query.load(pg))? {
            parts.entry(row.plan_version_id).or_default().target_customers.push(row.try_into()?);
        }
        Ok(parts)
    }

    fn insert_parts(&mut self, version: &PlanVersion) -> Result<(), Error> {
        let tenant = self.tenant();
        let components = positions(&version.components)
            .map(|(position, component)| ComponentRow::new(tenant, version.id, position, component))
            .collect::<Result<Vec<_>, _>>()?;
        let charges: Vec<_> = positions(&version.recurring_charges)
            .map(|(position, charge)| RecurringChargeRow::new(tenant, version.id, position, charge))
            .collect();
        let plan_version_id = version.id.uuid();
        let features: Vec<_> = positions(&version.features)
            .map(|(position, feature)| FeatureRow {
                organization_id: tenant,
                plan_version_id,
                feature_id: feature.uuid(),
                position,
            })
            .collect();
        self.query(|pg| {
            diesel::insert_into(components::table).values(&components).execute(pg)?;
            diesel::insert_into(recurring_charges::table).values(&charges).execute(pg)?;
            diesel::insert_into(plan_version_features::table).values(&features).execute(pg)
        })?;
        self.insert_targets(version)
    }

    fn insert_targets(&mut self, version: &PlanVersion) -> Result<(), Error> {
        let tenant = self.tenant();
        let targets: Vec<_> = positions(&version.target_customers)
            .map(|(position, target)| TargetRow {
                organization_id: tenant,
                plan_version_id: version.id.uuid(),
                customer_key: target.key.uuid(),
                customer_id: target.id.as_str().to_owned(),
                position,
            })
            .collect();
        self.query(|pg| diesel::insert_into(plan_version_targets::table).values(&targets).execute(pg))?;
        Ok(())
    }
}

impl PlanRepo for PgTransaction<'_> {
    fn insert(&mut self, plan: &Plan) -> Result<(), Error> {
        let row = PlanRow::new(self.tenant(), plan)?;
        self.query(|pg| diesel::insert_into(plans::table).values(&row).execute(pg))?;
        Ok(())
    }

    fn get(&mut self, id: PlanId) -> Result<Plan, Error> {
        let found = self.recall(id)?;
        if found.deleted_at.is_some() { Err(Error::NotFound(Noun::Plan)) } else { Ok(found) }
    }

    fn recall(&mut self, id: PlanId) -> Result<Plan, Error> {
        if let Some(plan) = self.ahead.plans.get(&id.uuid()) {
            return Ok(plan.clone());
        }
        let own = plans::table.find((self.tenant(), id.uuid())).filter(plans::billing_frequency.is_null());
        let query = own.select(PlanRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::Plan))?.try_into()
    }

    fn update(&mut self, plan: &Plan) -> Result<(), Error> {
        let own = plans::table.find((self.tenant(), plan.id.uuid())).filter(plans::billing_frequency.is_null());
        let changes = (
            plans::name.eq(&plan.name),
            plans::description.eq(&plan.description),
            plans::tags.eq(&plan.tags),
            plans::external_links.eq(to_json(&plan.external_links)?),
            plans::deleted_at.eq(plan.deleted_at),
        );
        match self.query(|pg| diesel::update(own).set(changes).execute(pg))? {
            0 => Err(Error::NotFound(Noun::Plan)),
            _ => Ok(()),
        }
    }

    fn list(&mut self) -> Result<Vec<Plan>, Error> {
        let query = plans::table.filter(plans::organization_id.eq(self.tenant()));
        let query = query.filter(plans::billing_frequency.is_null().and(plans::deleted_at.is_null()));
        let query = query.order((plans::created_at.desc(), plans::name, plans::id)).select(PlanRow::as_select());
        self.query(|pg| query.load(pg))?.into_iter().map(Plan::try_from).collect()
    }

    fn insert_version(&mut self, version: &PlanVersion) -> Result<(), Error> {
        let row = PlanVersionRow::new(self.tenant(), version);
        self.query(|pg| diesel::insert_into(plan_versions::table).values(&row).execute(pg))?;
        self.insert_parts(version)
    }

    fn get_version(&mut self, id: PlanVersionId) -> Result<PlanVersion, Error> {
        if let Some(version) = self.ahead.versions.get(&id.uuid()) {
            return Ok(version.clone());
        }
        let query = plan_versions::table.find((self.tenant(), id.uuid())).select(PlanVersionRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?.ok_or(Error::NotFound(Noun::PlanVersion))?;
        self.assemble(vec![row])?.pop().ok_or(Error::NotFound(Noun::PlanVersion))
    }

    fn list_versions(&mut self, plan: Option<PlanId>) -> Result<Vec<PlanVersion>, Error> {
        let own = plan_versions::organization_id.eq(self.tenant());
        let mut query = plan_versions::table.filter(own.and(plan_versions::deleted_at.is_null())).into_boxed();
        if let Some(plan) = plan {
            query = query.filter(plan_versions::plan_id.eq(plan.uuid()));
        }
        let order = (plan_versions::created_at, plan_versions::number, plan_versions::id);
        let rows = self.query(|pg| query.order(order).select(PlanVersionRow::as_select()).load(pg))?;
        self.assemble(rows)
    }

    fn update_version(&mut self, version: &PlanVersion) -> Result<(), Error> {
        let own = plan_versions::table.find((self.tenant(), version.id.uuid()));
        let changes = (
            plan_versions::localized_name.eq(&version.localized_name),
            plan_versions::description.eq(&version.description),
            plan_versions::active_from.eq(version.active_from),
            plan_versions::active_to.eq(version.active_to),
            plan_versions::replace_with.eq(version.replace_with.map(PlanVersionId::uuid)),
            plan_versions::transition_to.eq(version.transition_to.map(PlanId::uuid)),
            plan_versions::deleted_at.eq(version.deleted_at),
        );
        if self.query(|pg| diesel::update(own).set(changes).execute(pg))? == 0 {
            return Err(Error::NotFound(Noun::PlanVersion));
        }
        let targets = plan_version_targets::table
            .filter(plan_version_targets::organization_id.eq(self.tenant()))
            .filter(plan_version_targets::plan_version_id.eq(version.id.uuid()));
        self.query(|pg| diesel::delete(targets).execute(pg))?;
        self.insert_targets(version)
    }

    fn is_held(&mut self, plan: PlanId, version: Option<PlanVersionId>, now: OffsetDateTime) -> Result<bool, Error> {
        let (organization, version) = (self.tenant(), version.map(PlanVersionId::uuid));
        let question = IsHeld { organization, plan: plan.uuid(), version, now };
        self.query(|pg| question.get_result(pg))
    }

    fn active_subscriptions(&mut self, now: OffsetDateTime) -> Result<BTreeMap<PlanVersionId, u64>, Error> {
        let question = CountActive { now, organization: self.tenant() };
        let rows: Vec<(Uuid, i64)> = self.query(|pg| question.load(pg))?;
        rows.into_iter().map(|(version, number)| Ok((version.into(), count(number)?))).collect()
    }
}
