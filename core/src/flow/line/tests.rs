use super::*;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Acquire, Command, Record, Timestamp};

const SECOND: Duration = Duration::from_secs(1);
const START: Duration = Duration::from_secs(1000);
const SILENCE: Duration = Duration::from_millis(250);

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A store with one key, and a line in front of it.
struct Desk {
    limit: Limit,
    slot: Option<Record>,
    line: Line,
    now: Duration,
}

impl Desk {
    fn new(limit: &str) -> Self {
        let limit = limit.parse().unwrap();
        Desk { limit, slot: None, line: Line::new(SILENCE), now: START }
    }

    fn decide(&mut self, cost: u64) -> Decision {
        let time = Timestamp::EPOCH.saturating_add(self.now);
        Acquire::new(self.limit, cost).unwrap().apply(&mut self.slot, time).unwrap()
    }

    fn first(&self) -> Option<u64> {
        self.line.called().next()
    }

    fn join(&mut self, cost: u64) -> u64 {
        self.line.join(cost, self.now, 100 * SECOND)
    }

    fn look(&mut self, caller: u64) -> Look {
        self.line.look(caller, self.now)
    }

    /// Returns the step after a call of a caller whose turn it is.
    fn ask(&mut self, caller: u64, cost: u64) -> Step {
        let decision = self.decide(cost);
        self.line.answered(caller, &decision, Some(&self.limit), self.now, 0)
    }

    /// Lets all callers of these costs wait until they are admitted; returns in which order and when each is, and how
    /// many calls that takes.
    fn serve(&mut self, costs: &[u64]) -> (Vec<(u64, Duration)>, u32) {
        let start = self.now;
        let cost_of: BTreeMap<u64, u64> =
            costs.iter().map(|&cost| (self.join(cost), cost)).collect();
        let (mut served, mut calls) = (Vec::new(), 0);
        while let Some(first) = self.first() {
            match self.look(first) {
                Look::Ask => {
                    calls += 1;
                    if self.ask(first, cost_of[&first]) == Step::Done {
                        served.push((cost_of[&first], self.now - start));
                    }
                }
                Look::Sleep(time) => self.now += time,
                Look::Denied(decision) => panic!("{decision:?}"),
            }
        }
        (served, calls)
    }
}

#[test]
fn callers_are_served_in_order_as_soon_as_each_fits() {
    // A large cost in the middle: smaller ones after it do not take its permits.
    let mut desk = Desk::new("token-bucket 20/s burst 20");
    let (served, calls) = desk.serve(&[20, 1, 20, 1, 1]);
    let expected = vec![(20, 0), (1, 50), (20, 1050), (1, 1100), (1, 1150)];
    let expected: Vec<_> = expected.into_iter().map(|(cost, at)| (cost, millis(at))).collect();
    assert_eq!((served, calls), (expected, 5), "one call for each");
}

/// D16: the call of a caller that has left may have been charged, so the callers behind it ask one at a time until a
/// later call is answered. Otherwise the smallest of them would take the rest of the permits.
#[test]
fn callers_behind_an_abandoned_call_keep_their_order() {
    let mut desk = Desk::new("token-bucket 5 every 1s burst 5");
    let [first, dropped, third, fourth, last] = [5, 2, 2, 2, 1].map(|cost| desk.join(cost));
    assert_eq!((desk.look(first), desk.ask(first, 5)), (Look::Ask, Step::Done));
    desk.now += SECOND;
    assert_eq!(desk.look(dropped), Look::Ask);
    assert!(desk.decide(2).is_allowed());
    desk.line.left(dropped);
    assert_eq!(desk.look(third), Look::Ask);
    for caller in [fourth, last] {
        assert!(matches!(desk.look(caller), Look::Sleep(_)), "{caller} waits for the answer");
    }
    assert_eq!(desk.ask(third, 2), Step::Done);
    for caller in [fourth, last] {
        let Look::Sleep(time) = desk.look(caller) else { panic!("{caller} is not due") };
        assert!(time >= SECOND, "{caller}: {time:?}");
    }
}

