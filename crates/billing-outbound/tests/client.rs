//! The client against servers of this machine: what it reaches, what it does not, and how it ends.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use billing_outbound::{ANSWER_BYTES_MAX, Answer, Client, Destination, Failure, Lookup, Reach};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use ureq::tls::Certificate;

const LONG: Duration = Duration::from_secs(15);
const SHORT: Duration = Duration::from_millis(300);

/// A server that answers every connection by `answer`, and tells the heads that came.
fn server(answer: impl Fn(&mut TcpStream) + Send + 'static) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let addr = listener.local_addr().expect("its address");
    let (sender, heads) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            if sender.send(read_request(&mut stream)).is_err() {
                return;
            }
            answer(&mut stream);
        }
    });
    (addr, heads)
}

/// The head of a request, and its body behind it.
fn read_request(stream: &mut impl Read) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |text| text.parse().expect("a length"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    head + &String::from_utf8_lossy(&body)
}

fn answer_with(text: &str) -> impl Fn(&mut TcpStream) + Send + 'static {
    let text = text.to_owned();
    // The client may have left before all of it is written.
    move |stream| stream.write_all(text.as_bytes()).unwrap_or_default()
}

/// Answers one list of addresses after the other, and counts how often it was asked.
struct Rebinding {
    answers: Vec<Vec<SocketAddr>>,
    asked: AtomicUsize,
}

impl Rebinding {
    fn new(answers: &[&[SocketAddr]]) -> Arc<Self> {
        Arc::new(Self { answers: answers.iter().map(|one| one.to_vec()).collect(), asked: AtomicUsize::new(0) })
    }
}

impl Lookup for Rebinding {
    fn lookup(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers[asked.min(self.answers.len() - 1)].clone())
    }
}

fn to(url: &str) -> Destination {
    Destination::parse(url, Reach::Anywhere).expect("a destination")
}

fn call(client: &Client, url: &str) -> Result<Answer, Failure> {
    client.post(&to(url), &[("content-type", "application/json")], b"{}", LONG)
}

#[test]
fn a_call_arrives_with_its_headers_and_comes_back_with_its_answer() {
    let (addr, heads) = server(answer_with("HTTP/1.1 422 Unprocessable\r\ncontent-length: 4\r\n\r\nnope"));
    let answer = call(&Client::new(Reach::Anywhere), &format!("http://{addr}/hook?a=b")).expect("an answer");
    assert_eq!(answer, Answer { status: 422, body: b"nope".to_vec(), is_cut: false, retry_after: None });
    let head = heads.recv().expect("a request");
    assert!(head.starts_with("POST /hook?a=b HTTP/1.1\r\n") && head.ends_with("\r\n\r\n{}"), "{head}");
    assert!(head.contains("content-type: application/json\r\n") && head.contains(&format!("host: {addr}")), "{head}");
}

#[test]
fn what_is_there_is_got_within_the_same_bounds() {
    let (addr, heads) = server(answer_with("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"));
    let (near, url) = (Client::new(Reach::Anywhere), format!("http://{addr}/keys?a=b"));
    let answer = near.get(&to(&url), &[("accept", "application/json")], LONG).expect("an answer");
    assert_eq!((answer.status, answer.body.as_slice(), answer.is_cut), (200, b"{}".as_slice(), false));
    let head = heads.recv().expect("a request");
    assert!(head.starts_with("GET /keys?a=b HTTP/1.1\r\n") && head.contains("accept: application/json\r\n"), "{head}");
    let far = Client::new(Reach::Public).get(&to(&url), &[], LONG);
    assert!(far.is_err(), "this machine is not the public internet: {far:?}");
    let long = "a".repeat(ANSWER_BYTES_MAX + 1);
    let (addr, _heads) =
        server(answer_with(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len())));
    let answer = near.get(&to(&format!("http://{addr}/")), &[], LONG).expect("an answer");
    assert!(answer.is_cut && answer.body.len() == ANSWER_BYTES_MAX, "as much as is read of any answer");
    let (addr, _heads) = server(|_| thread::sleep(2 * SHORT));
    let slow = near.get(&to(&format!("http://{addr}/")), &[], SHORT);
    assert_eq!(slow, Err(Failure::TimedOut), "and it ends in time");
}

#[test]
fn a_large_body_arrives_whole() {
    let (addr, heads) = server(answer_with("HTTP/1.1 204 No Content\r\n\r\n"));
    let body: String = (0..100_000).map(|number| format!("{number},")).collect();
    let client = Client::new(Reach::Anywhere);
    let answer = client.post(&to(&format!("http://{addr}/")), &[], body.as_bytes(), LONG).expect("an answer");
    assert_eq!(answer.status, 204);
    assert!(heads.recv().expect("a request").ends_with(&format!("\r\n\r\n{body}")), "in its order");
}

