//! The comparison of two outcomes of one command, for all types of outcomes.

use std::any::Any;

use lockage_core::fenced::{Access, Kept};
use lockage_core::{
    Adjusted, Cancellation, Decision, Reserved, Settlement, StoredLimitOutcome, Timestamp, Turn,
    latch, lock, rw_lock, semaphore,
};

/// Returns whether two outcomes are the same. Outcomes of a type that no command here has are not.
pub(super) fn is_same(one: &dyn Any, other: &dyn Any) -> bool {
    macro_rules! either {
        ($($outcome:ty),* $(,)?) => {
            false $(|| is::<$outcome>(one, other))*
        };
    }
    either!(
        Decision,
        Vec<Decision>,
        Turn,
        Reserved,
        Adjusted,
        Settlement,
        Cancellation,
        bool,
        StoredLimitOutcome<Decision>,
        StoredLimitOutcome<Vec<Decision>>,
        StoredLimitOutcome<Reserved>,
        StoredLimitOutcome<Adjusted>,
        StoredLimitOutcome<Settlement>,
        lock::Reply,
        lock::Inspection,
        semaphore::Reply,
        semaphore::Inspection,
        rw_lock::Reply,
        rw_lock::Inspection,
        latch::Reply,
        latch::Inspection,
        Option<u64>,
        Access<()>,
        Access<Option<Kept>>,
        Option<Kept>,
        Timestamp,
    )
}

fn is<T: PartialEq + 'static>(one: &dyn Any, other: &dyn Any) -> bool {
    match (one.downcast_ref::<T>(), other.downcast_ref::<T>()) {
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}
