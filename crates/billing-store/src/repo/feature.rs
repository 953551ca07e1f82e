//! Features.

use billing_domain::id::FeatureId;
use billing_domain::plan::Feature;
use billing_domain::store::FeatureRepo;
use billing_domain::{Error, Noun};
use diesel::pg::Pg;
use diesel::prelude::*;
use uuid::Uuid;

use crate::pg::schema::features;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = features, check_for_backend(Pg))]
struct FeatureRow {
    organization_id: Uuid,
    id: Uuid,
    name: String,
    description: Option<String>,
}

impl From<FeatureRow> for Feature {
    fn from(row: FeatureRow) -> Self {
        Self { id: row.id.into(), name: row.name, description: row.description }
    }
}

impl FeatureRepo for PgTransaction<'_> {
    fn insert(&mut self, feature: &Feature) -> Result<(), Error> {
        let row = FeatureRow {
            organization_id: self.tenant(),
            id: feature.id.uuid(),
            name: feature.name.clone(),
            description: feature.description.clone(),
        };
        self.query(|pg| diesel::insert_into(features::table).values(&row).execute(pg))?;
        Ok(())
    }

    fn get(&mut self, id: FeatureId) -> Result<Feature, Error> {
        let query = features::table.find((self.tenant(), id.uuid())).select(FeatureRow::as_select());
        let row = self.query(|pg| query.first(pg).optional())?;
        row.map(Feature::from).ok_or(Error::NotFound(Noun::Feature))
    }

    fn list(&mut self) -> Result<Vec<Feature>, Error> {
        let query = features::table.filter(features::organization_id.eq(self.tenant()));
        let query = query.order((features::created_at, features::id)).select(FeatureRow::as_select());
        Ok(self.query(|pg| query.load(pg))?.into_iter().map(Feature::from).collect())
    }
}
