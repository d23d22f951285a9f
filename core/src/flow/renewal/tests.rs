use alloc::vec;

use super::*;

#[test]
fn l6_the_shortest_lease_outlasts_a_call_and_a_shorter_one_does_not() {
    for micros in (0..3000).chain([998_998, 1_000_000, 30_000_000, 1 << 50]) {
        let timeout = Duration::from_micros(micros);
        let sure = |lease| own_deadline(Duration::ZERO, lease);
        let lease = shortest_lease(timeout);
        assert!(sure(lease) > timeout, "{timeout:?}: {lease:?}");
        // A lease's thousandth is rounded down to nanoseconds.
        let shorter = sure(lease - Duration::from_micros(1));
        assert!(shorter <= timeout + Duration::from_nanos(1), "{timeout:?}: {lease:?}");
    }
    assert!(shortest_lease(Duration::MAX) > Duration::from_micros(1 << 50));
}

const LEASE: Duration = Duration::from_secs(24);
const DEADLINE: Duration = Duration::from_millis(23_975);
/// No renewal times out before its lease.
const TIMEOUT: Duration = LEASE;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Watches these leases from time zero on.
fn watching(keys: &[u32]) -> Renewals<u32> {
    let mut renewals = Renewals::new();
    keys.iter().for_each(|key| renewals.watch(*key, Duration::ZERO, LEASE, None));
    renewals
}

#[test]
fn renewals_due_soon_are_batched() {
    let mut renewals = watching(&[1]);
    renewals.watch(2, secs(1), LEASE, None);
    renewals.watch(3, secs(2), LEASE, None);
    let plan = renewals.plan(secs(8), 100, TIMEOUT);
    assert_eq!((plan.renew, plan.wake_at), (vec![1, 2], Some(secs(10))));
    // Renewals under way are not repeated.
    assert_eq!(renewals.plan(secs(9), 100, TIMEOUT).renew, []);
    assert_eq!(renewals.plan(secs(10), 100, TIMEOUT).renew, [3]);
}

#[test]
fn so_many_go_at_once_and_then_the_others() {
    let mut renewals = watching(&[1, 2, 3]);
    assert_eq!(renewals.plan(secs(9), 2, TIMEOUT).renew, [1, 2]);
    assert_eq!(
        renewals.plan(secs(9), 0, TIMEOUT),
        Plan { wake_at: Some(secs(8)), ..Plan::default() }
    );
    assert_eq!(renewals.plan(secs(9), 2, TIMEOUT).renew, [3]);
    assert_eq!(renewals.plan(DEADLINE, 0, TIMEOUT).lost, [1, 2, 3]);
}

#[test]
fn a_renewal_counts_from_when_it_was_sent() {
    let mut renewals = watching(&[1]);
    renewals.plan(secs(8), 100, TIMEOUT);
    renewals.renewed(&1, secs(8));
    assert_eq!(renewals.deadline(&1), Some(secs(8) + DEADLINE));
    assert_eq!(renewals.plan(secs(15), 100, TIMEOUT).wake_at, Some(secs(16)));
    // A late, older answer shortens nothing.
    renewals.renewed(&1, secs(2));
    assert_eq!(renewals.deadline(&1), Some(secs(8) + DEADLINE));
}

#[test]
fn one_that_fails_is_repeated_until_its_time_is_over() {
    let mut renewals = watching(&[1]);
    let (mut now, mut attempts) = (secs(8), 0);
    loop {
        let plan = renewals.plan(now, 100, TIMEOUT);
        if !plan.lost.is_empty() {
            assert_eq!((plan.lost, plan.wake_at, now), (vec![1], None, DEADLINE));
            break;
        }
        assert!(now < DEADLINE, "L6: nothing is renewed after the deadline");
        attempts += plan.renew.len();
        if !plan.renew.is_empty() {
            renewals.failed(&1, now, 1 << 63);
        }
        now = renewals.plan(now, 100, TIMEOUT).wake_at.expect("it is watched");
    }
    assert!((8..=20).contains(&attempts), "{attempts}");
    assert!(renewals.is_empty());
}

