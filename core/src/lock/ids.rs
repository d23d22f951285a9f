//! Who holds a lock, or wants it, and which hold it is.

use core::fmt;
use core::str::FromStr;

use crate::id::{IdError, read_id, write_id};

/// Who holds, or wants, a lock: an explicit value that can be stored, cloned, and handed to
/// another task or process; never a thread's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub(super) u128);

/// Names one hold, so that acquiring or releasing it again is the same operation. Make a new one for each, from
/// 128 random bits. To acquire with the id of a hold that has ended is an error:
/// [`RecordError::OperationReused`](crate::RecordError::OperationReused).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(u128);

impl OwnerId {
    /// An owner of these 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        OwnerId(bits)
    }

    /// The 128 bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl HoldId {
    /// A hold of these 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        HoldId(bits)
    }

    /// The 128 bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_id(self.0, f)
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_id(self.0, f)
    }
}

impl FromStr for OwnerId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        read_id(text).map(OwnerId)
    }
}

impl FromStr for HoldId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        read_id(text).map(HoldId)
    }
}
