//! The programs of a world.

use serde::{Deserialize, Serialize};

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is named after its content
pub enum Work {
    /// Ask a limiter, `times` times.
    Ask {
        id: usize,
        cost: u64,
        /// The cost for the second part of the limit, if it has one of its own.
        second: Option<u64>,
        verb: Verb,
        times: u32,
        every_us: u64,
    },
    /// Hold a resource, and release it.
    Hold {
        what: What,
        wait_us: u64,
        for_us: u64,
        end: End,
        is_own: bool,
        /// Whether its owner acquires it again meanwhile, or the other side of a read-write lock.
        again: bool,
    },
    /// Hold the lock for at least so long, and release it or drop its guard.
    Keep {
        least_us: u64,
        wait_us: u64,
        for_us: u64,
        end: End,
    },
    /// Lead for so many terms.
    Lead {
        for_us: u64,
        terms: u32,
    },
    /// Look who leads, so many times.
    Watch {
        every_us: u64,
        times: u32,
    },
    /// Do work that is done only once.
    Once {
        for_us: u64,
    },
    /// Free the lock of that work by force, after it was held for this long.
    Force {
        for_us: u64,
    },
    /// Count the latch down, or wait for it.
    Count {
        count: u64,
    },
    Await {
        wait_us: u64,
    },
    /// Change another latch, so many times.
    Change {
        count: u64,
        times: u32,
        every_us: u64,
    },
    /// Get a value that one job builds for all, or have it built anew.
    Get {
        for_us: u64,
    },
    Invalidate,
    /// Make calls that nothing depends on.
    Look,
}

/// An operation of a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is named after its content
pub enum Verb {
    Acquire {
        wait_us: u64,
    },
    /// Its future is polled once, and then not for `for_us`.
    Lazy {
        wait_us: u64,
        for_us: u64,
    },
    /// Two costs in one call.
    Each {
        more: u64,
    },
    /// With an id of the caller.
    Once,
    /// A turn, which may be cancelled.
    Turn {
        is_cancelled: bool,
    },
    /// A reservation, settled with `actual` in the end, if that is given.
    Reserve {
        hold_us: u64,
        actual: Option<u64>,
    },
    /// Ask for the other id too, with this cost, in one decision.
    All {
        more: u64,
    },
    /// A reservation that a guard renews, until it is settled with `actual` or as it is, or dropped.
    Held {
        hold_us: u64,
        for_us: u64,
        is_dropped: bool,
        actual: Option<u64>,
    },
    Refund,
    Penalty,
    TakeUpTo,
    Block {
        for_us: u64,
    },
    Peek,
    /// Under another limit, in this call alone.
    Under,
    Reset,
    /// Store another limit.
    Store,
}

/// How a resource is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is named after its content
pub enum End {
    Released,
    Dropped,
    /// By closing its locks, if these are its own, with all that they hold.
    Closed,
}

/// A resource that can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)] // each is named after its content
pub enum What {
    Lock {
        is_fair: bool,
    },
    /// That lock, and another one.
    Both,
    /// The other one.
    Other,
    Permits(u64),
    Read,
    Write,
    /// A lock on a majority of servers.
    Quorum,
}
