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
    fn long_text_is_cut_at_characters() {
        assert_eq!(shorten("ünïcödé", 4), "ünï…");
        assert_eq!(shorten("ünïc", 4), "ünïc");
    }
}
