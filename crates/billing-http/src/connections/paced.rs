//! Streams that are read in pieces, and no faster than what came is taken.
//!
//! The HTTP library reads what a socket has, up to 128 KiB, before anybody has looked at the request, and goes on while nobody
//! takes its body. A few thousand connections would so hold hundreds of megabytes before any budget is asked. A paced stream
//! hands out a piece at a time, waits while the request at work has enough that nobody took, and lets only so many
//! connections have a large head. A head that comes in drops is looked at ever more seldom: each look reads it from its
//! beginning, and thousands of such connections whose drops come at one moment would all be looked at before anybody else.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

use super::Listed;
use super::head_lines::HeadLines;

/// Bytes that are read before the request is looked at again: what a connection's buffer has room for from the start.
const PIECE_BYTES: usize = 8 * 1024;
/// Bytes of a request at work that may wait to be taken.
const UNTAKEN_BYTES_MAX: usize = 32 * 1024;
/// From so many bytes on a head is large. The library takes 128 KiB; ordinary ones have one or two.
const LARGE_HEAD_BYTES: usize = 16 * 1024;
/// Most connections of one server that have a large head: 32 MiB at most.
const LARGE_HEADS_MAX: usize = 256;
/// Room that is made for the first head, each time there is none.
const READ_BYTES: usize = 1024;
/// Fields of a head that the library reads.
const FIELDS_MAX: usize = 96;
/// What a client is told whose first head does not come, as the library would, and how long it may take to take that.
const LATE: &[u8] = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const LATE_PATIENCE: Duration = Duration::from_secs(1);
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
    lines: HeadLines,
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
            lines: HeadLines::new(),
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
        self.lines.begin();
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
    listed: Arc<Listed>,
    /// The first head, and what came with it, until that is read.
    first: Vec<u8>,
    /// Bytes of the piece that is being read.
    piece: usize,
    /// Until when a head that comes in drops is left alone.
    pause: Option<Pin<Box<Sleep>>>,
    /// After how many drops of this head that was over.
    paused_for: u32,
}

impl<S> Paced<S> {
    /// Of a connection that was made just now.
    pub fn new(stream: S, listed: Listed) -> Self {
        Self { stream, listed: Arc::new(listed), first: Vec::new(), piece: 0, pause: None, paused_for: 0 }
    }

    /// The connection in the list of all.
    pub fn listed(&self) -> &Arc<Listed> {
        &self.listed
    }

    /// What is below it.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Whether the request at work, if there is one, has enough.
    fn is_full(&self, context: &Context<'_>) -> bool {
        let Self { listed, .. } = self;
        listed.is_paced() && listed.is_at_work() && !listed.intake().may_read(context)
    }

    /// Waits for the time that a head which comes in drops is left alone.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { listed, .. } = self;
        if !listed.is_paced() || listed.is_at_work() {
            return Poll::Ready(());
        }
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

