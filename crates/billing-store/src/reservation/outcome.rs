//! What becomes of what was reserved: settled behind the commit, or given back, by whoever comes to it.

use std::thread;
use std::time::{Duration, Instant};

use billing_domain::id::OrganizationId;
use billing_domain::idempotency::{Answer, Claim};
use billing_domain::{Error, Refusal, StoreError};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Integer, Nullable, SmallInt, Text, Uuid as SqlUuid};
use uuid::Uuid;

use super::{Holder, KeyReserved, reserve_key};
use crate::lanes::Lane;
use crate::pg::column::stored_count;
use crate::pg::error::Failure;
use crate::pg::statement::statement;
use crate::shared::Shared;

/// From which age on a reservation is looked at by somebody else, in seconds: a transaction has ended by then, or it fails.
const AGE_SECONDS: i32 = 15;
/// Most reservations that are looked at in one go.
pub(crate) const RESOLVED_MAX: i64 = 200;
/// How long a lane knows of a token that nobody asks about any more, in days.
const TOKEN_DAYS: i32 = 1;

statement! {
    /// Writes a token with how its transaction ends, unless it is there.
    WriteToken -> Integer {
        "INSERT INTO lane_tokens (token, is_given_up, status, answer)
        VALUES (" token: Uuid as SqlUuid; ", " is_given_up: bool as Bool; ", " status: Option<i16> as Nullable<SmallInt>; ", " answer: Option<String> as Nullable<Text>; ")
        ON CONFLICT DO NOTHING"
    }
}

statement! {
    /// How the transaction of a token has ended.
    ReadToken -> (Bool, Nullable<SmallInt>, Nullable<Text>) {
        "SELECT is_given_up, status, answer FROM lane_tokens WHERE token = " token: Uuid as SqlUuid; ""
    }
}

statement! {
    /// Makes what was reserved final.
    Settle -> BigInt {
        "WITH settled AS (
            DELETE FROM lane_reservations WHERE token = " token: Uuid as SqlUuid; " RETURNING *
        ), freed AS (
            DELETE FROM customer_emails email USING settled
            WHERE settled.kind = 'leaving_email' AND email.organization_id = settled.organization_id
                AND email.email = settled.name AND email.customer_key = settled.customer_key
        ), answered AS (
            UPDATE idempotency_keys kept SET status = " status: Option<i16> as Nullable<SmallInt>; ", answer = " answer: Option<String> as Nullable<Text>; "
            FROM settled
            WHERE settled.kind = 'idempotency_key' AND kept.organization_id = settled.organization_id AND kept.key = settled.name
        )
        SELECT count(*) FROM settled"
    }
}

statement! {
    /// Gives back what was reserved.
    GiveBack -> BigInt {
        "WITH returned AS (
            DELETE FROM lane_reservations WHERE token = " token: Uuid as SqlUuid; " RETURNING *
        ), freed AS (
            DELETE FROM customer_emails email USING returned
            WHERE returned.kind = 'email' AND email.organization_id = returned.organization_id
                AND email.email = returned.name AND email.customer_key = returned.customer_key
        ), unnumbered AS (
            DELETE FROM invoice_numbers number USING returned
            WHERE returned.kind = 'invoice_number' AND number.organization_id = returned.organization_id AND number.number = returned.name
        ), numbers AS (
            INSERT INTO returned_numbers (organization_id, kind, sequence)
            SELECT organization_id, kind, sequence FROM returned WHERE kind IN ('invoice_number', 'credit_note_number')
        ), unanswered AS (
            DELETE FROM idempotency_keys kept USING returned
            WHERE returned.kind = 'idempotency_key' AND kept.organization_id = returned.organization_id AND kept.key = returned.name
                AND kept.status IS NULL
        )
        SELECT count(*) FROM returned"
    }
}

statement! {
    /// The reservations that nobody has settled for a while, the oldest first.
    FindOld -> (SmallInt, SqlUuid) {
        "SELECT lane_number, token FROM lane_reservations
        WHERE reserved_at < statement_timestamp() - make_interval(secs => " seconds: i32 as Integer; ")
        GROUP BY lane_number, token ORDER BY min(reserved_at)
        LIMIT " limit: i64 as BigInt; ""
    }
}

statement! {
    /// Those of other transactions that are about a customer.
    FindOthers -> SqlUuid {
        "SELECT DISTINCT token FROM lane_reservations
        WHERE organization_id = " organization: Uuid as SqlUuid; " AND customer_key = " customer: Uuid as SqlUuid; "
            AND token <> " token: Uuid as SqlUuid; ""
    }
}

