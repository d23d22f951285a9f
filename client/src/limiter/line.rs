//! The lines of callers that wait for permits.
//!
//! A limiter, its clones, and its views under the same limit have one line for each key. [`Line`] decides; here each
//! caller sleeps, looks when it is called, and leaves when it is dropped. Callers of several runtimes share a line:
//! each sleeps by its own runtime, and asks for itself only.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};
use std::time::Duration;

use foldhash::quality::RandomState;
use lockage_core::Decision;
use lockage_core::flow::{Line, Look, Step};

use super::ask::{Answer, Ask};
use super::coalesce::Subject;
use super::shards::Shards;
use crate::key::Key;
use crate::runtime::{Runtime, within};
use crate::sync::AtomicUsize;

/// The expected number of keys, which determines the number of shards.
const KEYS: usize = 16 * 1024;

/// The lines of all keys that callers wait for. Shards are locked for a look, and never while a caller is woken.
pub(super) struct Lines {
    /// How many callers are in line, for all keys.
    callers: AtomicUsize,
    shards: Shards<HashMap<Subject, Callers, RandomState>>,
}

/// The callers of one line.
struct Callers {
    line: Line,
    /// The time by the runtime of the caller that came first.
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    calls: BTreeMap<u64, Called>,
}

/// Whether a caller is to look, and its waker while it sleeps.
#[derive(Default)]
struct Called {
    is_called: bool,
    waker: Option<Waker>,
}

impl Default for Lines {
    fn default() -> Self {
        let shards = Shards::new(KEYS, "number of keys", |_| HashMap::default());
        Lines { callers: AtomicUsize::new(0), shards: shards.expect("it is above zero") }
    }
}

impl Lines {
    /// Adds a caller to the line of its subject.
    pub(super) fn join(
        &self,
        subject: Subject,
        cost: u64,
        timeout: Duration,
        silence: Duration,
        runtime: &impl Runtime,
    ) -> Place<'_> {
        self.callers.fetch_add(1, Ordering::Relaxed);
        let mut lines = self.shards.of(&subject.key);
        let callers = lines.entry(subject.clone()).or_insert_with(|| {
            let runtime = runtime.clone();
            let now = Box::new(move || runtime.now());
            Callers { line: Line::new(silence), now, calls: BTreeMap::new() }
        });
        let number = callers.line.join(cost, runtime.now(), timeout);
        callers.calls.insert(number, Called::default());
        Place { lines: self, subject, number }
    }

    /// Returns the denials of requests that would overtake a line; `None` if all are to ask the store.
    #[inline]
    pub(super) fn overtaken(&self, ask: &Ask<'_>) -> Option<Answer> {
        match self.callers.load(Ordering::Relaxed) {
            0 => None,
            _ => self.deny(ask),
        }
    }

    /// Calls the lines of `key`: this limiter or a clone has given permits back, or changed the limit.
    #[inline]
    pub(super) fn changed(&self, key: &Key) {
        if self.callers.load(Ordering::Relaxed) > 0 {
            self.look_again(key);
        }
    }

    #[cold]
    fn look_again(&self, key: &Key) {
        let mut lines = self.shards.of(key);
        let of_key = lines.iter_mut().filter(|(subject, _)| subject.key == *key);
        let wakers: Vec<Waker> = of_key
            .flat_map(|(_, callers)| {
                callers.line.changed();
                callers.call()
            })
            .collect();
        drop(lines);
        wakers.into_iter().for_each(Waker::wake);
    }

    #[cold]
    fn deny(&self, ask: &Ask<'_>) -> Option<Answer> {
        if !ask.takes_known_denial() {
            return None;
        }
        let subject = Subject { key: ask.key.clone(), source: ask.source.clone() };
        let lines = self.shards.of(ask.key);
        let Callers { line, now, .. } = lines.get(&subject)?;
        let now = now();
        let denials = ask.costs.iter().map(|cost| line.overtaking(*cost, now));
        denials.collect::<Option<Vec<_>>>().map(|denials| Answer::of(ask, denials))
    }
}

/// A caller's place in line. It is left when this is dropped, and the next caller is called.
pub(super) struct Place<'a> {
    lines: &'a Lines,
    subject: Subject,
    number: u64,
}

