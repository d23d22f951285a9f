//! Writes the portable vectors, and the scripts that they are of: `cargo run -p lockage-tests --bin vectors`

use lockage_tests::vectors::{files, folder, write_scripts};

fn main() -> std::io::Result<()> {
    for (name, contents) in files() {
        std::fs::write(folder().join(name), contents)?;
    }
    write_scripts(&folder())
}
