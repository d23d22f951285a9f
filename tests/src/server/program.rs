//! The program that every server of the tests runs.

use std::ffi::OsString;
use std::io::{self, Error, Write};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::OnceLock;

const INSTALL: &str = "Tests on a real server need one: `apt-get install redis-server` (Debian, Ubuntu), \
    `dnf install redis` (Fedora), `brew install redis` (macOS), or LOCKAGE_REDIS_SERVER=/path/to/redis-server";

/// Returns the server program: the one of the environment, or the first one on the path.
///
/// # Panics
///
/// When there is none.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("LOCKAGE_REDIS_SERVER") {
        return path.into();
    }
    let path: OsString = std::env::var_os("PATH").unwrap_or_default();
    ["redis-server", "valkey-server"]
        .iter()
        .find_map(|name| {
            std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
        })
        .unwrap_or_else(|| {
            panic!("neither redis-server nor valkey-server is on the path. {INSTALL}")
        })
}

/// Returns the first number of the server's version, as `--version` prints it (`v=7.0.15`).
///
/// # Panics
///
/// When there is no server, or it does not print one.
pub fn major_version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let output = Command::new(program()).arg("--version").output();
        let output = output.unwrap_or_else(|error| does_not_run(&error));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_once("v=")
            .and_then(|(_, version)| version.split('.').next()?.parse().ok())
            .unwrap_or_else(|| {
                panic!("{} --version does not say which version it is: {text}", program().display())
            })
    })
}

/// Panics, and names the package to install.
pub(super) fn does_not_run(error: &Error) -> ! {
    panic!("{}: {error}. {INSTALL}", program().display())
}

/// Has the server load the module of the environment, if it names one.
pub(super) fn load_module(command: &mut Command) {
    if let Some(module) = std::env::var_os("LOCKAGE_MODULE") {
        command.arg("--loadmodule").arg(module);
    }
}

pub(super) fn spawn(command: &mut Command) -> Child {
    command.spawn().unwrap_or_else(|error| does_not_run(&error))
}

/// Prints the skipped test and the reason, past the harness of tests, which shows no output of a test that passes.
pub fn say_skipped(what: &str) {
    let line = format!("SKIPPED: {what}\n");
    io::stderr().write_all(line.as_bytes()).expect("standard error is open");
}
