//! The store over any link.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use lockage::notifications::Subscriptions;
use lockage::notifications::{Listener, Notifications, Wake};
use lockage::store::{Clock, Command, Identity};
use lockage::{Key, Store, StoreError};
use lockage_core::{AcquireAll, CallTime, Cut, OneOutcome};
use lockage_lua::NEEDS_SLOW_PATH;

use crate::batch::BatchCall;
use crate::call::{Call, Reply, outcome};
use crate::check::{NOT_IN_TIME, until};
use crate::clock::now;
use crate::link::{Link, LinkError, Request, sooner};

/// Records on a Redis or Valkey server or cluster, reached through a [`Link`].
#[derive(Clone, Debug)]
pub struct LuaStore<L> {
    pub(crate) link: L,
    pub(crate) time: TimeSource,
    subscriptions: Option<Subscriptions>,
    is_closed: Arc<AtomicBool>,
}

impl<L> LuaStore<L> {
    /// Creates a store on this link. The server's clock decides.
    pub fn new(link: L) -> Self {
        LuaStore { link, time: TimeSource::SERVER, subscriptions: None, is_closed: Arc::default() }
    }

    /// Lets the caller's clock decide instead of the server's: see [`TimeSource::caller`].
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>, skew: Duration) -> Self {
        LuaStore { time: TimeSource::caller(clock, skew), ..self }
    }

    /// Changes the link.
    #[must_use]
    pub fn map_link(self, change: impl FnOnce(L) -> L) -> Self {
        LuaStore { link: change(self.link), ..self }
    }

    /// Lets waiters listen on these subscriptions, of the same server or cluster.
    #[must_use]
    pub fn listening(self, subscriptions: Subscriptions) -> Self {
        LuaStore { subscriptions: Some(subscriptions), ..self }
    }
}

