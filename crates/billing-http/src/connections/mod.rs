//! Open connections, and which of them hold a place without asking for anything.
//!
//! A connection is new until the first head has come, for which it has five seconds. It takes hardly anything until then, so there may
//! be many of them. For a later head the server would wait without end once a byte of it has come, and a connection that waits
//! takes a place that somebody with a request could have. So those are closed here: when they have waited too long, and when there are
//! too many of them, first those on which nobody ever showed a key, and of them the longest waiting. New ones never close others.

mod head_lines;
mod paced;

use std::collections::BTreeMap;
use std::fs;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub use paced::{Intake, Paced};

/// How long a connection may wait for the head of a request where it speaks HTTP/2: its client has one for all that it will ask.
const WAIT_HTTP2_MAX: Duration = Duration::from_secs(600);
/// Bytes of an answer for which its client has a second more.
const TAKEN_PER_SECOND: u64 = 16 * 1024;
/// Who has waited for less than this is closed only when there is hardly a place left: the head may be on its way.
const YOUNG_MS: u64 = 500;
/// Of the connections that wait, one in so many is closed at a time: each look at all of them makes room for many.
const CLOSED_OF: usize = 10;
/// How often all of them are looked at: those that were closed need a moment to go.
const LOOK_EVERY_MS: u64 = 10;
/// Time for the first head of a connection.
const FIRST_HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// From so many new connections on they have less time, each for itself.
const NEW_MANY: usize = 500;
/// New connections there may be for each of the others.
const NEW_OF_SERVED: usize = 4;

/// All connections of a server.
pub struct Connections {
    began: Instant,
    wait_max: Duration,
    /// Those on which a head has come.
    served: Bound,
    new: Bound,
    open: Mutex<BTreeMap<u64, Arc<Connection>>>,
    made: AtomicU64,
    closed_late: AtomicU64,
    closed_crowded: AtomicU64,
    large_heads: Arc<AtomicUsize>,
}

/// How many connections of a kind there are and may be.
struct Bound {
    count: AtomicUsize,
    /// From so many on the longest waiting are closed.
    crowded_from: usize,
    looked_ms: AtomicU64,
}

impl Bound {
    fn new(crowded_from: usize) -> Self {
        Self { count: AtomicUsize::new(0), crowded_from, looked_ms: AtomicU64::new(0) }
    }
}

/// One connection, as long as it is open.
pub struct Connection {
    /// The same connection once more, to be shut down. A new one has none: whoever waits for its first head is told. It is locked while the
    /// connection is closed, too: otherwise one that gets this just then might be closed and stay open.
    stream: Mutex<Option<TcpStream>>,
    /// Whether no head has come yet.
    is_new: AtomicBool,
    closed: Notify,
    at_work: AtomicU32,
    /// Whether a request with a valid key came by it.
    is_known: AtomicBool,
    /// Since when nothing is at work, in milliseconds since the server began.
    since_ms: AtomicU64,
    /// When it has waited too long, in milliseconds since the server began; only while nothing is at work.
    due_ms: AtomicU64,
    wait_max: Duration,
    /// Whether it is read no faster than what came is taken. HTTP/2 has windows for that.
    is_paced: bool,
    intake: Intake,
}

/// A connection in the list of all; it leaves the list when this is dropped.
pub struct Listed {
    number: u64,
    connection: Arc<Connection>,
    connections: Arc<Connections>,
}

/// How many connections there are, and how many were closed since the server began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// Open.
    pub open: usize,
    /// Closed because the next head did not come.
    pub closed_late: u64,
    /// Closed because there were too many.
    pub closed_crowded: u64,
}

impl Connections {
    /// None yet, for `places` of them; each may wait for `wait_max` for the head of a request, from its beginning or from the
    /// last answer on.
    pub fn new(places: usize, wait_max: Duration) -> Self {
        let files = fs::read_to_string("/proc/self/limits").ok().and_then(|limits| files_max(&limits));
        let [served, new] = crowded_from(places, files.unwrap_or(usize::MAX));
        Self::bounded(served, new, wait_max)
    }

