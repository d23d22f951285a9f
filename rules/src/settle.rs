//! Corrects the charges of an admitted request, or gives them back.

use lockage::limiter::{Adjusted, Origin, Reservation};
use lockage::store::HasTimeout;
use lockage::{Decision, Error};

use crate::decision::{Met, Open, RuleDecision};
use crate::limiter::RuleLimiter;
use crate::rule::{Costs, Matched, Rule};

impl<S: HasTimeout + Clone> RuleLimiter<S> {
    /// Charges the actual amount of the cost that was [reserved](Self::reserve); other costs stay. It asks all rules, also
    /// after an error of one.
    ///
    /// # Errors
    /// The first [`Error`]. A reservation that has ended is not an error.
    pub async fn commit(&self, decided: &RuleDecision, actual: u64) -> Result<(), Error> {
        let Some(estimate) = &decided.estimate else { return Ok(()) };
        let mut result = Ok(());
        for Open { at, reservation } in &decided.open {
            let matched = &decided.met[*at].matched;
            let limiter = self.limiter(matched)?;
            let settled = match matched.costs_with(estimate, actual) {
                Costs::One(cost) => limiter.commit(&matched.id, reservation, cost).await,
                Costs::Parts(costs) => {
                    limiter.commit_parts(&matched.id, reservation, &costs[..]).await
                }
            };
            result = result.and(settled.map(drop));
        }
        result
    }

    /// Gives back the costs of an admitted request that is not served after all, and cancels its estimates. The costs of
    /// rules with `overdraft` stay charged. It asks all rules, also after an error of one.
    ///
    /// # Errors
    /// The first [`Error`]. Whatever could not be given back stays charged.
    pub async fn give_back(&self, decided: &RuleDecision) -> Result<(), Error> {
        let mut result = Ok(());
        for (at, Met { matched, decision }) in decided.met.iter().enumerate() {
            let Rule { shadow, overdraft, .. } = *matched.rule;
            let is_charged = |it: &Decision| it.is_allowed() && it.origin != Origin::Fallback;
            let given_back = match decided.open.iter().find(|open| open.at == at) {
                Some(open) => self.cancel(matched, &open.reservation).await,
                None if shadow || overdraft || !decided.is_allowed() => continue,
                None if !decision.as_ref().is_some_and(is_charged) => continue,
                None => self.refund(matched).await.map(drop),
            };
            result = result.and(given_back);
        }
        result
    }

    /// Gives back the cost of a rule that a request meets, as [`Limiter::refund`](lockage::Limiter::refund) does.
    ///
    /// # Errors
    /// [`Error`], also for a cost of zero.
    pub async fn refund(&self, matched: &Matched) -> Result<Adjusted, Error> {
        let limiter = self.limiter(matched)?;
        match &matched.costs {
            Costs::One(cost) => limiter.refund(&matched.id, *cost).await,
            Costs::Parts(costs) => limiter.refund_parts(&matched.id, &costs[..]).await,
        }
    }

    async fn cancel(&self, matched: &Matched, reservation: &Reservation) -> Result<(), Error> {
        self.limiter(matched)?.cancel(&matched.id, reservation).await.map(drop)
    }
}