impl<L: Link> LuaStore<L> {
    /// Executes `command` on `key` as [`Store::execute`] does, for a caller that drops the call at `deadline`.
    ///
    /// If the link is always ready, such as a blocking one, so is the future.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn call<C: Command>(
        &self,
        key: &Key,
        command: &C,
        deadline: Option<Instant>,
    ) -> Result<C::Outcome, StoreError> {
        let whole = Call::new(command, self.time.read());
        let cut = match self.finish(key, whole, deadline).await? {
            Ok(outcome) => return Ok(outcome),
            Err(cut) => cut,
        };
        let mut outcomes = Vec::with_capacity(cut.parts.len());
        for part in &cut.parts {
            match self.finish(key, Call::slow(part, self.time.read()), deadline).await {
                Ok(outcome) => outcomes.push(outcome.ok().expect("a part is not cut")),
                Err(error) if outcomes.is_empty() => return Err(error),
                // A part of it has run.
                Err(error) => return Err(StoreError::Unknown(Box::new(error))),
            }
        }
        Ok((cut.join)(outcomes))
    }

    /// Sends the call until its reply is final: the outcome, or the parts to send instead, none of which is cut.
    async fn finish<C: Command>(
        &self,
        key: &Key,
        mut call: Call<'_, C>,
        deadline: Option<Instant>,
    ) -> Result<Result<C::Outcome, Cut<C>>, StoreError> {
        loop {
            if let Some(cut) = call.cut() {
                return Ok(Err(cut));
            }
            let reply = self.send(&call.request(key.as_str()).by(deadline)).await?;
            if !call.goes_on_after(&reply, self.link.is_cluster()) {
                return call.outcome(&reply).map(Ok);
            }
        }
    }

    /// Executes `command` on `key` as [`LuaStore::call`] does, through a link whose futures are always ready.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn call_blocking<C: Command>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError> {
        let call = self.call(key, command, now().checked_add(patience));
        // Invariant: a call pends nowhere but in its link, which blocks instead.
        call.now_or_never().expect("a link that blocks is always ready")
    }

    /// Closes this store and all its clones. It ends its own connections, each after the calls in flight on it, and its
    /// listening. A connection of the application's own stays open.
    ///
    /// Later calls are [`StoreError::NotDone`], and so are new listeners.
    pub async fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.link.close().await;
        self.subscriptions.iter().for_each(Subscriptions::close);
    }

    /// Closes this store as [`LuaStore::close`] does, through a link whose futures are always ready.
    pub fn close_blocking(&self) {
        // Invariant: as of a call.
        self.close().now_or_never().expect("a link that blocks is always ready");
    }

    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        match self.is_closed.load(Ordering::Acquire) {
            true => Err(self.named(LinkError::refused(CLOSED))),
            false => Ok(()),
        }
    }

    pub(crate) async fn send(&self, request: &Request<'_>) -> Result<Reply, StoreError> {
        self.check_open()?;
        self.link.send(request).await.map_err(|error| self.named(error))
    }

    /// Returns this error, with the address of the server.
    pub(crate) fn named(&self, error: LinkError) -> StoreError {
        error.at(self.link.server()).into()
    }

    async fn send_batch(
        &self,
        mut batch: BatchCall,
        keys: &[&str],
        deadline: Option<Instant>,
    ) -> Result<Reply, StoreError> {
        loop {
            let request = batch.request(keys.iter().copied()).by(deadline);
            let reply = self.send(&request).await?;
            if !batch.goes_on_after(&reply) {
                return Ok(reply);
            }
        }
    }

    async fn call_batch<C>(
        &self,
        batch: BatchCall,
        calls: &[(&Key, &C)],
        deadline: Option<Instant>,
    ) -> Vec<Result<C::Outcome, StoreError>>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let keys: Vec<&str> = calls.iter().map(|(key, _)| key.as_str()).collect();
        let sent = by(deadline, self.send_batch(batch, &keys, deadline));
        let replies = match sent.await {
            Ok(Reply::List(replies)) => replies,
            // It is a node of a cluster after all: nothing was done.
            Ok(Reply::Error(error))
                if matches!(error.code(), "CROSSSLOT" | "MOVED" | "ASK" | "TRYAGAIN") =>
            {
                return self.call_each(calls, deadline).await;
            }
            Ok(Reply::Error(error)) => {
                let error = error.refusal().shared();
                return calls.iter().map(|_| Err(error())).collect();
            }
            Ok(_) => Vec::new(),
            Err(error) => {
                let error = error.shared();
                return calls.iter().map(|_| Err(error())).collect();
            }
        };
        let mut outcomes = Vec::with_capacity(calls.len());
        let replies = replies.into_iter().chain(std::iter::repeat(Reply::Other));
        for (reply, (key, command)) in replies.zip(calls) {
            outcomes.push(match reply.error_of_one().map_or(reply, Reply::Error) {
                // The key needs the slow path, which a call of its own takes.
                Reply::Error(error) if error.code() == NEEDS_SLOW_PATH => {
                    by(deadline, self.call(key, *command, deadline)).await
                }
                reply => outcome(*command, &reply),
            });
        }
        outcomes
    }

    async fn call_each<C>(
        &self,
        calls: &[(&Key, &C)],
        deadline: Option<Instant>,
    ) -> Vec<Result<C::Outcome, StoreError>>
    where
        C: Command<Outcome: Send> + Sync,
    {
        let each =
            calls.iter().map(|(key, command)| by(deadline, self.call(key, *command, deadline)));
        join_all(each).await
    }
}