#[test]
fn forecasts_of_every_kind_of_limit_cost_no_time_and_few_calls() {
    for (limit, expected, most) in [
        ("token-bucket 100/s burst 1", 490, 50),
        ("token-bucket 100/s burst 10", 400, 50),
        ("token-bucket 10 every 100ms burst 10", 400, 50),
        ("fixed-window 10/100ms", 400, 50),
        ("leaky-bucket 100/s queue 10", 400, 50),
        ("token-bucket 100/s burst 10 + fixed-window 30/s", 1100, 50),
        ("calendar-window 50/day", 0, 50),
        // The next one asks at once, and then once more.
        ("sliding-log 10/100ms", 400, 54),
        ("sliding-window 10/100ms", 534, 100),
    ] {
        let mut desk = Desk::new(limit);
        if let Limit::CalendarWindow(window) = desk.limit {
            let day = 86_400_000_000;
            desk.limit = window.with_boundaries([0, 1, 2, 3].map(|index| index * day)).into();
        }
        let start = desk.now;
        let cost_of: Vec<_> = (0..50).map(|_| desk.join(1)).collect();
        let mut calls = 0;
        for caller in cost_of {
            loop {
                match desk.look(caller) {
                    Look::Ask => {
                        calls += 1;
                        if desk.ask(caller, 1) != Step::Wait {
                            break;
                        }
                    }
                    Look::Sleep(time) => desk.now += time,
                    Look::Denied(decision) => panic!("{limit}: {decision:?}"),
                }
            }
        }
        let took = desk.now - start;
        assert!(took <= millis(expected), "{limit}: {took:?}");
        assert!((50..=most).contains(&calls), "{limit}: {calls} calls");
    }
}

#[test]
fn only_callers_with_available_permits_ask_concurrently() {
    let mut desk = Desk::new("token-bucket 10/s burst 5");
    let callers = [1, 1, 2, 1, 1].map(|cost| desk.join(cost));
    assert_eq!(desk.look(callers[0]), Look::Ask);
    // Nothing is known yet.
    assert_eq!(desk.look(callers[1]), Look::Sleep(SILENCE));
    assert_eq!(desk.ask(callers[0], 1), Step::Done);
    for caller in &callers[1..4] {
        assert_eq!(desk.first(), Some(*caller));
        assert_eq!(desk.look(*caller), Look::Ask);
    }
    assert_eq!(desk.look(callers[4]), Look::Sleep(millis(100)), "its permit is due then");
    desk.now += millis(100);
    assert_eq!(desk.look(callers[4]), Look::Ask, "though the others have no answer yet");
}

#[test]
fn one_that_leaves_makes_room_at_once() {
    let mut desk = Desk::new("token-bucket 1/s burst 10");
    _ = desk.decide(10);
    let [large, small] = [10, 1].map(|cost| desk.join(cost));
    assert_eq!(desk.look(large), Look::Ask);
    assert_eq!(desk.ask(large, 10), Step::Wait);
    assert_eq!(desk.first(), Some(large), "it has lost its place to nobody");
    assert_eq!(desk.look(large), Look::Sleep(10 * SECOND));
    assert!(matches!(desk.look(small), Look::Sleep(time) if time > 9 * SECOND));
    desk.line.left(large);
    assert_eq!(desk.first(), Some(small));
    // Less than the denied cost: the store has to decide.
    assert_eq!(desk.look(small), Look::Sleep(SECOND));
    // Also with a call in flight.
    desk.now += SECOND;
    assert_eq!(desk.look(small), Look::Ask);
    desk.line.left(small);
    assert!(desk.line.is_empty());
}

/// A decision that was under way may be from before they came.
#[test]
fn permits_that_come_back_during_a_call_are_asked_for_at_once() {
    let mut desk = Desk::new("fixed-window 2/min");
    _ = desk.decide(2);
    let [first, second] = [1, 1].map(|cost| desk.join(cost));
    assert_eq!(desk.look(first), Look::Ask);
    desk.line.changed();
    assert_eq!(desk.ask(first, 1), Step::Wait);
    assert_eq!(desk.look(first), Look::Ask, "it is not known that there are none");
    // The next decision counts again.
    assert_eq!(desk.ask(first, 1), Step::Wait);
    assert!(matches!(desk.look(first), Look::Sleep(time) if time > SECOND));
    // An admission shows as little about other processes.
    desk.slot = None;
    desk.line.changed();
    assert_eq!(desk.look(first), Look::Ask);
    desk.line.changed();
    assert_eq!((desk.ask(first, 2), desk.look(second)), (Step::Done, Look::Ask));
}

