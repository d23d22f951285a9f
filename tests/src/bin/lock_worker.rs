//! One process of those that contend for limits and locks: `lock_worker SETTINGS`, until its input ends.

fn main() {
    let settings = std::env::args().nth(1).expect("settings as JSON");
    lockage_tests::contention::worker::run(&settings);
}
