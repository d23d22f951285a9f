//! Limiters for JavaScript, and the machines of all commands, as two modules of WebAssembly.
#![cfg(target_arch = "wasm32")]

mod abi;
#[cfg(feature = "machines")]
mod frames;
#[cfg(feature = "machines")]
mod json;
#[cfg(not(feature = "machines"))]
mod limiter;
#[cfg(feature = "machines")]
mod machines;
