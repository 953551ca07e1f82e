//! What connections take of the server's memory, before any of their requests is answered.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use postgres_local::Cluster;

use super::acknowledged::{KEY, Process};

/// Connections that send at once. Each client's is a file of this process, which may have as few as a thousand.
const CONNECTIONS: usize = 500;
/// What the server may take for them: bodies of one organization have a budget of 36 MiB, and each connection its buffers and
/// its request, which in a build without optimisation take the most. Twice as much was taken when each of them could fill the
/// library's buffers before anybody had looked at its request.
const GROWTH_MIB_MAX: u64 = 192;
/// How long they go on: the server is slower than they are.
const SENDING: Duration = Duration::from_secs(3);

#[test]
fn connections_that_send_more_than_is_taken_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let cluster = Cluster::persistent(&folder.path().join("postgres")).expect("a cluster");
    cluster.create_database_if_absent("billing").expect("a database");
    let server = Process::start(&cluster.url("billing"), &folder.path().join("server"));
    let before = server.memory_mib("VmRSS");
    let head = format!("POST /api/track/ HTTP/1.1\r\nHost: x\r\nX-API-KEY: {KEY}\r\n");
    send(server.addr(), &format!("{head}Content-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"));
    let grown = server.memory_mib("VmHWM").saturating_sub(before);
    assert!(grown <= GROWTH_MIB_MAX, "{grown} MiB more than the {before} before");
}

/// Opens the connections and sends on each of them as much as the server lets it.
fn send(addr: &str, head: &str) {
    let piece = vec![b' '; 64 * 1024];
    let connect = || {
        let mut stream = TcpStream::connect(addr).expect("a connection");
        stream.write_all(head.as_bytes()).expect("sent");
        stream.set_nonblocking(true).expect("set");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect()).collect();
    let began = Instant::now();
    while began.elapsed() < SENDING {
        for stream in &mut streams {
            // It may be full, or closed by now.
            drop(stream.write(&piece));
        }
        thread::sleep(Duration::from_millis(20));
    }
}
