//! Decisions by rules, whatever the protocol: in time, or given back.

pub(crate) mod reserve;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue};
use lockage::limiter::RequestId;
use lockage::runtime::Tokio;
use lockage::{AnyStore, Decision, Error, RetryStore};
use lockage_rules::{
    Costs, LiveRules, Matched, Request, RuleDecision, RuleLimit, RuleLimiter, Rules,
};
use lockage_tower::{Fields, RuleFields};
use tokio_util::task::TaskTracker;

use crate::answered::answered;
use crate::error::Failure;

/// The store of all limits and locks.
pub(crate) type Storage = RetryStore<AnyStore, Tokio>;

/// The rules in force, and the limits that they name.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

struct Inner {
    rules: Option<Arc<LiveRules>>,
    none: Arc<Rules>,
    limiter: RuleLimiter<Storage>,
    fields: RuleFields,
    /// How long a request that names itself is remembered.
    remember: Duration,
    works: TaskTracker,
}

/// Requests that are decided together, and the limits that they bring.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) requests: Vec<Request<'static>>,
    pub(crate) own: Vec<Own>,
}

/// A limit that is in no rule.
pub(crate) struct Own {
    /// The place of the request whose rules it replaces.
    pub(crate) place: usize,
    /// The id; that of all values of the request without one.
    pub(crate) id: Option<String>,
    pub(crate) limit: RuleLimit,
    pub(crate) costs: Costs,
}

/// A change by an operator.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Block(Duration),
    Unblock,
    Reset,
}

/// A decision on requests, or a look at their limits.
pub(crate) struct Outcome<'a> {
    /// The limits that the requests meet. One that was not asked has no decision.
    pub(crate) met: Vec<(&'a Matched, Option<&'a Decision>)>,
    /// The index of the limit that binds.
    pub(crate) binding: Option<usize>,
    pub(crate) is_allowed: bool,
    rules: &'a Arc<Rules>,
    fields: &'a RuleFields,
}

impl Gate {
    pub(crate) fn new(
        rules: Option<Arc<LiveRules>>,
        limiter: RuleLimiter<Storage>,
        fields: Fields,
        remember: Duration,
        works: TaskTracker,
    ) -> Self {
        let none =
            Rules::parse("rules = []", lockage_rules::Format::Toml).expect("a file without rules");
        let (none, fields) = (Arc::new(none), RuleFields::new(fields));
        Gate(Arc::new(Inner { rules, none, limiter, fields, remember, works }))
    }

    /// Decides the limits that requests meet, all or none, and returns the answer that is made of the decision.
    pub(crate) async fn decide<T: Send + 'static>(
        &self,
        asked: Asked,
        deadline: Option<Instant>,
        answer: impl FnOnce(&Outcome<'_>) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let inner = Arc::clone(&self.0);
        let answer = answered(&self.0.works, deadline, |delivery| async move {
            let rules = inner.rules();
            match inner.limiter.decide(asked.matched(&rules)).await {
                Ok(RuleDecision { shed: Some(shed), .. }) => {
                    delivery.deliver(Err(shed.into())).await;
                }
                Ok(mut decided) => {
                    // It is decided once its caller can know.
                    drop(decided.take_place());
                    let met = decided.met.iter();
                    let met = met.map(|met| (&met.matched, met.decision.as_ref())).collect();
                    let (binding, is_allowed) = (decided.binding, decided.is_allowed());
                    let answer = answer(&inner.outcome(&rules, met, binding, is_allowed));
                    if !delivery.deliver(Ok(answer)).await && decided.is_allowed() {
                        inner.give_back(&decided).await;
                    }
                }
                Err(error) => _ = delivery.deliver(Err(Failure::from(error))).await,
            }
        });
        answer.await.ok_or(Failure::Late)?
    }

