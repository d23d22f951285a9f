//! An observer whose panics are contained.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::{DecisionEvent, LeaseEvent, Observer, RulesEvent, StoreCallEvent};

/// An observer that is bound to its subject, and whose panics cost it one event each. The panic hook has reported them.
///
/// It is called where a panic would end a task that serves others, or leave state half changed.
pub(super) struct Isolated(pub(super) Arc<dyn Observer>);

impl Isolated {
    fn call<T>(&self, call: impl FnOnce(&dyn Observer) -> T) -> Option<T> {
        // Nothing here depends on the state that the observer may have left half changed.
        catch_unwind(AssertUnwindSafe(|| call(&*self.0))).ok()
    }
}

impl Observer for Isolated {
    fn decision(&self, event: &DecisionEvent<'_>) {
        self.call(|observer| observer.decision(event));
    }

    fn store_call(&self, event: &StoreCallEvent<'_>) {
        self.call(|observer| observer.store_call(event));
    }

    fn lease(&self, event: &LeaseEvent<'_>) {
        self.call(|observer| observer.lease(event));
    }

    fn rules(&self, event: &RulesEvent<'_>) {
        self.call(|observer| observer.rules(event));
    }

    fn now(&self) -> Option<Duration> {
        self.call(|observer| observer.now()).flatten()
    }
}
