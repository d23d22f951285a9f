//! A limit on trial: requests are counted and not limited.

use std::fmt;
use std::time::Duration;

use lockage_core::{Cost, Decision, Origin, Verdict};

use super::ask::{Answer, Ask};
use super::fallback::unused;
use crate::error::Error;
use crate::sync::{Mutex, MutexGuard, lock};

/// Statistics of a limiter in shadow mode. Peeks are not counted, unless they failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShadowStats {
    /// Requests that were admitted.
    pub allowed: u64,
    /// Requests that would have been denied.
    pub would_deny: u64,
    /// Requests that cost more than the capacity.
    pub never: u64,
    /// Requests that got no decision.
    pub failed: u64,
}

/// The statistics of one limiter and its clones in shadow mode, and the observer.
pub(super) struct Shadow {
    observer: Observer,
    stats: Mutex<ShadowStats>,
}

type Observer = Box<dyn Fn(&str, Result<&Decision, &Error>) + Send + Sync>;

impl Shadow {
    pub(super) fn new(
        observer: impl Fn(&str, Result<&Decision, &Error>) + Send + Sync + 'static,
    ) -> Self {
        Shadow { observer: Box::new(observer), stats: Mutex::default() }
    }

    /// Admits all requests, whatever their decisions, and reports those that the limit would have denied.
    pub(super) fn admit(
        &self,
        ask: &Ask<'_>,
        answer: Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.failed(ask, error),
        };
        for decision in answer.decisions_mut() {
            if ask.mode.charges() {
                self.count(decision.verdict);
            }
            let_through(decision);
            if ask.mode.charges() && decision.would_deny() {
                (self.observer)(ask.id, Ok(decision));
            }
        }
        Ok(answer)
    }

    fn count(&self, verdict: Verdict) {
        let mut stats = self.stats();
        match verdict {
            Verdict::Allowed => stats.allowed += 1,
            Verdict::Denied { .. } => stats.would_deny += 1,
            Verdict::Never => stats.never += 1,
        }
    }

    fn failed(&self, ask: &Ask<'_>, error: Error) -> Result<Answer, Error> {
        self.stats().failed += ask.costs.len() as u64;
        (self.observer)(ask.id, Err(&error));
        Ok(Answer::of(ask, ask.costs.iter().map(|cost| undecided(ask, cost))))
    }

    pub(super) fn stats(&self) -> MutexGuard<'_, ShadowStats> {
        lock(&self.stats)
    }
}

fn let_through(decision: &mut Decision) {
    decision.turn_after = Duration::ZERO;
    if !decision.is_allowed() {
        decision.shadow = Some(decision.verdict);
        decision.verdict = Verdict::Allowed;
    }
}

/// Returns the decision on a key that was never used, whatever the cost.
fn undecided(ask: &Ask<'_>, cost: &Cost) -> Decision {
    let unknown = || Decision::new(Verdict::Allowed, 0, 0, Duration::ZERO);
    let source = ask.source;
    let limit = source.known(ask.key).and_then(|known| source.bounded(known.limit).ok());
    // A stored limit may have other parts than the request has costs.
    let of_limit = limit.and_then(|limit| unused(limit, cost, source.now()).ok());
    let mut decision = of_limit.unwrap_or_else(unknown);
    (decision.verdict, decision.origin) = (Verdict::Allowed, Origin::Fallback);
    decision
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow").field("stats", &*self.stats()).finish_non_exhaustive()
    }
}
