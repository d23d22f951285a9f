//! What of a lock has ended of which its holder does not know: lost by a failover, or freed by
//! force.

use std::collections::BTreeSet;

use lockage_oracle::lock::laws::Laws;

use super::super::Belief;

/// Which holds, each with the token of its grant: the next grant after a failover can have the
/// token of the lost one.
#[derive(Clone, Debug, Default)]
pub(super) struct Torn {
    /// All that were ever acquired.
    ever: BTreeSet<(u128, u64)>,
    /// The grant of this token has lost a hold.
    shaken: Option<u64>,
    torn: BTreeSet<(u128, u64)>,
}

impl Torn {
    pub(super) fn acquired(&mut self, id: Option<u128>, token: u64) {
        let Some(id) = id else { return };
        self.ever.insert((id, token));
        self.torn.remove(&(id, token));
    }

    pub(super) fn was_acquired(&self, id: Option<u128>) -> bool {
        id.is_some_and(|id| self.ever.range((id, 0)..=(id, u64::MAX)).next().is_some())
    }

    pub(super) fn freed(&mut self, id: u128, token: u64) {
        self.torn.insert((id, token));
    }

    /// Whether this grant or a hold of it was lost by a failover, or it was freed by force.
    pub(super) fn has(&self, belief: &Belief) -> bool {
        self.shaken == Some(belief.token)
            || self.torn.contains(&(belief.hold.as_u128(), belief.token))
    }

    /// A replica took over, which knows of this grant and not of all that was known before.
    pub(super) fn follow(&mut self, before: &Torn, laws: &Laws) {
        self.shaken = before.shaken;
        self.torn.clone_from(&before.torn);
        if let Some(grant) = laws.latest() {
            // What was freed since then is held again.
            self.torn.retain(|(id, token)| *token != grant.token || !laws.holds().contains(id));
        }
    }

    /// Another primary has this one's grant, too, if any, with other holds: who adds them up is
    /// wrong. What it alone has granted is lost.
    pub(super) fn compare(&mut self, other: &Torn, mine: &Laws, theirs: &Laws) {
        self.torn.extend(other.ever.difference(&self.ever));
        if let (Some(grant), Some(their)) = (mine.latest(), theirs.latest())
            && grant.token == their.token
            && mine.holds() != theirs.holds()
        {
            self.shaken = Some(grant.token);
        }
    }
}
