//! The kinds of faults in a world.

use std::fmt;

/// A fault: a property that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault.
    pub kind: Kind,
    /// A description of the fault.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n{}", self.kind.property(), self.kind, self.what)
    }
}

/// Declares the kinds of faults: for each, the property that does not hold, and its statement for
/// worlds.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $property:literal, $statement:literal;)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Kind {
            $($(#[$doc])* $kind),*
        }

        impl Kind {
            /// Returns the name of the property that does not hold.
            pub fn property(self) -> &'static str {
                match self {
                    $(Kind::$kind => $property),*
                }
            }
        }

        impl fmt::Display for Kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Kind::$kind => $statement),*
                })
            }
        }
    };
}

kinds! {
    /// Callers saw more admitted than the store has charged.
    Uncharged: "E1 to E8", "no more is told to be admitted than the store has charged";
    /// More was charged than requested: a request was charged twice, or after it was said not to
    /// have run.
    ChargedTwice: "D11", "each request is charged once at most, and one that is not done is not charged";
    /// The store, or a share of the limit, has admitted more than the limit allows (E1 to E5).
    Envelope: "E1 to E8", "what is admitted is within the envelope of its limit";
    /// A request of several in one decision was charged, and another one was not.
    Partly: "D18", "the requests of one decision are charged together, or none is";
    /// A caller got an answer that the store has not decided.
    Untold: "D11", "callers are told what the store has decided for them, once";
    /// A caller in line was admitted before another one that had joined earlier.
    Overtaken: "D16", "callers of one process are admitted in the order in which they came";
    /// A request was denied locally that the store would admit.
    FalseDenial: "D1", "what is denied without the store, the store denies";
    /// A permit that was taken ahead was spent after its lease.
    SpentLate: "E7", "permits are spent within their lease";
    /// A caller has waited longer than its limit, or holds longer than it may.
    TooLong: "D10", "nobody waits or holds for longer than was said";
    /// A caller was denied before the end of a wait that would have been long enough.
    TooSoon: "D10", "no wait is given up that would be long enough";
    /// A circuit breaker calls the store when it should not, or does not when it should.
    Circuit: "D17", "a store that is away is asked by probes alone, and one that answers by all";
    /// A call goes on although no job waits for it.
    Abandoned: "D10", "a call that all of its callers have left is given up";
    /// A request is not sent, although nothing prevents that.
    Unsent: "D10", "a request waits for no calls but those that fill all the room";
    /// Two holders of an exclusive grant, by their own clocks (L1, L6).
    Exclusion: "L1", "nobody holds what another one holds, until its own deadline";
    /// The store's lease is shorter than its holder believes (L6).
    Lease: "L6", "the lease of the store lasts until the holder's own deadline";
    /// A grant was lost without a cause, or while nothing went wrong.
    Lost: "L6", "nothing is lost without a cause, or while all is well";
    /// A lease was not renewed in time.
    Unrenewed: "L6", "a lease is renewed in time, whatever becomes of other runtimes of its process";
    /// The lock was free, and a waiter was not notified, or did not come.
    Idle: "L12", "no lock is free for long while somebody waits for it";
    /// A later caller passed a caller in line, or a writer.
    Jumped: "L9", "nobody passes a caller in line, and no reader a writer that waits";
    /// A caller got an answer that no store has given.
    Unanswered: "L3", "callers are told what their store has answered, by that call";
    /// A wait was given up before its time.
    Early: "L8", "a caller that waits is denied when its time is over, not before";
    /// A value was built while there is a fresh one.
    Rebuilt: "L7", "no value is built while there is a fresh one";
    /// A lock was free, or another owner's, although its holder keeps it.
    Unkept: "L14", "a lock that is held for at least some time is held until then";
    /// A candidate that stepped down has led again at once.
    Hasty: "L15", "a candidate that steps down lets others go first";
    /// A term has a token that is not above those of earlier terms.
    Term: "L5", "each term has a larger token than all before";
    /// A value accepted a write of an older grant, or refused the newest (L7).
    Fencing: "L7", "a value accepts the newest grant, and nothing of an older one";
    /// One result became two.
    RanTwice: "L10", "what runs once has one result";
    /// A change of a latch was made twice, or one that no caller has asked for.
    ChangedTwice: "L10", "a latch is changed once for each call, and never by one that is not done";
    /// A latch was open too early.
    Latch: "L12", "a latch is open once it is counted down, and not before";
    /// A value was given out after it was invalidated.
    Stale: "L7", "no value is given out that was built before it was invalidated";
    /// A resource stays taken without a holder.
    Leak: "L8", "what nobody holds is free";
    /// A job does not end.
    Starved: "L8", "every job ends once all is well";
    /// A reservation is not settled, or not in agreement with its caller's answer.
    Unsettled: "D15", "a reservation is settled as its caller was told";
    /// Something goes on for ever.
    Endless: "L8", "every world comes to rest";
    /// An error that nothing explains.
    Error: "D12", "errors are the store's";
    /// The client panicked.
    Panic: "D12", "nothing panics";
    /// A call went out on a connection that was idle and is lost.
    Unchecked: "D12", "a call is answered where nothing is lost but connections that are idle";
    /// A script answers or stores something other than its machine.
    Script: "D12", "scripts answer and store what their machines do";
}

pub(in crate::simulation) fn fault<T>(kind: Kind, what: String) -> Result<T, Fault> {
    Err(Fault { kind, what })
}
