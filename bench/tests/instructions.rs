//! The gate against scripts that have come to need more instructions, as a test: so it is built with the rest of the
//! workspace, once.

use std::process::Command;

#[test]
#[ignore = "needs valgrind, and a minute: cargo test --workspace --all-features --test instructions -- --ignored"]
fn no_script_needs_more_instructions_than_is_committed() {
    let mut gate = Command::new(env!("CARGO_BIN_EXE_lockage-bench"));
    let status = gate.args(["server", "--gate"]).status().expect("it was built");
    assert!(status.success(), "see above, and docs/PERFORMANCE.md");
}
