//! Decides what rules say, on one store.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockage::limiter::{Fallback, FixedWindow, Origin, StoredLimits};
use lockage::observer::{ErrorKind, Observer, RulesEvent, Subject, bind};
use lockage::store::{BlockingStore, ConfigError, HasTimeout};
use lockage::{Decision, Error, Limit, Limiter};

use crate::decision::{Met, Open, RuleDecision};
use crate::in_flight::{InFlight, Place, Shed};
use crate::limits::RuleLimit;
use crate::rule::{Costs, Matched};
use crate::settings::{Priority, RuleFallback};

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
///         let rule = &denied.matched.rule;
///         assert_eq!((rule.name.as_str(), rule.client.status), ("everybody", Some(503)));
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// - The limits of rules, given and stored, are one decision, as [`Limiter::try_acquire_all`] makes it, also on a cluster.
/// - Rules in shadow mode are asked once the store has admitted the request, each in a call of its own, and deny nothing.
/// - A rule with a fallback decides by it while the store is away, if all rules of the request have one.
/// - A rule with `overdraft` is charged once the others have admitted the request, in a call of its own
///   ([`Limiter::penalty`]), and denies nothing. If that call fails, the rule has no decision. The failure is the request's
///   only if nothing at all was charged.
/// - A cost of zero, such as one that the program computed, meets no limit.
pub struct RuleLimiter<S> {
    plain: Limiter<S>,
    in_flight: InFlight,
    observer: Option<Observers>,
    /// Made when a rule first needs one. Those of one fallback share their circuit and their store.
    made: Mutex<HashMap<Kind, Limiter<S>>>,
    fallback: Box<dyn LocalFallback>,
}

/// The observer, and what of it is bound to no rule.
struct Observers {
    each: Arc<dyn Observer>,
    unbound: Arc<dyn Observer>,
}

/// The options of a rule's limiter, and the rule's name if it is observed.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Kind {
    fallback: Option<RuleFallback>,
    is_shadow: bool,
    observed: Option<String>,
}

impl<S: HasTimeout + Clone> RuleLimiter<S> {
    /// Creates a limiter on this store, with the prefix `lockage`. While it is away, fallbacks by a share of the limit count
    /// in `local`, such as a `MemoryStore` of `lockage-memory`.
    pub fn new(store: S, local: impl BlockingStore + Clone + 'static) -> Self {
        RuleLimiter::of(Limiter::new(store, any_limit()), local)
    }

    /// Creates one of this limiter, with its store, prefix, observer and request ids. Its own limit does not count. Its deny
    /// cache, permits ahead and coalescing serve requests that meet one limit.
    pub fn of(limiter: Limiter<S>, local: impl BlockingStore + Clone + 'static) -> Self {
        RuleLimiter {
            plain: limiter.under(any_limit()),
            in_flight: InFlight::unbounded(),
            observer: None,
            made: Mutex::default(),
            fallback: Box::new(local),
        }
    }

    /// Reports the decisions of each rule to this observer, with the rule's name as the policy, and the requests that are
    /// refused without a decision.
    pub fn with_observer(self, observer: impl Observer) -> Self {
        let each: Arc<dyn Observer> = Arc::new(observer);
        let unbound = bind(Arc::clone(&each), Subject::Rules(None));
        RuleLimiter { observer: Some(Observers { each, unbound }), ..self }
    }

    /// Bounds the requests that this process serves at once: each has a place from [`decide`](Self::decide) until its
    /// decision, or the [`Place`] taken out of it, is dropped. A request is refused ([`Shed`]), before the store is
    /// asked, if too many places are taken for its priority, by requests of any priority:
    ///
    /// | priority | is refused with this part of the places taken |
    /// |---|---|
    /// | low | 1/2 |
    /// | normal, or none | 3/4 |
    /// | high | 9/10 |
    /// | critical | all |
    ///
    /// The priority is that of the first rule that has one, among those that are enforced. The bound is of this process,
    /// whatever others serve. Requests that are served already are not ended for others, and none waits. A limiter with
    /// coalescing refuses whoever comes when its queue is full: a bound below that queue's refuses by priority before.
    pub fn with_in_flight(mut self, most: u32) -> Self {
        self.in_flight.most = most;
        self
    }

    /// Sets a lower bound for the time without the store, which begins with three requests in a row that it did not answer,
    /// and ends with its next answer. Fallbacks decide requests within it.
    pub fn with_in_flight_while_away(mut self, most: u32) -> Self {
        self.in_flight.most_while_away = most;
        self
    }

    /// Decides the limits that a request meets, as [`Rules::matches`](crate::Rules::matches) returns them.
    ///
    /// # Errors
    /// [`Error`], as of [`Limiter::try_acquire_all`]. A denial is not an error.
    pub async fn decide(&self, matched: Vec<Matched>) -> Result<RuleDecision, Error> {
        self.decide_all(matched, None).await
    }

