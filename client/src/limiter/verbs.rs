//! The verbs of a limiter.

use std::time::Duration;

use lockage_core::{
    Acquire, AcquireEach, Adjust, Adjusted, CancelTurn, Cancellation, Cost, CostError, Decision,
    MAX_SLOW_COSTS, Peek, Renew, Renewal, RequestId, Reservation, Reserved, Reset, SetLimit,
    Settle, Settlement, StoredLimit, Ticket, Turn,
};

use super::Limiter;
use super::ask::{Answer, Mode};
use super::decide::Change;
use super::idempotency::random_id;
use crate::error::Error;
use crate::key::Key;
use crate::retry_store::HasTimeout;
use crate::runtime::Runtime;
use crate::store::Store;

/// # Admitting requests
impl<S: Store> Limiter<S> {
    /// Admits a request of `cost` (at least 1) for `id` and charges it, or changes nothing.
    ///
    /// A [`LeakyBucket`](crate::limiter::LeakyBucket) admits it **to a queue**: the caller must not go ahead before its
    /// turn, which is after [`Decision::turn_after`]. [`Limiter::acquire_within`] waits for it; [`Limiter::take_turn`]
    /// is for callers that may give the turn back.
    #[doc = limiter_example!(
        r#"let decision = limiter.try_acquire("user:42", 3).await?;"#
        "assert_eq!((decision.is_allowed(), decision.remaining), (true, 7));"
    )]
    /// # Errors
    /// [`Error`]. A denial is not an error.
    pub async fn try_acquire(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        self.decide(id, &[positive(cost)?], Mode::Acquire).await.map(Answer::decision)
    }

    /// Admits a request under an id that the caller chose: within `window` (1 us to 2^50 us), a repetition with this id
    /// and cost gets the same answer and is not charged again.
    ///
    /// A key remembers admitted requests only, the last [`REMEMBERED_REQUESTS`](lockage_core::REMEMBERED_REQUESTS) of
    /// them. A repetition of a denied or a forgotten request is a new request.
    #[doc = limiter_example!(
        "for _ in 0..2 {"
        "    let (id, window) = (RequestId::from_u128(0x9e1a), Duration::from_secs(60));"
        r#"    assert_eq!(limiter.try_acquire_once("user:42", 1, id, window).await?.remaining, 9);"#
        "}"
    )]
    /// # Errors
    /// [`Error`], also for a `window` out of range, and for an id that was used with another cost.
    pub async fn try_acquire_once(
        &self,
        id: &str,
        cost: u64,
        request: RequestId,
        window: Duration,
    ) -> Result<Decision, Error> {
        let command = Acquire::new(self.source.nominal(), cost)?.with_request(request, window)?;
        self.decide(id, &[cost.into()], Mode::Repeat(&command)).await.map(Answer::decision)
    }

    /// Decides several requests for `id` in one call, and returns a decision for each. They are decided in order, at
    /// one time, each as if sent singly.
    #[doc = limiter_example!(
        r#"let decisions = limiter.try_acquire_each("user:42", &[6, 6, 4]).await?;"#
        "assert!(decisions.iter().map(|decision| decision.is_allowed()).eq([true, false, true]));"
    )]
    /// # Errors
    /// [`Error`], also for an empty list, a cost of zero, or more costs than [`MAX_COSTS`](lockage_core::MAX_COSTS).
    /// The bound is [`MAX_SLOW_COSTS`] under a stored limit, and
    /// [`MAX_DIFFERENT_COSTS`](lockage_core::MAX_DIFFERENT_COSTS) different ones under a sliding log.
    pub async fn try_acquire_each(&self, id: &str, costs: &[u64]) -> Result<Vec<Decision>, Error> {
        let limit = self.source.limit();
        if limit.is_none() && costs.len() > MAX_SLOW_COSTS {
            return Err(CostError::TooMany { count: costs.len(), most: MAX_SLOW_COSTS }.into());
        }
        let command = AcquireEach::new(self.source.nominal(), costs.to_vec())?;
        let costs: Vec<Cost> = costs.iter().copied().map(Cost::from).collect();
        self.decide(id, &costs, Mode::Each(&command)).await.map(Answer::each)
    }

    /// Returns the decision that [`Limiter::try_acquire`] would make now, and charges nothing. A `cost` of zero asks
    /// for `remaining` and `reset_after` alone.
    #[doc = limiter_example!(
        r#"assert_eq!(limiter.peek("user:42", 0).await?.remaining, 10);"#
    )]
    /// # Errors
    /// [`Error`].
    pub async fn peek(&self, id: &str, cost: u64) -> Result<Decision, Error> {
        let command = Peek::new(self.source.nominal(), cost);
        self.decide(id, &[cost.into()], Mode::Peek(&command)).await.map(Answer::decision)
    }

    /// Admits a request to a turn in the queue of a [`LeakyBucket`](crate::limiter::LeakyBucket), with a ticket to give
    /// it back. Under a stored limit there is no ticket.
    ///
    /// ```
    /// use lockage::limiter::Cancellation;
    /// use lockage::Limiter;
    /// # use lockage_memory::MemoryStore;
    ///
    /// # pollster::block_on(async {
    /// let limiter = Limiter::new(MemoryStore::new(), "leaky-bucket 1/min queue 10".parse()?)
    ///     .with_prefix("turns")?;
    /// let first = limiter.take_turn("mails", 1).await?;
    /// assert!(first.decision.turn_after.is_zero()); // now
    /// let second = limiter.take_turn("mails", 1).await?;
    /// println!("the next one in {:?}", second.decision.turn_after); // in a minute
    /// if let Some(ticket) = second.ticket {
    ///     // Or rather not.
    ///     assert_eq!(limiter.cancel_turn("mails", ticket).await?, Cancellation::GivenBack);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error`]. A denial is not an error.
    pub async fn take_turn(&self, id: &str, cost: u64) -> Result<Turn, Error> {
        let command = Acquire::new(self.source.nominal(), cost)?;
        self.decide(id, &[cost.into()], Mode::TakeTurn(&command)).await.map(Answer::turn)
    }

    /// Gives a turn of `id` back, as if it had never been asked for. That is possible if no request was admitted since,
    /// and the turn has not come. Otherwise nothing changes, and later turns do not move up. See [`CancelTurn`].
    ///
    /// # Errors
    /// [`Error`]. After [`StoreError::Unknown`](crate::StoreError::Unknown) the turn may or may not be given back.
    pub async fn cancel_turn(&self, id: &str, ticket: Ticket) -> Result<Cancellation, Error> {
        let key = Key::under(&self.prefix, id)?;
        let _forgetting = self.forgetting(&key, Change::Use);
        Ok(self.store.execute(&key, &CancelTurn::new(ticket)).await?)
    }
}

