use lockage_core::lock::{Lock, OwnerId};

use super::*;

const LEASE: Duration = Duration::from_secs(30);

/// Watches a lease of this executor, and returns its number.
fn watched(state: &mut State, id: u128, home: Executor) -> u64 {
    let kind = Lock::new(LEASE, LEASE).unwrap().into();
    let owner = OwnerId::from_u128(1);
    let request =
        AcquireRequest { kind, owner, id, fair: false, label: None, made: Duration::ZERO };
    let key = Key::new("lock", &id.to_string()).unwrap();
    state.watch(&Arc::new(Lease::new(key, request, 7, home, None)), Duration::ZERO, None)
}

/// No more renewals are in flight than there is room for, whichever executors their leases are of.
#[test]
fn a_plan_has_room_for_so_many_renewals_in_all() {
    let mut state = State::default();
    for (number, home) in (0..9).zip([Some(1), Some(2), None].into_iter().cycle()) {
        watched(&mut state, number, home);
    }
    for (most, begun) in [(4, 4), (4, 4), (4, 1)] {
        let plan = state.plan(Some(3), LEASE / 2, most, LEASE, Duration::ZERO);
        assert_eq!(plan.renew.len(), begun);
    }
}

/// No schedule of a released lock stays behind beside those of others.
#[test]
fn a_lease_that_is_forgotten_leaves_nothing() {
    let mut state = State::default();
    let [_, second] = [0, 1].map(|number| watched(&mut state, number, Some(1)));
    state.forget(second);
    let schedules = state.schedules.values().map(|renewals| renewals.len());
    assert_eq!(schedules.sum::<usize>(), 1);
}

/// L8: a release that is not due is left to all tasks, so that none that is blocked by then delays it.
#[test]
fn a_release_is_taken_once_it_is_due() {
    let mut state = State::default();
    let kind = Lock::new(LEASE, LEASE).unwrap().into();
    let owner = OwnerId::from_u128(1);
    for (id, due) in [(0, 0), (1, 5), (2, 9)].map(|(id, due)| (id, Duration::from_secs(due))) {
        let request =
            AcquireRequest { kind, owner, id, fair: false, label: None, made: Duration::ZERO };
        let (key, what) = (Key::new("lock", "kept").unwrap(), Pending::Grant { token: 7 });
        state.pending.push(PendingRelease { key, request, what, due, until: LEASE });
    }
    let taken = |state: &mut State, at| {
        let taken = state.take_pending(Duration::from_secs(at));
        (taken.len(), state.next_due().map(|due| due.as_secs()))
    };
    assert_eq!(taken(&mut state, 4), (1, Some(5)));
    assert_eq!(taken(&mut state, 5), (1, Some(9)));
    assert!(state.needs_task());
    // The lease of a closed lock ends by itself.
    state.is_closed = true;
    assert_eq!(taken(&mut state, 6), (0, None));
    assert!(!state.needs_task());
}
