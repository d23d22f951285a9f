//! Tells an observer what callers are told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Limiter;
use super::call::Outcome;
use crate::error::Error;
use crate::observer::{DecisionEvent, Observer, Subject, bind, elapsed};

impl<S> Limiter<S> {
    /// Tells `observer` what each request's caller is told, including errors, whichever option answers. A call that
    /// waits is told at its end. `policy` names the limiter in the program's configuration; a limiter
    /// [`under`](Limiter::under) another limit has the same.
    ///
    /// Without an observer, a call costs one more branch. [`observer`](crate::observer) has an example.
    pub fn with_observer(mut self, policy: &str, observer: impl Observer) -> Self {
        let observer = bind(observer, Subject::Policy(policy));
        self.stages.observer = Some(Observed { policy: policy.into(), observer }.into());
        self
    }
}

/// The observer and the policy.
pub(super) struct Observed {
    policy: Box<str>,
    observer: Arc<dyn Observer>,
}

/// A call that is under way.
pub(super) struct Watch<'a> {
    observed: &'a Observed,
    waits: bool,
    begin: Option<Duration>,
}

impl Observed {
    /// Begins to watch a call. It is no wrapper of the call's future, which is large, and would be moved.
    pub(super) fn begin(&self, waits: bool) -> Watch<'_> {
        Watch { observed: self, waits, begin: self.observer.now() }
    }
}

impl Watch<'_> {
    /// Tells what the caller is told.
    pub(super) fn end<T: Outcome>(self, id: &str, costs: &[u64], answer: &mut Result<T, Error>) {
        let Watch { observed: Observed { policy, observer }, waits, begin } = self;
        let elapsed = elapsed(&**observer, begin);
        let tell = |cost, result| {
            observer.decision(&DecisionEvent { policy, id, cost, result, waits, elapsed });
        };
        match answer {
            Ok(outcome) => {
                let decided = costs.iter().zip(outcome.decisions());
                decided.for_each(|(&cost, decision)| tell(cost, Ok(&*decision)));
            }
            Err(error) => costs.iter().for_each(|&cost| tell(cost, Err(&*error))),
        }
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("policy", &self.policy).finish_non_exhaustive()
    }
}
