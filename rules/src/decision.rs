//! The decision on a request by rules.

use std::time::Duration;

use lockage::limiter::{Origin, Reservation};
use lockage::{Decision, Verdict};

use crate::in_flight::{Place, Shed};
use crate::rule::Matched;
use crate::settings::Priority;

/// The decision on a request. Keep it, or its [`Place`], until the request was served.
#[derive(Debug)]
#[must_use = "a denied request must not go ahead: ask `is_allowed()`"]
#[non_exhaustive]
pub struct RuleDecision {
    /// The rules that the request meets, in their order.
    pub met: Vec<Met>,
    /// The index of the rule that binds: one that blocks, a limit that was asked by itself and denies, or, of the limits in
    /// one decision, the one that denies for longest or, if all admit, has room for the fewest more such requests. `None`
    /// if no limit was asked.
    pub binding: Option<usize>,
    /// Why the request was refused before any limit was asked, if it was.
    pub shed: Option<Shed>,
    is_allowed: bool,
    pub(crate) place: Option<Place>,
    pub(crate) estimate: Option<Box<str>>,
    /// Estimates that are to be settled.
    pub(crate) open: Vec<Open>,
}

/// A rule that a request meets, and its decision.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Met {
    /// The rule.
    pub matched: Matched,
    /// The decision of its limit. `None` if it was not asked: it blocks, its cost is zero, or another one denied first.
    pub decision: Option<Decision>,
}

/// A reservation, and the index of its rule.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) at: usize,
    pub(crate) reservation: Reservation,
}

impl RuleDecision {
    /// Returns a decision that admits, before any limit is asked.
    pub(crate) fn admitting(matched: Vec<Matched>) -> Self {
        RuleDecision {
            met: matched.into_iter().map(|matched| Met { matched, decision: None }).collect(),
            binding: None,
            shed: None,
            is_allowed: true,
            place: None,
            estimate: None,
            open: Vec::new(),
        }
    }

    pub(crate) fn deny(self, at: usize) -> Self {
        RuleDecision { binding: Some(at), is_allowed: false, ..self }
    }

    pub(crate) fn refuse(self, shed: Shed) -> Self {
        RuleDecision { shed: Some(shed), is_allowed: false, ..self }
    }

    /// Adds the decision of one limit; returns whether it admits.
    pub(crate) fn add(&mut self, at: usize, decision: Decision) -> bool {
        self.bind(at, decision.is_allowed());
        self.met[at].decision = Some(decision);
        self.is_allowed
    }

    pub(crate) fn bind(&mut self, at: usize, is_allowed: bool) {
        (self.binding, self.is_allowed) = (Some(at), is_allowed);
    }

    pub(crate) fn has(&self, origin: Origin) -> bool {
        let mut decisions = self.met.iter().filter_map(|met| met.decision.as_ref());
        decisions.any(|decision| decision.origin == origin)
    }

    /// Returns whether the request may go ahead, and is charged.
    pub fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    /// Returns the rule that denies the request; `None` if it is admitted, or [shed](crate::Shed).
    pub fn denied(&self) -> Option<&Met> {
        self.binding.filter(|_| !self.is_allowed).map(|at| &self.met[at])
    }

    /// Returns the time until the same request can be admitted; `None` if it is admitted, never can be, or that is not
    /// known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.denied()?.decision.as_ref()?.verdict {
            Verdict::Denied { retry_after, .. } => Some(retry_after),
            Verdict::Allowed | Verdict::Never => None,
        }
    }

    /// Returns the priority of the request: see [`Priority::of`].
    pub fn priority(&self) -> Priority {
        Priority::of_rules(self.met.iter().map(|met| &*met.matched.rule))
    }

    /// Returns the estimate that was [reserved](crate::RuleLimiter::reserve), and is to be settled.
    pub fn estimate(&self) -> Option<u64> {
        let first = self.open.first()?;
        self.met[first.at].matched.amount_of(self.estimate.as_ref()?)
    }

    /// Returns the reservations of the estimate, each with its rule.
    pub fn reservations(&self) -> impl Iterator<Item = (&Matched, &Reservation)> {
        self.open.iter().map(|Open { at, reservation }| (&self.met[*at].matched, reservation))
    }

    /// Takes the request's place among those that are served at once, to hold it longer than the decision. There is none
    /// without a bound.
    pub fn take_place(&mut self) -> Option<Place> {
        self.place.take()
    }
}
