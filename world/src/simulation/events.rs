//! What happens next: events in the order of their times, those of one instant in the order in which they
//! were made.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

#[derive(Debug)]
pub(super) struct Queue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    made: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at_us: u64,
    number: u64,
    event: E,
}

impl<E> Queue<E> {
    pub(super) fn new() -> Self {
        Queue { heap: BinaryHeap::new(), made: 0 }
    }

    pub(super) fn push(&mut self, at_us: u64, event: E) {
        self.made += 1;
        self.heap.push(Reverse(Entry { at_us, number: self.made, event }));
    }

    pub(super) fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at_us, entry.event))
    }
}

impl<E> Entry<E> {
    fn rank(&self) -> (u64, u64) {
        (self.at_us, self.number)
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
        for (at_us, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b'), (5, 'e')] {
            queue.push(at_us, event);
        }
        let all: String = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(all, "abcde");
    }
}
