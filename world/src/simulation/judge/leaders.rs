//! The judge of leaders, and of locks that are held for at least some time.

use std::collections::BTreeMap;

use super::exempt::Exempt;
use super::holders::{Known, outlasts};
use super::kind::{Fault, Kind, fault};
use super::{Oracle, Times};
use crate::simulation::plan::{Plan, What};
use crate::simulation::store::LOCK;

const HELD: What = What::Lock { is_fair: false };

pub(in crate::simulation) struct Leaders {
    candidates: BTreeMap<usize, Candidate>,
    /// The largest token of a term.
    newest: u64,
    /// How long a candidate that steps down does not campaign, by the fastest clock.
    pause_us: u64,
    /// The grants that are kept, and until when.
    kept: Vec<(u64, u64)>,
}

struct Candidate {
    /// When it did anything last: its next campaign begins later.
    at_us: u64,
    /// It has stepped down since it led.
    has_stepped_down: bool,
    /// Its term, and when the campaign for it had begun.
    term: Option<(u64, u64)>,
}

impl Leaders {
    pub(super) fn new(plan: &Plan) -> Self {
        let poll_us = plan.usual_poll_us();
        Leaders {
            candidates: BTreeMap::new(),
            newest: 0,
            pause_us: 2 * poll_us - poll_us / 500,
            kept: Vec::new(),
        }
    }

    /// The store may have forgotten tokens and grants.
    pub(super) fn shaken(&mut self) {
        self.newest = 0;
        self.kept.clear();
    }

    pub(super) fn campaigns(&mut self, job: usize, now_us: u64) {
        let candidate = Candidate { at_us: now_us, has_stepped_down: false, term: None };
        self.candidates.insert(job, candidate);
    }

    /// A candidate leads from now on.
    pub(super) fn leads(
        &mut self,
        (job, token): (usize, u64),
        Times { polled_us, now_us, .. }: Times,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        let Some(candidate) = self.candidates.get_mut(&job) else { return Ok(()) };
        let begun_us = candidate.at_us;
        if candidate.has_stepped_down && now_us < begun_us + self.pause_us {
            let what = format!("job {job} stepped down at {begun_us} us, and leads again");
            return fault(Kind::Hasty, what);
        }
        let term = Some((token, begun_us));
        *candidate = Candidate { at_us: now_us, has_stepped_down: false, term };
        if known.is_shaken(begun_us) {
            return Ok(());
        }
        if token <= self.newest {
            let what = format!("job {job} leads by token {token}, after {}", self.newest);
            return fault(Kind::Term, what);
        }
        self.newest = token;
        match known.exempt.is(Exempt::Stood, polled_us < now_us) {
            true => Ok(()),
            false => outlasts(HELD, token, now_us + 1, known.store),
        }
    }

    /// A leader works.
    pub(super) fn rules(
        &mut self,
        job: usize,
        Times { polled_us, now_us, .. }: Times,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        let Some(candidate) = self.candidates.get_mut(&job) else { return Ok(()) };
        candidate.at_us = now_us;
        let Some((token, begun_us)) = candidate.term else { return Ok(()) };
        if known.exempt.is(Exempt::Stood, polled_us < now_us) {
            return Ok(());
        }
        match known.is_shaken(begun_us) {
            true => Ok(()),
            false => outlasts(HELD, token, now_us + 1, known.store),
        }
    }

    pub(super) fn steps_down(&mut self, job: usize, now_us: u64) {
        if let Some(candidate) = self.candidates.get_mut(&job) {
            *candidate = Candidate { at_us: now_us, has_stepped_down: true, term: None };
        }
    }

    /// A job has the grant of this token, which is kept for at least so long.
    pub(super) fn keeps(
        &mut self,
        (token, least_us): (u64, u64),
        now_us: u64,
        node: usize,
        known: &Known<impl Oracle>,
    ) {
        // It may have been granted long before its holder knows that.
        let granted_us = known.replies.held_us(LOCK, node, token).next().unwrap_or(now_us);
        let is_there = known.store.granted_until_us(HELD, token).is_some();
        if let Some(since_us) = known.store.held_since_us(LOCK)
            && is_there
            && !known.is_shaken(granted_us)
        {
            self.kept.push((token, since_us + least_us));
        }
    }

    /// The store has run a command of the lock: each grant that is kept is there (L14).
    pub(in crate::simulation) fn are_kept(
        &mut self,
        is_there: impl Fn(u64) -> bool,
        now_us: u64,
    ) -> Result<(), Fault> {
        self.kept.retain(|(_, until_us)| *until_us > now_us);
        match self.kept.iter().find(|(token, _)| !is_there(*token)) {
            Some((token, until_us)) => {
                fault(Kind::Unkept, format!("the grant of token {token}, until {until_us} us"))
            }
            None => Ok(()),
        }
    }

    pub(super) fn cancelled(&mut self, job: usize) {
        self.candidates.remove(&job);
    }
}
