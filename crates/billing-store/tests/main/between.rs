//! Somebody who stands between the service and its database, and does to commits what networks, poolers and other engines do.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

/// Under this number a server's socket is looked for in a folder.
pub const PORT: u16 = 5432;

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Commit {
    /// It is passed on.
    Passed,
    /// The server takes the transaction back and answers an error.
    Refused,
    /// The server takes the transaction back, warns, and answers as if it had committed.
    Warned,
    /// The connection is closed before the server hears of it.
    Lost,
    /// The server commits, and the connection is closed before anybody hears of that.
    LostBehind,
}

/// A socket that leads to a server's.
pub struct Between {
    folder: TempDir,
    commit: Arc<AtomicU8>,
    open: Arc<Mutex<Vec<UnixStream>>>,
}

impl Between {
    /// Before the server whose socket this is.
    pub fn before(server: String) -> Self {
        let folder = TempDir::new().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(format!(".s.PGSQL.{PORT}"))).expect("a socket");
        let (commit, open) = (Arc::new(AtomicU8::new(Commit::Passed as u8)), Arc::<Mutex<Vec<UnixStream>>>::default());
        let (of_clients, all) = (Arc::clone(&commit), Arc::clone(&open));
        // It ends with the test's process: nobody connects any more once the folder is gone.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = UnixStream::connect(&server).expect("the server's socket");
                all.lock().expect("a lock").push(client.try_clone().expect("a handle"));
                let commit = Arc::clone(&of_clients);
                thread::spawn(move || drop(pass_on(client, server, &commit)));
            }
        });
        Self { folder, commit, open }
    }

    /// The folder of the socket.
    pub fn folder(&self) -> &str {
        self.folder.path().to_str().expect("a plain path")
    }

    /// From here on this becomes of commits.
    pub fn make_commits(&self, commit: Commit) {
        self.commit.store(commit as u8, Ordering::SeqCst);
    }

    /// Lets nobody through any more, and closes what is open.
    pub fn leave(&self) {
        let _gone = std::fs::remove_file(self.folder.path().join(format!(".s.PGSQL.{PORT}")));
        self.open.lock().expect("a lock").drain(..).for_each(|open| close(&open));
    }
}

fn close(stream: &UnixStream) {
    // Closed already is as well.
    stream.shutdown(Shutdown::Both).unwrap_or_default();
}

/// What a connection's two directions share.
#[derive(Default)]
struct Lie {
    /// The next answer to a rollback is told as that of a commit.
    is_told: AtomicBool,
    /// The next answer is not told at all.
    is_kept: AtomicBool,
}

fn pass_on(mut client: UnixStream, mut server: UnixStream, commit: &AtomicU8) -> std::io::Result<()> {
    let lie = Arc::new(Lie::default());
    let (answers, requester, of_answers) = (server.try_clone()?, client.try_clone()?, Arc::clone(&lie));
    thread::spawn(move || {
        let _ended = pass_back(&answers, &requester, &of_answers);
        [answers, requester].iter().for_each(close);
    });
    // The first message has no type.
    let start = read_sized(&mut client)?;
    server.write_all(&start)?;
    let ended = loop {
        let mut kind = [0];
        if client.read_exact(&mut kind).is_err() {
            break Ok(());
        }
        let message = read_sized(&mut client)?;
        let asked = match (kind[0], &message[4..]) {
            (b'Q', b"COMMIT\0") => commit.load(Ordering::SeqCst),
            _ => Commit::Passed as u8,
        };
        let replaced = if asked == Commit::Refused as u8 {
            "ROLLBACK; SELECT 1 / 0"
        } else if asked == Commit::Warned as u8 {
            lie.is_told.store(true, Ordering::SeqCst);
            "DO $$ BEGIN RAISE WARNING 'failed to commit'; END $$; ROLLBACK"
        } else if asked == Commit::Lost as u8 {
            break Ok(());
        } else {
            lie.is_kept.store(asked == Commit::LostBehind as u8, Ordering::SeqCst);
            server.write_all(&kind)?;
            server.write_all(&message)?;
            continue;
        };
        server.write_all(&query(replaced))?;
    };
    [server, client].iter().for_each(close);
    ended
}

fn pass_back(mut server: &UnixStream, mut client: &UnixStream, lie: &Lie) -> std::io::Result<()> {
    loop {
        let mut kind = [0];
        server.read_exact(&mut kind)?;
        let message = read_sized(&mut server)?;
        let body = &message[4..];
        if kind[0] == b'C' && lie.is_kept.load(Ordering::SeqCst) {
            return Ok(());
        }
        if kind[0] == b'C' && lie.is_told.load(Ordering::SeqCst) {
            if body == b"ROLLBACK\0" {
                lie.is_told.store(false, Ordering::SeqCst);
                client.write_all(&typed(b'C', b"COMMIT\0"))?;
            }
            continue;
        }
        client.write_all(&kind)?;
        client.write_all(&message)?;
    }
}

/// A message behind its type, its length in front.
fn read_sized(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; u32::from_be_bytes(length) as usize];
    message[..4].copy_from_slice(&length);
    stream.read_exact(&mut message[4..])?;
    Ok(message)
}

fn query(sql: &str) -> Vec<u8> {
    typed(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

fn typed(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}
