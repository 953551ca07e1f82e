//! Keys that callers give to requests, each with the answer that was given.

use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Answer, Claim, IdempotencyStore, KeptAnswer, RETENTION_DAYS};
use billing_domain::{Error, Refusal, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{Binary, Integer, SmallInt, Text, Uuid as SqlUuid};
use uuid::Uuid;

use crate::pg::column::{count, stored_count, unreadable};
use crate::pg::error::Failure;
use crate::pg::schema::idempotency_keys as keys;
use crate::pg::statement::statement;
use crate::store::PgStore;

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

statement! {
    /// Drops answers that are old, oldest first.
    ForgetAnswers -> Integer {
        "WITH old AS MATERIALIZED (
            SELECT organization_id, key FROM idempotency_keys
            WHERE created_at < statement_timestamp() - make_interval(days => " days: i32 as Integer; ")
            ORDER BY created_at
            LIMIT " limit: i32 as Integer; "
        )
        DELETE FROM idempotency_keys kept USING old
        WHERE kept.organization_id = old.organization_id AND kept.key = old.key"
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

type Row = (Vec<u8>, Option<i16>, Option<String>);

fn find(pg: &mut PgConnection, organization: OrganizationId, key: &str) -> QueryResult<Option<Row>> {
    let row = keys::table.find((organization.uuid(), key)).select((keys::fingerprint, keys::status, keys::answer));
    row.first(pg).optional()
}

fn kept(row: Row) -> Result<KeptAnswer, Error> {
    let (fingerprint, Some(status), Some(text)) = row else {
        return Err(unreadable("a key without its answer"));
    };
    Ok(KeptAnswer { fingerprint, answer: Answer { status: count(status)?, text } })
}

impl IdempotencyStore for PgStore {
    fn find_answer(&self, organization: OrganizationId, key: &str) -> Result<Option<KeptAnswer>, Error> {
        let row = self.shared.pool.run(|pg| find(pg, organization, key)).map_err(Failure::into_error)?;
        row.map(kept).transpose()
    }

    fn keep_answer(&self, organization: OrganizationId, claim: &Claim, answer: &Answer) -> Result<KeptAnswer, Error> {
        let kept_now = self.shared.pool.transact(|pg| {
            take_key(pg, organization, claim)?;
            write_answer(pg, organization, claim, answer)
        });
        let in_use = match kept_now.map_err(Failure::into_error) {
            Ok(()) => return Ok(KeptAnswer { fingerprint: claim.fingerprint.clone(), answer: answer.clone() }),
            Err(in_use @ Error::Refused(_)) => in_use,
            Err(error) => return Err(error),
        };
        // A twin has it: what that was answered, unless it is still at work.
        self.find_answer(organization, &claim.key)?.ok_or(in_use)
    }

    fn forget_answers(&self, limit: u32) -> Result<u32, Error> {
        let statement = ForgetAnswers { days: stored_count(RETENTION_DAYS)?, limit: stored_count(limit)? };
        let forgotten = self.shared.pool.run(|pg| statement.clone().execute(pg)).map_err(Failure::into_error)?;
        u32::try_from(forgotten).map_err(unreadable)
    }
}
