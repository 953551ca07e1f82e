//! Work in transactions: whose key they look at, what they note in the audit log, and that they run again for a tax rate they need.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use billing_domain::customer::CustomerId;
use billing_domain::id::{CustomerKey, OrganizationId};
use billing_domain::store::{ApprovedTransaction, Scope, Store, Transaction};
use billing_domain::workflow::{RequestApproval, request_approval};
use billing_domain::{Error, StoreError, TaxNeed};
use serde::Serialize;
use time::OffsetDateTime;
use tokio::sync::oneshot;

use super::App;
use crate::approval_view::ApprovalView;
use crate::caller::{Bearer, Pending};
use crate::error::{ApiError, WAITING_STATUS};
use crate::noted_call::{Call, Maker};
use crate::request_id;
use crate::taxes::{self, Attempt, NotAsked};

impl App {
    /// Runs `work` in a transaction, again for every tax rate that it needs first.
    ///
    /// # Errors
    /// Those of `work` and of the store.
    pub async fn run<T: Send + 'static>(
        &self,
        scope: Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let organization = scope.organization();
        let work = Arc::new(Mutex::new(work));
        self.asking_tax(organization, || {
            let (again, scope) = (Arc::clone(&work), scope);
            self.block(Some(organization), move |backend| {
                let store: &dyn Store = backend;
                Ok(store.run_for(&scope, &mut *lock(&again)?)?)
            })
        })
        .await
    }

    /// [`App::run`] for somebody, whose key the transaction looks at unless that has been done.
    ///
    /// # Errors
    /// As [`App::run`]; [`codes::NOT_AUTHENTICATED`] for a key that is not valid any more.
    async fn run_for<T: Send + 'static>(
        &self,
        who: &Bearer,
        scope: Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Some(key) = who.fingerprint() else { return self.run(scope, work).await };
        let organization = scope.organization();
        let work = Arc::new(Mutex::new(work));
        let done = self.asking_tax(organization, || {
            let (again, key, scope) = (Arc::clone(&work), key.clone(), scope);
            self.block(Some(organization), move |backend| {
                let store: &dyn Store = backend;
                Ok(store.run_for_key(&scope, Some(&key), &mut *lock(&again)?)?)
            })
        });
        let value = done.await?;
        who.was_confirmed();
        Ok(value)
    }

    /// [`App::run_for`] of work whose result is the answer: once for all requests with the caller's `Idempotency-Key`, with an entry in
    /// the audit log.
    ///
    /// # Errors
    /// As [`App::run_for`].
    async fn write<T: Serialize + Send + 'static>(
        &self,
        who: &Bearer,
        scope: Scope,
        mut work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let Some(call) = who.call() else { return self.write_once(who, scope, work).await };
        let (maker, show, making) = (maker_of(who), self.show, call.clone());
        let noted = move |tx: &mut dyn Transaction, now: OffsetDateTime| match &maker.approved {
            None => making.note(tx, show, &maker, (&scope, now), &mut work),
            Some(approved) => {
                let tx = &mut ApprovedTransaction::new(tx, approved.clone());
                making.note(tx, show, &maker, (&scope, now), &mut work)
            }
        };
        match self.write_once(who, scope, noted).await {
            Err(error) if error.held().is_some() => Err(self.ask_second_person(who, &call, error).await),
            done => done,
        }
    }

    /// Keeps a call that one person may not make alone, of which nothing was done, for another to decide about. What it is answered is
    /// the request that was made of it; sent again with the same `Idempotency-Key`, it is answered the same.
    async fn ask_second_person(&self, who: &Bearer, call: &Call, refused: ApiError) -> ApiError {
        let (Some(held), Some(call_held)) = (refused.held().cloned(), call.held().cloned()) else { return refused };
        let maker = maker_of(who);
        let command = RequestApproval { call: call_held, held, by: maker.actor.clone() };
        let scope = Scope::Catalog(who.organization());
        let call = call.clone();
        let request = move |tx: &mut dyn Transaction, now: OffsetDateTime| {
            let (approval, is_new) = request_approval(tx, &command, now)?;
            let view = ApprovalView::new(&approval, now);
            let text = serde_json::to_string(&view).map_err(|error| StoreError::Internal(error.to_string()))?;
            if is_new {
                call.note_request(tx, &maker, approval.id.to_string(), text)?;
            }
            Ok(view)
        };
        let waiting = who.claim().map(|claim| claim.answered_with(WAITING_STATUS));
        let kept = match waiting {
            None => self.run_for(who, scope, request).await,
            Some(claim) => self.run_claimed(Arc::new(claim), scope, request).await,
        };
        let answer = kept.and_then(|view| serde_json::to_string(&view).map_err(ApiError::internal));
        answer.map_or_else(|error| error, ApiError::waiting)
    }

    /// [`App::write`] without a note in the audit log.
    ///
    /// # Errors
    /// As [`App::run_for`].
    async fn write_once<T: Serialize + Send + 'static>(
        &self,
        who: &Bearer,
        scope: Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        match who.claim() {
            None => self.run_for(who, scope, work).await,
            Some(claim) => self.run_claimed(claim, scope, work).await,
        }
    }

    /// Work that is done once for all requests with a key.
    ///
    /// # Errors
    /// As [`App::run_for`].
    async fn run_claimed<T: Serialize + Send + 'static>(
        &self,
        claim: Arc<Pending>,
        scope: Scope,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let organization = scope.organization();
        let work = Arc::new(Mutex::new(work));
        self.asking_tax(organization, || {
            let (again, claim, scope) = (Arc::clone(&work), claim.clone(), scope);
            let request_id = request_id::current();
            self.block(Some(organization), move |backend| claim.run(backend, &scope, &request_id, &mut *lock(&again)?))
        })
        .await
    }

    /// What `run` comes to, run again for every tax rate that it needs first.
    async fn asking_tax<T, R>(&self, organization: OrganizationId, run: impl Fn() -> R) -> Result<T, ApiError>
    where
        R: Future<Output = Result<T, ApiError>>,
    {
        let mut attempt = Attempt::within(self.request_deadline);
        loop {
            let done = run().await;
            if let Some(done) = self.settled(organization, done, &mut attempt).await {
                return done;
            }
        }
    }

    /// What came of a transaction; `None` when it needed a tax rate that by now was asked for, without a place, and noted.
    async fn settled<T>(
        &self,
        organization: OrganizationId,
        done: Result<T, ApiError>,
        attempt: &mut Attempt,
    ) -> Option<Result<T, ApiError>> {
        let need = match &done {
            Err(error) => error.tax_need().filter(|need| attempt.goes_on(need)).cloned(),
            Ok(_) => None,
        };
        let Some(need) = need else { return Some(done) };
        // Apart, since it is rare, and what it needs would be room that is moved about for every call.
        Box::pin(self.find_tax_rate(organization, need, attempt)).await.err().map(Err)
    }

    /// Asks for a tax rate, and notes the answer with the customer. When it is not asked nothing is noted, and the call is done.
    async fn find_tax_rate(
        &self,
        organization: OrganizationId,
        need: TaxNeed,
        attempt: &mut Attempt,
    ) -> Result<(), ApiError> {
        let needed = need.clone();
        let question =
            self.block(Some(organization), move |backend| Ok(taxes::read_question(backend, organization, &needed)?));
        let Some(question) = question.await? else {
            attempt.give_up();
            return Ok(());
        };
        let not_asked = |why: NotAsked| ApiError::from(Error::TaxRate(why.of(&need)));
        let slot = self.taxes.slot(&question, attempt.can_wait()).await.map_err(not_asked)?;
        let (sender, receiver) = oneshot::channel();
        let (taxes, asked) = (Arc::clone(&self.taxes), question.clone());
        // A thread of its own: those that block on the database are as many as it has connections.
        let asking = thread::Builder::new().name("tax-rate".to_owned());
        let request = request_id::carried();
        let ask = move || {
            // The next may ask when this one is done, even when nobody waits for it any more.
            let _slot = slot;
            drop(sender.send(request_id::within(request, || taxes.ask(&asked))));
        };
        asking.spawn(ask).map_err(ApiError::internal)?;
        let answer = receiver.await.map_err(|_| ApiError::internal("no answer from a tax provider"))?;
        let answer = answer.map_err(not_asked)?;
        attempt.note(&answer);
        self.block(Some(organization), move |backend| Ok(taxes::note_answer(backend, &question, &answer)?)).await
    }

    /// Work alone on one customer that is undone, whatever it comes to: what it answers is what would be.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn try_on_customer_key<T: Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        customer: CustomerKey,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        let (organization, key) = (who.organization(), who.fingerprint());
        let scope = Scope::Customer(organization, customer);
        let work = Arc::new(Mutex::new(work));
        self.asking_tax(organization, || {
            let (again, key, scope) = (Arc::clone(&work), key.clone(), scope);
            self.block(Some(organization), move |backend| {
                let store: &dyn Store = backend;
                Ok(store.try_for_key(&scope, key.as_ref(), &mut *lock(&again)?)?)
            })
        })
        .await
    }

    /// Work that reads.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn read<T: Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        self.run_for(&who, Scope::Organization(who.organization()), work).await
    }

    /// Work that reads about one customer, at the customer's own now.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn read_customer<T: Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        customer: &CustomerId,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        let organization = who.organization();
        let scope = Scope::CustomerReading(organization, CustomerKey::derive(organization, customer));
        self.run_for(&who, scope, work).await
    }

    /// Work alone on the catalogue, whose result is the answer.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn on_catalog<T: Serialize + Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        self.write(&who, Scope::Catalog(who.organization()), work).await
    }

    /// Work alone on one customer, whose result is the answer.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn on_customer<T: Serialize + Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        customer: &CustomerId,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        self.write(&who, customer_scope(who.organization(), customer), work).await
    }

    /// Work alone on a customer whose key was looked up; its result is the answer.
    ///
    /// # Errors
    /// As [`App::run`].
    pub async fn on_customer_key<T: Serialize + Send + 'static>(
        &self,
        who: impl Into<Bearer>,
        customer: CustomerKey,
        work: impl FnMut(&mut dyn Transaction, OffsetDateTime) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ApiError> {
        let who = who.into();
        self.write(&who, Scope::Customer(who.organization(), customer), work).await
    }
}

/// Who makes the call at hand.
fn maker_of(who: &Bearer) -> Maker {
    let actor = who.last_known().actor.clone();
    Maker { actor, request_id: request_id::current(), approved: who.approved() }
}

/// Work that may have to be done again; a panic in it ends the request.
fn lock<W>(work: &Mutex<W>) -> Result<MutexGuard<'_, W>, ApiError> {
    work.lock().map_err(|_| ApiError::internal("a blocking job panicked"))
}

/// The scope of one customer.
fn customer_scope(organization: OrganizationId, customer: &CustomerId) -> Scope {
    Scope::Customer(organization, CustomerKey::derive(organization, customer))
}
