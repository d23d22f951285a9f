//! The metrics, for any metrics library.
//!
//! The instruments of a decision are looked up once, when a limiter gets its observer; a series exists from its first
//! event on.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use lockage::observer::{
    DecisionEvent, LeaseChange, LeaseEvent, LeaseKind, Observer, RulesEvent, StoreCallEvent,
    Subject,
};

use crate::availability::{Availability, Shown};
use crate::labels::{self, RESULTS, SOURCES};
use crate::names::{self, Metric};
use crate::system_time;

/// A label and its word.
pub(crate) type Label<'a> = (&'static str, &'a str);

/// A library of metrics.
pub(crate) trait Backend: Send + Sync + 'static {
    type Counter: Send + Sync;
    /// A counter that goes up and down by increments.
    type UpDown: Send + Sync;
    type Gauge: Send + Sync;
    type Histogram: Send + Sync;

    fn counter(&self, metric: &Metric, labels: &[Label<'_>]) -> Self::Counter;
    fn up_down(&self, metric: &Metric, labels: &[Label<'_>]) -> Self::UpDown;
    fn gauge(&self, metric: &Metric, labels: &[Label<'_>]) -> Self::Gauge;
    /// Returns a histogram of seconds.
    fn histogram(&self, metric: &Metric, labels: &[Label<'_>]) -> Self::Histogram;

    fn count(counter: &Self::Counter, more: u64);
    fn shift(up_down: &Self::UpDown, by: i64);
    fn set(gauge: &Self::Gauge, value: u32);
    fn record(histogram: &Self::Histogram, time: Duration);
}

/// The observer of all subjects. Each subject has one that is bound to it.
pub(crate) struct Meters<B: Backend> {
    backend: Arc<B>,
    measures: bool,
    policies: ByName<Policy<B>>,
    families: ByName<Family<B>>,
    stores: ByName<Store<B>>,
    files: ByName<RulesFile<B>>,
    blocked: ByName<B::Counter>,
    shed: ByName<B::Counter>,
}

impl<B: Backend> Meters<B> {
    pub(crate) fn new(backend: B, measures: bool) -> Self {
        Meters {
            backend: Arc::new(backend),
            measures,
            policies: ByName::default(),
            families: ByName::default(),
            stores: ByName::default(),
            files: ByName::default(),
            blocked: ByName::default(),
            shed: ByName::default(),
        }
    }

    fn policy(&self, name: &str) -> Arc<Policy<B>> {
        self.policies.get(name, || Policy {
            backend: Arc::clone(&self.backend),
            name: name.into(),
            measures: self.measures,
            requests: Default::default(),
            durations: Default::default(),
            retry_after: OnceLock::new(),
        })
    }

    fn family(&self, name: &str) -> Arc<Family<B>> {
        self.families.get(name, || Family {
            backend: Arc::clone(&self.backend),
            name: name.into(),
            acquisitions: ByName::default(),
            losses: ByName::default(),
            waited: OnceLock::new(),
            held: OnceLock::new(),
            active: OnceLock::new(),
        })
    }

    fn store(&self, name: &str) -> Arc<Store<B>> {
        self.stores.get(name, || {
            let available = self.backend.gauge(&names::AVAILABLE, &[("store", name)]);
            B::set(&available, 1);
            Store {
                backend: Arc::clone(&self.backend),
                name: name.into(),
                measures: self.measures,
                durations: ByName::default(),
                availability: Availability::default(),
                available,
            }
        })
    }
}

impl<B: Backend> Observer for Meters<B> {
    fn decision(&self, event: &DecisionEvent<'_>) {
        self.policy(event.policy).decision(event);
    }

    fn store_call(&self, event: &StoreCallEvent<'_>) {
        self.store(event.store).store_call(event);
    }

    fn lease(&self, event: &LeaseEvent<'_>) {
        self.family(event.family).lease(event);
    }

    fn rules(&self, event: &RulesEvent<'_>) {
        let reload = |file: &str, result: &'static str| {
            let labels = [("file", file), ("result", result)];
            let RulesFile { reloads, valid } = &*self.files.get(file, || RulesFile {
                reloads: ByName::default(),
                valid: self.backend.gauge(&names::RULES_VALID, &labels[..1]),
            });
            B::set(valid, u32::from(result != "refused"));
            let counter = || self.backend.counter(&names::RELOADS, &labels);
            B::count(&reloads.get(result, counter), 1);
        };
        match *event {
            RulesEvent::InForce { file, .. } => reload(file, "in_force"),
            RulesEvent::Refused { file, .. } => reload(file, "refused"),
            RulesEvent::Recovered { file } => reload(file, "recovered"),
            RulesEvent::Blocked { rule } => {
                let new = || self.backend.counter(&names::RULES_BLOCKED, &[("rule", rule)]);
                B::count(&self.blocked.get(rule, new), 1);
            }
            RulesEvent::Shed { priority } => {
                let new = || self.backend.counter(&names::RULES_SHED, &[("priority", priority)]);
                B::count(&self.shed.get(priority, new), 1);
            }
            _ => {}
        }
    }

    fn now(&self) -> Option<Duration> {
        if self.measures { system_time() } else { None }
    }

    fn bound_to(&self, subject: Subject<'_>) -> Option<Arc<dyn Observer>> {
        match subject {
            Subject::Policy(name) => Some(self.policy(name)),
            Subject::Family(name) => Some(self.family(name)),
            Subject::Store(name) => Some(self.store(name)),
            _ => None,
        }
    }
}

/// One limiter's metrics.
struct Policy<B: Backend> {
    backend: Arc<B>,
    name: Box<str>,
    measures: bool,
    requests: [[OnceLock<Requests<B>>; RESULTS.len()]; SOURCES.len()],
    durations: [OnceLock<B::Histogram>; SOURCES.len()],
    retry_after: OnceLock<B::Histogram>,
}

struct Requests<B: Backend> {
    requests: B::Counter,
    cost: B::Counter,
}

impl<B: Backend> Observer for Policy<B> {
    fn decision(&self, event: &DecisionEvent<'_>) {
        let (policy, backend) = (("policy", &*self.name), &self.backend);
        let (result, source) = (labels::result(event), labels::source(event));
        let of_source = ("source", SOURCES[source]);
        let Requests { requests, cost } = self.requests[source][result].get_or_init(|| {
            let labels = [policy, ("result", RESULTS[result]), of_source];
            let requests = backend.counter(&names::REQUESTS, &labels);
            Requests { requests, cost: backend.counter(&names::COST, &labels) }
        });
        B::count(requests, 1);
        B::count(cost, event.cost);
        if let Some(elapsed) = event.elapsed.filter(|_| !event.waits) {
            let duration = self.durations[source]
                .get_or_init(|| backend.histogram(&names::DECISION_DURATION, &[policy, of_source]));
            B::record(duration, elapsed);
        }
        let denied = event.result.ok().filter(|_| self.measures);
        if let Some(told) = denied.and_then(|decision| decision.retry_after()) {
            let retry_after =
                self.retry_after.get_or_init(|| backend.histogram(&names::RETRY_AFTER, &[policy]));
            B::record(retry_after, told);
        }
    }

    fn now(&self) -> Option<Duration> {
        if self.measures { system_time() } else { None }
    }
}

/// The metrics of the locks of one family.
struct Family<B: Backend> {
    backend: Arc<B>,
    name: Box<str>,
    acquisitions: ByName<B::Counter>,
    losses: ByName<B::Counter>,
    waited: OnceLock<B::Histogram>,
    held: OnceLock<B::Histogram>,
    active: OnceLock<B::UpDown>,
}

impl<B: Backend> Observer for Family<B> {
    fn lease(&self, event: &LeaseEvent<'_>) {
        let (family, backend) = (("family", &*self.name), &self.backend);
        if let Some(result) = labels::acquisition(&event.change) {
            let labels = [family, ("result", result)];
            let new = || backend.counter(&names::ACQUISITIONS, &labels);
            B::count(&self.acquisitions.get(result, new), 1);
        }
        match event.change {
            LeaseChange::Acquired { waited } => {
                let new = || backend.histogram(&names::WAIT_DURATION, &[family]);
                B::record(self.waited.get_or_init(new), waited);
                self.hold(event, 1);
            }
            LeaseChange::Lost { held, loss } => {
                let labels = [family, ("result", labels::loss(&loss))];
                let new = || backend.counter(&names::LOSSES, &labels);
                B::count(&self.losses.get(labels[1].1, new), 1);
                self.end(event, held);
            }
            LeaseChange::Released { held } => self.end(event, held),
            _ => {}
        }
    }
}

impl<B: Backend> Family<B> {
    fn end(&self, event: &LeaseEvent<'_>, held: Duration) {
        let new = || self.backend.histogram(&names::HOLD_DURATION, &[("family", &*self.name)]);
        B::record(self.held.get_or_init(new), held);
        self.hold(event, -1);
    }

    /// Counts permits of semaphores, which bound the requests that are served at once.
    fn hold(&self, event: &LeaseEvent<'_>, sign: i64) {
        if event.kind == LeaseKind::Semaphore {
            let labels = [("policy", &*self.name)];
            let new = || self.backend.up_down(&names::ACTIVE_REQUEST_LEASES, &labels);
            B::shift(self.active.get_or_init(new), sign.saturating_mul(event.permits as i64));
        }
    }
}

/// The metrics of one file of rules.
struct RulesFile<B: Backend> {
    /// By result.
    reloads: ByName<B::Counter>,
    valid: B::Gauge,
}

/// One store's metrics.
struct Store<B: Backend> {
    backend: Arc<B>,
    name: Box<str>,
    measures: bool,
    /// By outcome, and then by command.
    durations: ByName<ByName<B::Histogram>>,
    availability: Availability,
    available: B::Gauge,
}

impl<B: Backend> Observer for Store<B> {
    fn store_call(&self, event: &StoreCallEvent<'_>) {
        if let Some(shown) = self.availability.see(&event.result) {
            B::set(&self.available, u32::from(shown == Shown::Back));
        }
        let Some(elapsed) = event.elapsed else { return };
        let outcome = labels::outcome(&event.result);
        let duration = self.durations.get(outcome, ByName::default).get(event.command, || {
            let labels = [("store", &*self.name), ("command", event.command), ("outcome", outcome)];
            self.backend.histogram(&names::OPERATION_DURATION, &labels)
        });
        B::record(&duration, elapsed);
    }

    fn now(&self) -> Option<Duration> {
        if self.measures { system_time() } else { None }
    }
}

/// Values by names, of which there are few.
struct ByName<T>(RwLock<HashMap<Box<str>, Arc<T>>>);

impl<T> Default for ByName<T> {
    fn default() -> Self {
        ByName(RwLock::default())
    }
}

impl<T> ByName<T> {
    fn get(&self, name: &str, new: impl FnOnce() -> T) -> Arc<T> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Arc::clone(known);
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(name.into()).or_insert_with(|| Arc::new(new())))
    }
}

/// Makes an observer of a type around another one.
macro_rules! observes {
    ($type:ty) => {
        impl Observer for $type {
            fn decision(&self, event: &DecisionEvent<'_>) {
                self.0.decision(event);
            }

            fn store_call(&self, event: &StoreCallEvent<'_>) {
                self.0.store_call(event);
            }

            fn lease(&self, event: &LeaseEvent<'_>) {
                self.0.lease(event);
            }

            fn rules(&self, event: &RulesEvent<'_>) {
                self.0.rules(event);
            }

            fn now(&self) -> Option<Duration> {
                self.0.now()
            }

            fn bound_to(&self, subject: Subject<'_>) -> Option<Arc<dyn Observer>> {
                self.0.bound_to(subject)
            }
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use observes;
