//! A request before its service: it is charged, or rejected.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use http::request::Parts;
use lockage::limiter::{Adjusted, Cost, MAX_TOGETHER, Origin, RequestId};
use lockage::runtime::Runtime;
use lockage::{Decision, Error, Limit, Limiter, Store, StoreError};
use smallvec::SmallVec;

use crate::admission::{Admitted, Pending};
use crate::answers::{Answers, OnError};
use crate::background::{BoxFuture, Spawner, Timer};
use crate::commit::Commit;
use crate::cost::{Amount, OfRequest, by_name};
use crate::faults::Faults;
use crate::fields::{Fields, Policies};
use crate::grpc::is_grpc;
use crate::held::{Held, Open, Reserved};
use crate::limits::{Charge, Rule};
use crate::local_limit::LocalLimit;
use crate::merge::AllFields;
use crate::places::Places;
use crate::rejection::{Reason, Rejection, Respond};
use crate::renewals::Renewals;

/// The whole setup of a layer.
pub(crate) struct Setup<S> {
    pub(crate) rules: Vec<Rule<S>>,
    pub(crate) skip: Option<OfRequest<bool>>,
    pub(crate) skip_preflights: bool,
    pub(crate) cost: Option<OfRequest<u64>>,
    /// The cost of each part of a name, instead of one for all.
    pub(crate) part_costs: Vec<(Arc<str>, OfRequest<u64>)>,
    pub(crate) waiting: Option<(Wait<S>, Duration)>,
    pub(crate) reserving: Option<Reserving>,
    pub(crate) places: Option<Arc<dyn Places>>,
    pub(crate) at_once: Option<Policies>,
    /// Limits that are not `rules`.
    pub(crate) elsewhere: Option<Elsewhere>,
    pub(crate) answers: Answers,
    pub(crate) respond: Option<Arc<Respond>>,
    pub(crate) faults: Faults,
}

/// Limits that are found and decided elsewhere.
pub(crate) enum Elsewhere {
    InProcess(LocalLimit),
    #[cfg(feature = "rules")]
    ByRules(Box<dyn CheckByRules>),
}

/// The rules of a layer.
#[cfg(feature = "rules")]
pub(crate) trait CheckByRules: Send + Sync {
    /// Charges a request to all its limits, or to none.
    fn check<'a>(
        &'a self,
        parts: &'a Parts,
        answers: Answers,
    ) -> BoxFuture<'a, Result<Admitted, Box<Rejection>>>;
}

/// [`Limiter::acquire_within`], of stores that have it.
pub(crate) type Wait<S> =
    for<'a> fn(&'a Limiter<S>, &'a str, u64, Duration) -> BoxFuture<'a, Result<Decision, Error>>;

pub(crate) struct Reserving {
    pub(crate) hold: Duration,
    pub(crate) by: Commit,
    pub(crate) spawn: Spawner,
    pub(crate) timer: Timer,
}

impl Reserving {
    /// Returns a new id of a request.
    fn request(&self) -> RequestId {
        let bits = || u128::from(self.timer.random());
        RequestId::from_u128(bits() << 64 | bits())
    }

    /// Holds a reservation, if there is one, until its request ends.
    fn hold<S: Store + Clone + 'static>(
        &self,
        reserved: lockage::limiter::Reserved,
        limiter: &Limiter<S>,
        id: &str,
        cost: &Amount,
        held: &mut Option<Box<Held>>,
    ) -> Decision {
        if let Some(reservation) = reserved.reservation {
            let account = Reserved { limiter: limiter.clone(), id: id.into(), reservation };
            let (by, spawn) = (self.by.clone(), self.spawn.clone());
            let mut open = Open::new(Box::new(account), by, cost.clone(), spawn);
            if self.by.is_by_body() {
                let (limiter, id, timer) = (limiter.clone(), id.into(), self.timer.clone());
                let renewals =
                    Renewals::start(limiter, id, reservation, self.hold, timer, &self.spawn);
                open.renewals.push(renewals);
            }
            held.get_or_insert_default().reservations.push(open);
        }
        reserved.decision
    }
}

