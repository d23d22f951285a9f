//! The owner that holds a lock, or wants it, and the hold.

use crate::id::id;

id! {
    /// A holder of a lock, or one that wants it: an explicit value that can be stored, cloned, and handed to
    /// another task or process; never a thread's identity.
    OwnerId
}

id! {
    /// Names one hold, so that acquiring or releasing it again is the same operation. Make a new one for each, from
    /// 128 random bits. To acquire with the id of a hold that has ended is an error:
    /// [`RecordError::OperationReused`](crate::RecordError::OperationReused).
    HoldId
}
