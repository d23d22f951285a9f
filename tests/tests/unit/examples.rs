//! The examples in documents, in the documentation of crates, and in programs.

use std::fs;
use std::path::{Path, PathBuf};

/// Limiters of one prefix share keys, and convert them by turns where their limits differ. So every example names
/// the things that it limits, since programs begin as examples.
#[test]
fn every_example_gives_its_limiter_a_prefix() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut files = vec![root.join("README.md")];
    for folder in [
        "docs",
        "client",
        "adapter-memory",
        "adapter-redis-rs",
        "adapter-fred",
        "telemetry",
        "tower",
        "examples",
    ] {
        add_files(&root.join(folder), &mut files);
    }
    let mut seen = 0;
    for file in files {
        for made in limiters(&example(&file)) {
            assert!(made.contains(".with_prefix("), "{}: {made}", file.display());
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} limiters in examples");
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            add_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
            files.push(path);
        }
    }
}

/// Returns the example in a file: all of a document or an example, and the documentation of a source.
fn example(file: &Path) -> String {
    let text = fs::read_to_string(file).expect("it is text");
    let is_source = file.extension().is_some_and(|extension| extension == "rs");
    if !is_source || file.components().any(|part| part.as_os_str() == "examples") {
        return text;
    }
    let shown = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("//!").or(line.strip_prefix("///"))
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Returns the code from each limiter on a store to the end of the second statement, in which an option may be
/// set.
fn limiters(text: &str) -> impl Iterator<Item = &str> {
    let made = [" Limiter::new(", " Limiter::stored(", " BlockingLimiter::new("];
    let made = made.into_iter().flat_map(|call| text.match_indices(call));
    made.map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.match_indices(";\n").nth(1).map_or(rest.len(), |(end, _)| end);
        &rest[..end]
    })
}

/// The index has a line for each example, with its command.
#[test]
fn every_example_is_in_the_index() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let index = fs::read_to_string(root.join("examples/README.md")).expect("it is there");
    let mut seen = 0;
    for (folder, link) in [
        ("adapter-memory/examples", "../adapter-memory/examples/"),
        ("adapter-redis-rs/examples", "../adapter-redis-rs/examples/"),
        ("adapter-fred/examples", "../adapter-fred/examples/"),
        ("telemetry/examples", "../telemetry/examples/"),
        ("tower/examples", "../tower/examples/"),
        ("examples", ""),
    ] {
        let (folder, mut files) = (root.join(folder), vec![]);
        add_files(&folder, &mut files);
        // Folders below have modules of examples.
        let is_program = |file: &PathBuf| {
            file.parent() == Some(&folder) && file.extension().is_some_and(|it| it == "rs")
        };
        files.retain(is_program);
        for file in files {
            let name = file.file_stem().expect("a name").to_str().expect("it is text");
            let line = format!("[`{name}`]({link}{name}.rs)");
            assert!(index.contains(&line), "{line} is missing");
            seen += 1;
        }
    }
    assert_eq!(seen, index.matches(".rs)").count(), "a line without an example");
}