#[test]
fn unpolled_callers_do_not_block_others() {
    let mut desk = Desk::new("token-bucket 10/s burst 1");
    let callers = [(); 4].map(|()| desk.join(1));
    // The first does not even look; the last one wakes first.
    for caller in &callers[1..] {
        assert_eq!(desk.look(*caller), Look::Sleep(SILENCE));
    }
    desk.now += SILENCE;
    assert_eq!(desk.look(callers[3]), Look::Ask);
    assert_eq!(desk.ask(callers[3], 1), Step::Done);
    // One that is back is in its place again.
    assert_eq!(desk.look(callers[1]), Look::Sleep(millis(100)));
    assert_eq!(desk.look(callers[2]), Look::Sleep(millis(100) + SILENCE));
    // It asks, and its call has no end.
    desk.now += millis(100);
    assert_eq!(desk.look(callers[1]), Look::Ask);
    assert_eq!(desk.look(callers[2]), Look::Sleep(millis(100)), "its permit is known to come");
    desk.now += SILENCE;
    assert_eq!(desk.look(callers[2]), Look::Ask);
    // Its answer counts whenever it comes.
    assert_eq!(desk.ask(callers[1], 1), Step::Done);
}

#[test]
fn the_end_of_a_call_is_a_sign_of_life() {
    let mut desk = Desk::new("token-bucket 10/s burst 3");
    let [first, _second, third] = [(); 3].map(|()| desk.join(1));
    assert_eq!(desk.look(first), Look::Ask);
    desk.now += SILENCE - millis(1);
    assert_eq!(desk.ask(first, 1), Step::Done);
    desk.now += millis(1);
    assert_eq!(desk.look(third), Look::Sleep(SILENCE - millis(1)), "the second has been called");
}

/// D16: meanwhile permits may have come and gone, and calls failed.
#[test]
fn a_line_that_was_empty_knows_nothing() {
    let mut desk = Desk::new("fixed-window 1/min");
    _ = desk.decide(1);
    let late = desk.line.join(1, desk.now, SECOND);
    assert_eq!((desk.look(late), desk.ask(late, 1)), (Look::Ask, Step::Done));
    desk.slot = None;
    let next = desk.line.join(1, desk.now, SECOND);
    assert_ne!(next, late);
    assert_eq!((desk.look(next), desk.ask(next, 1)), (Look::Ask, Step::Done));
}

#[test]
fn each_failure_lets_twice_as_many_ask() {
    let mut desk = Desk::new("sliding-log 1/s");
    let callers = [(); 12].map(|()| desk.join(1));
    let mut left = &callers[..];
    for most in [1, 2, 8] {
        let asking = left.iter().take_while(|caller| desk.look(**caller) == Look::Ask).count();
        assert_eq!(asking, most);
        for caller in &left[..asking] {
            desk.line.failed(*caller, desk.now);
        }
        left = &left[asking..];
    }
    // An answer ends that.
    assert_eq!(desk.look(left[0]), Look::Ask);
    assert_eq!((desk.ask(left[0], 1), desk.line.failures), (Step::Done, 0));
}

/// D2, with those before it counted as admitted first.
#[test]
fn a_wait_that_cannot_fit_ends_at_once_with_the_time_at_which_it_would_have() {
    let mut desk = Desk::new("token-bucket 10/s burst 5");
    _ = desk.decide(5);
    let large = desk.join(5);
    assert_eq!(desk.look(large), Look::Ask);
    assert_eq!(desk.ask(large, 5), Step::Wait);
    for (cost, timeout, retry_after) in [(1, 599, 600), (5, 999, 1000)] {
        let late = desk.line.join(cost, desk.now, millis(timeout));
        let Look::Denied(decision) = desk.look(late) else { panic!("{cost} waits") };
        assert_eq!(decision.verdict, Verdict::denied(millis(retry_after)));
        assert_eq!((decision.origin, decision.remaining), (Origin::Line, 0));
        assert_eq!(
            desk.line.overtaking(cost, desk.now),
            Some(decision),
            "of one that does not wait"
        );
    }
    let never = desk.line.join(6, desk.now, 9 * SECOND);
    let Look::Denied(decision) = desk.look(never) else { panic!("it waits") };
    assert_eq!(decision.verdict, Verdict::Never);
    // This one just fits, and is admitted then.
    let small = desk.line.join(1, desk.now, millis(600));
    assert!(matches!(desk.look(small), Look::Sleep(_)));
    desk.now += millis(500);
    assert_eq!(desk.look(large), Look::Ask);
    assert_eq!(desk.ask(large, 5), Step::Done);
    assert_eq!(desk.look(small), Look::Sleep(millis(100)));
    desk.now += millis(100);
    assert_eq!(desk.look(small), Look::Ask);
    assert_eq!(desk.ask(small, 1), Step::Done);
}

