//! What is promised, by the names that the tests cite.

use std::fmt;

/// A promise of a limiter or a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each has its words below
pub enum Property {
    E1,
    E2,
    E3,
    E4,
    E5,
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
    L1,
    L2,
    L3,
    L4,
    L5,
    L6,
    L8,
    L9,
    L10,
    /// What comes in is checked.
    InputGuard,
}

impl Property {
    /// Every property that kills an entry.
    pub const ALL: [Property; 27] = {
        use Property::*;
        [
            E1, E2, E3, E4, E5, D1, D2, D3, D4, D5, D6, D7, D8, D9, D10, D11, D12, L1, L2, L3, L4,
            L5, L6, L8, L9, L10, InputGuard,
        ]
    };

    /// Its name.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// What it says.
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
            E4 => ("E4", "a token bucket admits at most B + floor(r * (T-1)) in any T"),
            E5 => (
                "E5",
                "a bucket that is refilled at intervals admits at most B + q * (floor((T-1)/I) + 1) in any T",
            ),
            D1 => ("D1", "a request is denied exactly where an exact reference denies it"),
            D2 => (
                "D2",
                "with no others about, a denied request is admitted after retry_after, and not a microsecond sooner",
            ),
            D3 => (
                "D3",
                "a log's retry_after is the expiry of the smallest prefix of its entries that frees enough",
            ),
            D4 => ("D4", "a cost of `remaining` is admitted, and one more is not"),
            D5 => ("D5", "peeks and denied requests change no later decision"),
            D6 => ("D6", "refilling to t1 and then to t2 is refilling to t2"),
            D7 => ("D7", "GCRA and the token bucket decide alike"),
            D8 => ("D8", "in one state, less cost never turns an admission into a denial"),
            D9 => (
                "D9",
                "from when a key may be forgotten it acts as a fresh one, and it is forgotten",
            ),
            D10 => (
                "D10",
                "where clocks differ or step back, the envelope holds on the latest time that the key has seen",
            ),
            D11 => (
                "D11",
                "a request that is sent again under its id gets the same answer and is charged once",
            ),
            D12 => (
                "D12",
                "a request in range is answered, other keys do not matter, and an error reply means that nothing changed",
            ),
            L1 => ("L1", "at most one lease is live at any time of the store"),
            L2 => ("L2", "an owner holds as often as it acquired less what it released"),
            L3 => (
                "L3",
                "a release or a renewal by somebody else, or after the lease, changes nothing and says so",
            ),
            L4 => ("L4", "re-entry and renewal never shorten a lease, and none brings one back"),
            L5 => ("L5", "the fencing token grows with each fresh grant and stays on re-entry"),
            L6 => ("L6", "while its holder counts on it, a lease is live in the store"),
            L8 => ("L8", "when nobody counts on the lock, who asks a lease later has it"),
            L9 => ("L9", "who waits in line and is alive is not passed over"),
            L10 => (
                "L10",
                "an operation that is sent again under its id changes nothing and gets the same answer",
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
