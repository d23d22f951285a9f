//! The shipped scripts in the simulated store.

lockage_oracle::three_way!(lockage_sim::store::SimPlace::new().expect("Lua gets its memory"));
