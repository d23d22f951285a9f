//! E1 to E5, also after a lost record.

use super::decisions::charged;
use super::{Check, require};
use crate::config::Config;
use crate::envelope;
use crate::strategies::Trace;
use crate::subject::{Op, Subject};

/// Checks E1 to E5: no interval of any length holds more than the limiter's envelope, in a composite each limit's, on
/// the running maximum of the times of the admitted requests (D10). Refunded cost does not count from its refund on
/// (bug 21: not twice). With refunds the clock must not step back, since limiters differ in whether these move their
/// time on. A reset begins anew.
///
/// # Errors
/// The interval with an excess.
pub fn admitted_stays_within_the_envelope(subject: &mut impl Subject, trace: &Trace) -> Check {
    let mut admitted = Vec::new();
    trace.play(subject, |_, op, now_us, outcome| {
        if *op == Op::Reset {
            admitted.clear();
        }
        admitted.extend(charged(op, now_us, &outcome));
        within(trace, &admitted, |_| 0)
    })
}

/// Checks D10: if a record is lost at any one moment, as by a clock that jumps past its forget time and is set back, at
/// most one more capacity is admitted.
///
/// # Errors
/// The interval with an excess.
pub fn d10_a_lost_record_grants_one_allowance(
    subject: &mut impl Subject,
    trace: &Trace,
    lost_before: usize,
) -> Check {
    let (mut admitted, mut index) = (Vec::new(), 0);
    trace.play(subject, |subject, op, now_us, outcome| {
        admitted.extend(charged(op, now_us, &outcome));
        index += 1;
        if index == lost_before {
            subject.forget();
        }
        within(trace, &admitted, Config::capacity)
    })
}

/// Checks the envelopes with `extra` on top of each part's bound.
fn within(trace: &Trace, admitted: &[(u64, i128)], extra: impl Fn(&Config) -> u64) -> Check {
    trace.limits.parts.iter().try_for_each(|part| {
        let checked = envelope::check(part, admitted, extra(part));
        require(checked.is_ok(), || format!("{part:?}: {checked:?} of {admitted:?}"))
    })
}
