//! Faults on the way to a store, and the required errors of its callers.

use std::time::Duration;

use lockage::runtime::Runtime;
use lockage::testing::{FailingStore, Fate};
use lockage::{Limiter, RetryStore, Store};

use crate::Proxy;
use crate::idle::{Idle, LOST, RECOVERY, SHORT, Told, limit};

/// Faults on the way between a store and its server.
///
/// [`Proxy`] makes them for any store that connects over TCP, and [`FailingStore`] for one in this process. A
/// fault of the next call is one of the next command that the store executes.
pub trait FaultInjector {
    /// Lets the next call be carried out, and no answer ever come.
    fn lose_answer(&self);

    /// Lets the next call be carried out, and its connection end in place of the answer.
    fn cut_answer(&self) {
        self.lose_answer();
    }

    /// Lets the connection of the next call end before the server has the call.
    fn cut_request(&self);

    /// Lets the server answer the next call with an error, before it is carried out, such as "no memory left".
    fn refuse(&self);

    /// Takes the server away while `true`: connections end, and new ones are refused.
    fn set_away(&self, away: bool);

    /// Restarts the server: connections end. Records stay.
    fn restart(&self);

    /// Lets the server forget all that it was sent except records, such as scripts.
    fn forget_scripts(&self) {}

    /// Lets nothing arrive any more on present connections, which stay open. New ones work.
    fn silence(&self) {}
}

/// A store, and the faults on its way.
///
/// The store is one that reports errors by itself, without a [`RetryStore`] around it, and replaces a connection
/// that stays silent: a store that was given a connection need not.
pub struct Faults<'a, S, R> {
    /// Said when a scenario fails, and part of all keys. Keys of an earlier run must be gone.
    pub name: &'a str,
    /// The store under test; clones share their records.
    pub store: S,
    /// Makes the faults.
    pub injector: &'a dyn FaultInjector,
    /// Times when a caller gives up.
    pub runtime: R,
}

/// Calls are this far apart where connections end in between.
///
/// A store that is not notified of that has to check a connection that was idle for this long.
pub const IDLE: Duration = Duration::from_millis(600);

impl<S: Store + Clone, R: Runtime> Faults<'_, S, R> {
    /// Makes each fault under one call after another, and compares the caller's answer with the charge.
    ///
    /// # Panics
    /// Where a call was carried out twice, its answer differs from its outcome, or the store does not recover.
    pub async fn run(&self) {
        self.charges("no fault", || {}, |told, charged| (told, charged) == (Told::Done, 1)).await;
        self.lost_answers_are_unknown().await;
        self.lost_requests_are_not_repeated().await;
        self.forgotten_scripts_are_sent_again().await;
        self.a_restart_is_survived().await;
        self.calls_while_the_server_is_away_never_run().await;
        self.refusals_are_not_done().await;
        self.calls_with_request_ids_are_answered_and_charged_once().await;
        self.connections_lost_while_idle_go_unnoticed().await;
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
        let calls = self.calls();
        let before = calls.used().await;
        self.injector.set_away(true);
        for _ in 0..5 {
            let told = calls.call(SHORT).await;
            assert!(told != Told::Done, "{}: the server is away: {told:?}", self.name);
        }
        self.injector.set_away(false);
        let charged = calls.used().await - before;
        let name = self.name;
        assert!(
            charged == 0,
            "{name}: the server was away, and {charged} calls were charged later"
        );
    }

    /// D11: with an id the store recognizes a repeated call, so that it is safe to send it again.
    async fn calls_with_request_ids_are_answered_and_charged_once(&self) {
        let store = RetryStore::new(self.store.clone(), self.runtime.clone(), RECOVERY);
        let limiter =
            Limiter::new(store, limit()).with_prefix(&self.calls().prefix()).expect("no braces");
        let limiter = limiter.with_idempotency(Duration::from_secs(60)).expect("in range");
        let faults: [fn(&dyn FaultInjector); 5] = [
            |injector| injector.lose_answer(),
            |injector| injector.cut_answer(),
            |injector| injector.cut_request(),
            |injector| injector.refuse(),
            |injector| injector.restart(),
        ];
        for fault in faults {
            let before = self.calls().used().await;
            fault(self.injector);
            let decision = limiter.try_acquire("id", 1).await;
            let charged = self.calls().used().await - before;
            let answered = decision.as_ref().is_ok_and(lockage::Decision::is_allowed);
            assert!(answered && charged == 1, "{}: D11: {charged}, {decision:?}", self.name);
        }
    }

    async fn connections_lost_while_idle_go_unnoticed(&self) {
        let (calls, injector) = (self.calls(), self.injector);
        let pause = async || self.runtime.sleep(IDLE).await;
        let closed = async || {
            injector.restart();
            pause().await;
        };
        calls.survives("idle close", closed).await;
        let restarted = async || {
            injector.forget_scripts();
            injector.set_away(true);
            pause().await;
            injector.set_away(false);
        };
        calls.survives("restart while idle", restarted).await;
        let silenced = async || {
            injector.silence();
            // And older than a connection may be that only a slow server leaves in silence.
            self.runtime.sleep(2 * IDLE).await;
        };
        calls.survives("silence", silenced).await;
    }

    /// Makes a call under this fault, and checks its answer and its charge.
    async fn charges(&self, what: &str, fault: impl Fn(), right: impl Fn(Told, u64) -> bool) {
        let calls = self.calls();
        let before = calls.used().await;
        fault();
        let told = calls.call(LOST).await;
        let charged = calls.used().await - before;
        let name = self.name;
        assert!(right(told, charged), "{name}: {what}: told {told:?}, and {charged} charged");
    }

    fn calls(&self) -> Idle<'_, S, R> {
        Idle { name: self.name, store: self.store.clone(), runtime: self.runtime.clone() }
    }
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

    fn silence(&self) {
        self.forget_connections();
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
