//! Limiters for blocking callers.

use std::time::Duration;

use lockage_core::{
    Adjusted, Cancellation, Clock, ConfigError, Cost, Decision, Limit, Renewal, RequestId,
    Reservation, Reserved, Settlement, StoredLimit, Ticket, Turn,
};

use super::{Blocking, Thread, block_on};
use crate::error::Error;
use crate::key::KeyError;
use crate::limiter::{
    AllDecision, DenyCache, DenyCacheStats, Fallback, Limiter, PartCosts, Prefetch, PrefetchStats,
    Request, ShadowStats, StoredLimits,
};
use crate::observer::Observer;
use crate::retry_store::RetryStore;
use crate::store::BlockingStore;

/// A [`Limiter`] for blocking callers: the same verbs and decisions, without an executor.
///
/// ```
/// use std::time::Duration;
/// use lockage::BlockingLimiter;
/// use lockage_memory::MemoryStore;
///
/// let limit = "token-bucket 100/s burst 1".parse()?;
/// let limiter = BlockingLimiter::new(MemoryStore::new(), limit, Duration::from_millis(250))
///     .with_prefix("mails")?;
/// for _ in 0..3 {
///     // Waits for its permit, here for 10 ms, but no longer than 2 s.
///     assert!(limiter.acquire_within("user:42", 1, Duration::from_secs(2))?.is_allowed());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BlockingLimiter<S>(Limiter<RetryStore<Blocking<S>, Thread>>);

/// Declares the options that a [`BlockingLimiter`] shares with its inner [`Limiter`].
macro_rules! options {
    ($($option:ident($($argument:ident: $type:ty),*) $(-> $error:ident)?;)*) => {
        $(options!(@one $option($($argument: $type),*) $(-> $error)?);)*
    };
    (@one $option:ident($($argument:ident: $type:ty),*)) => {
        #[doc = concat!("Sets what [`Limiter::", stringify!($option), "`] sets.")]
        pub fn $option(self $(, $argument: $type)*) -> Self {
            BlockingLimiter(self.0.$option($($argument),*))
        }
    };
    (@one $option:ident($($argument:ident: $type:ty),*) -> $error:ident) => {
        #[doc = concat!("Sets what [`Limiter::", stringify!($option), "`] sets.")]
        ///
        /// # Errors
        #[doc = concat!("[`", stringify!($error), "`], as there.")]
        pub fn $option(self $(, $argument: $type)*) -> Result<Self, $error> {
            self.0.$option($($argument),*).map(BlockingLimiter)
        }
    };
}

/// Declares the getters that a [`BlockingLimiter`] shares with its inner [`Limiter`].
macro_rules! facts {
    ($($fact:ident() -> $type:ty;)*) => {
        $(
            #[doc = concat!("Returns what [`Limiter::", stringify!($fact), "`] returns.")]
            pub fn $fact(&self) -> $type {
                self.0.$fact()
            }
        )*
    };
}