statement! {
    /// Tokens of a lane that nobody has settled.
    FindOfLane -> SqlUuid { "SELECT DISTINCT token FROM lane_reservations WHERE lane_number = " lane: i16 as SmallInt; "" }
}

statement! {
    /// Forgets tokens that are old and that nobody asks about.
    ForgetTokens -> Integer {
        "DELETE FROM lane_tokens
        WHERE noted_at < statement_timestamp() - make_interval(days => " days: i32 as Integer; ")
            AND token <> ALL (" but: Vec<Uuid> as Array<SqlUuid>; ")"
    }
}

/// Writes the token of a transaction that is about to be committed into its lane; with the answer, where a key was reserved.
///
/// # Errors
/// [`StoreError::Unavailable`] when the transaction was given up meanwhile: it took too long.
pub(crate) fn write_token(pg: &mut PgConnection, token: Uuid, answer: Option<&Answer>) -> Result<(), Failure> {
    let status = answer.map(|answer| stored_count(answer.status)).transpose()?;
    let answer = answer.map(|answer| answer.text.clone());
    match (WriteToken { token, is_given_up: false, status, answer }).execute(pg)? {
        0 => {
            Err(StoreError::Unavailable("what a transaction had reserved was given up before its end".to_owned())
                .into())
        }
        _ => Ok(()),
    }
}

/// What the attempts at one transaction have reserved: each under a token of its own, and what one of them did not come to is given
/// back before the next.
pub(crate) struct Reserved<'s> {
    shared: &'s Shared,
    lane: Option<&'s Lane>,
    token: Option<Uuid>,
    is_taken_back: bool,
}

impl<'s> Reserved<'s> {
    pub(crate) fn new(shared: &'s Shared, lane: Option<&'s Lane>) -> Self {
        Self { shared, lane, token: None, is_taken_back: false }
    }

    /// Gives back what the last attempt has reserved, of which nothing is left.
    ///
    /// # Errors
    /// As [`Shared::resolve`].
    pub(crate) fn begin(&mut self) -> Result<(), Failure> {
        match (self.lane, self.token.take()) {
            (Some(lane), Some(token)) => self.shared.resolve(lane, token),
            _ => Ok(()),
        }
    }

    /// Remembers what an attempt has reserved, and whether its work was taken back although the transaction goes on.
    pub(crate) fn note(&mut self, holder: Option<Holder>, is_taken_back: bool) {
        (self.token, self.is_taken_back) = (holder.map(|holder| holder.token), is_taken_back);
    }

    /// Settles what the last attempt has reserved if it is known to be committed, and otherwise finds out.
    pub(crate) fn end(mut self, is_committed: bool) {
        let (Some(lane), Some(token)) = (self.lane, self.token.take()) else { return };
        if is_committed && !self.is_taken_back {
            self.shared.settle(token, None);
        } else {
            self.shared.resolve_or_leave(lane, token);
        }
    }
}

/// How long a key is waited for that a twin has who is at work: as long as for its row.
const TWIN_MAX: Duration = Duration::from_secs(2);
/// How long between two looks at it.
const TWIN_LOOK_EVERY: Duration = Duration::from_millis(20);

impl Shared {
    /// Reserves the key of a request for a transaction of a lane on a node; a twin who is at work is waited for.
    ///
    /// # Errors
    /// [`Refusal::IdempotencyKeyInUse`]; those of home's connections.
    pub(crate) fn reserve_claim(
        &self,
        lane: &Lane,
        organization: OrganizationId,
        claim: &Claim,
    ) -> Result<Holder, Failure> {
        let (holder, begun) = (Holder::new(lane, organization), Instant::now());
        loop {
            let reserved =
                self.lanes.home.transact(|home| Ok(reserve_key(home, &holder, &claim.key, &claim.fingerprint)?));
            match reserved {
                Ok(KeyReserved::Taken) => return Ok(holder),
                Ok(KeyReserved::InDoubt) if begun.elapsed() < TWIN_MAX => thread::sleep(TWIN_LOOK_EVERY),
                Ok(_) => return Err(Error::from(Refusal::IdempotencyKeyInUse).into()),
                Err(failure) => {
                    // Perhaps it was taken.
                    self.resolve_or_leave(lane, holder.token);
                    return Err(failure);
                }
            }
        }
    }

