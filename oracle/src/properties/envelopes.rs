//! E1 to E5, also after a lost record.

use super::decisions::charged_part;
use super::{Check, require};
use crate::config::Config;
use crate::envelope;
use crate::strategies::Trace;
use crate::subject::{Op, Outcome, Subject};

/// Checks E1 to E5: no interval of any length holds more than the limiter's envelope, in a composite each limit's, on
/// the running maximum of the times of the admitted requests (D10). Refunded cost does not count from its refund on
/// (bug 21: not twice). With refunds the clock must not step back, since limiters differ in whether these move their
/// time on. A reset begins anew.
///
/// # Errors
/// The interval with an excess.
pub fn admitted_stays_within_the_envelope(subject: &mut impl Subject, trace: &Trace) -> Check {
    let mut admitted = Admitted::of(trace);
    trace.play(subject, |_, op, now_us, outcome| {
        if *op == Op::Reset {
            admitted = Admitted::of(trace);
        }
        admitted.learn(op, now_us, &outcome);
        admitted.within(trace, |_| 0)
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
    let (mut admitted, mut index) = (Admitted::of(trace), 0);
    trace.play(subject, |subject, op, now_us, outcome| {
        admitted.learn(op, now_us, &outcome);
        index += 1;
        if index == lost_before {
            subject.forget();
        }
        admitted.within(trace, Config::capacity)
    })
}

/// The admissions of each part: times in microseconds, and costs.
struct Admitted(Vec<Vec<(u64, i128)>>);

impl Admitted {
    fn of(trace: &Trace) -> Self {
        Admitted(vec![Vec::new(); trace.limits.parts.len()])
    }

    fn learn(&mut self, op: &Op, now_us: u64, outcome: &Outcome) {
        for (place, admitted) in self.0.iter_mut().enumerate() {
            admitted.extend(charged_part(op, now_us, outcome, place));
        }
    }

    /// Checks the envelopes with `extra` on top of each part's bound.
    fn within(&self, trace: &Trace, extra: impl Fn(&Config) -> u64) -> Check {
        self.0.iter().zip(&trace.limits.parts).try_for_each(|(admitted, part)| {
            let checked = envelope::check(part, admitted, extra(part));
            require(checked.is_ok(), || format!("{part:?}: {checked:?} of {admitted:?}"))
        })
    }
}
