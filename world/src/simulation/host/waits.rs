//! The futures that tasks wait for: a time, and the answer of a call.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use super::{Answer, Call, Out, Ports, lock};
use crate::simulation::wire::{is_acquire, is_of_process, limiter_of_call};

/// Sleeps for a duration, by the clock of the node.
pub(super) fn sleep(ports: &Arc<Mutex<Ports>>, duration: Duration) -> Sleep {
    let mut locked = lock(ports);
    let (at_us, number) = (locked.true_us_in(duration), locked.number());
    Sleep { ports: Arc::clone(ports), at_us, number }
}

/// A sleep until a true time.
pub(super) struct Sleep {
    pub(super) ports: Arc<Mutex<Ports>>,
    pub(super) at_us: u64,
    pub(super) number: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut ports = lock(&self.ports);
        if ports.now_us >= self.at_us {
            return Poll::Ready(());
        }
        ports.timers.insert((self.at_us, self.number), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let waker = lock(&self.ports).timers.remove(&(self.at_us, self.number));
        drop(waker);
    }
}

/// A call that waits for its answer. After this is dropped, no one waits for the answer, and the
/// call may still run.
pub(super) struct Waiting {
    ports: Arc<Mutex<Ports>>,
    call: u64,
}

impl Future for Waiting {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let mut ports = lock(&self.ports);
        let ports = &mut *ports;
        let Some(call) = ports.calls.get_mut(&self.call) else { return Poll::Pending };
        if let Some(answer) = call.answer.take() {
            if call.tells_clock && answer.is_ok() {
                ports.clock_known_us.get_or_insert(ports.now_us);
            }
            return Poll::Ready(answer);
        }
        call.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let call = lock(&self.ports).calls.remove(&self.call);
        drop(call);
    }
}

/// Calls that were sent at once, whose answers are taken together.
pub(super) struct Batch {
    ports: Arc<Mutex<Ports>>,
    first: u64,
}

impl Batch {
    pub(super) fn of(sent: &[Waiting]) -> Option<Self> {
        let Waiting { ports, call: first } = sent.first()?;
        let mut locked = lock(ports);
        let of_limiter = |waiting: &Waiting| locked.calls.get(&waiting.call)?.of_limiter;
        let limiters = sent.iter().filter_map(of_limiter).collect();
        locked.called.insert(*first, limiters);
        Some(Batch { ports: Arc::clone(ports), first: *first })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        lock(&self.ports).called.remove(&self.first);
    }
}

/// Sends a message, and returns the wait for the answer to its call.
pub(super) fn send(ports: &Arc<Mutex<Ports>>, out: impl FnOnce(u64) -> Out) -> Waiting {
    let mut locked = lock(ports);
    let call = locked.number();
    let out = out(call);
    let subscribes = match &out {
        Out::Sent(sent) => sent.listens,
        out => matches!(out, Out::Subscribe { .. }),
    };
    let socket = match &out {
        Out::Sent(sent) => Some(sent.socket),
        _ => None,
    };
    let (of_limiter, tells_clock) = match &out {
        Out::Request { key, command, .. } => {
            (limiter_of_call(key, command), is_of_process(key) && is_acquire(command))
        }
        _ => (None, false),
    };
    locked
        .calls
        .insert(call, Call { subscribes, socket, of_limiter, tells_clock, ..Call::default() });
    if !locked.is_dead {
        locked.out.push(out);
    }
    Waiting { ports: Arc::clone(ports), call }
}
