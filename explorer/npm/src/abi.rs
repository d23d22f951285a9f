//! The interface of both modules to their page: bytes in, bytes and numbers out.
//!
//! The page writes to the address that [`input`] returns, makes a call, and reads the results at
//! [`output`] and [`numbers`]. One call has one answer, so nothing is freed, and no code here is
//! unsafe.

use std::cell::RefCell;

/// The most numbers in an answer.
const NUMBERS: usize = 8;

#[derive(Default)]
struct Buffers {
    input: Vec<u8>,
    output: Vec<u8>,
    numbers: [f64; NUMBERS],
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// Returns the address of `length` bytes for the next call.
#[unsafe(no_mangle)]
extern "C" fn input(length: usize) -> *mut u8 {
    BUFFERS.with_borrow_mut(|buffers| {
        buffers.input.resize(length, 0);
        buffers.input.as_mut_ptr()
    })
}

/// Returns the address of the bytes of the last answer. The call that answered returned their
/// length.
#[unsafe(no_mangle)]
extern "C" fn output() -> *const u8 {
    BUFFERS.with_borrow(|buffers| buffers.output.as_ptr())
}

/// Returns the address of the numbers of the last answer.
#[unsafe(no_mangle)]
extern "C" fn numbers() -> *const f64 {
    BUFFERS.with_borrow(|buffers| buffers.numbers.as_ptr())
}

/// Runs a function on the bytes that the page has written.
pub(crate) fn with_input<T>(run: impl FnOnce(&[u8]) -> T) -> T {
    let input = BUFFERS.with_borrow_mut(|buffers| std::mem::take(&mut buffers.input));
    let result = run(&input);
    BUFFERS.with_borrow_mut(|buffers| buffers.input = input);
    result
}

/// Stores the bytes of an answer, and returns their length.
pub(crate) fn answer(bytes: impl Into<Vec<u8>>) -> i32 {
    let bytes = bytes.into();
    let length = bytes.len() as i32;
    BUFFERS.with_borrow_mut(|buffers| buffers.output = bytes);
    length
}

/// Stores the numbers of an answer.
#[cfg(not(feature = "machines"))]
pub(crate) fn answer_numbers<const N: usize>(numbers: [f64; N]) {
    BUFFERS.with_borrow_mut(|buffers| buffers.numbers[..N].copy_from_slice(&numbers));
}
