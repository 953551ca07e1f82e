//! Waking workers and sending them home.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A bell that wakes a worker.
#[derive(Clone)]
pub struct Alarm(Arc<Mutex<Option<SyncSender<()>>>>);

/// What a worker hears its bell with.
pub struct Ear(Receiver<()>);

impl Alarm {
    /// A bell and the ear for it.
    pub fn new() -> (Self, Ear) {
        // However often it rings while the worker is at it, that is one round more.
        let (sender, receiver) = mpsc::sync_channel(1);
        (Self(Arc::new(Mutex::new(Some(sender)))), Ear(receiver))
    }

    /// Wakes the worker, if it still works.
    pub fn ring(&self) {
        if let Ok(sender) = self.0.lock()
            && let Some(sender) = sender.as_ref()
        {
            // An error means that it has been woken already, or has gone.
            sender.try_send(()).unwrap_or_default();
        }
    }

    /// Whether the worker was sent home.
    pub fn is_silent(&self) -> bool {
        self.0.lock().is_ok_and(|sender| sender.is_none())
    }

    /// Sends the worker home.
    pub fn silence(&self) {
        if let Ok(mut sender) = self.0.lock() {
            *sender = None;
        }
    }
}

impl Ear {
    /// Whether the worker was sent home. What rang until now is taken as heard: whoever asks looks at everything next.
    fn is_sent_home(&self) -> bool {
        loop {
            match self.0.try_recv() {
                Ok(()) => {}
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            }
        }
    }

    /// Waits until the bell rings, the pause is over or the worker is sent home.
    fn rest(&self, pause: Duration) {
        match self.0.recv_timeout(pause) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

/// Works whenever the pause is over or the bell rings, at once again while there is more, until sent home: that is asked before
/// each round.
pub(super) fn keep_working(pause: Duration, ear: &Ear, mut work: impl FnMut() -> bool) {
    while !ear.is_sent_home() {
        // A panic must not end the billing of everybody else.
        let there_is_more = catch_unwind(AssertUnwindSafe(&mut work)).unwrap_or_else(|_| {
            log::error!("a worker panicked and goes on");
            false
        });
        if !there_is_more {
            ear.rest(pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOR_EVER: Duration = Duration::from_secs(3_600);

    /// The rounds of a worker whose bell rings `rings` times in its first, and that is sent home in the round `last`.
    fn rounds(rings: u32, last: u32, there_is_more: bool) -> u32 {
        let (alarm, ear) = Alarm::new();
        let mut rounds = 0;
        keep_working(FOR_EVER, &ear, || {
            rounds += 1;
            if rounds == 1 {
                (0..rings).for_each(|_| alarm.ring());
            }
            if rounds == last {
                alarm.silence();
            }
            there_is_more
        });
        rounds
    }

    #[test]
    fn a_worker_goes_home_when_it_is_told_to() {
        #[rustfmt::skip]
        let cases = [
            // rings,  last, there is more, why
            (10_000,   1,    false, "what rang before is not worked off"),
            (10_000,   2,    false, "ten thousand rings are one more round"),
            (0,        3,    true,  "with more to do"),
        ];
        for (rings, last, there_is_more, why) in cases {
            assert_eq!(rounds(rings, last, there_is_more), last, "{why}");
        }
    }

    #[test]
    fn one_who_was_sent_home_before_does_not_begin() {
        let (alarm, ear) = Alarm::new();
        alarm.ring();
        alarm.silence();
        keep_working(FOR_EVER, &ear, || panic!("no round"));
    }
}
