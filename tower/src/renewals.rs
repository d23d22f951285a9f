//! Renewals of a reservation whose response takes longer than it is held.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_channel::oneshot;
use lockage::limiter::{Renewal, Reservation};
use lockage::{Limiter, Store};

use crate::background::{BoxFuture, Sleep, Spawner};

/// Keeps a reservation renewed until this is dropped.
pub(crate) struct Renewals(
    #[expect(dead_code, reason = "its drop is the message")] oneshot::Sender<()>,
);

impl Renewals {
    /// Renews the reservation in the background, each time that half of its hold is over.
    pub(crate) fn start<S: Store + Clone + 'static>(
        limiter: Limiter<S>,
        id: String,
        mut reservation: Reservation,
        hold: Duration,
        sleep: Sleep,
        spawn: &Spawner,
    ) -> Self {
        let (running, mut ended) = oneshot::channel();
        let half = Duration::from_micros((hold.as_micros() as u64 / 2).max(1));
        spawn(Box::pin(async move {
            let mut pause = half;
            while !has_ended(&mut ended, sleep(pause)).await {
                pause = match limiter.renew(&id, &reservation, half).await {
                    Ok(Renewal::Renewed(renewed)) => {
                        reservation = renewed;
                        half
                    }
                    // It was settled, or is over.
                    Ok(_) => return,
                    // The store is away: three attempts are left.
                    Err(_) => hold / 8,
                };
            }
        }));
        Renewals(running)
    }
}

/// Sleeps, and returns whether the reservation was settled meanwhile.
async fn has_ended(ended: &mut oneshot::Receiver<()>, mut sleep: BoxFuture<'static, ()>) -> bool {
    poll_fn(|context| match Pin::new(&mut *ended).poll(context) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending => sleep.as_mut().poll(context).map(|()| false),
    })
    .await
}
