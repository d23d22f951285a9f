//! Admissions of one key, and the most in any span.

use lockage_core::{Limit, Timestamp};
use lockage_oracle::envelope::Line;

use super::envelope::envelope;
use super::measured::Used;
use crate::replay::Outcome;
use crate::trace::Trace;

/// The admissions of one key.
pub(super) struct Admitted {
    pub(super) key: u32,
    /// The times of admissions in microseconds, ascending.
    pub(super) times: Vec<u64>,
    /// The sums before each of them, and in all.
    before: Vec<u64>,
}

impl Admitted {
    pub(super) fn by_key(
        trace: &Trace,
        outcomes: &[Outcome],
        decided: &[Timestamp],
    ) -> Vec<Admitted> {
        let mut points: Vec<Vec<(u64, u64)>> = vec![Vec::new(); trace.key_count()];
        for ((request, outcome), at) in trace.requests().iter().zip(outcomes).zip(decided) {
            if *outcome == Outcome::Admitted {
                points[request.key as usize].push((at.as_micros(), request.cost));
            }
        }
        let keys = (0..).zip(points).filter(|(_, points)| !points.is_empty());
        keys.map(|(key, points)| Admitted::new(key, points)).collect()
    }

    fn new(key: u32, mut points: Vec<(u64, u64)>) -> Admitted {
        // Waiting callers are not decided in the order of their arrival.
        points.sort_by_key(|(time, _)| *time);
        let (mut times, mut before, mut total) = (Vec::new(), Vec::new(), 0u64);
        for (time, cost) in points {
            if times.last() != Some(&time) {
                times.push(time);
                before.push(total);
            }
            total = total.saturating_add(cost);
        }
        before.push(total);
        Admitted { key, times, before }
    }

    /// Returns A(T) of this key, and where it is.
    pub(super) fn most(&self, span_us: u64, allowed: u64) -> Used {
        self.most_from(0..self.times.len(), span_us, allowed)
    }

    /// Returns the most in spans that begin at these times. Times of admissions suffice.
    pub(super) fn most_from(
        &self,
        starts: impl Iterator<Item = usize>,
        span_us: u64,
        allowed: u64,
    ) -> Used {
        let (mut admitted, mut from) = (0, self.times[0]);
        for start in starts {
            let within = self.within(start, span_us);
            if within > admitted {
                (admitted, from) = (within, self.times[start]);
            }
        }
        let from = Timestamp::from_micros(from).expect("it was a timestamp");
        Used { span_us, admitted, allowed, key: self.key, from }
    }

    /// Returns the admitted cost in the span that begins at this time.
    pub(super) fn within(&self, start: usize, span_us: u64) -> u64 {
        let time = self.times[start];
        let end = start + self.times[start..].partition_point(|last| last - time < span_us);
        self.before[end] - self.before[start]
    }

    /// Returns the shortest span with the admissions of this one, whose envelope is no larger.
    pub(super) fn tightened(&self, used: Used, limit: &Limit) -> Used {
        let from = used.from.as_micros();
        let within = |&&time: &&u64| time >= from && time - from < used.span_us;
        let last = self.times.iter().rev().find(within).map_or(from, |time| *time);
        let span_us = last - from + 1;
        Used { span_us, allowed: envelope(limit, span_us), ..used }
    }

    /// Returns whether nothing is above the envelope, if that is a straight line, in one pass over the times; false for
    /// other envelopes.
    pub(super) fn is_below_its_line(&self, limit: &Limit) -> bool {
        let mut parts = limit.parts();
        let (Some(part), None) = (parts.next(), parts.next()) else { return false };
        let Some(Line { base, amount, per }) = Line::of(&part.into()) else { return false };
        // The excess of a span over its part of the line is a difference of two of these.
        let height = |admitted: u64, time: u64| {
            i128::from(admitted) * i128::from(per)
                - i128::from(time - self.times[0]) * i128::from(amount)
        };
        let mut lowest = i128::MAX;
        self.times.iter().zip(self.before.windows(2)).all(|(&time, before)| {
            lowest = lowest.min(height(before[0], time));
            u128::try_from(height(before[1], time) - lowest).is_ok_and(|above| above <= base)
        })
    }

    /// Returns the length of the span from the first to the last.
    pub(super) fn length(&self) -> u64 {
        self.times[self.times.len() - 1] - self.times[0] + 1
    }
}
