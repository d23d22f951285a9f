//! Values behind locks: fenced ones, results, cached ones, and the latch.

use std::collections::BTreeMap;

use super::holders::Known;
use super::replies::HolderAnswer;
use super::{Common, Exempt, Fault, Kind, LatchChange, Oracle, Times, fault};
use crate::simulation::plan::{Plan, Wrong};
use crate::simulation::store::{CACHED, PAGE};

pub(in crate::simulation) struct Values {
    /// The newest accepted token, and the newest token of any write.
    newest: u64,
    newest_tried: u64,
    /// When each job began to write, and the newest accepted token then.
    writes: BTreeMap<usize, (u64, u64)>,
    result: Option<String>,
    count: u64,
    /// When the gate was set, and how much it was counted down.
    sets: Vec<u64>,
    counted: u64,
    /// When invalidations began and ended.
    invalidations: Vec<(u64, u64)>,
    /// The job that builds or does the work for all, and since when; and the jobs whose work
    /// another one has begun anew: when they began, and when that one did.
    builders: BTreeMap<Common, (usize, u64)>,
    superseded: BTreeMap<(Common, usize), (u64, u64)>,
    /// When a lock was freed by force.
    forced_us: Vec<u64>,
    /// When the cached value was last written.
    written_us: Option<u64>,
    /// How long it is served while it is built anew.
    stale_us: u64,
    /// Whether a token may be below an earlier one: its record is lost, and the clock is behind.
    loses_order: bool,
}

impl Values {
    pub(super) fn new(plan: &Plan) -> Self {
        Values {
            newest: 0,
            newest_tried: 0,
            writes: BTreeMap::new(),
            result: None,
            count: plan.count,
            sets: Vec::new(),
            counted: 0,
            invalidations: Vec::new(),
            builders: BTreeMap::new(),
            superseded: BTreeMap::new(),
            forced_us: Vec::new(),
            written_us: None,
            stale_us: plan.keep_us,
            loses_order: plan.has(|wrong| matches!(wrong, Wrong::Failover { .. }))
                && plan.has(|wrong| matches!(wrong, Wrong::Clock { by_us: ..0 })),
        }
    }

    /// The store may have forgotten accepted tokens and results. It remembers later ones.
    pub(super) fn shaken(&mut self) {
        (self.newest, self.result) = (0, None);
    }

    pub(super) fn writes(&mut self, job: usize, token: u64, now_us: u64) {
        self.newest_tried = self.newest_tried.max(token);
        self.writes.insert(job, (now_us, self.newest));
    }

    /// L7, for writes that do not overlap.
    pub(super) fn wrote(
        &mut self,
        job: usize,
        token: u64,
        is_accepted: bool,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        let (begun_us, before) = self.writes.remove(&job).unwrap_or_default();
        if !is_accepted && token >= self.newest_tried {
            return fault(Kind::Fencing, format!("token {token} is refused, and none is newer"));
        }
        if known.is_shaken(begun_us) {
            return Ok(());
        }
        if is_accepted && token < before {
            return fault(Kind::Fencing, format!("token {token} is accepted after {before}"));
        }
        if is_accepted {
            self.newest = self.newest.max(token);
        }
        Ok(())
    }

    /// A call that began then got this result.
    pub(super) fn result(
        &mut self,
        since_us: u64,
        result: String,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        if known.is_shaken(since_us) {
            return Ok(());
        }
        let first = self.result.get_or_insert_with(|| result.clone());
        if *first != result {
            return fault(Kind::RanTwice, format!("`{first}` and `{result}`"));
        }
        Ok(())
    }

    pub(super) fn changes_latch(&mut self, change: LatchChange, now_us: u64) {
        match change {
            LatchChange { is_gate: false, .. } => {}
            LatchChange { is_set: true, .. } => self.sets.push(now_us),
            LatchChange { count, .. } => self.counted += count,
        }
    }

    /// A caller learned that the gate is open, after it was set.
    pub(super) fn opened(&self, known: &Known<impl Oracle>) -> Result<(), Fault> {
        let Values { counted, count, .. } = self;
        if let [set_us] = self.sets[..]
            && !known.is_shaken(set_us)
            && counted < count
        {
            return fault(Kind::Latch, format!("it is open after {counted} of {count}"));
        }
        Ok(())
    }

