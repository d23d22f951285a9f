//! The exemptions from judgement, and their frequencies: an exemption that always applies would
//! switch the judge off.

use std::cell::Cell;
use std::fmt;

/// Declares the exemptions once: each with its reason, and the span that it covers.
macro_rules! exemptions {
    ($($exempt:ident: $words:literal;)*) => {
        /// A reason not to judge an answer, a span or a wait.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        #[allow(missing_docs)] // see `words`
        pub enum Exempt {
            $($exempt),*
        }

        impl Exempt {
            /// All exemptions.
            pub const ALL: &[Exempt] = &[$(Exempt::$exempt),*];

            /// Returns its reason and its span, in words.
            pub fn words(self) -> &'static str {
                match self {
                    $(Exempt::$exempt => $words),*
                }
            }
        }
    };
}

exemptions! {
    Shaken: "it began before the end of a failover, or before the store's clock was set";
    ChangedSince: "D1: something was given back, or the limit changed, since a cached denial: another process cannot know";
    StoodStill: "D1: a process stood still between a cached denial and its caller: judged by its age alone";
    KeyForgotten: "E1 to E8: a key was forgotten by a failover or a clock that was set, or was adjusted before or while its clock was set back: it is charged anew from there";
    IdsForgotten: "D11: within two timeouts after ids were forgotten, or while those wait that waited then, or went on after a fallback's denial";
    CircuitUnseen: "D17: the fallback answers where not all calls are seen that its circuit breaker counts";
    StandsStill: "D10: a call took long in a world in which processes stand still";
    LimitOfShare: "a fallback's share of a limit that is stored, or not the plan's";
    ReservationForgotten: "D15: a reset, or another limit, has forgotten a reservation since it was made";
    Stood: "its process stood still meanwhile, or within the step in which it was told";
    Blocked: "its runtime was blocked within a lease before";
    NoTask: "no task of its locks was left in its process, or one that may have begun the release is blocked";
    Unwell: "something goes wrong that delays those that wait: until all is well, and a few polls later";
    Forced: "its lock was freed by force meanwhile, which it learns with its next renewal";
}

/// How often each exemption applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemptions([Cell<u64>; Exempt::ALL.len()]);

impl Default for Exemptions {
    fn default() -> Self {
        Exemptions([const { Cell::new(0) }; Exempt::ALL.len()])
    }
}

impl Exemptions {
    /// Returns whether an exemption applies, and counts it if so.
    pub(super) fn is(&self, exempt: Exempt, is_in_force: bool) -> bool {
        let times = &self.0[exempt as usize];
        times.set(times.get() + u64::from(is_in_force));
        is_in_force
    }

    /// Returns how often an exemption applied.
    pub fn of(&self, exempt: Exempt) -> u64 {
        self.0[exempt as usize].get()
    }

    /// Returns how often any exemption applied.
    pub fn all(&self) -> u64 {
        Exempt::ALL.iter().map(|exempt| self.of(*exempt)).sum()
    }

    /// Adds the exemptions of other worlds.
    pub(in crate::simulation) fn add(&self, other: &Exemptions) {
        self.0.iter().zip(&other.0).for_each(|(own, other)| own.set(own.get() + other.get()));
    }
}

/// Displays each exemption with the number of cases that it kept from judgement.
impl fmt::Display for Exemptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Exempt::ALL.iter().copied().try_for_each(|exempt| {
            writeln!(f, "{:>9} not judged: {}", self.of(exempt), exempt.words())
        })
    }
}
