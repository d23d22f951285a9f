//! The holder of a lock in words, for people.

use core::fmt;
use core::str::FromStr;

/// The holder of a lock in words, for people: a host's name and a process, say. It decides nothing.
///
/// It has 1 to 64 characters of visible ASCII, without `|` and `>`, and no space.
///
/// ```
/// use lockage_core::lock::Label;
///
/// let label: Label = "web-1/4711".parse()?;
/// assert_eq!(label.as_str(), "web-1/4711");
/// assert!("web 1".parse::<Label>().is_err());
/// # Ok::<(), lockage_core::lock::LabelError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Label {
    /// Zeros behind the text.
    bytes: [u8; Label::MAX_LEN],
    len: usize,
}

impl Label {
    /// The most characters that a label has.
    pub const MAX_LEN: usize = 64;

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).expect("labels are ASCII")
    }
}

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        // The record has these two before its sections.
        let is_right =
            |character: &char| character.is_ascii_graphic() && !"|>".contains(*character);
        if let Some(character) = text.chars().find(|character| !is_right(character)) {
            return Err(LabelError::Character { character });
        }
        let len = text.len();
        if !(1..=Label::MAX_LEN).contains(&len) {
            return Err(LabelError::Length { len });
        }
        let mut bytes = [0; Label::MAX_LEN];
        bytes[..len].copy_from_slice(text.as_bytes());
        Ok(Label { bytes, len })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Label").field(&self.as_str()).finish()
    }
}

/// A text that is not a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelError {
    /// It is empty or too long.
    Length {
        /// Its number of characters.
        len: usize,
    },
    /// It has an invalid character.
    Character {
        /// The first invalid character.
        character: char,
    },
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelError::Length { len } => {
                write!(f, "a label of {len} characters: it must have 1 to {}", Label::MAX_LEN)
            }
            LabelError::Character { character } => write!(
                f,
                "{character:?} in a label: its characters must be visible ASCII other than | and >"
            ),
        }
    }
}

impl core::error::Error for LabelError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    #[test]
    fn labels_are_visible_ascii_that_a_record_can_hold() {
        let visible: String = ('!'..='~').filter(|one| !['|', '>'].contains(one)).collect();
        for text in ["x", &visible[..64], &visible[visible.len() - 64..]] {
            let label: Label = text.parse().unwrap();
            assert_eq!((label.as_str(), label.to_string().as_str()), (text, text));
        }
        for character in ['|', '>', ' ', '\n', '\u{7f}', 'é'] {
            let text = String::from_iter(["web", &character.to_string()]);
            assert_eq!(text.parse::<Label>(), Err(LabelError::Character { character }));
        }
        for len in [0, 65] {
            assert_eq!("x".repeat(len).parse::<Label>(), Err(LabelError::Length { len }));
        }
        assert_eq!(alloc::format!("{:?}", "web".parse::<Label>().unwrap()), "Label(\"web\")");
        let told = |text: &str| text.parse::<Label>().unwrap_err().to_string();
        assert_eq!(told(""), "a label of 0 characters: it must have 1 to 64");
        assert!(told("a|b").starts_with("'|' in a label"));
    }
}
