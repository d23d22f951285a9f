//! Programs as users write them: asynchronous functions on the public API.

mod asking;
mod holding;
mod leading;
mod looking;
mod share;
mod values;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join;
use lockage::fenced::Fenced;
use lockage::limiter::{CircuitBreakerConfig, DenyCache, Prefetch, StoredLimits, UnreadLimit};
use lockage::locks::{Cached, Quorum, RunOnce};
use lockage::observer::{DecisionEvent, LeaseEvent, Observer};
use lockage::runtime::Runtime;
use lockage::store::RecordError;
use lockage::{Error, Fallback, Limiter, Locks, RetryStore, StoreError};

use super::by_part::ByPart;
use super::judge::Seen;
use super::place::{Place, PlaceClock};
use super::plan::{Circuit, FOREVER, Instead, Options, Plan, SERVERS, Unread, Verb, What, Work};
use share::Share;

/// The limiters and locks that a process of a node creates when it begins.
#[derive(Clone)]
pub struct Life<P: Place> {
    place: P,
    runtime: P::Runtime,
    limiter: Limiter<RetryStore<P::Store, P::Runtime>>,
    locks: Locks<P::Store, P::Runtime>,
    quorum: Quorum<P::Store, P::Runtime>,
    once: RunOnce<P::Store, P::Runtime>,
    cached: Cached<P::Store, P::Runtime>,
    values: Fenced<RetryStore<P::Store, P::Runtime>>,
    /// How many calls for each id may share one.
    sharing: Arc<[AtomicUsize; IDS.len()]>,
    /// How many callers have waited in line.
    callers: Arc<AtomicUsize>,
    /// Whether to report the calls that a circuit breaker counts.
    shows_circuit: bool,
    plan: Arc<Plan>,
}

/// Ids of the limiter.
pub(super) const IDS: [&str; 2] = ["a", "b"];

/// The id that each look asks for once.
pub(super) const LOOKED_AT: &str = "look once";

/// The wait of a job that waits as long as needed.
const EVER: Duration = micros(FOREVER);

/// How long records that must not be forgotten are kept: longer than any world.
const LONG: Duration = Duration::from_secs(100_000);

const fn micros(span_us: u64) -> Duration {
    Duration::from_micros(span_us)
}

impl<P: Place> Life<P> {
    /// Creates limiters and locks according to the plan.
    ///
    /// # Panics
    /// Panics if the plan is out of range, which a drawn one is not.
    pub fn new(plan: &Plan, place: &P) -> Self {
        let locks = locks(plan, place);
        let servers = (0..SERVERS).map(|server| locks_on(plan, place, place.server(server)));
        let quorum = Quorum::new(servers.collect()).expect("there are three");
        let once = RunOnce::new(&locks, LONG).expect("in range").with_prefix("done");
        // It is fresh for a second at most.
        let fresh = micros(plan.keep_us).min(Duration::from_secs(1));
        let cached = Cached::new(&locks, fresh, micros(plan.keep_us)).expect("in range");
        Life {
            place: place.clone(),
            runtime: place.runtime(),
            limiter: limiter(plan, place),
            quorum,
            once: once.expect("a prefix"),
            cached,
            values: Fenced::new(retrying(plan, place, place.store()), LONG).expect("in range"),
            locks,
            sharing: Arc::default(),
            callers: Arc::default(),
            shows_circuit: plan.shows_circuit(),
            plan: Arc::new(plan.clone()),
        }
    }

    /// Returns whether callers share a call, or wait for one.
    pub(super) fn is_coalescing(&self) -> bool {
        self.limiter.coalescing_stats().is_some_and(|told| told.waiting > 0)
    }

    /// Returns whether another job may share a call for this id.
    pub(super) fn is_sharing(&self, id: usize) -> bool {
        self.sharing[id].load(Ordering::Relaxed) > 0
    }

