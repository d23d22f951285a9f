//! One decision on requests for several ids.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{
    Acquire, AcquireAll, Admitted, ConfigError, Cost, Decision, Denied, OneOfAll, OneOutcome, Peek,
    RequestId, Verdict,
};

use super::Limiter;
use super::ask::{Answer, Ask, Mode};
use super::circuit_breaker::Report;
use super::decide_apart::decide_apart;
use super::fallback::Fallback;
use super::limit_source::{LimitSource, Next};
use super::options::Options;
use super::verbs::positive;
use crate::error::{Error, StoreError};
use crate::key::{Key, KeyError};
use crate::store::{Identity, ONE_KEY, Store};

/// One request of a [`Limiter::try_acquire_all`], made by [`Limiter::request`].
#[derive(Clone, Copy)]
#[must_use = "a request is not sent by itself: give it to `try_acquire_all`"]
pub struct Request<'a> {
    prefix: &'a str,
    pub(super) source: &'a LimitSource,
    options: &'a Options,
    store: Option<Identity>,
    id: &'a str,
    pub(super) cost: Cost,
}

/// The decision on several requests, of which all are admitted or none.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "denied requests must not go ahead: ask `is_allowed()`, or turn them away by `ok()?`"]
#[non_exhaustive]
pub struct AllDecision {
    /// The decision on each request, in their order. If any is denied, nothing was charged: a request that would have been
    /// admitted is `Allowed`, and its numbers are those before it.
    pub decisions: Vec<Decision>,
    /// The index of the request that binds: the one that is denied for longest or, if all are admitted, the one whose limit
    /// has room for the fewest more of its kind.
    pub binding: usize,
}

impl<S: Store> Limiter<S> {
    /// Makes a request for [`Limiter::try_acquire_all`], under this limiter's prefix and limit. Its observer is notified.
    ///
    /// The cost is a number, or a [`Cost`] by part.
    pub fn request<'a>(&'a self, id: &'a str, cost: impl Into<Cost>) -> Request<'a> {
        let Limiter { prefix, source, options, .. } = self;
        Request { prefix, source, options, store: self.store.identity(), id, cost: cost.into() }
    }

    /// Returns whether [`Limiter::try_acquire_all`] decides on requests of both limiters as each alone would: they have one
    /// store, both a fallback or none, and no shadow mode, deny cache, prefetch or coalescing.
    pub fn goes_together_with(&self, other: &Limiter<S>) -> bool {
        let is_plain = |limiter: &Limiter<S>| {
            let Options { shadow, deny_cache, prefetch, coalescing, .. } = &limiter.options;
            let passed = [shadow.is_some(), deny_cache.is_some(), prefetch.is_some()];
            coalescing.is_none() && passed == [false; 3]
        };
        let have_fallbacks = [self, other].map(|limiter| limiter.options.fallback.is_some());
        let stores = [self, other].map(|limiter| limiter.store.identity());
        is_plain(self)
            && is_plain(other)
            && have_fallbacks[0] == have_fallbacks[1]
            && stores[0].is_some()
            && stores[0] == stores[1]
    }

