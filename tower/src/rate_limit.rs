//! The setup of a limit in front of a service.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use lockage::locks::Locks;
use lockage::runtime::Spawn;
use lockage::store::HasTimeout;
use lockage::{Decision, Error, Limit, Limiter, Store};

use crate::background::{BoxFuture, Timer, spawner};
use crate::check::{Reserving, Setup};
use crate::client_ip::ip;
use crate::commit::Commit;
use crate::cost::{Cost, Unit};
use crate::error::SetupError;
use crate::fields::{Policies, check_name};
use crate::held::check_hold;
use crate::key::Key;
use crate::limits::{Charge, Choose, Limits, Rule};
use crate::options::options;
use crate::part_costs;
use crate::places::Semaphores;
use crate::service::RateLimitLayer;
use crate::unnamed;

/// A limit in front of a service, which [`build`](RateLimit::build) makes a layer.
///
/// ```
/// use axum::{Router, routing::get};
/// use lockage::{Limiter, limit};
/// use lockage_memory::MemoryStore;
/// use lockage_tower::RateLimit;
///
/// let limiter = Limiter::new(MemoryStore::new(), limit!("token-bucket 100/min burst 20"))
///     .with_prefix("hello")?;
/// let app: Router = Router::new()
///     .route("/", get(|| async { "hello\n" }))
///     .layer(RateLimit::per_ip(limiter).build()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Answers
///
/// | outcome | answer |
/// |---|---|
/// | allowed | the service's, with `RateLimit-Policy` and `RateLimit` |
/// | denied | 429, `Retry-After`, [problem details](https://www.rfc-editor.org/rfc/rfc9457) `quota-exceeded` |
/// | blocked by [`Limiter::block`] | 429, `Retry-After`, `abnormal-usage-detected` |
/// | costs more than the capacity | 400, or 413 where the cost is a length |
/// | allowed by the limiter's fallback | the service's, with `RateLimit-Policy` |
/// | denied by the limiter's fallback | 503, `Retry-After`, `temporary-reduced-capacity` |
/// | the limiter is in shadow mode | the service's |
/// | the store does not answer, or the queue to it is full | by [`OnError`](crate::OnError): 503 and `Retry-After: 1` |
/// | the key holds something else, no limit is stored, the layer is misconfigured | 500, also with [`OnError::Allow`](crate::OnError::Allow) |
/// | the header of the key is missing | 401 |
/// | the server does not know the client's address | 500 |
///
/// Each kind of 500 is an event of `tracing` at `ERROR`, at most once a minute. Two layers of a process whose limiters have
/// no prefix but different limits are one at `WARN`.
///
/// Requests of gRPC (by their content type) get status 200 and a `grpc-status` instead: 8 (`RESOURCE_EXHAUSTED`) with
/// `RetryInfo` for 429.
///
/// Pages of other origins see these fields only if CORS exposes them (`Access-Control-Expose-Headers`).
pub struct RateLimit<S> {
    rules: Vec<RuleSetup<S>>,
    setup: Setup<S>,
    unit: Unit,
    in_flight: Option<(u64, Result<(), Error>)>,
}

/// A limiter, and the common options of its requests.
struct RuleSetup<S> {
    key: Key,
    limiter: Limiter<S>,
    names: Vec<Box<str>>,
    tiers: Option<Tiers>,
}

struct Tiers {
    limits: Vec<(Box<str>, Limit)>,
    choose: Choose,
}