/// # Adjusting the charge
///
/// Each of these needs the store: no fallback answers it. With idempotency (see [`Limiter::with_idempotency`]) a call
/// whose answer was lost is retried, and changes something once at most.
impl<S: Store> Limiter<S> {
    /// Takes as much as is left for `id`, up to `most` (at least 1), and returns that amount.
    #[doc = limiter_example!(
        r#"let taken = limiter.take_up_to("user:42", 25).await?;"#
        "assert_eq!((taken.amount, taken.after.remaining), (10, 0));"
    )]
    /// # Errors
    /// [`Error`]. Getting nothing is not an error.
    pub async fn take_up_to(&self, id: &str, most: u64) -> Result<Adjusted, Error> {
        let command = Adjust::take_up_to(self.source.nominal(), most)?;
        self.adjust(id, Change::Use, command).await
    }

    /// Gives back up to `cost` (at least 1) of the use of `id`, the latest first, and returns that amount. Permits that
    /// have come back by themselves do not count again, so no refund leaves more than the capacity. See
    /// [`Adjust::refund`].
    #[doc = limiter_example!(
        r#"_ = limiter.try_acquire("user:42", 3).await?;"#
        r#"assert_eq!(limiter.refund("user:42", 5).await?.amount, 3);"#
    )]
    /// # Errors
    /// [`Error`].
    pub async fn refund(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        let command = Adjust::refund(self.source.nominal(), cost)?;
        self.adjust(id, Change::Use, command).await
    }

    /// Charges `cost` (at least 1) even if it does not fit, up to one capacity more than is left, and returns the
    /// amount charged. See [`Adjust::penalty`].
    #[doc = limiter_example!(
        r#"let charged = limiter.penalty("user:42", 12).await?;"#
        "assert_eq!((charged.amount, charged.after.remaining), (12, 0));"
    )]
    /// # Errors
    /// [`Error`].
    pub async fn penalty(&self, id: &str, cost: u64) -> Result<Adjusted, Error> {
        let command = Adjust::penalty(self.source.nominal(), cost)?;
        self.adjust(id, Change::Use, command).await
    }

    /// Denies every request for `id` for `span` from now on (whole microseconds, at most 2^50 us). A longer block
    /// stays. Under a limit per client it blocks this client alone.
    #[doc = limiter_example!(
        r#"_ = limiter.block("user:42", Duration::from_secs(3600)).await?;"#
        r#"assert!(limiter.try_acquire("user:42", 1).await?.is_blocked());"#
        r#"assert_eq!(limiter.unblock("user:42").await?.amount, 1);"#
    )]
    /// # Errors
    /// [`Error`], also for a span out of range.
    pub async fn block(&self, id: &str, span: Duration) -> Result<Adjusted, Error> {
        let command = Adjust::block(self.source.nominal(), span)?;
        self.adjust(id, Change::Key, command).await
    }

    /// Ends a block of `id`, and returns as the amount whether there was one (1) or not (0).
    ///
    /// # Errors
    /// [`Error`].
    pub async fn unblock(&self, id: &str) -> Result<Adjusted, Error> {
        let command = Adjust::unblock(self.source.nominal());
        self.adjust(id, Change::Use, command).await
    }

    /// Forgets the use of `id`, its blocks, request ids and stored limit, and returns whether there was any.
    /// [`Limiter::set_limit_afresh`] forgets the use and stores a limit.
    #[doc = limiter_example!(
        r#"_ = limiter.try_acquire("user:42", 10).await?;"#
        r#"assert!(limiter.reset("user:42").await?);"#
        r#"assert_eq!(limiter.peek("user:42", 0).await?.remaining, 10);"#
    )]
    /// # Errors
    /// [`Error`].
    pub async fn reset(&self, id: &str) -> Result<bool, Error> {
        let key = Key::under(&self.prefix, id)?;
        let _forgetting = self.forgetting(&key, Change::Key);
        let was_known = self.store.execute(&key, &Reset).await?;
        self.source.forget(&key);
        Ok(was_known)
    }
}