    /// From so many on that have asked for something, and so many new ones, the longest waiting are closed.
    fn bounded(served: usize, new: usize, wait_max: Duration) -> Self {
        Self {
            began: Instant::now(),
            wait_max,
            served: Bound::new(served),
            new: Bound::new(new),
            open: Mutex::default(),
            made: AtomicU64::new(0),
            closed_late: AtomicU64::new(0),
            closed_crowded: AtomicU64::new(0),
            large_heads: Arc::default(),
        }
    }

    /// Lists a connection that was made just now.
    pub fn list(self: &Arc<Self>, is_http2: bool) -> Listed {
        let wait_max = if is_http2 { WAIT_HTTP2_MAX } else { self.wait_max };
        self.list_new(wait_max, !is_http2)
    }

    fn list_new(self: &Arc<Self>, wait_max: Duration, is_paced: bool) -> Listed {
        let [since_ms, due_ms] = [Duration::ZERO, wait_max].map(|wait| AtomicU64::new(self.in_ms(wait)));
        let (at_work, intake) = (AtomicU32::new(0), Intake::new(&self.large_heads));
        let is_known = AtomicBool::new(false);
        let connection = Arc::new(Connection {
            stream: Mutex::default(),
            is_new: AtomicBool::new(true),
            closed: Notify::new(),
            at_work,
            is_known,
            since_ms,
            due_ms,
            wait_max,
            is_paced,
            intake,
        });
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.open().insert(number, Arc::clone(&connection));
        self.count(true);
        Listed { number, connection, connections: Arc::clone(self) }
    }

    fn bound(&self, are_new: bool) -> &Bound {
        if are_new { &self.new } else { &self.served }
    }

    /// There is one more of a kind. Where there are too many, some of those that have waited longest are closed.
    fn count(&self, are_new: bool) {
        let Bound { count, crowded_from, looked_ms } = self.bound(are_new);
        let count = count.fetch_add(1, Ordering::Relaxed) + 1;
        let now_ms = self.in_ms(Duration::ZERO);
        if count <= *crowded_from || now_ms < looked_ms.load(Ordering::Relaxed) + LOOK_EVERY_MS {
            return;
        }
        looked_ms.store(now_ms, Ordering::Relaxed);
        let is_full = count >= crowded_from + crowded_from * 3 / 4;
        let old_ms = now_ms.saturating_sub(YOUNG_MS);
        let open = self.open();
        let mut waiting: Vec<_> = open.values().filter(|each| each.is_new() == are_new && each.is_waiting()).collect();
        waiting.sort_by_key(|each| (each.is_known(), each.since_ms.load(Ordering::Relaxed)));
        let some = waiting.len().div_ceil(CLOSED_OF);
        let first = waiting.iter().take(some);
        let closed = first.filter(|each| is_full || each.since_ms.load(Ordering::Relaxed) <= old_ms);
        let closed = closed.map(|each| each.close()).count();
        self.closed_crowded.fetch_add(closed as u64, Ordering::Relaxed);
    }