/// Whether a change of a line concerns the other callers.
enum Others {
    /// Some of them are to look.
    Called,
    Unconcerned,
}

impl Place<'_> {
    /// Waits until the caller is to ask, or returns its denial.
    pub(super) async fn turn(&self, runtime: &impl Runtime) -> Option<Decision> {
        loop {
            let now = runtime.now();
            // Its answer calls others, or the end of a denied caller's place.
            match self.change(|line| (line.look(self.number, now), Others::Unconcerned)) {
                Look::Ask => return None,
                Look::Denied(decision) => return Some(decision),
                Look::Sleep(time) => _ = within(runtime, time, self.called()).await,
            }
        }
    }

    /// Returns how long the caller still waits.
    pub(super) fn patience(&self, now: Duration) -> Duration {
        self.change(|line| (line.patience(self.number, now), Others::Unconcerned))
    }

    pub(super) fn answered(&self, decision: &Decision, now: Duration, random: u64) -> Step {
        let known = self.subject.source.known(&self.subject.key);
        let limit = known.as_ref().map(|known| &known.limit);
        self.change(|line| {
            (line.answered(self.number, decision, limit, now, random), Others::Called)
        })
    }

    pub(super) fn failed(&self, now: Duration) {
        self.change(|line| (line.failed(self.number, now), Others::Called));
    }

    /// Becomes ready when the caller is to look.
    async fn called(&self) {
        poll_fn(|context| {
            let mut lines = self.lines.shards.of(&self.subject.key);
            let callers = lines.get_mut(&self.subject).expect(STAYS);
            let call = callers.calls.entry(self.number).or_default();
            if call.is_called {
                return Poll::Ready(());
            }
            let before = call.waker.replace(context.waker().clone());
            drop(lines);
            drop(before);
            Poll::Pending
        })
        .await;
    }

    /// Changes the line, and calls others if it concerns them.
    fn change<T>(&self, change: impl FnOnce(&mut Line) -> (T, Others)) -> T {
        let mut lines = self.lines.shards.of(&self.subject.key);
        let callers = lines.get_mut(&self.subject).expect(STAYS);
        let (changed, others) = change(&mut callers.line);
        // It looks again anyway.
        callers.calls.entry(self.number).or_default().is_called = false;
        let wakers = match others {
            Others::Called => callers.call(),
            Others::Unconcerned => Vec::new(),
        };
        drop(lines);
        wakers.into_iter().for_each(Waker::wake);
        changed
    }
}

/// Invariant of a place: it is in `calls` until it is dropped.
const STAYS: &str = "a line lasts as long as its callers";

impl Callers {
    /// Returns the wakers of those that are to look.
    fn call(&mut self) -> Vec<Waker> {
        let Callers { line, calls, .. } = self;
        let wakers = line.called().filter_map(|number| {
            let called = calls.get_mut(&number)?;
            called.is_called = true;
            called.waker.take()
        });
        wakers.collect()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut lines = self.lines.shards.of(&self.subject.key);
        let callers = lines.get_mut(&self.subject).expect(STAYS);
        callers.line.left(self.number);
        let own = callers.calls.remove(&self.number);
        let (wakers, is_last) = (callers.call(), callers.calls.is_empty());
        let line = if is_last { lines.remove(&self.subject) } else { None };
        drop(lines);
        drop((own, line));
        self.lines.callers.fetch_sub(1, Ordering::Relaxed);
        wakers.into_iter().for_each(Waker::wake);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::limiter::limit_source::LimitSource;
    use crate::runtime::Still;
    use crate::sync::lock;

    #[test]
    fn a_line_lasts_as_long_as_its_callers() {
        let lines = Lines::default();
        let source = LimitSource::given("fixed-window 1/s".parse().unwrap());
        let second = Duration::from_secs(1);
        let join = |id| {
            let subject = Subject { key: Key::new("test", id).unwrap(), source: source.clone() };
            lines.join(subject, 1, second, second, &Still)
        };
        let places = [join("a"), join("a"), join("b")];
        let count = || lines.shards.each().map(|shard| lock(shard).len()).sum::<usize>();
        assert_eq!((count(), lines.callers.load(Ordering::Relaxed)), (2, 3));
        drop(places);
        assert_eq!((count(), lines.callers.load(Ordering::Relaxed)), (0, 0));
    }
}
