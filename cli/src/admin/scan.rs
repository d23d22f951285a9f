//! Lists keys by paced `SCAN`, on one master after the other.

use std::time::{Duration, Instant};

use lockage::Key;
use lockage::store::KeyError;
use lockage_redis::{Reply, Request};

use super::read::{BATCH, Entry, text, unexpected};
use super::{Admin, AdminError};

/// The places of a server's table that one `SCAN` visits, at least. Each costs up to 5 us where the table is in no cache.
pub const COUNT: &str = "50";

/// A key, or a pattern of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// One key.
    Key(Key),
    /// A glob, as `SCAN` has it.
    Pattern(String),
}

impl Selection {
    /// Returns all keys of the form that lockage gives them.
    pub fn all() -> Self {
        Selection::Pattern("*:{*}*".to_owned())
    }

    /// Returns all keys of this prefix.
    ///
    /// # Errors
    /// [`KeyError`] for a prefix that no key has.
    pub fn prefix(prefix: &str) -> Result<Self, KeyError> {
        Key::new(prefix, "id")?;
        let mut pattern = String::new();
        for character in prefix.chars() {
            if GLOB.contains(&character) {
                pattern.push('\\');
            }
            pattern.push(character);
        }
        Ok(Selection::Pattern(pattern + ":{*}*"))
    }

    /// Returns the key of this text, or all keys that match it as a pattern.
    ///
    /// # Errors
    /// [`KeyError`] for a text that is neither.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        match text.contains(GLOB) {
            true => Ok(Selection::Pattern(text.to_owned())),
            false => text.parse().map(Selection::Key),
        }
    }
}

/// The characters that have a meaning in a pattern.
const GLOB: [char; 4] = ['*', '?', '[', '\\'];

/// A walk over the keys of all masters.
///
/// A key that is there all the time is returned, at least once; one that is written or moved meanwhile may be missed.
pub struct Scan<'a> {
    admin: &'a Admin,
    selection: Selection,
    pace: Duration,
    /// The masters that are still to be walked over.
    masters: std::ops::Range<usize>,
    /// The place on the first of them.
    cursor: Vec<u8>,
    found: Vec<Key>,
}

impl Admin {
    /// Walks over these keys, with a pause of at least `pace` after each call.
    pub fn scan(&self, selection: &Selection, pace: Duration) -> Scan<'_> {
        self.scan_on(0..self.masters.len(), selection, pace)
    }

    /// Walks over the keys of some masters.
    pub(super) fn scan_on(
        &self,
        masters: std::ops::Range<usize>,
        selection: &Selection,
        pace: Duration,
    ) -> Scan<'_> {
        let (cursor, selection) = (START.to_vec(), selection.clone());
        Scan { admin: self, selection, pace, masters, cursor, found: Vec::new() }
    }
}

const START: &[u8] = b"0";

impl Scan<'_> {
    /// Returns the next records; `None` after the last ones. Keys that are not of the form that lockage gives them are
    /// left out. One whose slot has just moved is [`Contents::Moved`](super::Contents::Moved) here.
    ///
    /// # Errors
    /// [`AdminError`].
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>, AdminError> {
        let pattern = match &self.selection {
            Selection::Key(key) => {
                let entry = match self.masters.is_empty() {
                    true => None,
                    false => Some(vec![self.admin.read(key).await?]),
                };
                self.masters = 0..0;
                return Ok(entry);
            }
            Selection::Pattern(pattern) => pattern.clone(),
        };
        while self.found.is_empty() {
            if self.masters.is_empty() {
                return Ok(None);
            }
            self.step(&pattern).await?;
        }
        let rest = self.found.split_off(BATCH.min(self.found.len()));
        let keys = std::mem::replace(&mut self.found, rest);
        let began = Instant::now();
        let entries = self.admin.read_from(self.master_of_found(), keys).await?;
        pause(self.pace, began).await;
        Ok(Some(entries))
    }

    /// Returns the master of the keys that were found: a master is left only once all of its keys are read.
    fn master_of_found(&self) -> usize {
        self.masters.start
    }

    /// Finds the next keys, or leaves a master after the last ones.
    async fn step(&mut self, pattern: &str) -> Result<(), AdminError> {
        if self.cursor.is_empty() {
            (self.masters.start, self.cursor) = (self.masters.start + 1, START.to_vec());
            return Ok(());
        }
        let request = Request::new("SCAN").with(&self.cursor);
        let request = request.with("MATCH").with(pattern).with("COUNT").with(COUNT);
        let began = Instant::now();
        let reply = self.admin.ask(self.masters.start, request).await?;
        let Reply::List(parts) = reply else { return Err(unexpected().into()) };
        let [Reply::Bytes(cursor), Reply::List(keys)] = &parts[..] else {
            return Err(unexpected().into());
        };
        self.found = keys.iter().filter_map(|key| text(key)?.parse().ok()).collect();
        // An empty cursor marks the end, since the first one is that of the end, too.
        self.cursor = if cursor == START { Vec::new() } else { cursor.clone() };
        pause(self.pace, began).await;
        Ok(())
    }
}

/// Pauses for as long as a call has taken, and at least for `pace`.
pub(super) async fn pause(pace: Duration, began: Instant) {
    tokio::time::sleep(pace.max(began.elapsed())).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_no_pattern() {
        let pattern = |text: &str| Selection::Pattern(text.to_owned());
        assert_eq!(Selection::prefix("login"), Ok(pattern("login:{*}*")));
        assert_eq!(Selection::prefix("a*[b]?\\"), Ok(pattern("a\\*\\[b]\\?\\\\:{*}*")));
        assert_eq!(Selection::prefix(""), Err(KeyError::EmptyPrefix));
        assert_eq!(Selection::prefix("a{"), Err(KeyError::BraceInPrefix));
    }

    #[test]
    fn a_text_is_a_key_or_a_pattern() {
        let key = Key::new("login", "user:42").unwrap();
        assert_eq!(Selection::parse("login:{user:42}"), Ok(Selection::Key(key)));
        let pattern = Selection::Pattern("login:*".to_owned());
        assert_eq!(Selection::parse("login:*"), Ok(pattern));
        assert_eq!(Selection::parse("login"), Err(KeyError::NoKey));
    }
}