#[test]
fn what_is_not_public_is_not_connected_to() {
    let (addr, heads) = server(answer_with("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    let outside: SocketAddr = "1.1.1.1:443".parse().expect("an address");
    #[rustfmt::skip]
    let cases = [
        // what the name resolves to,  why
        (vec![addr],                   "this machine"),
        (vec![outside, addr],          "a public address does not make the other one so"),
        (vec!["[::ffff:127.0.0.1]:443".parse().expect("an address")], "this machine in disguise"),
    ];
    for (found, why) in cases {
        let client = Client::with(Reach::Public, Rebinding::new(&[&found]), Vec::new());
        let refused = call(&client, "https://hooks.example/").expect_err(why);
        assert!(matches!(refused, Failure::Refused(_)), "{why}: {refused}");
    }
    // Nor what is written as a number, in whatever way.
    let client = Client::new(Reach::Public);
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "localhost"] {
        let refused = call(&client, &format!("https://{host}:{}/", addr.port())).expect_err(host);
        assert!(matches!(refused, Failure::Refused(_) | Failure::NotFound), "{host}: {refused}");
    }
    assert!(call(&client, &format!("http://{addr}/")).is_err(), "nor over plain HTTP");
    assert!(heads.try_recv().is_err(), "somebody connected");
}

#[test]
fn a_name_that_is_bound_anew_between_check_and_connection_gets_nothing() {
    let (inside, heads) = server(answer_with("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    // Nobody is there within so short a time; what counts is where it is looked for.
    let outside = SocketAddr::from(([1, 1, 1, 1], inside.port()));
    let rebinding = Rebinding::new(&[&[outside], &[inside]]);
    let client = Client::with(Reach::Public, rebinding.clone(), Vec::new());
    let failed = client.post(&to("https://hooks.example/"), &[], b"{}", SHORT);
    assert!(failed.is_err() && heads.try_recv().is_err(), "{failed:?}");
    assert_eq!(rebinding.asked.load(Ordering::SeqCst), 1, "the name is looked up once for each call");
    // The next call looks again, and refuses.
    let refused = call(&client, "https://hooks.example/");
    assert_eq!(refused, Err(Failure::Refused("loopback")));
}

#[test]
fn a_call_goes_where_its_name_was_found_and_nowhere_else() {
    let (inside, heads) = server(answer_with("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    let lookup = Rebinding::new(&[&[inside], &["127.0.0.1:1".parse().expect("an address")]]);
    let client = Client::with(Reach::Anywhere, lookup, Vec::new());
    assert_eq!(call(&client, "http://hooks.example/a").expect("an answer").status, 200);
    let head = heads.recv().expect("a request");
    assert!(head.contains("host: hooks.example\r\n"), "the name stays what it was: {head}");
}

/// A server that answers so many calls on each connection, and then closes it without a word; it tells of each call on which connection
/// it came.
fn keeping_server(calls_max: usize) -> (SocketAddr, mpsc::Receiver<usize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let addr = listener.local_addr().expect("its address");
    let (sender, calls) = mpsc::channel();
    thread::spawn(move || {
        for (connection, stream) in listener.incoming().enumerate() {
            let mut stream = stream.expect("a connection");
            for _ in 0..calls_max {
                if read_request(&mut stream).is_empty() || sender.send(connection).is_err() {
                    break;
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap_or_default();
            }
        }
    });
    (addr, calls)
}

#[test]
fn a_session_keeps_its_connection_and_what_its_name_was_found_to_be() {
    let (inside, calls) = keeping_server(3);
    let lookup = Rebinding::new(&[&[inside]]);
    let session = Client::with(Reach::Anywhere, lookup.clone(), Vec::new()).session();
    let post = || session.post(&to("http://hooks.example/"), &[], b"{}", LONG);
    for call in 0..3 {
        assert_eq!(post().map(|answer| answer.status), Ok(200), "call {call}");
    }
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [0, 0, 0], "on one connection");
    assert_eq!(lookup.asked.load(Ordering::SeqCst), 1, "the name was looked up once");
    // That is closed by now.
    assert_eq!(post().map(|answer| answer.status), Ok(200));
    assert_eq!(calls.try_iter().collect::<Vec<_>>(), [1], "on another");
    let bound_anew = Rebinding::new(&[&[inside]]);
    let guarded = Client::with(Reach::Public, bound_anew, Vec::new()).session();
    for _ in 0..2 {
        let refused = guarded.post(&to("https://hooks.example/"), &[], b"{}", LONG);
        assert_eq!(refused, Err(Failure::Refused("loopback")), "what is remembered is checked");
    }
}

/// Closed in the moment in which it is used again: that is nobody's failure.
#[test]
fn a_call_on_a_connection_that_breaks_is_made_anew() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let addr = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            read_request(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap_or_default();
            // The second call is read, and gets no answer.
            read_request(&mut stream);
        }
    });
    let session = Client::new(Reach::Anywhere).session();
    let post = || session.post(&to(&format!("http://{addr}/")), &[], b"{}", LONG).map(|answer| answer.status);
    assert_eq!((post(), post()), (Ok(200), Ok(200)));
}

#[test]
fn a_redirect_is_an_answer_and_not_followed() {
    let (inside, heads) = server(answer_with("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret"));
    for status in ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"] {
        let text = format!("HTTP/1.1 {status}\r\nlocation: http://{inside}/\r\ncontent-length: 0\r\n\r\n");
        let (addr, _heads) = server(answer_with(&text));
        let answer = call(&Client::new(Reach::Anywhere), &format!("http://{addr}/")).expect("an answer");
        assert!(answer.status / 100 == 3 && answer.body.is_empty(), "{status}: {answer:?}");
    }
    assert!(heads.try_recv().is_err(), "somebody went there");
}

#[test]
fn an_answer_ends_in_time_and_in_size() {
    let client = Client::new(Reach::Anywhere);
    let post = |addr: SocketAddr, timeout| client.post(&to(&format!("http://{addr}/")), &[], b"{}", timeout);
    let (silent, _heads) = server(|_| thread::sleep(LONG));
    assert_eq!(post(silent, SHORT), Err(Failure::TimedOut), "silence");
    let (dripping, _heads) = server(|stream| {
        let mut write = |text: &str| stream.write_all(text.as_bytes()).is_ok();
        let mut is_there = write("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
        while is_there {
            thread::sleep(SHORT / 10);
            is_there = write("x");
        }
    });
    assert_eq!(post(dripping, SHORT), Err(Failure::TimedOut), "a byte now and then");
    let (endless, _heads) = server(|stream| {
        let mut is_there = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").is_ok();
        while is_there {
            is_there = stream.write_all(&[b'x'; 4096]).is_ok();
        }
    });
    let answer = post(endless, LONG).expect("an answer");
    assert!(answer.is_cut && answer.body.len() == ANSWER_BYTES_MAX, "{}", answer.body.len());
    let (babbling, _heads) = server(|stream| {
        let mut is_there = stream.write_all(b"HTTP/1.1 200 OK\r\n").is_ok();
        while is_there {
            is_there = stream.write_all(b"a: b\r\n").is_ok();
        }
    });
    assert!(matches!(post(babbling, LONG), Err(Failure::Broken(_))), "an endless head");
    let (other, _heads) = server(answer_with("SSH-2.0-OpenSSH\r\n"));
    assert!(matches!(post(other, LONG), Err(Failure::Broken(_))), "not HTTP");
}

/// One exchange over TLS with a certificate for `hooks.example`; who trusts it is up to the client.
fn tls_server() -> (SocketAddr, Certificate<'static>) {
    let made = rcgen::generate_simple_self_signed(["hooks.example".to_owned()]).expect("a certificate");
    let der = CertificateDer::from(made.cert.der().to_vec());
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![der.clone()], key)
        .expect("a pair");
    let (config, listener) = (Arc::new(config), TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    let addr = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut stream = StreamOwned::new(session, stream.expect("a connection"));
            read_request(&mut stream);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap_or_default();
            stream.flush().unwrap_or_default();
        }
    });
    (addr, Certificate::from_der(&der).to_owned())
}

#[test]
fn the_certificate_is_that_of_the_name_and_not_of_the_address() {
    let (addr, root) = tls_server();
    let client = |roots| Client::with(Reach::Anywhere, Rebinding::new(&[&[addr]]), roots);
    let trusting = client(vec![root]);
    assert_eq!(call(&trusting, "https://hooks.example/").expect("an answer").status, 204);
    let wrong = call(&trusting, "https://other.example/");
    assert!(matches!(wrong, Err(Failure::Tls(_))), "the certificate of another: {wrong:?}");
    let untrusted = call(&client(Vec::new()), "https://hooks.example/");
    assert!(matches!(untrusted, Err(Failure::Tls(_))), "nobody vouches for it: {untrusted:?}");
}
