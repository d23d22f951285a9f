//! The explorer in a browser: questions and answers in JSON, see `lockage_sim::ask`.

#[cfg(target_arch = "wasm32")]
mod abi;
#[cfg(feature = "scripts")]
mod scripts;