    fn came(&mut self, bytes: &mut [u8]) {
        self.piece += bytes.len();
        let Self { listed, .. } = self;
        if !listed.is_paced() {
            return;
        }
        if listed.is_at_work() {
            listed.intake().untaken.fetch_add(bytes.len(), Ordering::Relaxed);
            return;
        }
        if !listed.intake().is_discarded.load(Ordering::Relaxed) {
            listed.intake().lines.check(bytes);
        }
        if !listed.intake().has_room_for_head(bytes.len()) {
            listed.close_crowded();
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Paced<S> {
    /// Waits for the first head, so that nothing that costs more than a few kilobytes is begun for whoever sends none. It is read from here
    /// once more; so is what cannot be a head, or is a large one, for the HTTP library to say so or go on.
    ///
    /// # Errors
    /// When the connection ends before, `stops` does, or it takes too long, which the client is told.
    pub async fn wait_for_head(&mut self, stops: impl Future<Output = ()>) -> io::Result<()> {
        let (listed, mut head) = (Arc::clone(&self.listed), Vec::new());
        let deadline = listed.first_head_deadline();
        tokio::select! {
            read = self.read_head(&mut head) => read?,
            () = sleep(deadline) => {
                listed.count_late();
                // Whoever takes no answer is not waited for.
                drop(timeout(LATE_PATIENCE, self.stream.write_all(LATE)).await);
                return Err(io::ErrorKind::TimedOut.into());
            }
            () = listed.closed() => return Err(io::ErrorKind::ConnectionAborted.into()),
            () = stops => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
        self.first = head;
        Ok(())
    }

    async fn read_head(&mut self, head: &mut Vec<u8>) -> io::Result<()> {
        while head.len() < PIECE_BYTES && is_unfinished(head) {
            head.reserve(READ_BYTES);
            if self.read_buf(head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// Whether more must come until this is a head, or cannot be one.
fn is_unfinished(head: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    matches!(httparse::Request::new(&mut fields).parse(head), Ok(httparse::Status::Partial))
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.first.is_empty() {
            let bytes = this.first.len().min(buffer.remaining());
            buffer.put_slice(&this.first[..bytes]);
            this.first.drain(..bytes);
            if this.first.is_empty() {
                this.first = Vec::new();
            }
            return Poll::Ready(Ok(()));
        }
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
            Poll::Ready(Ok(())) => this.came(&mut buffer.filled_mut()[before..]),
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
        Arc::new(Connections::new(10, Duration::from_secs(10))).list(false)
    }

    #[test]
    fn a_piece_comes_at_a_time() {
        let mut stream = Paced::new(Endless, listed());
        assert_eq!((read(&mut stream, 1), read(&mut stream, 3)), (PIECE_BYTES, 3 * PIECE_BYTES));
    }

    #[test]
    fn what_nobody_takes_is_waited_for() {
        let mut stream = Paced::new(Endless, listed());
        let connection = Arc::clone(stream.listed());
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

    /// A connection on which this was sent, and its client.
    async fn sent(text: &str) -> (Paced<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (stream, mut client) = tokio::io::duplex(64 * 1024);
        client.write_all(text.as_bytes()).await.expect("there is room");
        (Paced::new(stream, listed()), client)
    }

    #[actix_web::test]
    async fn a_first_head_is_waited_for_and_read_again() {
        const FIELD: &str =
            "X-Field: 0123456789012345678901234567890123456789012345678901234567890123456789012345678\r\n";
        #[rustfmt::skip]
        let cases: [(&[&str], bool, &str); 8] = [
            // sent,                                                    comes, why
            (&["GET / HTTP/1.1\r\nHost: x\r\n\r\n"],                    true,  "a head"),
            (&["POST / HTTP/1.1\r\nHost", ": x\r\n", "\r\nbody"],       true,  "in pieces, and the beginning of a body"),
            (&["\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n"],          true,  "behind empty lines"),
            (&["\u{16}\u{3}\u{1}"],                                    true,  "TLS, to be refused at once"),
            (&["GET / HTTP/1.1\r\nHost : x"],                           true,  "no field, to be refused at once"),
            (&["GET / HTTP/1.1\r\n", FIELD, FIELD, "X: a"],             false, "a part of one"),
            (&["\r\n\r\n\r\n"],                                        false, "empty lines"),
            (&[],                                                       false, "nothing"),
        ];
        for (pieces, comes, why) in cases {
            let (mut stream, mut client) = sent("").await;
            let sending = async {
                for piece in pieces {
                    client.write_all(piece.as_bytes()).await.expect("there is room");
                    sleep(Duration::from_millis(10)).await;
                }
                if comes { std::future::pending().await } else { sleep(Duration::from_millis(200)).await }
            };
            assert_eq!(stream.wait_for_head(sending).await.is_ok(), comes, "{why}");
            if comes {
                let mut read = vec![0; pieces.concat().len()];
                stream.read_exact(&mut read).await.expect("all of it");
                assert_eq!(read, pieces.concat().as_bytes(), "{why}");
                assert!(stream.first.capacity() == 0, "{why}: it is not kept");
            }
        }
        let long = format!("GET / HTTP/1.1\r\n{}", FIELD.repeat(PIECE_BYTES / FIELD.len() + 1));
        let (mut stream, _client) = sent(&long).await;
        assert!(stream.wait_for_head(std::future::pending()).await.is_ok(), "a large one is the library's to bound");
        let (mut stream, client) = sent("GET / HT").await;
        drop(client);
        let gone = stream.wait_for_head(std::future::pending()).await;
        assert_eq!(gone.map_err(|error| error.kind()), Err(io::ErrorKind::UnexpectedEof), "nobody is there any more");
    }

    #[actix_web::test]
    async fn who_sends_no_head_is_told_so() {
        let (mut stream, mut client) = sent("GET / HTTP/1.1\r\n").await;
        let (waited, told) = tokio::join!(
            async {
                let waited = stream.wait_for_head(std::future::pending()).await;
                drop(stream);
                waited
            },
            async {
                let mut told = String::new();
                client.read_to_string(&mut told).await.expect("text");
                told
            }
        );
        assert_eq!(waited.map_err(|error| error.kind()), Err(io::ErrorKind::TimedOut));
        assert!(told.starts_with("HTTP/1.1 408 ") && told.ends_with("\r\n\r\n"), "{told}");
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
        let mut stream = Paced::new(Drops, listed());
        let connection = Arc::clone(stream.listed());
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
