//! Values behind locks: fenced ones, results, cached ones, and the latch.

use std::collections::BTreeMap;

use super::{Fault, Kind, fault};
use crate::simulation::plan::Plan;

pub(super) struct Values {
    /// The newest token that was accepted, and the newest that was written with.
    newest: u64,
    newest_tried: u64,
    /// The newest accepted token when each job began to write.
    writes: BTreeMap<usize, u64>,
    result: Option<String>,
    count: u64,
    sets: u32,
    counted: u64,
    /// When invalidations began and ended.
    invalidations: Vec<(u64, u64)>,
}

impl Values {
    pub(super) fn new(plan: &Plan) -> Self {
        Values {
            newest: 0,
            newest_tried: 0,
            writes: BTreeMap::new(),
            result: None,
            count: plan.count,
            sets: 0,
            counted: 0,
            invalidations: Vec::new(),
        }
    }

    pub(super) fn writes(&mut self, job: usize, token: u64) {
        self.newest_tried = self.newest_tried.max(token);
        self.writes.insert(job, self.newest);
    }

    /// L7, for writes that do not overlap.
    pub(super) fn wrote(
        &mut self,
        job: usize,
        token: u64,
        is_accepted: bool,
        shaken_us: Option<u64>,
    ) -> Result<(), Fault> {
        let before = self.writes.remove(&job).unwrap_or_default();
        if shaken_us.is_some() {
            return Ok(());
        }
        if is_accepted && token < before {
            return fault(Kind::Fencing, format!("token {token} is accepted after {before}"));
        }
        if !is_accepted && token >= self.newest_tried {
            return fault(Kind::Fencing, format!("token {token} is refused, and none is newer"));
        }
        if is_accepted {
            self.newest = self.newest.max(token);
        }
        Ok(())
    }

    pub(super) fn result(&mut self, result: String, shaken_us: Option<u64>) -> Result<(), Fault> {
        let first = self.result.get_or_insert_with(|| result.clone());
        if *first != result && shaken_us.is_none() {
            return fault(Kind::RanTwice, format!("`{first}` and `{result}`"));
        }
        Ok(())
    }

    pub(super) fn sets_latch(&mut self) {
        self.sets += 1;
    }

    pub(super) fn counts_down(&mut self, count: u64) {
        self.counted += count;
    }

    /// Somebody was told that the latch is open, after it was set.
    pub(super) fn opened(&self, shaken_us: Option<u64>) -> Result<(), Fault> {
        let Values { counted, count, .. } = self;
        if self.sets == 1 && shaken_us.is_none() && counted < count {
            return fault(Kind::Latch, format!("it is open after {counted} of {count}"));
        }
        Ok(())
    }

    pub(super) fn got(
        &self,
        since_us: u64,
        built_us: u64,
        shaken_us: Option<u64>,
    ) -> Result<(), Fault> {
        let is_over =
            |(began_us, ended_us): &&(u64, u64)| *ended_us <= since_us && built_us < *began_us;
        match self.invalidations.iter().find(is_over) {
            Some((began_us, _)) if shaken_us.is_none() => fault(
                Kind::Stale,
                format!("the value of {built_us} us, which was invalidated at {began_us} us"),
            ),
            _ => Ok(()),
        }
    }

    pub(super) fn invalidated(&mut self, since_us: u64, now_us: u64) {
        self.invalidations.push((since_us, now_us));
    }
}
