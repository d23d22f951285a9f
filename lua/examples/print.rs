//! Prints a script whole, and tells its digest: `cargo run -p lockage-lua --example print token_bucket_acquire`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use lockage_core::ScriptId;

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let Some(id) = ScriptId::ALL.into_iter().find(|id| id.name() == wanted) else {
        let names: Vec<&str> = ScriptId::ALL.iter().map(|id| id.name()).collect();
        eprintln!("no script {wanted:?}; there are {}", names.join(", "));
        return ExitCode::from(2);
    };
    let script = lockage_lua::script(id);
    print!("{}", script.source());
    eprintln!("SHA-1 {}", script.digest());
    ExitCode::SUCCESS
}
