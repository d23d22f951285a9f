//! Scripts as others publish them, read from a folder with checkouts of their repositories.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;

/// The place of a script in a repository.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) file: &'static str,
    /// The text before it; it is the whole file where there is no quote.
    #[serde(default)]
    pub(super) begin: &'static str,
    /// The text behind it.
    #[serde(default)]
    pub(super) end: &'static str,
    /// The quote around its string, or around the strings of which it is made.
    pub(super) quote: Option<char>,
}

/// Why there is no such script.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum Absent {
    #[error("there is no {}: `git clone {repository}` into the folder of --scripts", file.display())]
    File { file: PathBuf, repository: &'static str },
    #[error("{} has no script behind {begin:?}, as that of {repository} had on 2026-11-26", file.display())]
    Part { file: PathBuf, begin: &'static str, repository: &'static str },
}

impl Published {
    /// Returns the script, from a folder that has a clone of its repository.
    ///
    /// # Errors
    /// [`Absent`], with the expected place.
    pub(super) fn read(&self, folder: &Path, repository: &'static str) -> Result<String, Absent> {
        let name = repository.rsplit('/').next().unwrap_or_default();
        let (file, begin) = (folder.join(name).join(self.file), self.begin);
        let Ok(text) = fs::read_to_string(&file) else {
            return Err(Absent::File { file, repository });
        };
        let Some(quote) = self.quote else { return Ok(text) };
        let behind = text.split_once(begin).map(|(_, behind)| behind);
        match behind.and_then(|behind| behind.split_once(self.end)) {
            // A line of JavaScript that goes on is one.
            Some((strings, _)) => {
                Ok(strings.split(quote).skip(1).step_by(2).collect::<String>().replace("\\\n", ""))
            }
            None => Err(Absent::Part { file, begin, repository }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPOSITORY: &str = "https://example.org/it";

    fn read(begin: &'static str, quote: Option<char>) -> Result<String, Absent> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("it")).expect("a folder in it");
        let text = "begin \"return \" + \"1\" end";
        fs::write(folder.path().join("it/file"), text).expect("a file in it");
        Published { file: "file", begin, end: "end", quote }.read(folder.path(), REPOSITORY)
    }

    #[test]
    fn a_script_is_its_strings_or_the_whole_file() {
        assert_eq!(read("begin", Some('"')).as_deref(), Ok("return 1"));
        assert!(read("", None).is_ok_and(|text| text.starts_with("begin")));
    }

    #[test]
    fn missing_scripts_are_reported_with_their_address() {
        let told = read("start", Some('"')).expect_err("it has no start").to_string();
        assert!(told.contains("it/file has no script behind \"start\""), "{told}");
        let script = Published { file: "other", begin: "", end: "", quote: None };
        let told = script.read(Path::new("folder"), REPOSITORY).expect_err("there is none");
        let right = "there is no folder/it/other: `git clone https://example.org/it` into";
        assert!(told.to_string().starts_with(right), "{told}");
    }
}
