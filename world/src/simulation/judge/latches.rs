//! The counts of latches in stores, beside those that their callers have asked for.

use std::collections::BTreeMap;

use lockage_core::{AnyCommand, Command, ScriptId};
use serde::{Deserialize, Serialize};

use super::Life;
use super::exempt::{Exempt, Exemptions};
use super::kind::{Fault, Kind, fault};

/// A latch is closed, or counted down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // each is what it is called
pub struct LatchChange {
    pub is_gate: bool,
    pub is_set: bool,
    pub count: u64,
}

impl LatchChange {
    /// Returns the id of a command that changes a latch, and what it changes.
    fn of(command: &AnyCommand, is_gate: bool) -> Option<(Vec<u8>, LatchChange)> {
        let call = command.encode_text();
        let is_set = match call.script() {
            ScriptId::LatchSet => true,
            ScriptId::LatchCountDown => false,
            _ => return None,
        };
        let mut words = call.arguments();
        let (id, count) = (words.next()?.to_vec(), std::str::from_utf8(words.next()?).ok()?);
        Some((id, LatchChange { is_gate, is_set, count: count.parse().ok()? }))
    }
}

/// A process, and whether it sets or counts down which latch.
type Kept = (Life, bool, bool);

#[derive(Default)]
pub(in crate::simulation) struct Latches {
    /// When a store has made each change, by its id.
    made: BTreeMap<Vec<u8>, u64>,
    /// The counts that callers have asked for, without those that are not done, and the stores' counts.
    asked: BTreeMap<Kept, u64>,
    changed: BTreeMap<Kept, u64>,
}

impl Latches {
    pub(super) fn asks(&mut self, life: Life, change: LatchChange) {
        *self.asked.entry((life, change.is_gate, change.is_set)).or_default() += change.count;
    }

    /// A caller was told that this is not done, then or later.
    pub(super) fn not_done(&mut self, life: Life, change: LatchChange) -> Result<(), Fault> {
        let of = (life, change.is_gate, change.is_set);
        *self.asked.entry(of).or_default() -= change.count;
        self.adds_up(of)
    }

    /// Whether a store has made this change: what is sent of it from now on is a copy.
    pub(in crate::simulation) fn has_made(&self, command: &AnyCommand) -> bool {
        LatchChange::of(command, true).is_some_and(|(id, _)| self.made.contains_key(&id))
    }

    /// A store has changed a latch for a process (L2, L10).
    pub(in crate::simulation) fn made(
        &mut self,
        (life, is_gate): (Life, bool),
        command: &AnyCommand,
        now_us: u64,
        (shaken_us, exempt): (Option<u64>, &Exemptions),
    ) -> Result<(), Fault> {
        let Some((id, change)) = LatchChange::of(command, is_gate) else { return Ok(()) };
        if let Some(made_us) = self.made.insert(id, now_us) {
            // A failover has forgotten it, or a clock that was set how long a copy may come.
            let is_shaken = shaken_us.is_some_and(|shaken_us| made_us <= shaken_us);
            if exempt.is(Exempt::Shaken, is_shaken) {
                return Ok(());
            }
            return fault(Kind::ChangedTwice, format!("{change:?} at {made_us} us, and now"));
        }
        let of = (life, is_gate, change.is_set);
        *self.changed.entry(of).or_default() += change.count;
        self.adds_up(of)
    }

    fn adds_up(&self, of: Kept) -> Result<(), Fault> {
        let [asked, changed] = [&self.asked, &self.changed].map(|it| it.get(&of).copied());
        let (asked, changed) = (asked.unwrap_or_default(), changed.unwrap_or_default());
        if changed <= asked {
            return Ok(());
        }
        let what = if of.2 { "set" } else { "counted down" };
        fault(Kind::ChangedTwice, format!("{changed} are {what}, of {asked} by process {:?}", of.0))
    }
}
