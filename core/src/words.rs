//! Words that are joined and compared, also at compile time, without allocation.

/// A message.
pub(crate) struct Words {
    bytes: [u8; Words::ROOM],
    len: usize,
}

impl Words {
    /// More than any message has. The rest of a longer one is cut off.
    const ROOM: usize = 512;

    pub(crate) const fn new() -> Self {
        Words { bytes: [0; Words::ROOM], len: 0 }
    }

    pub(crate) const fn with(mut self, words: &str) -> Self {
        let mut index = 0;
        while index < words.len() && self.len < Words::ROOM {
            self.bytes[self.len] = words.as_bytes()[index];
            self.len += 1;
            index += 1;
        }
        self
    }

    pub(crate) const fn with_number(self, number: u64) -> Self {
        let words = if number < 10 { self } else { self.with_number(number / 10) };
        let digit = [b'0' + (number % 10) as u8];
        match core::str::from_utf8(&digit) {
            Ok(digit) => words.with(digit),
            Err(_) => words,
        }
    }

    pub(crate) const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(words) => words,
            Err(_) => "a message that was cut off",
        }
    }
}

/// Returns whether `text` has this word from `from` to `to`, in any case, and with `_` for `-`.
pub(crate) const fn is_word(text: &str, from: usize, to: usize, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    let mut index = 0;
    while index < word.len() && from + index < to {
        let (found, wanted) = (text[from + index], word[index]);
        if !found.eq_ignore_ascii_case(&wanted) && !matches!((found, wanted), (b'_', b'-')) {
            return false;
        }
        index += 1;
    }
    index == word.len() && from + index == to
}
