//! What clients set out to do.

use serde::{Deserialize, Serialize};

/// So many permits at most are asked for in one call.
pub const LIST: usize = 8;

/// What a client sets out to do, once it has nothing else to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// All that is random in it is drawn from the stream of this number.
    pub number: u32,
    /// Which client.
    pub client: usize,
    /// When.
    pub at_us: u64,
    /// What.
    pub work: Work,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Work {
    /// Take the lock, permits or a side, work under it, give it back.
    Hold {
        /// How many permits; of a read-write lock as many as readers there can be, to write; else 1.
        weight: u64,
        /// Whether it is waited for in line, where there is one.
        in_line: bool,
        /// For how long it is needed.
        for_us: u64,
        /// How often it is held at once.
        holds: u32,
        /// For how long it is waited for.
        wait_us: u64,
        /// Whether the other side of a read-write lock is taken then, held for as long, and the first one given back.
        #[serde(default)]
        switches: bool,
    },
    /// Ask who holds the lock, and free it by force.
    Break {
        /// For how long that is thought about.
        after_us: u64,
        /// Whether it is done once more, as long after.
        is_twice: bool,
    },
    /// Set the latch, or count it down.
    Count {
        /// What it is set to, or by how much.
        count: u64,
        /// Which of the two.
        is_set: bool,
        /// Whether it is asked for again until it is answered.
        is_insistent: bool,
    },
    /// Change what a limiter has counted, or block its key.
    Adjust {
        /// How.
        adjustment: Adjustment,
        /// By how much; a block, for how many microseconds.
        amount: u64,
        /// Whether it can be asked for again under the same id.
        with_id: bool,
        /// Under which of two limits.
        is_other: bool,
    },
    /// Reserve an estimate, and settle it later.
    Reserve {
        /// The estimate.
        estimate: u64,
        /// The true cost; zero cancels it.
        actual: u64,
        /// How long it takes until that is known.
        for_us: u64,
        /// For how long it can be settled.
        hold_us: u64,
        /// Whether it is settled a second time, with one more.
        is_twice: bool,
        /// Under which of two limits.
        is_other: bool,
    },
    /// Ask what a permit of this cost would be told.
    Peek {
        /// The cost.
        cost: u64,
        /// Under which of two limits.
        is_other: bool,
    },
    /// Store a limit.
    Set {
        /// How.
        setting: Setting,
        /// Which of two limits.
        is_other: bool,
    },
    /// Ask for a turn, and give it back.
    TakeTurn {
        /// Its cost.
        cost: u64,
        /// After how long it is given back, if it has not come by then.
        after_us: u64,
        /// Whether it can be asked for again under the same id.
        with_id: bool,
        /// Under which of two limits.
        is_other: bool,
    },
    /// Ask for several permits in one call.
    AskEach {
        /// Their costs; a zero is none.
        costs: [u64; LIST],
        /// Under which of two limits.
        is_other: bool,
    },
    /// Ask for a permit.
    Ask {
        /// Its cost.
        cost: u64,
        /// For how long it is waited for.
        wait_us: u64,
        /// Whether it can be asked for again under the same id.
        with_id: bool,
        /// Under which of two limits.
        #[serde(default)]
        is_other: bool,
    },
    /// Make many requests, and take permits ahead for them.
    Spend(Spending),
}

/// Many requests, and how permits are taken ahead for them: see [`lockage_core::flow::Prefetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spending {
    /// The cost of each.
    pub cost: u64,
    /// How many.
    pub requests: u32,
    /// The time between two.
    pub every_us: u64,
    /// How many permits are taken ahead.
    pub permits: u64,
    /// For how long they may be spent.
    pub lease_us: u64,
    /// Whether calls can be asked for again under the same id.
    pub with_id: bool,
    /// What is wrong with who makes them, to see it found. No world is drawn with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaw: Option<Flaw>,
}

/// How one who takes permits ahead can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flaw {
    /// Leases run from when grants arrive.
    LeaseFromArrival,
    /// What got no answer counts as granted.
    LostIsGranted,
}

/// See [`lockage_core::Adjust`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // each is the adjustment of its name
pub enum Adjustment {
    TakeUpTo,
    Refund,
    Penalty,
    Block,
    Unblock,
}

/// See [`lockage_core::SetLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// In the place of any other.
    Keep,
    /// Where none is stored.
    IfAbsent,
    /// And forget all else.
    Afresh,
}
