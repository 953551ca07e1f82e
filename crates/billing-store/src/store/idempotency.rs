//! Answers that are kept under the keys of their requests, for those who come again.

use billing_domain::Error;
use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Answer, Claim, IdempotencyStore, KeptAnswer, RETENTION_DAYS};
use billing_domain::store::Reply;
use diesel::prelude::*;
use diesel::sql_types::Integer;

use super::PgStore;
use crate::pg::column::{stored_count, unreadable};
use crate::pg::error::Failure;
use crate::pg::statement::statement;
use crate::repo::idempotency::{AnswerLookup, find, take_key, write_answer};
use crate::reservation::RESOLVED_MAX;

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

impl PgStore {
    /// Finds out what became of transactions of lanes on nodes that have reserved something with the catalogue and were not heard of since:
    /// what is committed is settled, all else is given back. Whether there may be more. Reservations of a lane that does not answer stay.
    ///
    /// # Errors
    /// Those of the catalogue's connections.
    pub fn settle_reservations(&self) -> Result<bool, Error> {
        Ok(self.shared.resolve_old(None).map_err(Failure::into_error)? >= RESOLVED_MAX as usize)
    }
}

impl IdempotencyStore for PgStore {
    fn find_answer(&self, organization: OrganizationId, key: &str) -> Result<Option<KeptAnswer>, Error> {
        self.shared.pool.try_run(|pg| find(pg, organization, key)).map_err(Failure::into_error)
    }

    fn find_answer_then(&self, organization: OrganizationId, key: String, reply: Reply<Option<KeptAnswer>>) {
        self.queues.answers.submit(AnswerLookup { organization, key, reply }, 1);
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
        self.shared.forget_tokens().map_err(Failure::into_error)?;
        u32::try_from(forgotten).map_err(unreadable)
    }
}
