//! The time before a request is sent: its connection is made, or proves that it is still there.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::call::Reply;
use crate::clock::now;
use crate::link::{Health, Link, LinkError, Request, sooner};

/// After this time without a use, a connection is checked before the next one.
pub const IDLE: Duration = Duration::from_millis(500);

/// The longest wait for the reply to a check.
const LONGEST: Duration = Duration::from_millis(250);

/// Returns the `PING` before this request, with half of its time at most.
pub(crate) fn ping<'a>(request: &Request<'a>) -> Request<'a> {
    let now = now();
    let half = request.deadline().map(|deadline| deadline.saturating_duration_since(now) / 2);
    request.beside("PING").by(Some(now + half.map_or(LONGEST, |half| half.min(LONGEST))))
}

/// Checks a connection before this request is sent on it: see [`Link::check`].
///
/// # Errors
/// [`LinkError`] of a request that was not sent, if there is no reply, or one of a server that takes no writes.
pub async fn check_before(request: &Request<'_>, connection: &impl Link) -> Result<(), LinkError> {
    match connection.check(&ping(request)).await.map_err(LinkError::unsent)? {
        Reply::Error(error) if error.health() != Health::Good => {
            let health = error.health();
            Err(LinkError::of(error, false, health))
        }
        _ => Ok(()),
    }
}

/// Waits for something that a request needs before it can be sent, such as a connection, for as long as its caller.
///
/// No timer is needed: a caller polls a call once more when it gives up, and that is when this ends. Nothing is sent on
/// a connection that comes too late.
///
/// # Errors
/// Those of `needed`, or [`LinkError`] of a request that was not sent in time.
pub async fn before_sending<T>(
    request: &Request<'_>,
    needed: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let late = |polled| match polled {
        Poll::Ready(Err(error)) => Err(error),
        _ => Err(LinkError::not_sent(NOT_IN_TIME).on(Health::Doubtful)),
    };
    until(|| request.until_deadline().map(sooner), needed, late).await
}

/// Returns the output of `future`. After a poll that comes after the end of its time, it returns `late` of that poll's
/// result. `left` is called when the future first pends: a future that is ready at once, as most are, needs no clock.
pub(crate) async fn until<T>(
    left: impl FnOnce() -> Option<Duration>,
    future: impl Future<Output = T>,
    late: impl FnOnce(Poll<T>) -> T,
) -> T {
    let mut future = pin!(future);
    let first = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
    if let Poll::Ready(output) = first.await {
        return output;
    }
    let Some(end) = left().and_then(|left| now().checked_add(left)) else {
        return future.await;
    };
    let later = std::future::poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        let is_late = now() >= end;
        if polled.is_ready() || is_late { Poll::Ready((polled, is_late)) } else { Poll::Pending }
    });
    match later.await {
        (Poll::Ready(output), false) => output,
        (polled, _) => late(polled),
    }
}

/// Why a request was not sent.
pub(crate) const NOT_IN_TIME: &str = "there was no connection in time, and nothing was sent";
