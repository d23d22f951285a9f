//! The keys under which limiters and locks are stored.

use std::fmt;

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

    /// Returns the key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_the_hash_tag() {
        assert_eq!(Key::new("login", "user:42").unwrap().as_str(), "login:{user:42}");
    }

    #[test]
    fn keys_without_a_hash_tag_are_refused() {
        assert_eq!(Key::new("", "a"), Err(KeyError::EmptyPrefix));
        assert_eq!(Key::new("a{b", "a"), Err(KeyError::BraceInPrefix));
        assert_eq!(Key::new("a}", "a"), Err(KeyError::BraceInPrefix));
        assert_eq!(Key::new("a", ""), Err(KeyError::EmptyId));
        assert_eq!(Key::new("a", "}b"), Err(KeyError::BraceFirstInId));
        assert!(Key::new("a", "b}{c").is_ok());
    }
}
