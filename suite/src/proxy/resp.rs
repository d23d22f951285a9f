//! The boundaries of requests and replies in RESP2 and RESP3.

/// Returns the length of the first request or reply in `bytes`; `None` while it is incomplete.
///
/// A reply's attributes belong to it. Bytes that are not RESP count as a line.
pub(super) fn frame_length(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut values) = (0, 1);
    while values > 0 {
        let header = line(bytes.get(at..)?)?;
        at += header.len() + 2;
        // A length of -1 is nil.
        let length = std::str::from_utf8(header.get(1..).unwrap_or_default()).ok();
        let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        values -= 1;
        match header.first() {
            Some(b'$' | b'=' | b'!') if header != b"$-1" => at += length + 2,
            Some(b'*' | b'~' | b'>') => values += length,
            Some(b'%') => values += 2 * length,
            // The value that they are attributes of follows.
            Some(b'|') => values += 2 * length + 1,
            _ => {}
        }
    }
    (at <= bytes.len()).then_some(at)
}

/// Returns whether a reply is a push, which comes unasked, between replies.
pub(super) fn is_push(reply: &[u8]) -> bool {
    reply.first() == Some(&b'>')
}

/// Returns the kind of a push, `message` for instance.
pub(super) fn push_name(reply: &[u8]) -> Option<&[u8]> {
    let name = reply.split(|byte| *byte == b'\n').nth(2).filter(|_| is_push(reply))?;
    Some(name.trim_ascii_end())
}

/// Returns the command's name in capitals, of a request that is an array of bulk strings or a plain line.
pub(super) fn command_name(request: &[u8]) -> String {
    let first = match request.first() {
        Some(b'*') => request.split(|byte| *byte == b'\n').nth(2),
        _ => request.split(u8::is_ascii_whitespace).next(),
    };
    String::from_utf8_lossy(first.unwrap_or_default()).trim().to_ascii_uppercase()
}

fn line(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some(&bytes[..end])
}

#[cfg(test)]
mod tests {
    use super::{command_name, frame_length, push_name};

    #[test]
    fn a_frame_ends_where_it_ends_and_not_before() {
        for frame in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":-1\r\n",
            "_\r\n",
            ",1.5\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "$0\r\n\r\n",
            "$5\r\na\r\n*1\r\n",
            "=7\r\ntxt:a\r\n\r\n",
            "!3\r\nERR\r\n",
            "*0\r\n",
            "*2\r\n*2\r\n:1\r\n$1\r\na\r\n~1\r\n$-1\r\n",
            "%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
            "|1\r\n+ttl\r\n:9\r\n*1\r\n$2\r\nab\r\n",
            ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
            "PING\r\n",
        ] {
            let followed = format!("{frame}+next\r\n");
            assert_eq!(frame_length(followed.as_bytes()), Some(frame.len()), "{frame:?}");
            for end in 0..frame.len() {
                assert_eq!(frame_length(&frame.as_bytes()[..end]), None, "{:?}", &frame[..end]);
            }
        }
    }

    #[test]
    fn a_push_has_a_name() {
        let push = b">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n";
        assert_eq!(push_name(push), Some(&b"sunsubscribe"[..]));
        assert_eq!([push_name(b"*1\r\n$1\r\na\r\n"), push_name(b":1\r\n")], [None; 2]);
    }

    #[test]
    fn a_command_has_one_name_however_it_is_sent() {
        for request in ["*2\r\n$4\r\neval\r\n$1\r\n0\r\n", "EVAL 0\r\n", "Eval\r\n"] {
            assert_eq!(command_name(request.as_bytes()), "EVAL");
        }
    }
}
