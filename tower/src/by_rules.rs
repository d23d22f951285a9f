//! Rules in a file, in front of a service.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::request::Parts;
use http::{HeaderName, StatusCode};
use lockage::Decision;
use lockage::runtime::Spawn;
use lockage::store::HasTimeout;
use lockage_rules::{
    ClientView, LiveRules, Matched, Met, Priority, Request, RuleDecision, RuleLimiter, Rules,
};

use crate::admission::{Admitted, Pending};
use crate::answers::Answers;
use crate::background::{BoxFuture, Spawner, Timer, spawner};
use crate::check::{CheckByRules, Elsewhere, Setup};
use crate::client_ip::{ClientIp, ip};
use crate::commit::Commit;
use crate::cost::Amount;
use crate::error::SetupError;
use crate::held::{Account, Held, Open, check_hold};
use crate::options::options;
use crate::rate_limit::RateLimit;
use crate::rejection::{Reason, Rejection, View};
use crate::renewals::Renewals;
use crate::rule_fields::RulePolicies;
use crate::service::RateLimitLayer;

/// Rules in front of a service: see [`RateLimit::rules`].
pub struct RateLimitByRules<S> {
    setup: Setup<S>,
    rules: RuleSource,
    limiter: RuleLimiter<S>,
    client: ClientIp,
    values: Option<Box<Values>>,
    estimate: Option<Estimate>,
}

/// The source of the rules in force.
#[derive(Clone, Debug)]
pub struct RuleSource(Source);

#[derive(Clone, Debug)]
enum Source {
    Fixed(Arc<Rules>),
    Live(Arc<LiveRules>),
}

/// Adds the program's own values to those of a request.
type Values = dyn for<'r> Fn(&'r Parts, Request<'r>) -> Request<'r> + Send + Sync;

/// A cost that is known with the response.
struct Estimate {
    name: Box<str>,
    hold: Duration,
    by: Commit,
    spawn: Spawner,
    timer: Timer,
}

impl<S: HasTimeout + Clone + 'static> RateLimit<S> {
    /// Limits requests by [rules](lockage_rules), which say what each is charged to: those of a [`LiveRules`] that follow
    /// their file, or fixed ones. A changed file applies from the next request on.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use axum::{Router, routing::get};
    /// use lockage::RetryStore;
    /// use lockage::runtime::Tokio;
    /// use lockage_memory::MemoryStore;
    /// use lockage_rules::{LiveRules, RuleLimiter};
    /// use lockage_tower::{RateLimit, ip};
    ///
    /// # fn serve(path: &str) -> Result<Router, Box<dyn std::error::Error>> {
    /// let rules = Arc::new(LiveRules::open(path)?);
    /// let watched = Arc::clone(&rules);
    /// tokio::spawn(async move { watched.watch(Tokio, Duration::from_secs(5)).await });
    ///
    /// let store = RetryStore::new(MemoryStore::new(), Tokio, Duration::from_millis(250));
    /// let layer = RateLimit::rules(rules, RuleLimiter::new(store, MemoryStore::new()))
    ///     .client(ip().behind(["10.0.0.0/8"])?)
    ///     .values(|parts, request| match parts.extensions.get::<Arc<str>>() {
    ///         Some(user) => request.user(&**user),
    ///         None => request,
    ///     })
    ///     .build()?;
    /// let app = Router::new().route("/search", get(|| async { "found\n" })).layer(layer);
    /// # Ok(app) }
    /// ```
    ///
    /// Rules see these values of a request, and those that [`values`](RateLimitByRules::values) adds:
    ///
    /// | key | value |
    /// |---|---|
    /// | `route` | the registered route, such as `/users/{id}`, of axum; elsewhere, and for requests of no route, the path |
    /// | `method` | the method |
    /// | `address` | the client's address: see [`client`](RateLimitByRules::client) |
    /// | `header.NAME` | the field; several of one name are joined by a comma |
    ///
    /// Answers are those of [`RateLimit`], with the status and the message that a rule's `client` has, and 503 for requests
    /// that are [shed](lockage_rules::Shed). Names in fields are those of `client`; parts of a limit with names have
    /// these behind it, as in `chat-tokens`. Handlers find an `Arc<`[`RuleDecision`]`>` in the extensions of the request,
    /// beside the [`Decision`]. Limits with turns are answered 500: the layer does not wait.
    pub fn rules(rules: impl Into<RuleSource>, limiter: RuleLimiter<S>) -> RateLimitByRules<S> {
        RateLimitByRules {
            setup: Setup::default(),
            rules: rules.into(),
            limiter,
            client: ip(),
            values: None,
            estimate: None,
        }
    }
}

