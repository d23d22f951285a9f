//! Permits that are taken ahead from the store, and spent without asking it.

use std::time::Duration;

/// The default number of keys.
const MAX_KEYS: usize = 10_000;

/// Permits that a limiter takes ahead, for the highest rates: one call to the store serves a few hundred requests.
///
/// A request that finds no permits here goes to the store and takes up to `permits` more along, all or nothing. This
/// limiter and its clones spend those without the store, until `lease` after that request was made. They are charged
/// already, so all limiters of a key together never admit more in total than the store has charged; only the time
/// differs. With `n` such limiters, k = `permits` and λ = `lease` by the store's clock, in any span T
///
/// > admitted(T) <= min( E(T) + n * k, max( E(T), E(T + λ) - 1 ) )
///
/// where E is the envelope of the limit (E1 to E5). Both bounds are attained, and the store's decisions do not change
/// otherwise. Permits unspent in their lease stay charged: at most k for each limiter and lease. Other callers may be
/// denied because of them: at most the held permits, and the wasted ones until they have come back. The documentation
/// of [`Prefetch`](lockage_core::flow::Prefetch) in the core has the proof.
///
/// It pays if an id is requested many times in each lease, and k is a small part of the limit. If the store has no room
/// for the extra permits, or does not answer, requests go one by one until it has, or for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetch {
    pub(super) permits: u64,
    pub(super) lease: Duration,
    pub(super) max_keys: usize,
}

impl Prefetch {
    /// Creates a prefetch of up to `permits` for each id (at least 1, below the limit's capacity), for up to 10,000
    /// ids. Each permit is held for up to `lease` (above zero, up to an hour) after it was asked for.
    ///
    /// The lease should be several times as long as a call, since permits that arrive after it are wasted.
    pub fn new(permits: u64, lease: Duration) -> Self {
        Prefetch { permits, lease, max_keys: MAX_KEYS }
    }

    /// Caps the ids with held permits (at least 1), about 250 bytes each. Beyond that, the least recently used are
    /// dropped, and their permits are wasted.
    pub fn with_max_keys(self, max_keys: usize) -> Self {
        Prefetch { max_keys, ..self }
    }
}

/// Statistics of a limiter's prefetch. Permits that were granted and not spent are held, or wasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefetchStats {
    /// Requests that held permits admitted.
    pub hits: u64,
    /// The cost of those requests.
    pub spent: u64,
    /// Calls that asked for permits ahead.
    pub calls: u64,
    /// Permits that were granted ahead, and came within their lease.
    pub granted: u64,
    /// Calls that the store had no room for. The request was then sent alone.
    pub denied: u64,
    /// Calls that got no answer, or one too late. The permits that they asked for may be charged, and are wasted.
    pub lost: u64,
    /// Ids with remembered state.
    pub keys: usize,
}