/// # Limits
impl<S: Store + Clone + 'static> RateLimit<S> {
    /// Limits each client by its address: see [`ip`]. Behind a proxy, take
    /// `RateLimit::by(ip().behind(["10.0.0.0/8"])?, limiter)`.
    pub fn per_ip(limiter: Limiter<S>) -> Self {
        RateLimit::by(ip(), limiter)
    }

    /// Limits the requests of each key.
    pub fn by(key: impl Into<Key>, limiter: Limiter<S>) -> Self {
        let (setup, unit) = (Setup::default(), Unit::Requests);
        RateLimit { rules: Vec::new(), setup, unit, in_flight: None }.and_by(key, limiter)
    }

    /// Limits requests by another key, too, such as by address and by tenant. One call charges all limits, or none, as
    /// [`Limiter::try_acquire_all`] does.
    ///
    /// Where that is not possible they are asked one after another in this order, and if one denies, those before it are
    /// refunded; if that fails, they stay charged. So it is for more than eight limiters, those of several stores, or with
    /// shadow mode, a deny cache, prefetch, coalescing, or a fallback that others have not; and for requests that wait or
    /// reserve.
    ///
    /// Several limits of one key are one limit, as in `token-bucket 10/s burst 50 + fixed-window 1000/h`: all or
    /// nothing in one call.
    pub fn and_by(mut self, key: impl Into<Key>, limiter: Limiter<S>) -> Self {
        let (key, names) = (key.into(), vec!["default".into()]);
        self.rules.push(RuleSetup { key, limiter, names, tiers: None });
        self
    }

    /// Names the last limit in header fields and problem details; the default is `default`. The limits of a composite
    /// are numbered, as in `api-1` and `api-2`.
    pub fn named(self, name: &str) -> Self {
        self.named_each([name])
    }

    /// Names the limits of the last composite one by one.
    pub fn named_each<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.last().names = names.into_iter().map(Into::into).collect();
        self
    }

    /// Chooses the last limit by the request, for example by a tenant's tier, from these by name. If `choose` returns
    /// `None`, the limiter's own limit counts; an unknown name is answered 500. The tier is the name in header fields.
    ///
    /// A map of names to limits can be read from a configuration file with the feature `serde` of lockage.
    ///
    /// ```
    /// use lockage::{Limiter, limit};
    /// use lockage_memory::MemoryStore;
    /// use lockage_tower::{RateLimit, header};
    ///
    /// let free = limit!("fixed-window 60/min");
    /// let limiter = Limiter::new(MemoryStore::new(), free).with_prefix("api")?;
    /// let tiers = [("gold", limit!("fixed-window 6000/min"))];
    /// let layer = RateLimit::by(header("x-api-key")?, limiter)
    ///     .tiered(tiers, |parts| parts.headers.get("x-tier")?.to_str().ok())
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tiered<N: Into<Box<str>>>(
        mut self,
        limits: impl IntoIterator<Item = (N, Limit)>,
        choose: impl for<'a> Fn(&'a Parts) -> Option<&'a str> + Send + Sync + 'static,
    ) -> Self {
        let limits = limits.into_iter().map(|(name, limit)| (name.into(), limit)).collect();
        self.last().tiers = Some(Tiers { limits, choose: Arc::new(choose) });
        self
    }

    /// Sets the cost of a request, 1 by default. See [`Cost`].
    pub fn cost(mut self, cost: impl Into<Cost>) -> Self {
        let Cost { of, unit } = cost.into();
        (self.setup.cost, self.unit) = (Some(of), unit);
        self
    }

    /// Sets the cost of a request for one part of the limit, such as `tokens` of `requests: fixed-window 60/min + tokens:
    /// token-bucket 90_000/min`, instead of one [cost](Self::cost) for all. Parts without a cost are not charged.
    ///
    /// Every limit of the layer needs all of these parts.
    pub fn cost_of(mut self, part: &str, cost: impl Into<Cost>) -> Self {
        let Cost { of, unit } = cost.into();
        self.setup.part_costs.retain(|(name, _)| **name != *part);
        self.setup.part_costs.push((part.into(), of));
        self.unit = unit;
        self
    }

    fn last(&mut self) -> &mut RuleSetup<S> {
        self.rules.last_mut().expect("`by` makes the first one")
    }
}

/// # When a request goes ahead, and its settlement
impl<S: Store + Clone + 'static> RateLimit<S> {
    /// Lets requests wait until they are admitted, for at most `max_wait`, as [`Limiter::acquire_within`] does. Limits
    /// with turns ([`LeakyBucket`](lockage::limiter::LeakyBucket)) need it.
    pub fn waiting(mut self, max_wait: Duration) -> Self
    where
        S: HasTimeout,
    {
        fn wait<'a, S: HasTimeout>(
            limiter: &'a Limiter<S>,
            id: &'a str,
            cost: u64,
            max_wait: Duration,
        ) -> BoxFuture<'a, Result<Decision, Error>> {
            Box::pin(limiter.acquire_within(id, cost, max_wait))
        }
        self.setup.waiting = Some((wait::<S>, max_wait));
        self
    }

    /// Takes the cost as an estimate, and later charges the real cost instead.
    ///
    /// It is reserved for `hold` (1 us to 2^50 us), which should be longer than requests take; if the response's body
    /// settles it, it is [renewed](Limiter::renew) until the body ends, so `hold` is how long a crashed process is waited
    /// for. The estimate stays charged if there is no response, the client goes away before its end, or the store does
    /// not answer; [`Usage`](crate::Usage) has its own rule. `runtime` renews and settles in the background. The estimate
    /// also stays charged if that runtime ends first, or if the response ends outside of it.
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use std::time::Duration;
    ///
    /// use http::request::Parts;
    /// use lockage::runtime::Tokio;
    /// use lockage::{Limiter, limit};
    /// use lockage_memory::MemoryStore;
    /// use lockage_tower::{Commit, RateLimit, header};
    ///
    /// let tokens = Limiter::new(MemoryStore::new(), limit!("token-bucket 100_000/min"))
    ///     .with_prefix("tokens")?;
    /// let layer = RateLimit::by(header("x-api-key")?, tokens)
    ///     .cost(|_: &Parts| 4_000)
    ///     .reserve(Tokio, Duration::from_secs(300), Commit::by_header("x-tokens")?)
    ///     .build()?;
    /// # } Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(mut self, runtime: impl Spawn, hold: Duration, commit: Commit) -> Self {
        let (timer, spawn) = (Timer::of(runtime.clone()), spawner(runtime));
        self.setup.reserving = Some(Reserving { hold, by: commit, spawn, timer });
        self
    }

    /// Serves at most `permits` requests of the first key at once, over all processes: each holds a permit of a
    /// semaphore until its response has ended. Others are denied, and their charges are refunded.
    ///
    /// If the request upgrades its connection, as a websocket does, or opens a tunnel by `CONNECT`, the permit is held
    /// until the service drops the connection. This needs a server on hyper, as those of axum and tonic are; the
    /// service's [`Upgraded`](hyper::upgrade::Upgraded) then cannot be downcast.
    ///
    /// A permit has a lease, so permits of a crashed process come back when it ends.
    pub fn in_flight<T, R>(mut self, locks: Locks<T, R>, permits: u64) -> Self
    where
        T: Store + 'static,
        R: Spawn,
    {
        let semaphores = Semaphores { locks, permits };
        self.in_flight = Some((permits, semaphores.check()));
        self.setup.places = Some(Arc::new(semaphores));
        self
    }
}

