//! Blocking on the database without blocking the service: a bounded number of places, a deadline, and answers that are waited for.

use std::any::TypeId;
use std::time::{Duration, Instant};

use actix_web::web;
use billing_domain::store::Reply;
use billing_store::Deadline;
use tokio::sync::oneshot;

use super::App;
use crate::backend::Backend;
use crate::error::{ApiError, codes};
use crate::places::Holder;
use crate::request_id;

/// How long a request waits for one of the places that block on the database.
const BLOCKING_WAIT: Duration = Duration::from_secs(1);
/// The same in company. An organization has few places there, and all of them may wait for a customer's lock, for two seconds at
/// most: calls about other customers of its own go on after that.
const BLOCKING_WAIT_IN_COMPANY: Duration = Duration::from_secs(3);

impl App {
    /// Runs `work` on a blocking thread, once there is a place for `holder`. It ends with the deadline of a request, which
    /// runs while it waits, or when nobody waits for its answer any more.
    ///
    /// # Errors
    /// Those of `work`; [`codes::DB_POOL_EXHAUSTED`] when there is no place for a second (three in company), or when what has waited has less
    /// time left than its kind usually takes: it would run for nothing, and others wait. What need not wait is always
    /// begun, so that what is usual is found out anew.
    pub async fn block<T, W>(&self, holder: Holder, work: W) -> Result<T, ApiError>
    where
        T: Send + 'static,
        W: FnOnce(&dyn Backend) -> Result<T, ApiError> + Send + 'static,
    {
        let (kind, ends_at) = (TypeId::of::<W>(), Instant::now() + self.request_deadline);
        let wait = match self.company.is_company(Instant::now()) {
            true => BLOCKING_WAIT_IN_COMPANY,
            false => BLOCKING_WAIT,
        };
        let place = tokio::time::timeout(wait, self.places.take(holder)).await;
        let Ok(place) = place else { return Err(ApiError::plain(&codes::DB_POOL_EXHAUSTED)) };
        let began = Instant::now();
        if place.has_waited() && !self.usual_times.fits(kind, ends_at.saturating_duration_since(began)) {
            return Err(ApiError::plain(&codes::DB_POOL_EXHAUSTED));
        }
        let backend = self.backend.clone();
        // Dropped with this future, that is when the client has gone.
        let (deadline, _waiting) = Deadline::new(ends_at);
        let request = request_id::carried();
        let done = web::block(move || {
            // Held until the work is done, even when nobody waits for it any more.
            let _place = place;
            request_id::within(request, || deadline.run(|| work(backend.as_ref())))
        });
        let done = done.await.map_err(|_| ApiError::internal("a blocking job panicked"))?;
        self.usual_times.note(kind, began.elapsed());
        done.map_err(|error| self.with_reason(error))
    }

    /// Runs `work` that needs a processor and no database, once there is one for `holder`.
    ///
    /// # Errors
    /// Those of `work`; [`codes::TOO_MANY_IN_FLIGHT`] when there was none before the deadline of a request.
    pub async fn compute<T, W>(&self, holder: Holder, work: W) -> Result<T, ApiError>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, ApiError> + Send + 'static,
    {
        let place = tokio::time::timeout(self.request_deadline, self.processors.take(holder)).await;
        let Ok(place) = place else { return Err(ApiError::plain(&codes::TOO_MANY_IN_FLIGHT)) };
        let request = request_id::carried();
        let done = web::block(move || {
            let _place = place;
            request_id::within(request, work)
        });
        done.await.map_err(|_| ApiError::internal("a blocking job panicked"))?
    }

    /// A database that is gone because its disk is full says nothing itself: this does.
    pub fn with_reason(&self, error: ApiError) -> ApiError {
        let is_gone = error.title() == codes::DB_UNAVAILABLE.text;
        match &self.is_disk_full {
            Some(is_disk_full) if is_gone && is_disk_full() => error.renamed(&codes::STORAGE_UNAVAILABLE),
            _ => error,
        }
    }

    /// What the backend answers once it can, without blocking a thread meanwhile.
    ///
    /// # Errors
    /// Those of the answer.
    pub async fn ask<T: Send + 'static>(&self, ask: impl FnOnce(&dyn Backend, Reply<T>)) -> Result<T, ApiError> {
        let (sender, receiver) = oneshot::channel();
        // Nobody waits any more when the client has gone.
        ask(self.backend.as_ref(), Box::new(move |answer| drop(sender.send(answer))));
        let answer = receiver.await.map_err(|_| ApiError::internal("no answer from the store"))?;
        answer.map_err(|error| self.with_reason(error.into()))
    }

    /// [`App::ask`] for what only reads, and is given up when it takes too long.
    ///
    /// # Errors
    /// As [`App::ask`]; [`codes::DB_POOL_EXHAUSTED`] when there is no answer within `patience`.
    pub async fn ask_within<T: Send + 'static>(
        &self,
        patience: Duration,
        ask: impl FnOnce(&dyn Backend, Reply<T>),
    ) -> Result<T, ApiError> {
        let answer = tokio::time::timeout(patience, self.ask(ask)).await;
        answer.unwrap_or_else(|_| Err(ApiError::plain(&codes::DB_POOL_EXHAUSTED)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{self, Receiver};
    use std::thread;

    use billing_domain::memory::MemoryStore;
    use billing_outbound::{Client, Reach};
    use time::OffsetDateTime;

    use super::*;
    use crate::caller::Pepper;
    use crate::server_settings::ServerSettings;
    use crate::taxes::Taxes;
    use crate::worker::Alarm;

    const DEADLINE: Duration = Duration::from_millis(200);

    fn app() -> App {
        let addr = "127.0.0.1:0".parse().expect("an address");
        let mut settings = ServerSettings::new(addr, Pepper::from_text("pepper"), 1);
        settings.request_deadline = DEADLINE;
        App::new(
            Arc::new(MemoryStore::at(OffsetDateTime::UNIX_EPOCH)),
            &settings,
            Alarm::new().0,
            Arc::new(Taxes::new(Client::new(Reach::Public))),
        )
    }

    /// Work that ends when it is told to.
    async fn hold(app: &App, end: Receiver<()>) -> Result<(), ApiError> {
        let work = app.block(None, move |_| {
            end.recv().unwrap_or_default();
            Ok(())
        });
        work.await
    }

    /// Work that takes longer than there is time; whether it ran.
    async fn slow(app: &App) -> bool {
        let (begun, has_begun) = mpsc::channel();
        let work = app.block(None, move |_| {
            begun.send(()).unwrap_or_default();
            thread::sleep(DEADLINE);
            Ok(())
        });
        drop(work.await);
        has_begun.try_recv().is_ok()
    }

    async fn quick(app: &App) -> bool {
        app.block(None, |_| Ok(true)).await.unwrap_or(false)
    }

    #[actix_web::test]
    async fn what_cannot_end_in_time_is_not_begun_when_it_has_waited() {
        let app = app();
        assert!(slow(&app).await, "nothing is known of its kind");
        assert!(slow(&app).await, "what need not wait is begun");
        let (end, ends) = mpsc::channel();
        let release = async {
            // Polled last, when all of them wait for the only place.
            end.send(()).expect("it is held");
        };
        let (held, slow_ran, quick_ran, ()) = tokio::join!(biased; hold(&app, ends), slow(&app), quick(&app), release);
        assert!(held.is_ok());
        assert!(!slow_ran, "less is left than its kind takes");
        assert!(quick_ran, "another kind is begun");
        assert!(slow(&app).await, "and its own, once nobody is in its way");
    }
}
