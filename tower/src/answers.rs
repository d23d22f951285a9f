//! The answers to decisions: rejections, and header fields.

use lockage::limiter::{DenialReason, Origin};
use lockage::observer::ErrorKind;
use lockage::{Decision, Error, Verdict};

use crate::cost::Unit;
use crate::fields::{Fields, Policies, add_legacy};
use crate::merge::AllFields;
use crate::pause::retry_seconds;
use crate::rejection::{Reason, Rejection};

/// The answer to requests while the store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Answer 503.
    #[default]
    Deny,
    /// Let them go ahead, without fields. A limiter with a [fallback](lockage::Limiter::with_fallback) decides by itself
    /// instead.
    Allow,
}

/// The settings of answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    pub(crate) fields: Fields,
    pub(crate) on_error: OnError,
}

impl Answers {
    /// Returns how a decision rejects a request, and the fields of the limit that denies it, unless clients do not see its
    /// policies; `None` if the request goes ahead.
    pub(crate) fn rejection(
        self,
        decision: &Decision,
        policies: Option<&Policies>,
    ) -> Option<(Box<Rejection>, AllFields)> {
        if decision.is_allowed() && decision.turn_after.is_zero() {
            return None;
        }
        let is_degraded = decision.origin == Origin::Fallback;
        let unit = policies.map_or(Unit::Requests, Policies::unit);
        let (reason, retry_after) = match decision.verdict {
            Verdict::Allowed => (Reason::TurnsWithoutWaiting, None),
            Verdict::Never if is_degraded => (Reason::Degraded, Some(1)),
            Verdict::Never if unit == Unit::Bytes => (Reason::TooLong, None),
            Verdict::Never => (Reason::TooCostly, None),
            Verdict::Denied { retry_after, reason } => {
                let reason = match reason {
                    _ if is_degraded => Reason::Degraded,
                    DenialReason::Blocked => Reason::Blocked,
                    _ => Reason::Limit,
                };
                (reason, Some(retry_seconds(retry_after)))
            }
        };
        let (mut rejection, mut fields) = (Rejection::boxed(reason), AllFields::default());
        rejection.retry_after = retry_after;
        let Some(policies) = policies.filter(|_| !is_degraded) else {
            return Some((rejection, fields));
        };
        if let Some(seconds) = retry_after {
            rejection.violated = policies.violated(decision);
            if self.fields.draft() {
                policies.add_denial(decision, seconds, &mut fields);
            }
            if self.fields.legacy() {
                add_legacy(decision, &mut fields);
            }
        }
        Some((rejection, fields))
    }

    /// Returns whether requests go ahead without a decision; never if the limiter is misconfigured.
    pub(crate) fn without(self, error: Error) -> Result<(), Box<Rejection>> {
        let is_absent = match &error {
            // The queue to the store is full, or the process ends.
            Error::QueueFull(_) | Error::Closed => true,
            _ => matches!(error.kind(), ErrorKind::NotDone | ErrorKind::Unknown),
        };
        match self.on_error {
            OnError::Allow if is_absent => Ok(()),
            _ if is_absent => Err(Rejection::boxed(Reason::NoDecision(error))),
            _ => Err(Rejection::boxed(Reason::Misconfigured(error))),
        }
    }

    /// Returns the fields of a request that goes ahead by these decisions.
    pub(crate) fn admitted<'a>(
        self,
        decided: impl Iterator<Item = (&'a Policies, &'a Decision)> + Clone,
    ) -> AllFields {
        let (mut fields, draft) = (AllFields::default(), self.fields.draft());
        for (policies, decision) in decided.clone().filter(|_| draft) {
            policies.add_policies(&mut fields);
            policies.add_state(decision, &mut fields);
        }
        if self.fields.legacy() {
            let known = decided.filter(|(_, decision)| decision.origin != Origin::Fallback);
            if let Some((_, least)) = known.min_by_key(|(_, decision)| decision.remaining) {
                add_legacy(least, &mut fields);
            }
        }
        fields
    }
}
