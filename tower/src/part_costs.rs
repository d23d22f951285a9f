//! Checks costs by part before there is a request.

use std::sync::Arc;

use lockage::Limit;

use crate::check::Setup;
use crate::cost::OfRequest;
use crate::error::SetupError;

/// Checks that costs by part have the options that work with them, and that each real cost has an estimate.
pub(crate) fn check<S>(setup: &Setup<S>) -> Result<(), SetupError> {
    let (costs, committed) = (&setup.part_costs, setup.reserving.as_ref().map(|it| &it.by.parts));
    let names = costs.iter().map(|(name, _)| &**name).collect::<Vec<_>>();
    for name in committed.into_iter().flat_map(|parts| parts.iter()) {
        if !names.contains(&&**name) {
            return Err(SetupError::NoPart { name: name.clone(), within: names.join(", ").into() });
        }
    }
    let conflict = |with| Err(SetupError::Conflict("costs by part", with));
    match names.is_empty() {
        true => Ok(()),
        false if setup.cost.is_some() => conflict("a cost for all parts"),
        false if setup.waiting.is_some() => conflict("waiting"),
        false if committed.is_some_and(|parts| parts.is_empty()) => {
            conflict("a commit for all parts: name one by `Commit::for_part`")
        }
        false => Ok(()),
    }
}

/// Checks that a limit has all these parts. A stored limit is not known yet.
pub(crate) fn check_limit(
    costs: &[(Arc<str>, OfRequest<u64>)],
    limit: Option<Limit>,
) -> Result<(), SetupError> {
    let Some(limit) = limit else { return Ok(()) };
    match costs.iter().find(|(name, _)| limit.place_of(name).is_none()) {
        Some((name, _)) => {
            Err(SetupError::NoPart { name: (**name).into(), within: limit.to_string().into() })
        }
        None => Ok(()),
    }
}
