//! Running work: alone in its scope, at the instant that holds there, again when another transaction was in the way.

mod enter;

use billing_domain::Error;
use billing_domain::api_key::Fingerprint;
use billing_domain::idempotency::{Answer, Attempt, Claim};
use billing_domain::store::{ClaimedWork, Scope, Work};
use diesel::connection::SimpleConnection;

use self::enter::enter;
use crate::custom_sql::{Attempts, Budget};
use crate::lanes::Lane;
use crate::over_lanes::OverLanes;
use crate::pg::error::Failure;
use crate::pg::transact::Isolation;
use crate::repo::idempotency;
use crate::reservation::{Reserved, write_token};
use crate::shared::Shared;
use crate::transaction::{Deeds, PgTransaction};

impl Shared {
    /// Runs work in a transaction, alone in its scope; for whoever comes with a `key` only while that is valid.
    pub(crate) fn run_work(&self, scope: &Scope, key: Option<&Fingerprint>, work: &mut Work<'_>) -> Result<(), Error> {
        let done = self.where_it_is(scope, |lane| self.run_work_in(lane, scope, key, work));
        let brought_forward = self.told(scope, done)?;
        if let Some(minutes) = brought_forward {
            self.bring_forward_again(scope.organization().uuid(), minutes);
        }
        Ok(())
    }

