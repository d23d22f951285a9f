//! Tests of `lockage-tests` and of the core that need neither a server nor a runtime.

#[path = "../tests/unit/adjustments.rs"]
mod adjustments;
#[path = "../../core/tests/core/changes.rs"]
mod core_changes;
#[path = "../../core/tests/core/flows.rs"]
mod core_flows;
#[path = "../../core/tests/core/leases.rs"]
mod core_leases;
#[path = "../../core/tests/core/read_back.rs"]
mod core_read_back;
#[path = "../../core/tests/core/records.rs"]
mod core_records;
#[path = "../../core/tests/core/repeatable.rs"]
mod core_repeatable;
#[path = "../../core/tests/core/requests.rs"]
mod core_requests;
#[path = "../../core/tests/core/reservations.rs"]
mod core_reservations;
#[path = "../../core/tests/core/strings.rs"]
mod core_strings;
#[path = "../../core/tests/core/turns.rs"]
mod core_turns;
#[path = "../../core/tests/core/values.rs"]
mod core_values;
#[path = "../../core/tests/core/wakes.rs"]
mod core_wakes;
#[path = "../tests/unit/fenced.rs"]
mod fenced;
#[path = "../tests/unit/flows/promises.rs"]
mod flows;
#[path = "../tests/unit/latch.rs"]
mod latch;
#[path = "../tests/unit/limiter_properties.rs"]
mod limiter_properties;
#[path = "../tests/unit/local_limiters.rs"]
mod local_limiters;
#[path = "../tests/unit/lock_laws.rs"]
mod lock_laws;
#[path = "../tests/unit/lock_reference.rs"]
mod lock_reference;
#[path = "../tests/unit/requests.rs"]
mod requests;
#[path = "../tests/unit/reservations.rs"]
mod reservations;
#[path = "../tests/unit/rw_lock.rs"]
mod rw_lock;
#[path = "../tests/unit/semaphore.rs"]
mod semaphore;
#[path = "../tests/unit/stored_limits.rs"]
mod stored_limits;
#[path = "../tests/unit/three_way.rs"]
mod three_way;
#[path = "../tests/unit/turns.rs"]
mod turns;
#[path = "../tests/unit/vectors.rs"]
mod vectors;
