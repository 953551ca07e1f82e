//! Somebody on this machine whom messages are sent to, and who looks at signatures with nothing of the service's own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A message as it came in.
#[derive(Clone, Debug)]
pub struct Received {
    /// By name, in small letters.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Received {
    pub fn id(&self) -> &str {
        &self.headers["webhook-id"]
    }

    pub fn timestamp(&self) -> i64 {
        self.headers["webhook-timestamp"].parse().expect("seconds")
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    fn signed(&self) -> Vec<u8> {
        format!("{}.{}.{}", self.id(), self.timestamp(), self.body).into_bytes()
    }

    /// The signatures of a version, without it.
    fn signatures(&self, version: &str) -> Vec<Vec<u8>> {
        let all = self.headers["webhook-signature"].split(' ').filter_map(|one| one.split_once(','));
        all.filter(|(found, _)| *found == version).map(|(_, text)| STANDARD.decode(text).expect("base64")).collect()
    }

    /// Whether whoever has this secret has signed.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("a secret")).expect("base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any length");
        mac.update(&self.signed());
        let expected = mac.finalize().into_bytes().to_vec();
        self.signatures("v1").contains(&expected)
    }

    /// Whether whoever has the private half of this key has signed.
    pub fn is_signed_for(&self, public_key: &str) -> bool {
        let key = STANDARD.decode(public_key.strip_prefix("whpk_").expect("a public key")).expect("base64");
        let key = UnparsedPublicKey::new(&ED25519, key);
        self.signatures("v1a").iter().any(|signature| key.verify(&self.signed(), signature).is_ok())
    }
}

#[derive(Default)]
struct State {
    received: Vec<Received>,
    answer: String,
    is_hanging: bool,
}

/// A receiver. What it answers can be changed.
pub struct Receiver {
    pub url: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Receiver {
    /// One that takes everything.
    pub fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("its address"));
        let state = Arc::<(Mutex<State>, Condvar)>::default();
        let receiver = Self { url, state: Arc::clone(&state) };
        receiver.answers("204 No Content", "");
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&state);
                thread::spawn(move || serve(stream.expect("a connection"), &state));
            }
        });
        receiver
    }

    /// What it answers from now on: a status and its reason, with headers behind them in lines of their own.
    pub fn answers(&self, status: &str, body: &str) {
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        self.state.0.lock().expect("the state").answer = text;
    }

    /// From now on it takes what comes, and says nothing until it does not hang any more.
    pub fn hangs(&self, is_hanging: bool) {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner).is_hanging = is_hanging;
        self.state.1.notify_all();
    }

    /// What has come so far.
    pub fn received(&self) -> Vec<Received> {
        self.state.0.lock().expect("the state").received.clone()
    }

    /// Waits until so many messages have come, and answers all.
    pub fn wait_for(&self, count: usize) -> Vec<Received> {
        let (state, changed) = (self.state.0.lock().expect("the state"), &self.state.1);
        let (state, waited) =
            changed.wait_timeout_while(state, PATIENCE, |state| state.received.len() < count).expect("the state");
        assert!(!waited.timed_out(), "only {} of {count} messages have come", state.received.len());
        state.received.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.hangs(false);
    }
}

fn serve(mut stream: TcpStream, (state, changed): &(Mutex<State>, Condvar)) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {}
    let header = |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let headers: BTreeMap<String, String> = head.lines().filter_map(header).collect();
    let Some(length) = headers.get("content-length") else { return };
    let mut body = vec![0; length.parse().expect("a length")];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let mut seen = state.lock().expect("the state");
    seen.received.push(Received { headers, body: String::from_utf8(body).expect("text") });
    changed.notify_all();
    let seen = changed.wait_while(seen, |state| state.is_hanging).expect("the state");
    let text = seen.answer.clone();
    drop(seen);
    // Whoever sent it may have given up.
    stream.write_all(text.as_bytes()).unwrap_or_default();
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
