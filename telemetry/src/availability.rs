//! The availability of a store.

use std::sync::atomic::{AtomicU32, Ordering};

use lockage::observer::{CallResult, ErrorKind};

use crate::AWAY_AFTER;

/// The number of calls in a row without an answer.
#[derive(Default)]
pub(crate) struct Availability(AtomicU32);

/// A change that a call has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Away,
    Back,
}

impl Availability {
    /// Records a call. A dropped call shows nothing about the store.
    pub(crate) fn see(&self, result: &CallResult<'_>) -> Option<Shown> {
        let is_answered = match result {
            CallResult::Done => true,
            CallResult::Failed(error) => {
                !matches!(error.kind(), ErrorKind::NotDone | ErrorKind::Unknown)
            }
            CallResult::TimedOut => false,
            _ => return None,
        };
        let Availability(silent) = self;
        if !is_answered {
            let before = silent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |silent| {
                (silent < AWAY_AFTER).then_some(silent + 1)
            });
            return (before == Ok(AWAY_AFTER - 1)).then_some(Shown::Away);
        }
        // For an available store this only reads, so that its callers share the cache line.
        let was_silent = silent.load(Ordering::Relaxed) > 0;
        let was_away = was_silent && silent.swap(0, Ordering::Relaxed) == AWAY_AFTER;
        was_away.then_some(Shown::Back)
    }
}

#[cfg(test)]
mod tests {
    use lockage::StoreError;

    use super::*;

    #[test]
    fn a_change_is_shown_once() {
        let not_done = StoreError::NotDone("test".into());
        let (failed, done) = (CallResult::Failed(&not_done), CallResult::Done);
        let seen = Availability::default();
        let calls = [
            (failed, None),
            (CallResult::TimedOut, None),
            (done, None),
            (failed, None),
            (failed, None),
            (CallResult::Dropped, None),
            (CallResult::TimedOut, Some(Shown::Away)),
            (failed, None),
            (CallResult::Dropped, None),
            (done, Some(Shown::Back)),
            (done, None),
        ];
        for (at, (call, shown)) in calls.into_iter().enumerate() {
            assert_eq!(seen.see(&call), shown, "call {at}");
        }
    }
}
