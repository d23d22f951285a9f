//! Rare states: a campaign that misses one of them has not looked where bugs are.
//!
//! Their frequencies are those of a million worlds: `lockage-world check --seeds 1000000 --details`.

use std::fmt;

use lockage::locks::Loss;
use lockage_core::{Origin, Verdict};

use super::judge::Seen;
use super::plan::What;

/// Declares the rare states once.
macro_rules! rare {
    ($($state:ident: $one_in:literal, $words:literal;)*) => {
        /// A state that does not occur in every world.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        #[allow(missing_docs)] // see `words`
        pub enum Rare {
            $($state),*
        }

        impl Rare {
            /// All rare states.
            pub const ALL: &[Rare] = &[$(Rare::$state),*];

            /// Returns its description.
            pub fn words(self) -> &'static str {
                match self {
                    $(Rare::$state => $words),*
                }
            }

            /// Returns in one of how many worlds it occurs.
            pub fn one_in(self) -> u64 {
                match self {
                    $(Rare::$state => $one_in),*
                }
            }
        }
    };
}

rare! {
    Crash: 9, "a process crashes while it has tasks";
    DiedInStep: 30, "a process dies between two of its tasks";
    RuntimeEnded: 20, "a runtime ends while it has tasks, and its process goes on";
    RuntimeBlocked: 25, "the thread of a runtime with tasks is blocked";
    Moved: 26, "a holder leaves the runtime of its acquire for another one";
    Outlived: 200, "a runtime ends whose grants are held on another one";
    LeftBlocked: 370, "the thread of a runtime is blocked whose grants are held on another one";
    ObserverPanicked: 12, "an observer panics";
    StoodStillInStep: 11, "a process stands still within a step";
    Failover: 17, "a replica takes over that lags behind";
    OldPrimary: 110, "an old primary answers after another one has taken over";
    Evicted: 55, "the store evicts a key of locks";
    ClockAhead: 33, "the clock of the store is set ahead";
    ClockBack: 33, "the clock of the store is set back";
    Dropped: 2, "the future of a job is dropped";
    LeftSharedCall: 51, "a caller is dropped, and others share its call or wait for it";
    LateCall: 3, "a call arrives for which nobody waits any more";
    Twice: 13, "a request arrives twice";
    Stuck: 54, "an acquire arrives long after its caller gave it up";
    RenewalRacesRelease: 80, "a renewal arrives after the release that was sent later";
    ManagerDropped: 44, "the last handle of locks is dropped right after their guard";
    ManagerClosed: 93, "locks are closed while their guard is there";
    Expired: 190, "a holder learns that its lease has ended";
    Refused: 600, "a holder learns that the store knows of no such grant";
    HeldTooLong: 94, "a holder has held for as long as it may";
    Quorum: 38, "a majority of servers grants a lock";
    Many: 20, "several locks are held together";
    StaleWrite: 9000, "a value refuses what an older grant writes";
    DeniedHere: 17, "a deny cache answers";
    HeldBack: 35, "a request is denied because others wait in line";
    SpentAhead: 38, "a permit is spent that was taken ahead";
    FallbackAdmits: 63, "the fallback admits";
    FallbackDenies: 73, "the fallback denies";
    Shadow: 150, "shadow mode lets a denied request through";
    Settled: 29, "a reservation is settled";
    Changed: 5, "what is charged, or the limit, is changed";
    RanOnce: 10, "work that runs once has a result";
    Opened: 11, "a latch opens";
    ForgottenChange: 100, "a latch refuses a copy of a change that it has forgotten";
    Got: 9, "a value is given out that one builds for all";
    Invalidated: 12, "a value is invalidated";
    NoScript: 14, "a server has lost a script";
    Redirected: 130, "a slot is with another node";
    BatchCut: 190, "a part of a batch is not done";
    Reconnected: 20, "a connection is made anew";
    Resubscribed: 130, "a subscription is renewed";
    CheckFailed: 35, "a connection that was idle, or in doubt, fails its check";
}

/// How many occurrences of a state are expected where none is missed by chance: the chance for one
/// state is e^-18, and for all together below one in a million.
const CERTAIN: u64 = 18;

/// How often each state occurred, or in how many worlds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts([u64; Rare::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Counts([0; Rare::ALL.len()])
    }
}

impl Counts {
    pub(super) fn saw(&mut self, rare: Rare) {
        self.0[rare as usize] += 1;
    }

    /// Takes note of a report of a program.
    pub(super) fn saw_all(&mut self, seen: &Seen) {
        let rare = match seen {
            Seen::Decided { decision, .. } => match (decision.origin, decision.verdict) {
                _ if decision.shadow.is_some() => Rare::Shadow,
                (Origin::DenyCache, Verdict::Denied { .. }) => Rare::DeniedHere,
                (Origin::Prefetch, _) => Rare::SpentAhead,
                (Origin::Line, _) => Rare::HeldBack,
                (Origin::Fallback, Verdict::Allowed) => Rare::FallbackAdmits,
                (Origin::Fallback, _) => Rare::FallbackDenies,
                _ => return,
            },
            Seen::Holds { what: What::Quorum, .. } => Rare::Quorum,
            Seen::Holds { what: What::Both, .. } => Rare::Many,
            Seen::Wrote { is_accepted: false, .. } => Rare::StaleWrite,
            Seen::Settled { .. } => Rare::Settled,
            Seen::Changed { .. } => Rare::Changed,
            Seen::ObserverPanicked => Rare::ObserverPanicked,
            Seen::DroppedLocks => Rare::ManagerDropped,
            Seen::ClosedLocks { .. } => Rare::ManagerClosed,
            Seen::Lost { loss: Loss::Refused(_), .. } => Rare::Refused,
            Seen::Lost { loss: Loss::HeldTooLong, .. } => Rare::HeldTooLong,
            Seen::Lost { .. } => Rare::Expired,
            Seen::Result { .. } => Rare::RanOnce,
            Seen::Opened => Rare::Opened,
            Seen::Got { .. } => Rare::Got,
            Seen::Invalidated { .. } => Rare::Invalidated,
            _ => return,
        };
        self.saw(rare);
    }

    /// Returns the count of a state.
    pub fn of(&self, rare: Rare) -> u64 {
        self.0[rare as usize]
    }

    /// Counts a world for each state that occurred in it.
    pub(super) fn add_world(&mut self, world: &Counts) {
        self.0.iter_mut().zip(world.0).for_each(|(own, world)| *own += world.min(1));
    }

    /// Adds the counts of other worlds.
    pub(super) fn add(&mut self, other: &Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }

    /// Returns the states that never occurred.
    pub fn never(&self) -> impl Iterator<Item = Rare> {
        Rare::ALL.iter().copied().filter(|rare| self.of(*rare) == 0)
    }

    /// Returns the states that never occurred, although this many worlds reach them but for less
    /// than one chance in a million.
    pub fn missed(&self, worlds: u64) -> Vec<Rare> {
        self.never().filter(|rare| worlds / rare.one_in() >= CERTAIN).collect()
    }
}

/// Displays in how many worlds each state occurred, and in one of how many it usually does.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Rare::ALL.iter().copied().try_for_each(|rare| {
            let (count, one_in, words) = (self.of(rare), rare.one_in(), rare.words());
            writeln!(f, "{count:>9} worlds, usually one in {one_in:>4}: {words}")
        })
    }
}
