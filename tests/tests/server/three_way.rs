//! The shipped scripts on a server whose clock is injected.

lockage_oracle::three_way!(lockage_tests::real::RealPlace::start());
