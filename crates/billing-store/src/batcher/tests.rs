//! Who is served when, and with whom.

use super::queue::SECOND_WORKER_DELAY;
use super::*;

/// A job of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbered(u128, u32);

impl Job for Numbered {
    fn organization(&self) -> Owner {
        Some(organization(self.0))
    }

    fn joins_batch(&self, _: &Self, budget: &mut BatchBudget) -> bool {
        budget.take(1, PartsMax { alone: 3, in_company: 2 })
    }

    fn refuse(self, _: Error) {}
}

fn organization(n: u128) -> OrganizationId {
    uuid::Uuid::from_u128(n).into()
}

fn batcher(weight_max: usize) -> Batcher<Numbered> {
    Batcher::without_timeout(weight_max, &Arc::default())
}

fn numbers(turn: Option<Turn<Numbered>>) -> Vec<u32> {
    turn.expect("an open batcher").jobs.into_iter().map(|waiting| waiting.job.1).collect()
}

/// What the next worker takes, however long that takes.
fn take(batcher: &Batcher<Numbered>) -> Vec<u32> {
    loop {
        let taken = numbers(batcher.take());
        if !taken.is_empty() {
            return taken;
        }
    }
}

#[test]
fn one_worker_takes_all_until_somebody_has_waited_for_long() {
    let batcher = batcher(100);
    let submit = |jobs: &[u32]| jobs.iter().for_each(|job| batcher.submit(Numbered(1, *job), 1));
    submit(&[1]);
    assert_eq!(numbers(batcher.take()), [1], "a lone job is taken at once");
    let began = Instant::now();
    submit(&[2, 3]);
    assert_eq!(take(&batcher), [2, 3]);
    assert!(began.elapsed() >= SECOND_WORKER_DELAY, "the first worker might have come back");
    batcher.finish(None);
    submit(&[4, 5, 6, 7]);
    batcher.finish(None);
    assert_eq!(numbers(batcher.take()), [4, 5, 6], "as many as fit, at once: nobody else is at work");
    batcher.finish(None);
    assert_eq!(numbers(batcher.take()), [7]);
}

#[test]
fn in_company_whoever_has_many_callers_rests_as_long_as_they_took() {
    const HOUR: Duration = Duration::from_secs(3_600);
    #[rustfmt::skip]
    let cases = [
        // rests, callers at a time, company, rests, why
        (None,                 9, true,  false, "it is not asked of this batcher"),
        (Some(HOUR),           9, false, false, "alone, nobody rests"),
        (Some(HOUR),           3, true,  false, "few callers: they would only be answered later"),
        (Some(HOUR),           4, true,  true,  "a crowd"),
        (Some(HOUR),           9, true,  true,  "of which more waits than one turn is for"),
        (Some(Duration::ZERO), 9, true,  true,  "for as long as the turn took"),
    ];
    for (least, callers, is_company, rests, why) in cases {
        let company = Arc::<Company>::default();
        let batcher = Batcher { rest: least, ..Batcher::without_timeout(100, &company) };
        if is_company {
            [1, 2].iter().for_each(|n| company.note(organization(*n), Instant::now()));
        }
        (0..callers).for_each(|_| batcher.submit(Crowded(1), 1));
        let turn = batcher.take().expect("an open batcher");
        let began = Instant::now();
        batcher.work(turn, |_| thread::sleep(Duration::from_millis(20)));
        batcher.submit(Crowded(1), 1);
        let until = batcher.lock().rests_until(&Some(organization(1)));
        assert_eq!(until.is_some(), rests, "{why}");
        assert!(
            until.is_none_or(|until| until >= began + Duration::from_millis(40)),
            "{why}: no shorter than its turn"
        );
        batcher.submit(Crowded(2), 1);
        let next = batcher.take().expect("an open batcher").jobs;
        assert_eq!(next[0].job.0, 2, "{why}: others are served at once");
    }
}

/// A job of somebody, of which six go together.
struct Crowded(u128);

impl Job for Crowded {
    fn organization(&self) -> Owner {
        Some(organization(self.0))
    }

    fn joins_batch(&self, _: &Self, budget: &mut BatchBudget) -> bool {
        budget.take(1, PartsMax { alone: 100, in_company: 6 })
    }

    fn refuse(self, _: Error) {}
}

