//! Numbers in the text of records.

use alloc::vec::Vec;

use crate::exact::{LATEST_END, MAX_EXACT};

/// Numbers with a space between them.
pub(crate) fn read_numbers(text: &str) -> Option<Vec<u64>> {
    text.split(' ').map(read_number).collect()
}

/// Reads a whole number in plain digits: no sign, no space, no exponent.
pub(crate) fn read_number(text: &str) -> Option<u64> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// This many numbers of the exact range, a space between them.
pub(crate) fn read_exact<const N: usize>(text: &str) -> Option<[u64; N]> {
    let numbers = read_numbers(text)?;
    let numbers: [u64; N] = numbers.try_into().ok()?;
    numbers.iter().all(|&number| number < MAX_EXACT).then_some(numbers)
}

/// Reads a fencing token that leaves room for later ones, as all granted ones do.
pub(crate) fn read_token(text: &str) -> Option<u64> {
    read_number(text).filter(|&token| token <= LATEST_END)
}
