//! Waiting for a lease of another holder.

use core::time::Duration;

use super::{backoff, part_of};

/// The longest sleep after the first refusal.
const FIRST_SLEEP: Duration = Duration::from_millis(4);

/// One caller's wait for something held under a lease, such as a lock.
///
/// Ask, and after each refusal sleep for the time that [`after`](Polling::after) returns. Sleeps are
/// drawn from the upper half of 4 ms, 8 ms, 16 ms and so on up to the poll (exponential backoff with
/// equal jitter), and end half a poll after the lease at the latest: if all holders crash, a waiter
/// asks within one poll of the end of the lease (L8). With wake-ups, the poll only bounds the cost of a
/// lost one, and can be long. With a deadline, the last poll is at the deadline.
#[derive(Clone, Debug)]
pub struct Polling {
    poll: Duration,
    deadline: Option<Duration>,
    refusals: u32,
}

impl Polling {
    /// Creates a wait that polls at least once per `poll`, until `deadline` if there is one.
    pub fn new(poll: Duration, deadline: Option<Duration>) -> Self {
        Polling { poll, deadline, refusals: 0 }
    }

    /// Creates a wait with wake-ups, which does not poll more often at first.
    pub fn steady(poll: Duration, deadline: Option<Duration>) -> Self {
        Polling { poll, deadline, refusals: u32::MAX }
    }

    /// Returns how long to sleep after the refusal of a lease that is free in `free_in` at the latest;
    /// `None` if no time is left for another poll.
    pub fn after(&mut self, free_in: Duration, now: Duration, random: u64) -> Option<Duration> {
        let half = backoff(FIRST_SLEEP, 2, self.refusals, self.poll) / 2;
        self.refusals = self.refusals.saturating_add(1);
        let jitter = part_of(half, random);
        let sleep = half.saturating_add(jitter).min(free_in.saturating_add(jitter));
        match self.deadline {
            Some(deadline) if now >= deadline => None,
            Some(deadline) => Some(sleep.min(deadline - now)),
            None => Some(sleep),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn sleeps_grow_to_the_poll() {
        let mut polling = Polling::new(POLL, None);
        let mut sleeps = [(); 7].map(|()| polling.after(LONG, LONG, u64::MAX).unwrap());
        sleeps.iter_mut().for_each(|sleep| *sleep += Duration::from_nanos(1));
        assert_eq!(sleeps.map(|sleep| sleep.as_millis()), [4, 8, 16, 32, 64, 100, 100]);
        assert_eq!(polling.after(LONG, LONG, 0), Some(POLL / 2));
    }

    #[test]
    fn a_steady_one_asks_in_each_poll_from_the_first() {
        let mut polling = Polling::steady(POLL, None);
        for random in [0, 1 << 63, u64::MAX] {
            let sleep = polling.after(LONG, LONG, random).unwrap();
            assert!(sleep >= POLL / 2 && sleep < POLL, "{sleep:?}");
        }
    }

    #[test]
    fn l8_it_asks_within_a_poll_of_the_end_of_the_lease() {
        let mut polling = Polling::new(POLL, None);
        for _ in 0..9 {
            polling.after(LONG, LONG, 0);
        }
        for random in [0, 1 << 63, u64::MAX] {
            let sleep = polling.after(Duration::from_millis(3), LONG, random).unwrap();
            assert!(sleep >= Duration::from_millis(3) && sleep < Duration::from_millis(53));
        }
    }

    #[test]
    fn the_last_question_is_at_the_deadline() {
        let mut polling = Polling::new(POLL, Some(LONG));
        let before = LONG - Duration::from_millis(1);
        assert_eq!(polling.after(LONG, before, 0), Some(Duration::from_millis(1)));
        assert_eq!(polling.after(LONG, LONG, 0), None);
    }
}
