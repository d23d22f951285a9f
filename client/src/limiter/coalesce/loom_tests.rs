//! Those who stand in one line, and the call that they wait for, in every interleaving in which no thread is
//! interrupted more than three times: three threads have too many others.

use loom::future::{AtomicWaker, block_on};
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use super::*;

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

/// Whose calls wait for this answer, and tell each request how many were in its call.
fn coalescer(answer: &Arc<Answer>) -> Arc<Coalescer> {
    with_room(ONE_KEY, answer)
}

fn with_room(room: Room, answer: &Arc<Answer>) -> Arc<Coalescer> {
    let answer = Arc::clone(answer);
    Coalescer::new(10, room, move |asked: Vec<(Arc<Subject>, Vec<u64>)>, _| {
        let answer = Arc::clone(&answer);
        Box::pin(async move {
            poll_fn(|context| answer.poll(context)).await;
            let count = asked.iter().map(|(_, costs)| costs.len() as u64).sum();
            let each = |costs: &Vec<u64>| Ok(costs.iter().map(|_| decision(count)).collect());
            asked.iter().map(|(_, costs)| each(costs)).collect()
        })
    })
}

fn decision(remaining: u64) -> Decision {
    let limit = "fixed-window 10/s".parse().unwrap();
    let unused = crate::limiter::fallback::unused(limit, 1, lockage_core::Timestamp::EPOCH);
    let mut decision = unused.unwrap();
    decision.remaining = remaining;
    decision
}

async fn ask(coalescer: &Arc<Coalescer>) -> u64 {
    ask_for(coalescer, "one").await
}

async fn ask_for(coalescer: &Arc<Coalescer>, id: &str) -> u64 {
    let source = LimitSource::given("fixed-window 10/s".parse().unwrap());
    let subject = Subject { key: Key::new("loom", id).unwrap(), source };
    coalescer.wait(Arc::new(subject), 1, None).await.unwrap().remaining
}

/// Asks, and gives up when it has been polled once.
async fn ask_and_go(coalescer: &Arc<Coalescer>) {
    let mut asked = Box::pin(ask(coalescer));
    poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_ready())).await;
}

fn explored(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Two who come at the same time, in one call or in two, both hear of its end, and nothing stays behind.
#[test]
fn each_who_waits_is_told() {
    explored(|| {
        let answer = Arc::default();
        let coalescer = coalescer(&answer);
        let other = Arc::clone(&coalescer);
        let other = thread::spawn(move || block_on(ask(&other)));
        let giver = thread::spawn(move || answer.give());
        assert_eq!(block_on(ask(&coalescer)), 1);
        assert_eq!(other.join().unwrap(), 1);
        giver.join().unwrap();
        let told = coalescer.lines().told();
        assert_eq!((told.requests, told.calls, told.waiting, told.ids), (2, 2, 0, 0));
    });
}

/// A caller that has polled the call and is dropped, at any moment, takes no other's answer along.
#[test]
fn who_goes_leaves_the_call_to_the_others() {
    explored(|| {
        let answer: Arc<Answer> = Arc::default();
        let coalescer = coalescer(&answer);
        let other = Arc::clone(&coalescer);
        let other = thread::spawn(move || block_on(ask_and_go(&other)));
        let giver = thread::spawn(move || answer.give());
        assert_eq!(block_on(ask(&coalescer)), 1);
        other.join().unwrap();
        giver.join().unwrap();
        let told = coalescer.lines().told();
        assert_eq!((told.waiting, told.ids), (0, 0));
    });
}

/// Where one call takes all keys, and there is one at a time, who comes for another key waits for the first call,
/// which either of them may bring to its end.
#[test]
fn keys_that_wait_for_room_are_told() {
    explored(|| {
        let answer = Arc::default();
        let coalescer = with_room(Room { keys: 2, calls: 1 }, &answer);
        let other = Arc::clone(&coalescer);
        let other = thread::spawn(move || block_on(ask_for(&other, "two")));
        let giver = thread::spawn(move || answer.give());
        assert_eq!(block_on(ask(&coalescer)), 1);
        assert_eq!(other.join().unwrap(), 1);
        giver.join().unwrap();
        let told = coalescer.lines().told();
        assert_eq!((told.requests, told.calls, told.waiting, told.ids), (2, 2, 0, 0));
    });
}
