//! The shipped scripts on a server whose clock is injected.

lockage_tests::three_way!(lockage_tests::three_way::server());