/// # Reserving
///
/// For requests whose cost is known only afterwards, such as the tokens of a language model's answer.
///
/// Each of these needs the store: no fallback answers it. A call whose answer was lost is retried, and runs once.
impl<S: Store> Limiter<S> {
    /// Admits a request for `id` and charges `cost` (at least 1) as an estimate, or changes nothing. Any process can
    /// settle the [`Reservation`], which is plain data, within `hold` (1 us to 2^50 us) by [`Limiter::commit`] or
    /// [`Limiter::cancel`]. Otherwise the estimate stays charged. `request` names it; make it from 128 random bits.
    ///
    /// In shadow mode (see [`Limiter::with_shadow`]) a request that would be denied is let through, with nothing to
    /// settle. Any number of reservations can be open. Each has a key of its own, `key:request`, for twice the `hold`.
    ///
    /// # Errors
    /// [`Error`], also for a `hold` out of range, or an id that was used before. A denial is not an error.
    pub async fn reserve_as(
        &self,
        id: &str,
        cost: u64,
        request: RequestId,
        hold: Duration,
    ) -> Result<Reserved, Error> {
        let command = Acquire::new(self.source.nominal(), cost)?.reserve(request, hold)?;
        self.decide(id, &[cost.into()], Mode::Reserve(&command)).await.map(Answer::reserved)
    }

