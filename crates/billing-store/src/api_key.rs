//! API keys.

use billing_domain::api_key::ApiKey;
use billing_domain::store::ApiKeyRepo;
use billing_domain::{Error, Noun};
use diesel::dsl::sql;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::Timestamptz;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::schema::api_keys;
use crate::transaction::PgTransaction;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = api_keys, check_for_backend(Pg))]
struct ApiKeyRow {
    prefix: String,
    organization_id: Uuid,
    name: String,
    digest: Vec<u8>,
    created_at: OffsetDateTime,
    expires_at: Option<OffsetDateTime>,
}

impl From<&ApiKey> for ApiKeyRow {
    fn from(key: &ApiKey) -> Self {
        Self {
            prefix: key.prefix.clone(),
            organization_id: key.organization.uuid(),
            name: key.name.clone(),
            digest: key.digest.clone(),
            created_at: key.created_at,
            expires_at: key.expires_at,
        }
    }
}

impl From<ApiKeyRow> for ApiKey {
    fn from(row: ApiKeyRow) -> Self {
        Self {
            prefix: row.prefix,
            organization: row.organization_id.into(),
            name: row.name,
            digest: row.digest,
            created_at: row.created_at,
            expires_at: row.expires_at,
        }
    }
}

/// The key with this prefix, and the present instant by the clock that everything is dated by.
pub(crate) fn find_with_now(pg: &mut PgConnection, prefix: &str) -> QueryResult<Option<(ApiKey, OffsetDateTime)>> {
    let query = api_keys::table.find(prefix).select((ApiKeyRow::as_select(), sql::<Timestamptz>("clock_timestamp()")));
    let found: Option<(ApiKeyRow, OffsetDateTime)> = query.first(pg).optional()?;
    Ok(found.map(|(row, now)| (row.into(), now)))
}

impl ApiKeyRepo for PgTransaction<'_> {
    fn insert(&mut self, key: &ApiKey) -> Result<(), Error> {
        let row = ApiKeyRow { organization_id: self.tenant(), ..ApiKeyRow::from(key) };
        self.query(|pg| diesel::insert_into(api_keys::table).values(&row).execute(pg))?;
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<ApiKey>, Error> {
        let query = api_keys::table.filter(api_keys::organization_id.eq(self.tenant()));
        let query = query.order((api_keys::created_at, api_keys::prefix)).select(ApiKeyRow::as_select());
        Ok(self.query(|pg| query.load(pg))?.into_iter().map(ApiKey::from).collect())
    }

    fn delete(&mut self, prefix: &str) -> Result<(), Error> {
        let tenant = self.tenant();
        let own = api_keys::table.find(prefix).filter(api_keys::organization_id.eq(tenant));
        match self.query(|pg| diesel::delete(own).execute(pg))? {
            0 => Err(Error::NotFound(Noun::ApiKey)),
            _ => Ok(()),
        }
    }
}
