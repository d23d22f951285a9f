use lockage_core::lock::{Lock, OwnerId};

use super::*;

const LEASE: Duration = Duration::from_secs(30);

/// No more renewals are in flight than there is room for, whichever executors their leases are of.
#[test]
fn a_plan_has_room_for_so_many_renewals_in_all() {
    let mut state = State::default();
    let kind = Lock::new(LEASE, LEASE).unwrap().into();
    for (number, home) in [Some(1), Some(2), None].into_iter().cycle().take(9).enumerate() {
        let (owner, id) = (OwnerId::from_u128(1), number as u128);
        let request =
            AcquireRequest { kind, owner, id, fair: false, label: None, made: Duration::ZERO };
        let key = Key::new("lock", &number.to_string()).unwrap();
        let lease = Arc::new(Lease::new(key, request, 7, home, None));
        state.watch(&lease, Duration::ZERO, None);
    }
    for (most, begun) in [(4, 4), (4, 4), (4, 1)] {
        let plan = state.plan(Some(3), LEASE / 2, most, LEASE, Duration::ZERO);
        assert_eq!(plan.renew.len(), begun);
    }
}
