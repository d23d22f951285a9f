//! The guarantees, by the names that tests and documents cite (see docs/properties.md).

use std::fmt;

/// A guarantee of a limiter or a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each has its words below
pub enum Property {
    E1,
    E2,
    E3,
    E4,
    E5,
    E6,
    E7,
    E8,
    E9,
    E10,
    D1,
    D2,
    D3,
    D4,
    D5,
    D6,
    D7,
    D8,
    D9,
    D10,
    D11,
    D12,
    D13,
    D14,
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
    L11,
    L12,
    /// Input is checked.
    InputGuard,
}

impl Property {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Returns a violation of the property, with the observation.
    pub fn broken(self, what: String) -> Violation {
        Violation { property: self, what }
    }

    /// Returns its statement.
    pub fn statement(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        use Property::*;
        match self {
            E1 => (
                "E1",
                "a fixed window admits at most max(L * ceil(T/W), L * (1 + ceil((T-1)/W)) - 1) in any T",
            ),
            E2 => ("E2", "a sliding log admits at most L * ceil(T/W) in any T"),
            E3 => ("E3", "a sliding window admits at most L * (1 + T/W) in any T"),
            E4 => (
                "E4",
                "a bucket that is refilled without pause admits at most B + floor(r * (T-1)) in any T",
            ),
            E5 => (
                "E5",
                "a bucket that is refilled at intervals admits at most B + q * (floor((T-1)/I) + 1) in any T",
            ),
            E6 => (
                "E6",
                "the turns of a leaky bucket are spaced by the rate: in T those whose turn it is cost less than r * T, the last not counted",
            ),
            E7 => (
                "E7",
                "with permits taken ahead, up to k by each of n nodes, at most E(T) + n * k are admitted in any T, and at most E(T + lease) - 1 or E(T); a node wastes at most k of what it asks for in one lease",
            ),
            E8 => (
                "E8",
                "a calendar window admits at most its limit times one more than the boundaries in a span",
            ),
            E9 => (
                "E9",
                "of a limit in flight no more places are taken at any time than there are, and a crashed holder's return within two leases",
            ),
            E10 => (
                "E10",
                "a bucket with a warm-up admits from a cold start at most B and what has come back at its rising rate, and never what one without denies",
            ),
            D1 => ("D1", "a request is denied exactly where an exact reference denies it"),
            D2 => (
                "D2",
                "retry_after is minimal: with no other consumer a request is admitted then, and not a microsecond sooner",
            ),
            D3 => (
                "D3",
                "a log's retry_after is the expiry of the smallest prefix of its entries that frees enough",
            ),
            D4 => (
                "D4",
                "what remains is the largest cost that fits, and at reset_after, not before, the state is as if never used",
            ),
            D5 => ("D5", "peeks and denied requests change no later decision"),
            D6 => ("D6", "refilling to t1 and then to t2 is refilling to t2"),
            D7 => ("D7", "GCRA and the token bucket decide alike"),
            D8 => ("D8", "in one state, less cost never turns an admission into a denial"),
            D9 => (
                "D9",
                "expiry is invisible: nothing is forgotten while it matters, and everything is once it does not",
            ),
            D10 => (
                "D10",
                "where clocks differ or step back, the envelope holds on the latest time that the key has seen, and nobody waits longer than a jump lasts",
            ),
            D11 => (
                "D11",
                "a request that comes again under its id gets the same answer and is charged once, while it is remembered",
            ),
            D12 => (
                "D12",
                "a request in range is answered, other keys do not matter, and an error reply means that nothing changed",
            ),
            D13 => ("D13", "turns are in the order of admission, each as early as the rate allows"),
            D14 => (
                "D14",
                "a turn that is given back was never asked for, and one that cannot be given back exactly changes nothing",
            ),
            D15 => (
                "D15",
                "an adjustment does what it says, as far as it can, and a reservation that is settled is as if its true cost had been charged when it was made",
            ),
            L1 => (
                "L1",
                "at most one lease is live, and no two owners are inside their own deadlines",
            ),
            L2 => (
                "L2",
                "an owner holds as often as it acquired less what it released, and a lock is free at zero",
            ),
            L3 => (
                "L3",
                "who does not hold the lock changes nothing by a release, a renewal or force, and is told so",
            ),
            L4 => ("L4", "a lease is never shortened, and never brought back"),
            L5 => ("L5", "the fencing token grows with each fresh grant and with nothing else"),
            L6 => (
                "L6",
                "until the holder's own deadline, by its own clock, the lease is live in the store",
            ),
            L7 => ("L7", "nothing is accepted with a token below one that was accepted before"),
            L8 => (
                "L8",
                "a lock that is free is granted: once its holders are gone, or all is well again, a waiter gets it",
            ),
            L9 => (
                "L9",
                "a waiter in line that asks again within its span is never passed over, and one that is gone holds the lock up for no longer than half as long again; no new reader passes a writer that waits",
            ),
            L10 => (
                "L10",
                "what is acquired, released or charged again under its id is done once, and an acquire that comes too late takes nothing",
            ),
            L11 => {
                ("L11", "a failover that loses a grant lets a second owner in: it must be found")
            }
            L12 => (
                "L12",
                "waiters that listen are told of each release, and of the opening, and no message is sent where none waits",
            ),
            InputGuard => (
                "input guard",
                "a cost that is no whole number from 1 on is refused, and nothing changes",
            ),
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property.
    pub property: Property,
    /// The observation.
    pub what: String,
}
