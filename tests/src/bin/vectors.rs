//! Writes the portable vectors: `cargo run -p lockage-tests --bin vectors`

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    for (name, contents) in lockage_tests::vectors::files() {
        std::fs::write(folder.join(name), contents)?;
    }
    Ok(())
}