    /// Does something in the scope's lane, wherever that is; `None`: the scope is about customers of several.
    fn where_it_is<T>(
        &self,
        scope: &Scope,
        mut work: impl FnMut(Option<&Lane>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match self.lane_of(scope) {
            Some(lane) => self.lanes.with(lane, |lane| work(Some(lane))),
            None => work(None),
        }
    }

    /// [`Shared::run_work`] where its lane is; what it did, and by how many minutes it has moved queued billing ahead.
    fn run_work_in(
        &self,
        lane: Option<&Lane>,
        scope: &Scope,
        key: Option<&Fingerprint>,
        work: &mut Work<'_>,
    ) -> Result<(Option<i64>, Deeds), Failure> {
        let (isolation, custom_budget) = match scope {
            // Statements after the lock see what its last holder committed.
            Scope::Customer(..) | Scope::Catalog(_) => (Isolation::ReadCommitted, None),
            // Somebody waits for all of it at once.
            Scope::Organization(_) | Scope::CustomerReading(..) => (Isolation::OneSnapshot, Some(Budget::of_call())),
        };
        let attempts = Attempts::default();
        let pool = lane.map_or(&self.pool, |lane| &lane.pool);
        let mut brought_forward = None;
        // A lane is seen later than the catalogue: what it names must be found then.
        let isolation = if lane.is_some() { isolation } else { Isolation::ReadCommitted };
        let mut deeds = Deeds::default();
        let mut reserved = Reserved::new(self, lane);
        let result = pool.transact_at(isolation, |pg| {
            attempts.expect_another()?;
            reserved.begin()?;
            let entered = enter(pg, scope, key)?;
            let entered = if lane.is_some() { entered } else { entered.reading_the_catalog() };
            let now = entered.now;
            let mut tx = PgTransaction::new(pg, self, scope.organization(), lane).with_custom_budget(custom_budget);
            let mut inner = entered.transaction(&mut tx);
            let worked = match lane {
                Some(_) => work(&mut inner, now),
                None => work(&mut OverLanes::new(inner), now),
            };
            let result = worked.and_then(|()| tx.write_deferred()).and_then(|()| tx.write_token());
            reserved.note(tx.holder(), false);
            (deeds, brought_forward) = (std::mem::take(&mut tx.deeds), tx.brought_forward);
            attempts.note(tx.has_run_custom(), tx.verdict(result))
        });
        reserved.end(result.is_ok());
        result.map(|()| (brought_forward, deeds))
    }

    /// What became of a transaction; what it did is told if it was committed.
    fn told<T>(&self, scope: &Scope, result: Result<(T, Deeds), Failure>) -> Result<T, Error> {
        let (done, deeds) = result.map_err(Failure::into_error)?;
        self.messages.ring_if(deeds.has_told);
        self.messages.ring_for_marks_if(deeds.has_marked);
        deeds.tell(scope.organization(), &self.issued);
        Ok(done)
    }

    /// The key's row first, so that a twin waits before it takes any other lock; then the scope's lock; the work in
    /// a savepoint, so that the answer of a refusal can be kept without its effects. For a lane on a node the key is reserved at home
    /// instead, and the answer stands in the lane until that is settled.
    pub(crate) fn run_claimed(&self, scope: &Scope, claim: &Claim, work: &mut ClaimedWork<'_>) -> Result<(), Error> {
        // What was reserved for a lane that has moved is given back there before it is reserved again.
        let done = self.where_it_is(scope, |lane| self.run_claimed_in(lane, scope, claim, work));
        self.told(scope, done.map(|deeds| ((), deeds)))
    }

    /// [`Shared::run_claimed`] where its lane is; what it did.
    fn run_claimed_in(
        &self,
        lane: Option<&Lane>,
        scope: &Scope,
        claim: &Claim,
        work: &mut ClaimedWork<'_>,
    ) -> Result<Deeds, Failure> {
        let organization = scope.organization();
        let attempts = Attempts::default();
        let pool = lane.map_or(&self.pool, |lane| &lane.pool);
        let away = lane.filter(|lane| lane.replica.is_some());
        let key = away.map(|lane| self.reserve_claim(lane, organization, claim)).transpose()?;
        let mut deeds = Deeds::default();
        let mut reserved = Reserved::new(self, lane);
        let result = pool.transact(|pg| {
            attempts.expect_another()?;
            reserved.begin()?;
            if key.is_none() {
                idempotency::take_key(pg, organization, claim)?;
            }
            let entered = enter(pg, scope, None)?;
            let now = entered.now;
            pg.batch_execute("SAVEPOINT work")?;
            let mut tx = PgTransaction::new(pg, self, organization, lane);
            let mut inner = entered.transaction(&mut tx);
            let attempt = match lane {
                Some(_) => work(&mut inner, now),
                None => work(&mut OverLanes::new(inner), now),
            };
            let has_run_custom = tx.has_run_custom();
            let (answer, done) = attempts.note(has_run_custom, answer_of(tx, attempt, &mut reserved))?;
            deeds = done;
            match &key {
                Some(holder) => write_token(pg, holder.token, Some(&answer))?,
                None => idempotency::write_answer(pg, organization, claim, &answer)?,
            }
            Ok(answer)
        });
        reserved.end(result.is_ok());
        if let (Some(lane), Some(key)) = (lane, key) {
            match &result {
                Ok(answer) => self.settle(key.token, Some(answer)),
                Err(_) => self.resolve_or_leave(lane, key.token),
            }
        }
        result.map(|_| deeds)
    }
}

/// The answer that claimed work ended with, and what it did; its effects are taken back where they are not to stay.
fn answer_of(
    mut tx: PgTransaction<'_>,
    attempt: Result<Attempt, Error>,
    reserved: &mut Reserved<'_>,
) -> Result<(Answer, Deeds), Failure> {
    let is_taken_back = matches!(attempt, Ok(Attempt::Refused(_)));
    let attempt = attempt.and_then(|attempt| match attempt {
        Attempt::Done(_) => tx.write_deferred().and_then(|()| tx.write_token()).map(|()| attempt),
        Attempt::Refused(_) => Ok(attempt),
    });
    reserved.note(tx.holder(), is_taken_back);
    match attempt {
        Ok(Attempt::Done(answer)) => {
            let deeds = std::mem::take(&mut tx.deeds);
            tx.verdict(Ok((answer, deeds)))
        }
        Ok(Attempt::Refused(answer)) => tx.take_back().map(|()| (answer, Deeds::default())),
        Err(error) => tx.verdict(Err(error)),
    }
}