/// Declares the verbs that a [`BlockingLimiter`] shares with its inner [`Limiter`].
macro_rules! verbs {
    ($($verb:ident$(<$costs:lifetime>)?($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[doc = concat!("Does what [`Limiter::", stringify!($verb), "`] does, and blocks the thread meanwhile.")]
            ///
            /// # Errors
            /// [`Error`].
            pub fn $verb$(<$costs>)?(&self $(, $argument: $type)*) -> Result<$result, Error> {
                block_on(self.0.$verb($($argument),*))
            }
        )*
    };
}

impl<S: BlockingStore> BlockingLimiter<S> {
    /// Creates a limiter of one limit, with the prefix `lockage`. Its calls take at most `timeout`: see
    /// [`RetryStore`]. Limiters with one prefix share their keys: see [`Limiter::new`].
    pub fn new(store: S, limit: Limit, timeout: Duration) -> Self {
        BlockingLimiter(Limiter::new(
            RetryStore::new(Blocking::new(store, Duration::MAX), Thread, timeout),
            limit,
        ))
    }

    /// Creates a limiter of stored limits, with the prefix `lockage`. Its calls take at most `timeout`: see
    /// [`RetryStore`]. Limiters with one prefix share their keys: see [`Limiter::new`].
    pub fn stored(store: S, limits: StoredLimits, timeout: Duration) -> Self {
        BlockingLimiter(Limiter::stored(
            RetryStore::new(Blocking::new(store, Duration::MAX), Thread, timeout),
            limits,
        ))
    }

    /// Returns this limiter under another limit: see [`Limiter::under`].
    pub fn under(&self, limit: Limit) -> Self
    where
        S: Clone,
    {
        BlockingLimiter(self.0.under(limit))
    }

    /// Returns this limiter under stored limits: see [`Limiter::under_stored`].
    pub fn under_stored(&self, limits: StoredLimits) -> Self
    where
        S: Clone,
    {
        BlockingLimiter(self.0.under_stored(limits))
    }

    options! {
        with_prefix(prefix: &str) -> KeyError;
        with_idempotency(window: Duration) -> ConfigError;
        with_fallback(fallback: Fallback) -> ConfigError;
        with_deny_cache(cache: DenyCache) -> ConfigError;
        with_prefetch(prefetch: Prefetch) -> ConfigError;
        with_clock(clock: impl Clock + 'static);
        with_observer(policy: &str, observer: impl Observer);
        with_shadow();
        with_shadow_observer(observer: impl Fn(&str, Result<&Decision, &Error>) + Send + Sync + 'static);
    }

    /// Returns whether requests of both limiters can be one decision: see [`Limiter::goes_together_with`].
    pub fn goes_together_with(&self, other: &BlockingLimiter<S>) -> bool {
        self.0.goes_together_with(&other.0)
    }

    /// Makes a request for [`BlockingLimiter::try_acquire_all`]: see [`Limiter::request`].
    pub fn request<'a>(&'a self, id: &'a str, cost: impl Into<Cost>) -> Request<'a> {
        self.0.request(id, cost)
    }

    facts! {
        prefix() -> Option<&str>;
        limit() -> Option<Limit>;
        is_circuit_open() -> bool;
        deny_cache_stats() -> Option<DenyCacheStats>;
        prefetch_stats() -> Option<PrefetchStats>;
        shadow_stats() -> Option<ShadowStats>;
    }

    verbs! {
        try_acquire(id: &str, cost: u64) -> Decision;
        try_acquire_once(id: &str, cost: u64, request: RequestId, window: Duration) -> Decision;
        try_acquire_each(id: &str, costs: &[u64]) -> Vec<Decision>;
        try_acquire_all(requests: &[Request<'_>]) -> AllDecision;
        try_acquire_all_once(requests: &[Request<'_>], request: RequestId, window: Duration) -> AllDecision;
        peek(id: &str, cost: u64) -> Decision;
        try_acquire_parts<'a>(id: &str, costs: impl Into<PartCosts<'a>>) -> Decision;
        try_acquire_parts_once<'a>(id: &str, costs: impl Into<PartCosts<'a>>, request: RequestId, window: Duration) -> Decision;
        peek_parts<'a>(id: &str, costs: impl Into<PartCosts<'a>>) -> Decision;
        reserve_parts<'a>(id: &str, costs: impl Into<PartCosts<'a>>, hold: Duration) -> Reserved;
        reserve_parts_as<'a>(id: &str, costs: impl Into<PartCosts<'a>>, request: RequestId, hold: Duration) -> Reserved;
        commit_parts<'a>(id: &str, reservation: &Reservation, actual: impl Into<PartCosts<'a>>) -> Settlement;
        refund_parts<'a>(id: &str, costs: impl Into<PartCosts<'a>>) -> Adjusted;
        penalty_parts<'a>(id: &str, costs: impl Into<PartCosts<'a>>) -> Adjusted;
        take_turn(id: &str, cost: u64) -> Turn;
        cancel_turn(id: &str, ticket: Ticket) -> Cancellation;
        take_up_to(id: &str, most: u64) -> Adjusted;
        refund(id: &str, cost: u64) -> Adjusted;
        penalty(id: &str, cost: u64) -> Adjusted;
        block(id: &str, span: Duration) -> Adjusted;
        unblock(id: &str) -> Adjusted;
        reset(id: &str) -> bool;
        reserve(id: &str, cost: u64, hold: Duration) -> Reserved;
        reserve_as(id: &str, cost: u64, request: RequestId, hold: Duration) -> Reserved;
        commit(id: &str, reservation: &Reservation, actual: u64) -> Settlement;
        renew(id: &str, reservation: &Reservation, hold: Duration) -> Renewal;
        cancel(id: &str, reservation: &Reservation) -> Settlement;
        set_limit(id: &str, limit: impl Into<StoredLimit>) -> ();
        try_set_limit(id: &str, limit: impl Into<StoredLimit>) -> bool;
        set_limit_afresh(id: &str, limit: impl Into<StoredLimit>) -> ();
        stored_limit(id: &str) -> Option<StoredLimit>;
        acquire_within(id: &str, cost: u64, timeout: Duration) -> Decision;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Methods without use for blocking callers, which share no calls, and have no task that renews in the background.
    const ONLY_ASYNCHRONOUS: [&str; 5] =
        ["with_coalescing", "coalescing_stats", "hold", "hold_parts", "keep"];

    /// Each public method of `Limiter` is one of `BlockingLimiter`, and the other way round.
    #[test]
    fn blocking_api_matches_the_async_api() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut limiter = BTreeSet::new();
        for file in sources(&here.join("limiter")) {
            limiter.extend(methods(&fs::read_to_string(file).unwrap(), " Limiter<"));
        }
        for name in ONLY_ASYNCHRONOUS {
            assert!(limiter.remove(name), "{name} is gone: it needs no exception");
        }
        let code = fs::read_to_string(here.join("blocking/limiter.rs")).unwrap();
        let blocking = methods(&code, " BlockingLimiter<");
        assert!(blocking.len() > 30, "{blocking:?}");
        assert_eq!(limiter, blocking);
    }

    fn sources(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }

    /// Returns the public methods in the blocks of this type, including those that macros declare.
    fn methods(code: &str, of: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let (mut is_inside, mut is_list) = (false, false);
        for line in code.lines() {
            let words = line.trim_start();
            match words {
                _ if line.starts_with("impl") => {
                    is_inside = line.contains(of) && !line.contains(" for ")
                }
                "options! {" | "facts! {" | "verbs! {" => is_list = true,
                "}" => is_list = false,
                _ => {}
            }
            let declared =
                match words.strip_prefix("pub async fn ").or(words.strip_prefix("pub fn ")) {
                    None if is_list && !words.ends_with('{') => Some(words),
                    declared => declared,
                };
            let name = declared.and_then(|rest| rest.split(['(', '<']).next());
            names.extend(name.filter(|_| is_inside).map(ToOwned::to_owned));
        }
        names
    }
}