/// D2, counted from this denial and not from the store's.
#[test]
fn the_times_of_a_denial_in_line_count_from_then() {
    let mut desk = Desk::new("token-bucket 10/s burst 5");
    _ = desk.decide(5);
    let large = desk.join(5);
    assert_eq!((desk.look(large), desk.ask(large, 5)), (Look::Ask, Step::Wait));
    desk.now += millis(100);
    let late = desk.line.join(1, desk.now, millis(10));
    assert_eq!(desk.line.patience(late, desk.now + millis(4)), millis(6));
    let Look::Denied(decision) = desk.look(late) else { panic!("it waits") };
    assert_eq!(decision.verdict, Verdict::denied(millis(500)));
    assert_eq!((decision.reset_after, decision.turn_after), (millis(400), Duration::ZERO));
}

#[test]
fn callers_at_their_deadline_leave_with_the_known_denial_or_ask() {
    let mut desk = Desk::new("sliding-log 1/s");
    let [first, second] = [(); 2].map(|()| desk.line.join(1, desk.now, millis(100)));
    assert_eq!(desk.look(first), Look::Ask);
    assert_eq!(desk.look(second), Look::Sleep(millis(100)));
    desk.now += millis(100);
    assert_eq!(desk.look(second), Look::Ask, "no answer has come so far");
    assert_eq!(desk.ask(first, 1), Step::Done);
    assert_eq!(desk.ask(second, 1), Step::Done, "denied, and without time left");
    assert!(desk.line.is_empty());
}

#[test]
fn non_waiting_requests_do_not_take_permits_of_waiters() {
    let mut desk = Desk::new("token-bucket 10/s burst 10");
    assert_eq!(desk.line.overtaking(1, desk.now), None, "nobody waits");
    let [first, second] = [4, 4].map(|cost| desk.join(cost));
    assert_eq!(desk.line.overtaking(1, desk.now), None, "nothing is known");
    assert_eq!(desk.look(first), Look::Ask);
    assert_eq!(desk.ask(first, 4), Step::Done);
    assert_eq!(desk.line.overtaking(2, desk.now), None, "there are six for both");
    let denied = desk.line.overtaking(3, desk.now).expect("it would take one of them");
    assert_eq!(denied.verdict, Verdict::denied(millis(100)));
    // Nobody polls the one that is left.
    desk.now += SILENCE;
    assert_eq!(desk.line.overtaking(9, desk.now), None);
    desk.line.left(second);
    assert_eq!(desk.line.overtaking(9, desk.now), None);
}

#[test]
fn callers_that_cannot_meet_their_deadline_leave_early() {
    let mut desk = Desk::new("fixed-window 2/min");
    let callers = [(); 5].map(|()| desk.line.join(1, desk.now, SECOND));
    assert_eq!(desk.look(callers[0]), Look::Ask);
    for caller in &callers[1..] {
        assert_eq!(desk.look(*caller), Look::Sleep(SILENCE));
    }
    assert_eq!(desk.line.called().collect::<Vec<_>>(), [callers[1]]);
    assert_eq!(desk.ask(callers[0], 1), Step::Done);
    assert_eq!(desk.line.called().collect::<Vec<_>>(), callers[1..]);
    assert_eq!(desk.look(callers[1]), Look::Ask);
    for caller in &callers[2..] {
        assert!(matches!(desk.look(*caller), Look::Denied(_)));
    }
    let in_time = [(); 2].map(|()| desk.line.join(1, desk.now, 90 * SECOND));
    for caller in in_time {
        assert!(matches!(desk.look(caller), Look::Sleep(_)));
    }
    assert_eq!(desk.line.called().collect::<Vec<_>>(), in_time[..1], "the other has looked");
    in_time.iter().for_each(|caller| desk.line.left(*caller));
    // A decision that says more is for the first one, and then for the next.
    let [third, fourth] = [(); 2].map(|()| desk.line.join(1, desk.now, 90 * SECOND));
    assert_eq!(desk.ask(callers[1], 1), Step::Done);
    assert!(matches!(desk.look(fourth), Look::Sleep(_)));
    desk.now += 60 * SECOND;
    assert_eq!(desk.look(third), Look::Ask);
    let late = Decision::new(Verdict::denied(60 * SECOND), 2, 0, 60 * SECOND);
    assert_eq!(desk.line.answered(third, &late, None, desk.now, 0), Step::Done);
    assert!(matches!(desk.look(fourth), Look::Denied(_)));
    assert!(desk.line.is_empty());
}