impl<S: HasTimeout + Clone + 'static> RateLimitByRules<S> {
    /// Sets how clients are identified, [`ip()`](ip) by default. It matters only to rules that name the address. Ids have
    /// networks of 64 bits of IPv6 addresses, whatever its `ipv6_prefix`.
    pub fn client(self, client: ClientIp) -> Self {
        RateLimitByRules { client, ..self }
    }

    /// Adds the program's own values, such as user, tenant, tier and costs. A value replaces an earlier one of its key.
    /// The user must be authenticated: otherwise clients choose whose limit they use.
    pub fn values(
        self,
        values: impl for<'r> Fn(&'r Parts, Request<'r>) -> Request<'r> + Send + Sync + 'static,
    ) -> Self {
        RateLimitByRules { values: Some(Box::new(values)), ..self }
    }

    /// Takes the cost of this name as an estimate, and later charges the actual one to all rules that name it, as
    /// [`RuleLimiter::reserve`] does; see [`RateLimit::reserve`] for the rest.
    pub fn reserve(
        self,
        runtime: impl Spawn,
        hold: Duration,
        estimate: &str,
        commit: Commit,
    ) -> Self {
        let (spawn, timer) = (spawner(runtime.clone()), Timer::of(runtime));
        let estimate = Estimate { name: estimate.into(), hold, by: commit, spawn, timer };
        RateLimitByRules { estimate: Some(estimate), ..self }
    }

    options!();

    /// Builds the layer.
    ///
    /// # Errors
    /// [`SetupError`] for a hold out of range.
    pub fn build(self) -> Result<RateLimitLayer<S>, SetupError> {
        let RateLimitByRules { setup, rules, limiter, client, values, estimate } = self;
        if let Some(estimate) = &estimate {
            check_hold(estimate.hold, None)?;
        }
        let in_force = ArcSwap::from_pointee(InForce::of(rules.current()));
        let limiter = Arc::new(limiter);
        let by_rules = ByRules { rules, in_force, limiter, client, values, estimate };
        let elsewhere = Some(Elsewhere::ByRules(Box::new(by_rules)));
        Ok(RateLimitLayer::new(Setup { elsewhere, ..setup }))
    }
}

impl From<Rules> for RuleSource {
    fn from(rules: Rules) -> Self {
        RuleSource(Source::Fixed(Arc::new(rules)))
    }
}

impl From<Arc<LiveRules>> for RuleSource {
    fn from(rules: Arc<LiveRules>) -> Self {
        RuleSource(Source::Live(rules))
    }
}

impl RuleSource {
    fn current(&self) -> Arc<Rules> {
        match &self.0 {
            Source::Fixed(rules) => Arc::clone(rules),
            Source::Live(rules) => rules.current(),
        }
    }
}

/// The limits of a layer.
struct ByRules<S> {
    rules: RuleSource,
    in_force: ArcSwap<InForce>,
    limiter: Arc<RuleLimiter<S>>,
    client: ClientIp,
    values: Option<Box<Values>>,
    estimate: Option<Estimate>,
}

/// Rules, and what follows from them for each request.
struct InForce {
    policies: RulePolicies,
    /// The header fields that they name.
    headers: Vec<HeaderName>,
    has_address: bool,
}

impl InForce {
    fn of(rules: Arc<Rules>) -> Self {
        // A name that no field can have is in no request.
        let headers = rules.keys().filter_map(|key| key.strip_prefix("header."));
        let headers = headers.filter_map(|name| HeaderName::try_from(name).ok()).collect();
        let has_address = rules.keys().any(|key| key == "address");
        InForce { policies: RulePolicies::of(rules), headers, has_address }
    }
}

impl<S: HasTimeout + Clone + 'static> CheckByRules for ByRules<S> {
    fn check<'a>(
        &'a self,
        parts: &'a Parts,
        answers: Answers,
    ) -> BoxFuture<'a, Result<Admitted, Box<Rejection>>> {
        Box::pin(self.check_by_rules(parts, answers))
    }
}

