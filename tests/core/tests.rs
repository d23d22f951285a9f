//! Tests of `lockage-tests` and of the core that need neither a server nor a runtime.

#[path = "../tests/adjustments.rs"]
mod adjustments;
#[path = "../../core/tests/changes.rs"]
mod core_changes;
#[path = "../../core/tests/flows.rs"]
mod core_flows;
#[path = "../../core/tests/leases.rs"]
mod core_leases;
#[path = "../../core/tests/read_back.rs"]
mod core_read_back;
#[path = "../../core/tests/records.rs"]
mod core_records;
#[path = "../../core/tests/repeatable.rs"]
mod core_repeatable;
#[path = "../../core/tests/requests.rs"]
mod core_requests;
#[path = "../../core/tests/reservations.rs"]
mod core_reservations;
#[path = "../../core/tests/strings.rs"]
mod core_strings;
#[path = "../../core/tests/turns.rs"]
mod core_turns;
#[path = "../../core/tests/values.rs"]
mod core_values;
#[path = "../../core/tests/wakes.rs"]
mod core_wakes;
#[path = "../tests/fenced.rs"]
mod fenced;
#[path = "../tests/flows/promises.rs"]
mod flows;
#[path = "../tests/latch.rs"]
mod latch;
#[path = "../tests/limiter_properties.rs"]
mod limiter_properties;
#[path = "../tests/local_limiters.rs"]
mod local_limiters;
#[path = "../tests/lock_laws.rs"]
mod lock_laws;
#[path = "../tests/lock_reference.rs"]
mod lock_reference;
#[path = "../tests/requests.rs"]
mod requests;
#[path = "../tests/reservations.rs"]
mod reservations;
#[path = "../tests/rw_lock.rs"]
mod rw_lock;
#[path = "../tests/semaphore.rs"]
mod semaphore;
#[path = "../tests/stored_limits.rs"]
mod stored_limits;
#[path = "../tests/three_way.rs"]
mod three_way;
#[path = "../tests/turns.rs"]
mod turns;
#[path = "../tests/vectors.rs"]
mod vectors;
