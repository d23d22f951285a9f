//! Faults on the way to a store, and what its callers must be told.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use lockage::runtime::Runtime;
use lockage::testing::{FailingStore, Fate};
use lockage::{Key, Limit, Limiter, RetryStore, Store, StoreError};
use lockage_core::{Acquire, Peek};

use crate::Proxy;

/// What can be done to the way between a store and its server.
///
/// [`Proxy`] does it to any store that connects over TCP, and [`FailingStore`] to one in this process. A fault of the
/// next call is one of the next command that the store executes.
pub trait FaultInjector {
    /// Lets the next call be carried out, and no answer ever come.
    fn lose_answer(&self);

    /// Lets the next call be carried out, and its connection end in place of the answer.
    fn cut_answer(&self) {
        self.lose_answer();
    }

    /// Lets the connection of the next call end before the server has the call.
    fn cut_request(&self);

    /// Lets the server answer the next call with an error, before it is carried out: it has no memory left, say.
    fn refuse(&self);

    /// While `true`, there is no server: connections end, and new ones are refused.
    fn set_away(&self, away: bool);

    /// Restarts the server: connections end. Records stay.
    fn restart(&self);

    /// Lets the server forget what it has been sent besides records, such as scripts.
    fn forget_scripts(&self) {}
}

/// A store, and the faults on its way.
///
/// The store is one that tells errors by itself, without a [`RetryStore`] around it, and replaces a connection that stays
/// silent: a store that was given a connection need not.
pub struct Faults<'a, S, R> {
    /// Said when a scenario fails, and part of all keys. Keys of an earlier run must be gone.
    pub name: &'a str,
    /// The store under test; clones share their records.
    pub store: S,
    /// Makes the faults.
    pub injector: &'a dyn FaultInjector,
    /// Tells when a caller gives up.
    pub runtime: R,
}

/// After this time a caller gives up that may get no answer.
const SHORT: Duration = Duration::from_millis(300);

/// The same of a store that may say by itself that there is none, after half a second for one.
const LOST: Duration = Duration::from_secs(1);

/// The longest that a store may take to reach its server again after a fault, by itself.
const RECOVERY: Duration = Duration::from_secs(10);

/// Nothing is denied or refilled while a scenario runs.
const ROOMY: &str = "fixed-window 1000000/day";

/// What a caller was told of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// It was carried out.
    Done,
    /// It was certainly not carried out.
    NotDone,
    /// It may have been carried out; or nothing, until the caller gave up.
    Unknown,
}

