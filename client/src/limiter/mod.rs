//! A rate limiter on any store.
//!
//! `decide.rs` has the path of a call through the options. Each option is in a file of its own, and depends on no
//! other.

mod acquire_all;
mod ask;
mod calendar;
mod circuit_breaker;
mod coalesce;
mod decide;
mod decide_apart;
mod denials;
mod deny_cache;
mod fallback;
mod held;
mod idempotency;
mod ipv6_network;
mod limit_source;
mod line;
#[cfg(all(test, loom))]
mod loom_tests;
mod observed;
mod options;
mod part_costs;
mod permits;
mod prefetch;
mod shadow;
mod shards;
mod stored_limits;
mod verbs;
mod verbs_by_part;

use std::fmt;
use std::sync::Arc;

use lockage_core::Limit;

pub use crate::error::QueueFull;
pub use acquire_all::{AllDecision, Request};
pub use calendar::bounded_at;
pub use coalesce::CoalescingStats;
pub use deny_cache::{DenyCache, DenyCacheStats};
pub use fallback::{Fallback, UnreadLimit};
pub use held::Held;
pub use ipv6_network::Ipv6Network;
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
pub use lockage_core::SystemClock;
pub use lockage_core::flow::CircuitBreakerConfig;
pub use lockage_core::{
    Adjust, Adjusted, Admitted, CalendarUnit, CalendarWindow, Cancellation, Clock, Composite, Cost,
    CostError, DAY, DenialReason, Denied, FixedWindow, HOUR, InFlight, IntervalBucket, LeakyBucket,
    MAX_TOGETHER, MINUTE, NameError, Origin, ParseError, Part, PartName, Renew, Renewal, RequestId,
    Reservation, Reserve, Reserved, SECOND, Scope, Settle, Settlement, SlidingLog, SlidingWindow,
    StoredLimit, Ticket, TokenBucket, Turn, WarmupBucket, Zone,
};
pub use part_costs::PartCosts;
pub use prefetch::{Prefetch, PrefetchStats};
pub use shadow::ShadowStats;
pub use stored_limits::StoredLimits;

use crate::key::{KeyError, check_prefix};
use crate::store::Store;
use limit_source::LimitSource;
use line::Lines;
use options::Options;

/// The default prefix of limiters.
const DEFAULT_PREFIX: &str = "lockage";

/// Limits the requests of each id, under a limit that is given or stored.
///
/// Limiters with the same store, prefix and id share their state, so give each limiter a prefix of its own
/// ([`Limiter::with_prefix`]). Limiters of one prefix should have one limit. If the limit changes, used permits stay
/// used: right after the change, at most the new capacity minus the used permits is left (see [`Limit`]).
///
/// On a [`RetryStore`](crate::RetryStore) it can also wait ([`Limiter::acquire_within`]), retry with request ids
/// ([`Limiter::with_idempotency`]), decide without its store ([`Limiter::with_fallback`]), and answer known denials
/// locally ([`Limiter::with_deny_cache`]). On a distant store it can put the requests of many callers into one call
/// ([`Limiter::with_coalescing`]), and for the highest rates take permits ahead ([`Limiter::with_prefetch`]).
/// [`Limiter::with_shadow`] tries a limit without enforcing it. These options combine in a fixed order, however they are
/// set; only idempotency and coalescing exclude each other.
///
/// # Where the limit comes from
///
/// - [`Limiter::new`] gives one limit to all ids.
/// - [`Limiter::stored`] takes the limit that is stored with each id, for all clients to follow.
/// - [`Limiter::under`] is a view of a limiter under another limit, for a limit that depends on the call.
///
/// ```
/// use lockage::limiter::StoredLimits;
/// use lockage::{Limit, Limiter};
/// # use lockage_memory::MemoryStore;
///
/// # pollster::block_on(async {
/// # let store = MemoryStore::new();
/// let standard: Limit = "fixed-window 20/min".parse()?;
/// let limits = StoredLimits::new().with_default(standard);
/// let limiter = Limiter::stored(store, limits).with_prefix("api")?;
/// assert_eq!(limiter.try_acquire("user:42", 1).await?.limit, 20);
///
/// // From any process:
/// let gold: Limit = "fixed-window 200/min".parse()?;
/// limiter.set_limit("user:42", gold).await?;
/// assert_eq!(limiter.try_acquire("user:42", 1).await?.remaining, 198);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// A key has a stored limit or none: a limiter with a limit of its own is refused
/// ([`RecordError::LimitIsStored`](crate::store::RecordError::LimitIsStored)) on a key with a stored one.
#[derive(Clone)]
pub struct Limiter<S> {
    store: S,
    source: LimitSource,
    prefix: Arc<str>,
    options: Options,
    lines: Arc<Lines>,
}

