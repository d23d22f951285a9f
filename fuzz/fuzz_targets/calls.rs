#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockage_fuzz::checks::calls(data));