impl<S: Store + Clone, R: Runtime> Faults<'_, S, R> {
    /// Makes each fault under one call after another, and compares what the caller was told with what was charged.
    ///
    /// # Panics
    /// Where a call was carried out twice, was told as something else than it came to, or the store does not recover.
    pub async fn run(&self) {
        self.charges("no fault", || {}, |told, charged| (told, charged) == (Told::Done, 1)).await;
        self.lost_answers_are_unknown().await;
        self.lost_requests_are_not_repeated().await;
        self.forgotten_scripts_are_sent_again().await;
        self.a_restart_is_survived().await;
        self.calls_while_the_server_is_away_never_run().await;
        self.refusals_are_not_done().await;
        self.calls_with_request_ids_are_answered_and_charged_once().await;
    }

    async fn lost_answers_are_unknown(&self) {
        let right = |told, charged| (told, charged) == (Told::Unknown, 1);
        for _ in 0..2 {
            self.charges("its answer is lost", || self.injector.lose_answer(), right).await;
            self.charges("its answer is cut", || self.injector.cut_answer(), right).await;
        }
    }

    /// The store cannot know that the request was lost: to send it again might be a second time.
    async fn lost_requests_are_not_repeated(&self) {
        let right = |told, charged| told != Told::Done && charged == 0;
        for _ in 0..2 {
            self.charges("its request is cut", || self.injector.cut_request(), right).await;
        }
    }

    async fn refusals_are_not_done(&self) {
        let right = |told, charged| (told, charged) == (Told::NotDone, 0);
        self.charges("it is refused", || self.injector.refuse(), right).await;
    }

    async fn forgotten_scripts_are_sent_again(&self) {
        let right = |told, charged| (told, charged) == (Told::Done, 1);
        for _ in 0..3 {
            self.charges("scripts are forgotten", || self.injector.forget_scripts(), right).await;
        }
    }

    async fn a_restart_is_survived(&self) {
        let restart = || {
            self.injector.forget_scripts();
            self.injector.restart();
        };
        let right = |told, charged| match told {
            Told::Done => charged == 1,
            Told::NotDone => charged == 0,
            Told::Unknown => charged < 2,
        };
        for _ in 0..2 {
            self.charges("the server restarts", restart, right).await;
        }
    }

    /// Nor later, when their callers have given up.
    async fn calls_while_the_server_is_away_never_run(&self) {
        let before = self.used().await;
        self.injector.set_away(true);
        for _ in 0..5 {
            let told = self.call(SHORT).await;
            assert!(told != Told::Done, "{}: the server is away: {told:?}", self.name);
        }
        self.injector.set_away(false);
        let charged = self.used().await - before;
        let name = self.name;
        assert!(
            charged == 0,
            "{name}: the server was away, and {charged} calls were charged later"
        );
    }

    /// D11: with an id the store can tell that a call is the same, so that it is safe to send it again.
    async fn calls_with_request_ids_are_answered_and_charged_once(&self) {
        let store = RetryStore::new(self.store.clone(), self.runtime.clone(), RECOVERY);
        let limiter = Limiter::new(store, limit()).with_prefix(&self.prefix()).expect("no braces");
        let limiter = limiter.with_idempotency(Duration::from_secs(60)).expect("in range");
        let faults: [fn(&dyn FaultInjector); 5] = [
            |injector| injector.lose_answer(),
            |injector| injector.cut_answer(),
            |injector| injector.cut_request(),
            |injector| injector.refuse(),
            |injector| injector.restart(),
        ];
        for fault in faults {
            let before = self.used().await;
            fault(self.injector);
            let decision = limiter.try_acquire("id", 1).await;
            let charged = self.used().await - before;
            let answered = decision.as_ref().is_ok_and(lockage::Decision::is_allowed);
            assert!(answered && charged == 1, "{}: D11: {charged}, {decision:?}", self.name);
        }
    }

    /// Makes a call under this fault, and checks what its caller is told and what is charged.
    async fn charges(&self, what: &str, fault: impl Fn(), right: impl Fn(Told, u64) -> bool) {
        let before = self.used().await;
        fault();
        let told = self.call(LOST).await;
        let charged = self.used().await - before;
        let name = self.name;
        assert!(right(told, charged), "{name}: {what}: told {told:?}, and {charged} charged");
    }

    async fn call(&self, max_wait: Duration) -> Told {
        let acquire = Acquire::new(limit(), 1).expect("above zero");
        let key = self.key();
        let call = self.store.execute_within(&key, &acquire, max_wait);
        match self.within(max_wait, call).await {
            None | Some(Err(StoreError::Unknown(_))) => Told::Unknown,
            Some(Ok(decision)) if decision.is_allowed() => Told::Done,
            Some(Err(StoreError::NotDone(_))) => Told::NotDone,
            Some(other) => panic!("{}: {other:?}", self.name),
        }
    }

    /// Returns what is charged, as soon as the store answers again.
    async fn used(&self) -> u64 {
        let (began, key, peek) = (Instant::now(), self.key(), Peek::new(limit(), 0));
        loop {
            let peeked = self.store.execute_within(&key, &peek, SHORT);
            let peeked = self.within(SHORT, peeked).await;
            if let Some(Ok(decision)) = peeked {
                return decision.limit - decision.remaining;
            }
            let name = self.name;
            assert!(began.elapsed() < RECOVERY, "{name}: it has not recovered: {peeked:?}");
            // A store that is not there may say so at once.
            self.runtime.sleep(Duration::from_millis(5)).await;
        }
    }

    async fn within<T>(&self, max_wait: Duration, call: impl Future<Output = T>) -> Option<T> {
        let given_up = pin!(self.runtime.sleep(max_wait));
        match select(pin!(call), given_up).await {
            Either::Left((outcome, _)) => Some(outcome),
            Either::Right(_) => None,
        }
    }

    fn prefix(&self) -> String {
        format!("{}-faults", self.name)
    }

    fn key(&self) -> Key {
        Key::new(&self.prefix(), "id").expect("no braces")
    }
}

fn limit() -> Limit {
    ROOMY.parse().expect("well formed")
}

impl FaultInjector for Proxy {
    fn lose_answer(&self) {
        self.swallow_replies(1);
    }

    fn cut_answer(&self) {
        self.cut_after_request(1);
    }

    fn cut_request(&self) {
        self.cut_before_request(1);
    }

    fn refuse(&self) {
        self.reply_error(1, "OOM command not allowed when used memory > 'maxmemory'.");
    }

    fn set_away(&self, away: bool) {
        Proxy::refuse(self, away);
    }

    fn restart(&self) {
        self.disconnect();
    }

    fn forget_scripts(&self) {
        self.flush_scripts();
    }
}

impl<S> FaultInjector for FailingStore<S> {
    fn lose_answer(&self) {
        self.next([Fate::DoneInSilence]);
    }

    fn cut_answer(&self) {
        self.next([Fate::AnswerLost]);
    }

    fn cut_request(&self) {
        self.next([Fate::RequestLost]);
    }

    fn refuse(&self) {
        self.next([Fate::NotDone]);
    }

    fn set_away(&self, away: bool) {
        self.always(if away { Fate::NotDone } else { Fate::Answered });
    }

    fn restart(&self) {}
}
