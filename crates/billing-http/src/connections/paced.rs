//! Streams that are read in pieces, and no faster than what came is taken.
//!
//! The HTTP library reads what a socket has, up to 128 KiB, before anybody has looked at the request, and goes on while nobody
//! takes its body. A few thousand connections would so hold hundreds of megabytes before any budget is asked. A paced stream
//! hands out a piece at a time, waits while the request at work has enough that nobody took, and lets only so many
//! connections have a large head. A head that comes in drops is looked at ever more seldom: each look reads it from its
//! beginning, and thousands of such connections whose drops come at one moment would all be looked at before anybody else.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::Listed;

/// Bytes that are read before the request is looked at again: what a connection's buffer has room for from the start.
const PIECE_BYTES: usize = 8 * 1024;
/// Bytes of a request at work that may wait to be taken.
const UNTAKEN_BYTES_MAX: usize = 32 * 1024;
/// From so many bytes on a head is large. The library takes 128 KiB; ordinary ones have one or two.
const LARGE_HEAD_BYTES: usize = 16 * 1024;
/// Most connections of one server that have a large head: 32 MiB at most.
const LARGE_HEADS_MAX: usize = 256;
/// A read of a head that brings fewer bytes is a drop.
const DROP_BYTES: usize = 512;
/// The pauses before the third drop of a head and before those from the seventh on; each of those between is twice the one before.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(800));

/// What has come in on one connection and was not taken yet.
pub struct Intake {
    /// Bytes since a request began, a piece of its body was taken, or it ended.
    untaken: AtomicUsize,
    /// What follows is thrown away: the body of a request that was refused.
    is_discarded: AtomicBool,
    has_large_head: AtomicBool,
    /// Drops of a head that has not come to its end.
    drops: AtomicU32,
    paused: Mutex<Option<Waker>>,
    large_heads: Arc<AtomicUsize>,
}

impl Intake {
    /// Nothing yet; `large_heads` is shared by all connections of a server.
    pub fn new(large_heads: &Arc<AtomicUsize>) -> Self {
        Self {
            untaken: AtomicUsize::new(0),
            is_discarded: AtomicBool::new(false),
            has_large_head: AtomicBool::new(false),
            drops: AtomicU32::new(0),
            paused: Mutex::default(),
            large_heads: Arc::clone(large_heads),
        }
    }

    /// What had come was taken: more may come.
    pub fn take(&self) {
        self.untaken.store(0, Ordering::Relaxed);
        if self.has_large_head.swap(false, Ordering::Relaxed) {
            self.large_heads.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(waker) = self.paused().take() {
            waker.wake();
        }
    }

    /// A request begins or ends; whether what follows is thrown away.
    pub fn turn(&self, is_discarded: bool) {
        self.is_discarded.store(is_discarded, Ordering::Relaxed);
        self.drops.store(0, Ordering::Relaxed);
        self.take();
    }

    /// Whether more may be read for the request at work; otherwise it wakes `context` when that has changed.
    fn may_read(&self, context: &Context<'_>) -> bool {
        let may = || self.untaken.load(Ordering::Relaxed) < UNTAKEN_BYTES_MAX;
        if may() {
            return true;
        }
        *self.paused() = Some(context.waker().clone());
        // Whoever took it all before the waker was there has woken nobody.
        may()
    }

    /// So many bytes came of a head; whether there is room for it.
    fn has_room_for_head(&self, bytes: usize) -> bool {
        if self.is_discarded.load(Ordering::Relaxed) {
            return true;
        }
        if bytes < DROP_BYTES {
            self.drops.fetch_add(1, Ordering::Relaxed);
        }
        let is_large = self.untaken.fetch_add(bytes, Ordering::Relaxed) + bytes > LARGE_HEAD_BYTES;
        if !is_large || self.has_large_head.swap(true, Ordering::Relaxed) {
            return true;
        }
        self.large_heads.fetch_add(1, Ordering::Relaxed) < LARGE_HEADS_MAX
    }

    /// How long to wait before the head is read on. `spread` differs from connection to connection, so that those which began at one moment
    /// do not go on at one.
    fn pause(&self, spread: u64) -> Option<Duration> {
        let doublings = self.drops.load(Ordering::Relaxed).checked_sub(2)?;
        let longest = PAUSES.0.saturating_mul(1 << doublings.min(16)).min(PAUSES.1);
        Some(longest / 2 + longest / 2 * u32::try_from(spread % 64).unwrap_or(0) / 64)
    }

    fn paused(&self) -> MutexGuard<'_, Option<Waker>> {
        self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.take();
    }
}

