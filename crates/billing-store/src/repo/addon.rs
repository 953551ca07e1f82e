//! Add-ons: plans of one version, with terms of their own.

use billing_domain::addon::{Addon, AddonTerms, BillingFrequency, InvoiceWhen, plan_of};
use billing_domain::id::AddonId;
use billing_domain::plan::{Plan, PlanVersion};
use billing_domain::store::{AddonRepo, PlanRepo};
use billing_domain::{Error, Noun};
use diesel::prelude::*;

use crate::pg::column::{choice, unreadable};
use crate::pg::schema::plans;
use crate::repo::plan::PlanRow;
use crate::transaction::PgTransaction;

impl PlanRow {
    fn of_addon(mut self, addon: &Addon) -> Self {
        self.billing_frequency = Some(addon.terms.billing_frequency.as_str().to_owned());
        self.invoice_when = Some(addon.terms.invoice_when.as_str().to_owned());
        self
    }

    fn into_addon(self, content: PlanVersion) -> Result<Addon, Error> {
        let missing = || unreadable("terms of an add-on");
        let frequency = self.billing_frequency.clone().ok_or_else(missing)?;
        let when = self.invoice_when.clone().ok_or_else(missing)?;
        let terms = AddonTerms {
            billing_frequency: choice(BillingFrequency::ALL, BillingFrequency::as_str, &frequency)?,
            invoice_when: choice(InvoiceWhen::ALL, InvoiceWhen::as_str, &when)?,
        };
        let plan = Plan::try_from(self)?;
        Ok(Addon {
            id: plan.id.uuid().into(),
            name: plan.name,
            description: plan.description,
            terms,
            content,
            created_at: plan.created_at,
        })
    }
}

impl AddonRepo for PgTransaction<'_> {
    fn insert(&mut self, addon: &Addon) -> Result<(), Error> {
        let row = PlanRow::new(self.tenant(), &addon.plan())?.of_addon(addon);
        self.query(|pg| diesel::insert_into(plans::table).values(&row).execute(pg))?;
        self.insert_version(&addon.content)
    }

    fn get(&mut self, id: AddonId) -> Result<Addon, Error> {
        let found = plans::table.find((self.tenant(), id.uuid())).filter(plans::billing_frequency.is_not_null());
        let row = self.query(|pg| found.select(PlanRow::as_select()).first(pg).optional())?;
        let row = row.ok_or(Error::NotFound(Noun::Addon))?;
        let content = self.list_versions(Some(plan_of(id)))?.pop();
        row.into_addon(content.ok_or_else(|| unreadable("an add-on without content"))?)
    }

    fn list(&mut self) -> Result<Vec<Addon>, Error> {
        let query = plans::table
            .filter(plans::organization_id.eq(self.tenant()).and(plans::billing_frequency.is_not_null()))
            .order((plans::created_at.desc(), plans::name, plans::id))
            .select(PlanRow::as_select());
        let rows: Vec<PlanRow> = self.query(|pg| query.load(pg))?;
        let mut versions = self.list_versions(None)?;
        rows.into_iter()
            .map(|row| {
                let place = versions.iter().position(|version| version.plan.uuid() == row.id);
                let content = place.map(|i| versions.swap_remove(i));
                row.into_addon(content.ok_or_else(|| unreadable("an add-on without content"))?)
            })
            .collect()
    }
}
