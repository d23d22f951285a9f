//! Foreign text: valid UTF-8, without control characters, and short.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns bytes as text, with `\xNN` for those that are not UTF-8.
///
/// Unlike replacement characters, this keeps different keys different.
pub(crate) fn escape_invalid(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("a String takes all that is written");
        }
    }
    Cow::Owned(text)
}

/// Escapes control characters, so that a log cannot control the terminal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c.is_control() {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Cuts a text to `longest` characters, the last of them an ellipsis.
pub(crate) fn shorten(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(longest.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Returns how a line begins, for an error.
pub(super) fn excerpt(line: &[u8]) -> String {
    shorten(&printable(&escape_invalid(line)), 80)
}

/// Returns the text without the sequences that colour a terminal.
pub(super) fn without_colours(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&0x1b) {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(place) = rest.windows(2).position(|pair| pair == b"\x1b[") {
        plain.extend_from_slice(&rest[..place]);
        let sequence = &rest[place + 2..];
        let length = sequence.iter().take_while(|byte| matches!(byte, 0x20..0x40)).count();
        rest = sequence.get(length + 1..).unwrap_or_default();
    }
    plain.extend_from_slice(rest);
    Cow::Owned(plain)
}

/// Returns the length up to the quote that is not escaped, or up to the end, without a last backslash that escapes
/// nothing.
pub(super) fn quoted(text: &[u8]) -> usize {
    let mut place = 0;
    while let Some(byte) = text.get(place) {
        match byte {
            b'"' => return place,
            b'\\' if place + 1 == text.len() => return place,
            b'\\' => place += 2,
            _ => place += 1,
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf8_stay_apart() {
        assert_eq!(escape_invalid(b"a\xffb"), "a\\xffb");
        assert_ne!(escape_invalid(b"\xe4"), escape_invalid(b"\xe5"));
        assert_eq!(escape_invalid("grün".as_bytes()), "grün");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("\u{1b}[31mred"), "\\u{1b}[31mred");
        assert_eq!(printable("plain"), "plain");
    }

    #[test]
    fn colours_are_taken_out() {
        let coloured = b"\x1b[35m\x1b[Ka.log\x1b[m\x1b[K:\x1b[1;31m5";
        assert_eq!(&*without_colours(coloured), b"a.log:5");
        assert_eq!(&*without_colours(b"cut \x1b[0"), b"cut ");
        assert_eq!(&*without_colours(b"plain"), b"plain");
    }

    #[test]
    fn long_text_is_cut_at_characters() {
        assert_eq!(shorten("ünïcödé", 4), "ünï…");
        assert_eq!(shorten("ünïc", 4), "ünïc");
    }
}
