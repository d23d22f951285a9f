//! The queue of events, in the order of their times, and of their creation within one instant.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use lockage_core::{AcquireAll, AnyCommand};

use super::host::{Answer, Out};
use super::servers::Sent;

pub(super) enum Event {
    Job(usize),
    Trouble(usize),
    Request {
        from: From,
        sent_us: u64,
        server: usize,
        key: String,
        command: AnyCommand,
    },
    RequestAll {
        from: From,
        sent_us: u64,
        keys: Vec<String>,
        command: AcquireAll,
    },
    Subscribe {
        from: From,
        channel: String,
    },
    Answer {
        to: From,
        answer: Answer,
    },
    Published {
        node: usize,
        life: u32,
        channel: String,
        message: Option<String>,
    },
    /// A request of the shipped store.
    Sent {
        from: From,
        sent_us: u64,
        sent: Sent,
    },
    /// A connection brings a message, or the end of a subscription.
    Pushed {
        node: usize,
        life: u32,
        socket: u64,
        channel: String,
        message: Option<String>,
    },
    /// A server closes a connection.
    Closed {
        node: usize,
        life: u32,
        socket: u64,
    },
    /// A slot on its way to another node takes its next step.
    SlotMoves {
        tag: String,
    },
    /// A node calls many keys at once.
    Sweep {
        node: usize,
        is_well: bool,
    },
    /// A node that stood still sends its messages.
    Out {
        node: usize,
        life: u32,
        done: Done,
    },
    Timer {
        node: usize,
    },
    Up {
        node: usize,
    },
    /// An old primary that went on after a failover ends.
    OldEnds,
    Probe,
}

/// The messages and reports of a node from one step.
pub(super) struct Done {
    pub(super) out: Vec<Out>,
    /// The jobs whose futures were dropped.
    pub(super) dropped: Vec<usize>,
    /// Whether the process died at its end.
    pub(super) dies: bool,
}

/// A call of one life of a node.
#[derive(Clone, Copy)]
pub(super) struct From {
    pub(super) node: usize,
    pub(super) life: u32,
    pub(super) call: u64,
}

#[derive(Debug)]
pub(super) struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    made: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at_us: u64,
    is_late: bool,
    number: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(super) fn new() -> Self {
        Queue { heap: BinaryHeap::new(), made: 0 }
    }

    pub(super) fn push(&mut self, at_us: u64, event: E) {
        self.add(at_us, true, event);
    }

    /// Adds an event that comes before the others of its instant.
    pub(super) fn push_first(&mut self, at_us: u64, event: E) {
        self.add(at_us, false, event);
    }

    fn add(&mut self, at_us: u64, is_late: bool, event: E) {
        self.made += 1;
        self.heap.push(Reverse(Entry { at_us, is_late, number: self.made, event }));
    }

    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at_us, entry.event))
    }
}

impl<E> Entry<E> {
    fn rank(&self) -> (u64, bool, u64) {
        (self.at_us, self.is_late, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_in_which_they_were_made() {
        let mut queue = Queue::new();
        for (at_us, event) in [(5, 'd'), (1, 'a'), (5, 'e'), (3, 'b'), (5, 'f')] {
            queue.push(at_us, event);
        }
        queue.push_first(5, 'c');
        let all: String = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(all, "abcdef");
    }
}