/// The sleep after the first failure is as long as the rest of the lease: no early renewal with others.
#[test]
fn leases_due_at_their_deadline_are_not_renewed() {
    let sleep = Duration::from_millis(250);
    for (left, renewed) in [(sleep, vec![2]), (sleep + Duration::from_nanos(1), vec![2, 1])] {
        let mut renewals = watching(&[1]);
        renewals.plan(secs(8), 100, TIMEOUT);
        renewals.failed(&1, DEADLINE - left, 0);
        let due = DEADLINE - secs(1);
        renewals.watch(2, due - secs(8), LEASE, None);
        assert_eq!(renewals.plan(due, 100, TIMEOUT).renew, renewed);
    }
}

/// L6: a renewal whose task does not go on is made by another one once it has timed out, and not before.
#[test]
fn l6_one_without_a_result_is_due_again_after_its_timeout() {
    let mut renewals = watching(&[1]);
    let plan = renewals.plan(secs(8), 100, secs(4));
    assert_eq!((plan.renew, plan.wake_at), (vec![1], Some(secs(12))));
    renewals.watch(2, secs(4) - LEASE / EARLY, LEASE, None);
    // It does not go early with others.
    assert_eq!(renewals.plan(secs(12) - secs(1), 100, secs(4)).renew, [2]);
    assert_eq!(renewals.begin(&1, secs(11), secs(4)), Err(secs(12)));
    assert_eq!(renewals.plan(secs(12), 100, secs(4)).renew, [1]);
    assert_eq!(renewals.begin(&1, secs(16), secs(4)), Ok(()));
    assert_eq!(renewals.begin(&1, secs(20), secs(4)), Ok(()));
    // It has ended before that would time out.
    assert_eq!(renewals.begin(&1, DEADLINE - secs(1), secs(4)), Err(DEADLINE));
    renewals.renewed(&1, secs(20));
    assert_eq!(renewals.begin(&1, secs(20), secs(4)), Err(secs(28)));
    assert_eq!(renewals.begin(&1, secs(28), secs(4)), Ok(()));
    renewals.stop(&1);
    assert!(renewals.begin(&1, secs(32), secs(4)).is_err());
    assert_eq!(renewals.plan(secs(32), 100, secs(4)).renew, []);
    assert!(renewals.begin(&3, secs(32), secs(4)).is_err());
}

/// L6: nothing is renewed after its deadline, nor what is watched no more.
#[test]
fn l6_one_that_has_ended_or_is_stopped_does_not_begin() {
    let mut renewals = watching(&[1, 2]);
    renewals.stop(&2);
    for (key, now) in [(1, DEADLINE), (2, secs(8)), (2, DEADLINE)] {
        assert_eq!(renewals.begin(&key, now, secs(4)), Err(DEADLINE), "{key} {now:?}");
    }
    assert_eq!(renewals.plan(secs(8), 100, TIMEOUT).renew, [1]);
    // It is under way until its lease ends.
    assert_eq!(renewals.begin(&1, DEADLINE, secs(4)), Err(DEADLINE));
}

#[test]
fn a_lease_that_is_watched_anew_is_one_lease() {
    let mut renewals = watching(&[1]);
    renewals.watch(1, secs(4), LEASE, None);
    assert_eq!(renewals.len(), 1);
    let plan = renewals.plan(secs(8), 100, TIMEOUT);
    assert_eq!((plan.renew, plan.wake_at), (vec![], Some(secs(12))));
}

#[test]
fn pauses_after_failures_begin_anew_with_a_success() {
    let mut renewals = watching(&[1]);
    let pause = |renewals: &mut Renewals<u32>| {
        renewals.failed(&1, secs(8), 0);
        renewals.plan(secs(8), 0, TIMEOUT).wake_at.expect("it is watched") - secs(8)
    };
    let pauses = [(); 3].map(|()| pause(&mut renewals));
    assert!(pauses[0] < pauses[1] && pauses[1] < pauses[2], "{pauses:?}");
    renewals.renewed(&1, secs(8));
    assert_eq!(pause(&mut renewals), pauses[0]);
}

