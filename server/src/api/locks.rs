//! Locks with fencing tokens, held by clients under leases that they renew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{HeaderMap, StatusCode};
use lockage::runtime::{Runtime, Tokio};
use lockage::store::Timestamp;
use lockage::store::lock::{Answer, HoldId, Lock, OwnerId, Reply};
use lockage::{Error, Key, Store};
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;
use utoipa::ToSchema;

use super::{Body, idempotency_key, ms, with_retry_after};
use crate::answered::{Delivery, answered};
use crate::error::Failure;
use crate::gate::Storage;

/// Waiters ask again at least this often.
const POLL: Duration = Duration::from_millis(200);

/// The store of locks, under one prefix.
#[derive(Clone)]
pub(crate) struct Locks {
    pub(crate) store: Storage,
    pub(crate) prefix: Arc<str>,
    /// The timeout of the store: no acquire arrives later and is granted.
    pub(crate) timeout: Duration,
    /// The longest wait for a lock.
    pub(crate) longest_wait: Duration,
    pub(crate) works: TaskTracker,
}

/// Returns the routes that every client may use.
pub(crate) fn routes(locks: Locks) -> Router {
    Router::new()
        .route("/v1/locks/{name}", get(inspect))
        .route("/v1/locks/{name}/acquire", post(acquire))
        .route("/v1/locks/{name}/renew", post(renew))
        .route("/v1/locks/{name}/release", post(release))
        .with_state(locks)
}

/// Returns the route of operators.
pub(crate) fn admin_routes(locks: Locks) -> Router {
    Router::new().route("/v1/locks/{name}/force-release", post(force_release)).with_state(locks)
}

/// A request for a lock.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acquire {
    /// The lease, in milliseconds (30,000): the lock is free after it unless it is renewed.
    lease_ms: Option<u64>,
    /// The time to wait for the lock, in milliseconds (0).
    wait_ms: Option<u64>,
    /// Who acquires it, 32 hexadecimal digits: one who holds it already holds it once more. Drawn if there is none.
    owner: Option<String>,
}

/// A lock that is held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Grant {
    /// The owner, for `renew` and `release`.
    owner: String,
    /// The hold, for `release`.
    hold: String,
    /// The fencing token: it grows with each grant.
    token: u64,
    /// The number of holds of the owner.
    holds: u64,
    /// The time until the lease ends, in milliseconds, from the moment of the answer.
    lease_ms: u64,
}

/// A lock that is not held by the caller.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NotHeld {
    /// The token of the present holder; none if the lock is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    /// The time until the lease of that holder ends, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// The state of a lock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Inspection {
    held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
}

/// A grant whose lease is extended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Renew {
    owner: String,
    /// The fencing token of the grant.
    token: u64,
    /// The lease from now on, in milliseconds (30,000).
    lease_ms: Option<u64>,
}

/// A hold that ends.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Release {
    owner: String,
    hold: String,
}

/// A released hold.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    /// The number of holds that the owner has left; the lock is free at 0.
    holds: u64,
}

/// The grant that is ended by force.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Force {
    /// Its token, so that no later grant is ended.
    token: u64,
}

impl Locks {
    fn key(&self, name: &str) -> Result<Key, Failure> {
        Ok(Key::new(&self.prefix, name).map_err(Error::from)?)
    }

    /// Returns the lock with a lease of so many milliseconds.
    fn lock(&self, lease_ms: Option<u64>) -> Result<Lock, Failure> {
        let lease = Duration::from_millis(lease_ms.unwrap_or(30_000));
        // Later than any copy of a call can arrive.
        let remember = self.timeout * 4;
        Ok(Lock::new(lease, remember).map_err(Error::from)?)
    }

    async fn now(&self, key: &Key, lock: &Lock) -> Result<Timestamp, Error> {
        Ok(self.store.execute(key, &lock.inspect()).await?.now)
    }
}

impl NotHeld {
    fn respond(answer: Answer, now: Timestamp) -> Response {
        let Answer::Refused(Some(holder)) = answer else {
            let free = NotHeld { token: None, retry_after_ms: None };
            return with_retry_after(StatusCode::CONFLICT, None, free);
        };
        let left = holder.hold.deadline.saturating_since(now);
        let held = NotHeld { token: Some(holder.hold.token), retry_after_ms: Some(ms(left)) };
        with_retry_after(StatusCode::CONFLICT, Some(left), held)
    }
}

impl Released {
    fn respond(reply: &Reply) -> Response {
        match reply.answer {
            Answer::Released { holds, .. } => Json(Released { holds }).into_response(),
            answer => NotHeld::respond(answer, reply.now),
        }
    }
}

