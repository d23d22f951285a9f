//! The protocol of Redis, with the command of redis-cell: `CL.THROTTLE key max_burst count period [quantity]`.

use std::pin::pin;
use std::time::Duration;

use lockage::Decision;
use lockage::limiter::TokenBucket;
use lockage::observer::ErrorKind;
use lockage_rules::{Costs, RuleLimit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::Failure;
use crate::gate::{Asked, Gate, Outcome, Own};
use crate::serve::{Bounds, Connection};

/// The most words of a command, and the most bytes of one.
const MOST_WORDS: usize = 64;
const LONGEST_WORD: usize = 4096;

/// The bytes that are read at once: some dozens of commands.
const READ: usize = 4096;

/// Serves a connection until it ends, or has no request under way when serving ends.
pub(crate) async fn serve(stream: TcpStream, connection: Connection, gate: Gate) {
    let Some(tls) = connection.tls.clone() else { return talk(stream, connection, gate).await };
    match timeout(connection.bounds.patience, tls.accept(stream)).await {
        Ok(Ok(stream)) => talk(stream, connection, gate).await,
        Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
        Err(_) => tracing::debug!("a handshake took too long"),
    }
}

async fn talk(mut stream: impl AsyncRead + AsyncWrite + Unpin, connection: Connection, gate: Gate) {
    let Connection { bounds: Bounds { patience, .. }, mut stop, .. } = connection;
    let mut stops = pin!(stop.wait_for(|stops| *stops));
    let (mut read, mut write, mut start) = (Vec::with_capacity(READ), Vec::new(), 0);
    loop {
        let mut ends = false;
        loop {
            match command(&read[start..]) {
                Ok(Some((words, length))) => {
                    start += length;
                    ends = answer(&words, &gate, &mut write).await;
                }
                Ok(None) => break,
                Err(message) => {
                    error(&mut write, &format!("ERR Protocol error: {message}"));
                    ends = true;
                }
            }
            if ends || write.len() > 64 * 1024 {
                break;
            }
        }
        let written = timeout(patience, stream.write_all(&write)).await;
        if ends || !matches!(written, Ok(Ok(()))) {
            let _ = stream.shutdown().await;
            return;
        }
        write.clear();
        read.drain(..start);
        start = 0;
        let has_begun = !read.is_empty();
        if has_begun && matches!(command(&read), Ok(Some(_))) {
            continue;
        }
        // A command that has begun is awaited only so long; an idle connection may stay.
        let more = async {
            let more = stream.read_buf(&mut read);
            if has_begun { timeout(patience, more).await.unwrap_or(Ok(0)) } else { more.await }
        };
        let more = tokio::select! {
            more = more => more,
            _ = &mut stops => return,
        };
        if !matches!(more, Ok(1..)) {
            return;
        }
    }
}

/// A command's words, and the length of its text.
pub(crate) type Command<'a> = (Vec<&'a [u8]>, usize);

/// Reads a command: a list of texts, the only form in which clients send one. Libraries for the protocol read replies too,
/// which may be nested, and would go as deep as a sender likes.
pub(crate) fn command(text: &[u8]) -> Result<Option<Command<'_>>, String> {
    let mut at = 0;
    let Some(count) = header(text, &mut at, b'*', MOST_WORDS)? else { return Ok(None) };
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let Some(length) = header(text, &mut at, b'$', LONGEST_WORD)? else { return Ok(None) };
        let Some(word) = text.get(at..at + length + 2) else { return Ok(None) };
        if &word[length..] != b"\r\n" {
            return Err("expected the end of a text".into());
        }
        words.push(&word[..length]);
        at += length + 2;
    }
    Ok(Some((words, at)))
}

/// Reads a sign and a number up to `most`.
fn header(text: &[u8], at: &mut usize, sign: u8, most: usize) -> Result<Option<usize>, String> {
    let rest = &text[*at..];
    match rest.first() {
        None => return Ok(None),
        Some(first) if *first != sign => {
            return Err(format!("expected `{}`, found `{}`", sign as char, first.escape_ascii()));
        }
        Some(_) => {}
    }
    let Some(end) = rest.iter().take(16).position(|byte| *byte == b'\r') else {
        return if rest.len() < 16 { Ok(None) } else { Err("expected a number".into()) };
    };
    match rest.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err("expected the end of a line".into()),
    }
    let number = number::<usize>(&rest[1..end]).ok_or("expected a number")?;
    if number > most {
        return Err(format!("{number} is more than {most}"));
    }
    *at += end + 2;
    Ok(Some(number))
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn error(write: &mut Vec<u8>, message: &str) {
    write.push(b'-');
    write.extend(message.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
    write.extend(b"\r\n");
}

fn bulk(write: &mut Vec<u8>, text: &[u8]) {
    write.extend(format!("${}\r\n", text.len()).as_bytes());
    write.extend(text);
    write.extend(b"\r\n");
}

/// Answers a command, and returns whether the connection ends.
async fn answer(words: &[&[u8]], gate: &Gate, write: &mut Vec<u8>) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    match (name.to_ascii_uppercase().as_slice(), arguments) {
        (b"CL.THROTTLE", arguments) => match throttle(arguments) {
            Ok(asked) => {
                let write_reply = |outcome: &Outcome<'_>| outcome.met[0].1.map(reply);
                let is_look = asked.own[0].costs == Costs::One(0);
                let decided = match is_look {
                    true => gate.peek(&asked, write_reply).await,
                    false => gate.decide(asked, None, write_reply).await,
                };
                match decided {
                    Ok(Some(reply)) => write.extend(reply.as_bytes()),
                    Ok(None) => error(write, "ERR no decision"),
                    Err(failure) => refuse(write, &failure),
                }
            }
            Err(message) => error(write, &format!("ERR {message}")),
        },
        (b"PING", []) => write.extend(b"+PONG\r\n"),
        (b"PING" | b"ECHO", [text]) => bulk(write, text),
        // What clients say of themselves as they connect.
        (b"CLIENT", [verb, ..])
            if verb.eq_ignore_ascii_case(b"SETNAME") || verb.eq_ignore_ascii_case(b"SETINFO") =>
        {
            write.extend(b"+OK\r\n");
        }
        (b"SELECT", [b"0"]) => write.extend(b"+OK\r\n"),
        (b"COMMAND", _) => write.extend(b"*0\r\n"),
        (b"HELLO", []) => hello(write, b'2'),
        (b"HELLO", [[version @ (b'2' | b'3')], options @ ..]) if !has_login(options) => {
            hello(write, *version)
        }
        (b"HELLO", [[b'2' | b'3'], ..]) => error(write, "ERR there are no passwords here"),
        (b"HELLO", _) => error(write, "NOPROTO unsupported protocol version"),
        (b"QUIT", _) => {
            write.extend(b"+OK\r\n");
            return true;
        }
        (name, _) => {
            error(write, &format!("ERR unknown command or arguments of '{}'", name.escape_ascii()))
        }
    }
    false
}

