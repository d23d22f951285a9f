//! Turns in a queue, on every store.

use std::time::Duration;

use lockage::Store;
use lockage::limiter::{Cancellation, RequestId, Turn};

use super::Bench;

/// D13, D14: turns are in order; the last one is given back as if it had never been asked for, and others
/// are not.
pub(super) async fn turns_are_in_order_and_given_back<S: Store + Clone>(bench: &Bench<'_, S>) {
    let limiter = bench.limiter("turns", "leaky-bucket 10/s queue 5");
    let take = async |cost: u64| -> Turn { limiter.take_turn("id", cost).await.unwrap() };
    let millis = |turn: &Turn| turn.decision.turn_after.as_millis();

    let (first, second, third) = (take(1).await, take(2).await, take(1).await);
    assert_eq!([&first, &second, &third].map(millis), [0, 100, 300]);
    assert_eq!(first.ticket, None, "it has its turn at once");
    let (second, third) = (second.ticket.unwrap(), third.ticket.unwrap());
    assert_eq!(limiter.cancel_turn("id", second).await.unwrap(), Cancellation::NotLast);
    bench.at(Duration::from_millis(50));
    assert_eq!(limiter.cancel_turn("id", third).await.unwrap(), Cancellation::GivenBack);

    let fourth = take(2).await;
    assert_eq!((millis(&fourth), fourth.decision.remaining), (250, 0));
    bench.at(Duration::from_millis(300));
    let fourth = fourth.ticket.unwrap();
    assert_eq!(limiter.cancel_turn("id", fourth).await.unwrap(), Cancellation::TooLate);
    assert_eq!(limiter.peek("id", 1).await.unwrap().remaining, 3);

    // Not where the key knows of reservations.
    let (id, hold) = (RequestId::from_u128(1), Duration::from_secs(60));
    _ = limiter.reserve_as("reserved", 1, id, hold).await.unwrap();
    let fifth = limiter.take_turn("reserved", 1).await.unwrap().ticket.unwrap();
    assert_eq!(limiter.cancel_turn("reserved", fifth).await.unwrap(), Cancellation::NotLast);
}
