//! Renewals of a reservation whose response takes longer than it is held.

use std::pin::pin;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::select;
use lockage::limiter::Reservation;
use lockage::{Limiter, Store};

use crate::background::{Spawner, Timer};

/// Keeps a reservation renewed until this is dropped.
pub(crate) struct Renewals(
    #[expect(dead_code, reason = "its drop is the message")] oneshot::Sender<()>,
);

impl Renewals {
    /// Renews the reservation in the background, each time that half of its hold is over.
    pub(crate) fn start<S: Store + Clone + 'static>(
        limiter: Limiter<S>,
        id: String,
        reservation: Reservation,
        hold: Duration,
        timer: Timer,
        spawn: &Spawner,
    ) -> Self {
        let (running, ended) = oneshot::channel();
        spawn(Box::pin(async move {
            _ = select(ended, pin!(limiter.keep(&id, reservation, hold, &timer))).await;
        }));
        Renewals(running)
    }
}