fn id(text: &str) -> Result<u128, Failure> {
    let owner: Result<OwnerId, _> = text.parse();
    owner.map(OwnerId::as_u128).map_err(|error| Failure::Invalid(error.to_string()))
}

fn drawn() -> u128 {
    u128::from(Tokio.random()) << 64 | u128::from(Tokio.random())
}

/// Takes the lock, or waits for it. A caller that leaves meanwhile, or comes too late, does not hold it.
#[utoipa::path(post, path = "/v1/locks/{name}/acquire", request_body = Acquire, tag = "locks",
    params(("name" = String, Path, description = "The name of the lock")),
    responses(
        (status = 200, description = "The caller holds it", body = Grant),
        (status = 409, description = "Another owner holds it", body = NotHeld),
        (status = "default", description = "No answer", body = super::Problem),
    ))]
pub(crate) async fn acquire(
    State(locks): State<Locks>,
    Path(name): Path<String>,
    headers: HeaderMap,
    Body(ask): Body<Acquire>,
) -> Result<Response, Failure> {
    let (key, lock) = (locks.key(&name)?, locks.lock(ask.lease_ms)?);
    let wait = Duration::from_millis(ask.wait_ms.unwrap_or(0));
    if wait > locks.longest_wait {
        let longest = locks.longest_wait.as_millis();
        return Err(Failure::Invalid(format!("`wait_ms` is at most {longest} here")));
    }
    let named = idempotency_key(&headers)?;
    let hold = HoldId::from_u128(named.unwrap_or_else(drawn));
    let owner = match ask.owner {
        Some(owner) => id(&owner)?,
        None => named.unwrap_or_else(drawn),
    };
    let owner = OwnerId::from_u128(owner);
    let attempt =
        Attempt { locks: locks.clone(), key, lock, owner, hold, until: Instant::now() + wait };
    let work = |delivery: Delivery<_>| async move {
        let outcome = attempt.acquire(|| delivery.is_vain()).await;
        let is_held = matches!(outcome, Ok(Outcome::Held(..)));
        if !delivery.deliver(outcome).await && is_held {
            attempt.give_back().await;
        }
    };
    let outcome = answered(&locks.works, None, work).await.ok_or(Failure::Late)??;
    Ok(match outcome {
        Outcome::Held(grant) => Json(grant).into_response(),
        Outcome::Refused { answer, now } => NotHeld::respond(answer, now),
    })
}

/// A request for a lock that goes on until its wait ends.
struct Attempt {
    locks: Locks,
    key: Key,
    lock: Lock,
    owner: OwnerId,
    hold: HoldId,
    until: Instant,
}

enum Outcome {
    Held(Grant),
    Refused { answer: Answer, now: Timestamp },
}

impl Attempt {
    /// Asks until it is granted, its wait ends, or it is in vain.
    async fn acquire(&self, is_vain: impl Fn() -> bool) -> Result<Outcome, Failure> {
        let Attempt { locks, key, lock, owner, hold, until } = self;
        let mut now = locks.now(key, lock).await?;
        let mut later_than = Timestamp::EPOCH;
        loop {
            let not_after = now.saturating_add(locks.timeout).max(later_than);
            let left = until.saturating_duration_since(Instant::now());
            let next = left.min(POLL);
            let acquire = lock.acquire(*owner, *hold, not_after).waiting(next);
            let reply = locks.store.execute(key, &acquire).await.map_err(Error::from)?;
            now = reply.now;
            let next_in = match reply.answer {
                Answer::Held(held) => {
                    return Ok(Outcome::Held(Grant {
                        owner: owner.to_string(),
                        hold: hold.to_string(),
                        token: held.token,
                        holds: held.holds,
                        lease_ms: u64::try_from(held.deadline.saturating_since(now).as_millis())
                            .unwrap_or(u64::MAX),
                    }));
                }
                Answer::TooLate { forgotten } => {
                    later_than = forgotten.saturating_add(Duration::from_micros(1));
                    continue;
                }
                Answer::Refused(Some(holder)) => holder.hold.deadline.saturating_since(now),
                _ => next,
            };
            if left.is_zero() || is_vain() {
                return Ok(Outcome::Refused { answer: reply.answer, now });
            }
            tokio::time::sleep(next.min(next_in.max(Duration::from_millis(1)))).await;
        }
    }

