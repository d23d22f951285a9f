//! The ids of owners and of their holds.

use crate::id::id;

id! {
    /// A holder of a lock, or a waiter for it: an explicit value that can be stored, cloned, and passed to another task
    /// or process; never a thread's identity.
    OwnerId
}

id! {
    /// Names one hold, so that acquiring or releasing it again is the same operation. Make a new one for each, from 128
    /// random bits. Acquiring with the id of an ended hold is an error:
    /// [`RecordError::OperationReused`](crate::RecordError::OperationReused).
    HoldId
}
