//! How bodies arrive: slowly, in halves, without end.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::support::{World, read_all, send_raw};

fn head(world: &World, rest: &str) -> String {
    format!(
        "POST /api/customers/ HTTP/1.1\r\nHost: x\r\nX-API-KEY: {}\r\nContent-Type: application/json\r\n{rest}\r\n\r\n",
        world.key
    )
}

#[test]
fn a_body_that_stalls_is_given_up() {
    let world = World::with(|settings| settings.body_deadline = Duration::from_millis(300));
    for (headers, sent) in
        [("Content-Length: 100", "{\"customer_id\":"), ("Transfer-Encoding: chunked", "5\r\n{\"cus\r\n")]
    {
        let began = Instant::now();
        let mut stream = world.raw();
        send_raw(&mut stream, &head(&world, headers));
        send_raw(&mut stream, sent);
        let mut start = [0; 12];
        stream.read_exact(&mut start).expect("an answer");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(&start, b"HTTP/1.1 408");
        let rest = read_all(&mut stream);
        assert!(rest.contains("request_timeout") && rest.contains("connection: close"), "{rest}");
        assert!(began.elapsed() < Duration::from_secs(10), "the connection is closed: {:?}", began.elapsed());
    }
}

#[test]
fn a_head_that_stalls_is_given_up_whichever_it_is() {
    let world = World::with(|settings| settings.idle_deadline = Duration::from_secs(2));
    let whole = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    let part = "GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ";
    #[rustfmt::skip]
    let cases = [
        // sent at once,              bytes later, answers, why
        (part.to_owned(),             100,         0,       "the first head"),
        (format!("{whole}{part}"),    100,         1,       "the second, after an answer"),
        (format!("{whole}{whole}"),   0,           2,       "a connection that is idle"),
    ];
    let slow = cases.map(|(sent, later, answers, why)| {
        let mut stream = world.raw();
        send_raw(&mut stream, &sent);
        let mut writer = stream.try_clone().expect("a stream");
        // One byte now and then; whether they were all taken.
        let drip = std::thread::spawn(move || {
            (0..later).all(|_| {
                std::thread::sleep(Duration::from_millis(200));
                writer.write_all(b"a").is_ok()
            })
        });
        (stream, drip, answers, why)
    });
    for (mut stream, drip, answers, why) in slow {
        let text = read_all(&mut stream);
        assert_eq!(text.matches("HTTP/1.1 200").count(), answers, "{why}: {text}");
        assert!(!drip.join().expect("a thread") || answers == 2, "{why}: it is read on");
    }
    let metrics = world.get("/metrics").text;
    assert!(metrics.contains("billing_http_connections_closed_total{reason=\"late\"} "), "{metrics}");
    assert!(!metrics.contains("billing_http_connections_closed_total{reason=\"late\"} 0\n"), "{metrics}");
}

/// As docs/api.md says: these never come as far as the interface.
#[test]
fn a_head_that_cannot_be_read_is_answered_without_a_document() {
    let world = World::new();
    let fields = |count: usize, value: &str| {
        let fields: String = (0..count).map(|i| format!("X-{i}: {value}\r\n")).collect();
        format!("GET /livez HTTP/1.1\r\nHost: x\r\n{fields}\r\n")
    };
    let large = "a".repeat(10_000);
    #[rustfmt::skip]
    let cases = [
        // head,                                             status, why
        ("nonsense\r\n\r\n".to_owned(),                      400,    "no HTTP"),
        ("GET /livez HTTP/1.1\r\n\r\n".to_owned(),           400,    "no host"),
        (fields(95, "a"),                                    200,    "96 fields, the host among them"),
        (fields(96, "a"),                                    431,    "one more"),
        (fields(14, &large),                                 431,    "more than 128 KiB"),
        ("GET /livez HTTP/1.1\r\nHost: x\r\n".to_owned(),    408,    "no end of it in time"),
    ];
    for (head, status, why) in cases {
        let mut stream = world.raw();
        // What is too large may be refused before it is sent.
        drop(stream.write_all(head.as_bytes()));
        let answer = read_all(&mut stream);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{why}: {answer}");
        assert!(status == 200 || answer.contains("content-length: 0\r\n"), "{why}: {answer}");
    }
}

#[test]
fn a_body_too_large_is_refused_before_it_is_read() {
    let world = World::new();
    let mut stream = world.raw();
    send_raw(&mut stream, &head(&world, "Content-Length: 10000000000"));
    let answer = read_all(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("payload_too_large"), "{answer}");

    let mut stream = world.raw();
    send_raw(&mut stream, &head(&world, "Transfer-Encoding: chunked"));
    let chunk = format!("4000\r\n{}\r\n", " ".repeat(0x4000));
    for _ in 0..5 {
        send_raw(&mut stream, &chunk);
    }
    let answer = read_all(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[test]
fn who_has_no_key_holds_no_connection() {
    let world = World::new();
    #[rustfmt::skip]
    let cases = [
        // request,              headers,                          status, why
        ("POST /api/track/",     "Content-Length: 1000",           "401",  "no key"),
        ("POST /api/track/",     "Transfer-Encoding: chunked",     "401",  "no key, and no end"),
        ("POST /api/nope/",      "Transfer-Encoding: chunked",     "404",  "no such route"),
        ("POST /livez",          "Transfer-Encoding: chunked",     "405",  "no such method"),
    ];
    let began = Instant::now();
    let mut streams = cases.map(|(request, headers, _, _)| {
        let mut stream = world.raw();
        send_raw(&mut stream, &format!("{request} HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n"));
        stream
    });
    for (stream, (request, _, status, why)) in streams.iter_mut().zip(cases) {
        let answer = read_all(stream);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {why}: {answer}");
    }
    assert!(began.elapsed() < Duration::from_secs(10), "all are closed: {:?}", began.elapsed());
}

#[test]
fn what_else_a_request_carries_does_not_matter() {
    let world = World::new();
    let body = br#"{"customer_id":"a/b.c@d","email":"a@b.io","$type":"x","library":"y","sentAt":null}"#;
    let headers = [
        ("X-API-KEY", world.key.as_str()),
        ("Content-Type", "Application/JSON; charset=UTF-8"),
        ("Accept", "text/html"),
    ];
    assert_eq!(world.send("POST", "/api/customers", &headers, body).ok(201)["customer_id"], "a/b.c@d");
    for path in ["/api/customers/a%2Fb.c@d/", "/api/customers/a%2fb.c%40d"] {
        assert_eq!(world.get(path).ok(200)["customer_id"], "a/b.c@d", "{path}");
    }
}
