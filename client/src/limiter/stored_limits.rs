//! Stored limits, and this process's memory of them.

use lockage_core::{Limit, Scope, StoredLimit};

use super::shards::{Recent, Shards, recent};
use crate::key::{Key, KeyError, check_client};
use crate::sync::{Mutex, lock};

/// Limits that are stored, one for each id, and followed by all clients.
///
/// A limiter of stored limits ([`Limiter::stored`](super::Limiter::stored)) decides under the limit that is stored when
/// a call arrives. It takes one round trip, or two if the limit is for each client ([`StoredLimit::per_client`]), and one
/// more for the first request under a limit that has no [fast path](StoredLimit::has_fast_path), or in a calendar window.
/// An id without a limit gets the default, which its first use stores; without a default it is
/// [`Error::NoLimit`](crate::Error::NoLimit).
///
/// A request that the limiter answers by itself (deny cache, prefetch) does not extend how long a limit is kept.
#[derive(Clone, Debug, Default)]
pub struct StoredLimits {
    pub(super) default: Option<StoredLimit>,
    client: Option<Box<str>>,
}

impl StoredLimits {
    /// Creates stored limits without a default or a client name.
    pub fn new() -> Self {
        StoredLimits::default()
    }

    /// Sets the limit of ids that have none.
    pub fn with_default(self, limit: impl Into<StoredLimit>) -> Self {
        StoredLimits { default: Some(limit.into()), ..self }
    }

    /// Names the client that limits per client count: its keys are `prefix:{id}:client`. A process that keeps its name
    /// over a restart keeps its use.
    ///
    /// # Errors
    /// [`KeyError`] for an empty name, or one with a brace.
    pub fn as_client(self, client: &str) -> Result<Self, KeyError> {
        check_client(client)?;
        Ok(StoredLimits { client: Some(client.into()), ..self })
    }
}

/// Stored limits, and those that were read last.
pub(super) struct Followed {
    pub(super) limits: StoredLimits,
    seen: Shards<Recent<StoredLimit>>,
    last: Mutex<Option<StoredLimit>>,
}

/// The number of ids whose limits are remembered: those that were used last.
const SEEN_IDS: usize = 10_000;

/// The limit of a key, as far as this process knows.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) limit: Limit,
    /// The key of this client's own use, under a limit per client.
    pub(super) own_key: Option<Key>,
}

impl Followed {
    pub(super) fn new(limits: StoredLimits) -> Self {
        let seen = Shards::new(SEEN_IDS, "number of ids", recent).expect("it is above zero");
        Followed { limits, seen, last: Mutex::new(None) }
    }

    /// Returns the limit and the own key of `key`, if this is its stored limit.
    pub(super) fn known_as(&self, key: &Key, limit: StoredLimit) -> Known {
        let client = self.limits.client.as_deref();
        let client = client.filter(|_| limit.scope() == Scope::PerClient);
        Known { limit: limit.limit(), own_key: client.map(|client| key.of_client(client)) }
    }

    /// Returns the limit of `key` that was read last.
    pub(super) fn seen(&self, key: &Key) -> Option<StoredLimit> {
        self.seen.of(key).get(key).copied()
    }

    /// Returns the limit that was read last, whichever id it is for.
    pub(super) fn last_seen(&self) -> Option<StoredLimit> {
        *lock(&self.last)
    }

    /// Remembers the limit of `key`.
    pub(super) fn note(&self, key: &Key, limit: StoredLimit) {
        *lock(&self.last) = Some(limit);
        let mut seen = self.seen.of(key);
        match seen.get_mut(key) {
            Some(known) => *known = limit,
            None => drop(seen.put(key.clone(), limit)),
        }
    }

    /// Forgets the limit of `key`.
    pub(super) fn forget(&self, key: &Key) {
        self.seen.of(key).pop(key);
    }
}
