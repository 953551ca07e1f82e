//! One answer out of several: a caller's events may be stored by several writers.

use std::sync::{Arc, Mutex, PoisonError};

use billing_domain::Error;
use billing_domain::event::Ingested;
use billing_domain::store::Reply;

/// The answers that have come in.
struct Collected {
    answers: Vec<Ingested>,
    error: Option<Error>,
    missing: usize,
    reply: Option<Reply<Vec<Ingested>>>,
}

/// A reply for each part, of which `places` says where its events were among all. When the last part is answered so is
/// the caller: with an error if there was one, so that all of it is sent again, which is harmless. A part that is never
/// answered leaves the caller's reply unused.
pub(super) fn replies(places: Vec<Vec<usize>>, reply: Reply<Vec<Ingested>>) -> Vec<Reply<Vec<Ingested>>> {
    if places.is_empty() {
        reply(Ok(Vec::new()));
        return Vec::new();
    }
    if places.len() == 1 {
        return vec![reply];
    }
    let count = places.iter().map(Vec::len).sum();
    let answers = vec![Ingested::Duplicate; count];
    let all = Collected { answers, error: None, missing: places.len(), reply: Some(reply) };
    let all = Arc::new(Mutex::new(all));
    let part = |places: Vec<usize>| {
        let all = Arc::clone(&all);
        Box::new(move |outcome| answer(&all, &places, outcome)) as Reply<Vec<Ingested>>
    };
    places.into_iter().map(part).collect()
}

fn answer(all: &Mutex<Collected>, places: &[usize], outcome: Result<Vec<Ingested>, Error>) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    match outcome {
        Ok(answers) => {
            for (place, answer) in places.iter().zip(answers) {
                all.answers[*place] = answer;
            }
        }
        Err(error) => all.error = Some(error),
    }
    all.missing -= 1;
    if all.missing == 0
        && let Some(reply) = all.reply.take()
    {
        let outcome = match all.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut all.answers)),
        };
        drop(all);
        reply(outcome);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use billing_domain::StoreError;

    use super::*;

    #[test]
    fn parts_are_put_together_in_the_order_of_the_events() {
        use Ingested::{Duplicate, OutsideWindow, Stored};
        let lost = || StoreError::Unavailable("lost".to_owned()).into();
        let cases = [
            (Ok(vec![Duplicate, Stored]), Ok(vec![Duplicate, OutsideWindow, Stored]), "all are answered"),
            (Err(lost()), Err(lost()), "one part was lost"),
        ];
        for (second, expected, why) in cases {
            let (sender, receiver) = mpsc::channel();
            let reply = Box::new(move |outcome| sender.send(outcome).expect("somebody waits"));
            let mut parts = replies(vec![vec![1], vec![0, 2]], reply).into_iter();
            let (first, last) = (parts.next().expect("two"), parts.next().expect("two"));
            last(second);
            assert!(receiver.try_recv().is_err(), "one is missing: {why}");
            first(Ok(vec![OutsideWindow]));
            assert_eq!(receiver.recv().expect("answered"), expected, "{why}");
        }
    }

    #[test]
    fn who_is_never_answered_is_told_so() {
        let (sender, receiver) = mpsc::channel();
        let reply = Box::new(move |outcome| sender.send(outcome).expect("somebody waits"));
        let mut parts = replies(vec![vec![0], vec![1]], reply).into_iter();
        parts.next().expect("two")(Ok(vec![Ingested::Stored]));
        drop(parts);
        assert!(receiver.recv().is_err());
    }
}