    /// Releases a grant whose caller is gone. If that fails, its lease ends it.
    async fn give_back(&self) {
        let release = self.lock.release(self.owner, self.hold);
        if let Err(error) = self.locks.store.execute(&self.key, &release).await {
            tracing::warn!(%error, "a lock is held by nobody until its lease ends");
        }
    }
}

/// Extends the lease of a grant.
#[utoipa::path(post, path = "/v1/locks/{name}/renew", request_body = Renew, tag = "locks",
    params(("name" = String, Path, description = "The name of the lock")),
    responses(
        (status = 200, description = "The caller holds it, for the lease from now on", body = Inspection),
        (status = 409, description = "The caller does not hold it any more", body = NotHeld),
        (status = "default", description = "No answer; it may be renewed", body = super::Problem),
    ))]
pub(crate) async fn renew(
    State(locks): State<Locks>,
    Path(name): Path<String>,
    Body(Renew { owner, token, lease_ms }): Body<Renew>,
) -> Result<Response, Failure> {
    let (key, lock) = (locks.key(&name)?, locks.lock(lease_ms)?);
    let renew = lock.renew(OwnerId::from_u128(id(&owner)?), Some(token));
    let reply = locks.store.execute(&key, &renew).await.map_err(Error::from)?;
    Ok(match reply.answer {
        Answer::Held(held) => {
            let lease_ms = held.deadline.saturating_since(reply.now).as_millis();
            Json(Inspection {
                held: true,
                owner: Some(owner),
                token: Some(held.token),
                holds: Some(held.holds),
                lease_ms: u64::try_from(lease_ms).ok(),
            })
            .into_response()
        }
        answer => NotHeld::respond(answer, reply.now),
    })
}

/// Ends a hold. Repeating it changes nothing more.
#[utoipa::path(post, path = "/v1/locks/{name}/release", request_body = Release, tag = "locks",
    params(("name" = String, Path, description = "The name of the lock")),
    responses(
        (status = 200, description = "The hold is ended", body = Released),
        (status = 409, description = "The caller did not hold it any more", body = NotHeld),
        (status = "default", description = "No answer; it may be released", body = super::Problem),
    ))]
pub(crate) async fn release(
    State(locks): State<Locks>,
    Path(name): Path<String>,
    Body(Release { owner, hold }): Body<Release>,
) -> Result<Response, Failure> {
    let (key, lock) = (locks.key(&name)?, locks.lock(None)?);
    let (owner, hold) = (OwnerId::from_u128(id(&owner)?), HoldId::from_u128(id(&hold)?));
    let reply = locks.store.execute(&key, &lock.release(owner, hold)).await.map_err(Error::from)?;
    Ok(Released::respond(&reply))
}

/// Returns the state of a lock, and changes nothing.
#[utoipa::path(get, path = "/v1/locks/{name}", tag = "locks",
    params(("name" = String, Path, description = "The name of the lock")),
    responses(
        (status = 200, description = "The state of the lock", body = Inspection),
        (status = "default", description = "No answer", body = super::Problem),
    ))]
pub(crate) async fn inspect(
    State(locks): State<Locks>,
    Path(name): Path<String>,
) -> Result<Json<Inspection>, Failure> {
    let (key, lock) = (locks.key(&name)?, locks.lock(None)?);
    let seen = locks.store.execute(&key, &lock.inspect()).await.map_err(Error::from)?;
    let left = seen.holder.map(|it| ms(it.hold.deadline.saturating_since(seen.now)));
    Ok(Json(Inspection {
        held: seen.holder.is_some(),
        owner: seen.holder.map(|it| it.owner.to_string()),
        token: seen.holder.map(|it| it.hold.token),
        holds: seen.holder.map(|it| it.hold.holds),
        lease_ms: left,
    }))
}

/// Ends a grant, whoever has it.
#[utoipa::path(post, path = "/v1/locks/{name}/force-release", request_body = Force, tag = "admin",
    params(("name" = String, Path, description = "The name of the lock")),
    responses(
        (status = 200, description = "The lock is free", body = Released),
        (status = 409, description = "The lock has another grant, or none", body = NotHeld),
        (status = "default", description = "No answer; it may be released", body = super::Problem),
    ))]
pub(crate) async fn force_release(
    State(locks): State<Locks>,
    Path(name): Path<String>,
    Body(Force { token }): Body<Force>,
) -> Result<Response, Failure> {
    let (key, lock) = (locks.key(&name)?, locks.lock(None)?);
    let reply = locks.store.execute(&key, &lock.force_release(token)).await.map_err(Error::from)?;
    Ok(Released::respond(&reply))
}