    /// Runs the job of this number.
    pub async fn run(self, job: usize, work: Work) {
        // Programs on real servers draw their own jobs.
        let drawn = self.plan.jobs.get(job);
        let is_blind = drawn.is_some_and(|job| job.is_blind);
        let is_loose = drawn.is_some_and(|job| job.is_loose);
        let moves_to = drawn.and_then(|job| job.moves_to);
        match work {
            Work::Ask { id, cost, second, verb, times, every_us } => {
                for _ in 0..times {
                    match verb {
                        // Requests for several ids at one time share a call.
                        Verb::Acquire { .. } if self.plan.options.batches => {
                            let other = self.ask((id + 1) % IDS.len(), cost, second, verb);
                            join(self.ask(id, cost, second, verb), other).await;
                        }
                        _ => self.ask(id, cost, second, verb).await,
                    }
                    self.runtime.sleep(micros(every_us)).await;
                }
            }
            Work::Hold { what, wait_us, for_us, end, is_own, again } => {
                let (wait, least) = (micros(wait_us), Duration::ZERO);
                let hold =
                    holding::Hold { job, what, wait, least, again, is_blind, is_loose, moves_to };
                self.hold(hold, micros(for_us), end, is_own).await;
            }
            Work::Keep { least_us, wait_us, for_us, end } => {
                let (what, wait) = (What::Lock { is_fair: false }, micros(wait_us));
                let (least, again) = (micros(least_us), false);
                let hold =
                    holding::Hold { job, what, wait, least, again, is_blind, is_loose, moves_to };
                self.hold(hold, micros(for_us), end, false).await;
            }
            Work::Lead { for_us, terms } => {
                self.lead(job, micros(for_us), terms, is_blind).await;
            }
            Work::Watch { every_us, times } => self.watch(micros(every_us), times).await,
            Work::Once { for_us } => self.once(job, micros(for_us), is_blind).await,
            Work::Force { for_us } => self.force(micros(for_us)).await,
            Work::Count { count } => self.count_down(count).await,
            Work::Await { wait_us } => self.wait_for_latch(job, micros(wait_us)).await,
            Work::Change { count, times, every_us } => {
                self.change_latch(count, times, micros(every_us)).await;
            }
            Work::Get { for_us } => self.get(job, micros(for_us), is_blind).await,
            Work::Invalidate => self.invalidate().await,
            Work::Look => self.look().await,
        }
        self.place.saw(Seen::Ended { job });
    }

    fn failed(&self, what: &str, error: &Error) {
        self.failed_call(what, [0; 2], error);
    }

    /// Reports an error, which only the store may cause.
    fn failed_call(&self, what: &str, cost: ByPart, error: &Error) {
        let is_unknown = match error {
            Error::Store(StoreError::NotDone(_)) => false,
            Error::Store(StoreError::Unknown(_))
            | Error::TooSlow { .. }
            | Error::NotReplicated { .. } => true,
            // A reservation that is repeated after a change of its limit is a different one.
            Error::Store(StoreError::Record(RecordError::OperationReused))
                if self.plan.asks(|verb| verb == Verb::Store) =>
            {
                true
            }
            _ => return self.place.saw(Seen::Wrong { what: format!("{what}: {error}") }),
        };
        self.place.saw(Seen::Failed { cost, is_unknown });
    }

    /// Returns the charges of all ids that the limiter still counts.
    ///
    /// # Errors
    /// The limiter's.
    pub async fn charged(&self) -> Result<u64, Error> {
        let mut charged = 0;
        for id in IDS {
            let decision = self.limiter.peek(id, 0).await?;
            charged += decision.limit - decision.remaining;
        }
        Ok(charged)
    }
}

fn retrying<P: Place>(plan: &Plan, place: &P, store: P::Store) -> RetryStore<P::Store, P::Runtime> {
    RetryStore::new(store, place.runtime(), micros(plan.timeout_us))
}

