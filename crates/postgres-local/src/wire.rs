//! Just enough of Postgres's protocol (version 3, Unix socket, no password, simple queries) to run a statement, so that
//! neither a client library nor `psql` has to be there. See "Frontend/Backend Protocol" in the Postgres manual.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::Error;
use crate::settings::PORT;

const PROTOCOL_VERSION: i32 = 3 << 16;

/// SQLSTATE of `CREATE DATABASE` for one that exists.
pub(crate) const DUPLICATE_DATABASE: &str = "42P04";

/// A message as long as this is none: the server's stream is out of step.
const MESSAGE_BYTES_MAX: usize = 1 << 24;

/// A copy of a large template on a busy machine takes a while.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);

/// Runs one statement on a connection of its own and gives the first column of its rows.
///
/// # Errors
/// [`Error::Refused`] with the server's reason, or with an empty code when there is no server.
pub(crate) fn query(socket_folder: &Path, database: &str, statement: &str) -> Result<Vec<String>, Error> {
    let refused = |message: String, code: &str| Error::Refused {
        statement: statement.to_owned(),
        message,
        code: code.to_owned(),
    };
    match converse(socket_folder, database, statement) {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(refusal)) => Err(refused(refusal.message, &refusal.code)),
        Err(error) => Err(refused(error.to_string(), "")),
    }
}

/// An identifier that means exactly `name`.
pub(crate) fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text constant that means exactly `text`.
pub(crate) fn quote_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

struct Refusal {
    message: String,
    code: String,
}

fn converse(socket_folder: &Path, database: &str, statement: &str) -> io::Result<Result<Vec<String>, Refusal>> {
    if database.contains('\0') || statement.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "text with a NUL"));
    }
    let mut stream = UnixStream::connect(socket_folder.join(format!(".s.PGSQL.{PORT}")))?;
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    let mut hello = PROTOCOL_VERSION.to_be_bytes().to_vec();
    hello.extend(format!("user\0postgres\0database\0{database}\0\0").bytes());
    send(&mut stream, None, &hello)?;
    if let Err(refusal) = read_until_ready(&mut stream)? {
        return Ok(Err(refusal));
    }
    send(&mut stream, Some(b'Q'), format!("{statement}\0").as_bytes())?;
    let answer = read_until_ready(&mut stream)?;
    // The answer is there already; whether the farewell arrives makes no difference.
    let _ = send(&mut stream, Some(b'X'), &[]);
    Ok(answer)
}

fn send(stream: &mut UnixStream, kind: Option<u8>, body: &[u8]) -> io::Result<()> {
    let length = i32::try_from(body.len() + 4).map_err(io::Error::other)?;
    let mut message: Vec<u8> = kind.into_iter().collect();
    message.extend(length.to_be_bytes());
    message.extend(body);
    stream.write_all(&message)
}

/// Collects rows up to the server's "ready for the next query"; a refusal at login is followed by the end of the
/// stream.
fn read_until_ready(stream: &mut UnixStream) -> io::Result<Result<Vec<String>, Refusal>> {
    let mut rows = Vec::new();
    let mut refusal = None;
    loop {
        let (kind, body) = match read_message(stream) {
            Err(error) => return refusal.map_or(Err(error), |refusal| Ok(Err(refusal))),
            Ok(message) => message,
        };
        match kind {
            b'Z' => return Ok(refusal.map_or(Ok(rows), Err)),
            b'D' => rows.push(first_column(&body).unwrap_or_default()),
            b'E' => refusal = Some(parse_refusal(&body)),
            b'R' if body != [0; 4] => return Err(io::Error::other("the server asks for a password")),
            _ => {}
        }
    }
}

fn read_message(stream: &mut UnixStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let length = usize::try_from(i32::from_be_bytes(length)).ok().and_then(|length| length.checked_sub(4));
    let length = length
        .filter(|length| *length <= MESSAGE_BYTES_MAX)
        .ok_or_else(|| io::Error::other("not a Postgres server"))?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((kind, body))
}

/// A row is a count of columns, then for each its length (-1 for NULL) and its text.
fn first_column(row: &[u8]) -> Option<String> {
    let (length, rest) = row.get(2..)?.split_first_chunk::<4>()?;
    let length = usize::try_from(i32::from_be_bytes(*length)).ok()?;
    Some(String::from_utf8_lossy(rest.get(..length)?).into_owned())
}

/// A list of fields, each a letter and a text that ends in NUL: `M` is the message, `C` the SQLSTATE.
fn parse_refusal(body: &[u8]) -> Refusal {
    let field = |letter: u8| {
        let found = body.split(|&byte| byte == 0).find(|field| field.first() == Some(&letter));
        found.map(|field| String::from_utf8_lossy(&field[1..]).into_owned()).unwrap_or_default()
    };
    Refusal { message: field(b'M'), code: field(b'C') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_exactly() {
        assert_eq!(quote_identifier(r#"a"b"#), r#""a""b""#);
        assert_eq!(quote_literal("it's"), "'it''s'");
    }

    #[test]
    fn reads_rows_and_refusals() {
        assert_eq!(first_column(b"\0\x01\0\0\0\x02on").as_deref(), Some("on"));
        assert_eq!(first_column(b"\0\x01\xff\xff\xff\xff"), None, "NULL");
        assert_eq!(first_column(b"\0\x01\0\0\0\x09on"), None, "cut short");
        let refusal = parse_refusal(b"SFATAL\0C3D000\0Mno such database\0\0");
        assert_eq!((refusal.code.as_str(), refusal.message.as_str()), ("3D000", "no such database"));
    }
}
