//! Lists of strings with parameters, as structured fields have them (RFC 9651): `RateLimit` and `RateLimit-Policy`.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// With or without padding, as readers should accept it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A string, and its parameters as they are written.
#[derive(Debug, PartialEq)]
pub(crate) struct Item<'a> {
    /// Without quotes; escapes are as written.
    pub(crate) name: &'a str,
    /// The item without its name: empty, or beginning with a semicolon.
    pub(crate) parameters: &'a str,
    values: Vec<(&'a str, &'a str)>,
}

impl Item<'_> {
    /// Returns the last value of an integer parameter.
    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        let (_, value) = self.values.iter().rev().find(|(name, _)| *name == key)?;
        value.parse().ok()
    }
}

/// Reads a list of strings with parameters; `None` for anything else.
pub(crate) fn items(text: &str) -> Option<Vec<Item<'_>>> {
    let mut rest = Rest(text.trim_matches(' '));
    let mut items = Vec::new();
    while !rest.0.is_empty() {
        if !items.is_empty() {
            rest.take(",")?;
            rest.skip([' ', '\t']);
        }
        let name = rest.string()?;
        let begin = rest.0;
        let mut values = Vec::new();
        while rest.take(";").is_some() {
            rest.skip([' '; 2]);
            let key = rest.run(is_key)?;
            if !key.starts_with(|first: char| first.is_ascii_lowercase() || first == '*') {
                return None;
            }
            values.push((key, if rest.take("=").is_some() { rest.value()? } else { "" }));
        }
        let parameters = &begin[..begin.len() - rest.0.len()];
        items.push(Item { name, parameters, values });
        rest.skip([' ', '\t']);
    }
    Some(items)
}

/// The text that is not read yet.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn take(&mut self, prefix: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(prefix)?;
        Some(())
    }

    fn skip(&mut self, blanks: [char; 2]) {
        self.0 = self.0.trim_start_matches(blanks);
    }

    /// Takes the characters that `belongs` accepts; at least one.
    fn run(&mut self, belongs: impl Fn(u8) -> bool) -> Option<&'a str> {
        let end = self.0.bytes().position(|byte| !belongs(byte)).unwrap_or(self.0.len());
        // The run is ASCII, so this is between characters.
        let (run, rest) = self.0.split_at(end);
        self.0 = rest;
        (end > 0).then_some(run)
    }

    /// Takes a string, and returns it without its quotes.
    fn string(&mut self) -> Option<&'a str> {
        self.take("\"")?;
        let text = self.0;
        let mut bytes = text.bytes().enumerate();
        while let Some((index, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.0 = &text[index + 1..];
                    return Some(&text[..index]);
                }
                b'\\' => drop(bytes.next().filter(|(_, next)| b"\"\\".contains(next))?),
                b' '..=b'~' => {}
                _ => return None,
            }
        }
        None
    }

    /// Takes a bare item of any type, as it is written.
    fn value(&mut self) -> Option<&'a str> {
        let begin = self.0;
        match begin.bytes().next()? {
            b'"' => drop(self.string()?),
            b'?' => {
                self.take("?")?;
                self.take("0").or_else(|| self.take("1"))?;
            }
            b':' => {
                self.take(":")?;
                let end = self.0.find(':')?;
                BASE64.decode(&self.0[..end]).ok()?;
                self.0 = &self.0[end + 1..];
            }
            b'-' | b'0'..=b'9' => self.number()?,
            first if first.is_ascii_alphabetic() || first == b'*' => drop(self.run(is_token)?),
            // Dates and display strings, which no field of limits has.
            _ => return None,
        }
        Some(&begin[..begin.len() - self.0.len()])
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.take("-");
        let whole = self.run(|byte| byte.is_ascii_digit())?.len();
        if self.take(".").is_none() {
            return (whole <= 15).then_some(());
        }
        let fraction = self.run(|byte| byte.is_ascii_digit())?.len();
        (whole <= 12 && fraction <= 3).then_some(())
    }
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}
