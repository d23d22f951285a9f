//! What a call passes through on its way to the store and back.
//!
//! The documentation of the module above has the order of the stages, and why.

use std::sync::Arc;

use super::Limiter;
use super::call::Call;
use super::circuit_breaker::{Breaker, CallReport};
use super::coalesce::Coalescer;
use super::denials::Denials;
use super::fallback::StandIn;
use super::idempotency::Idempotency;
use super::limit_source::LimitSource;
use super::observed::Observed;
use super::permits::Permits;
use super::shadow::Shadow;
use crate::error::Error;
use crate::key::Key;
use crate::store::Store;

/// The options of a limiter. Clones share what they know.
#[derive(Clone, Default)]
pub(super) struct Stages {
    pub(super) observer: Option<Arc<Observed>>,
    pub(super) shadow: Option<Arc<Shadow>>,
    pub(super) fallback: Option<Arc<StandIn>>,
    pub(super) prefetch: Option<Arc<Permits>>,
    pub(super) deny_cache: Option<Arc<Denials>>,
    pub(super) circuit_breaker: Option<Arc<Breaker>>,
    pub(super) idempotency: Option<Arc<Idempotency>>,
    pub(super) coalescing: Option<Arc<Coalescer>>,
}

impl Stages {
    /// Whether a call goes straight to the store.
    fn are_none(&self) -> bool {
        matches!(
            self,
            Stages {
                observer: _,
                shadow: None,
                fallback: None,
                prefetch: None,
                deny_cache: None,
                circuit_breaker: None,
                idempotency: None,
                coalescing: None,
            }
        )
    }

    async fn run<C: Call>(
        &self,
        store: impl Next,
        target: &Target<'_>,
        call: &C,
    ) -> Result<C::Outcome, Error> {
        // From the store outwards: the last one here is the first that a call meets.
        let chain = Link { stage: &self.coalescing, next: store };
        let chain = Link { stage: &self.idempotency, next: chain };
        let chain = Link { stage: &self.circuit_breaker, next: chain };
        let chain = Link { stage: &self.deny_cache, next: chain };
        let chain = Link { stage: &self.prefetch, next: chain };
        let chain = Link { stage: &self.fallback, next: chain };
        let chain = Link { stage: &self.shadow, next: chain };
        chain.run(target, call).await
    }
}

/// Where a call goes, and under which limit.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) id: &'a str,
    pub(super) key: &'a Key,
    pub(super) source: &'a LimitSource,
    /// What is told whether the store answered.
    pub(super) report: Option<CallReport<'a>>,
}

/// One option: answers a call, or hands it on and sees what comes back.
pub(super) trait Stage: Sync {
    fn run<C: Call, N: Next>(
        &self,
        target: &Target<'_>,
        call: &C,
        next: &N,
    ) -> impl Future<Output = Result<C::Outcome, Error>> + Send;
}

/// What comes after a stage.
pub(super) trait Next: Sync {
    fn run<C: Call>(
        &self,
        target: &Target<'_>,
        call: &C,
    ) -> impl Future<Output = Result<C::Outcome, Error>> + Send;
}

impl<S: Store> Limiter<S> {
    /// Runs a call on the key of `id` through all stages, and tells the observer what it comes to.
    pub(super) fn run<C: Call>(
        &self,
        id: &str,
        call: &C,
    ) -> impl Future<Output = Result<C::Outcome, Error>> + Send {
        let observer = self.stages.observer.as_deref();
        self.run_observed(id, call, observer.filter(|_| call.rules().charges), false)
    }

    /// Runs a call of a caller whose turn it is in its line, which reports the last one to the observer itself.
    pub(super) fn run_in_line<C: Call>(
        &self,
        id: &str,
        call: &C,
    ) -> impl Future<Output = Result<C::Outcome, Error>> + Send {
        self.run_observed(id, call, None, true)
    }

    async fn run_observed<C: Call>(
        &self,
        id: &str,
        call: &C,
        observer: Option<&Observed>,
        is_in_line: bool,
    ) -> Result<C::Outcome, Error> {
        let watch = observer.map(|observer| observer.begin(false));
        let mut answer = match Key::under(&self.prefix, id) {
            Ok(key) => {
                let target = Target { id, key: &key, source: &self.source, report: None };
                let held_back = if is_in_line { None } else { self.held_back(&key, call) };
                let answer = match (held_back, self.stages.are_none()) {
                    (Some(denied), _) => Ok(denied),
                    (None, true) => call.send(&self.store, &target).await,
                    (None, false) => self.stages.run(ToStore(&self.store), &target, call).await,
                };
                if call.rules().change.is_some() {
                    self.lines.changed(&key);
                }
                answer
            }
            Err(error) => Err(error.into()),
        };
        if let Some(watch) = watch {
            watch.end(id, call.costs(), &mut answer);
        }
        answer
    }
}

/// A stage, if the limiter has it, before the rest.
struct Link<'a, T, N> {
    stage: &'a Option<Arc<T>>,
    next: N,
}

impl<T: Stage + Send, N: Next> Next for Link<'_, T, N> {
    async fn run<C: Call>(&self, target: &Target<'_>, call: &C) -> Result<C::Outcome, Error> {
        match self.stage {
            None => self.next.run(target, call).await,
            Some(stage) => stage.run(target, call, &InBox(&self.next)).await,
        }
    }
}

/// What comes after a stage, in a box: else the future of every call would have room for all of it, and be moved with it.
/// An answer of the stage itself takes no box.
struct InBox<'a, N>(&'a N);

impl<N: Next> Next for InBox<'_, N> {
    async fn run<C: Call>(&self, target: &Target<'_>, call: &C) -> Result<C::Outcome, Error> {
        Box::pin(self.0.run(target, call)).await
    }
}

/// The store, behind all stages.
struct ToStore<'a, S>(&'a S);

impl<S: Store> Next for ToStore<'_, S> {
    async fn run<C: Call>(&self, target: &Target<'_>, call: &C) -> Result<C::Outcome, Error> {
        let outcome = call.send(self.0, target).await;
        if let Some(report) = &target.report {
            report.tell(&outcome);
        }
        outcome
    }
}
