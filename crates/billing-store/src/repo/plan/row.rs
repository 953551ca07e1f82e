//! How plans and versions lie in their tables.

use bigdecimal::BigDecimal;
use billing_domain::Error;
use billing_domain::id::{PlanId, PlanVersionId};
use billing_domain::period::{Anchors, PlanDuration};
use billing_domain::plan::{
    ChargeBehavior, ChargeTiming, Component, Plan, PlanVersion, PrepaidCharge, PriceAdjustment, PriceAdjustmentKind,
    RecurringCharge, TargetCustomer,
};
use billing_domain::tier::{Tier, TierSchedule};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::pg::column::{choice, count, from_json, interval, interval_columns, to_json, unreadable};
use crate::pg::schema::{
    components, plan_version_features, plan_version_targets, plan_versions, plans, recurring_charges,
};
use crate::remembered::VersionParts;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = plans, check_for_backend(Pg))]
pub(crate) struct PlanRow {
    pub(super) organization_id: Uuid,
    pub id: Uuid,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) duration: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) external_links: Value,
    pub(super) created_at: OffsetDateTime,
    pub billing_frequency: Option<String>,
    pub invoice_when: Option<String>,
    pub(super) deleted_at: Option<OffsetDateTime>,
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
pub(super) struct PlanVersionRow {
    pub(super) organization_id: Uuid,
    pub(super) id: Uuid,
    pub(super) plan_id: Uuid,
    pub(super) number: i64,
    pub(super) localized_name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) currency_code: String,
    pub(super) price_adjustment_name: Option<String>,
    pub(super) price_adjustment_description: Option<String>,
    pub(super) price_adjustment_kind: Option<String>,
    pub(super) price_adjustment_amount: Option<BigDecimal>,
    pub(super) day_anchor: Option<i16>,
    pub(super) month_anchor: Option<i16>,
    pub(super) active_from: Option<OffsetDateTime>,
    pub(super) active_to: Option<OffsetDateTime>,
    pub(super) replace_with: Option<Uuid>,
    pub(super) created_at: OffsetDateTime,
    pub(super) transition_to: Option<Uuid>,
    pub(super) deleted_at: Option<OffsetDateTime>,
}

impl PlanVersionRow {
    pub(super) fn new(organization_id: Uuid, version: &PlanVersion) -> Self {
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

    pub(super) fn into_version(self, parts: VersionParts) -> Result<PlanVersion, Error> {
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
pub(super) struct ComponentRow {
    pub(super) organization_id: Uuid,
    pub(super) id: Uuid,
    pub(super) plan_version_id: Uuid,
    pub(super) position: i32,
    pub(super) metric_id: Uuid,
    pub(super) tiers: Value,
    pub(super) is_bulk: bool,
    pub(super) invoicing_interval_unit: Option<String>,
    pub(super) invoicing_interval_count: Option<i64>,
    pub(super) reset_interval_unit: Option<String>,
    pub(super) reset_interval_count: Option<i64>,
    pub(super) prepaid_units: Option<BigDecimal>,
    pub(super) prepaid_charge_behavior: Option<String>,
}

impl ComponentRow {
    pub(super) fn new(
        organization_id: Uuid,
        version: PlanVersionId,
        position: i32,
        component: &Component,
    ) -> Result<Self, Error> {
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
            tiers: TierSchedule::restore(tiers, row.is_bulk)
                .map_err(|faults| unreadable(format!("tiers {faults:?}")))?,
            invoicing_interval: interval(row.invoicing_interval_unit, row.invoicing_interval_count)?,
            reset_interval: interval(row.reset_interval_unit, row.reset_interval_count)?,
            prepaid_charge,
        })
    }
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = recurring_charges, check_for_backend(Pg))]
pub(super) struct RecurringChargeRow {
    pub(super) organization_id: Uuid,
    pub(super) id: Uuid,
    pub(super) plan_version_id: Uuid,
    pub(super) position: i32,
    pub(super) name: String,
    pub(super) amount: BigDecimal,
    pub(super) charge_timing: String,
    pub(super) charge_behavior: String,
    pub(super) invoicing_interval_unit: Option<String>,
    pub(super) invoicing_interval_count: Option<i64>,
    pub(super) reset_interval_unit: Option<String>,
    pub(super) reset_interval_count: Option<i64>,
}

impl RecurringChargeRow {
    pub(super) fn new(organization_id: Uuid, version: PlanVersionId, position: i32, charge: &RecurringCharge) -> Self {
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
pub(super) struct FeatureRow {
    pub(super) organization_id: Uuid,
    pub(super) plan_version_id: Uuid,
    pub(super) feature_id: Uuid,
    pub(super) position: i32,
}

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = plan_version_targets, check_for_backend(Pg))]
pub(super) struct TargetRow {
    pub(super) organization_id: Uuid,
    pub(super) plan_version_id: Uuid,
    pub(super) customer_key: Uuid,
    pub(super) customer_id: String,
    pub(super) position: i32,
}

impl TryFrom<TargetRow> for TargetCustomer {
    type Error = Error;

    fn try_from(row: TargetRow) -> Result<Self, Error> {
        let id = row.customer_id.parse().map_err(|_| unreadable("customer_id"))?;
        Ok(Self { key: row.customer_key.into(), id })
    }
}
