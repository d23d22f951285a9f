//! Comments name things by their nouns, and say what they do with the verbs of the field.

use std::fs;
use std::path::Path;

use crate::links::root;

/// The most of these words in a thousand words of comments.
const MOST: [(&[&str], f64); 3] = [
    (&["what", "What"], 1.0),
    (&["told", "tell", "tells", "Told", "Tell", "Tells"], 0.2),
    (&["who", "Who", "beside", "nobody"], 0.3),
];

/// The most lines of comments that begin with one of these.
const FIRST: [(&str, usize); 2] = [("What", 5), ("Of", 5)];

#[test]
fn comments_name_things_by_their_nouns() {
    let mut lines = Vec::new();
    comments(&root(), &mut lines);
    let words = || lines.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
    let all = words().filter(|word| !word.is_empty()).count();
    for (names, most) in MOST {
        let found = words().filter(|word| names.contains(word)).count();
        let rate = found as f64 * 1000.0 / all as f64;
        assert!(rate <= most, "{names:?}: {found} in {all} words, {rate:.2} in a thousand");
    }
    for (first, most) in FIRST {
        let found: Vec<_> =
            lines.iter().filter(|line| line.starts_with(&format!("{first} "))).collect();
        assert!(found.len() <= most, "{found:#?}");
    }
}

/// Adds the text of all comments in Rust.
fn comments(folder: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&name) {
            comments(&path, lines);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let comments = text.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
            lines.extend(comments.map(|line| line.trim_start_matches(['/', '!', ' ']).to_owned()));
        }
    }
}