/// # Answers
impl<S: Store + Clone + 'static> RateLimit<S> {
    options!();

    /// Builds the layer.
    ///
    /// # Errors
    /// [`SetupError`]: for an invalid name, names that are not one for each limit or occur twice, turns without
    /// [waiting](Self::waiting), waiting together with [reservations](Self::reserve), places [in
    /// flight](lockage::limiter::InFlight) that are not reserved until the end of the response, and a number of permits or
    /// a hold out of range.
    pub fn build(self) -> Result<RateLimitLayer<S>, SetupError> {
        let RateLimit { rules, mut setup, unit, in_flight } = self;
        if setup.waiting.is_some() && setup.reserving.is_some() {
            return Err(SetupError::Conflict("waiting", "reservations"));
        }
        part_costs::check(&setup)?;
        let waits = setup.waiting.is_some();
        setup.rules =
            rules.into_iter().map(|rule| rule.build(unit, waits)).collect::<Result<_, _>>()?;
        if let Some((permits, checked)) = in_flight {
            match checked {
                Ok(()) => {}
                Err(Error::Config(error)) => return Err(error.into()),
                Err(_) => unreachable!("nothing but the number of permits can be wrong"),
            }
            let first = setup.rules[0].limits.own().policies.names().next();
            let name = format!("{}-in-flight", first.expect("a limit has a part"));
            setup.at_once = Some(Policies::at_once(check_name(&name)?, permits));
        }
        for charge in setup.rules.iter().flat_map(|rule| rule.limits.all()) {
            let limit = charge.limiter.limit();
            part_costs::check_limit(&setup.part_costs, limit)?;
            match (&setup.reserving, limit) {
                (Some(reserving), limit) => {
                    if !reserving.by.is_by_body() && limit.is_some_and(|it| it.has_places()) {
                        return Err(SetupError::Conflict("a cost by the response's head", PLACES));
                    }
                    check_hold(reserving.hold, limit)?;
                }
                (None, Some(limit)) if limit.has_places() => {
                    return Err(SetupError::PlacesWithoutReserving(limit.into()));
                }
                (None, _) => {}
            }
        }
        let policies = setup.rules.iter().flat_map(|rule| rule.limits.all());
        let mut names: Vec<_> = policies.flat_map(|limits| limits.policies.names()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SetupError::DuplicateName((&**twice[0]).into()));
        }
        Ok(RateLimitLayer::new(setup))
    }
}

/// The subject of a [`SetupError::Conflict`].
const PLACES: &str =
    "places that requests keep until its end: commit by `Commit::at_end`, or by the body";

impl<S: Store + Clone> RuleSetup<S> {
    fn build(self, unit: Unit, waits: bool) -> Result<Rule<S>, SetupError> {
        let RuleSetup { key, limiter, names, tiers } = self;
        unnamed::report(&limiter);
        let charge = |limiter: Limiter<S>, names: &[Box<str>]| -> Result<Charge<S>, SetupError> {
            let limit = limiter.limit();
            let has_turns = |part: Limit| matches!(part, Limit::LeakyBucket(_));
            if let Some(limit) = limit.filter(|limit| !waits && limit.parts().any(has_turns)) {
                return Err(SetupError::TurnsWithoutWaiting(limit.into()));
            }
            let names: Vec<_> =
                names.iter().map(|name| check_name(name)).collect::<Result<_, _>>()?;
            let is_shadow = limiter.shadow_stats().is_some();
            Ok(Charge { policies: Policies::new(limit, &names, unit)?, limiter, is_shadow })
        };
        let limits = match tiers {
            None => Limits::One(charge(limiter, &names)?),
            Some(Tiers { limits, choose }) => {
                let mut tiers = HashMap::new();
                for (name, limit) in limits {
                    let tier = charge(limiter.under(limit), std::slice::from_ref(&name))?;
                    if tiers.insert(name.clone(), tier).is_some() {
                        return Err(SetupError::DuplicateName(name));
                    }
                }
                Limits::Tiers { own: charge(limiter, &names)?, tiers, choose }
            }
        };
        Ok(Rule { key, limits })
    }
}
