//! The check that callers of shared calls wait for nothing else, as far as it shows from outside of
//! a node at rest.

use std::collections::BTreeSet;

use super::host::Out;
use super::jobs::IDS;
use super::judge::{Fault, Kind, Seen, fault};
use super::plan::{Verb, Work};
use super::play::World;
use super::wire::{OF_LOOKS, limiter_of};

impl World<'_> {
    /// Checks the messages and reports of a node from one step.
    pub(super) fn is_prompt(
        &self,
        node: usize,
        out: &[Out],
        has_dropped: bool,
    ) -> Result<(), Fault> {
        // A blocked task gives up nothing.
        if self.nodes[node].unblocked_us().is_none() && self.is_abandoned(node) {
            return fault(Kind::Abandoned, format!("nobody on node {node} waits for it"));
        }
        // Other limits of an id have calls of their own, one after the other.
        if has_dropped || self.plan.asks(|verb| verb == Verb::Under) {
            return Ok(());
        }
        let mut alone = BTreeSet::new();
        for out in out {
            match out {
                Out::Saw { seen: Seen::Alone { id }, .. } => _ = alone.insert(*id),
                Out::Saw { seen: Seen::Decided { id, .. }, .. } => _ = alone.remove(id),
                Out::Saw { seen: Seen::Failed { .. }, .. } => alone.clear(),
                Out::Called { limiters } => alone.retain(|id| !limiters.contains(id)),
                Out::Request { key, .. } => _ = limiter_of(key).map(|id| alone.remove(&id)),
                _ => {}
            }
        }
        // A call of several ids goes on for the others, also once all who asked for this one have left.
        let goes_on =
            |id: &usize| self.nodes[node].host.calls_with(*id, |other| self.is_called(node, other));
        // Two calls fill the room of batches.
        let calls = |id: usize| self.nodes[node].host.calls_any(|called| called == id);
        let is_full = |id: &usize| {
            self.plan.options.batches
                && calls(OF_LOOKS)
                && (0..IDS.len()).any(|other| other != *id && calls(other))
        };
        match alone.iter().find(|id| !goes_on(id) && !is_full(id)) {
            Some(id) => fault(Kind::Unsent, format!("one for `{}` of node {node}", IDS[*id])),
            None => Ok(()),
        }
    }

    /// Returns whether a call of a limiter goes on although no caller waits for it.
    fn is_abandoned(&self, node: usize) -> bool {
        let is_called = |id: usize| self.is_called(node, id);
        // A call of several ids goes on while any of its callers waits, also one that looks at another id.
        let is_any_called = self.plan.options.batches
            && ((0..IDS.len()).any(is_called) || self.lives[node].is_coalescing());
        !self.is_probed && !is_any_called && self.nodes[node].host.calls_any(|id| !is_called(id))
    }

    /// Returns whether a caller on a node waits for a decision of this limiter.
    fn is_called(&self, node: usize, id: usize) -> bool {
        if id == OF_LOOKS {
            return true;
        }
        let calls_itself = |job: usize| match self.plan.jobs.get(job).map(|job| job.work) {
            Some(Work::Ask { verb: Verb::Acquire { .. }, second: None, .. }) => false,
            Some(Work::Ask { verb: Verb::Acquire { .. }, .. }) if self.plan.options.batches => true,
            Some(Work::Ask { verb: Verb::All { .. }, .. }) => true,
            Some(Work::Ask { id: asked, .. }) => asked == id,
            _ => false,
        };
        self.lives[node].is_sharing(id) || self.nodes[node].runs(calls_itself)
    }
}