    /// Decides as [`decide`](Self::decide), and reserves the cost of this name, for rules that have it among their costs: it
    /// is an estimate, which [`commit`](Self::commit) replaces within `hold`. Otherwise it stays charged.
    ///
    /// Each of these rules is reserved in a call of its own, before the others are decided, and given back if another one
    /// denies; a crash between the two leaves it charged.
    ///
    /// # Errors
    /// As [`decide`](Self::decide); also for a `hold` out of range (1 us to 2^50 us).
    pub async fn reserve(
        &self,
        matched: Vec<Matched>,
        estimate: &str,
        hold: Duration,
    ) -> Result<RuleDecision, Error> {
        self.decide_all(matched, Some((estimate, hold))).await
    }

    /// Takes a place among the requests that are served at once, for one that goes ahead without a decision; `None` without
    /// a bound.
    ///
    /// # Errors
    /// [`Shed`], if too many are served for this priority.
    pub fn take_place(&self, priority: Priority) -> Result<Option<Place>, Shed> {
        let taken = self.in_flight.take(priority);
        if taken.is_err() {
            self.report(&RulesEvent::Shed { priority: priority.name() });
        }
        taken
    }

    async fn decide_all(
        &self,
        matched: Vec<Matched>,
        estimate: Option<(&str, Duration)>,
    ) -> Result<RuleDecision, Error> {
        let mut decided = RuleDecision::admitting(matched);
        let blocks =
            |met: &Met| *met.matched.limit() == RuleLimit::Blocked && !met.matched.rule.shadow;
        if let Some(at) = decided.met.iter().position(blocks) {
            self.report(&RulesEvent::Blocked { rule: &decided.met[at].matched.rule.name });
            return Ok(decided.deny(at));
        }
        match self.take_place(decided.priority()) {
            Ok(place) => decided.place = place,
            Err(shed) => return Ok(decided.refuse(shed)),
        }
        decided.estimate = estimate.map(|(name, _)| name.into());
        let outcome = match self.charge(&mut decided, estimate).await {
            Ok(()) => self.overdraw(&mut decided).await,
            error => error,
        };
        self.note(&decided, outcome.as_ref().err());
        if !decided.is_allowed() || outcome.is_err() {
            decided.place = None;
            // If it cannot be given back, it stays charged.
            let _ = self.give_back(&decided).await;
            decided.open.clear();
        }
        outcome?;
        // Each of them would wait for a store that is away.
        if decided.is_allowed() && !decided.has(Origin::Fallback) {
            self.try_out(&mut decided).await;
        }
        Ok(decided)
    }

    /// Notes whether the store has answered.
    fn note(&self, decided: &RuleDecision, error: Option<&Error>) {
        let is_absent =
            |error: &Error| matches!(error.kind(), ErrorKind::NotDone | ErrorKind::Unknown);
        if error.is_some_and(is_absent) || decided.has(Origin::Fallback) {
            self.in_flight.note(false);
        } else if decided.has(Origin::Store) {
            self.in_flight.note(true);
        }
    }

    fn report(&self, event: &RulesEvent<'_>) {
        if let Some(observer) = &self.observer {
            observer.unbound.rules(event);
        }
    }

    /// Asks the limits that are enforced: those with an estimate, then all others together.
    async fn charge(
        &self,
        decided: &mut RuleDecision,
        estimate: Option<(&str, Duration)>,
    ) -> Result<(), Error> {
        let mut others = Vec::new();
        for at in 0..decided.met.len() {
            let matched = &decided.met[at].matched;
            let cost = matched.costs.cost()?;
            if matched.rule.shadow || cost.most() == 0 {
                continue;
            }
            let limiter = self.limiter(matched)?;
            let hold = estimate.filter(|(name, _)| matched.amount_of(name).is_some());
            let hold = hold.map(|(_, hold)| hold);
            if matched.rule.overdraft && hold.is_none() {
                continue;
            }
            let Some(hold) = hold else {
                others.push((at, limiter, cost));
                continue;
            };
            let held = match &matched.costs {
                Costs::One(cost) => limiter.reserve(&matched.id, *cost, hold).await?,
                Costs::Parts(costs) => limiter.reserve_parts(&matched.id, &costs[..], hold).await?,
            };
            decided.open.extend(held.reservation.map(|reservation| Open { at, reservation }));
            if !decided.add(at, held.decision) {
                return Ok(());
            }
        }
        if let ([(at, limiter, _)], true) = (&others[..], decided.open.is_empty()) {
            // The road of one request has the limiter's deny cache, permits ahead and coalescing.
            let matched = &decided.met[*at].matched;
            let decision = ask(limiter, matched).await?;
            decided.add(*at, decision);
            return Ok(());
        }
        let Some((_, first, _)) = others.first() else { return Ok(()) };
        let requests: Vec<_> = others
            .iter()
            .map(|(at, limiter, cost)| limiter.request(&decided.met[*at].matched.id, *cost))
            .collect();
        let all = first.try_acquire_all(&requests).await?;
        let (binding, is_allowed) = (others[all.binding].0, all.is_allowed());
        drop(requests);
        for ((at, ..), decision) in others.iter().zip(all.decisions) {
            decided.met[*at].decision = Some(decision);
        }
        decided.bind(binding, is_allowed);
        Ok(())
    }

