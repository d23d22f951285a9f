//! Reports decisions to an observer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockage_core::{Cost, Decision};

use crate::error::Error;
use crate::observer::{DecisionEvent, Observer, Subject, bind, elapsed};

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
    pub(super) fn new(policy: &str, observer: impl Observer) -> Self {
        let observer = bind(observer, Subject::Policy(policy));
        Observed { policy: policy.into(), observer }
    }

    /// Begins to watch a call. It is no wrapper of the call's future, which is large, and would be moved.
    pub(super) fn begin(&self, waits: bool) -> Watch<'_> {
        Watch { observed: self, waits, begin: self.observer.now() }
    }
}

impl Watch<'_> {
    /// Reports the answer that the caller gets.
    pub(super) fn end(self, id: &str, costs: &[Cost], answer: Result<&[Decision], &Error>) {
        let Watch { observed: Observed { policy, observer }, waits, begin } = self;
        let elapsed = elapsed(&**observer, begin);
        let report = |cost: &Cost, result| {
            let cost = cost.most();
            observer.decision(&DecisionEvent { policy, id, cost, result, waits, elapsed });
        };
        match answer {
            Ok(decisions) => {
                let decided = costs.iter().zip(decisions);
                decided.for_each(|(cost, decision)| report(cost, Ok(decision)));
            }
            Err(error) => costs.iter().for_each(|cost| report(cost, Err(error))),
        }
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("policy", &self.policy).finish_non_exhaustive()
    }
}
