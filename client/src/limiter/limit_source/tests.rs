use lockage_core::{Acquire, RecordError};

use super::*;

struct NotAsked;

impl Store for NotAsked {
    async fn execute<C>(&self, _: &Key, _: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        unreachable!("nothing is sent without the time")
    }
}

/// The case of a target whose system has no clock.
#[test]
fn without_any_clock_a_calendar_window_has_no_boundaries() {
    let limit: Limit = "calendar-window 1/day".parse().unwrap();
    let source = LimitSource { clock: None, ..LimitSource::given(limit) };
    assert!(matches!(source.bounded(limit), Err(Error::NoClock)));
    assert!(matches!(source.bounded_stored(limit.into()), Err(Error::NoClock)));
    let window: Limit = "fixed-window 1/s".parse().unwrap();
    assert!(source.bounded(window).is_ok() && source.bounded_stored(window.into()).is_ok());
    let key = Key::new("test", "id").unwrap();
    let calls = [(&key, Peek::new(limit, 1)), (&key, Peek::new(limit, 2))];
    let outcomes = pollster::block_on(source.execute_batch(&NotAsked, &calls));
    assert!(matches!(outcomes[..], [Err(Error::NoClock), Err(Error::NoClock)]));
}

/// D12: a request of several is sent twice more while the window of its stored limit is not known, and is then refused.
#[test]
fn a_request_of_several_is_repeated_twice_while_its_clock_is_off() {
    let limit: Limit = "calendar-window 1/day".parse().unwrap();
    let source = LimitSource::stored(StoredLimits::new());
    let (key, acquire) = (Key::new("test", "id").unwrap(), Acquire::new(limit, 1).unwrap());
    let next = |repetitions| {
        source.next(&key, &acquire, StoredLimitOutcome::ClockOff(limit.into()), repetitions)
    };
    assert!([0, 1].map(next).iter().all(|next| matches!(next, Ok(Next::Asks(None, _)))));
    let refused = next(2).err().expect("it is repeated no more");
    assert!(matches!(refused, Error::Store(StoreError::Record(RecordError::ClockOff))));
}
