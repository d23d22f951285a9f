//! The shipped scripts in the simulated store.

lockage_tests::three_way!(lockage_tests::three_way::simulated());
