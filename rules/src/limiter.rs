//! Decides what rules say, on one store.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lockage::limiter::{Fallback, FixedWindow, Origin, Reservation, StoredLimits};
use lockage::store::{BlockingStore, ConfigError, HasTimeout};
use lockage::{Decision, Error, Limiter, Verdict};

use crate::limits::RuleLimit;
use crate::rule::{Costs, Matched};
use crate::settings::RuleFallback;

/// How long a stored limit is charged on approval, while the others of a request are asked.
const HOLD: Duration = Duration::from_secs(30);

/// Decides the limits that requests meet by rules: each is charged, or none.
///
/// ```
/// use std::time::Duration;
///
/// use lockage::runtime::Tokio;
/// use lockage::{Limiter, RetryStore};
/// use lockage_memory::MemoryStore;
/// use lockage_rules::{Format, Request, RuleLimiter, Rules};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let rules = Rules::parse(
///     r#"
///     rules:
///       - { name: users, id: "user:{user}", limit: fixed-window 2/min }
///       - { name: everybody, id: all, limit: fixed-window 3/min, client: { status: 503 } }
///     "#,
///     Format::Yaml,
/// )?;
/// let store = RetryStore::new(MemoryStore::new(), Tokio, Duration::from_millis(250));
/// let limiter = RuleLimiter::new(store, MemoryStore::new());
/// for (user, is_allowed) in [("ann", true), ("bob", true), ("ann", true), ("bob", false)] {
///     let decided = limiter.decide(rules.matches(&Request::new().user(user))).await?;
///     assert_eq!(decided.is_allowed(), is_allowed);
///     if let Some(denied) = decided.denied() {
///         assert_eq!((denied.matched.rule, denied.matched.client.status), ("everybody", Some(503)));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// - The limits of rules are one decision, as [`Limiter::try_acquire_all`] makes it; on a cluster, ids have to share a hash
///   tag. A stored limit is reserved first, in a call of its own, and given back if another one denies; a crash between the
///   two leaves it charged.
/// - Rules in shadow mode are asked once the store has admitted the request, each in a call of its own, and deny nothing.
/// - A rule with a fallback decides by it while the store is away, if all rules of the request have one.
/// - A cost of zero, such as one that the program computed, meets no limit.
#[derive(Debug)]
pub struct RuleLimiter<S> {
    plain: Limiter<S>,
    shadow: Limiter<S>,
    /// Made when a rule first has the fallback; those of one kind share their circuit and their store.
    with_fallback: Mutex<HashMap<RuleFallback, Limiter<S>>>,
    fallback: Box<dyn LocalFallback>,
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a denied request must not go ahead: ask `is_allowed()`"]
#[non_exhaustive]
pub struct RuleDecision<'r> {
    /// The rules that the request meets, in their order.
    pub met: Vec<Met<'r>>,
    /// The index of the rule that binds: one that blocks, a stored limit that denies, or, of the limits in one decision, the
    /// one that denies for longest or, if all admit, has room for the fewest more such requests. `None` if no limit was
    /// asked.
    pub binding: Option<usize>,
    is_allowed: bool,
}

/// A rule that a request meets, and its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Met<'r> {
    /// The rule.
    pub matched: Matched<'r>,
    /// The decision of its limit. `None` if it was not asked: it blocks, its cost is zero, or another one denied first.
    pub decision: Option<Decision>,
}

impl RuleDecision<'_> {
    /// Returns whether the request may go ahead, and is charged.
    pub fn is_allowed(&self) -> bool {
        self.is_allowed
    }
}

impl<'r> RuleDecision<'r> {
    /// Returns the rule that denies the request; `None` if it is admitted.
    pub fn denied(&self) -> Option<&Met<'r>> {
        self.binding.filter(|_| !self.is_allowed).map(|at| &self.met[at])
    }

    /// Returns the time until the same request can be admitted; `None` if it is admitted, or never can be.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.denied()?.decision.as_ref()?.verdict {
            Verdict::Denied { retry_after, .. } => Some(retry_after),
            Verdict::Allowed | Verdict::Never => None,
        }
    }
}