/// Calls are boxed: programs nest them in several futures, and the compiler looks into them only to a certain depth.
impl<L: Link> Store for LuaStore<L> {
    async fn execute<C>(&self, key: &Key, command: &C) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.call(key, command, None).boxed().await
    }

    async fn execute_within<C>(
        &self,
        key: &Key,
        command: &C,
        patience: Duration,
    ) -> Result<C::Outcome, StoreError>
    where
        C: Command<Outcome: Send> + Sync,
    {
        self.call(key, command, now().checked_add(patience)).boxed().await
    }

    fn supports_batch(&self) -> bool {
        !self.link.is_cluster()
    }

    fn server(&self) -> Option<String> {
        self.link.server()
    }

    fn identity(&self) -> Option<Identity> {
        let number = Arc::as_ptr(&self.is_closed).addr();
        let is_cluster = self.link.is_cluster();
        Some(if is_cluster { Identity::of_cluster(number) } else { Identity::new(number) })
    }

    async fn execute_all(
        &self,
        keys: &[Key],
        command: &AcquireAll,
        patience: Duration,
    ) -> Result<Vec<OneOutcome>, StoreError> {
        self.call_all(keys, command, now().checked_add(patience)).boxed().await
    }

    /// Uses few calls if possible, none of which keeps the server busy for long, and otherwise single ones; all at
    /// once.
    async fn execute_batch<C>(
        &self,
        calls: &[(&Key, &C)],
        patience: Duration,
    ) -> Vec<Result<C::Outcome, StoreError>>
    where
        C: Command<Outcome: Send> + Sync,
    {
        // The whole batch ends then, in one poll: parts with an outcome keep it.
        let deadline = now().checked_add(sooner(patience));
        let commands = calls.iter().map(|&(_, command)| command);
        let batches = self.supports_batch().then(|| BatchCall::all(commands, self.time.read()));
        let Some(batches) = batches.flatten() else {
            return self.call_each(calls, deadline).await;
        };
        let mut left = calls;
        let parts = batches.into_iter().map(|batch| {
            let (these, others) = left.split_at(batch.len());
            left = others;
            self.call_batch(batch, these, deadline)
        });
        join_all(parts.collect::<Vec<_>>()).await.into_iter().flatten().collect()
    }
}

impl<L: Link> Notifications for LuaStore<L> {
    async fn listen(&self, key: &Key, wake: Wake) -> Result<Listener, StoreError> {
        self.check_open()?;
        let Some(subscriptions) = &self.subscriptions else {
            return Err(StoreError::NotDone(NO_SUBSCRIPTIONS.into()));
        };
        subscriptions.listen(key.as_str(), wake).await.map_err(|error| match error {
            StoreError::NotDone(cause) => self.named(LinkError::not_sent(cause)),
            other => other,
        })
    }
}

/// Returns the outcome of a part of a batch, or that there was no reply by the deadline. After that it is not sent.
async fn by<T>(
    deadline: Option<Instant>,
    part: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    if deadline.is_some_and(|deadline| deadline <= now()) {
        return Err(LinkError::not_sent(NOT_IN_TIME).into());
    }
    let left = || deadline.map(|deadline| deadline.saturating_duration_since(now()));
    let no_reply = || Err(LinkError::unanswered("no reply in time").into());
    until(left, part, |polled| if let Poll::Ready(outcome) = polled { outcome } else { no_reply() })
        .await
}

pub(crate) const CLOSED: &str = "the store is closed";

const NO_SUBSCRIPTIONS: &str =
    "a store on a connection of your own is told by what to listen: see its methods `listening...`";

/// The deciding clock: the server's, or the caller's.
#[derive(Clone, Default)]
pub struct TimeSource(Option<Injected>);

#[derive(Clone)]
struct Injected {
    clock: Arc<dyn Clock>,
    skew_ms: u64,
}

impl TimeSource {
    /// The server's clock.
    pub const SERVER: TimeSource = TimeSource(None);

    /// Returns the caller's clock, for servers that refuse `TIME` in scripts, and for tests.
    ///
    /// `skew` bounds how far this clock may be off the server's and other callers'. It is added to every expiry,
    /// rounded up to milliseconds, and is at most a year. Beyond it, keys can expire while they still matter. Do not
    /// use it for locks outside of tests: their leases rest on one clock for all.
    pub fn caller(clock: Arc<dyn Clock>, skew: Duration) -> Self {
        let skew_ms = u64::try_from(skew.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
        // More is no bound, and the server could not add it to its time.
        let skew_ms = skew_ms.min(366 * 24 * 3600 * 1000);
        TimeSource(Some(Injected { clock, skew_ms }))
    }

    /// Returns the time of a call that is made now.
    pub(crate) fn read(&self) -> CallTime {
        match &self.0 {
            Some(Injected { clock, skew_ms }) => {
                CallTime::Caller { now: clock.now(), skew_ms: *skew_ms }
            }
            None => CallTime::Store,
        }
    }
}

impl fmt::Debug for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "TimeSource::caller" } else { "TimeSource::SERVER" })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
