//! Small worlds that are searched completely.

use std::time::Duration;

use lockage_core::lock::Lock;

/// The bounds of a search, which covers everything that can happen within them: each message
/// arrives never, once or repeatedly, in any order, for as long as it is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The name of the scope.
    pub name: &'static str,
    /// A description of the scope.
    pub about: &'static str,
    /// The number of owners that want the lock.
    pub owners: usize,
    /// The number of operations that each owner sends at most.
    pub operations: u8,
    /// The last tick.
    pub ticks: u64,
    /// How many ticks a lease lasts.
    pub lease: u64,
    /// How many ticks before the lease an owner's own deadline is, by its own clock.
    pub margin: u64,
    /// For how many ticks a message can be under way; operations are remembered for one more.
    pub delay: u64,
    /// For how many ticks after it is sent an acquire may run.
    pub patience: u64,
    /// The optional operations of owners, besides acquire and release.
    pub allowed: &'static [Allowed],
    /// How often the store goes back to the state of a replica.
    pub failovers: u8,
    /// Whether the search takes longer than some seconds.
    pub is_large: bool,
}

/// An optional operation of owners, besides acquire and release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Owners acquire the lock again while they hold it.
    Reentry,
    /// Owners renew their leases.
    Renew,
    /// Owners ask for the outcome of an unanswered acquire, and release its hold.
    Settle,
    /// Owners break the hold of another owner.
    ForceRelease,
    /// Owners wait in line, with places of two ticks, and leave it.
    Line,
}

/// How many ticks an owner's clock falls behind the store's during a lease, at most.
pub const DRIFT: u64 = 1;
/// For how many ticks a place in line lasts at least.
pub const SPAN: u64 = 2;

impl Scope {
    /// Returns the scopes of the command, the small ones first.
    pub fn all() -> Vec<Scope> {
        use Allowed::*;
        let pair = Scope {
            name: "pair",
            about: "two owners acquire, renew and release",
            owners: 2,
            operations: 2,
            ticks: 5,
            lease: 2,
            margin: DRIFT,
            delay: 2,
            patience: 1,
            allowed: &[Renew],
            failovers: 0,
            is_large: false,
        };
        let reentry = Scope {
            name: "reentry",
            about: "two owners, who also take it again",
            allowed: &[Reentry],
            ..pair.clone()
        };
        let settle = Scope {
            name: "settle",
            about: "two owners, who give back what an unanswered acquire took",
            allowed: &[Settle],
            ..pair.clone()
        };
        let force = Scope {
            name: "force",
            about: "two owners, who also break each other's grant",
            allowed: &[ForceRelease],
            ..pair.clone()
        };
        let failover = Scope {
            name: "failover",
            about: "two owners, and a replica that lags takes over",
            operations: 1,
            failovers: 1,
            ..pair.clone()
        };
        let line = Scope {
            name: "line",
            about: "three owners wait in line",
            owners: 3,
            operations: 1,
            allowed: &[Line],
            ..pair.clone()
        };
        // Scopes with longer leases, and with longer delays of messages.
        let longer =
            Scope { ticks: 6, lease: 3, delay: 3, patience: 2, is_large: true, ..pair.clone() };
        let long_pair = Scope { name: "long-pair", ..longer.clone() };
        let long_settle =
            Scope { name: "long-settle", about: settle.about, allowed: settle.allowed, ..longer };
        let three = Scope {
            name: "three",
            about: "three owners acquire and release",
            owners: 3,
            ticks: 4,
            delay: 1,
            patience: 0,
            allowed: &[],
            is_large: true,
            ..pair.clone()
        };
        let lossy = Scope {
            name: "lossy",
            about: "two owners acquire, renew and release, and the replica takes over",
            operations: 2,
            is_large: true,
            ..failover.clone()
        };
        let small = [pair, reentry, settle, force, failover, line];
        small.into_iter().chain([long_pair, long_settle, three, lossy]).collect()
    }

    /// Returns the lock of the scope.
    pub fn lock(&self) -> Lock {
        let micros = Duration::from_micros;
        Lock::new(micros(self.lease), micros(self.delay + 1)).expect("a few ticks are in range")
    }

    /// Returns whether owners may do this in the scope.
    pub fn allows(&self, what: Allowed) -> bool {
        self.allowed.contains(&what)
    }

    /// Returns the last tick until which an owner may count on a request sent at this tick: its own
    /// deadline, by the slowest clock that is allowed.
    pub fn believed_until(&self, sent: u64) -> u64 {
        sent + self.lease - self.margin + DRIFT
    }
}
