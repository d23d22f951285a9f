//! Coverage states: a campaign that never comes to one of them has not looked where bugs are.

use std::fmt;

/// A state that does not come about in every world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
#[allow(missing_docs)] // see `words`
pub enum Coverage {
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
    StoredLimitOutcome,
    LimitStands,
    NoLimit,
    PerClient,
    LimitOver,
    KeysAtOnce,
    SpentAhead,
    AheadTooLate,
}

impl Coverage {
    /// All of them.
    pub const ALL: [Coverage; 58] = [
        Coverage::LostRequest,
        Coverage::LostReplyOfAcquire,
        Coverage::LateAcquireRefused,
        Coverage::RepeatedOperation,
        Coverage::OtherHoldKept,
        Coverage::DoubleAfterRelease,
        Coverage::LeaseEndsNow,
        Coverage::LeaseLost,
        Coverage::GrantFoundAgain,
        Coverage::GrantAfterLease,
        Coverage::GrantInLine,
        Coverage::CountedAgain,
        Coverage::NotNext,
        Coverage::FreedByForce,
        Coverage::FreedAgain,
        Coverage::FreedTooLate,
        Coverage::ReaderKeptOut,
        Coverage::Upgraded,
        Coverage::UpgradeRefused,
        Coverage::Downgraded,
        Coverage::NoScript,
        Coverage::StoreAway,
        Coverage::OldPrimary,
        Coverage::FailoverLostGrant,
        Coverage::FailoverLostCharge,
        Coverage::TwoHolders,
        Coverage::StaleWrite,
        Coverage::RepeatedRequest,
        Coverage::ChargedAgain,
        Coverage::WindowEndsNow,
        Coverage::AllEndsNow,
        Coverage::ClockBack,
        Coverage::AdmittedAfterWaiting,
        Coverage::PartOfList,
        Coverage::LostReplyOfList,
        Coverage::TurnGivenBack,
        Coverage::TurnNotLast,
        Coverage::TurnTooLate,
        Coverage::RepeatedAdjustment,
        Coverage::RefundCut,
        Coverage::Debt,
        Coverage::Blocked,
        Coverage::RepeatedReservation,
        Coverage::RepeatedSettlement,
        Coverage::SettledOtherwise,
        Coverage::SettledAbove,
        Coverage::SettledLate,
        Coverage::ReservationForgotten,
        Coverage::LimitChanged,
        Coverage::PeekedUnderOther,
        Coverage::StoredLimitOutcome,
        Coverage::LimitStands,
        Coverage::NoLimit,
        Coverage::PerClient,
        Coverage::LimitOver,
        Coverage::KeysAtOnce,
        Coverage::SpentAhead,
        Coverage::AheadTooLate,
    ];

