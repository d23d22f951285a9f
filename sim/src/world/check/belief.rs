//! Who is sure that the lock is his, by his own clock (L6).

use super::{Property, Violation};
use crate::world::rare::{Counts, Rare};

/// A client that is inside its own deadline.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) struct Belief {
    pub(in crate::world) client: usize,
    pub(in crate::world) token: u64,
    /// When the latest of its operations was sent that this rests on; true time.
    pub(in crate::world) sent_us: u64,
    /// When its own clock comes to its own deadline; true time.
    pub(in crate::world) until_us: u64,
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

    /// The lock was just granted anew: nobody else may be sure of it.
    pub(super) fn granted(
        &self,
        at_us: u64,
        is_excused: impl Fn(&Belief) -> bool,
        rare: &mut Counts,
    ) -> Result<(), Violation> {
        for belief in self.0.iter().flatten().filter(|belief| at_us < belief.until_us) {
            if is_excused(belief) {
                rare.saw(Rare::TwoHolders);
                continue;
            }
            let Belief { client, token, until_us, .. } = belief;
            return Err(Property::L6.broken(format!(
                "the lock was granted to another one at {at_us} us, while client {client} is sure of token {token} until {until_us} us"
            )));
        }
        Ok(())
    }
}
