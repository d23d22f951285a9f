//! The properties that a world is checked for.

use std::fmt;

use clap::ValueEnum;

/// A property by its name, as in ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "verbatim")]
#[allow(missing_docs)] // see `statement`
pub enum Property {
    E1,
    E2,
    E3,
    E4,
    E5,
    E6,
    D1,
    D2,
    D4,
    D5,
    D9,
    D10,
    D11,
    D12,
    D13,
    D15,
    L1,
    L2,
    L3,
    L4,
    L5,
    L6,
    L7,
    L8,
    L9,
    L10,
}

impl Property {
    /// What it says.
    pub fn statement(self) -> &'static str {
        match self {
            Property::E1 => {
                "a fixed window never admits more than its envelope in any span of time"
            }
            Property::E2 => "a sliding log never admits more than its envelope in any span of time",
            Property::E3 => {
                "a sliding window never admits more than its envelope in any span of time"
            }
            Property::E4 => {
                "a bucket that refills without pause never admits more than its envelope in any span of time"
            }
            Property::E5 => {
                "a bucket that refills at intervals never admits more than its envelope in any span of time"
            }
            Property::E6 => {
                "the turns of a leaky bucket are spaced by the rate: in T those whose turn it is cost less than r * T, the last not counted"
            }
            Property::D1 => "a request is denied exactly when it does not fit",
            Property::D2 => {
                "retry_after is minimal: with no other consumer a request is admitted then, and denied before"
            }
            Property::D4 => {
                "what remains is the largest cost that fits, and at reset_after, not before, the state is as if never used"
            }
            Property::D5 => "who only asks changes nothing",
            Property::D9 => "expiry is invisible: nothing is forgotten while it matters",
            Property::D10 => {
                "once all is well, who waits for a permit gets it, at the latest when a jump of the clock has passed"
            }
            Property::D11 => {
                "a request that comes again under its id gets the same answer and is charged once, while it is remembered"
            }
            Property::D12 => {
                "an operation that is right gets an answer and no error, and changes no other key"
            }
            Property::D13 => {
                "turns are in the order of admission, each as early as the rate allows"
            }
            Property::D15 => {
                "an adjustment does what it says, as far as it can, and a reservation that is settled is as if its true cost had been charged when it was made"
            }
            Property::L1 => "there is at most one live lease",
            Property::L2 => "holds are acquires less releases, and a lock is free at zero",
            Property::L3 => "who does not hold the lock can neither renew nor release it",
            Property::L4 => "a lease is never shortened, and never brought back",
            Property::L5 => "the fencing token grows with each fresh grant and with nothing else",
            Property::L6 => {
                "until the holder's own deadline, by his own clock, the lease is live in the store"
            }
            Property::L7 => "nothing is accepted with a token below one that was accepted before",
            Property::L8 => {
                "a lock that is free is granted; once all is well, who waits for it gets it"
            }
            Property::L9 => {
                "who waits in line and asks again within his span is never passed over, and who is gone is waited for no longer than half as long again; no new reader passes a writer that waits"
            }
            Property::L10 => {
                "an operation that comes again changes nothing and gets the same answer, and an acquire that comes too late takes nothing"
            }
        }
    }

    pub(super) fn broken(self, what: String) -> Violation {
        Violation { property: self, what }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub property: Property,
    /// What was seen.
    pub what: String,
}

impl Violation {
    pub(in crate::world) fn new(property: Property, what: String) -> Violation {
        property.broken(what)
    }
}