/// A limit of a request, and its decision, in case the request does not go ahead.
struct Charged<'a, S> {
    charge: &'a Charge<S>,
    id: String,
    decision: Option<Decision>,
}

/// Most layers have one limiter.
type AllCharged<'a, S> = SmallVec<[Charged<'a, S>; 1]>;

impl<S: Store + Clone + 'static> Setup<S> {
    /// Charges a request to all its limits, or to none.
    pub(crate) async fn check(&self, parts: &Parts) -> Result<Admitted, Box<Rejection>> {
        match self.check_at_once(parts) {
            Some(checked) => checked,
            None => self.check_by_call(parts).await,
        }
    }

    /// Charges a request that [`check_at_once`](Self::check_at_once) does not.
    pub(crate) async fn check_by_call(&self, parts: &Parts) -> Result<Admitted, Box<Rejection>> {
        let checked = match &self.elsewhere {
            #[cfg(feature = "rules")]
            Some(Elsewhere::ByRules(rules)) => rules.check(parts, self.answers).await,
            _ => self.check_limits(parts).await,
        };
        checked.map_err(|rejection| self.rejected(rejection, parts))
    }

    /// Charges a request, if that takes no future.
    pub(crate) fn check_at_once(&self, parts: &Parts) -> Option<Result<Admitted, Box<Rejection>>> {
        if self.skip.as_ref().is_some_and(|skip| skip(parts))
            || self.skip_preflights && is_preflight(parts)
        {
            return Some(Ok(Admitted::default()));
        }
        let Some(Elsewhere::InProcess(limit)) = &self.elsewhere else { return None };
        let cost = self.cost.as_ref().map_or(1, |cost| cost(parts));
        let checked = limit.check(parts, cost, self.answers);
        Some(checked.map_err(|rejection| self.rejected(rejection, parts)))
    }

    fn rejected(&self, mut rejection: Box<Rejection>, parts: &Parts) -> Box<Rejection> {
        rejection.is_grpc = is_grpc(&parts.headers);
        self.faults.report(&rejection.reason);
        rejection
    }

    async fn check_limits(&self, parts: &Parts) -> Result<Admitted, Box<Rejection>> {
        let cost = self.amount(parts);
        let (mut held, mut charged) = (None, AllCharged::new());
        let Err(rejection) = self.charge(parts, &cost, &mut held, &mut charged).await else {
            return Ok(self.admitted(held, charged));
        };
        if let Some(mut held) = held {
            held.reservations.iter_mut().for_each(Open::cancel);
        }
        for Charged { charge, id, decision } in charged {
            let is_charged = |decision: &Decision| {
                decision.is_allowed()
                    && !decision.would_deny()
                    && decision.origin != Origin::Fallback
            };
            if self.reserving.is_none() && decision.as_ref().is_some_and(is_charged) {
                // If the refund fails, the cost stays charged.
                let _ = Box::pin(refund(&charge.limiter, &id, &cost)).await;
            }
        }
        Err(rejection)
    }

    fn amount(&self, parts: &Parts) -> Amount {
        if self.part_costs.is_empty() {
            return Amount::All(self.cost.as_ref().map_or(1, |cost| cost(parts)));
        }
        let each = self.part_costs.iter().map(|(name, cost)| (Arc::clone(name), cost(parts)));
        Amount::Parts(each.collect())
    }

    async fn charge<'a>(
        &'a self,
        parts: &Parts,
        cost: &Amount,
        held: &mut Option<Box<Held>>,
        charged: &mut AllCharged<'a, S>,
    ) -> Result<(), Box<Rejection>> {
        if !cost.is_zero() {
            *charged = self.found(parts).map_err(Rejection::boxed)?;
            if !self.is_one_decision(charged)
                || !Box::pin(self.charge_together(charged, parts, cost)).await?
            {
                self.charge_each(charged, parts, cost, held).await?;
            }
        }
        self.take_place(parts, held, charged).await
    }

    /// Returns the limits of a request, and the id in each.
    fn found(&self, parts: &Parts) -> Result<AllCharged<'_, S>, Reason> {
        let found = self.rules.iter().map(|rule| {
            let (charge, id) = (rule.limits.of(parts)?, rule.key.id(parts)?);
            Ok(Charged { charge, id, decision: None })
        });
        found.collect()
    }

    fn is_one_decision(&self, all: &[Charged<'_, S>]) -> bool {
        let first = &all[0].charge.limiter;
        (2..=MAX_TOGETHER).contains(&all.len())
            && self.waiting.is_none()
            && self.reserving.is_none()
            && all.iter().all(|it| first.goes_together_with(&it.charge.limiter))
    }

    /// Charges all limits in one decision. Returns whether their keys allow that; if not, nothing is charged.
    async fn charge_together(
        &self,
        all: &mut [Charged<'_, S>],
        parts: &Parts,
        cost: &Amount,
    ) -> Result<bool, Box<Rejection>> {
        let cost_under = |limit: Option<Limit>| match cost {
            Amount::All(cost) => Some((*cost).into()),
            // The names of a stored limit are not known yet.
            Amount::Parts(each) => Cost::named(&limit?, &by_name(each)).ok(),
        };
        let requests = all.iter().map(|it| {
            let limiter = &it.charge.limiter;
            Some(limiter.request(&it.id, cost_under(limiter.limit())?))
        });
        let Some(requests) = requests.collect::<Option<Vec<_>>>() else { return Ok(false) };
        match all[0].charge.limiter.try_acquire_all(&requests).await {
            Ok(decided) if decided.is_allowed() => {
                for (one, decision) in all.iter_mut().zip(decided.decisions) {
                    one.decision = Some(decision);
                }
                let mut decisions =
                    all.iter().filter_map(|it| Some((it.charge, it.decision.as_ref()?)));
                decisions.try_for_each(|(charge, decision)| self.admit(charge, decision, parts))?;
            }
            Ok(denied) => {
                let binding = denied.binding;
                self.admit(all[binding].charge, &denied.decisions[binding], parts)?;
            }
            // One key twice, or a store that decides on one at a time: nothing was sent.
            Err(Error::Key(_) | Error::Store(StoreError::Misconfigured(_))) => return Ok(false),
            Err(error) => self.answers.without(error)?,
        }
        Ok(true)
    }

    /// Charges each limit in its turn.
    async fn charge_each(
        &self,
        all: &mut [Charged<'_, S>],
        parts: &Parts,
        cost: &Amount,
        held: &mut Option<Box<Held>>,
    ) -> Result<(), Box<Rejection>> {
        for one in all {
            match self.decide(one.charge, &one.id, cost, held).await {
                Ok(decision) => {
                    let decision = one.decision.insert(decision);
                    self.admit(one.charge, decision, parts)?;
                }
                Err(error) => self.answers.without(error)?,
            }
        }
        Ok(())
    }

    async fn decide(
        &self,
        charge: &Charge<S>,
        id: &str,
        cost: &Amount,
        held: &mut Option<Box<Held>>,
    ) -> Result<Decision, Error> {
        let limiter = &charge.limiter;
        let Amount::All(one) = *cost else {
            return Box::pin(self.decide_by_part(limiter, id, cost, held)).await;
        };
        if let Some((wait, max_wait)) = self.waiting {
            return wait(limiter, id, one, max_wait).await;
        }
        let Some(reserving) = &self.reserving else {
            return limiter.try_acquire(id, one).await;
        };
        // Boxed, as all parts that few requests need: otherwise each request would be moved with room for it.
        let reserve = limiter.reserve_as(id, one, reserving.request(), reserving.hold);
        let reserved = Box::pin(reserve).await?;
        Ok(reserving.hold(reserved, limiter, id, cost, held))
    }

    async fn decide_by_part(
        &self,
        limiter: &Limiter<S>,
        id: &str,
        cost: &Amount,
        held: &mut Option<Box<Held>>,
    ) -> Result<Decision, Error> {
        let Amount::Parts(each) = cost else { unreachable!("it is a cost by part") };
        let each = by_name(each);
        let Some(reserving) = &self.reserving else {
            return limiter.try_acquire_parts(id, &each[..]).await;
        };
        let reserve = limiter.reserve_parts_as(id, &each[..], reserving.request(), reserving.hold);
        Ok(reserving.hold(reserve.await?, limiter, id, cost, held))
    }

    /// Returns whether a decision lets a request go ahead, and otherwise how it is rejected.
    fn admit(
        &self,
        charge: &Charge<S>,
        decision: &Decision,
        parts: &Parts,
    ) -> Result<(), Box<Rejection>> {
        let Some((mut rejection, mut fields)) =
            self.answers.rejection(decision, Some(&charge.policies))
        else {
            return Ok(());
        };
        self.add_policies(parts, &mut fields);
        fields.into_headers(&mut rejection.headers);
        Err(rejection)
    }

    /// Takes a place among the requests that are served, if there is a bound.
    async fn take_place(
        &self,
        parts: &Parts,
        held: &mut Option<Box<Held>>,
        charged: &[Charged<'_, S>],
    ) -> Result<(), Box<Rejection>> {
        let (Some(places), Some(policy)) = (&self.places, &self.at_once) else { return Ok(()) };
        let own;
        let id = match charged.first() {
            Some(charged) => &charged.id,
            None => {
                own = self.rules[0].key.id(parts).map_err(Rejection::boxed)?;
                &own
            }
        };
        match places.take(id).await {
            Ok(Some(permit)) => {
                held.get_or_insert_default().permit = Some(permit);
                Ok(())
            }
            Ok(None) => {
                let mut rejection = Rejection::boxed(Reason::InFlight);
                let mut fields = AllFields::default();
                // The end of a request is unknown.
                rejection.retry_after = Some(1);
                rejection.violated = policy.names().cloned().collect();
                if self.answers.fields.draft() {
                    policy.add_no_room(&mut fields);
                }
                self.add_policies(parts, &mut fields);
                fields.into_headers(&mut rejection.headers);
                Err(rejection)
            }
            Err(error) => self.answers.without(error),
        }
    }

    /// Returns the decision and the fields of a request that goes ahead.
    fn admitted(&self, held: Option<Box<Held>>, charged: AllCharged<'_, S>) -> Admitted {
        let enforced = charged.iter().filter(|charged| !charged.charge.is_shadow);
        let decided = enforced
            .filter_map(|charged| Some((&charged.charge.policies, charged.decision.as_ref()?)));
        let mut fields = self.answers.admitted(decided);
        if let Some(policy) = self.at_once.as_ref().filter(|_| self.answers.fields.draft()) {
            policy.add_policies(&mut fields);
        }
        let decisions = charged.into_iter().filter_map(|charged| charged.decision);
        let decision = decisions.min_by_key(|decision| decision.remaining);
        Admitted {
            decision,
            pending: Pending { fields, held, switch: None },
            ..Admitted::default()
        }
    }

    /// Adds the policies of all limits of a request.
    fn add_policies(&self, parts: &Parts, fields: &mut AllFields) {
        if !self.answers.fields.draft() {
            return;
        }
        for charge in self.rules.iter().filter_map(|rule| rule.limits.of(parts).ok()) {
            if !charge.is_shadow {
                charge.policies.add_policies(fields);
            }
        }
        if let Some(policy) = &self.at_once {
            policy.add_policies(fields);
        }
    }
}

async fn refund<S: Store>(
    limiter: &Limiter<S>,
    id: &str,
    cost: &Amount,
) -> Result<Adjusted, Error> {
    match cost {
        Amount::All(cost) => limiter.refund(id, *cost).await,
        Amount::Parts(each) => limiter.refund_parts(id, &by_name(each)[..]).await,
    }
}

/// Returns whether a browser asks for permission to send the real request (CORS).
fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS
        && parts.headers.contains_key(ORIGIN)
        && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

impl<S> Default for Setup<S> {
    fn default() -> Self {
        Setup {
            rules: Vec::new(),
            skip: None,
            skip_preflights: false,
            cost: None,
            part_costs: Vec::new(),
            waiting: None,
            reserving: None,
            places: None,
            at_once: None,
            elsewhere: None,
            answers: Answers { fields: Fields::DRAFT_11, on_error: OnError::Deny },
            respond: None,
            faults: Faults::default(),
        }
    }
}