/// A connection's stream.
pub struct Paced<S> {
    stream: S,
    /// `None` where the system had no file for the list: such a one is read in pieces and no more.
    listed: Option<Arc<Listed>>,
    /// Bytes of the piece that is being read.
    piece: usize,
    /// Until when a head that comes in drops is left alone.
    pause: Option<Pin<Box<Sleep>>>,
    /// After how many drops of this head that was over.
    paused_for: u32,
}

impl<S> Paced<S> {
    /// Of a connection that was made just now.
    pub fn new(stream: S, listed: Option<Listed>) -> Self {
        Self { stream, listed: listed.map(Arc::new), piece: 0, pause: None, paused_for: 0 }
    }

    /// The connection in the list of all.
    pub fn listed(&self) -> Option<&Arc<Listed>> {
        self.listed.as_ref()
    }

    /// Whether the request at work, if there is one, has enough.
    fn is_full(&self, context: &Context<'_>) -> bool {
        let at_work = self.listed.as_ref().filter(|listed| listed.is_paced() && listed.is_at_work());
        at_work.is_some_and(|listed| !listed.intake().may_read(context))
    }

    /// Waits for the time that a head which comes in drops is left alone.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(listed) = self.listed.as_ref().filter(|listed| listed.is_paced() && !listed.is_at_work()) else {
            return Poll::Ready(());
        };
        let drops = listed.intake().drops.load(Ordering::Relaxed);
        self.paused_for = self.paused_for.min(drops);
        if self.paused_for < drops
            && let Some(pause) = listed.intake().pause(listed.number)
        {
            ready!(self.pause.get_or_insert_with(|| Box::pin(sleep(pause))).as_mut().poll(context));
            (self.pause, self.paused_for) = (None, drops);
        }
        Poll::Ready(())
    }

    fn came(&mut self, bytes: usize) {
        self.piece += bytes;
        let Some(listed) = self.listed.as_ref().filter(|listed| listed.is_paced()) else { return };
        if listed.is_at_work() {
            listed.intake().untaken.fetch_add(bytes, Ordering::Relaxed);
        } else if !listed.intake().has_room_for_head(bytes) {
            listed.close_crowded();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_full(context) {
            this.piece = 0;
            return Poll::Pending;
        }
        if this.piece >= PIECE_BYTES {
            this.piece = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(this.poll_pause(context));
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        match read {
            Poll::Ready(Ok(())) => this.came(buffer.filled().len() - before),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => this.piece = 0,
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::connections::{AtWork, Connections};

    /// A sender that never ends.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            buffer.put_slice(&vec![b' '; buffer.remaining()]);
            Poll::Ready(Ok(()))
        }
    }

    /// How many bytes come in so many polls of the connection, each of which reads until it has to wait.
    fn read(stream: &mut Paced<Endless>, polls: usize) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        let mut total = 0;
        for _ in 0..polls {
            let mut bytes = [0; 1024];
            let mut buffer = ReadBuf::new(&mut bytes);
            while Pin::new(&mut *stream).poll_read(&mut context, &mut buffer).is_ready() {
                total += buffer.filled().len();
                buffer.clear();
            }
        }
        total
    }

    fn listed() -> Listed {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Arc::new(Connections::new(10, Duration::from_secs(10))).list(&listener, false).expect("a file")
    }

    #[test]
    fn a_piece_comes_at_a_time() {
        let mut stream = Paced::new(Endless, None);
        assert_eq!((read(&mut stream, 1), read(&mut stream, 3)), (PIECE_BYTES, 3 * PIECE_BYTES));
    }

    #[test]
    fn what_nobody_takes_is_waited_for() {
        let mut stream = Paced::new(Endless, Some(listed()));
        let connection = Arc::clone(stream.listed().expect("it is listed"));
        let mut request = AtWork::begin(&connection);
        assert_eq!(read(&mut stream, 100), UNTAKEN_BYTES_MAX, "the handler has not looked yet");
        connection.intake().take();
        assert_eq!(read(&mut stream, 100), UNTAKEN_BYTES_MAX, "it took what there was, and as much again may come");
        request.is_refused = true;
        drop(request);
        assert_eq!(read(&mut stream, 100), 100 * PIECE_BYTES, "what is thrown away needs no room");
        let _next = AtWork::begin(&connection);
        assert_eq!(read(&mut stream, 100), UNTAKEN_BYTES_MAX, "another request");
    }

    /// A sender of one byte whenever it is asked.
    struct Drops;

    impl AsyncRead for Drops {
        fn poll_read(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            context.waker().wake_by_ref();
            buffer.put_slice(b"x");
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_head_that_comes_in_drops_is_read_ever_more_seldom() {
        let intake = Intake::new(&Arc::default());
        let pauses = |intake: &Intake, spread| {
            let drop = || {
                assert!(intake.has_room_for_head(1));
                intake.pause(spread).map_or(0, |pause| pause.as_millis())
            };
            std::array::from_fn::<_, 9, _>(|_| drop())
        };
        assert_eq!(pauses(&intake, 64), [0, 25, 50, 100, 200, 400, 400, 400, 400], "the shortest");
        intake.turn(false);
        assert_eq!(
            pauses(&intake, 63),
            [0, 49, 99, 198, 396, 793, 793, 793, 793],
            "another head of another connection"
        );
        intake.turn(false);
        assert!(
            (0..9).all(|_| intake.has_room_for_head(DROP_BYTES)) && intake.pause(0).is_none(),
            "these are no drops"
        );
    }

    #[actix_web::test]
    async fn drops_are_waited_for_between_two_reads_and_not_while_a_request_is_at_work() {
        let mut stream = Paced::new(Drops, Some(listed()));
        let connection = Arc::clone(stream.listed().expect("it is listed"));
        let read = async |stream: &mut Paced<Drops>, bytes: usize| {
            let began = Instant::now();
            stream.read_exact(&mut vec![0; bytes]).await.expect("they come");
            began.elapsed()
        };
        assert!(read(&mut stream, 4).await >= (PAUSES.0 + PAUSES.0 * 2) / 2, "before the third and the fourth");
        let request = AtWork::begin(&connection);
        read(&mut stream, 1_000).await;
        assert!(stream.paused_for == 3 && stream.pause.is_none(), "a body may come as it likes");
        drop(request);
        assert!(read(&mut stream, 4).await >= (PAUSES.0 + PAUSES.0 * 2) / 2, "the next head of the same connection");
    }

    #[test]
    fn only_so_many_heads_are_large() {
        let large_heads = Arc::default();
        let head = || Intake::new(&large_heads);
        let mut large: Vec<_> = (0..LARGE_HEADS_MAX).map(|_| head()).collect();
        assert!(large.iter().all(|each| each.has_room_for_head(LARGE_HEAD_BYTES)), "these are not");
        assert!(large.iter().all(|each| each.has_room_for_head(1) && each.has_room_for_head(1)), "each counts once");
        assert!(head().has_room_for_head(LARGE_HEAD_BYTES), "an ordinary one has room");
        assert!(!head().has_room_for_head(LARGE_HEAD_BYTES + 1), "one too many");
        large.pop();
        large[0].turn(false);
        assert_eq!(large_heads.load(Ordering::Relaxed), LARGE_HEADS_MAX - 2, "one has gone, one is a request");
    }
}
