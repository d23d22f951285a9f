//! Events of limiters, locks and stores, for logs and metrics.
//!
//! An [`Observer`] receives events of decisions, of calls of the store, and of leases. This crate depends on no library
//! for logs or metrics: `lockage-telemetry` has observers for `tracing`, `metrics` and `opentelemetry`.
//!
//! | event | reported by | named by |
//! |---|---|---|
//! | [`DecisionEvent`] | [`Limiter::with_observer`](crate::Limiter::with_observer) | a policy |
//! | [`LeaseEvent`] | [`Locks::with_observer`](crate::Locks::with_observer) | a family |
//! | [`StoreCallEvent`] | [`ObservedStore`] | a store |
//! | [`RulesEvent`] | `LiveRules` and `RuleLimiter` of `lockage-rules` | a file, a rule |
//!
//! Names come from the program's configuration, so there are few of them, and they may label metrics. Ids and keys come
//! from callers: never make labels of them.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use lockage::Limiter;
//! use lockage::observer::{DecisionEvent, Observer};
//! # use lockage_memory::MemoryStore;
//!
//! #[derive(Default)]
//! struct Denials(AtomicU64);
//!
//! impl Observer for Denials {
//!     fn decision(&self, event: &DecisionEvent<'_>) {
//!         if event.result.is_ok_and(|decision| !decision.is_allowed()) {
//!             self.0.fetch_add(1, Ordering::Relaxed);
//!         }
//!     }
//! }
//!
//! # pollster::block_on(async {
//! let denials = Arc::new(Denials::default());
//! let limiter = Limiter::new(MemoryStore::new(), "fixed-window 1/min".parse()?)
//!     .with_prefix("login")?
//!     .with_observer("login", denials.clone());
//! for _ in 0..3 {
//!     let _ = limiter.try_acquire("user:42", 1).await?;
//! }
//! assert_eq!(denials.0.load(Ordering::Relaxed), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod isolated;
mod store;

use std::sync::Arc;
use std::time::Duration;

use lockage_core::Decision;

pub use store::ObservedStore;

use isolated::Isolated;

pub use crate::error::ErrorKind;
use crate::error::{Error, Loss, StoreError};
use crate::key::Key;

/// Receives the events of limiters, locks and stores. By default, each method does nothing.
///
/// A method is called before the caller has its answer, and for leases while the state of their [`Locks`] is locked. So
/// it must return soon, and make no call of the limiter, lock or store of its event.
///
/// A panic of a method costs its observer this event, and nothing else: the panic hook reports it, and the call, the
/// lease and other observers go on. A panic of [`now`](Self::now) leaves the event without a duration.
///
/// `Vec<Arc<dyn Observer>>` combines several observers.
///
/// [`Locks`]: crate::Locks
pub trait Observer: Send + Sync + 'static {
    /// A request got its decision, or an error in its place.
    fn decision(&self, event: &DecisionEvent<'_>) {
        let _ = event;
    }

    /// A call of a store has ended.
    fn store_call(&self, event: &StoreCallEvent<'_>) {
        let _ = event;
    }

    /// A lease was acquired, renewed, lost or released, or was not acquired.
    fn lease(&self, event: &LeaseEvent<'_>) {
        let _ = event;
    }

    /// Rules in a file came into force or were refused, or refused a request without a decision.
    fn rules(&self, event: &RulesEvent<'_>) {
        let _ = event;
    }

    /// Returns the time since some fixed moment, which measures decisions and calls of stores; `None` if they are not
    /// measured. It is read twice for each. The default is the system's monotonic clock, and `None` on
    /// `wasm32-unknown-unknown`, which has none.
    fn now(&self) -> Option<Duration> {
        system_time()
    }

    /// Returns an observer of this subject alone, which can look up once everything that it needs for that; `None` for
    /// this observer. It is called when a limiter, locks or a store get their observer.
    fn bound_to(&self, subject: Subject<'_>) -> Option<Arc<dyn Observer>> {
        let _ = subject;
        None
    }
}

/// The named subject of an observer's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Subject<'a> {
    /// The limiter of this policy.
    Policy(&'a str),
    /// The locks of this family.
    Family(&'a str),
    /// The store of this name.
    Store(&'a str),
    /// The rules of this file, or of any.
    Rules(Option<&'a str>),
}

/// A request got its decision, or an error in its place. There is one event for each cost that a call charges, of any
/// origin, with its caller's result: in [shadow mode](crate::Limiter::with_shadow), as allowed.
///
/// A peek is not a request. A call that is dropped before its end has no event.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DecisionEvent<'a> {
    /// The policy that the limiter was given with its observer.
    pub policy: &'a str,
    /// The requested id: never a label.
    pub id: &'a str,
    /// The requested cost; of one by part, the largest for any part.
    pub cost: u64,
    /// The caller's answer. [`Decision::origin`] is the place where it was made.
    pub result: Result<&'a Decision, &'a Error>,
    /// Whether the caller waited for it: [`Limiter::acquire_within`](crate::Limiter::acquire_within).
    pub waits: bool,
    /// The duration of the call, including its wait, if the observer measures time.
    pub elapsed: Option<Duration>,
}

/// A call of a store has ended. A [`RetryStore`](crate::RetryStore) around it makes several for one of its own.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StoreCallEvent<'a> {
    /// The name that the store was given with its observer.
    pub store: &'a str,
    /// The name of a script, such as `limiter_acquire`, or `listen`.
    pub command: &'static str,
    /// The number of commands: more than one in a batch.
    pub commands: usize,
    /// How it ended.
    pub result: CallResult<'a>,
    /// Its duration, if the observer measures time.
    pub elapsed: Option<Duration>,
}

/// How a call of a store ended.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum CallResult<'a> {
    /// It ran.
    Done,
    /// It did not run, or may have run. For a batch, the first error.
    Failed(&'a StoreError),
    /// It was dropped without an answer, at its timeout. It may have run.
    TimedOut,
    /// It was dropped before its timeout, by a caller that no longer wants the answer. It may have run.
    Dropped,
}

/// A change of a lease, or of an attempt to get one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LeaseEvent<'a> {
    /// The family that the locks were given with their observer.
    pub family: &'a str,
    /// The kind of the held thing.
    pub kind: LeaseKind,
    /// The key of the held thing: never a label.
    pub key: &'a Key,
    /// The number of held permits of a semaphore; otherwise 1.
    pub permits: u64,
    /// The change.
    pub change: LeaseChange<'a>,
}

