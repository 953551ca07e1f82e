//! Keys that callers give to requests, each with the answer that was given.

use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Answer, Claim, KeptAnswer};
use billing_domain::{Error, Refusal, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{Binary, Integer, SmallInt, Text, Uuid as SqlUuid};
use uuid::Uuid;

use crate::pg::column::{count, stored_count, unreadable};
use crate::pg::error::Failure;
use crate::pg::schema::idempotency_keys as keys;
use crate::pg::statement::statement;

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

type Row = (Vec<u8>, Option<i16>, Option<String>);

/// The answer that was given under the key, with the fingerprint of its request.
pub(crate) fn find(
    pg: &mut PgConnection,
    organization: OrganizationId,
    key: &str,
) -> Result<Option<KeptAnswer>, Failure> {
    let row = keys::table.find((organization.uuid(), key)).select((keys::fingerprint, keys::status, keys::answer));
    Ok(row.first(pg).optional()?.map(kept).transpose()?)
}

fn kept(row: Row) -> Result<KeptAnswer, Error> {
    let (fingerprint, Some(status), Some(text)) = row else {
        return Err(unreadable("a key without its answer"));
    };
    Ok(KeptAnswer { fingerprint, answer: Answer { status: count(status)?, text } })
}