fn limiter<P: Place>(plan: &Plan, place: &P) -> Limiter<RetryStore<P::Store, P::Runtime>> {
    let Options { idempotency, coalescing, deny_cache, max_age_us, shadow, stored, .. } =
        plan.options;
    let Options { fallback, circuit, unread, prefetch, .. } = plan.options;
    let store = retrying(plan, place, place.store());
    let limiter = match stored {
        Some(terms) => {
            let client = format!("{:x}", place.runtime().random());
            let limits = StoredLimits::new().with_default(terms.of(plan.limit));
            Limiter::stored(store, limits.as_client(&client).expect("a name"))
        }
        None => Limiter::new(store, plan.limit),
    };
    let limiter = limiter.with_clock(PlaceClock(place.clone()));
    let mut limiter = limiter.with_prefix("limiter").expect("a prefix");
    if idempotency {
        limiter = limiter.with_idempotency(8 * micros(plan.timeout_us)).expect("in range");
    }
    if coalescing {
        limiter = limiter.with_coalescing(1000).expect("no request ids");
    }
    if deny_cache {
        let cache = DenyCache::new(100);
        let cache = max_age_us.map_or(cache, |age_us| cache.with_max_age(micros(age_us)));
        limiter = limiter.with_deny_cache(cache).expect("in range");
    }
    if let Some((permits, lease_us)) = prefetch {
        let prefetch = Prefetch::new(permits, micros(lease_us));
        limiter = limiter.with_prefetch(prefetch).expect("below the capacity");
    }
    if let Some(instead) = fallback {
        let nodes = plan.ppm.len() as u64;
        // A limit may be too small to be shared.
        let mut fallback = match (instead, plan.limit.share(nodes)) {
            (Instead::Share, Ok(limit)) => Fallback::local_share(nodes, Share::new(limit, place)),
            (Instead::Open, _) => Fallback::open(),
            _ => Fallback::closed(),
        };
        if let Some(Circuit { trip_after, probe_every_us, return_after }) = circuit {
            let every = micros(probe_every_us);
            let circuit = CircuitBreakerConfig::new(trip_after, every, return_after);
            fallback = fallback.with_circuit_breaker(circuit.expect("above zero"));
        }
        if let (Some(unread), Some(terms)) = (unread, stored) {
            fallback = fallback.with_unread_limit(match unread {
                Unread::LastSeen => UnreadLimit::LastSeen,
                Unread::Given => UnreadLimit::Given(terms.of(plan.other)),
                Unread::Refused => UnreadLimit::Refused,
            });
        }
        limiter = limiter.with_fallback(fallback).expect("there is a share");
    }
    let limiter = if shadow { limiter.with_shadow() } else { limiter };
    match plan.terms.panics {
        true => limiter.with_observer("limiter", Panics::new(place)),
        false => limiter,
    }
}

/// An observer that panics on every second event.
struct Panics<P> {
    place: P,
    events: AtomicUsize,
}

impl<P: Place> Panics<P> {
    fn new(place: &P) -> Self {
        Panics { place: place.clone(), events: AtomicUsize::new(0) }
    }

    fn see(&self) {
        if self.events.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            self.place.saw(Seen::ObserverPanicked);
            // Panics without a message from the panic hook.
            std::panic::resume_unwind(Box::new("an observer panics"));
        }
    }
}

impl<P: Place> Observer for Panics<P> {
    fn decision(&self, _: &DecisionEvent<'_>) {
        self.see();
    }

    fn lease(&self, _: &LeaseEvent<'_>) {
        self.see();
    }

    fn now(&self) -> Option<Duration> {
        None
    }
}

/// Creates locks with a task of their own, according to the plan.
fn locks<P: Place>(plan: &Plan, place: &P) -> Locks<P::Store, P::Runtime> {
    let mut locks = locks_on(plan, place, place.store());
    if plan.terms.wake_ups {
        locks = locks.with_wake_ups();
        if let Some(poll_us) = plan.terms.poll_us {
            locks = locks.with_poll(micros(poll_us));
        }
    }
    if plan.terms.replicas {
        locks = place.replicated(locks);
    }
    match plan.terms.longest_us {
        Some(longest_us) => {
            locks.with_longest_hold(micros(longest_us)).expect("it outlasts a call")
        }
        None => locks,
    }
}

fn locks_on<P: Place>(plan: &Plan, place: &P, store: P::Store) -> Locks<P::Store, P::Runtime> {
    let locks = Locks::new(retrying(plan, place, store), micros(plan.lease_us));
    let locks = locks.expect("it outlasts a call");
    match plan.terms.panics {
        true => locks.with_observer("locks", Panics::new(place)),
        false => locks,
    }
}
