//! Compares a limit with the exact sliding log of its capacity and rate.

use std::collections::VecDeque;

use lockage_core::Limit;

use super::envelope::nominal;
use crate::replay::Outcome;
use crate::trace::Trace;

/// Differences between a limit and the exact sliding logs of its [capacity and rate](nominal), in requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgainstLog {
    /// Denied, although the log would have admitted them after the same admissions.
    pub false_denials: u64,
    /// Admitted, and denied by the log on its own run of the trace.
    pub only_limit: u64,
    /// Denied, and admitted by the log on its own run of the trace.
    pub only_log: u64,
}

impl AgainstLog {
    /// Counts the differences over a trace whose requests were decided on arrival.
    pub fn of(limit: &Limit, trace: &Trace, outcomes: &[Outcome]) -> AgainstLog {
        let logs = || vec![ExactLogs::new(limit); trace.key_count()];
        // One log has the limit's admissions, the other runs by itself.
        let (mut shared, mut own) = (logs(), logs());
        let mut against = AgainstLog::default();
        for (request, outcome) in trace.requests().iter().zip(outcomes) {
            let (key, now) = (request.key as usize, request.at.as_micros());
            let is_admitted = *outcome == Outcome::Admitted;
            let fits = own[key].fits(now, request.cost);
            if fits {
                own[key].add(now, request.cost);
            }
            against.only_limit += u64::from(is_admitted && !fits);
            against.only_log += u64::from(!is_admitted && fits);
            if is_admitted {
                shared[key].add(now, request.cost);
            } else {
                against.false_denials += u64::from(shared[key].fits(now, request.cost));
            }
        }
        against
    }
}

/// The exact logs of one key, one for each limit of a composite.
#[derive(Clone, Debug)]
pub(crate) struct ExactLogs(Vec<Log>);

#[derive(Clone, Debug)]
struct Log {
    capacity: u64,
    window_us: u64,
    /// The times and amounts of admissions that still count.
    entries: VecDeque<(u64, u64)>,
    used: u64,
}

impl ExactLogs {
    pub(crate) fn new(limit: &Limit) -> ExactLogs {
        let log =
            |(capacity, window_us)| Log { capacity, window_us, entries: VecDeque::new(), used: 0 };
        ExactLogs(nominal(limit).map(log).collect())
    }

    /// Returns whether this much is admitted at this time, which is not before the last.
    pub(crate) fn fits(&mut self, now: u64, cost: u64) -> bool {
        cost <= self.free(now)
    }

    /// Returns the most that is admitted at this time.
    pub(crate) fn free(&mut self, now: u64) -> u64 {
        self.0.iter_mut().map(|log| log.free(now)).min().unwrap_or(0)
    }

    /// Records an admission, whether or not it fits.
    pub(crate) fn add(&mut self, now: u64, cost: u64) {
        for log in &mut self.0 {
            log.entries.push_back((now, cost));
            log.used = log.used.saturating_add(cost);
        }
    }
}

impl Log {
    fn free(&mut self, now: u64) -> u64 {
        while let Some((time, cost)) = self.entries.front()
            && now - time >= self.window_us
        {
            self.used -= cost;
            self.entries.pop_front();
        }
        self.capacity.saturating_sub(self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::super::measured::tests::{LIMITS, random_trace, trace};
    use super::*;
    use crate::engine::EngineKind;
    use crate::replay::replay;

    fn against(limit: &str, trace: &Trace) -> AgainstLog {
        let (limit, mut engine) = (limit.parse().unwrap(), EngineKind::Model.build().unwrap());
        let outcomes = replay(trace, &limit, &mut *engine, || ()).unwrap();
        AgainstLog::of(&limit, trace, &outcomes)
    }

    #[test]
    fn d1_a_sliding_log_is_its_own_reference() {
        for limit in ["sliding-log 5/10us", "sliding-log 5/10us + sliding-log 3/4us"] {
            for seed in 0..50 {
                assert_eq!(
                    against(limit, &random_trace(seed, 1)),
                    AgainstLog::default(),
                    "{limit}"
                );
            }
        }
    }

    #[test]
    fn d1_a_window_or_bucket_that_is_empty_leaves_the_log_no_room() {
        // All of a fixed window is in the log's; a bucket's log has at least the bucket's deficit.
        for limit in LIMITS.into_iter().filter(|limit| {
            ["fixed", "token-bucket 3/", "leaky"].iter().any(|kind| limit.starts_with(kind))
        }) {
            for seed in 0..50 {
                let against = against(limit, &random_trace(seed, 1));
                assert_eq!(against.false_denials, 0, "{limit}, {seed}");
            }
        }
    }

    #[test]
    fn a_sliding_window_denies_requests_that_fit_the_log() {
        // Five at a window's beginning weigh as much at its end as if they had come there.
        let trace = trace([(100, "a", 5), (110, "a", 1), (111, "a", 1), (111, "b", 1)]);
        let expected = AgainstLog { false_denials: 2, only_limit: 0, only_log: 2 };
        assert_eq!(against("sliding-window 5/10us", &trace), expected);
    }

    #[test]
    fn a_fixed_window_over_admits_at_its_boundary() {
        let trace = trace([(100, "a", 1), (109, "a", 4), (110, "a", 5), (119, "a", 1)]);
        let expected = AgainstLog { false_denials: 0, only_limit: 1, only_log: 1 };
        assert_eq!(against("fixed-window 5/10us", &trace), expected);
    }
}
