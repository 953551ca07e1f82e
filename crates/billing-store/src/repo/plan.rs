//! Plans and their versions. A version is one row and its parts: components, recurring charges, features, targets.

mod holders;
mod row;

pub(crate) use self::row::PlanRow;

use std::collections::BTreeMap;

use billing_domain::id::{PlanId, PlanVersionId};
use billing_domain::plan::{Plan, PlanVersion};
use billing_domain::store::{Page, PageRequest, PlanRepo, VersionHolder};
use billing_domain::{Error, Noun};
use diesel::prelude::*;
use diesel::sql_types::Bool;
use time::OffsetDateTime;
use uuid::Uuid;

use self::holders::{CountActive, HolderRow, IsHeld, ListHolders};
use self::row::{ComponentRow, FeatureRow, PlanVersionRow, RecurringChargeRow, TargetRow};
use crate::pg::column::{count, period, to_json, unreadable};
use crate::pg::cursor::Cursor;
use crate::pg::schema::{
    components, plan_version_features, plan_version_targets, plan_versions, plans, recurring_charges,
};
use crate::pg::statement::fixed;
use crate::remembered::VersionParts;
use crate::repo::customer::page_of;
use crate::transaction::PgTransaction;

/// Whether a version is made for certain customers.
const HAS_TARGETS: &str = "EXISTS (
    SELECT FROM plan_version_targets target
    WHERE target.organization_id = plan_versions.organization_id AND target.plan_version_id = plan_versions.id
)";

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
                let parts_of_version = parts.remove(&row.id).unwrap_or_default();
                row.into_version(parts_of_version)
            })
            .collect()
    }

    /// These versions, each with its plan unless that is an add-on. A version that is made for certain customers is left
    /// out.
    pub(crate) fn load_offers(&mut self, ids: &[Uuid]) -> Result<Vec<(PlanVersion, Option<Plan>)>, Error> {
        let of_version = plans::organization_id.eq(plan_versions::organization_id);
        let query = plan_versions::table
            .inner_join(plans::table.on(of_version.and(plans::id.eq(plan_versions::plan_id))))
            .filter(plan_versions::organization_id.eq(self.tenant()).and(plan_versions::id.eq_any(ids)))
            .select((PlanVersionRow::as_select(), PlanRow::as_select(), fixed::<Bool>(HAS_TARGETS)));
        let rows: Vec<(PlanVersionRow, PlanRow, bool)> = self.query(|pg| query.load(pg))?;
        let rows: Vec<_> = rows.into_iter().filter(|(_, _, has_targets)| !has_targets).collect();
        let contents = &self.shared.remembered.contents;
        let mut parts: BTreeMap<Uuid, VersionParts> =
            rows.iter().filter_map(|(row, ..)| Some((row.id, contents.find(row.id)?))).collect();
        let unknown: Vec<Uuid> = rows.iter().map(|(row, ..)| row.id).filter(|id| !parts.contains_key(id)).collect();
        if !unknown.is_empty() {
            let mut found = self.load_parts(&unknown)?;
            for id in unknown {
                let found = found.remove(&id).unwrap_or_default();
                contents.keep(id, found.clone());
                parts.insert(id, found);
            }
        }
        let offer = |(row, plan, _): (PlanVersionRow, PlanRow, bool)| {
            let plan = if plan.billing_frequency.is_none() { Some(plan.try_into()?) } else { None };
            let parts_of_version = parts.remove(&row.id).unwrap_or_default();
            Ok((row.into_version(parts_of_version)?, plan))
        };
        rows.into_iter().map(offer).collect()
    }

    fn load_parts(&mut self, versions: &[Uuid]) -> Result<BTreeMap<Uuid, VersionParts>, Error> {
        let tenant = self.tenant();
        let mut parts: BTreeMap<Uuid, VersionParts> = BTreeMap::new();
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
        let found = self.get_even_deleted(id)?;
        if found.deleted_at.is_some() { Err(Error::NotFound(Noun::Plan)) } else { Ok(found) }
    }

    fn get_even_deleted(&mut self, id: PlanId) -> Result<Plan, Error> {
        let found = plans::table.find((self.tenant(), id.uuid())).filter(plans::billing_frequency.is_null());
        let row = self.query(|pg| found.select(PlanRow::as_select()).first(pg).optional())?;
        row.ok_or(Error::NotFound(Noun::Plan))?.try_into()
    }

    fn update(&mut self, plan: &Plan) -> Result<(), Error> {
        let target = plans::table.find((self.tenant(), plan.id.uuid())).filter(plans::billing_frequency.is_null());
        let changes = (
            plans::name.eq(&plan.name),
            plans::description.eq(&plan.description),
            plans::tags.eq(&plan.tags),
            plans::external_links.eq(to_json(&plan.external_links)?),
            plans::deleted_at.eq(plan.deleted_at),
        );
        match self.query(|pg| diesel::update(target).set(changes).execute(pg))? {
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
        let query = plan_versions::table.find((self.tenant(), id.uuid())).select(PlanVersionRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?.ok_or(Error::NotFound(Noun::PlanVersion))?;
        self.assemble(vec![row])?.pop().ok_or(Error::NotFound(Noun::PlanVersion))
    }

    fn list_versions(&mut self, plan: Option<PlanId>) -> Result<Vec<PlanVersion>, Error> {
        let of_tenant = plan_versions::organization_id.eq(self.tenant());
        let mut query = plan_versions::table.filter(of_tenant.and(plan_versions::deleted_at.is_null())).into_boxed();
        if let Some(plan) = plan {
            query = query.filter(plan_versions::plan_id.eq(plan.uuid()));
        }
        let order = (plan_versions::created_at, plan_versions::number, plan_versions::id);
        let rows = self.query(|pg| query.order(order).select(PlanVersionRow::as_select()).load(pg))?;
        self.assemble(rows)
    }

    fn update_version(&mut self, version: &PlanVersion) -> Result<(), Error> {
        let target = plan_versions::table.find((self.tenant(), version.id.uuid()));
        let changes = (
            plan_versions::localized_name.eq(&version.localized_name),
            plan_versions::description.eq(&version.description),
            plan_versions::active_from.eq(version.active_from),
            plan_versions::active_to.eq(version.active_to),
            plan_versions::replace_with.eq(version.replace_with.map(PlanVersionId::uuid)),
            plan_versions::transition_to.eq(version.transition_to.map(PlanId::uuid)),
            plan_versions::deleted_at.eq(version.deleted_at),
        );
        if self.query(|pg| diesel::update(target).set(changes).execute(pg))? == 0 {
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

    fn list_holders(
        &mut self,
        version: PlanVersionId,
        now: OffsetDateTime,
        page: &PageRequest,
    ) -> Result<Page<VersionHolder>, Error> {
        let after = page.after.as_deref().map(Cursor::parse).transpose()?;
        let found = self.load_holders(version, now, after, page.limit)?;
        Ok(holder_page(found, page.limit))
    }
}

/// A holder's place among those of a version: the first to end comes first.
pub(crate) fn cursor_of(holder: &VersionHolder) -> Cursor {
    Cursor::new(holder.period.end(), holder.subscription.uuid())
}

/// A page of what was read, with one more than fits where there are more.
pub(crate) fn holder_page(found: Vec<VersionHolder>, limit: u32) -> Page<VersionHolder> {
    page_of(found.into_iter().map(|holder| (cursor_of(&holder).to_text(), holder)).collect(), limit)
}

impl PgTransaction<'_> {
    /// The holders of a version behind a place, one more than are wanted where there are more.
    pub(crate) fn load_holders(
        &mut self,
        version: PlanVersionId,
        now: OffsetDateTime,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Vec<VersionHolder>, Error> {
        let (after_at, after_id) = after.map_or((OffsetDateTime::UNIX_EPOCH, Uuid::nil()), Cursor::parts);
        let question = ListHolders {
            organization: self.tenant(),
            version: version.uuid(),
            now,
            after_at,
            after_id,
            limit: i64::from(limit) + 1,
        };
        let rows: Vec<HolderRow> = self.query(|pg| question.load(pg))?;
        let read = |(customer, customer_name, email, id, start, end, auto_renew): HolderRow| {
            Ok(VersionHolder {
                customer: customer.parse().map_err(|_| unreadable("customer"))?,
                customer_name,
                email,
                subscription: id.into(),
                period: period(start, end)?,
                auto_renew,
            })
        };
        rows.into_iter().map(read).collect()
    }
}