    /// Returns the answer that is made of what [`decide`](Self::decide) would decide now, each limit by itself.
    pub(crate) async fn peek<T>(
        &self,
        asked: &Asked,
        answer: impl FnOnce(&Outcome<'_>) -> T,
    ) -> Result<T, Failure> {
        let rules = self.0.rules();
        let matched = asked.matched(&rules);
        let mut decisions = Vec::new();
        for one in &matched {
            let limiter = self.0.limiter.limiter(one).map_err(Error::from)?;
            decisions.push(match (one.limit(), &one.costs) {
                (RuleLimit::Blocked, _) => None,
                (_, Costs::One(cost)) => Some(limiter.peek(&one.id, *cost).await?),
                (_, Costs::Parts(costs)) => Some(limiter.peek_parts(&one.id, &costs[..]).await?),
            });
        }
        let met: Vec<_> = matched.iter().zip(decisions.iter().map(Option::as_ref)).collect();
        let admits = |(one, decision): &(&Matched, Option<&Decision>)| {
            one.rule.shadow || decision.is_some_and(Decision::is_allowed)
        };
        let denied = met.iter().position(|met| !admits(met));
        let least = |at: &usize| met[*at].1.map_or(u64::MAX, |decision| decision.remaining);
        let binding = denied.or_else(|| (0..met.len()).min_by_key(least));
        Ok(answer(&self.0.outcome(&rules, met, binding, denied.is_none())))
    }

    /// Gives the costs of requests back, and returns the answer that is made of what is left.
    pub(crate) async fn refund<T>(
        &self,
        asked: &Asked,
        answer: impl FnOnce(&Outcome<'_>) -> T,
    ) -> Result<T, Failure> {
        let rules = self.0.rules();
        let matched = asked.matched(&rules);
        let mut after = Vec::new();
        for one in &matched {
            let cost = one.costs.cost().map_err(Error::from)?;
            if *one.limit() == RuleLimit::Blocked || cost.most() == 0 {
                after.push(None);
                continue;
            }
            after.push(Some(self.0.limiter.refund(one).await?.after));
        }
        let met = matched.iter().zip(after.iter().map(Option::as_ref)).collect();
        Ok(answer(&self.0.outcome(&rules, met, None, true)))
    }

    /// Changes each limit that requests meet, and returns their ids.
    pub(crate) async fn change(
        &self,
        asked: &Asked,
        change: Change,
    ) -> Result<Vec<String>, Failure> {
        let mut ids = Vec::new();
        for one in asked.matched(&self.0.rules()) {
            if *one.limit() == RuleLimit::Blocked {
                continue;
            }
            let limiter = self.0.limiter.limiter(&one).map_err(Error::from)?;
            match change {
                Change::Block(span) => _ = limiter.block(&one.id, span).await?,
                Change::Unblock => _ = limiter.unblock(&one.id).await?,
                Change::Reset => _ = limiter.reset(&one.id).await?,
            }
            ids.push(one.id);
        }
        Ok(ids)
    }

    /// Decides as [`decide`](Self::decide) does, once for each id of a request.
    pub(crate) async fn decide_once<T>(
        &self,
        asked: &Asked,
        request: RequestId,
        answer: impl FnOnce(&Outcome<'_>) -> T,
    ) -> Result<T, Failure> {
        let rules = self.0.rules();
        let matched = asked.matched(&rules);
        let mut met: Vec<_> = matched.iter().map(|one| (one, None)).collect();
        let blocks = |one: &Matched| *one.limit() == RuleLimit::Blocked && !one.rule.shadow;
        if let Some(at) = matched.iter().position(blocks) {
            return Ok(answer(&self.0.outcome(&rules, met, Some(at), false)));
        }
        let (mut places, mut limiters) = (Vec::new(), Vec::new());
        for (at, one) in matched.iter().enumerate().filter(|(_, one)| !one.rule.shadow) {
            if one.rule.overdraft {
                return Err(Failure::NotOnce(one.rule.name.clone()));
            }
            places.push(at);
            limiters.push((
                self.0.limiter.limiter(one).map_err(Error::from)?,
                one.costs.cost().map_err(Error::from)?,
            ));
        }
        let Some((first, _)) = limiters.first() else {
            return Ok(answer(&self.0.outcome(&rules, met, None, true)));
        };
        let requests = places.iter().zip(&limiters);
        let requests: Vec<_> = requests
            .map(|(at, (limiter, cost))| limiter.request(&matched[*at].id, *cost))
            .collect();
        let all = first.try_acquire_all_once(&requests, request, self.0.remember).await?;
        for (at, decision) in places.iter().zip(&all.decisions) {
            met[*at].1 = Some(decision);
        }
        let (binding, is_allowed) = (Some(places[all.binding]), all.is_allowed());
        Ok(answer(&self.0.outcome(&rules, met, binding, is_allowed)))
    }
}

impl Inner {
    /// Returns the rules in force.
    fn rules(&self) -> Arc<Rules> {
        match &self.rules {
            Some(live) => live.current(),
            None => Arc::clone(&self.none),
        }
    }

    fn outcome<'a>(
        &'a self,
        rules: &'a Arc<Rules>,
        met: Vec<(&'a Matched, Option<&'a Decision>)>,
        binding: Option<usize>,
        is_allowed: bool,
    ) -> Outcome<'a> {
        Outcome { met, binding, is_allowed, rules, fields: &self.fields }
    }

    /// Gives back a decision whose answer came too late.
    async fn give_back(&self, decided: &RuleDecision) {
        metrics::counter!("lockage.server.given_back").increment(1);
        if let Err(error) = self.limiter.give_back(decided).await {
            let rules: Vec<_> = decided.met.iter().map(|met| &*met.matched.rule.name).collect();
            tracing::warn!(?rules, %error, "a cost was charged, its answer came too late, and it stays charged");
        }
    }
}

/// Returns whole seconds, rounded up.
pub(crate) fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

impl Outcome<'_> {
    /// Returns the header fields that clients see.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> + use<> {
        let denied = self.binding.filter(|_| !self.is_allowed);
        self.fields.of(self.rules, &self.met, denied)
    }

    /// Returns whether a rule has a cost of this name.
    pub(crate) fn has_cost(&self, name: &str) -> bool {
        self.rules.costs().any(|other| other == name)
    }

    /// Returns whether this limit denies.
    pub(crate) fn denies(&self, at: usize) -> bool {
        let (matched, decision) = self.met[at];
        let is_blocked = *matched.limit() == RuleLimit::Blocked;
        !self.is_allowed
            && !matched.rule.shadow
            && decision.map_or(is_blocked, |it| !it.is_allowed())
    }
}

impl Asked {
    /// Returns the limits that requests meet by these rules, and those that they bring.
    fn matched(&self, rules: &Rules) -> Vec<Matched> {
        let mut matched = rules.matches_each(&self.requests);
        for Own { place, id, limit, costs } in &self.own {
            let is_replaced = |one: &&mut Matched| id.is_none() && one.request == *place;
            let mut replaced = matched.iter_mut().filter(is_replaced).peekable();
            if replaced.peek().is_some() {
                replaced.for_each(|one| one.replace_limit(limit.clone(), costs.clone()));
                continue;
            }
            // No id of a rule has a `#` before its first value.
            let id = id.clone().unwrap_or_else(|| format!("limit#{}", self.requests[*place].id()));
            let mut own = Matched::new(id, limit.clone(), costs.clone());
            own.request = *place;
            matched.push(own);
        }
        matched
    }
}
