//! Keys that callers give to requests, each with the answer that was given.

use std::collections::{BTreeMap, BTreeSet};

use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Answer, Claim, KeptAnswer};
use billing_domain::store::Reply;
use billing_domain::{Error, Refusal, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{Binary, Integer, SmallInt, Text, Uuid as SqlUuid};
use uuid::Uuid;

use crate::batcher::{BatchBudget, Job, PartsMax};
use crate::pg::column::{count, stored_count, unreadable};
use crate::pg::error::Failure;
use crate::pg::schema::idempotency_keys as keys;
use crate::pg::statement::statement;
use crate::shared::Shared;

statement! {
    /// Takes a key that nobody has. Waits while a twin that has it is at work.
    TakeKey -> Integer {
        "INSERT INTO idempotency_keys (organization_id, key, fingerprint)
        VALUES (" organization: Uuid as SqlUuid; ", " key: String as Text; ", " fingerprint: Vec<u8> as Binary; ")
        ON CONFLICT DO NOTHING"
    }
}

statement! {
    /// Writes the answer under a key that was taken in the same transaction.
    WriteAnswer -> Integer {
        "UPDATE idempotency_keys SET status = " status: i16 as SmallInt; ", answer = " answer: String as Text; "
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND key = " key: String as Text; ""
    }
}

/// Takes the key for the transaction, before any other lock.
pub(crate) fn take_key(pg: &mut PgConnection, organization: OrganizationId, claim: &Claim) -> Result<(), Failure> {
    let (key, fingerprint) = (claim.key.clone(), claim.fingerprint.clone());
    let taken = TakeKey { organization: organization.uuid(), key, fingerprint }.execute(pg);
    match taken.map_err(Failure::from) {
        Ok(0) | Err(Failure::Final(Error::Store(StoreError::LockTimeout))) => {
            Err(Error::from(Refusal::IdempotencyKeyInUse).into())
        }
        taken => taken.map(drop),
    }
}

/// Writes the answer under the key that the transaction has taken.
pub(crate) fn write_answer(
    pg: &mut PgConnection,
    organization: OrganizationId,
    claim: &Claim,
    answer: &Answer,
) -> Result<(), Failure> {
    let status = stored_count(answer.status)?;
    let (organization, key) = (organization.uuid(), claim.key.clone());
    WriteAnswer { status, answer: answer.text.clone(), organization, key }.execute(pg)?;
    Ok(())
}

/// A key's answer.
#[derive(Clone, Queryable, Selectable)]
#[diesel(table_name = keys)]
struct AnswerRow {
    key: String,
    fingerprint: Vec<u8>,
    status: Option<i16>,
    answer: Option<String>,
}

impl AnswerRow {
    /// The answer; `None`: the key is reserved, and whoever has it is not known to have been answered.
    fn kept(self) -> Result<Option<KeptAnswer>, Error> {
        match (self.status, self.answer) {
            (Some(status), Some(text)) => {
                let answer = Answer { status: count(status)?, text };
                Ok(Some(KeptAnswer { fingerprint: self.fingerprint, answer }))
            }
            (None, None) => Ok(None),
            _ => Err(unreadable("a key with half an answer")),
        }
    }
}

/// The answer that was given under the key, with the fingerprint of its request.
pub(crate) fn find(
    pg: &mut PgConnection,
    organization: OrganizationId,
    key: &str,
) -> Result<Option<KeptAnswer>, Failure> {
    let row = keys::table.find((organization.uuid(), key)).select(AnswerRow::as_select());
    let row: Option<AnswerRow> = row.first(pg).optional()?;
    Ok(row.map_or(Ok(None), AnswerRow::kept)?)
}

/// A look-up of the answer under a key.
pub(crate) struct AnswerLookup {
    pub(crate) organization: OrganizationId,
    pub(crate) key: String,
    pub(crate) reply: Reply<Option<KeptAnswer>>,
}

/// Most look-ups in one statement.
const LOOKUPS_MAX: PartsMax = PartsMax { alone: 200, in_company: 16 };

impl Job for AnswerLookup {
    fn organization(&self) -> Option<OrganizationId> {
        Some(self.organization)
    }

    fn joins_batch(&self, _: &Self, budget: &mut BatchBudget) -> bool {
        budget.take(1, LOOKUPS_MAX)
    }

    fn refuse(self, error: Error) {
        (self.reply)(Err(error));
    }
}

/// Answers all look-ups of one organization by one statement, which begins after each of them was asked for.
pub(crate) fn serve(shared: &Shared, jobs: Vec<AnswerLookup>) {
    let Some(organization) = jobs.first().map(|job| job.organization.uuid()) else { return };
    let wanted: BTreeSet<&str> = jobs.iter().map(|job| job.key.as_str()).collect();
    let found = shared.worker_pool.run(|pg| {
        let rows = keys::table.filter(keys::organization_id.eq(organization)).filter(keys::key.eq_any(&wanted));
        rows.select(AnswerRow::as_select()).load(pg)
    });
    let found: Result<BTreeMap<String, AnswerRow>, Error> = match found {
        Ok(rows) => Ok(rows.into_iter().map(|row| (row.key.clone(), row)).collect()),
        Err(failure) => Err(failure.into_error()),
    };
    for job in jobs {
        let answer = match &found {
            Ok(found) => found.get(&job.key).cloned().map_or(Ok(None), AnswerRow::kept),
            Err(error) => Err(error.clone()),
        };
        (job.reply)(answer);
    }
}
