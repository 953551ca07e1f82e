//! API keys and access tokens.

use std::collections::{BTreeSet, HashMap};

use billing_domain::api_key::{ApiKey, Fingerprint, KeyKind, KeyScope, KeyScopes};
use billing_domain::id::OrganizationId;
use billing_domain::store::{ApiKeyRepo, Reply};
use billing_domain::{Error, Refusal};
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel::sql_types::{Array, Text, Timestamptz};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::batcher::{BatchBudget, Job, PartsMax};
use crate::pg::column::choice;
use crate::pg::error::Failure;
use crate::pg::schema::api_keys;
use crate::pg::statement::{fixed, statement};
use crate::shared::Shared;
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
    kind: String,
    scopes: Option<Vec<Option<String>>>,
    last_used_at: Option<OffsetDateTime>,
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
            kind: key.kind.as_str().to_owned(),
            scopes: key.scopes.said().map(|all| all.iter().map(|scope| Some(scope.as_str().to_owned())).collect()),
            last_used_at: key.last_used_at,
        }
    }
}

impl TryFrom<ApiKeyRow> for ApiKey {
    type Error = Error;

    fn try_from(row: ApiKeyRow) -> Result<Self, Error> {
        let scope = |text: &String| choice(KeyScope::ALL, KeyScope::as_str, text);
        let scopes = row.scopes.iter().flatten().flatten().map(scope).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            kind: choice(KeyKind::ALL, KeyKind::as_str, &row.kind)?,
            prefix: row.prefix,
            organization: row.organization_id.into(),
            name: row.name,
            digest: row.digest,
            created_at: row.created_at,
            expires_at: row.expires_at,
            scopes: KeyScopes::of(scopes),
            last_used_at: row.last_used_at,
        })
    }
}

/// Those API keys of `input.organization_id` with `input.prefixes` that are valid at this moment, each as prefix and digest.
pub(crate) const VALID_KEYS: &str = "ARRAY(
    SELECT convert_to(key.prefix, 'UTF8') || key.digest FROM api_keys key
    WHERE key.prefix = ANY (input.prefixes)
        -- Not by an equality: a plan of when there were few keys would go through all of the organization's.
        AND key.organization_id IS NOT DISTINCT FROM input.organization_id
        AND key.kind = 'api_key' AND (key.expires_at IS NULL OR key.expires_at > clock_timestamp())
)";

/// Refuses whoever has a key that is not among the valid ones.
pub(crate) fn expect_valid(key: Option<&Fingerprint>, valid_keys: &[Vec<u8>]) -> Result<(), Error> {
    match key {
        Some(Fingerprint { prefix, digest }) if !valid_keys.contains(&[prefix.as_bytes(), digest].concat()) => {
            Err(Refusal::InvalidKey.into())
        }
        _ => Ok(()),
    }
}

/// The prefixes of some keys, each once.
pub(crate) fn prefixes<'k>(keys: impl Iterator<Item = &'k Fingerprint>) -> Vec<String> {
    keys.map(|key| key.prefix.as_str()).collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}

/// A key and the present instant.
pub(crate) type Found = (ApiKey, OffsetDateTime);

/// The key with this prefix, and the present instant by the clock that everything is dated by.
pub(crate) fn find_with_now(pg: &mut PgConnection, prefix: &str) -> Result<Option<Found>, Failure> {
    let query =
        api_keys::table.find(prefix).select((ApiKeyRow::as_select(), fixed::<Timestamptz>("clock_timestamp()")));
    let found: Option<(ApiKeyRow, OffsetDateTime)> = query.first(pg).optional()?;
    found.map(|(row, now)| Ok((row.try_into()?, now))).transpose()
}

/// A look-up of a key by its prefix.
pub(crate) struct KeyLookup {
    pub(crate) prefix: String,
    pub(crate) reply: Reply<Option<Found>>,
}

/// Most look-ups in one statement.
const LOOKUPS_MAX: PartsMax = PartsMax { alone: 1_000, in_company: 1_000 };

impl Job for KeyLookup {
    /// A prefix says whose it is only once it was looked up.
    fn organization(&self) -> Option<OrganizationId> {
        None
    }

    fn joins_batch(&self, _: &Self, budget: &mut BatchBudget) -> bool {
        budget.take(1, LOOKUPS_MAX)
    }

    fn refuse(self, error: Error) {
        (self.reply)(Err(error));
    }
}

/// Answers all look-ups by one statement, which begins after each of them was asked for.
pub(crate) fn serve(shared: &Shared, jobs: Vec<KeyLookup>) {
    let mut prefixes: Vec<&str> = jobs.iter().map(|job| job.prefix.as_str()).collect();
    prefixes.sort_unstable();
    prefixes.dedup();
    let found = shared.worker_pool.run(|pg| {
        let query = api_keys::table.filter(api_keys::prefix.eq_any(&prefixes));
        let query = query.select((ApiKeyRow::as_select(), fixed::<Timestamptz>("clock_timestamp()")));
        query.load::<(ApiKeyRow, OffsetDateTime)>(pg)
    });
    let found = found.map_err(Failure::into_error).and_then(|rows| {
        let keys = rows.into_iter().map(|(row, now)| Ok((row.prefix.clone(), (ApiKey::try_from(row)?, now))));
        keys.collect::<Result<HashMap<String, Found>, Error>>()
    });
    for job in jobs {
        (job.reply)(found.as_ref().map(|found| found.get(&job.prefix).cloned()).map_err(Clone::clone));
    }
}

statement! {
    /// Notes that keys were used by now, of those of which that was not noted within the last minute. Whoever deletes one meanwhile
    /// is not waited for.
    NoteKeyUses -> Text {
        "UPDATE api_keys SET last_used_at = clock_timestamp()
        WHERE prefix IN (
            SELECT key.prefix FROM api_keys key
            WHERE key.prefix = ANY (" prefixes: Vec<String> as Array<Text>; "::text[])
                AND (key.last_used_at IS NULL OR key.last_used_at <= clock_timestamp() - INTERVAL '1 minute')
            ORDER BY key.prefix
            FOR UPDATE SKIP LOCKED
        )
        RETURNING prefix"
    }
}

impl ApiKeyRepo for PgTransaction<'_> {
    fn insert(&mut self, key: &ApiKey) -> Result<(), Error> {
        let row = ApiKeyRow { organization_id: self.tenant(), ..ApiKeyRow::from(key) };
        self.query(|pg| diesel::insert_into(api_keys::table).values(&row).execute(pg))?;
        Ok(())
    }

    fn list(&mut self, kind: KeyKind) -> Result<Vec<ApiKey>, Error> {
        let query =
            api_keys::table.filter(api_keys::organization_id.eq(self.tenant()).and(api_keys::kind.eq(kind.as_str())));
        let query = query.order((api_keys::created_at, api_keys::prefix)).select(ApiKeyRow::as_select());
        self.query(|pg| query.load(pg))?.into_iter().map(ApiKey::try_from).collect()
    }

    fn delete(&mut self, kind: KeyKind, prefix: &str) -> Result<(), Error> {
        let tenant = self.tenant();
        let target = api_keys::table
            .find(prefix)
            .filter(api_keys::organization_id.eq(tenant).and(api_keys::kind.eq(kind.as_str())));
        match self.query(|pg| diesel::delete(target).execute(pg))? {
            0 => Err(Error::NotFound(kind.noun())),
            _ => Ok(()),
        }
    }
}
