//! A limit of this process alone, for each request.

use http::request::Parts;
use lockage::{Decision, StoreError};
use lockage_memory::LocalError;

use crate::admission::{Admitted, Pending};
use crate::answers::Answers;
use crate::fields::Policies;
use crate::rejection::{Reason, Rejection};

/// Decides on a request of this cost, which is not zero.
pub(crate) type Decide =
    dyn Fn(&Parts, u64) -> Result<Result<Decision, LocalError>, Reason> + Send + Sync;

/// The limit of a layer.
pub(crate) struct LocalLimit {
    pub(crate) decide: Box<Decide>,
    pub(crate) policies: Policies,
}

impl LocalLimit {
    /// Charges a request of this cost.
    pub(crate) fn check(
        &self,
        parts: &Parts,
        cost: u64,
        answers: Answers,
    ) -> Result<Admitted, Box<Rejection>> {
        if cost == 0 {
            return Ok(Admitted::default());
        }
        let decision = match (self.decide)(parts, cost).map_err(Rejection::boxed)? {
            Ok(decision) => decision,
            // The cost is not zero, so there was no room for the key.
            Err(full) => {
                answers.without(StoreError::NotDone(full.into()).into())?;
                return Ok(Admitted::default());
            }
        };
        let rejected = answers.rejection(&decision, Some(&self.policies));
        if let Some((mut rejection, mut fields)) = rejected {
            if answers.fields.draft() {
                self.policies.add_policies(&mut fields);
            }
            fields.into_headers(&mut rejection.headers);
            return Err(rejection);
        }
        let fields = answers.admitted([(&self.policies, &decision)].into_iter());
        let pending = Pending { fields, ..Pending::default() };
        Ok(Admitted { decision: Some(decision), pending, ..Admitted::default() })
    }
}