    /// A job begins the work that one does for all.
    pub(super) fn begins(
        &mut self,
        job: usize,
        of: Common,
        since_us: u64,
        Times { polled_us, now_us, .. }: Times,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        self.superseded.remove(&(of, job));
        match self.builders.get(&of).copied().filter(|(other, _)| *other != job) {
            // A job whose own hold a failover may have ended supersedes no other.
            Some(_) if known.is_shaken(since_us) => {}
            before => {
                let before = before.map(|(other, begun_us)| ((of, other), (begun_us, now_us)));
                self.superseded.extend(before);
                self.builders.insert(of, (job, since_us));
            }
        }
        let is_told_late = known.exempt.is(Exempt::Stood, polled_us < now_us);
        if of != Common::Page || is_told_late || known.is_shaken(since_us) {
            return Ok(());
        }
        let is_fresh = known.store.kept_for_us(CACHED).is_some_and(|left| left > self.stale_us);
        let held_us = known.store.held_since_us(PAGE);
        // A job that has lost its lock may have written since.
        if is_fresh && self.written_us < held_us {
            return fault(
                Kind::Rebuilt,
                format!("by job {job}, and it is kept since {:?} us", self.written_us),
            );
        }
        Ok(())
    }

    /// The job goes on with that work.
    pub(super) fn goes_on(
        &self,
        job: usize,
        of: Common,
        Times { polled_us, now_us, .. }: Times,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        let Some((begun_us, other_us)) = self.superseded.get(&(of, job)).copied() else {
            return Ok(());
        };
        if known.exempt.is(Exempt::Stood, polled_us < now_us) {
            return Ok(());
        }
        // The holder notices a forced release when it renews its lease.
        let is_forced = self.forced_us.iter().any(|at_us| (begun_us..=other_us).contains(at_us));
        if known.exempt.is(Exempt::Forced, is_forced) || known.is_shaken(begun_us) {
            return Ok(());
        }
        fault(
            Kind::Exclusion,
            format!("job {job} goes on with {of:?}, and another one has begun it"),
        )
    }

    /// The job has done that work.
    pub(super) fn ends(&mut self, job: usize, of: Common) {
        self.superseded.remove(&(of, job));
        if self.builders.get(&of).is_some_and(|(builder, _)| *builder == job) {
            self.builders.remove(&of);
        }
    }

    pub(super) fn cancelled(&mut self, job: usize) {
        self.superseded.retain(|(_, of), _| *of != job);
        self.builders.retain(|_, (builder, _)| *builder != job);
    }

    pub(super) fn forces(&mut self, now_us: u64) {
        self.forced_us.push(now_us);
    }

    /// A store has accepted a cached value, or its removal.
    pub(in crate::simulation) fn written(&mut self, now_us: u64) {
        self.written_us = Some(now_us);
    }

    /// A caller that asked at `since_us` got a value whose construction began then, by itself or by
    /// another job.
    pub(super) fn got(
        &self,
        node: usize,
        (since_us, built_us, is_own): (u64, u64, bool),
        Times { polled_us, now_us, .. }: Times,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        let is_over =
            |(began_us, ended_us): &&(u64, u64)| *ended_us <= since_us && built_us < *began_us;
        let gone = self.invalidations.iter().find(is_over);
        if let Some((began_us, _)) = gone
            && !known.is_shaken(*began_us)
            && !(self.loses_order && known.is_shaken(built_us))
        {
            let what =
                format!("the value of {built_us} us, which was invalidated at {began_us} us");
            return fault(Kind::Stale, what);
        }
        if is_own || known.exempt.is(Exempt::Stood, polled_us < now_us) || known.is_shaken(since_us)
        {
            return Ok(());
        }
        // A stale one is given out only while another caller builds it anew.
        let left_us = known.store.kept_for_us(CACHED);
        let was_stale =
            left_us.is_some_and(|left_us| left_us + (now_us - since_us) <= self.stale_us);
        let is_busy = |answer: &HolderAnswer| {
            matches!(answer, HolderAnswer::Refused { .. } | HolderAnswer::Queued { .. })
        };
        if was_stale
            && self.written_us < Some(since_us)
            && !known.replies.since(PAGE, node, since_us).any(is_busy)
        {
            return fault(Kind::Stale, format!("of {built_us} us, and nobody builds it anew"));
        }
        Ok(())
    }

    pub(super) fn invalidated(
        &mut self,
        node: usize,
        since_us: u64,
        now_us: u64,
        known: &Known<impl Oracle>,
    ) -> Result<(), Fault> {
        self.invalidations.push((since_us, now_us));
        let is_done = |answer: &HolderAnswer| {
            matches!(answer, HolderAnswer::Accepted | HolderAnswer::Stale { .. })
        };
        if known.replies.since(CACHED, node, since_us).any(is_done) {
            return Ok(());
        }
        fault(Kind::Unanswered, format!("invalidated since {since_us} us, and no store was asked"))
    }
}
