//! Several plans of traffic at once.

use super::{MAX_REQUESTS, Plan, TrafficError};
use crate::trace::{Trace, TraceBuilder};

/// Generates the traffic of several plans. Requests of one instant are in the order of their plans.
///
/// # Errors
/// [`TrafficError`] if a plan is invalid, for too many requests together, or for none.
pub fn generate_all(plans: &[Plan]) -> Result<Trace, TrafficError> {
    let expected = plans.iter().map(Plan::check).sum::<Result<u128, TrafficError>>()?;
    if expected > u128::from(MAX_REQUESTS) {
        return Err(TrafficError::TooMany { expected });
    }
    let trace = make_up(plans);
    match trace.requests().is_empty() {
        true => Err(TrafficError::None),
        false => Ok(trace),
    }
}

/// Returns the traffic of valid plans, which may be empty.
pub(crate) fn make_up<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Trace {
    let mut builder = TraceBuilder::default();
    for plan in plans {
        let mut add = plan.requests();
        let mut each = |offset| add(&mut builder, offset);
        plan.shape.each_offset(plan.start, plan.micros(), plan.seed, &mut each);
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockage_core::Timestamp;

    use super::*;

    fn plan(name: &str, shape: &str, seconds: u64) -> Plan {
        let duration = Duration::from_secs(seconds);
        Plan { name: name.to_owned(), duration, ..Plan::new(shape.parse().unwrap()) }
    }

    fn of(trace: &Trace, name: &str) -> Vec<(Timestamp, u64)> {
        let of_name = trace.requests().iter().filter(|request| trace.key(request.key) == name);
        of_name.map(|request| (request.at, request.cost)).collect()
    }

    #[test]
    fn each_is_as_it_is_by_itself_and_keys_of_one_name_are_shared() {
        let base = plan("base", "poisson 5/s", 60);
        let crowd =
            Plan { seed: 2, ..plan("crowd", "flash-crowd 0/s peak 90/s at 9s half-life 5s", 60) };
        let attack = plan("base", "boundary-attack fixed-window 10/20s", 60);
        let all = generate_all(&[base.clone(), crowd.clone(), attack.clone()]).unwrap();
        assert!(all.requests().is_sorted_by_key(|request| request.at));
        assert_eq!(all.key_count(), 2);
        let alone = |plan: &Plan, name| of(&plan.generate().unwrap(), name);
        assert_eq!(of(&all, "crowd-1"), alone(&crowd, "crowd-1"));
        let mut of_base = [alone(&base, "base-1"), alone(&attack, "base-1")].concat();
        of_base.sort_by_key(|(at, _)| *at);
        assert_eq!(of(&all, "base-1"), of_base);
    }

    #[test]
    fn together_they_may_be_too_much_and_none_may_be_empty_but_all() {
        let many = plan("key", "constant 3_000_000/s", 1);
        let refused = generate_all(&[many.clone(), many]).unwrap_err();
        assert_eq!(refused, TrafficError::TooMany { expected: 6_000_000 });
        let (rare, often) = (plan("key", "poisson 1/1000d", 1), plan("key", "constant 5/s", 1));
        assert_eq!(generate_all(&[rare.clone(), often]).unwrap().requests().len(), 5);
        assert_eq!(generate_all(&[rare.clone(), rare]), Err(TrafficError::None));
        assert_eq!(generate_all(&[]), Err(TrafficError::None));
    }
}
