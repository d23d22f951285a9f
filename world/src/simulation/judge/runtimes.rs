//! The judge of processes with several runtimes: the end or a block of one of them costs the others nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::Oracle;
use super::exempt::{Exempt, Exemptions};
use super::kind::{Fault, Kind, fault};
use super::replies::Replies;
use crate::simulation::plan::{End, MILLI, Plan, What, Work};
use crate::simulation::store::{LOCK, OTHER, PLACES, TABLE};

pub(in crate::simulation) struct Runtimes {
    /// Whether nothing goes wrong but runtimes.
    is_calm: bool,
    /// Whether each call then has an answer.
    is_answered: bool,
    /// Whether each grant is of a job, by the locks of its process.
    is_shared: bool,
    /// Whether a lease grows with each renewal.
    grows: bool,
    lease_us: u64,
    call_us: u64,
    timeout_us: u64,
    longest_call_us: u64,
    /// The runtimes that are blocked at some time.
    struck: BTreeSet<(usize, u64)>,
    /// When the thread of an executor is blocked.
    blocks: Vec<Block>,
    ended_us: BTreeMap<usize, u64>,
    /// Since when each executor has a task of its process's locks.
    tasks: BTreeMap<(usize, u64), u64>,
    /// When each holder was last seen on each executor.
    seen_us: BTreeMap<(usize, u64), u64>,
    /// The token of each job's grant.
    held: BTreeMap<(usize, &'static str), u64>,
    /// The grants that no job holds.
    given_up: BTreeMap<(&'static str, u64), GivenUp>,
    /// Until when grants are kept, by their tokens.
    kept_until_us: BTreeMap<u64, u64>,
    /// The runtimes that jobs move to: a guard that is dropped there has started a task.
    moved_to: BTreeSet<(usize, u64)>,
    /// The jobs that release kept grants themselves, and wait for that.
    release_kept: BTreeSet<usize>,
    nodes: usize,
}

struct Block {
    node: usize,
    executor: u64,
    from_us: u64,
    until_us: u64,
}

#[derive(Clone, Copy)]
struct GivenUp {
    since_us: u64,
    /// The executor of the job that held it, if there was one.
    by: Option<u64>,
    /// Whether the job itself waits until the release is due.
    is_waited_for: bool,
}

/// A number that no process has runtimes of.
const RUNTIMES: u64 = 100;

fn key_of(what: What) -> Option<&'static str> {
    match what {
        What::Lock { .. } | What::Both => Some(LOCK),
        What::Other => Some(OTHER),
        What::Permits(_) => Some(PLACES),
        What::Read | What::Write => Some(TABLE),
        What::Quorum => None,
    }
}

impl Runtimes {
    pub(super) fn new(plan: &Plan) -> Self {
        let is_calm = plan.well_us() == 0 && plan.link.is_none();
        let is_own = |work| matches!(work, Work::Hold { is_own: true, .. });
        let leads = |work| matches!(work, Work::Lead { .. });
        let waits_for_others = plan.options.prefetch.is_some() && plan.blocks_runtimes();
        let release_kept = plan
            .works()
            .enumerate()
            .filter(|(_, work)| matches!(work, Work::Keep { end: End::Released, .. }));
        let others_us = if waits_for_others { plan.timeout_us + plan.timeout_us / 8 } else { 0 };
        Runtimes {
            is_calm,
            is_answered: is_calm && !plan.terms.replicas && plan.options.stored.is_none(),
            is_shared: is_calm
                && !plan.works().any(leads)
                && !(plan.runtimes > 1 && plan.works().any(is_own)),
            grows: is_calm && plan.terms.longest_us.is_none(),
            lease_us: plan.lease_us,
            call_us: 2 * plan.network.most_us,
            timeout_us: plan.timeout_us,
            longest_call_us: plan.timeout_us + others_us,
            struck: plan.blocked_runtimes().collect(),
            blocks: Vec::new(),
            ended_us: BTreeMap::new(),
            tasks: BTreeMap::new(),
            seen_us: BTreeMap::new(),
            held: BTreeMap::new(),
            given_up: BTreeMap::new(),
            kept_until_us: BTreeMap::new(),
            moved_to: plan.moves().collect(),
            release_kept: release_kept.map(|(job, _)| job).collect(),
            nodes: plan.ppm.len(),
        }
    }