#[test]
fn one_without_an_answer_is_lost_at_its_deadline() {
    let mut renewals = watching(&[1]);
    let plan = renewals.plan(secs(8), 100, TIMEOUT);
    assert_eq!((plan.renew, plan.wake_at), (vec![1], Some(DEADLINE)));
    assert_eq!(renewals.plan(DEADLINE, 100, TIMEOUT).lost, [1]);
    renewals.renewed(&1, secs(8));
    assert_eq!(renewals.deadline(&1), Some(DEADLINE), "what is lost stays lost");
}

#[test]
fn forgotten_leases_are_neither_renewed_nor_lost() {
    let mut renewals = watching(&[1, 2]);
    assert_eq!((renewals.len(), renewals.is_empty()), (2, false));
    assert!(renewals.forget(&1) && !renewals.forget(&1));
    assert_eq!(renewals.plan(secs(8), 100, TIMEOUT).renew, [2]);
    renewals.failed(&1, secs(8), 0);
    assert!(renewals.forget(&2));
    renewals.renewed(&2, secs(8));
    assert_eq!(
        renewals.plan(secs(99), 100, TIMEOUT),
        Plan { renew: vec![], lost: vec![], wake_at: None }
    );
}

#[test]
fn stopped_leases_keep_their_deadline_until_forgotten() {
    let mut renewals = watching(&[1, 2]);
    renewals.plan(secs(8), 1, TIMEOUT);
    assert!(renewals.stop(&1) && !renewals.stop(&1) && !renewals.stop(&3));
    renewals.renewed(&1, secs(8));
    renewals.failed(&1, secs(8), 0);
    assert_eq!((renewals.deadline(&1), renewals.len()), (Some(DEADLINE), 1));
    assert_eq!(renewals.plan(DEADLINE, 100, TIMEOUT).lost, [2]);
    assert!(!renewals.forget(&1));
    assert_eq!((renewals.deadline(&1), renewals.is_empty()), (None, true));
}

/// L6: a renewal that was given up is made at once, also by a thread that leaves renewals to their own one for a while.
#[test]
fn a_renewal_that_was_given_up_is_due_at_once() {
    let mut renewals = watching(&[1]);
    let (now, late) = (secs(9), secs(1));
    assert_eq!(renewals.begin(&1, now, TIMEOUT), Ok(()));
    assert!(renewals.plan(now - late, 100, TIMEOUT).renew.is_empty());
    renewals.given_up(&1, now - late);
    assert_eq!(renewals.plan(now - late, 100, TIMEOUT).renew, [1]);
    renewals.stop(&1);
    renewals.given_up(&1, now);
    assert!(renewals.plan(now, 100, TIMEOUT).renew.is_empty());
}

#[test]
fn a_longest_time_is_not_renewed_past() {
    let mut renewals = Renewals::new();
    renewals.watch(1, Duration::ZERO, LEASE, Some(secs(40)));
    let mut now = Duration::ZERO;
    let mut renewed = 0;
    loop {
        let plan = renewals.plan(now, 100, TIMEOUT);
        if plan.lost == [1] {
            break;
        }
        renewed += plan.renew.len();
        plan.renew.iter().for_each(|key| renewals.renewed(key, now));
        assert!(renewals.deadline(&1).expect("it is watched") <= secs(40));
        now = renewals.plan(now, 100, TIMEOUT).wake_at.expect("it is watched");
    }
    // After 8 s and 16 s it ends at 40 s.
    assert_eq!((now, renewed), (secs(40), 3));
    renewals.watch(2, now, LEASE, None);
    assert!(renewals.is_longest(&1) && !renewals.is_longest(&2) && !renewals.is_longest(&3));
}

#[test]
fn a_lease_of_nothing_is_lost_at_once() {
    let mut renewals = Renewals::new();
    renewals.watch(1, secs(5), Duration::from_micros(900), None);
    assert_eq!(renewals.plan(secs(5), 100, TIMEOUT).lost, [1]);
}
