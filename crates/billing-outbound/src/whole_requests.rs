//! Requests that leave in one piece. The client below writes a head and a body in two; sent so, each wakes the other side, and over
//! TLS is a record of its own. Here what is written is held until an answer is waited for.

use std::fmt;
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

/// Less room than this, and what is held is sent.
const ROOM_MIN: usize = 4 * 1024;
/// A connection that something was read from as shortly ago is not looked at before it is used again, which takes four system calls: if it
/// was closed since, the call fails and is made anew, as it is when that happens in the moment of use.
const FRESH: Duration = Duration::from_millis(200);

/// Wraps whatever connection the connectors before it have made.
#[derive(Debug)]
pub(crate) struct WholeRequests;

impl<In: Transport> Connector<In> for WholeRequests {
    type Out = Whole<In>;

    fn connect(&self, details: &ConnectionDetails, chained: Option<In>) -> Result<Option<Whole<In>>, Error> {
        let config = details.config;
        let buffers = Held {
            input: LazyBuffers::new(config.input_buffer_size(), 1),
            output: vec![0; config.output_buffer_size().max(2 * ROOM_MIN)],
            held: 0,
        };
        Ok(chained.map(|inner| Whole { inner, buffers, read_at: None }))
    }
}

/// A connection that sends what is written to it when it is read from.
pub(crate) struct Whole<T> {
    inner: T,
    buffers: Held,
    read_at: Option<Instant>,
}

impl<T: Transport> Whole<T> {
    fn send_held(&mut self, timeout: NextTimeout) -> Result<(), Error> {
        let mut rest = &self.buffers.output[..self.buffers.held];
        while !rest.is_empty() {
            let room = self.inner.buffers().output();
            let amount = rest.len().min(room.len());
            room[..amount].copy_from_slice(&rest[..amount]);
            self.inner.transmit_output(amount, timeout)?;
            rest = &rest[amount..];
        }
        self.buffers.held = 0;
        Ok(())
    }
}

impl<T: Transport> Transport for Whole<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.buffers.held += amount;
        if self.buffers.output.len() - self.buffers.held < ROOM_MIN { self.send_held(timeout) } else { Ok(()) }
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.send_held(timeout)?;
        let has_come = self.inner.maybe_await_input(timeout)?;
        let (from, to) = (self.inner.buffers(), self.buffers.input.input_append_buf());
        let amount = from.input().len().min(to.len());
        to[..amount].copy_from_slice(&from.input()[..amount]);
        from.input_consume(amount);
        self.buffers.input.input_appended(amount);
        self.read_at = Some(Instant::now());
        Ok(has_come)
    }

    fn is_open(&mut self) -> bool {
        if !self.inner.buffers().input().is_empty() {
            // Nobody asked for more.
            return false;
        }
        self.read_at.is_some_and(|at| at.elapsed() < FRESH) || self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

impl<T> fmt::Debug for Whole<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Whole").field("held", &self.buffers.held).finish_non_exhaustive()
    }
}

/// Buffers in which output comes behind the output that is held.
struct Held {
    input: LazyBuffers,
    output: Vec<u8>,
    held: usize,
}

impl Buffers for Held {
    fn output(&mut self) -> &mut [u8] {
        &mut self.output[self.held..]
    }

    fn input(&self) -> &[u8] {
        self.input.input()
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        self.input.input_append_buf()
    }

    fn input_appended(&mut self, amount: usize) {
        self.input.input_appended(amount);
    }

    fn input_consume(&mut self, amount: usize) {
        self.input.input_consume(amount);
    }

    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        (self.input.tmp_and_output().0, &mut self.output[self.held..])
    }

    fn can_use_input(&self) -> bool {
        self.input.can_use_input()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what is sent, and answers each time it is read from.
    #[derive(Debug)]
    struct Recorder {
        buffers: LazyBuffers,
        sent: Arc<Mutex<Vec<Vec<u8>>>>,
    }

    impl Transport for Recorder {
        fn buffers(&mut self) -> &mut dyn Buffers {
            &mut self.buffers
        }

        fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
            self.sent.lock().expect("no panic").push(self.buffers.output()[..amount].to_vec());
            Ok(())
        }

        fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
            self.buffers.input_append_buf()[..6].copy_from_slice(b"answer");
            self.buffers.input_appended(6);
            Ok(true)
        }

        fn is_open(&mut self) -> bool {
            false
        }
    }

    fn whole(room: usize) -> (Whole<Recorder>, Arc<Mutex<Vec<Vec<u8>>>>) {
        let sent = Arc::default();
        let inner = Recorder { buffers: LazyBuffers::new(64, 1_000), sent: Arc::clone(&sent) };
        let buffers = Held { input: LazyBuffers::new(64, 1), output: vec![0; room], held: 0 };
        (Whole { inner, buffers, read_at: None }, sent)
    }

    fn write(transport: &mut Whole<Recorder>, bytes: &[u8]) {
        transport.buffers().output()[..bytes.len()].copy_from_slice(bytes);
        transport.transmit_output(bytes.len(), NextTimeout::default()).expect("sent");
    }

    #[test]
    fn a_head_and_its_body_leave_in_one_piece() {
        let (mut transport, sent) = whole(2 * ROOM_MIN);
        assert!(!transport.is_open(), "one that was never read from is looked at");
        for body in ["first", "second"] {
            write(&mut transport, b"head ");
            write(&mut transport, body.as_bytes());
            assert!(sent.lock().expect("no panic").is_empty(), "nobody waits for an answer yet");
            assert!(transport.maybe_await_input(NextTimeout::default()).expect("an answer"));
            assert_eq!(std::mem::take(&mut *sent.lock().expect("no panic")), [format!("head {body}").into_bytes()]);
            assert_eq!(transport.buffers().input(), b"answer");
            transport.buffers().input_consume(6);
            assert!(transport.is_open(), "it was read from a moment ago");
        }
    }

    #[test]
    fn what_is_too_much_to_be_held_goes_ahead_in_its_order() {
        let (mut transport, sent) = whole(2 * ROOM_MIN);
        let all: Vec<u8> = (0..20_000_u32).map(|n| u8::try_from(n % 251).expect("small")).collect();
        for part in all.chunks(3_000) {
            write(&mut transport, part);
        }
        assert!(!sent.lock().expect("no panic").is_empty(), "it does not fit");
        assert!(transport.maybe_await_input(NextTimeout::default()).expect("an answer"));
        assert_eq!(sent.lock().expect("no panic").concat(), all);
    }
}
