//! The shipped scripts on a server whose clock is injected.

lockage_oracle::three_way!(match lockage_tests::real::RealPlace::start() {
    Some(place) => place,
    None => return,
});
