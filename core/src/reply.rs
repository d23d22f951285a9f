//! The integers of a script's reply.

use alloc::vec::Vec;

use crate::error::{RecordError, ReplyError};
use crate::time::Timestamp;

/// Reads a reply's head: its status, and the store's time.
pub(crate) fn read_head(reply: &[i64]) -> Result<(Timestamp, &[i64]), ReplyError> {
    let (&status, rest) = reply.split_first().ok_or(ReplyError::Unexpected)?;
    if status != 0 {
        let error = RecordError::from_status(status).ok_or(ReplyError::Unexpected)?;
        return Err(error.into());
    }
    let (&now, rest) = rest.split_first().ok_or(ReplyError::Unexpected)?;
    let now = Timestamp::from_micros(read_whole(now)?).map_err(|_| ReplyError::Unexpected)?;
    Ok((now, rest))
}

/// Returns a reply of these numbers: the status of success, the time, and the numbers, all of which are exact.
pub(crate) fn reply(now: Timestamp, numbers: impl IntoIterator<Item = u64>) -> Vec<i64> {
    let numbers = numbers.into_iter().map(|number| number as i64);
    [0, now.as_micros() as i64].into_iter().chain(numbers).collect()
}

/// Returns a reply of the answer of this number, and these behind it.
pub(crate) fn answer(
    now: Timestamp,
    answer: i64,
    numbers: impl IntoIterator<Item = u64>,
) -> Vec<i64> {
    let mut reply = reply(now, numbers);
    reply.insert(2, answer);
    reply
}

/// Returns an id in four parts of 32 bits, the highest first.
pub(crate) fn bits(id: u128) -> [u64; 4] {
    [96, 64, 32, 0].map(|shift| u64::from((id >> shift) as u32))
}

/// Reads a number that can never be below zero.
pub(crate) fn read_whole(number: i64) -> Result<u64, ReplyError> {
    u64::try_from(number).map_err(|_| ReplyError::Unexpected)
}

/// Reads a boolean.
pub(crate) fn read_flag(number: i64) -> Result<bool, ReplyError> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(ReplyError::Unexpected),
    }
}

/// Reads a time that may be in the future.
pub(crate) fn read_time(number: i64) -> Result<Timestamp, ReplyError> {
    Timestamp::computed(read_whole(number)?).ok_or(ReplyError::Unexpected)
}

/// Reads an id in four parts of 32 bits.
pub(crate) fn read_bits(parts: &[i64]) -> Result<u128, ReplyError> {
    let parts: &[i64; 4] = parts.try_into().map_err(|_| ReplyError::Unexpected)?;
    parts.iter().try_fold(0, |bits, &part| {
        let part = u32::try_from(part).map_err(|_| ReplyError::Unexpected)?;
        Ok(bits << 32 | u128::from(part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_of_another_form_is_not_an_outcome() {
        assert_eq!(read_head(&[]), Err(ReplyError::Unexpected));
        assert_eq!(read_head(&[0]), Err(ReplyError::Unexpected));
        assert_eq!(read_head(&[0, -1]), Err(ReplyError::Unexpected));
        assert_eq!(read_head(&[99, 1]), Err(ReplyError::Unexpected));
        assert_eq!(read_head(&[2, 1]), Err(RecordError::OtherVersion.into()));
    }
}