impl<S: Store> Limiter<S> {
    /// Creates a limiter of one limit, with the prefix `lockage`.
    ///
    /// Limiters of one store with one prefix share their keys. Two of them under different limits, on one id, convert
    /// its key whenever they alternate, which costs a second call and may deny more than either limit. Give each a
    /// prefix of its own by [`Limiter::with_prefix`]:
    ///
    /// ```
    /// use lockage::Limiter;
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// let store = MemoryStore::new();
    /// let login = Limiter::new(&store, "fixed-window 1/min".parse()?).with_prefix("login")?;
    /// let search = Limiter::new(&store, "token-bucket 10/s".parse()?).with_prefix("search")?;
    /// assert_eq!(login.try_acquire("user:42", 1).await?.remaining, 0);
    /// assert_eq!(search.try_acquire("user:42", 1).await?.remaining, 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn new(store: S, limit: Limit) -> Self {
        Limiter::of(store, LimitSource::given(limit))
    }

    /// Creates a limiter of stored limits, with the prefix `lockage`. Limits are stored by
    /// [`Limiter::set_limit`]. As with [`Limiter::new`], limiters with one prefix share their keys.
    pub fn stored(store: S, limits: StoredLimits) -> Self {
        Limiter::of(store, LimitSource::stored(limits))
    }

    fn of(store: S, source: LimitSource) -> Self {
        let (options, lines) = Default::default();
        Limiter { store, source, prefix: DEFAULT_PREFIX.into(), options, lines }
    }

    /// Sets the prefix: keys are `prefix:{id}`.
    ///
    /// # Errors
    /// [`KeyError`] for an empty prefix, or one with a brace.
    pub fn with_prefix(self, prefix: &str) -> Result<Self, KeyError> {
        check_prefix(prefix)?;
        Ok(Limiter { prefix: prefix.into(), ..self })
    }

    /// Sets the clock that determines the day, week, month or year of a [`CalendarWindow`]; the default is the
    /// system's. On `wasm32-unknown-unknown`, which has none, calls without a clock are
    /// [`Error::NoClock`](crate::Error::NoClock).
    ///
    /// The store's clock decides whether a window has ended. If the two clocks differ by more than a window,
    /// the call is refused: [`RecordError::ClockOff`](crate::store::RecordError::ClockOff).
    ///
    /// ```
    /// # #[cfg(feature = "test-util")] {
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use lockage::Limiter;
    /// use lockage::testing::ManualClock;
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// let clock = Arc::new(ManualClock::new());
    /// let store = MemoryStore::with_clock(clock.clone());
    /// let limiter = Limiter::new(store, "calendar-window 1/day".parse()?).with_prefix("reports")?;
    /// let limiter = limiter.with_clock(clock.clone());
    /// assert!(limiter.try_acquire("user:42", 1).await?.is_allowed());
    /// assert!(!limiter.try_acquire("user:42", 1).await?.is_allowed());
    /// clock.advance(Duration::from_secs(24 * 60 * 60));
    /// assert!(limiter.try_acquire("user:42", 1).await?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap(); }
    /// ```
    pub fn with_clock(self, clock: impl Clock + 'static) -> Self {
        Limiter { source: self.source.with_clock(Arc::new(clock)), ..self }
    }

    /// Returns this limiter under another limit, with its store, prefix and options, and their state. It costs a few
    /// reference counts and a clone of the store.
    ///
    /// The state of an id counts for one limit at a time: a denial under one limit does not deny under another, and a
    /// request under one limit drops permits that were taken ahead under another. A share of the limit that leaves
    /// nothing, or a capacity without room for permits ahead, is not an error: the fallback denies, and requests go one
    /// by one.
    ///
    /// ```
    /// use lockage::{Limit, Limiter};
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// let (free, paid): (Limit, Limit) = ("fixed-window 5/h".parse()?, "fixed-window 50/h".parse()?);
    /// let limiter = Limiter::new(MemoryStore::new(), free).with_prefix("downloads")?;
    /// assert_eq!(limiter.try_acquire("user:1", 1).await?.limit, 5);
    /// assert_eq!(limiter.under(paid).try_acquire("user:2", 1).await?.limit, 50);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub fn under(&self, limit: Limit) -> Self
    where
        S: Clone,
    {
        Limiter { source: self.source.under(limit), ..self.clone() }
    }
}

impl<S: Store + Clone> Limiter<S> {
    /// Returns this limiter under stored limits, as [`Limiter::under`] does under another limit. It remembers no limit that
    /// the other one has read.
    pub fn under_stored(&self, limits: StoredLimits) -> Self {
        Limiter { source: self.source.under_stored(limits), ..self.clone() }
    }
}

impl<S> Limiter<S> {
    /// Returns the limit that it was given; `None` if limits are stored.
    pub fn limit(&self) -> Option<Limit> {
        self.source.limit()
    }

    /// Returns the prefix that it was given; `None` if it has the default, `lockage`.
    pub fn prefix(&self) -> Option<&str> {
        Some(&*self.prefix).filter(|prefix| *prefix != DEFAULT_PREFIX)
    }
}

impl<S: fmt::Debug> fmt::Debug for Limiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options {
            observer,
            shadow,
            fallback,
            prefetch,
            deny_cache,
            circuit_breaker,
            idempotency,
            coalescing,
        } = &self.options;
        f.debug_struct("Limiter")
            .field("store", &self.store)
            .field("limit", &self.source)
            .field("prefix", &self.prefix)
            .field("observer", observer)
            .field("shadow", shadow)
            .field("fallback", fallback)
            .field("prefetch", prefetch)
            .field("deny_cache", deny_cache)
            .field("circuit_breaker", circuit_breaker)
            .field("idempotency", idempotency)
            .field("coalescing", coalescing)
            .finish()
    }
}
