//! Whether a connection is still there, before a request is sent on it.

use std::time::Duration;

use crate::call::Reply;
use crate::clock::now;
use crate::link::{Health, Link, LinkError, Request};

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
    let reply = connection.check(&ping(request)).await.map_err(LinkError::unsent)?;
    match (reply.health(), reply) {
        (Health::Good, _) => Ok(()),
        (health, Reply::Error(error)) => Err(LinkError::of(error, false, health)),
        (health, _) => Err(LinkError::of("no reply to a check", false, health)),
    }
}
