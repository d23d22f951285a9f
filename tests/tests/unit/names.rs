//! Each `Type::name` of a document is there, in the public API or in a trait that the document is about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use pulldown_cmark::{Event, Parser};

use crate::compile_errors::compile;
use crate::links::{documents, root};

/// The places of public types.
const PLACES: [&str; 25] = [
    "lockage_tests::lockage",
    "lockage_tests::lockage::fenced",
    "lockage_tests::lockage::limiter",
    "lockage_tests::lockage::locks",
    "lockage_tests::lockage::notifications",
    "lockage_tests::lockage::observer",
    "lockage_tests::lockage::runtime",
    "lockage_tests::lockage::store",
    "lockage_tests::lockage::testing",
    "lockage_tests::lockage_fred",
    "lockage_tests::lockage_memory",
    "lockage_tests::lockage_redis_rs",
    "lockage_core",
    "lockage_core::fenced",
    "lockage_core::flow",
    "lockage_core::lock",
    "lockage_core::rw_lock",
    "lockage_core::semaphore",
    "lockage_redis",
    "lockage_suite",
    "lockage_suite::bench",
    "lockage_suite::faults",
    "lockage_suite::proxy",
    "lockage_telemetry",
    "lockage_tower",
];

const LIBRARIES: [&str; 6] = [
    "lockage_tests",
    "lockage_core",
    "lockage_redis",
    "lockage_suite",
    "lockage_telemetry",
    "lockage_tower",
];

/// Types of other crates, which documents compare with, and traits inside of `lockage-core`.
const ELSEWHERE: [&str; 8] =
    ["Duration", "Instant", "Kind", "LockManager", "Machine", "Quota", "RateLimiter", "Server"];

/// Documents of former versions, and with lines of private code.
const OLD_OR_INSIDE: [&str; 2] = ["CHANGELOG.md", "docs/faults/planted.md"];

#[test]
fn each_name_in_a_document_is_there() {
    let mut names = BTreeMap::<(String, String), String>::new();
    for file in documents(&root())
        .into_keys()
        .filter(|file| !OLD_OR_INSIDE.iter().any(|other| file.ends_with(other)))
    {
        let text = fs::read_to_string(root().join(&file)).expect("it is text");
        for event in Parser::new_ext(&text, pulldown_cmark::Options::ENABLE_TABLES) {
            if let Event::Code(code) = event {
                names.extend(
                    read(&code).map(|name| (name, format!("{}: `{code}`", file.display()))),
                );
            }
        }
    }
    names.retain(|(of, _), _| !ELSEWHERE.contains(&&**of));
    assert!(names.len() > 80, "{names:?}");

    // A type that is not there would keep the compiler from looking for names in others.
    let types: BTreeSet<&str> = names.keys().map(|(of, _)| &**of).collect();
    let places: Vec<_> = types.iter().flat_map(|of| PLACES.map(|place| (*of, place))).collect();
    let missing = lines(
        places
            .iter()
            .enumerate()
            .map(|(at, (of, place))| format!("pub use {place}::{of} as T{at};\n")),
        &["E0432", "E0433", "E0603"],
    );
    let types: Vec<_> =
        places.into_iter().enumerate().filter(|(at, _)| !missing.contains(at)).collect();

    let tries: Vec<_> = names
        .keys()
        .flat_map(|key| {
            types
                .iter()
                .filter(|(_, (of, _))| *of == key.0)
                .map(move |(_, (_, place))| (key, *place))
        })
        .collect();
    let missing = lines(
        tries.iter().enumerate().map(|(at, ((of, name), place))| {
            format!("pub fn f{at}() {{ let _ = {place}::{of}::{name}; }}\n")
        }),
        &["E0599", "E0576"],
    );
    let found: BTreeSet<_> = tries
        .iter()
        .enumerate()
        .filter(|(at, _)| !missing.contains(at))
        .map(|(_, (key, _))| *key)
        .collect();
    let missing: Vec<_> =
        names.iter().filter(|(key, _)| !found.contains(key)).map(|(_, text)| text).collect();
    assert!(missing.is_empty(), "names that are not there: {missing:#?}");
}

/// Returns the type and the name in a piece of code such as `Limiter::new(store, limit)`.
fn read(code: &str) -> impl Iterator<Item = (String, String)> + '_ {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    code.split(move |c| !is_part(c)).filter_map(|path| {
        let (of, name) = path.rsplit_once("::")?;
        let of = of.rsplit("::").next()?;
        let is_type = of.starts_with(char::is_uppercase) && !name.is_empty();
        is_type.then(|| (of.to_owned(), name.to_owned()))
    })
}

/// Returns the lines, from 0, that have one of these errors.
fn lines(program: impl Iterator<Item = String>, codes: &[&str]) -> BTreeSet<usize> {
    let errors = compile(&program.collect::<String>(), &LIBRARIES, &["--error-format=short"]);
    let with = |error: &&str| codes.iter().any(|code| error.contains(&format!("error[{code}]")));
    let line = |error: &str| -> Option<usize> { error.split(':').nth(1)?.parse().ok() };
    errors.lines().filter(with).map(|error| line(error).expect("an error has a line") - 1).collect()
}
