//! The judge of lines: callers are admitted in their order.

use std::collections::{BTreeMap, BTreeSet};

use super::kind::{Fault, Kind, fault};
use crate::simulation::jobs::IDS;
use crate::simulation::plan::{Options, Plan, Verb, Work};

/// The lines of each life of a node, by id.
pub(super) struct Lines {
    /// Whether only callers in line take permits, each asks as soon as its turn comes, and no clock
    /// errs: only then are there no two calls in flight of which the first may be denied.
    is_order_sure: bool,
    lines: BTreeMap<(usize, u32, usize), InLine>,
}

#[derive(Default)]
struct InLine {
    waiting: BTreeSet<usize>,
    /// The callers that were admitted while earlier ones waited, and when.
    admitted: Vec<(usize, u64)>,
}

impl Lines {
    pub(super) fn new(plan: &Plan) -> Self {
        let waits = |work| matches!(work, Work::Ask { verb: Verb::Acquire { wait_us: 1.. }, .. });
        let options = Options { deny_cache: false, ..plan.options };
        let is_order_sure = plan.is_calm()
            && plan.ppm == [0]
            && plan.network.least_us == plan.network.most_us
            && options == Options::default()
            && plan.works().all(waits);
        Lines { is_order_sure, lines: BTreeMap::new() }
    }

    pub(super) fn joins(&mut self, line: (usize, u32, usize), caller: usize) {
        self.lines.entry(line).or_default().waiting.insert(caller);
    }

    /// A request was denied because others wait.
    pub(super) fn is_there(&self, line: (usize, u32, usize)) -> Result<(), Fault> {
        match self.lines.get(&line).is_some_and(|line| !line.waiting.is_empty()) {
            true => Ok(()),
            false => fault(Kind::FalseDenial, format!("nobody waits for `{}`", IDS[line.2])),
        }
    }

    pub(super) fn leaves(
        &mut self,
        line: (usize, u32, usize),
        caller: usize,
        is_admitted: bool,
        now_us: u64,
    ) -> Result<(), Fault> {
        let InLine { waiting, admitted } = self.lines.entry(line).or_default();
        waiting.remove(&caller);
        let overtakes = |&&(other, at_us): &&(usize, u64)| other > caller && at_us < now_us;
        if let Some((other, at_us)) = admitted.iter().find(overtakes)
            && self.is_order_sure
        {
            let id = IDS[line.2];
            let what = format!("caller {other} for `{id}` at {at_us} us, and {caller} waits on");
            return fault(Kind::Overtaken, what);
        }
        if is_admitted {
            admitted.push((caller, now_us));
        }
        let first = waiting.first().copied();
        admitted.retain(|(other, _)| first.is_some_and(|first| first < *other));
        Ok(())
    }
}
