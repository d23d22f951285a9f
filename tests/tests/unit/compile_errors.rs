//! The compiler's messages for programs that pass a store or a client of the wrong type.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

const SETUP: &str = r#"
    use std::time::Duration;
    use lockage_tests::lockage::{Error, Limit, Limiter, Locks, RetryStore, Store, runtime::Tokio};
    use lockage_tests::lockage_fred::FredStore;
    use lockage_tests::lockage_memory::MemoryStore;
    use lockage_tests::lockage_redis_rs::RedisStore;

    /// A pool of some other crate.
    pub struct Pool;

    const SECOND: Duration = Duration::from_secs(1);

    fn limiter<S: Store>(store: S) -> Limiter<S> {
        Limiter::new(store, "fixed-window 1/s".parse().unwrap())
    }
"#;

#[test]
fn waiting_on_a_store_without_a_timeout_points_to_one() {
    let waits = |store: &str, verb: &str| errors(&format!("limiter({store}).{verb}.await?;"));
    let timed = "RetryStore::new(MemoryStore::new(), Tokio, SECOND)";
    for verb in ["acquire_within(\"id\", 1, SECOND)", "reserve(\"id\", 1, SECOND)"] {
        assert_eq!(waits(timed, verb), "");
        let told = waits("MemoryStore::new()", verb);
        assert!(told.contains("the calls of `MemoryStore` have no timeout"), "{told}");
        assert!(told.contains("wrap the store in `RetryStore`: `RetryStore::new(store,"), "{told}");
    }
}

#[test]
fn an_option_on_a_store_without_a_timeout_points_to_one() {
    let told = errors("_ = limiter(MemoryStore::new()).with_idempotency(SECOND);");
    assert!(told.contains("wrap the store in `RetryStore`: `RetryStore::new(store,"), "{told}");
}

#[test]
fn a_foreign_pool_points_to_the_accepted_types() {
    for store in ["RedisStore", "FredStore"] {
        let told = errors(&format!("limiter({store}::new(Pool)).try_acquire(\"id\", 1).await?;"));
        assert!(told.contains("Pool>` is not a link to a server"), "{told}");
        assert!(told.contains(&format!("`{store}::new` takes a ")), "{told}");
        assert!(told.contains("another client needs a `Link` of its own"), "{told}");
    }
    let told = errors("limiter(Pool).try_acquire(\"id\", 1).await?;");
    assert!(told.contains("`Pool` is not a store"), "{told}");
    assert!(told.contains("stores are `MemoryStore` of `lockage-memory`, "), "{told}");
}

#[test]
fn an_outcome_that_is_ignored_is_a_warning() {
    let timed = "RetryStore::new(MemoryStore::new(), Tokio, SECOND)";
    let lock = format!("Locks::new({timed}, SECOND)?.lock(\"id\")?");
    for (call, outcome) in [
        (format!("limiter({timed}).try_acquire(\"id\", 1)"), "Decision"),
        (format!("limiter({timed}).acquire_within(\"id\", 1, SECOND)"), "Decision"),
        (format!("limiter({timed}).reserve(\"id\", 1, SECOND)"), "Reserved"),
        (format!("limiter({timed}).penalty(\"id\", 1)"), "Adjusted"),
        (format!("limiter({timed}).take_turn(\"id\", 1)"), "Turn"),
        (format!("{lock}.try_acquire()"), "TryLock"),
        (format!("{lock}.try_run(async |_| {{}})"), "RunOutcome"),
    ] {
        let ignored =
            |begin| errors(&format!("#[deny(unused_must_use)] {{ {begin}{call}.await?; }}"));
        let told = ignored("");
        assert!(told.contains(&format!("unused `{outcome}` that must be used")), "{told}");
        assert_eq!(ignored("_ = "), "");
    }
}

#[test]
fn a_limit_that_is_none_is_an_error_with_its_place() {
    let limit = |limit: &str| errors(&format!("_ = lockage_tests::lockage::{limit};"));
    assert_eq!(limit("limit!(\"token-bucket 100/min burst 20\")"), "");
    let told = limit("limit!(\"100/min\")");
    assert!(told.contains("\"100/min\", column 1: expected a kind of limit: fixed-win"), "{told}");
    let told = errors("const _: Limit = Limit::sliding_log(2_000_000, SECOND);");
    assert!(told.contains("at most 1048576 fits within the 2^20 entries"), "{told}");
}

/// Returns the errors of a program that does this.
fn errors(statement: &str) -> String {
    let program =
        format!("{SETUP} pub async fn program() -> Result<(), Error> {{ {statement} Ok(()) }}");
    compile(&program, &["lockage_tests"], &[])
}

/// Returns the errors of the compiler on this program, with these libraries and options.
pub(super) fn compile(program: &str, libraries: &[&str], options: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let deps = std::env::current_exe().expect("this program").with_file_name("");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "-Awarnings", "-"]);
    rustc.args(options).arg("--out-dir").arg(folder.path()).arg("-L").arg(&deps);
    for name in libraries {
        let mut library = std::ffi::OsString::from(format!("{name}="));
        library.push(newest_library(&deps, name));
        rustc.arg("--extern").arg(library);
    }
    rustc.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut rustc = rustc.spawn().expect("rustc is there, by which this was built");
    rustc.stdin.take().expect("a pipe").write_all(program.as_bytes()).expect("rustc reads");
    let output = rustc.wait_with_output().expect("rustc ends");
    let errors = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.success(), errors.is_empty(), "{errors}");
    errors
}

/// Returns the library of this name that was built last, with all its dependencies next to it.
fn newest_library(deps: &Path, library: &str) -> PathBuf {
    let files = fs::read_dir(deps).expect("a folder").map(|file| file.expect("a file").path());
    let libraries = files.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&format!("lib{library}-")) && name.ends_with(".rlib")
    });
    let built = |path: &PathBuf| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    libraries.max_by_key(built).expect("this was built with it")
}
