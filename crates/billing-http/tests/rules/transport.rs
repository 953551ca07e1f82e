//! Below the interface: compressed answers, TLS, and how long a stop takes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use billing_http::tls::TlsFiles;
use flate2::read::GzDecoder;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use serde_json::json;

use crate::support::{World, read_all, send_raw};

/// The head and the body of an answer, read until the connection ends.
fn fetch(world: &World, path: &str, headers: &str) -> (String, Vec<u8>) {
    let mut stream = world.raw();
    send_raw(&mut stream, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n"));
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("the end of the head");
    (String::from_utf8_lossy(&bytes[..end]).to_lowercase(), bytes[end + 4..].to_vec())
}

#[test]
fn large_answers_are_compressed_for_those_who_take_it() {
    let world = World::new();
    let (head, plain) = fetch(&world, "/openapi.json", "");
    assert!(!head.contains("content-encoding") && plain.len() > 10_000, "{head}");
    assert!(head.contains("vary: accept-encoding"), "a cache is told, whoever asks: {head}");
    let (head, packed) = fetch(&world, "/openapi.json", "Accept-Encoding: br, gzip;q=0.8\r\n");
    assert!(head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"), "{head}");
    assert!(head.contains(&format!("content-length: {}\r\n", packed.len())), "{head}");
    let mut unpacked = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).expect("gzip");
    assert_eq!(unpacked, plain);
    assert!(packed.len() < plain.len() / 4, "{} of {}", packed.len(), plain.len());
    #[rustfmt::skip]
    let cases = [
        // path,           accepted,                          why
        ("/livez",         "Accept-Encoding: gzip\r\n",       "too small to be worth it"),
        ("/openapi.json",  "Accept-Encoding: br\r\n",         "another encoding"),
        ("/openapi.json",  "Accept-Encoding: gzip;q=0\r\n",   "refused by the client"),
        ("/openapi.json",  "Accept-Encoding: identity\r\n",   "wanted plain"),
    ];
    for (path, accepted, why) in cases {
        let (head, body) = fetch(&world, path, accepted);
        assert!(!head.contains("content-encoding") && body.starts_with(b"{"), "{path}: {why}: {head}");
    }
}

#[test]
fn tls_is_served_with_a_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(vec!["billing.test".to_owned()]).expect("a certificate");
    let other = rcgen::generate_simple_self_signed(vec!["other.test".to_owned()]).expect("a certificate");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("cert.pem"), made.cert.pem()).expect("written");
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem()).expect("written");
    std::fs::write(path("other.pem"), other.signing_key.serialize_pem()).expect("written");

    let load = |certificate: &str, key: &str| TlsFiles { certificate: path(certificate), key: path(key) }.load();
    for (certificate, key, told) in [
        ("none.pem", "key.pem", "no certificate in"),
        ("key.pem", "key.pem", "no certificate in"),
        ("cert.pem", "cert.pem", "no private key in"),
        ("cert.pem", "other.pem", "do not fit together"),
    ] {
        let error = format!("{:#}", load(certificate, key).expect_err(told));
        assert!(error.contains(told), "{error}");
    }

    let world = World::with(|settings| settings.tls = Some(load("cert.pem", "key.pem").expect("a certificate")));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(path("cert.pem")).expect("a certificate")).expect("a root");
    let client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = Arc::new(client);
    let answer_to = |call: &str, body: &str| {
        let name = ServerName::try_from("billing.test").expect("a name");
        let connection = ClientConnection::new(Arc::clone(&client), name).expect("a connection");
        let mut stream = StreamOwned::new(connection, TcpStream::connect(world.addr()).expect("connected"));
        let (key, length) = (&world.key, body.len());
        let head = format!(
            "{call} HTTP/1.1\r\nHost: x\r\nX-API-KEY: {key}\r\nConnection: close\r\nContent-Length: {length}\r\n"
        );
        stream.write_all(format!("{head}Content-Type: application/json\r\n\r\n{body}").as_bytes()).expect("sent");
        let mut answer = Vec::new();
        // The end of the stream may come without the alert that announces it.
        drop(stream.read_to_end(&mut answer));
        String::from_utf8_lossy(&answer).into_owned()
    };
    for id in ["acme", "globex"] {
        let body = json!({"customer_id": id, "email": format!("{id}@acme.io")}).to_string();
        let answer = answer_to("POST /api/customers/", &body);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    }
    let answer = answer_to("GET /api/customers/?limit=1", "");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("customer_id"), "{answer}");
    assert!(answer.contains("<https://x/api/customers/?limit=1&cursor="), "the rest is there as well: {answer}");

    let mut plain = world.raw();
    send_raw(&mut plain, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(!read_all(&mut plain).contains("HTTP/1.1 200"), "plain HTTP is no longer served");
}

/// The status lines of the answers on one connection, on which these are sent one after the other, each when the one before is answered.
fn statuses(world: &World, requests: &[&str]) -> Vec<String> {
    let mut stream = world.raw();
    let mut all = String::new();
    for (place, request) in requests.iter().enumerate() {
        // A connection that is closed by now is as good as no answer.
        drop(stream.write_all(request.as_bytes()));
        let mut bytes = [0; 4096];
        while all.matches("HTTP/1.1 ").count() <= place {
            match stream.read(&mut bytes) {
                Ok(count) if count > 0 => all.push_str(&String::from_utf8_lossy(&bytes[..count])),
                _ => break,
            }
        }
    }
    all.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].to_owned()).collect()
}

#[test]
fn a_head_whose_lines_end_with_a_line_feed_alone_is_refused() {
    let world = World::new();
    let good = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    let field = "GET /livez HTTP/1.1\r\nHost: x\r\nX-A: b\nX-Key: c\r\n\r\n";
    let body = "{\n\"event_name\"\n:\n\"lines\"\n}\n\n";
    let (key, length) = (&world.key, body.len());
    let kind = "Content-Type: application/json";
    let lines = format!(
        "POST /api/metrics/ HTTP/1.1\r\nHost: x\r\nX-API-KEY: {key}\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    #[rustfmt::skip]
    let cases = [
        // requests,                                          statuses,            why
        (vec![good, good],                                    vec!["200", "200"],  "ordinary heads"),
        (vec!["GET /livez HTTP/1.1\nHost: x\n\n", good],   vec!["400"],         "a whole head, and the connection ends"),
        (vec![field],                                         vec!["400"],         "one field that hides another"),
        (vec![good, field, good],                             vec!["200", "400"],  "behind another request"),
        (vec![&lines, good, field],                           vec!["201", "200", "400"], "a body may have such lines, before a head that may not"),
    ];
    for (requests, expected, why) in cases {
        assert_eq!(statuses(&world, &requests), expected, "{requests:?}: {why}");
    }
}

#[test]
fn a_stop_takes_less_than_ten_seconds_whatever_clients_do() {
    let mut world = World::with(|settings| settings.body_deadline = Duration::from_secs(60));
    let mut stuck = world.raw();
    let head = format!("POST /api/track/ HTTP/1.1\r\nHost: x\r\nX-API-KEY: {}\r\n", world.key);
    send_raw(&mut stuck, &format!("{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"));
    let _idle = world.raw();
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    world.server.take().expect("it runs").stop().expect("a clean stop");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}
