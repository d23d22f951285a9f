//! Rare states: a campaign that never comes to one of them has not looked where bugs are.

use std::fmt;

/// A state that does not come about in every world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
#[allow(missing_docs)] // see `words`
pub enum Rare {
    LostRequest,
    LostReplyOfAcquire,
    LateAcquireRefused,
    RepeatedOperation,
    OtherHoldKept,
    DoubleAfterRelease,
    LeaseEndsNow,
    LeaseLost,
    GrantFoundAgain,
    GrantAfterLease,
    GrantInLine,
    CountedAgain,
    NotNext,
    FreedByForce,
    FreedAgain,
    FreedTooLate,
    ReaderKeptOut,
    Upgraded,
    UpgradeRefused,
    Downgraded,
    NoScript,
    StoreAway,
    OldPrimary,
    FailoverLostGrant,
    FailoverLostCharge,
    TwoHolders,
    StaleWrite,
    RepeatedRequest,
    ChargedAgain,
    WindowEndsNow,
    AllEndsNow,
    ClockBack,
    AdmittedAfterWaiting,
    PartOfList,
    LostReplyOfList,
    TurnGivenBack,
    TurnNotLast,
    TurnTooLate,
    RepeatedAdjustment,
    RefundCut,
    Debt,
    Blocked,
    RepeatedReservation,
    RepeatedSettlement,
    SettledOtherwise,
    SettledAbove,
    SettledLate,
    ReservationForgotten,
    LimitChanged,
    PeekedUnderOther,
    Followed,
    LimitStands,
    NoLimit,
    PerClient,
    LimitOver,
    KeysAtOnce,
    SpentAhead,
    AheadTooLate,
}

impl Rare {
    /// All of them.
    pub const ALL: [Rare; 58] = [
        Rare::LostRequest,
        Rare::LostReplyOfAcquire,
        Rare::LateAcquireRefused,
        Rare::RepeatedOperation,
        Rare::OtherHoldKept,
        Rare::DoubleAfterRelease,
        Rare::LeaseEndsNow,
        Rare::LeaseLost,
        Rare::GrantFoundAgain,
        Rare::GrantAfterLease,
        Rare::GrantInLine,
        Rare::CountedAgain,
        Rare::NotNext,
        Rare::FreedByForce,
        Rare::FreedAgain,
        Rare::FreedTooLate,
        Rare::ReaderKeptOut,
        Rare::Upgraded,
        Rare::UpgradeRefused,
        Rare::Downgraded,
        Rare::NoScript,
        Rare::StoreAway,
        Rare::OldPrimary,
        Rare::FailoverLostGrant,
        Rare::FailoverLostCharge,
        Rare::TwoHolders,
        Rare::StaleWrite,
        Rare::RepeatedRequest,
        Rare::ChargedAgain,
        Rare::WindowEndsNow,
        Rare::AllEndsNow,
        Rare::ClockBack,
        Rare::AdmittedAfterWaiting,
        Rare::PartOfList,
        Rare::LostReplyOfList,
        Rare::TurnGivenBack,
        Rare::TurnNotLast,
        Rare::TurnTooLate,
        Rare::RepeatedAdjustment,
        Rare::RefundCut,
        Rare::Debt,
        Rare::Blocked,
        Rare::RepeatedReservation,
        Rare::RepeatedSettlement,
        Rare::SettledOtherwise,
        Rare::SettledAbove,
        Rare::SettledLate,
        Rare::ReservationForgotten,
        Rare::LimitChanged,
        Rare::PeekedUnderOther,
        Rare::Followed,
        Rare::LimitStands,
        Rare::NoLimit,
        Rare::PerClient,
        Rare::LimitOver,
        Rare::KeysAtOnce,
        Rare::SpentAhead,
        Rare::AheadTooLate,
    ];

