//! Writes the HTML report.

use std::path::Path;

use anyhow::{Context, Result};

use crate::input::printable;

/// Writes a page that names the command of this program.
///
/// # Errors
/// The error of the page or the file.
pub(super) fn write<E: std::error::Error + Send + Sync + 'static>(
    path: &Path,
    page: impl FnOnce(&str) -> Result<String, E>,
) -> Result<()> {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    std::fs::write(path, page(&command(arguments))?)
        .with_context(|| format!("cannot write the page to {}", path.display()))
}

/// Returns the command as a shell takes it.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=%@+".contains(c);
    let quoted = |argument: String| match !argument.is_empty() && argument.chars().all(plain) {
        true => argument,
        false => format!("'{}'", printable(&argument).replace('\'', r"'\''")),
    };
    std::iter::once("lockage-sim".to_owned())
        .chain(arguments.map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let arguments = ["replay", "a.log", "--limit", "sliding-log 5/s", "it's", ""];
        let expected = r"lockage-sim replay a.log --limit 'sliding-log 5/s' 'it'\''s' ''";
        assert_eq!(command(arguments.into_iter().map(str::to_owned)), expected);
    }
}
