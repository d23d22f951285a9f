//! Plans with one element less, for shrinking.

use super::{Instead, Job, Link, Network, Options, Plan, Verb, Work, Wrong};

impl Plan {
    /// Returns the plans with one element less.
    pub(in crate::simulation) fn smaller(&self) -> impl Iterator<Item = Plan> {
        let jobs = (0..self.jobs.len()).rev().map(|index| self.without_job(index));
        let troubles = (0..self.troubles.len()).rev().map(|index| {
            let mut plan = self.clone();
            plan.troubles.remove(index);
            plan
        });
        let calm = CALM.into_iter().map(|change| self.with(change));
        let links =
            SAFE.into_iter().map(|change| self.with(|plan| _ = plan.link.as_mut().map(change)));
        let each = (0..self.jobs.len()).flat_map(move |index| {
            EASE.into_iter().map(move |ease| self.with(|plan| ease(&mut plan.jobs[index])))
        });
        let changed = calm.chain(links).chain(each).filter(move |plan| plan != self);
        jobs.chain(troubles).chain(changed)
    }

    fn with(&self, change: impl Fn(&mut Plan)) -> Plan {
        let mut plan = self.clone();
        change(&mut plan);
        plan
    }

    fn without_job(&self, index: usize) -> Plan {
        let mut plan = self.clone();
        plan.jobs.remove(index);
        plan.troubles.retain_mut(|trouble| match &mut trouble.what {
            Wrong::Cancel { job } if *job == index => false,
            Wrong::Cancel { job } => {
                *job -= usize::from(*job > index);
                true
            }
            _ => true,
        });
        plan
    }
}

/// Simplifications of a world.
const CALM: [fn(&mut Plan); 21] = [
    |plan| plan.link = None,
    |plan| {
        plan.runtimes = 1;
        plan.jobs.iter_mut().for_each(|job| (job.runtime, job.moves_to) = (0, None));
        plan.troubles.retain(|trouble| !trouble.what.is_of_runtime());
    },
    |plan| plan.terms.panics = false,
    |plan| plan.network.lost = 0,
    |plan| plan.network.late = 0,
    |plan| plan.network.aimed = 0,
    |plan| plan.network.twice = 0,
    |plan| plan.network.stuck = 0,
    |Plan { network: Network { least_us, most_us, .. }, .. }| *most_us = *least_us,
    |plan| plan.network.connect_us = 0,
    |plan| plan.ppm.iter_mut().for_each(|ppm| *ppm = 0),
    |plan| (plan.terms.wake_ups, plan.terms.poll_us) = (false, None),
    |plan| plan.terms.replicas = false,
    |plan| plan.terms.longest_us = None,
    |plan| plan.options.prefetch = None,
    |plan| plan.options.coalescing = false,
    |plan| plan.options.deny_cache = false,
    |plan| plan.options.max_age_us = None,
    |plan| (plan.options.circuit, plan.options.unread) = (None, None),
    |Plan { options: Options { fallback, .. }, .. }| {
        *fallback = fallback.filter(|it| *it == Instead::Closed);
    },
    |Plan { options: Options { idempotency, shadow, .. }, .. }| {
        (*idempotency, *shadow) = (false, false)
    },
];

/// Simplifications of the way to servers.
const SAFE: [fn(&mut Link); 14] = [
    |link| link.is_cluster = false,
    |link| link.is_sharded = false,
    |link| link.sweep_us = None,
    |link| link.forgets = 0,
    |link| link.moves = 0,
    |link| link.lags = 0,
    |link| link.refuses = 0,
    |link| link.full = 0,
    |link| link.rejects = 0,
    |link| link.restarts = 0,
    |link| link.closes = 0,
    |link| link.cuts = 0,
    |link| link.silences = 0,
    |link| link.idle_us = None,
];

/// Simplifications of a job.
const EASE: [fn(&mut Job); 9] = [
    |job| job.is_blind = false,
    |job| job.is_loose = false,
    |job| job.moves_to = None,
    |job| (job.polls, job.when_woken) = (None, false),
    |job| job.when_woken = false,
    |job| {
        if let Work::Ask { cost, second, .. } = &mut job.work {
            (*cost, *second) = (1.max(*cost), None);
        }
    },
    |job| {
        if let Work::Ask { times, .. } | Work::Change { times, .. } = &mut job.work {
            *times = 1.max(*times / 2);
        }
    },
    |job| {
        if let Work::Ask { times, .. } | Work::Change { times, .. } = &mut job.work {
            *times = 1.max(*times - 1);
        }
    },
    |job| {
        if let Work::Ask { verb: verb @ (Verb::Each { .. } | Verb::All { .. }), .. } = &mut job.work
        {
            *verb = Verb::Acquire { wait_us: 0 };
        }
    },
];