fn has_login(options: &[&[u8]]) -> bool {
    options.iter().any(|option| option.eq_ignore_ascii_case(b"AUTH"))
}

/// Answers a greeting. All other replies are the same in both versions.
fn hello(write: &mut Vec<u8>, version: u8) {
    write.extend(if version == b'3' { b"%3\r\n" } else { b"*6\r\n" });
    for text in ["server", "lockage", "version", env!("CARGO_PKG_VERSION"), "proto"] {
        bulk(write, text.as_bytes());
    }
    write.extend([b':', version, b'\r', b'\n']);
}

fn refuse(write: &mut Vec<u8>, failure: &Failure) {
    let kind = match failure.kind() {
        // Clients of Redis try again after this one.
        ErrorKind::NotDone => "TRYAGAIN",
        _ => "ERR",
    };
    error(write, &format!("{kind} {failure}"));
}

/// Reads the arguments of redis-cell: its GCRA is a token bucket with one token more than `max_burst`.
fn throttle(arguments: &[&[u8]]) -> Result<Asked, String> {
    let [key, burst, count, period, quantity @ ..] = arguments else {
        return Err("wrong number of arguments for 'CL.THROTTLE'".into());
    };
    let quantity = match quantity {
        [] => 1,
        [quantity] => whole(quantity, "the quantity")?,
        _ => return Err("wrong number of arguments for 'CL.THROTTLE'".into()),
    };
    let id = std::str::from_utf8(key).map_err(|_| "the key is not UTF-8")?;
    let burst = whole(burst, "max_burst")?.saturating_add(1);
    let (count, period) = (whole(count, "the count")?, whole(period, "the period")?);
    let bucket = TokenBucket::new(count, Duration::from_secs(period), burst);
    let bucket = bucket.map_err(|error| format!("max_burst, the count and the period: {error}"))?;
    let (limit, id) = (RuleLimit::Given(bucket.into()), Some(id.to_owned()));
    Ok(Asked {
        requests: Vec::new(),
        own: vec![Own { place: 0, id, limit, costs: Costs::One(quantity) }],
    })
}

fn whole(text: &[u8], name: &str) -> Result<u64, String> {
    number(text)
        .ok_or_else(|| format!("{name} is no whole number from 0 on: {}", text.escape_ascii()))
}

fn reply(decision: &Decision) -> String {
    let [limited, limit, remaining, retry_after, reset_after] = decision.to_redis_cell();
    format!("*5\r\n:{limited}\r\n:{limit}\r\n:{remaining}\r\n:{retry_after}\r\n:{reset_after}\r\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_command_is_read_as_it_was_sent(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8)) {
            let mut text = format!("*{}\r\n", words.len()).into_bytes();
            words.iter().for_each(|word| bulk(&mut text, word));
            let (read, length) = command(&text).expect("it is one").expect("it is whole");
            prop_assert_eq!(length, text.len());
            prop_assert!(read.iter().copied().eq(words.iter().map(Vec::as_slice)));
            for end in 0..text.len() {
                prop_assert_eq!(command(&text[..end]), Ok(None));
            }
        }
    }

    #[test]
    fn commands_are_read_whole_or_not_yet() {
        let text = b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n*1\r\n";
        for end in 0..text.len() {
            let read = command(&text[..end]).expect("it is the beginning of a command");
            assert_eq!(read.is_some(), end >= 22, "after {end} bytes");
        }
        let (words, length) = command(text).expect("it is one").expect("it is whole");
        assert_eq!((words, length), (vec![&b"PING"[..], b"hi"], 22));
    }

    #[test]
    fn what_is_no_command_is_refused_at_once() {
        for text in [
            "PING\r\n",
            "*x\r\n",
            "*-1\r\n",
            "*65\r\n",
            "*1\r\n$4097\r\n",
            "*1\r\n*1\r\n",
            "*1\r\n$-1\r\n",
            "*1\r\n$1\r\nab\r\n",
            "*1\rx",
            "*11111111111111111111",
            "*1\r\n$+1\r\nx\r\n",
        ] {
            assert!(command(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
