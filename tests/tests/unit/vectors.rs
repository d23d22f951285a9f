//! The portable vectors that are checked in are those that there are now, and no script is without vectors.

use std::collections::BTreeSet;

use lockage_core::ScriptId;
use lockage_tests::vectors::{files, folder};

#[test]
fn the_checked_in_vectors_are_current() {
    for (name, contents) in files() {
        let checked_in = std::fs::read_to_string(folder().join(&name)).unwrap_or_default();
        assert!(
            checked_in == contents,
            "vectors/{name} is not what the machines give now. If that is meant: \
             cargo run -p lockage-tests --bin vectors"
        );
    }
}

#[test]
fn no_vectors_are_stale() {
    let current: BTreeSet<String> = files().into_iter().map(|(name, _)| name).collect();
    let entries = std::fs::read_dir(folder()).expect("it is checked in");
    let names = entries.map(|entry| entry.expect("it can be read").file_name());
    let left: Vec<_> = names
        .map(|name| name.display().to_string())
        .filter(|name| name.ends_with(".json") && !current.contains(name))
        .collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn every_script_has_vectors() {
    let all: String = files().into_iter().map(|(_, contents)| contents).collect();
    for script in ScriptId::ALL {
        let name = script.name();
        assert!(all.contains(&format!(r#""script":"{name}""#)), "{name} has no vector");
    }
}