    /// Settles what a transaction has reserved that is known to be committed. Where home does not answer, somebody does it later.
    pub(crate) fn settle(&self, token: Uuid, answer: Option<&Answer>) {
        if let Err(failure) = self.try_settle(token, answer) {
            log::info!("a reservation is settled later: {}", failure.into_error());
        }
    }

    fn try_settle(&self, token: Uuid, answer: Option<&Answer>) -> Result<(), Failure> {
        let status = answer.map(|answer| stored_count(answer.status)).transpose()?;
        let settle = Settle { token, status, answer: answer.map(|answer| answer.text.clone()) };
        self.lanes.home.transact_again(|pg| Ok(settle.clone().get_result::<i64>(pg).map(drop)?))
    }

    /// Finds out what became of the transaction of a token, waiting for one that is on its way, and settles or gives back what it
    /// had reserved.
    ///
    /// # Errors
    /// Those of the lane's connections and of home's; then nothing has changed.
    pub(crate) fn resolve(&self, lane: &Lane, token: Uuid) -> Result<(), Failure> {
        let (is_given_up, status, answer) = self.lanes.with(lane, |lane| {
            lane.worker_pool.transact_again(|pg| {
                let give_up = WriteToken { token, is_given_up: true, status: None, answer: None };
                give_up.execute(pg)?;
                Ok(ReadToken { token }.get_result::<(bool, Option<i16>, Option<String>)>(pg)?)
            })
        })?;
        self.lanes.home.transact_again(|pg| {
            let done: QueryResult<i64> = match is_given_up {
                true => GiveBack { token }.get_result(pg),
                false => Settle { token, status, answer: answer.clone() }.get_result(pg),
            };
            Ok(done.map(drop)?)
        })
    }

    /// [`Shared::resolve`], where it may as well be done later.
    pub(crate) fn resolve_or_leave(&self, lane: &Lane, token: Uuid) {
        if let Err(failure) = self.resolve(lane, token) {
            log::info!("a reservation is looked at later: {}", failure.into_error());
        }
    }

    /// Resolves what other transactions had reserved for a customer whose lock the caller holds, so that they have ended.
    ///
    /// # Errors
    /// As [`Shared::resolve`].
    pub(crate) fn resolve_others(&self, lane: &Lane, holder: &Holder, customer: Uuid) -> Result<(), Failure> {
        let find = FindOthers { organization: holder.organization, customer, token: holder.token };
        let others: Vec<Uuid> = self.lanes.home.run(|pg| find.clone().load(pg))?;
        others.into_iter().try_for_each(|token| self.resolve(lane, token))
    }

    /// Resolves reservations that nobody has settled for a while; how many. Those of a lane that does not answer stay as they are.
    ///
    /// # Errors
    /// Those of home's connections.
    pub(crate) fn resolve_old(&self, age_seconds: Option<u32>) -> Result<usize, Failure> {
        if !self.lanes.have_nodes() && !self.pool.run(|pg| self.lanes.look_for_nodes(pg))? {
            return Ok(0);
        }
        let seconds = age_seconds.map_or(Ok(AGE_SECONDS), stored_count)?;
        let find = FindOld { seconds, limit: RESOLVED_MAX };
        let old: Vec<(i16, Uuid)> = self.lanes.home.run(|pg| find.clone().load(pg))?;
        let (mut resolved, mut silent) = (0, Vec::new());
        for (number, token) in old {
            let Some(lane) = usize::try_from(number).ok().and_then(|number| self.lanes.all().nth(number)) else {
                continue;
            };
            if silent.contains(&number) {
                continue;
            }
            match self.resolve(lane, token) {
                Ok(()) => resolved += 1,
                Err(failure) => {
                    log::warn!("reservations of lane {number} stay as they are: {}", failure.into_error());
                    silent.push(number);
                }
            }
        }
        Ok(resolved)
    }

    /// Forgets how transactions of lanes on nodes have ended, long after anybody could ask.
    ///
    /// # Errors
    /// Those of the connections.
    pub(crate) fn forget_tokens(&self) -> Result<(), Failure> {
        for lane in self.lanes.all().filter(|lane| lane.replica.is_some()) {
            let find = FindOfLane { lane: lane.row_number() };
            let but: Vec<Uuid> = self.lanes.home.run(|pg| find.clone().load(pg))?;
            let forget = ForgetTokens { days: TOKEN_DAYS, but };
            self.lanes.with(lane, |lane| lane.worker_pool.run(|pg| forget.clone().execute(pg)))?;
        }
        Ok(())
    }
}