    /// What it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Rare::LostRequest => "a request is lost",
            Rare::LostReplyOfAcquire => "the reply of a grant is lost",
            Rare::LateAcquireRefused => "an acquire comes too late and is refused",
            Rare::RepeatedOperation => {
                "an operation on the lock comes again and gets its answer again"
            }
            Rare::OtherHoldKept => "a release comes again and takes no other hold of its owner",
            Rare::DoubleAfterRelease => "an acquire comes again after its grant was released",
            Rare::LeaseEndsNow => {
                "the lock is asked for at the very microsecond at which its lease ends"
            }
            Rare::LeaseLost => "a holder's own deadline passes while it works",
            Rare::GrantFoundAgain => "a grant whose reply was lost is found and given back",
            Rare::GrantAfterLease => "the lock is granted after its holder's lease has ended",
            Rare::GrantInLine => "the lock is granted while others wait in line",
            Rare::CountedAgain => "an operation on a latch comes again and gets its answer again",
            Rare::NotNext => "a free lock is refused to one who is not next",
            Rare::FreedByForce => "a lock that is held is freed by force",
            Rare::FreedAgain => "a release by force comes again and gets its answer again",
            Rare::FreedTooLate => {
                "a release by force comes too late, and leaves the next holder alone"
            }
            Rare::ReaderKeptOut => "a reader is refused since a writer waits",
            Rare::Upgraded => "a reader is granted the write side, too",
            Rare::UpgradeRefused => "a reader is refused the write side at once, since others read",
            Rare::Downgraded => "a writer reads on once it has given the write side back",
            Rare::NoScript => "the store does not know a script",
            Rare::StoreAway => "there is no store to connect to",
            Rare::OldPrimary => "an old primary answers after another one has taken over",
            Rare::FailoverLostGrant => "a failover loses an acknowledged grant",
            Rare::FailoverLostCharge => "a failover loses an acknowledged charge",
            Rare::TwoHolders => {
                "two hold the lock, after a failover, a clock's step ahead or a release by force"
            }
            Rare::StaleWrite => "a write under an older token is refused",
            Rare::RepeatedRequest => "a permit is asked for again and gets its answer again",
            Rare::ChargedAgain => "a permit is charged again, once it is no longer remembered",
            Rare::WindowEndsNow => {
                "a denied request comes again at the very microsecond at which it fits"
            }
            Rare::AllEndsNow => {
                "a request comes at the very microsecond from which on nothing counts"
            }
            Rare::ClockBack => "the store's clock is before a time that it has shown",
            Rare::AdmittedAfterWaiting => "who waited is admitted",
            Rare::PartOfList => {
                "of several permits in one call some are admitted, and some are not"
            }
            Rare::LostReplyOfList => "the reply to a call for several permits is lost",
            Rare::TurnGivenBack => "a turn is given back",
            Rare::TurnNotLast => "a turn is not given back, since others came since",
            Rare::TurnTooLate => "a turn is not given back, since it has come",
            Rare::RepeatedAdjustment => "an adjustment comes again and gets its answer again",
            Rare::RefundCut => "more is given back than counts, and is cut",
            Rare::Debt => "a penalty charges more than fits",
            Rare::Blocked => "a request is denied since the key is blocked",
            Rare::RepeatedReservation => {
                "a reservation is asked for again and gets its answer again"
            }
            Rare::RepeatedSettlement => "a settlement comes again and gets its answer again",
            Rare::SettledOtherwise => {
                "a reservation is to be settled a second time, with another cost"
            }
            Rare::SettledAbove => "a reservation is settled above its estimate",
            Rare::SettledLate => "a reservation is to be settled once it is no longer known",
            Rare::ReservationForgotten => {
                "a reservation is to be settled once the limit has changed"
            }
            Rare::LimitChanged => "the limit of a key changes while something counts",
            Rare::PeekedUnderOther => "a peek asks about another limit than the key is under",
            Rare::Followed => "a call follows a stored limit that was changed",
            Rare::LimitStands => "a limit is not stored, since there is one",
            Rare::NoLimit => "a call is refused, since no limit is stored",
            Rare::PerClient => "a call is told that the stored limit is for each client by itself",
            Rare::LimitOver => "a stored limit is over, since it was kept for its time",
            Rare::KeysAtOnce => "calls on two keys are carried out at one microsecond",
            Rare::SpentAhead => "a permit that was taken ahead is spent",
            Rare::AheadTooLate => "permits that were taken ahead come after their lease",
        }
    }
}

/// How often each of them came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// How often this one did.
    pub fn of(&self, rare: Rare) -> u64 {
        self.0[rare as usize]
    }

    /// Adds those of another world.
    pub fn add(&mut self, other: &Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Those that never came about.
    pub fn never(&self) -> Vec<Rare> {
        Rare::ALL.into_iter().filter(|rare| self.of(*rare) == 0).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rare in Rare::ALL {
            writeln!(f, "{:>12}  {}", self.of(rare), rare.words())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_by_itself() {
        let mut counts = Counts::default();
        for (index, rare) in Rare::ALL.into_iter().enumerate() {
            assert_eq!(rare as usize, index);
            assert_eq!(counts.never(), Rare::ALL[index..]);
            counts.saw(rare);
        }
        assert_eq!(counts.never(), []);
    }
}