impl<S: HasTimeout + Clone> RuleLimiter<S> {
    /// Creates a limiter on this store, with the prefix `lockage`. While it is away, fallbacks by a share of the limit count
    /// in `local`, such as a `MemoryStore` of `lockage-memory`.
    pub fn new(store: S, local: impl BlockingStore + Clone + 'static) -> Self {
        // Rules bring their limits. This one leaves a share to any number of processes that a rule can have.
        let any = FixedWindow::new(u64::from(u32::MAX), Duration::from_secs(1));
        RuleLimiter::of(Limiter::new(store, any.expect("it is in range").into()), local)
    }

    /// Creates one of this limiter, with its store, prefix, observer and request ids. Its own limit does not count. Its deny
    /// cache, permits ahead and coalescing serve requests that meet one limit.
    pub fn of(limiter: Limiter<S>, local: impl BlockingStore + Clone + 'static) -> Self {
        let shadow = limiter.clone().with_shadow();
        let with_fallback = Mutex::default();
        RuleLimiter { plain: limiter, shadow, with_fallback, fallback: Box::new(local) }
    }

    /// Decides the limits that a request meets, as [`Rules::matches`](crate::Rules::matches) returns them.
    ///
    /// # Errors
    /// [`Error`], as of [`Limiter::try_acquire_all`]. A denial is not an error.
    pub async fn decide<'r>(&self, matched: Vec<Matched<'r>>) -> Result<RuleDecision<'r>, Error> {
        let met = matched.into_iter().map(|matched| Met { matched, decision: None }).collect();
        let mut decided = RuleDecision { met, binding: None, is_allowed: true };
        let blocks =
            |met: &Met<'_>| *met.matched.limit == RuleLimit::Blocked && !met.matched.shadow;
        if let Some(at) = decided.met.iter().position(blocks) {
            return Ok(RuleDecision { binding: Some(at), is_allowed: false, ..decided });
        }
        let mut reserved = Vec::new();
        let outcome = self.charge(&mut decided, &mut reserved).await;
        if !decided.is_allowed || outcome.is_err() {
            for (limiter, at, reservation) in reserved {
                // If it cannot be given back, it stays charged.
                let id = &decided.met[at].matched.id;
                let _ = limiter.cancel(id, &reservation).await;
            }
        }
        outcome?;
        // Each of them would wait for a store that is away.
        let mut decisions = decided.met.iter().filter_map(|met| met.decision.as_ref());
        let is_away = decisions.any(|decision| decision.origin == Origin::Fallback);
        if decided.is_allowed && !is_away {
            self.try_out(&mut decided).await;
        }
        Ok(decided)
    }

    /// Asks the limits that are enforced: those in the store, then all others together.
    async fn charge(
        &self,
        decided: &mut RuleDecision<'_>,
        reserved: &mut Vec<(Limiter<S>, usize, Reservation)>,
    ) -> Result<(), Error> {
        let mut given = Vec::new();
        for at in 0..decided.met.len() {
            let Matched { id, limit, costs, shadow, .. } = &decided.met[at].matched;
            let cost = costs.cost()?;
            if *shadow || cost.most() == 0 {
                continue;
            }
            let limiter = self.limiter(&decided.met[at].matched)?;
            if let RuleLimit::Given(_) = limit {
                given.push((at, limiter, cost));
                continue;
            }
            let decision = if decided.met.len() == 1 {
                acquire(&limiter, id, costs).await?
            } else {
                let held = match costs {
                    Costs::One(cost) => limiter.reserve(id, *cost, HOLD).await?,
                    Costs::Parts(costs) => limiter.reserve_parts(id, &costs[..], HOLD).await?,
                };
                reserved.extend(held.reservation.map(|reservation| (limiter, at, reservation)));
                held.decision
            };
            decided.is_allowed = decision.is_allowed();
            decided.binding = Some(at);
            decided.met[at].decision = Some(decision);
            if !decided.is_allowed {
                return Ok(());
            }
        }
        if let ([(at, limiter, _)], true) = (&given[..], reserved.is_empty()) {
            // The road of one request has the limiter's deny cache, permits ahead and coalescing.
            let Matched { ref id, ref costs, .. } = decided.met[*at].matched;
            let decision = acquire(limiter, id, costs).await?;
            decided.is_allowed = decision.is_allowed();
            decided.binding = Some(*at);
            decided.met[*at].decision = Some(decision);
            return Ok(());
        }
        let Some((_, first, _)) = given.first() else { return Ok(()) };
        let requests: Vec<_> = given
            .iter()
            .map(|(at, limiter, cost)| limiter.request(&decided.met[*at].matched.id, *cost))
            .collect();
        let all = first.try_acquire_all(&requests).await?;
        decided.is_allowed = all.is_allowed();
        decided.binding = Some(given[all.binding].0);
        for ((at, ..), decision) in given.iter().zip(all.decisions) {
            decided.met[*at].decision = Some(decision);
        }
        Ok(())
    }

    /// Asks the limits in shadow mode. They admit, also if the store does not answer.
    async fn try_out(&self, decided: &mut RuleDecision<'_>) {
        for Met { matched, decision } in &mut decided.met {
            let Matched { id, limit, costs, shadow, .. } = matched;
            let Ok(cost) = costs.cost() else { continue };
            if *shadow && cost.most() > 0 && **limit != RuleLimit::Blocked {
                *decision = acquire(&under(&self.shadow, limit), id, costs).await.ok();
            }
        }
    }

    /// Returns the limiter of a rule that a request meets, for other verbs than an acquire, such as
    /// [`refund`](Limiter::refund).
    ///
    /// # Errors
    /// [`ConfigError`] if the rule's fallback leaves no share of the limit for a process.
    pub fn limiter(&self, matched: &Matched<'_>) -> Result<Limiter<S>, ConfigError> {
        let Some(kind) = matched.fallback else { return Ok(under(&self.plain, matched.limit)) };
        let mut made = self.with_fallback.lock().unwrap_or_else(PoisonError::into_inner);
        let limiter = match made.entry(kind) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let fallback = match kind {
                    RuleFallback::Open => Fallback::open(),
                    RuleFallback::Closed => Fallback::closed(),
                    RuleFallback::LocalShare(processes) => self.fallback.share(processes),
                };
                new.insert(self.plain.clone().with_fallback(fallback)?)
            }
        };
        Ok(under(limiter, matched.limit))
    }
}

fn under<S: HasTimeout + Clone>(limiter: &Limiter<S>, limit: &RuleLimit) -> Limiter<S> {
    match limit {
        RuleLimit::Given(limit) => limiter.under(*limit),
        RuleLimit::Stored(Some(default)) => {
            limiter.under_stored(StoredLimits::new().with_default(*default))
        }
        RuleLimit::Stored(None) | RuleLimit::Blocked => limiter.under_stored(StoredLimits::new()),
    }
}

async fn acquire<S: HasTimeout>(
    limiter: &Limiter<S>,
    id: &str,
    costs: &Costs,
) -> Result<Decision, Error> {
    match costs {
        Costs::One(cost) => limiter.try_acquire(id, *cost).await,
        Costs::Parts(costs) => limiter.try_acquire_parts(id, &costs[..]).await,
    }
}

/// Makes fallbacks on a store of this process, whatever its type.
trait LocalFallback: Send + Sync {
    fn share(&self, processes: u64) -> Fallback;
}

impl<L: BlockingStore + Clone + 'static> LocalFallback for L {
    fn share(&self, processes: u64) -> Fallback {
        Fallback::local_share(processes, self.clone())
    }
}

impl std::fmt::Debug for dyn LocalFallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LocalFallback")
    }
}
