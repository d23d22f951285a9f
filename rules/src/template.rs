//! Ids, made of the values of a request.

use std::fmt::Write;
use std::net::IpAddr;

use lockage::limiter::Ipv6Network;
use sha2::{Digest, Sha256};

use crate::condition::Said;
use crate::keys::Keys;
use crate::request::ADDRESS;

/// The text of an id with holes for values, such as `exports:{user|anonymous}`.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(String),
    Hole { key: usize, default: Option<String> },
}

/// A mistake in a template, at this byte.
pub(crate) type Refused = (usize, String);

impl Template {
    /// Reads a template. Its keys get numbers.
    pub(crate) fn parse(text: &str, keys: &mut Keys) -> Result<Template, Refused> {
        let (mut pieces, mut rest, mut offset) = (Vec::new(), text, 0);
        while !rest.is_empty() {
            let Some(open) = rest.find(['{', '}']) else {
                pieces.push(Piece::Literal(rest.to_owned()));
                break;
            };
            if open > 0 {
                pieces.push(Piece::Literal(rest[..open].to_owned()));
            }
            (rest, offset) = (&rest[open..], offset + open);
            let close = rest.find('}').filter(|close| *close > 0);
            let Some(close) = close else {
                let expected = "a brace alone: expected a key in braces, as in `user:{user}`";
                return Err((offset, expected.to_owned()));
            };
            let (name, default) = match rest[1..close].split_once('|') {
                Some((name, default)) => (name.trim(), Some(default.trim().to_owned())),
                None => (rest[1..close].trim(), None),
            };
            if name.is_empty() || name.contains('{') {
                let expected = "no key: expected one in braces, as in `user:{user}`";
                return Err((offset, expected.to_owned()));
            }
            if default.as_deref() == Some("") {
                let expected = format!("an empty default: expected one, as in `{{{name}|none}}`");
                return Err((offset, expected));
            }
            // Values have none of these, so ids of different values differ. An address has colons.
            let ends: &[char] = if name == ADDRESS { &[','] } else { &[',', ':'] };
            let behind = &rest[close + 1..];
            if !behind.is_empty() && !behind.starts_with(ends) {
                let ends = if name == ADDRESS { "`,`" } else { "`,` or `:`" };
                let message = format!(
                    "ids of different values could be alike: expected {ends} or the end after `{{{name}}}`"
                );
                return Err((offset + close + 1, message));
            }
            pieces.push(Piece::Hole { key: keys.number(name), default });
            (rest, offset) = (behind, offset + close + 1);
        }
        match pieces.is_empty() {
            true => Err((0, "an empty id: expected a text such as `user:{user}`".to_owned())),
            false => Ok(Template { text: text.to_owned(), pieces }),
        }
    }

    /// Returns the keys without which there is no id.
    pub(crate) fn needs(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Hole { key, default: None } => Some(*key),
            _ => None,
        })
    }

    /// Returns all keys that are in the id.
    pub(crate) fn keys(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Hole { key, .. } => Some(*key),
            Piece::Literal(_) => None,
        })
    }

    /// Returns the id of these values; `None` if one is missing.
    pub(crate) fn id<'a>(&self, value: impl Fn(usize) -> Option<Said<'a>>) -> Option<String> {
        let mut id = String::with_capacity(self.text.len() + 24);
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => id.push_str(text),
                Piece::Hole { key, default } => match (value(*key), default) {
                    (Some(Said::Text(text)), _) => write_value(text, &mut id),
                    (Some(Said::Address(address)), _) => write_address(address, &mut id),
                    (None, Some(default)) => write_value(default, &mut id),
                    (None, None) => return None,
                },
            }
        }
        Some(id)
    }

    /// Returns whether an id of this template can be one of the other. Some that cannot are not recognised.
    pub(crate) fn meets(&self, other: &Template) -> bool {
        let [ours, theirs] = [self, other].map(|template| fields(&template.pieces));
        ours.len() == theirs.len()
            && ours.iter().zip(&theirs).all(|(ours, theirs)| ours.meets(theirs))
    }
}

/// A part of an id between commas, which values do not have: a text, or the texts around its values.
#[derive(Default)]
struct Field {
    before: String,
    /// The text behind the last value.
    behind: Option<String>,
}

fn fields(pieces: &[Piece]) -> Vec<Field> {
    let mut fields = vec![Field::default()];
    for piece in pieces {
        let last = fields.last_mut().expect("there is one");
        let Piece::Literal(text) = piece else {
            last.behind = Some(String::new());
            continue;
        };
        for (index, text) in text.split(',').enumerate() {
            if index > 0 {
                fields.push(Field::default());
            }
            let last = fields.last_mut().expect("there is one");
            last.behind.as_mut().unwrap_or(&mut last.before).push_str(text);
        }
    }
    fields
}

impl Field {
    fn meets(&self, other: &Field) -> bool {
        let starts = |one: &str, other: &str| one.starts_with(other) || other.starts_with(one);
        let ends = |one: &str, other: &str| one.ends_with(other) || other.ends_with(one);
        match (&self.behind, &other.behind) {
            (None, None) => self.before == other.before,
            (Some(ours), Some(theirs)) => starts(&self.before, &other.before) && ends(ours, theirs),
            (Some(behind), None) => self.has(behind, &other.before),
            (None, Some(behind)) => other.has(behind, &self.before),
        }
    }

    fn has(&self, behind: &str, text: &str) -> bool {
        text.len() > self.before.len() + behind.len()
            && text.starts_with(&self.before)
            && text.ends_with(behind)
    }
}

/// Longer values are hashed.
const LONGEST: usize = 64;

/// Writes a value as `lockage-tower` writes it into its keys: different values are written differently, without a comma
/// or a colon.
pub(crate) fn write_value(value: &str, id: &mut String) {
    if value.len() > LONGEST {
        id.push('#');
        for byte in &Sha256::digest(value)[..16] {
            // Writing to a string never fails.
            let _ = write!(id, "{byte:02x}");
        }
        return;
    }
    for byte in value.bytes() {
        match byte {
            b'%' | b',' | b'#' | b':' | b'{' | b'}' => {
                let _ = write!(id, "%{byte:02X}");
            }
            b'!'..=b'~' => id.push(byte.into()),
            _ => {
                let _ = write!(id, "%{byte:02X}");
            }
        }
    }
}

pub(crate) fn write_address(address: IpAddr, id: &mut String) {
    let _ = match address {
        IpAddr::V4(address) => write!(id, "{address}"),
        IpAddr::V6(address) => {
            write!(id, "{}", Ipv6Network::new(address, Ipv6Network::DEFAULT_BITS))
        }
    };
}
