//! Reads records in binary: doubles, counts of one or two bytes, and ids of 16.

use alloc::vec::Vec;

use crate::call::whole;
use crate::exact::LATEST_END;

/// The bytes that are still to be read.
pub(crate) struct Rest<'a>(pub(crate) &'a [u8]);

impl Rest<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    /// Reads a double that is a whole number.
    pub(crate) fn double(&mut self) -> Option<u64> {
        whole(self.take()?)
    }

    /// Reads a token that calls can still follow: see [`LATEST_END`].
    pub(crate) fn token(&mut self) -> Option<u64> {
        self.double().filter(|token| *token <= LATEST_END)
    }

    /// Reads a count of two bytes.
    pub(crate) fn count(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn id(&mut self) -> Option<u128> {
        self.take().map(u128::from_be_bytes)
    }

    /// Reads items until nothing is left.
    pub(crate) fn all<T>(mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.0.is_empty() {
            items.push(read(&mut self)?);
        }
        Some(items)
    }
}
