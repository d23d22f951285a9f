//! The portable vectors that are checked in are those that the machines and the scripts give.

use std::path::Path;

#[test]
fn the_checked_in_vectors_are_current() {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folder = above.find_map(|folder| Some(folder.join("vectors")).filter(|it| it.is_dir()));
    let folder = folder.expect("they are checked in");
    for (name, contents) in lockage_tests::vectors::files() {
        let checked_in = std::fs::read_to_string(folder.join(&name)).unwrap_or_default();
        assert!(
            checked_in == contents,
            "vectors/{name} is not what the machines give now. If that is meant: \
             cargo run -p lockage-tests --bin vectors"
        );
    }
}