    /// What it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Coverage::LostRequest => "a request is lost",
            Coverage::LostReplyOfAcquire => "the reply of a grant is lost",
            Coverage::LateAcquireRefused => "an acquire comes too late and is refused",
            Coverage::RepeatedOperation => {
                "an operation on the lock comes again and gets its answer again"
            }
            Coverage::OtherHoldKept => "a release comes again and takes no other hold of its owner",
            Coverage::DoubleAfterRelease => "an acquire comes again after its grant was released",
            Coverage::LeaseEndsNow => {
                "the lock is asked for at the very microsecond at which its lease ends"
            }
            Coverage::LeaseLost => "a holder's own deadline passes while it works",
            Coverage::GrantFoundAgain => "a grant whose reply was lost is found and given back",
            Coverage::GrantAfterLease => "the lock is granted after its holder's lease has ended",
            Coverage::GrantInLine => "the lock is granted while others wait in line",
            Coverage::CountedAgain => {
                "an operation on a latch comes again and gets its answer again"
            }
            Coverage::NotNext => "a free lock is refused to one who is not next",
            Coverage::FreedByForce => "a lock that is held is freed by force",
            Coverage::FreedAgain => "a release by force comes again and gets its answer again",
            Coverage::FreedTooLate => {
                "a release by force comes too late, and leaves the next holder alone"
            }
            Coverage::ReaderKeptOut => "a reader is refused since a writer waits",
            Coverage::Upgraded => "a reader is granted the write side, too",
            Coverage::UpgradeRefused => {
                "a reader is refused the write side at once, since others read"
            }
            Coverage::Downgraded => "a writer reads on once it has given the write side back",
            Coverage::NoScript => "the store does not know a script",
            Coverage::StoreAway => "there is no store to connect to",
            Coverage::OldPrimary => "an old primary answers after another one has taken over",
            Coverage::FailoverLostGrant => "a failover loses an acknowledged grant",
            Coverage::FailoverLostCharge => "a failover loses an acknowledged charge",
            Coverage::TwoHolders => {
                "two hold the lock, after a failover, a clock's step ahead or a release by force"
            }
            Coverage::StaleWrite => "a write under an older token is refused",
            Coverage::RepeatedRequest => "a permit is asked for again and gets its answer again",
            Coverage::ChargedAgain => "a permit is charged again, once it is no longer remembered",
            Coverage::WindowEndsNow => {
                "a denied request comes again at the very microsecond at which it fits"
            }
            Coverage::AllEndsNow => {
                "a request comes at the very microsecond from which on nothing counts"
            }
            Coverage::ClockBack => "the store's clock is before a time that it has shown",
            Coverage::AdmittedAfterWaiting => "a caller that waited is admitted",
            Coverage::PartOfList => {
                "of several permits in one call some are admitted, and some are not"
            }
            Coverage::LostReplyOfList => "the reply to a call for several permits is lost",
            Coverage::TurnGivenBack => "a turn is given back",
            Coverage::TurnNotLast => "a turn is not given back, since others came since",
            Coverage::TurnTooLate => "a turn is not given back, since it has come",
            Coverage::RepeatedAdjustment => "an adjustment comes again and gets its answer again",
            Coverage::RefundCut => "more is given back than counts, and is cut",
            Coverage::Debt => "a penalty charges more than fits",
            Coverage::Blocked => "a request is denied since the key is blocked",
            Coverage::RepeatedReservation => {
                "a reservation is asked for again and gets its answer again"
            }
            Coverage::RepeatedSettlement => "a settlement comes again and gets its answer again",
            Coverage::SettledOtherwise => {
                "a reservation is to be settled a second time, with another cost"
            }
            Coverage::SettledAbove => "a reservation is settled above its estimate",
            Coverage::SettledLate => "a reservation is to be settled once it is no longer known",
            Coverage::ReservationForgotten => {
                "a reservation is to be settled once the limit has changed"
            }
            Coverage::LimitChanged => "the limit of a key changes while something counts",
            Coverage::PeekedUnderOther => "a peek asks about another limit than the key is under",
            Coverage::StoredLimitOutcome => "a call follows a stored limit that was changed",
            Coverage::LimitStands => "a limit is not stored, since there is one",
            Coverage::NoLimit => "a call is refused, since no limit is stored",
            Coverage::PerClient => {
                "a call is told that the stored limit is for each client by itself"
            }
            Coverage::LimitOver => "a stored limit is over, since it was kept for its time",
            Coverage::KeysAtOnce => "calls on two keys are carried out at one microsecond",
            Coverage::SpentAhead => "a permit that was taken ahead is spent",
            Coverage::AheadTooLate => "permits that were taken ahead come after their lease",
        }
    }
}

/// How often each of them came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts([u64; Coverage::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Counts([0; Coverage::ALL.len()])
    }
}

impl Counts {
    pub(super) fn saw(&mut self, rare: Coverage) {
        self.0[rare as usize] += 1;
    }

    /// How often this one did.
    pub fn of(&self, rare: Coverage) -> u64 {
        self.0[rare as usize]
    }

    /// Adds those of another world.
    pub fn add(&mut self, other: &Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Those that never came about.
    pub fn never(&self) -> Vec<Coverage> {
        Coverage::ALL.into_iter().filter(|rare| self.of(*rare) == 0).collect()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rare in Coverage::ALL {
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
        for (index, rare) in Coverage::ALL.into_iter().enumerate() {
            assert_eq!(rare as usize, index);
            assert_eq!(counts.never(), Coverage::ALL[index..]);
            counts.saw(rare);
        }
        assert_eq!(counts.never(), []);
    }
}