#[test]
fn organizations_take_turns() {
    let company = Arc::<Company>::default();
    let batcher = Batcher::without_timeout(100, &company);
    let served = || {
        batcher.finish(None);
        numbers(batcher.take())
    };
    (1..=5).for_each(|job| batcher.submit(Numbered(1, job), 1));
    assert_eq!(numbers(batcher.take()), [1, 2, 3], "as many as fit");
    for n in [1, 2] {
        company.note(organization(n), Instant::now());
    }
    batcher.submit(Numbered(2, 10), 1);
    batcher.submit(Numbered(1, 6), 1);
    assert_eq!(served(), [10], "whose turn it is, although others have waited for longer");
    batcher.submit(Numbered(3, 20), 1);
    batcher.submit(Numbered(2, 11), 1);
    assert_eq!(served(), [20], "who has only just come");
    assert_eq!(served(), [4, 5], "who was served longest ago; fewer in company");
    batcher.submit(Numbered(3, 21), 1);
    assert_eq!(served(), [11], "a turn each");
    assert_eq!(served(), [21]);
    assert_eq!(served(), [6]);
}

/// A job of so many parts.
struct Parted(u32, usize);

impl Job for Parted {
    fn organization(&self) -> Owner {
        Some(organization(1))
    }

    fn joins_batch(&self, _: &Self, budget: &mut BatchBudget) -> bool {
        budget.take(self.1, PartsMax { alone: 10, in_company: 10 })
    }

    fn refuse(self, _: Error) {}
}

#[test]
fn nothing_overtakes_what_does_not_fit() {
    let batcher = Batcher::without_timeout(100, &Arc::default());
    for job in [Parted(1, 3), Parted(2, 8), Parted(3, 1), Parted(4, 20), Parted(5, 1)] {
        batcher.submit(job, 1);
    }
    let taken = || {
        let taken = batcher.take().expect("an open batcher");
        batcher.finish(None);
        taken.jobs.into_iter().map(|waiting| waiting.job.0).collect::<Vec<_>>()
    };
    assert_eq!(taken(), [1], "the third would fit, and may be about the same as the second");
    assert_eq!(taken(), [2, 3]);
    assert_eq!(taken(), [4], "one alone may be of any size");
    assert_eq!(taken(), [5]);
}

#[test]
fn nobody_takes_all_the_room() {
    #[rustfmt::skip]
    let cases = [
        // weights that fit before, of whom, weight, fits, why
        (&[(1, 75)][..],            1,       1,      false, "three quarters, and no more"),
        (&[(1, 75)][..],            2,       25,     true,  "what is left to others"),
        (&[(1, 75), (2, 20)][..],   2,       6,      false, "more than there is"),
        (&[][..],                   1,       500,    true,  "of any weight when nothing waits"),
        (&[(1, 500)][..],           2,       25,     true,  "another one's, however much that was"),
        (&[(1, 500)][..],           2,       26,     false, "but little"),
        (&[(1, 500)][..],           2,       500,    false, "only one of them is so large"),
        (&[(1, 500)][..],           1,       1,      false, "it has to wait"),
        (&[(1, 25)][..],            2,       500,    true,  "there is room for one"),
        (&[(1, 26)][..],            2,       500,    false, "and no more"),
    ];
    for (before, whose, weight, fits, why) in cases {
        let batcher = batcher(100);
        for (owner, weight) in before {
            assert!(batcher.reserve(Some(organization(*owner)), *weight), "{why}");
        }
        assert_eq!(batcher.reserve(Some(organization(whose)), weight), fits, "{why}");
        for (owner, weight) in before {
            batcher.release(Some(organization(*owner)), *weight);
        }
        let left = if fits { weight } else { 0 };
        assert_eq!(batcher.load(), (left, 0), "{why}: what was given back is there again");
    }
}

#[test]
fn whoever_waits_is_served_while_a_worker_hangs() {
    let batcher = batcher(100);
    batcher.submit(Numbered(1, 1), 1);
    assert_eq!(take(&batcher), [1], "this worker never comes back");
    thread::scope(|threads| {
        let other = threads.spawn(|| {
            let mut served = Vec::new();
            while served.len() < 20 {
                served.extend(take(&batcher));
                batcher.finish(None);
            }
            served
        });
        for job in 0..20 {
            batcher.submit(Numbered(1, job), 1);
            thread::sleep(Duration::from_millis(3));
        }
        let served = other.join().expect("no panic");
        assert_eq!(served, (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn who_waits_longest_is_known() {
    let batcher = batcher(100);
    assert_eq!(batcher.longest_wait(), Duration::ZERO, "nobody waits");
    batcher.submit(Numbered(1, 1), 1);
    let between = Instant::now();
    thread::sleep(Duration::from_millis(2));
    batcher.submit(Numbered(2, 2), 1);
    assert!(batcher.longest_wait() >= between.elapsed() - Duration::from_millis(1), "the first of all");
    while !take(&batcher).contains(&2) {}
    assert_eq!(batcher.longest_wait(), Duration::ZERO, "all are taken");
}
