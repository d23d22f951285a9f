//! Limits of this process alone: no text of ids, no store, no future.

use std::borrow::Borrow;
use std::hash::Hash;
use std::net::IpAddr;

use http::request::Parts;
use lockage::store::Clock;
use lockage::{Decision, Limit};
use lockage_memory::{KeyedLimiter, MemoryStore};

use crate::check::{Elsewhere, Setup};
use crate::client_ip::ClientIp;
use crate::cost::{Cost, Unit};
use crate::error::SetupError;
use crate::fields::{Policies, check_name};
use crate::local_limit::{Decide, LocalLimit};
use crate::options::options;
use crate::rate_limit::RateLimit;
use crate::rejection::Reason;
use crate::service::RateLimitLayer;

/// Which requests share a limit of a [`KeyedLimiter`]: those with the same client or value.
///
/// Made of [`ip`](crate::ip), by the address or, of IPv6, the first one of the client's network; or of a function.
pub struct LocalKey<K>(Box<KeyOf<K>>);

type KeyOf<K> = dyn Fn(&Parts) -> Result<K, Reason> + Send + Sync;

impl<K> LocalKey<K> {
    /// Returns the key that a function makes of a request, such as the number of its authenticated user. If it returns
    /// `None`, the request is answered 401, which names the `kind`.
    pub fn of(
        kind: &str,
        function: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    ) -> LocalKey<K> {
        let kind: Box<str> = kind.into();
        LocalKey(Box::new(move |parts| function(parts).ok_or_else(|| Reason::NoKey(kind.clone()))))
    }
}

impl From<ClientIp> for LocalKey<IpAddr> {
    fn from(client: ClientIp) -> Self {
        LocalKey(Box::new(move |parts| Ok(client.of(parts)?.first_address())))
    }
}

/// A limit of this process alone in front of a service: see [`RateLimit::in_process`].
pub struct RateLimitInProcess {
    setup: Setup<MemoryStore>,
    decide: Box<Decide>,
    limit: Limit,
    name: Box<str>,
    unit: Unit,
}

impl RateLimit<MemoryStore> {
    /// Limits the requests of each key in this process alone, in a fraction of the time that a
    /// [`Limiter`](lockage::Limiter) on a [`MemoryStore`] takes.
    ///
    /// The layer takes the limiter, or an `Arc` of one whose keys the program also
    /// [resets](KeyedLimiter::reset). A limiter without room for a new key
    /// ([`KeyedLimiter::with_max_keys`]) makes no decision: [`on_error`](RateLimitInProcess::on_error) has the answer.
    ///
    /// ```
    /// use axum::{Router, routing::get};
    /// use lockage::limit;
    /// use lockage_memory::{KeyedLimiter, WhenFull};
    /// use lockage_tower::{RateLimit, ip};
    ///
    /// let limiter = KeyedLimiter::new(limit!("token-bucket 100/min burst 20"))?
    ///     .with_max_keys(1_000_000, WhenFull::Evict)?;
    /// let app: Router = Router::new()
    ///     .route("/", get(|| async { "hello\n" }))
    ///     .layer(RateLimit::in_process(ip(), limiter).build()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_process<K, C, L>(key: impl Into<LocalKey<K>>, limiter: L) -> RateLimitInProcess
    where
        K: Hash + Eq + Clone + Send + 'static,
        C: Clock + 'static,
        L: Borrow<KeyedLimiter<K, C>> + Send + Sync + 'static,
    {
        let (LocalKey(key), limit) = (key.into(), limiter.borrow().limit());
        let decide = move |parts: &Parts, cost| {
            let decided = limiter.borrow().try_acquire(&key(parts)?, cost);
            Ok(decided.map(Decision::from))
        };
        let (setup, name) = (Setup::default(), "default".into());
        RateLimitInProcess { setup, decide: Box::new(decide), limit, name, unit: Unit::Requests }
    }
}

impl RateLimitInProcess {
    /// Names the limit in header fields and problem details; the default is `default`.
    pub fn named(self, name: &str) -> Self {
        RateLimitInProcess { name: name.into(), ..self }
    }

    /// Sets the cost of a request, 1 by default. See [`Cost`].
    pub fn cost(mut self, cost: impl Into<Cost>) -> Self {
        let Cost { of, unit } = cost.into();
        (self.setup.cost, self.unit) = (Some(of), unit);
        self
    }

    options!();

    /// Builds the layer.
    ///
    /// # Errors
    /// [`SetupError`]: for an invalid name, and for a limit with turns, for which the layer does not wait.
    pub fn build(self) -> Result<RateLimitLayer<MemoryStore>, SetupError> {
        let RateLimitInProcess { setup, decide, limit, name, unit } = self;
        if let Limit::LeakyBucket(_) = limit {
            return Err(SetupError::TurnsWithoutWaiting(limit.into()));
        }
        let policies = Policies::new(Some(limit), &[check_name(&name)?], unit)?;
        let elsewhere = Some(Elsewhere::InProcess(LocalLimit { decide, policies }));
        Ok(RateLimitLayer::new(Setup { elsewhere, ..setup }))
    }
}