/// D13: a queue's reply within one caller's timeout holds for no other caller.
#[test]
fn a_turn_that_is_too_late_for_one_is_not_for_the_next() {
    let mut desk = Desk::new("leaky-bucket 1/s queue 3");
    let [short, long] = [SECOND, 9 * SECOND].map(|timeout| desk.line.join(1, desk.now, timeout));
    assert_eq!(desk.look(short), Look::Ask);
    let turn_after = 2 * SECOND;
    let late = Decision { turn_after, ..Decision::new(Verdict::denied(SECOND), 3, 1, 2 * SECOND) };
    let step = desk.line.answered(short, &late, Some(&desk.limit), desk.now, 0);
    assert_eq!((step, desk.look(long)), (Step::Done, Look::Ask));
    let turn = Decision { turn_after, ..Decision::new(Verdict::Allowed, 3, 0, 3 * SECOND) };
    let step = desk.line.answered(long, &turn, Some(&desk.limit), desk.now, 0);
    assert_eq!((step, desk.line.is_empty()), (Step::Turn(turn_after), true));
}

#[test]
fn after_a_second_denial_whole_permits_are_left_to_other_processes() {
    let each = millis(10);
    let pauses =
        |random| [0, 1, 2, 3, 4, 5].map(|denials| pause(denials, each, random).as_millis());
    assert_eq!(pauses(0), [10, 10, 16, 32, 32, 32]);
    assert_eq!(pauses(u64::MAX), [10, 20, 76, 122, 122, 122]);
    let soon = Duration::from_micros(1);
    assert_eq!(
        [0, 1, 2, 3, 9].map(|denials| pause(denials, soon, 0).as_millis()),
        [1, 4, 16, 32, 32]
    );
    assert_eq!(pause(9, SECOND, u64::MAX), SECOND, "so seldom, it may as well ask for each");
}

#[test]
fn no_time_and_no_cost_is_too_large() {
    let limit: Limit = "token-bucket 1/day burst 1".parse().unwrap();
    for now in [Duration::ZERO, Duration::MAX / 2, Duration::MAX] {
        for timeout in [Duration::ZERO, Duration::MAX / 2, Duration::MAX] {
            let mut line = Line::new(Duration::MAX);
            let callers = [u64::MAX, 1, u64::MAX].map(|cost| line.join(cost, now, timeout));
            for caller in callers {
                if line.look(caller, now) == Look::Ask {
                    let denied = Decision::new(Verdict::denied(Duration::MAX), 1, 0, Duration::MAX);
                    line.answered(caller, &denied, Some(&limit), Duration::MAX, u64::MAX);
                }
            }
            _ = line.overtaking(u64::MAX, now);
        }
    }
}

/// Two lines would else be denied in turn, one at each permit.
#[test]
fn denials_count_on_over_one_admission() {
    let mut desk = Desk::new("token-bucket 100/s burst 1");
    (0..9).for_each(|_| _ = desk.join(1));
    let period = millis(10);
    let pause_after_a_denial = |desk: &mut Desk| {
        // Another process is faster.
        assert!(desk.decide(1).is_allowed());
        let first = desk.first().unwrap();
        assert_eq!(desk.look(first), Look::Ask);
        let (decision, limit, now) = (desk.decide(1), desk.limit, desk.now);
        desk.line.answered(first, &decision, Some(&limit), now, u64::MAX);
        let Look::Sleep(pause) = desk.look(first) else { panic!("its permit is not due") };
        desk.now += pause;
        pause
    };
    let admitted = |desk: &mut Desk| {
        let first = desk.first().unwrap();
        assert_eq!((desk.look(first), desk.ask(first, 1)), (Look::Ask, Step::Done));
        desk.now += period;
    };
    let mut pauses = Vec::new();
    for _ in 0..4 {
        pauses.push(pause_after_a_denial(&mut desk));
        admitted(&mut desk);
    }
    assert_eq!(pauses, [10, 20, 76, 122].map(millis));
    admitted(&mut desk);
    assert_eq!(pause_after_a_denial(&mut desk), period, "it has them all for now");
}
