//! Callers that leave their requests, and the task that sends them, in every interleaving with at most two preemptions:
//! three threads have too many others.

use std::future::poll_fn;
use std::task::{Context, Poll};

use lockage_core::{Command, Timestamp};
use loom::future::{AtomicWaker, block_on};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::*;
use crate::runtime::Still;

/// Each task has a thread.
impl Spawn for Still {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        thread::spawn(move || block_on(task));
    }
}

/// A store's answer, for which a call waits.
#[derive(Default)]
struct Answer {
    is_there: AtomicBool,
    waker: AtomicWaker,
}

impl Answer {
    fn give(&self) {
        self.is_there.store(true, Ordering::SeqCst);
        self.waker.wake();
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        self.waker.register_by_ref(context.waker());
        match self.is_there.load(Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// Returns a coalescer whose calls wait for this answer, and whose decisions have each request's cost as `remaining`.
fn coalescer(answer: &Arc<Answer>) -> Arc<Coalescer> {
    let answer = Arc::clone(answer);
    let dispatch = move |asked: Vec<(Arc<Subject>, AcquireEach)>| -> Sending {
        let answer = Arc::clone(&answer);
        Box::pin(async move {
            poll_fn(|context| answer.poll(context)).await;
            asked.iter().map(|(_, command)| Ok(costs(command).map(decision).collect())).collect()
        })
    };
    Arc::new(Coalescer::of(Still, 10, Capacity { keys: 2, calls: 1 }, dispatch))
}

/// Returns the amount by which each request lowers `remaining`.
fn costs(command: &AcquireEach) -> impl Iterator<Item = u64> {
    let decisions = command.apply(&mut None, Timestamp::EPOCH).unwrap();
    let mut left = 10;
    decisions.into_iter().map(move |it| std::mem::replace(&mut left, it.remaining) - it.remaining)
}

fn decision(remaining: u64) -> Decision {
    let limit = "fixed-window 10/s".parse().unwrap();
    let unused = crate::limiter::fallback::unused(limit, &1.into(), Timestamp::EPOCH);
    let mut decision = unused.unwrap();
    decision.remaining = remaining;
    decision
}

async fn ask(coalescer: &Coalescer, cost: u64) -> u64 {
    let source = LimitSource::given("fixed-window 10/s".parse().unwrap());
    let subject = Subject { key: Key::new("loom", "id").unwrap(), source };
    coalescer.wait(subject, cost, None).await.unwrap().remaining
}

/// Asks, and gives up after one poll.
async fn ask_and_go(coalescer: &Coalescer) {
    let mut asked = Box::pin(ask(coalescer, 2));
    poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_ready())).await;
}

fn explored(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Two callers that come at the same time, in one call or in two, by one task that sends or by two, both get their own answer,
/// and nothing stays behind.
#[test]
fn concurrent_callers_each_get_their_answer() {
    explored(|| {
        let answer: Arc<Answer> = Arc::default();
        answer.give();
        let coalescer = coalescer(&answer);
        let other = Arc::clone(&coalescer);
        let other = thread::spawn(move || block_on(ask(&other, 2)));
        assert_eq!(block_on(ask(&coalescer, 1)), 1);
        assert_eq!(other.join().unwrap(), 2);
        let stats = coalescer.stats();
        assert_eq!((stats.requests, stats.waiting), (2, 0));
    });
}

/// A caller that is dropped, at any moment, costs no other caller its answer.
#[test]
fn a_dropped_caller_does_not_cancel_the_others() {
    explored(|| {
        let answer: Arc<Answer> = Arc::default();
        answer.give();
        let coalescer = coalescer(&answer);
        let other = Arc::clone(&coalescer);
        let other = thread::spawn(move || block_on(ask_and_go(&other)));
        assert_eq!(block_on(ask(&coalescer, 1)), 1);
        other.join().unwrap();
        assert_eq!(coalescer.stats().waiting, 0);
    });
}

/// An answer reaches its caller, whenever it comes.
#[test]
fn an_answer_is_heard() {
    explored(|| {
        let answer: Arc<Answer> = Arc::default();
        let coalescer = coalescer(&answer);
        let giver = thread::spawn(move || answer.give());
        assert_eq!(block_on(ask(&coalescer, 1)), 1);
        giver.join().unwrap();
    });
}