    pub(in crate::simulation) fn blocked(
        &mut self,
        node: usize,
        executor: u64,
        from_us: u64,
        until_us: u64,
    ) {
        self.blocks.push(Block { node, executor, from_us, until_us });
    }

    pub(in crate::simulation) fn ended(&mut self, node: usize, executor: u64, now_us: u64) {
        self.tasks.remove(&(node, executor));
        self.ended_us.insert(node, now_us);
    }

    /// A job uses the locks of its process on this executor, which has a task of them from now on.
    pub(super) fn uses_locks(&mut self, node: usize, executor: Option<u64>, now_us: u64) {
        if let Some(executor) = executor.filter(|_| self.is_shared) {
            self.tasks.entry((node, executor)).or_insert(now_us);
        }
    }

    /// Returns how long a call takes at most on a runtime that is never blocked, in a process of which nothing else
    /// goes wrong.
    pub(super) fn longest_call_us(&self, node: usize, executor: Option<u64>) -> Option<u64> {
        (self.is_calm && !self.is_struck(node, executor)).then_some(self.longest_call_us)
    }

    fn is_struck(&self, node: usize, executor: Option<u64>) -> bool {
        executor.is_none_or(|executor| self.struck.contains(&(node, executor % RUNTIMES)))
    }

    /// A call has failed.
    pub(super) fn failed(&self, node: usize, executor: Option<u64>) -> Result<(), Fault> {
        match self.is_answered && !self.is_struck(node, executor) {
            true => fault(Kind::Error, "a call fails, and nothing is wrong with it".to_owned()),
            false => Ok(()),
        }
    }

    /// A job holds a grant until then, unless it is renewed.
    pub(super) fn holds(
        &mut self,
        (job, node, executor): (usize, usize, Option<u64>),
        (what, token): (What, u64),
        until_us: u64,
        now_us: u64,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        let Some(key) = key_of(what) else { return Ok(()) };
        if self.is_shared {
            self.held.insert((job, key), token);
            self.given_up.remove(&(key, token));
        }
        if !self.grows {
            return Ok(());
        }
        self.seen_us.extend(executor.map(|executor| ((job, executor), now_us)));
        let is_own = |block: &Block| {
            let seen_us = self.seen_us.get(&(job, block.executor));
            seen_us.is_some_and(|seen_us| block.from_us <= *seen_us)
        };
        let latest = self
            .blocks
            .iter()
            .filter(|block| block.node == node && block.until_us + self.lease_us >= now_us);
        // Its task, and its guard, may go on only now.
        if exempt.is(Exempt::Blocked, latest.clone().any(is_own)) {
            return Ok(());
        }
        let lease_us = self.lease_us;
        // It is renewed after a third, and once more if the runtime that did that has ended.
        let mut late_us =
            lease_us / 3 + lease_us / 24 + lease_us / 500 + 3 * self.call_us + 3 * MILLI;
        if latest.clone().next().is_some() {
            // By another runtime, once the renewal is late.
            late_us += lease_us / 6 + self.timeout_us;
        }
        if until_us + late_us < now_us + lease_us {
            let what = format!("job {job} holds {what:?} until {until_us} us, of {lease_us} us");
            return fault(Kind::Unrenewed, what);
        }
        Ok(())
    }

    /// A grant is held for at least so long.
    pub(super) fn keeps(&mut self, token: u64, least_us: u64, now_us: u64) {
        let until_us = now_us + least_us + least_us / 500 + 2 * MILLI;
        self.kept_until_us.insert(token, until_us);
    }

    /// A job no longer holds its grants of this kind, or of any.
    pub(super) fn gives_up(
        &mut self,
        job: usize,
        what: Option<What>,
        executor: Option<u64>,
        now_us: u64,
    ) {
        let keys = match what {
            None => vec![LOCK, OTHER, PLACES, TABLE],
            Some(What::Both) => vec![LOCK, OTHER],
            Some(what) => key_of(what).into_iter().collect(),
        };
        for key in keys {
            if let Some(token) = self.held.remove(&(job, key)) {
                let is_waited_for = self.release_kept.contains(&job);
                let given_up = GivenUp { since_us: now_us, by: executor, is_waited_for };
                self.given_up.insert((key, token), given_up);
            }
        }
    }

