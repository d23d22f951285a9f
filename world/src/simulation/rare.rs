//! Rare states: a campaign that never comes to one of them has not looked where bugs are.

use std::fmt;

use lockage::locks::Loss;
use lockage_core::{Origin, Verdict};

use super::judge::Seen;
use super::plan::What;

/// Declares them once.
macro_rules! rare {
    ($($state:ident: $words:literal),* $(,)?) => {
        /// A state that does not come about in every world.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        #[allow(missing_docs)] // see `words`
        pub enum Rare {
            $($state),*
        }

        impl Rare {
            /// All of them.
            pub const ALL: &[Rare] = &[$(Rare::$state),*];

            /// What it is, in words.
            pub fn words(self) -> &'static str {
                match self {
                    $(Rare::$state => $words),*
                }
            }
        }
    };
}

rare! {
    Crash: "a process crashes while it has tasks",
    DiedInStep: "a process dies between two of its tasks",
    StoodStillInStep: "a process stands still within a step",
    Failover: "a replica takes over that lags behind",
    OldPrimary: "an old primary answers after another one has taken over",
    ClockAhead: "the clock of the store is set ahead",
    ClockBack: "the clock of the store is set back",
    Dropped: "the future of a job is dropped",
    LeftSharedCall: "a caller is dropped, and others share its call or wait for it",
    LateCall: "a call arrives for which nobody waits any more",
    Twice: "a request arrives twice",
    Stuck: "an acquire arrives long after its caller gave it up",
    RenewalRacesRelease: "a renewal arrives after the release that was sent later",
    ManagerDropped: "the last handle of locks is dropped right after their guard",
    ManagerClosed: "locks are closed while their guard is there",
    Expired: "a holder learns that its lease has ended",
    Refused: "a holder learns that the store knows of no such grant",
    HeldTooLong: "a holder has held for as long as it may",
    Quorum: "a majority of servers grants a lock",
    Many: "several locks are held together",
    StaleWrite: "a value refuses what an older grant writes",
    DeniedHere: "a deny cache answers",
    SpentAhead: "a permit is spent that was taken ahead",
    FallbackAdmits: "the fallback admits",
    FallbackDenies: "the fallback denies",
    Shadow: "shadow mode lets a denied request through",
    Settled: "a reservation is settled",
    Changed: "what is charged, or the limit, is changed",
    RanOnce: "work that runs once has a result",
    Opened: "a latch opens",
    Got: "a value is given out that one builds for all",
    Invalidated: "a value is invalidated",
}

/// How often each came about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Rare::ALL.len()]);

impl Counts {
    pub(super) fn saw(&mut self, rare: Rare) {
        self.0[rare as usize] += 1;
    }

    /// Takes note of what a program was told.
    pub(super) fn saw_all(&mut self, seen: &Seen) {
        let rare = match seen {
            Seen::Decided { decision, .. } => match (decision.origin, decision.verdict) {
                _ if decision.shadow.is_some() => Rare::Shadow,
                (Origin::DenyCache, Verdict::Denied { .. }) => Rare::DeniedHere,
                (Origin::Prefetch, _) => Rare::SpentAhead,
                (Origin::Fallback, Verdict::Allowed) => Rare::FallbackAdmits,
                (Origin::Fallback, _) => Rare::FallbackDenies,
                _ => return,
            },
            Seen::Holds { what: What::Quorum, .. } => Rare::Quorum,
            Seen::Holds { what: What::Both, .. } => Rare::Many,
            Seen::Wrote { is_accepted: false, .. } => Rare::StaleWrite,
            Seen::Settled { .. } => Rare::Settled,
            Seen::Changed => Rare::Changed,
            Seen::DroppedLocks => Rare::ManagerDropped,
            Seen::ClosedLocks => Rare::ManagerClosed,
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

    /// Returns how often.
    pub fn of(&self, rare: Rare) -> u64 {
        self.0[rare as usize]
    }

    /// Adds what another world has come to.
    pub fn add(&mut self, other: &Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }

    /// Returns what never came about.
    pub fn never(&self) -> Vec<Rare> {
        Rare::ALL.iter().copied().filter(|rare| self.of(*rare) == 0).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Rare::ALL.iter().copied().try_for_each(|rare| {
            let (count, words) = (self.of(rare), rare.words());
            writeln!(f, "{count:>9}  {words}")
        })
    }
}