/// The kind of a thing that is held under a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseKind {
    /// A lock.
    Lock,
    /// Permits of a semaphore.
    Semaphore,
    /// The reading side of a read-write lock.
    Read,
    /// The writing side of a read-write lock.
    Write,
}

/// A change of a lease. Each acquired lease is either lost or released, once.
///
/// Times are measured by the [`Runtime`](crate::runtime::Runtime) of the locks. A call that is dropped while it
/// waits has no event.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum LeaseChange<'a> {
    /// It was acquired.
    Acquired {
        /// The time from the call until it was acquired.
        waited: Duration,
    },
    /// It was not acquired: others hold it.
    Busy {
        /// The time from the call until its answer.
        waited: Duration,
    },
    /// It was not acquired because of this error.
    Failed {
        /// The time from the call until its answer.
        waited: Duration,
        /// The caller's error.
        error: &'a Error,
    },
    /// It was renewed.
    Renewed,
    /// A renewal failed. It is repeated until the lease ends.
    RenewalFailed {
        /// Why.
        error: &'a StoreError,
    },
    /// It was lost.
    Lost {
        /// How long it was held.
        held: Duration,
        /// Why.
        loss: Loss,
    },
    /// Its guard was released, or dropped.
    Released {
        /// How long it was held.
        held: Duration,
    },
}

/// An event of rules in a file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RulesEvent<'a> {
    /// The rules of a file are in force: at first, or in place of others.
    InForce {
        /// The file.
        file: &'a str,
        /// The number of its rules.
        rules: usize,
    },
    /// A file cannot be read, or has mistakes. The rules in force stay. A content is refused once.
    Refused {
        /// The file.
        file: &'a str,
        /// Why.
        error: &'a (dyn std::error::Error + 'static),
    },
    /// A file is again the one whose rules are in force.
    Recovered {
        /// The file.
        file: &'a str,
    },
    /// A rule without a limit refused a request.
    Blocked {
        /// The rule.
        rule: &'a str,
    },
    /// A request was refused, since too many are served for its priority.
    Shed {
        /// The priority.
        priority: &'static str,
    },
}

impl LeaseKind {
    /// Returns its name, as in labels: `lock`, `semaphore`, `read` or `write`.
    pub fn as_str(self) -> &'static str {
        match self {
            LeaseKind::Lock => "lock",
            LeaseKind::Semaphore => "semaphore",
            LeaseKind::Read => "read",
            LeaseKind::Write => "write",
        }
    }
}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn decision(&self, event: &DecisionEvent<'_>) {
        (**self).decision(event);
    }

    fn store_call(&self, event: &StoreCallEvent<'_>) {
        (**self).store_call(event);
    }

    fn lease(&self, event: &LeaseEvent<'_>) {
        (**self).lease(event);
    }

    fn rules(&self, event: &RulesEvent<'_>) {
        (**self).rules(event);
    }

    fn now(&self) -> Option<Duration> {
        (**self).now()
    }

    fn bound_to(&self, subject: Subject<'_>) -> Option<Arc<dyn Observer>> {
        (**self).bound_to(subject)
    }
}

/// Reports events to all of them, in order. The first one that measures time does so for all.
impl Observer for Vec<Arc<dyn Observer>> {
    fn decision(&self, event: &DecisionEvent<'_>) {
        self.iter().for_each(|observer| observer.decision(event));
    }

    fn store_call(&self, event: &StoreCallEvent<'_>) {
        self.iter().for_each(|observer| observer.store_call(event));
    }

    fn lease(&self, event: &LeaseEvent<'_>) {
        self.iter().for_each(|observer| observer.lease(event));
    }

    fn rules(&self, event: &RulesEvent<'_>) {
        self.iter().for_each(|observer| observer.rules(event));
    }

    fn now(&self) -> Option<Duration> {
        self.iter().find_map(|observer| observer.now())
    }

    fn bound_to(&self, subject: Subject<'_>) -> Option<Arc<dyn Observer>> {
        let bound = |it: &Arc<dyn Observer>| bind(Arc::clone(it), subject);
        Some(Arc::new(self.iter().map(bound).collect::<Vec<_>>()))
    }
}

/// Returns the observer that is bound to this subject, for packages that report its events. Its panics are contained.
pub fn bind(observer: impl Observer, subject: Subject<'_>) -> Arc<dyn Observer> {
    Arc::new(Isolated(observer.bound_to(subject).unwrap_or_else(|| Arc::new(observer))))
}

/// Returns the time since `begin`, if both are measured.
pub(crate) fn elapsed(observer: &dyn Observer, begin: Option<Duration>) -> Option<Duration> {
    begin.and_then(|begin| Some(observer.now()?.saturating_sub(begin)))
}

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
fn system_time() -> Option<Duration> {
    Some(crate::runtime::since_start())
}

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
fn system_time() -> Option<Duration> {
    None
}