    /// The store has run a command on a key. `has_half` means that a job may have one lock while it waits for another.
    pub(super) fn looks(&mut self, key: &str, has_half: bool, store: &impl Oracle, now_us: u64) {
        let Some(key) = [LOCK, OTHER, PLACES, TABLE].into_iter().find(|known| *known == key) else {
            return;
        };
        if !self.is_shared {
            return;
        }
        let tokens = store.tokens(key);
        self.given_up.retain(|(of, token), _| *of != key || tokens.contains(token));
        for token in tokens {
            let is_held = self.held.iter().any(|((_, of), held)| *of == key && *held == token);
            let is_half = has_half && [LOCK, OTHER].contains(&key);
            if !(is_held || is_half) {
                let given_up = GivenUp { since_us: now_us, by: None, is_waited_for: false };
                self.given_up.entry((key, token)).or_insert(given_up);
            }
        }
    }

    /// Checks that what no job holds is given back (L8).
    pub(super) fn given_back(
        &mut self,
        now_us: u64,
        replies: &Replies,
        store: &impl Oracle,
        exempt: &Exemptions,
    ) -> Result<(), Fault> {
        let longest_us = self.timeout_us + 4 * self.call_us + self.lease_us / 500 + 20 * MILLI;
        let is_over = |given_up: &GivenUp| given_up.since_us + longest_us < now_us;
        if !self.given_up.values().any(is_over) {
            return Ok(());
        }
        let over = self.given_up.iter().filter(|(_, given_up)| is_over(given_up));
        let over: Vec<_> = over.map(|(of, given_up)| (*of, *given_up)).collect();
        for ((key, token), given_up) in over {
            if !store.tokens(key).contains(&token) {
                self.given_up.remove(&(key, token));
                continue;
            }
            let is_of = |node: &usize| replies.held_us(key, *node, token).next().is_some();
            let node = (0..self.nodes).find(is_of);
            let from_us = node.and_then(|node| self.released_from_us(node, given_up, now_us));
            let Some(from_us) = from_us else {
                exempt.is(Exempt::NoTask, true);
                self.given_up.insert((key, token), GivenUp { since_us: now_us, ..given_up });
                continue;
            };
            let kept_until_us = self.kept_until_us.get(&token).copied().unwrap_or_default();
            if from_us.max(kept_until_us) + longest_us < now_us {
                let since_us = given_up.since_us;
                let what = format!("the grant {token} of {key} since {since_us} us");
                return fault(Kind::Leak, what);
            }
        }
        Ok(())
    }

    /// Returns from when on a task of a process's locks surely makes the release of a grant, if one does.
    fn released_from_us(&self, node: usize, given_up: GivenUp, now_us: u64) -> Option<u64> {
        let GivenUp { since_us, by, is_waited_for } = given_up;
        let blocked_until_us = |executor: u64| {
            let own = self.blocks.iter().filter(|it| (it.node, it.executor) == (node, executor));
            let own = own.filter(|it| it.from_us <= now_us && it.until_us >= since_us);
            own.map(|block| block.until_us).max()
        };
        let tasks = self.tasks.range((node, 0)..(node + 1, 0));
        let ready_us = tasks.map(|((_, executor), begun_us)| {
            blocked_until_us(*executor).unwrap_or_default().max(*begun_us)
        });
        // A release takes one request, and its runtime was not blocked before that. Where an answer is still to come,
        // the task that waits for it may be blocked.
        let is_certain = by.is_some_and(|by| blocked_until_us(by).is_none());
        let moved_to = self.blocks.iter().map(|block| block.executor);
        let moved_to =
            moved_to.filter(|executor| self.moved_to.contains(&(node, executor % RUNTIMES)));
        let moved_to_us = moved_to.filter_map(blocked_until_us).max().unwrap_or(0);
        let ready_us = match is_certain {
            true => ready_us.min(),
            false => ready_us.max().map(|ready_us| ready_us.max(moved_to_us)),
        };
        // No task makes a release for which its caller waits, on its own thread.
        let waits_until_us = by.filter(|_| is_waited_for).and_then(blocked_until_us).unwrap_or(0);
        let ready_us = ready_us.map(|ready_us| ready_us.max(waits_until_us));
        let ended_us = self.ended_us.get(&node).copied().unwrap_or_default();
        ready_us.filter(|ready_us| *ready_us <= now_us).map(|it| it.max(since_us).max(ended_us))
    }
}
