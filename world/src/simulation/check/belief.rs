//! Which holders are sure of their holds, by their own clocks (L6).

use lockage_core::lock::{HoldId, OwnerId};

use super::{Property, Violation};
use crate::simulation::coverage::{Counts, Coverage};

/// A client that is inside its own deadline.
#[derive(Clone, Copy, Debug)]
pub(in crate::simulation) struct Belief {
    pub(in crate::simulation) client: usize,
    pub(in crate::simulation) owner: OwnerId,
    pub(in crate::simulation) token: u64,
    /// The first of its holds: after a failover another grant can have the same token.
    pub(in crate::simulation) hold: HoldId,
    /// How much of what can be held together.
    pub(in crate::simulation) weight: u64,
    /// When the latest of its operations was sent that this rests on; true time.
    pub(in crate::simulation) sent_us: u64,
    /// When its own clock comes to its own deadline; true time.
    pub(in crate::simulation) until_us: u64,
}

#[derive(Debug)]
pub(super) struct Beliefs(Vec<Option<Belief>>);

impl Beliefs {
    pub(super) fn new(clients: usize) -> Self {
        Beliefs(vec![None; clients])
    }

    pub(super) fn begin(&mut self, belief: Belief) {
        self.0[belief.client] = Some(belief);
    }

    pub(super) fn end(&mut self, client: usize) {
        self.0[client] = None;
    }

    /// So much was just granted anew: those who are sure of theirs must leave room for it, but for those who are
    /// `beside` it.
    pub(super) fn granted(
        &self,
        (weight, capacity): (u64, u64),
        at_us: u64,
        is_beside: impl Fn(&Belief) -> bool,
        is_excused: impl Fn(&Belief) -> bool,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        let counts = |belief: &&Belief| at_us < belief.until_us && !is_beside(belief);
        let sure = || self.0.iter().flatten().filter(counts);
        let sum = |beliefs: &mut dyn Iterator<Item = &Belief>| {
            weight + beliefs.map(|belief| belief.weight).sum::<u64>()
        };
        if sum(&mut sure()) <= capacity {
            return Ok(());
        }
        if sum(&mut sure().filter(|belief| !is_excused(belief))) <= capacity {
            rare.saw(Coverage::TwoHolders);
            return Ok(());
        }
        let names: Vec<String> = sure()
            .map(|Belief { client, token, until_us, .. }| {
                format!("client {client} is sure of token {token} until {until_us} us")
            })
            .collect();
        let names = names.join(", ");
        Err(Property::L6.broken(format!("it was granted at {at_us} us, while {names}")))
    }
}
