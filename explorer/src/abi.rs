//! The interface of the module: `alloc`, `free` and `ask`, and its imports from its page.
//!
//! This is the only unsafe code: a page and a module share only addresses.

use std::cell::RefCell;
use std::io::{self, Read};
use std::mem::ManuallyDrop;

use lockage_sim::ask::{Asked, Outside};

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Starts a file from its beginning.
    safe fn open(file: u32);
    /// Writes the next bytes of a file, at most `room`, and returns their number; `usize::MAX` if the file cannot be
    /// read.
    fn read(file: u32, into: *mut u8, room: usize) -> usize;
    /// Shows the progress: the finished work, and all work.
    safe fn progress(done: f64, all: f64);
}

thread_local! {
    static ASKED: RefCell<Asked> = RefCell::new(asked());
}

fn asked() -> Asked {
    #[cfg(feature = "scripts")]
    return Asked::with_scripts(crate::scripts::agreeing);
    #[cfg(not(feature = "scripts"))]
    Asked::default()
}

/// Returns the address of `length` bytes for a question.
#[unsafe(no_mangle)]
extern "C" fn alloc(length: usize) -> *mut u8 {
    ManuallyDrop::new(vec![0; length].into_boxed_slice()).as_mut_ptr()
}

/// Frees an answer of this length.
///
/// # Safety
/// The address and the length are those that [`ask`] returned, and are freed once.
#[unsafe(no_mangle)]
unsafe extern "C" fn free(address: *mut u8, length: usize) {
    // SAFETY: as the caller promises.
    drop(unsafe { taken(address, length) });
}

/// Answers a question and frees it. Returns the address of the answer in the upper half and its
/// length in the lower one.
///
/// # Safety
/// The address is that of an [`alloc`] of this length, filled with the question, and is used once.
#[unsafe(no_mangle)]
unsafe extern "C" fn ask(address: *mut u8, length: usize) -> u64 {
    // SAFETY: as the caller promises.
    let question = unsafe { taken(address, length) };
    let question = String::from_utf8_lossy(&question);
    let answer = ASKED.with_borrow_mut(|asked| asked.ask(&question, &mut Page));
    let mut answer = ManuallyDrop::new(answer.into_boxed_slice());
    (answer.as_mut_ptr() as u64) << 32 | answer.len() as u64
}

/// Takes back ownership of bytes that were given away as an address.
///
/// # Safety
/// They are a boxed slice of this length, which nothing else owns.
unsafe fn taken(address: *mut u8, length: usize) -> Box<[u8]> {
    // SAFETY: as the caller promises.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(address, length)) }
}

struct Page;

impl Outside for Page {
    fn open(&mut self, id: u64) -> Box<dyn Read + '_> {
        let file = id as u32;
        open(file);
        Box::new(PageFile(file))
    }

    fn progress(&mut self, done: u64, all: u64) {
        progress(done as f64, all as f64);
    }
}

struct PageFile(u32);

impl Read for PageFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the page writes at most as many bytes as the buffer has.
        match unsafe { read(self.0, buffer.as_mut_ptr(), buffer.len()) } {
            usize::MAX => Err(io::Error::other("the browser cannot read the file")),
            read => Ok(read),
        }
    }
}