    /// Charges `id` a request's real cost instead of its estimate. Later decisions are as if the real cost had been
    /// charged from the beginning. A cost above the estimate is charged now, even if it does not fit, up to one
    /// capacity more than is left. See [`Settle`].
    ///
    /// After a reset or a change of the limit, nothing is given back.
    #[doc = limiter_example!(
        r#"let reserved = limiter.reserve("user:42", 8, Duration::from_secs(60)).await?;"#
        r#"let reservation = reserved.reservation.expect("it is admitted");"#
        r#"_ = limiter.commit("user:42", &reservation, 5).await?; // 5 in the end"#
        r#"assert_eq!(limiter.peek("user:42", 0).await?.remaining, 5);"#
    )]
    /// # Errors
    /// [`Error`]. A settled or expired reservation is not an error.
    pub async fn commit(
        &self,
        id: &str,
        reservation: &Reservation,
        actual: u64,
    ) -> Result<Settlement, Error> {
        let command = Settle::new(self.source.nominal(), reservation, actual);
        self.change(id, Change::Use, &command).await
    }

    /// Lets a reservation for `id` be settled for `hold` longer than until the end that it states, as for a stream that
    /// goes on. It charges nothing. [`Renewal::Renewed`] has the new end. [`Limiter::keep`] renews one again and again. See
    /// [`Renew`].
    #[doc = limiter_example!(
        "let hold = Duration::from_secs(60);"
        r#"let reservation = limiter.reserve("user:42", 8, hold).await?.reservation.expect("it is admitted");"#
        r#"let Renewal::Renewed(longer) = limiter.renew("user:42", &reservation, hold).await? else { panic!() };"#
        "assert_eq!(longer.expires_at.saturating_since(reservation.expires_at), hold);"
    )]
    /// # Errors
    /// [`Error`], also for a `hold` out of range. A settled or expired reservation is not an error.
    pub async fn renew(
        &self,
        id: &str,
        reservation: &Reservation,
        hold: Duration,
    ) -> Result<Renewal, Error> {
        let key = Key::under(&self.prefix, id)?;
        let command = Renew::new(self.source.nominal(), reservation, hold)?;
        self.source.execute(&self.store, &key, &command).await
    }

    /// Gives back the whole estimate of a reservation for `id`.
    #[doc = limiter_example!(
        r#"let reserved = limiter.reserve("user:42", 8, Duration::from_secs(60)).await?;"#
        r#"let reservation = reserved.reservation.expect("it is admitted");"#
        r#"let Settlement::Settled { amount, .. } = limiter.cancel("user:42", &reservation).await? else { panic!() };"#
        r#"assert_eq!(amount, 8);"#
    )]
    /// # Errors
    /// As [`Limiter::commit`].
    pub async fn cancel(&self, id: &str, reservation: &Reservation) -> Result<Settlement, Error> {
        self.commit(id, reservation, 0).await
    }
}

/// # Storing limits
///
/// These are the limiter's own verbs, since its options must forget an id's denial and permits ahead along with the old
/// limit.
impl<S: Store> Limiter<S> {
    /// Stores the limit of `id`, in place of any other. Used permits stay used: right afterwards, at most the new
    /// capacity minus the used permits is left. A block stays, too. Requests and reservations are forgotten if the
    /// limit changes.
    #[doc = limiter_example!(stored:
        r#"limiter.set_limit("user:42", "sliding-log 3/min".parse::<StoredLimit>()?).await?;"#
        r#"assert_eq!(limiter.try_acquire("user:42", 1).await?.limit, 3);"#
    )]
    /// # Errors
    /// [`Error`]; [`Error::GivenLimit`] for a limiter with a limit of its own.
    pub async fn set_limit(&self, id: &str, limit: impl Into<StoredLimit>) -> Result<(), Error> {
        let limit = limit.into();
        self.store_limit(id, limit, SetLimit::new).await.map(drop)
    }

    /// Stores the limit of `id` if it has none, and returns whether it did.
    #[doc = limiter_example!(stored:
        r#"let [three, five] = ["sliding-log 3/min", "sliding-log 5/min"].map(|it| it.parse::<StoredLimit>());"#
        r#"assert!(limiter.try_set_limit("user:42", three?).await?);"#
        r#"assert!(!limiter.try_set_limit("user:42", five?).await?);"#
    )]
    /// # Errors
    /// As [`Limiter::set_limit`].
    pub async fn try_set_limit(
        &self,
        id: &str,
        limit: impl Into<StoredLimit>,
    ) -> Result<bool, Error> {
        let limit = limit.into();
        self.store_limit(id, limit, SetLimit::if_absent).await
    }

    /// Stores the limit of `id` and forgets its use, including a block.
    #[doc = limiter_example!(stored:
        r#"let three: StoredLimit = "sliding-log 3/min".parse()?;"#
        r#"limiter.set_limit("user:42", three).await?;"#
        r#"assert_eq!(limiter.try_acquire("user:42", 1).await?.remaining, 2);"#
        r#"limiter.set_limit_afresh("user:42", three).await?;"#
        r#"assert_eq!(limiter.try_acquire("user:42", 1).await?.remaining, 2);"#
    )]
    /// # Errors
    /// As [`Limiter::set_limit`].
    pub async fn set_limit_afresh(
        &self,
        id: &str,
        limit: impl Into<StoredLimit>,
    ) -> Result<(), Error> {
        let limit = limit.into();
        self.store_limit(id, limit, SetLimit::afresh).await.map(drop)
    }

    /// Returns the stored limit of `id`. A default counts once its first use has stored it.
    #[doc = limiter_example!(stored:
        r#"assert_eq!(limiter.stored_limit("user:42").await?, None);"#
    )]
    /// # Errors
    /// [`Error`].
    pub async fn stored_limit(&self, id: &str) -> Result<Option<StoredLimit>, Error> {
        let key = Key::under(&self.prefix, id)?;
        Ok(self.source.read(&self.store, &key).await?)
    }
}

