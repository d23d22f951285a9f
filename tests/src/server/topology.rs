//! A node's view of all nodes of a cluster.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A line of CLUSTER NODES.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) id: String,
    flags: Vec<String>,
    /// The id of a replica's master.
    master: Option<String>,
    linked: bool,
    slots: Vec<RangeInclusive<u16>>,
    /// The slots that it is giving away, and the receivers.
    pub(super) migrating: Vec<(u16, String)>,
}

impl Node {
    /// Reads the reply to CLUSTER NODES.
    pub(super) fn read_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::read).collect()
    }

    // id address flags master ping pong epoch link slot...
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, _, flags, master, _, _, _, link, slots @ ..] = words.as_slice() else {
            return None;
        };
        let migrating = slots.iter().filter_map(|slot| {
            let (slot, id) = slot.strip_prefix('[')?.strip_suffix(']')?.split_once("->-")?;
            Some((slot.parse().ok()?, id.to_owned()))
        });
        let ranges = slots.iter().filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        });
        Some(Self {
            id: (*id).to_owned(),
            flags: flags.split(',').map(str::to_owned).collect(),
            master: Some((*master).to_owned()).filter(|id| id != "-"),
            linked: *link == "connected",
            slots: ranges.collect(),
            migrating: migrating.collect(),
        })
    }

    pub(super) fn is_master(&self) -> bool {
        self.has_flag("master")
    }

    pub(super) fn is_replica_of(&self, master: &str) -> bool {
        self.master.as_deref() == Some(master)
    }

    pub(super) fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    pub(super) fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Returns whether the node that was asked knows and reaches it.
    pub(super) fn is_reached(&self) -> bool {
        let bad = ["fail", "fail?", "handshake", "noaddr"].iter().any(|flag| self.has_flag(flag));
        self.has_flag("myself") || (self.linked && !bad)
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

/// Returns which node has which slots, and which is a replica of which: equal where two nodes agree.
pub(super) fn roles(nodes: &[Node]) -> BTreeMap<&str, (Option<&str>, &[RangeInclusive<u16>])> {
    nodes
        .iter()
        .map(|node| (node.id.as_str(), (node.master.as_deref(), node.slots.as_slice())))
        .collect()
}