    /// Closes those that have waited too long.
    pub fn sweep(&self) {
        let now_ms = self.in_ms(Duration::ZERO);
        let open = self.open();
        let late = open.values().filter(|each| each.is_waiting() && each.due_ms.load(Ordering::Relaxed) < now_ms);
        let closed = late.map(|each| each.close()).count();
        self.closed_late.fetch_add(closed as u64, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn counts(&self) -> ConnectionCounts {
        ConnectionCounts {
            open: self.open().len(),
            closed_late: self.closed_late.load(Ordering::Relaxed),
            closed_crowded: self.closed_crowded.load(Ordering::Relaxed),
        }
    }

    fn in_ms(&self, wait: Duration) -> u64 {
        u64::try_from((self.began.elapsed() + wait).as_millis()).unwrap_or(Connection::CLOSED_MS)
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// What `due_ms` is of one that is closed already.
    const CLOSED_MS: u64 = u64::MAX;

    fn is_new(&self) -> bool {
        self.is_new.load(Ordering::Relaxed)
    }

    fn is_waiting(&self) -> bool {
        self.at_work.load(Ordering::Relaxed) == 0 && !self.is_closed()
    }

    fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    fn is_closed(&self) -> bool {
        self.due_ms.load(Ordering::Relaxed) == Self::CLOSED_MS
    }

    fn close(&self) {
        let stream = self.stream();
        self.due_ms.store(Self::CLOSED_MS, Ordering::Relaxed);
        match stream.as_ref() {
            // An error means that the client was first.
            Some(stream) => drop(stream.shutdown(Shutdown::Both)),
            None => self.closed.notify_one(),
        }
    }

    fn stream(&self) -> MutexGuard<'_, Option<TcpStream>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request at work: its own deadlines hold until this is dropped.
pub struct AtWork {
    listed: Arc<Listed>,
    /// How large its answer is.
    pub answer_bytes: u64,
    /// Whether the rest of its body is thrown away.
    pub is_refused: bool,
}

impl AtWork {
    /// A request of this connection has begun.
    pub fn begin(listed: &Arc<Listed>) -> Self {
        listed.connection.at_work.fetch_add(1, Ordering::Relaxed);
        listed.intake().turn(false);
        Self { listed: Arc::clone(listed), answer_bytes: 0, is_refused: false }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.listed.end(self.answer_bytes);
        self.listed.intake().turn(self.is_refused);
    }
}

impl Listed {
    /// Whether it is read no faster than what came is taken.
    pub fn is_paced(&self) -> bool {
        self.connection.is_paced
    }

    /// Whether a request is at work.
    pub fn is_at_work(&self) -> bool {
        self.connection.at_work.load(Ordering::Relaxed) > 0
    }

    /// What has come in and was not taken yet.
    pub fn intake(&self) -> &Intake {
        &self.connection.intake
    }

    /// A request with a valid key came by it.
    pub fn know(&self) {
        self.connection.is_known.store(true, Ordering::Relaxed);
    }

    /// How long its first head may take. Where very many are waited for, those that were made at one moment do not end at one: all their
    /// clients would come again together.
    pub fn first_head_deadline(&self) -> Duration {
        if self.connections.new.count.load(Ordering::Relaxed) < NEW_MANY {
            return FIRST_HEAD_DEADLINE;
        }
        FIRST_HEAD_DEADLINE / 2 + FIRST_HEAD_DEADLINE / 2 * u32::try_from(self.number % 64).unwrap_or(0) / 64
    }

    /// Its first head has come, or it needs none: from now on it is shut down by itself. Where the system has no file for that any more it
    /// is not.
    pub fn serve(&self, tcp: &impl AsFd) {
        // It has just sent something: what it waited for that does not count when others make room.
        self.wait_on(self.connection.wait_max);
        if !self.connection.is_new.swap(false, Ordering::Relaxed) {
            return;
        }
        let own = tcp.as_fd().try_clone_to_owned();
        let mut stream = self.connection.stream();
        *stream = own.ok().map(TcpStream::from);
        if let Some(stream) = stream.as_ref().filter(|_| self.connection.is_closed()) {
            drop(stream.shutdown(Shutdown::Both));
        }
        drop(stream);
        self.connections.new.count.fetch_sub(1, Ordering::Relaxed);
        self.connections.count(false);
    }

    /// Waits until it is closed, as long as it is new.
    pub async fn closed(&self) {
        self.connection.closed.notified().await;
    }

    /// Its first head did not come in time.
    pub fn count_late(&self) {
        self.connections.closed_late.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes it because there are too many like it.
    pub fn close_crowded(&self) {
        self.connection.close();
        self.connections.closed_crowded.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self, bytes: u64) {
        self.wait_on(self.connection.wait_max + Duration::from_secs(bytes / TAKEN_PER_SECOND));
        self.connection.at_work.fetch_sub(1, Ordering::Relaxed);
    }

    /// It waits from now on, for so long at most.
    fn wait_on(&self, wait: Duration) {
        self.connection.since_ms.store(self.connections.in_ms(Duration::ZERO), Ordering::Relaxed);
        // One that was closed stays so.
        let due_ms = self.connections.in_ms(wait);
        let changed = |before| (before != Connection::CLOSED_MS).then_some(due_ms);
        let _ = self.connection.due_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.connections.open().remove(&self.number);
        self.connections.bound(self.connection.is_new()).count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// From how many connections on that were served, and from how many new ones, some are closed: half of the places there are, and as many
/// as hardly cost anything. One that was served takes two files, its own and the one that it is shut down by.
fn crowded_from(places: usize, files: usize) -> [usize; 2] {
    let served = (places / 2).min(files / 8);
    [served, (served * NEW_OF_SERVED).min(files / 4)]
}

/// How many files this process may have open, out of `/proc/self/limits`.
fn files_max(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// A listed connection, and its client.
    fn connect(connections: &Arc<Connections>, wait_max: Duration) -> (Arc<Listed>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        client.set_nonblocking(true).expect("set");
        let (server, _) = listener.accept().expect("a connection");
        let listed = connections.list_new(wait_max, true);
        listed.serve(&server);
        (Arc::new(listed), client)
    }

    fn is_closed(client: &TcpStream) -> bool {
        matches!((&*client).read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_longest_waiting_make_room() {
        let connections = Arc::new(Connections::bounded(4, 4, Duration::ZERO));
        let waits = || {
            std::thread::sleep(Duration::from_millis(LOOK_EVERY_MS + 2));
            connect(&connections, Duration::from_secs(60))
        };
        let (at_work, first, second, third) = (waits(), waits(), waits(), waits());
        let _request = AtWork::begin(&at_work.0);
        let all = [&at_work, &first, &second, &third];
        assert!(all.iter().all(|(_, client)| !is_closed(client)), "there is room for four");
        let fourth = waits();
        assert!(!is_closed(&first.1), "nobody has waited for long");
        std::thread::sleep(Duration::from_millis(YOUNG_MS));
        let fifth = waits();
        assert!(is_closed(&first.1), "one of those that wait");
        let others = [&at_work, &second, &third, &fourth, &fifth];
        assert!(others.iter().all(|(_, client)| !is_closed(client)), "and no other");
        let counts = ConnectionCounts { open: 6, closed_late: 0, closed_crowded: 1 };
        assert_eq!(connections.counts(), counts, "it goes when the server has seen it");
        drop(first);
        assert_eq!(connections.counts().open, 5);
        let (sixth, seventh) = (waits(), waits());
        assert!(is_closed(&second.1), "{:?}", connections.counts());
        let others = [&at_work, &fourth, &fifth, &sixth, &seventh];
        assert!(others.iter().all(|(_, client)| !is_closed(client)), "the others have waited for less");
    }

    #[test]
    fn whoever_showed_a_key_is_closed_last() {
        let connections = Arc::new(Connections::bounded(4, 4, Duration::ZERO));
        let waits = || connect(&connections, Duration::from_secs(60));
        let known = waits();
        drop(AtWork::begin(&known.0));
        known.0.know();
        let strangers: Vec<_> = (0..7).map(|_| waits()).collect();
        std::thread::sleep(Duration::from_millis(YOUNG_MS));
        let closed =
            |clients: &[(Arc<Listed>, TcpStream)]| clients.iter().filter(|(_, client)| is_closed(client)).count();
        let more: Vec<_> = (0..8)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(LOOK_EVERY_MS + 2));
                waits()
            })
            .collect();
        assert_eq!(closed(&strangers), 7, "they came later, but nobody knows them");
        assert!(closed(&more) > 0 && !is_closed(&known.1), "nor the next ones, although they have hardly waited");
    }

    #[test]
    fn who_waits_too_long_is_closed() {
        let connections = Arc::new(Connections::bounded(100, 100, Duration::ZERO));
        let (late, early) = (connect(&connections, Duration::ZERO), connect(&connections, Duration::from_secs(60)));
        let (at_work, reading) = (connect(&connections, Duration::ZERO), connect(&connections, Duration::ZERO));
        let request = AtWork::begin(&at_work.0);
        AtWork::begin(&reading.0).answer_bytes = 60 * TAKEN_PER_SECOND;
        std::thread::sleep(Duration::from_millis(5));
        connections.sweep();
        #[rustfmt::skip]
        let cases = [
            // connection, closed, why
            (&late,        true,  "nothing came"),
            (&early,       false, "it has time"),
            (&at_work,     false, "a request has deadlines of its own"),
            (&reading,     false, "a long answer takes its time"),
        ];
        for ((_, client), closed, why) in cases {
            assert_eq!(is_closed(client), closed, "{why}");
        }
        drop(request);
        std::thread::sleep(Duration::from_millis(5));
        connections.sweep();
        assert!(is_closed(&at_work.1), "no request follows");
        connections.sweep();
        assert_eq!(connections.counts().closed_late, 2, "each is counted once");
    }

    #[test]
    fn new_ones_make_room_for_new_ones() {
        let connections = Arc::new(Connections::bounded(2, 4, Duration::ZERO));
        let served = connect(&connections, Duration::from_secs(60));
        let new = || {
            std::thread::sleep(Duration::from_millis(LOOK_EVERY_MS + 2));
            connections.list_new(Duration::from_secs(60), true)
        };
        let is_told = |listed: &Listed| listed.connection.is_closed();
        let mut waiting: Vec<_> = (0..4).map(|_| new()).collect();
        std::thread::sleep(Duration::from_millis(YOUNG_MS));
        assert!(!waiting.iter().any(is_told), "there is room for four");
        waiting.push(new());
        assert_eq!(waiting.iter().map(is_told).collect::<Vec<_>>(), [true, false, false, false, false], "the first");
        assert!(!is_closed(&served.1), "which has waited for longer than any of them");
        let late = waiting.remove(0);
        late.serve(&TcpListener::bind("127.0.0.1:0").expect("a port"));
        assert!(!is_closed(&served.1) && connections.counts().closed_crowded == 1, "it is gone all the same");
        drop((late, waiting));
        let counts = ConnectionCounts { open: 1, closed_late: 0, closed_crowded: 1 };
        assert_eq!((connections.counts(), connections.new.count.load(Ordering::Relaxed)), (counts, 0));
        assert_eq!(connections.served.count.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_head_that_took_long_is_no_reason_to_close_its_connection() {
        let connections = Arc::new(Connections::bounded(2, 10, Duration::ZERO));
        let slow = connections.list_new(Duration::from_secs(60), true);
        std::thread::sleep(Duration::from_millis(YOUNG_MS));
        let others = [(); 2].map(|()| connect(&connections, Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(YOUNG_MS));
        slow.serve(&TcpListener::bind("127.0.0.1:0").expect("a port"));
        assert!(!slow.connection.is_closed(), "its request has just come");
        assert_eq!(others.iter().filter(|(_, client)| is_closed(client)).count(), 1, "one that waits makes room");
    }

    #[test]
    fn many_new_ones_have_less_time_each_for_itself() {
        let connections = Arc::new(Connections::new(4_000, Duration::ZERO));
        let new: Vec<_> = (0..NEW_MANY - 1).map(|_| connections.list(false)).collect();
        assert!(new.iter().all(|each| each.first_head_deadline() == FIRST_HEAD_DEADLINE), "there are few");
        let many: Vec<_> = (0..64).map(|_| connections.list(false)).collect();
        let mut more: Vec<_> = many.iter().map(Listed::first_head_deadline).collect();
        more.sort_unstable();
        more.dedup();
        assert_eq!(more.len(), 64, "no two together");
        assert!(more.iter().all(|one| (FIRST_HEAD_DEADLINE / 2..FIRST_HEAD_DEADLINE).contains(one)), "{more:?}");
    }

    #[test]
    fn bounds_follow_from_places_and_files() {
        #[rustfmt::skip]
        let cases = [
            // places, files,      served, new,   why
            (4_000,    usize::MAX, 2_000,  8_000, "half of the places, and four times as many"),
            (4_000,    20_000,     2_000,  5_000, "a quarter of the files"),
            (4_000,    1_024,      128,    256,   "of each as many files"),
        ];
        for (places, files, served, new, why) in cases {
            assert_eq!(crowded_from(places, files), [served, new], "{why}");
            let when_full = [2 * served, new].map(|each| each + each * 3 / 4);
            assert!(when_full.iter().sum::<usize>() < files, "{why}: others need files too");
        }
    }

    #[test]
    fn reads_how_many_files_there_may_be() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
            Max processes             96178                96178                processes \n\
            Max open files            1024                 524288               files     \n";
        assert_eq!(files_max(limits), Some(1024));
        assert_eq!(files_max("Max open files            unlimited            unlimited            files"), None);
    }
}