    /// Admits requests for several ids and charges each, or changes nothing: for the limits of a user, an organisation and
    /// everybody in one decision. There are 1 to [`MAX_TOGETHER`](lockage_core::MAX_TOGETHER), each for another id or of a
    /// limiter with another prefix.
    ///
    /// ```
    /// use lockage::{Limit, Limiter};
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// let (user, organisation): (Limit, Limit) = ("fixed-window 5/min".parse()?, "fixed-window 8/min".parse()?);
    /// let users = Limiter::new(MemoryStore::new(), user).with_prefix("api")?;
    /// let organisations = users.under(organisation);
    /// for (user, is_allowed) in [("user:1", true), ("user:2", false)] {
    ///     let requests = [users.request(user, 5), organisations.request("acme", 5)];
    ///     assert_eq!(users.try_acquire_all(&requests).await?.is_allowed(), is_allowed);
    /// }
    /// // The organisation had no room, so the second user was not charged.
    /// assert_eq!(users.peek("user:2", 5).await?.remaining, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// All requests go to their limiters' one store, in one call; under stored limits in as many as
    /// [`StoredLimits`](super::StoredLimits) says, of which the last one charges.
    ///
    /// On a cluster this holds for ids that begin with one tag in braces, such as `{acme}:user:42` and `{acme}:all`. Others
    /// are charged one after the other, in the order of their keys, by reservations of ten seconds: if one is denied, those
    /// before it are cancelled. Meanwhile these can deny others as much as this call would charge. If a cancellation has no
    /// answer, the call is `Unknown`; after a crash in between, what was charged stays charged as any request is.
    ///
    /// The call has a request id if any of the limiters has them, and one circuit breaker: of this limiter, or the first that
    /// has one. Observers and fallbacks are those of each request's limiter. If the store does not answer and all have a
    /// fallback, these decide; a request that one of them denies leaves the others of this process uncharged too. The call
    /// passes permits that were taken ahead, known denials, coalescing, and callers in line; a deny cache forgets the denials
    /// that its answers contradict.
    ///
    /// # Errors
    /// [`Error`], and nothing is charged unless it is `Unknown`. [`KeyError::Twice`] for two requests on one key,
    /// [`ConfigError::Conflict`] for shadow mode or limiters of several stores, and
    /// [`StoreError::Misconfigured`] for a store that decides on one key at a time. A
    /// [`StoreError::Record`] is of the first key that cannot be used. A denial is not an error.
    pub async fn try_acquire_all(&self, requests: &[Request<'_>]) -> Result<AllDecision, Error> {
        self.all(requests, None).await
    }

    /// Admits requests as [`Limiter::try_acquire_all`] does, under an id that the caller chose: within `window` (1 us to
    /// 2^50 us), a repetition with this id and these costs gets the same answer and is not charged again, as in
    /// [`Limiter::try_acquire_once`].
    ///
    /// # Errors
    /// As [`Limiter::try_acquire_all`], also for a `window` out of range, and for an id that was used with another cost.
    /// [`StoreError::Misconfigured`] for keys on several nodes of a cluster.
    pub async fn try_acquire_all_once(
        &self,
        requests: &[Request<'_>],
        request: RequestId,
        window: Duration,
    ) -> Result<AllDecision, Error> {
        self.all(requests, Some((request, window))).await
    }

    async fn all(
        &self,
        requests: &[Request<'_>],
        name: Option<(RequestId, Duration)>,
    ) -> Result<AllDecision, Error> {
        let observers = requests.iter().map(|request| request.options.observer.as_ref());
        let watches: Vec<_> =
            observers.map(|it| it.map(|observer| observer.begin(false))).collect();
        let decisions = Box::pin(self.decide_all(requests, name)).await;
        for (index, (request, watch)) in requests.iter().zip(watches).enumerate() {
            if let Some(watch) = watch {
                let answer = decisions.as_ref().map(|all| &all[index..=index]);
                watch.end(request.id, &[request.cost], answer);
            }
        }
        let decisions = decisions?;
        Ok(AllDecision { binding: binding(requests, &decisions), decisions })
    }

    async fn decide_all(
        &self,
        requests: &[Request<'_>],
        name: Option<(RequestId, Duration)>,
    ) -> Result<Vec<Decision>, Error> {
        let all_options = || iter::once(&self.options).chain(requests.iter().map(|it| it.options));
        let own_name = || all_options().find_map(|it| Some(it.idempotency.as_ref()?.name()));
        let is_once = name.is_some();
        let name = name.or_else(own_name);
        let breaker = all_options().find_map(|it| it.circuit_breaker.as_ref());
        let Some(store) = self.store.identity() else {
            return Err(StoreError::Misconfigured(ONE_KEY.into()).into());
        };
        let (mut keys, mut acquires) = (Vec::new(), Vec::new());
        for request in requests {
            let key = Key::under(request.prefix, request.id)?;
            if keys.contains(&key) {
                return Err(KeyError::Twice.into());
            }
            keys.push(key);
            let acquire = request.acquire(store)?;
            acquires.push(match name {
                Some((name, window)) => acquire.with_request(name, window)?,
                None => acquire,
            });
        }
        let mut has_denied = false;
        let decided = match Report::begin(breaker) {
            Ok(report) => {
                // The id of a caller's own names one call.
                let decided;
                (decided, has_denied) = match is_once || store.has_together(&keys) {
                    true => (self.follow_all(requests, &keys, &acquires).await, false),
                    false => Box::pin(decide_apart(&self.store, requests, &keys, &acquires)).await,
                };
                if let Some(report) = report {
                    report.call_ended(&decided);
                }
                decided
            }
            Err(refused) => Err(refused.into()),
        };
        let decisions = match decided {
            Err(Error::Store(error)) if !has_denied => return fall_back(requests, &keys, error),
            decided => decided?,
        };
        for ((request, key), decision) in requests.iter().zip(&keys).zip(&decisions) {
            if let Some(denials) = &request.options.deny_cache {
                denials.correct(key, &request.cost, decision);
            }
        }
        Ok(decisions)
    }

    /// Asks until all requests are decided: again, if a stored limit was not known, and for a client's own key.
    async fn follow_all(
        &self,
        requests: &[Request<'_>],
        keys: &[Key],
        acquires: &[Acquire],
    ) -> Result<Vec<Decision>, Error> {
        let of_keys = || requests.iter().zip(keys).zip(acquires);
        let first = of_keys().map(|((request, key), acquire)| request.source.first(key, acquire));
        let mut each: Vec<OneOfAll> = first.collect::<Result<_, _>>()?;
        let mut asked = keys.to_vec();
        for repetition in 0.. {
            let all = AcquireAll::new(each.clone())?;
            let outcomes = self.store.execute_all(&asked, &all, Duration::MAX).await?;
            let mut decisions = Vec::with_capacity(outcomes.len());
            for (at, (((request, key), acquire), outcome)) in of_keys().zip(outcomes).enumerate() {
                match (&each[at], outcome) {
                    (OneOfAll::Given(_), OneOutcome::Done { outcome, .. }) => {
                        decisions.push(outcome);
                    }
                    (_, outcome) => match request.source.next(key, acquire, outcome, repetition)? {
                        Next::Decided(decision) => decisions.push(decision),
                        Next::Asks(own, one) => {
                            asked[at] = own.unwrap_or_else(|| key.clone());
                            each[at] = *one;
                        }
                    },
                }
            }
            if decisions.len() == requests.len() {
                return Ok(decisions);
            }
        }
        unreachable!("a request is repeated a few times, and once under its client's own key")
    }
}

impl Request<'_> {
    fn acquire(&self, store: Identity) -> Result<Acquire, Error> {
        let conflict = |with| ConfigError::Conflict { what: "one decision on several ids", with };
        if self.options.shadow.is_some() {
            return Err(conflict("shadow mode").into());
        }
        if self.store != Some(store) {
            return Err(conflict("limiters of several stores").into());
        }
        self.source.limit().map_or(Ok(()), |limit| self.cost.check(&limit))?;
        Ok(Acquire::by_part(self.source.nominal(), positive(self.cost)?)?)
    }
}

/// Decides by the fallbacks of all requests. They are charged if each peek admits: calls of this process at the same time can
/// charge some of them alone.
fn fall_back(
    requests: &[Request<'_>],
    keys: &[Key],
    error: StoreError,
) -> Result<Vec<Decision>, Error> {
    let fallbacks = requests.iter().map(|request| request.options.fallback.as_ref());
    let Some(fallbacks) = fallbacks.collect::<Option<Vec<_>>>() else { return Err(error.into()) };
    let error = error.shared();
    let decide = |charges: bool| {
        let each = requests.iter().zip(keys).zip(&fallbacks);
        let decide = |((request, key), fallback): ((&Request<'_>, _), &&Arc<Fallback>)| {
            let Request { source, id, cost, .. } = request;
            let peek = Peek::by_part(source.nominal(), *cost);
            let mode = if charges { Mode::Acquire } else { Mode::Peek(&peek) };
            let ask = Ask::new(id, key, source, std::slice::from_ref(cost), mode);
            fallback.answer(&ask, error().into()).map(Answer::decision)
        };
        each.map(decide).collect::<Result<Vec<Decision>, Error>>()
    };
    let decisions = decide(false)?;
    if decisions.iter().all(Decision::is_allowed) { decide(true) } else { Ok(decisions) }
}

/// Returns the index of the request that binds.
fn binding(requests: &[Request<'_>], decisions: &[Decision]) -> usize {
    // How long it is denied, and how many more requests have room: in the order of what binds most.
    let binds = |index: &usize| {
        let (cost, decision) = (&requests[*index].cost, &decisions[*index]);
        let denied = match decision.verdict {
            Verdict::Allowed => Duration::ZERO,
            Verdict::Denied { retry_after, .. } => retry_after.max(Duration::from_micros(1)),
            Verdict::Never => Duration::MAX,
        };
        let of_parts = decision.parts.iter().enumerate();
        let room = of_parts.filter_map(|(at, part)| part.remaining.checked_div(cost.of_part(at)));
        let room = room.min().unwrap_or(decision.remaining / cost.most().max(1));
        (std::cmp::Reverse(denied), room)
    };
    (0..decisions.len()).min_by_key(binds).unwrap_or_default()
}

impl AllDecision {
    /// Returns whether all requests may go ahead, and are charged.
    pub fn is_allowed(&self) -> bool {
        self.decisions.iter().all(Decision::is_allowed)
    }

    /// Returns the admission of the request that binds, if all may go ahead now, so that `?` rejects any other.
    ///
    /// # Errors
    /// [`Denied`], of the request that binds; or [`Denied::NotYet`] of the first that is admitted and has a turn to come.
    pub fn ok(&self) -> Result<Admitted, Denied> {
        let admitted = self.decisions[self.binding].ok()?;
        self.decisions.iter().try_for_each(|decision| decision.ok().map(drop))?;
        Ok(admitted)
    }
}