    /// Charges the rules that overdraw. A store that is away would be waited for once for each.
    async fn overdraw(&self, decided: &mut RuleDecision) -> Result<(), Error> {
        if !decided.is_allowed() || decided.has(Origin::Fallback) {
            return Ok(());
        }
        let mut failed = None;
        for at in 0..decided.met.len() {
            let Met { matched, decision } = &mut decided.met[at];
            let overdraws = matched.rule.overdraft && !matched.rule.shadow && decision.is_none();
            if overdraws && matched.costs.cost()?.most() > 0 {
                match ask(&self.limiter(matched)?, matched).await {
                    Ok(charged) => *decision = Some(charged),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        let is_charged = |at: &usize| decided.met[*at].decision.is_some();
        decided.binding = decided.binding.or_else(|| (0..decided.met.len()).find(is_charged));
        failed.filter(|_| decided.binding.is_none()).map_or(Ok(()), Err)
    }

    /// Asks the limits in shadow mode. They admit, also if the store does not answer.
    async fn try_out(&self, decided: &mut RuleDecision) {
        for Met { matched, decision } in &mut decided.met {
            let Ok(cost) = matched.costs.cost() else { continue };
            if matched.rule.shadow && cost.most() > 0 && *matched.limit() != RuleLimit::Blocked {
                let Ok(limiter) = self.limiter(matched) else { continue };
                *decision = ask(&limiter, matched).await.ok();
            }
        }
    }

    /// Returns the limiter of a rule that a request meets, for other verbs than an acquire, such as
    /// [`refund`](Limiter::refund). In shadow mode it has no fallback.
    ///
    /// # Errors
    /// [`ConfigError`] if the rule's fallback leaves no share of the limit for a process.
    pub fn limiter(&self, matched: &Matched) -> Result<Limiter<S>, ConfigError> {
        let is_shadow = matched.rule.shadow;
        let fallback = matched.rule.fallback.filter(|_| !is_shadow);
        let observed = self.observer.is_some().then(|| matched.rule.name.clone());
        let kind = Kind { fallback, is_shadow, observed };
        if (None, false, &None) == (kind.fallback, is_shadow, &kind.observed) {
            return Ok(under(&self.plain, matched.limit()));
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = made.get(&kind) {
            return Ok(under(known, matched.limit()));
        }
        let base = Kind { observed: None, ..kind.clone() };
        let limiter = match made.get(&base) {
            Some(known) => known.clone(),
            None => {
                let limiter = self.plain.clone();
                let limiter = match kind.fallback {
                    None => limiter,
                    Some(RuleFallback::Open) => limiter.with_fallback(Fallback::open())?,
                    Some(RuleFallback::Closed) => limiter.with_fallback(Fallback::closed())?,
                    Some(RuleFallback::LocalShare(processes)) => {
                        limiter.with_fallback(self.fallback.share(processes))?
                    }
                };
                let limiter = if is_shadow { limiter.with_shadow() } else { limiter };
                made.insert(base, limiter.clone());
                limiter
            }
        };
        let limiter = match &self.observer {
            Some(observer) => {
                let limiter = limiter.with_observer(&matched.rule.name, Arc::clone(&observer.each));
                made.insert(kind, limiter.clone());
                limiter
            }
            None => limiter,
        };
        Ok(under(&limiter, matched.limit()))
    }
}

/// Returns a limit in the place of those that rules bring. It leaves a share to any number of processes that a rule can have.
fn any_limit() -> Limit {
    let any = FixedWindow::new(u64::from(u32::MAX), Duration::from_secs(1));
    any.expect("it is in range").into()
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

async fn ask<S: HasTimeout>(limiter: &Limiter<S>, matched: &Matched) -> Result<Decision, Error> {
    let id = &matched.id;
    match &matched.costs {
        Costs::One(cost) if matched.rule.overdraft => Ok(limiter.penalty(id, *cost).await?.after),
        Costs::Parts(costs) if matched.rule.overdraft => {
            Ok(limiter.penalty_parts(id, &costs[..]).await?.after)
        }
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

impl<S: fmt::Debug> fmt::Debug for RuleLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleLimiter")
            .field("limiter", &self.plain)
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}
