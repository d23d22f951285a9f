//! Tells an observer what callers are told.

use std::fmt;
use std::sync::Arc;

use super::Limiter;
use super::call::Outcome;
use crate::error::Error;
use crate::observer::{DecisionEvent, Observer, Subject, bind, elapsed};

impl<S> Limiter<S> {
    /// Tells `observer` of each request what its caller is told: whichever option answers it, and each error
    /// in a decision's place. Of calls that wait, that is the end. `policy` names the limiter in the program's
    /// configuration; a limiter [`under`](Limiter::under) another limit has the same.
    ///
    /// Without an observer, a call costs one branch more. [`observer`](crate::observer) has an example.
    pub fn with_observer(mut self, policy: &str, observer: impl Observer) -> Self {
        let observer = bind(observer, Subject::Policy(policy));
        self.stages.observer = Some(Observed { policy: policy.into(), observer }.into());
        self
    }
}

/// Who is told, under which policy.
pub(super) struct Observed {
    policy: Box<str>,
    observer: Arc<dyn Observer>,
}

impl Observed {
    /// Waits for what a caller is told, and tells it.
    pub(super) async fn watch<T: Outcome>(
        &self,
        id: &str,
        costs: &[u64],
        waits: bool,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Observed { policy, observer } = self;
        let begin = observer.now();
        let mut answer = answer.await;
        let elapsed = elapsed(&**observer, begin);
        let tell = |cost, result| {
            observer.decision(&DecisionEvent { policy, id, cost, result, waits, elapsed });
        };
        match &mut answer {
            Ok(outcome) => {
                let decided = costs.iter().zip(outcome.decisions());
                decided.for_each(|(&cost, decision)| tell(cost, Ok(&*decision)));
            }
            Err(error) => costs.iter().for_each(|&cost| tell(cost, Err(&*error))),
        }
        answer
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("policy", &self.policy).finish_non_exhaustive()
    }
}