/// # Waiting
impl<S: Store> Limiter<S> {
    /// Waits until a request of `cost` (at least 1) for `id` is admitted, and charges it. In the queue of a
    /// [`LeakyBucket`](crate::limiter::LeakyBucket) it waits until its turn, too.
    ///
    /// Returns a denial at once if the wait would be longer than `timeout`, and at its end if other processes were
    /// faster until then. Calls to the store have a timeout of their own, by which the last one may exceed this one.
    ///
    /// The callers of this limiter and its clones wait in line for each id and limit: each asks when its permit is due,
    /// once all callers before it ask or have left. Meanwhile [`Limiter::try_acquire`] is denied rather than overtake
    /// them, with [`Origin::Line`](crate::limiter::Origin::Line). Between processes there is no order. See
    /// [`Line`](lockage_core::flow::Line).
    ///
    /// The queue of a leaky bucket is in order: an admitted request sleeps once, until its turn, and
    /// [`Decision::turn_after`] is then zero. The store admits no request to a turn after `timeout`, so no turn is
    /// wasted. A request that finds no room in the queue is denied as above. Under a stored limit each attempt follows
    /// the limit stored at that time.
    ///
    /// Dropped while it sleeps, it has charged nothing, except for a turn in a queue, which stays taken: see
    /// [`Limiter::take_turn`]. Dropped while a call is in flight, that call may be charged, like every call without an
    /// answer.
    #[doc = limiter_example!(under "token-bucket 100/s burst 1":
        "for _ in 0..2 {"
        "    // The second one waits for 10 ms."
        r#"    assert!(limiter.acquire_within("user:42", 1, Duration::from_secs(9)).await?.is_allowed());"#
        "}"
    )]
    /// # Errors
    /// The [`Error`] of the first call that fails.
    pub async fn acquire_within(
        &self,
        id: &str,
        cost: u64,
        timeout: Duration,
    ) -> Result<Decision, Error>
    where
        S: HasTimeout,
    {
        positive(cost)?;
        let watch = self.options.observer.as_ref().map(|observer| observer.begin(true));
        let decision = self.wait(id, cost, timeout).await;
        if let Some(watch) = watch {
            watch.end(id, &[cost.into()], decision.as_ref().map(std::slice::from_ref));
        }
        decision
    }

    /// Reserves as [`Limiter::reserve_as`] does, under a new random id.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn reserve(&self, id: &str, cost: u64, hold: Duration) -> Result<Reserved, Error>
    where
        S: HasTimeout,
    {
        let request = random_id(|| self.store.runtime().random());
        self.reserve_as(id, cost, request, hold).await
    }
}

impl<S: Store> Limiter<S> {
    async fn store_limit(
        &self,
        id: &str,
        limit: StoredLimit,
        command: fn(StoredLimit) -> SetLimit,
    ) -> Result<bool, Error> {
        if self.source.limit().is_some() {
            return Err(Error::GivenLimit);
        }
        self.source.check_names(&limit.limit())?;
        let command = command(self.source.bounded_stored(limit)?);
        let key = Key::under(&self.prefix, id)?;
        let _forgetting = self.forgetting(&key, Change::Key);
        let is_stored = self.store.execute(&key, &command).await?;
        if is_stored {
            self.source.note(&key, limit);
        }
        Ok(is_stored)
    }
}

/// Checks the cost of a plain acquire, whose command is made when it is sent.
pub(super) fn positive(cost: impl Into<Cost>) -> Result<Cost, CostError> {
    let cost = cost.into();
    if cost.most() == 0 { Err(CostError::Zero) } else { Ok(cost) }
}
