//! The keys under which limiters and locks are stored.

use std::fmt;
use std::str::FromStr;

/// The key of one limiter or lock: `prefix:{id}`.
///
/// The braces make the id the hash tag, so that all keys of one id are on one node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// Returns the key of `id` under `prefix`.
    ///
    /// # Errors
    /// [`KeyError`] for an empty prefix or id, a brace in the prefix, or an id that begins with
    /// a closing brace, which would leave the hash tag empty.
    pub fn new(prefix: &str, id: &str) -> Result<Key, KeyError> {
        check_prefix(prefix)?;
        Key::under(prefix, id)
    }

    /// Returns the key under a prefix that has been checked.
    pub(crate) fn under(prefix: &str, id: &str) -> Result<Key, KeyError> {
        if id.is_empty() {
            return Err(KeyError::EmptyId);
        }
        if id.starts_with('}') {
            return Err(KeyError::BraceFirstInId);
        }
        // Every request makes one: this takes a third of the time of `format!`.
        let mut key = String::with_capacity(prefix.len() + id.len() + 3);
        key.push_str(prefix);
        key.push_str(":{");
        key.push_str(id);
        key.push('}');
        Ok(Key(key))
    }

    /// Returns the key of one client's own use of this id, on the same node.
    pub(crate) fn of_client(&self, client: &str) -> Key {
        Key(format!("{self}:{client}"))
    }

    /// Returns the part of the key that determines its node in a cluster.
    pub fn hash_tag(&self) -> &str {
        // Invariant: every key has a brace, and something before the next one.
        let (_, rest) = self.0.split_once('{').unwrap_or_default();
        rest.split('}').next().unwrap_or_default()
    }

    /// Returns the key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Reads a key as it is stored: `prefix:{id}`, or a second key of the same id, such as one client's own use.
impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        let (prefix, rest) = text.split_once(":{").ok_or(KeyError::NoKey)?;
        let (id, second) = rest.rsplit_once('}').ok_or(KeyError::NoKey)?;
        let key = Key::new(prefix, id)?;
        match second.strip_prefix(':') {
            None if second.is_empty() => Ok(key),
            Some(client) if !client.is_empty() && !client.contains('{') => {
                Ok(key.of_client(client))
            }
            _ => Err(KeyError::NoKey),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks the part of a key that a limiter keeps.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), KeyError> {
    if prefix.is_empty() {
        return Err(KeyError::EmptyPrefix);
    }
    if prefix.contains(['{', '}']) {
        return Err(KeyError::BraceInPrefix);
    }
    Ok(())
}

/// Checks the name of a client: without a brace at its end, no key of a client is that of another id.
pub(crate) fn check_client(client: &str) -> Result<(), KeyError> {
    if client.is_empty() {
        return Err(KeyError::EmptyClient);
    }
    if client.contains(['{', '}']) {
        return Err(KeyError::BraceInClient);
    }
    Ok(())
}

/// A prefix, an id or a client name that cannot be part of a key. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not a stored key.
    #[error("it is no key: keys are prefix:{{id}}, such as login:{{user:42}}")]
    NoKey,
    /// The prefix is empty.
    #[error("the prefix is empty: name what is limited, such as \"login\"")]
    EmptyPrefix,
    /// The prefix has a brace.
    #[error("the prefix has a brace: braces mark the id in a key")]
    BraceInPrefix,
    /// The name of the client is empty.
    #[error("the client's name is empty: name it, such as \"worker-1\"")]
    EmptyClient,
    /// The name of the client has a brace.
    #[error("the client's name has a brace: braces mark the id in a key")]
    BraceInClient,
    /// The id is empty.
    #[error("the id is empty: name whom the limit is for, such as \"user:42\"")]
    EmptyId,
    /// The id begins with a closing brace.
    #[error("the id begins with a closing brace: that leaves the key without a hash tag")]
    BraceFirstInId,
    /// Two requests of one decision have the same key.
    #[error(
        "two requests of one decision are for the same id: give each another id or prefix, or add their costs"
    )]
    Twice,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_the_hash_tag() {
        assert_eq!(Key::new("login", "user:42").unwrap().as_str(), "login:{user:42}");
    }

    /// Each key reads back, also with braces in its id.
    #[test]
    fn stored_keys_read_back() {
        for id in ["user:42", "b}{c", "a:{b}", "{", "a}", "#38/64"] {
            let key = Key::new("login", id).unwrap();
            assert_eq!(key.as_str().parse(), Ok(key.clone()), "{id}");
            let client = key.of_client("worker-1");
            assert_eq!(client.as_str().parse(), Ok(client.clone()), "{id}");
        }
        for text in ["", "login", "login:{a", "login:a}", "login:{a}b", "login:{a}:", "login{a}"] {
            assert_eq!(text.parse::<Key>(), Err(KeyError::NoKey), "{text}");
        }
        assert_eq!(":{a}".parse::<Key>(), Err(KeyError::EmptyPrefix));
        assert_eq!("a{:{b}".parse::<Key>(), Err(KeyError::BraceInPrefix));
        assert_eq!("a:{}".parse::<Key>(), Err(KeyError::EmptyId));
        assert_eq!("a:{}}".parse::<Key>(), Err(KeyError::BraceFirstInId));
    }

    #[test]
    fn keys_without_a_hash_tag_are_refused() {
        assert_eq!(Key::new("", "a"), Err(KeyError::EmptyPrefix));
        assert_eq!(Key::new("a{b", "a"), Err(KeyError::BraceInPrefix));
        assert_eq!(Key::new("a}", "a"), Err(KeyError::BraceInPrefix));
        assert_eq!(Key::new("a", ""), Err(KeyError::EmptyId));
        assert_eq!(Key::new("a", "}b"), Err(KeyError::BraceFirstInId));
        assert!(Key::new("a", "b}{c").is_ok());
        assert_eq!(check_client(""), Err(KeyError::EmptyClient));
        assert_eq!(check_client("a{"), Err(KeyError::BraceInClient));
        assert_eq!(check_client("a}"), Err(KeyError::BraceInClient));
    }
}
