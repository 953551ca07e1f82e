//! Streams that are read in pieces, and no faster than what came is taken.
//!
//! The HTTP library reads what a socket has, up to 128 KiB, before anybody has looked at the request, and goes on while nobody
//! takes its body. A few thousand connections would so hold hundreds of megabytes before any budget is asked. A paced stream
//! hands out a piece at a time, waits while the request at work has enough that nobody took, and lets only so many
//! connections have a large head.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Listed;

/// Bytes that are read before the request is looked at again: what a connection's buffer has room for from the start.
const PIECE_BYTES: usize = 8 * 1024;
/// Bytes of a request at work that may wait to be taken.
const UNTAKEN_BYTES_MAX: usize = 32 * 1024;
/// From so many bytes on a head is large. The library takes 128 KiB; ordinary ones have one or two.
const LARGE_HEAD_BYTES: usize = 16 * 1024;
/// Most connections of one server that have a large head: 32 MiB at most.
const LARGE_HEADS_MAX: usize = 256;

/// What has come in on one connection and was not taken yet.
pub struct Intake {
    /// Bytes since a request began, a piece of its body was taken, or it ended.
    untaken: AtomicUsize,
    /// What follows is thrown away: the body of a request that was refused.
    is_discarded: AtomicBool,
    has_large_head: AtomicBool,
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
        let is_large = self.untaken.fetch_add(bytes, Ordering::Relaxed) + bytes > LARGE_HEAD_BYTES;
        if !is_large || self.has_large_head.swap(true, Ordering::Relaxed) {
            return true;
        }
        self.large_heads.fetch_add(1, Ordering::Relaxed) < LARGE_HEADS_MAX
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
}

impl<S> Paced<S> {
    /// Of a connection that was made just now.
    pub fn new(stream: S, listed: Option<Listed>) -> Self {
        Self { stream, listed: listed.map(Arc::new), piece: 0 }
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
    use std::time::Duration;

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