impl<S: HasTimeout + Clone + 'static> ByRules<S> {
    async fn check_by_rules(
        &self,
        parts: &Parts,
        answers: Answers,
    ) -> Result<Admitted, Box<Rejection>> {
        let in_force = self.in_force();
        let request = self.request(&in_force, parts).map_err(Rejection::boxed)?;
        let matched = in_force.policies.rules.matches(&request);
        drop(request);
        let priority = Priority::of(&matched);
        let decided = match &self.estimate {
            None => self.limiter.decide(matched).await,
            Some(Estimate { name, hold, .. }) => self.limiter.reserve(matched, name, *hold).await,
        };
        match decided {
            Ok(decided) if decided.is_allowed() => self.admit(decided, &in_force, answers).await,
            Ok(denied) => Err(reject(&denied, &in_force, answers)),
            Err(error) => {
                answers.without(error)?;
                let place = self
                    .limiter
                    .take_place(priority)
                    .map_err(|_| Rejection::boxed(Reason::Shed))?;
                let mut admitted = Admitted::default();
                if let Some(place) = place {
                    admitted.pending.held.get_or_insert_default().permit = Some(Box::new(place));
                }
                Ok(admitted)
            }
        }
    }

    fn in_force(&self) -> Arc<InForce> {
        let (known, current) = (self.in_force.load_full(), self.rules.current());
        if Arc::ptr_eq(&known.policies.rules, &current) {
            return known;
        }
        let new = Arc::new(InForce::of(current));
        self.in_force.store(Arc::clone(&new));
        new
    }

    fn request<'r>(
        &'r self,
        in_force: &'r InForce,
        parts: &'r Parts,
    ) -> Result<Request<'r>, Reason> {
        let mut request = Request::new().route(route(parts)).method(parts.method.as_str());
        if in_force.has_address {
            request = request.address(self.client.of(parts)?.address());
        }
        for name in &in_force.headers {
            let mut values = parts.headers.get_all(name).iter();
            let Some(first) = values.next() else { continue };
            let mut value = String::from_utf8_lossy(first.as_bytes());
            for more in values {
                value.to_mut().push_str(", ");
                value.to_mut().push_str(&String::from_utf8_lossy(more.as_bytes()));
            }
            request = request.header(name.as_str(), value);
        }
        Ok(match &self.values {
            Some(values) => values(parts, request),
            None => request,
        })
    }

    async fn admit(
        &self,
        mut decided: RuleDecision,
        in_force: &InForce,
        answers: Answers,
    ) -> Result<Admitted, Box<Rejection>> {
        let has_turn = |Met { matched, decision, .. }: &Met| {
            !matched.rule.overdraft && decision.as_ref().is_some_and(|it| !it.turn_after.is_zero())
        };
        if decided.met.iter().any(has_turn) {
            // If it cannot be given back, it stays charged.
            let _ = self.limiter.give_back(&decided).await;
            return Err(Rejection::boxed(Reason::TurnsWithoutWaiting));
        }
        let fields = in_force.policies.admitted(answers, &met(&decided));
        let decisions = decided.met.iter().filter_map(|met| met.decision.as_ref());
        let decision: Option<Decision> =
            decisions.min_by_key(|decision| decision.remaining).cloned();
        let mut held: Option<Box<Held>> = None;
        if let Some(place) = decided.take_place() {
            held.get_or_insert_default().permit = Some(Box::new(place));
        }
        let (estimate, decided) = (decided.estimate(), Arc::new(decided));
        if let (Some(amount), Some(of)) = (estimate, &self.estimate) {
            let account =
                Reserved { limiter: Arc::clone(&self.limiter), decided: Arc::clone(&decided) };
            let amount = Amount::All(amount);
            let mut open = Open::new(Box::new(account), of.by.clone(), amount, of.spawn.clone());
            if of.by.is_by_body() {
                open.renewals.extend(decided.reservations().filter_map(
                    |(matched, reservation)| {
                        let (limiter, id) =
                            (self.limiter.limiter(matched).ok()?, matched.id.clone());
                        let (timer, spawn) = (of.timer.clone(), &of.spawn);
                        Some(Renewals::start(limiter, id, *reservation, of.hold, timer, spawn))
                    },
                ));
            }
            held.get_or_insert_default().reservations.push(open);
        }
        Ok(Admitted {
            decision,
            rules: Some(decided),
            pending: Pending { fields, held, switch: None },
        })
    }
}

/// An estimate under rules.
struct Reserved<S> {
    limiter: Arc<RuleLimiter<S>>,
    decided: Arc<RuleDecision>,
}

impl<S: HasTimeout + Clone + 'static> Account for Reserved<S> {
    fn commit(self: Box<Self>, actual: Amount) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Amount::All(actual) = actual else { unreachable!("rules have one estimate") };
            // If the commit fails, the estimate stays charged.
            let _ = self.limiter.commit(&self.decided, actual).await;
        })
    }
}

/// Returns the route of a request.
fn route(parts: &Parts) -> &str {
    #[cfg(feature = "axum")]
    if let Some(path) = parts.extensions.get::<axum::extract::MatchedPath>() {
        return path.as_str();
    }
    parts.uri.path()
}

/// Returns the rejection of a request that rules deny.
fn reject(denied: &RuleDecision, in_force: &InForce, answers: Answers) -> Box<Rejection> {
    let Some(binding) = denied.binding else { return Rejection::boxed(Reason::Shed) };
    let (rejection, fields) = in_force.policies.denied(answers, &met(denied), binding);
    // Without a decision, the rule blocks.
    let mut rejection = rejection.unwrap_or_else(|| Rejection::boxed(Reason::Blocked));
    fields.into_headers(&mut rejection.headers);
    let ClientView { status, message, .. } = &denied.met[binding].matched.rule.client;
    // An outage is none of the rule's.
    if !matches!(rejection.reason, Reason::Degraded) && (status.is_some() || message.is_some()) {
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        rejection.view =
            Some(Box::new(View { status, message: message.as_deref().map(Into::into) }));
    }
    rejection
}

fn met(decided: &RuleDecision) -> Vec<(&Matched, Option<&Decision>)> {
    decided.met.iter().map(|met| (&met.matched, met.decision.as_ref())).collect()
}
