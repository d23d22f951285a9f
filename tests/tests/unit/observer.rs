//! The events of an observer: all answers to callers, all changes of leases, and each call of a store.

mod decisions;
mod leases;
mod panics;
mod store_calls;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockage::observer::{
    CallResult, DecisionEvent, ErrorKind, LeaseChange, LeaseEvent, LeaseKind, Observer, RulesEvent,
    StoreCallEvent, Subject, bind,
};
use lockage::{Decision, Limiter};
use lockage_memory::MemoryStore;
use lockage_memory::testing::{FailingStore, TokioClock};
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

type Memory = FailingStore<MemoryStore<TokioClock>>;

/// Events of rules pass through each observer around another.
#[test]
fn events_of_rules_are_passed_on() {
    #[derive(Default)]
    struct Refused(Mutex<Vec<String>>);
    impl Observer for Refused {
        fn rules(&self, event: &RulesEvent<'_>) {
            self.0.lock().unwrap().push(format!("{event:?}"));
        }
    }
    let refused = Arc::new(Refused::default());
    let observers: Vec<Arc<dyn Observer>> = vec![Arc::clone(&refused) as _, refused.clone()];
    let event = RulesEvent::Blocked { rule: "exports" };
    bind(observers, Subject::Policy("api")).rules(&event);
    assert_eq!(*refused.0.lock().unwrap(), [format!("{event:?}"), format!("{event:?}")]);
}

/// The events, in order, by tokio's time.
#[derive(Clone)]
struct Log {
    begin: Instant,
    told: Arc<Mutex<Vec<Told>>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Told {
    Decided {
        id: String,
        cost: u64,
        what: Result<Decision, ErrorKind>,
        waits: bool,
        took: Duration,
    },
    Called {
        command: &'static str,
        commands: usize,
        how: How,
        took: Duration,
    },
    Lease {
        name: String,
        kind: LeaseKind,
        permits: u64,
        change: Change,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Done,
    Failed(ErrorKind),
    TimedOut,
    Dropped,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Acquired(Duration),
    Busy(Duration),
    Failed(ErrorKind),
    Renewed,
    RenewalFailed,
    Lost(Duration),
    Released(Duration),
}

impl Log {
    fn new() -> Self {
        Log { begin: Instant::now(), told: Arc::default() }
    }

    fn tell(&self, told: Told) {
        self.told.lock().unwrap().push(told);
    }

    /// Returns the events since the last time.
    fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

impl Observer for Log {
    fn decision(&self, event: &DecisionEvent<'_>) {
        assert_eq!(event.policy, "login");
        let &DecisionEvent { id, cost, waits, elapsed, .. } = event;
        let what = event.result.cloned().map_err(|error| error.kind());
        self.tell(Told::Decided { id: id.into(), cost, what, waits, took: elapsed.unwrap() });
    }

    fn store_call(&self, event: &StoreCallEvent<'_>) {
        assert_eq!(event.store, "memory");
        let how = match event.result {
            CallResult::Done => How::Done,
            CallResult::Failed(error) => How::Failed(error.kind()),
            CallResult::TimedOut => How::TimedOut,
            CallResult::Dropped => How::Dropped,
            other => panic!("{other:?}"),
        };
        let &StoreCallEvent { command, commands, elapsed, .. } = event;
        self.tell(Told::Called { command, commands, how, took: elapsed.unwrap() });
    }

    fn lease(&self, event: &LeaseEvent<'_>) {
        assert_eq!(event.family, "invoices");
        let change = match event.change {
            LeaseChange::Acquired { waited } => Change::Acquired(waited),
            LeaseChange::Busy { waited } => Change::Busy(waited),
            LeaseChange::Failed { error, .. } => Change::Failed(error.kind()),
            LeaseChange::Renewed => Change::Renewed,
            LeaseChange::RenewalFailed { .. } => Change::RenewalFailed,
            LeaseChange::Lost { held, .. } => Change::Lost(held),
            LeaseChange::Released { held } => Change::Released(held),
            other => panic!("{other:?}"),
        };
        let (kind, permits) = (event.kind, event.permits);
        self.tell(Told::Lease { name: event.key.as_str().into(), kind, permits, change });
    }

    fn now(&self) -> Option<Duration> {
        Some(self.begin.elapsed())
    }
}

/// Counts decisions of one policy; of no policy unless it is bound to one.
#[derive(Default)]
struct Bound {
    policy: Option<String>,
    bound: Mutex<Vec<Arc<Bound>>>,
    decisions: Mutex<u64>,
}

impl Observer for Bound {
    fn decision(&self, event: &DecisionEvent<'_>) {
        assert_eq!(self.policy.as_deref(), Some(event.policy), "it is told of its own policy");
        *self.decisions.lock().unwrap() += 1;
    }

    fn bound_to(&self, subject: Subject<'_>) -> Option<Arc<dyn Observer>> {
        let Subject::Policy(policy) = subject else { panic!("{subject:?}") };
        let bound = Arc::new(Bound { policy: Some(policy.into()), ..Bound::default() });
        self.bound.lock().unwrap().push(Arc::clone(&bound));
        Some(bound)
    }
}

/// Several observers get the same events, and each can bind itself to the policy, once for each limiter.
#[tokio::test(start_paused = true)]
async fn several_observers_each_get_events_through_their_binding() {
    let (log, bound) = (Log::new(), Arc::new(Bound::default()));
    let both: Vec<Arc<dyn Observer>> = vec![bound.clone(), Arc::new(log.clone())];
    let limit = "fixed-window 1/min".parse().unwrap();
    let limiter = Limiter::new(MemoryStore::new(), limit).with_observer("login", both);
    for _ in 0..3 {
        let _ = limiter.clone().try_acquire("id", 1).await.unwrap();
    }
    let bound = bound.bound.lock().unwrap();
    assert_eq!(bound.len(), 1);
    assert_eq!((*bound[0].decisions.lock().unwrap(), log.take().len()), (3, 3));
}
