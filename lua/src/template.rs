//! Puts scripts together: templates, and the parts that are spliced into them.
//!
//! A file is a text, and parts of which each begins with a line such as `-- @settle`. After the name, that line has
//! names, and after a colon their meaning in words: `-- @config limit window: how much, and for how long (us)`.
//!
//! | in a text | stands for |
//! |---|---|
//! | a line `$settle` | the part of this name, or the text of the file of this name, each line indented alike; nothing where it is empty |
//! | `$EXACT` | a constant: see `constants.rs` |
//! | `$state`, `$TAG`, ... | of the algorithm: see `algorithm.rs` |
//! | a line with `$each_state` | this line for each of the names |
//! | `$if_given` to `$end_given` | these lines, where the algorithm has a part of this name; with `$if_no_given`, where it has none |
//! | `$for_each_algorithm` to `$end` | these lines for each algorithm; `$elseif` is `if` in the first, then `elseif` |
//! | `$for_each_plain` to `$end` | these lines for each of those whose calls carry nothing but a configuration and costs |
//!
//! A part is looked for in the algorithm, in the one that it is like, and in the template; then by its name in all files
//! but those of algorithms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockage_core::Composite;

use crate::algorithm::Algorithm;

/// A file, taken apart.
#[derive(Debug)]
pub(crate) struct File {
    name: &'static str,
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// The names after its own on its line.
    pub(crate) names: Vec<String>,
    pub(crate) words: String,
    text: String,
}

impl File {
    pub(crate) fn read(name: &'static str, text: &str) -> Self {
        let mut file = File { name, text: String::new(), parts: Vec::new() };
        for line in text.lines() {
            if let Some(head) = line.strip_prefix("-- @") {
                let (names, words) = head.split_once(": ").unwrap_or((head, ""));
                let mut names = names.split(' ').map(str::to_owned);
                let name = names.next().unwrap_or_default();
                let words = words.to_owned();
                let part = Part { name, names: names.collect(), words, text: String::new() };
                file.parts.push(part);
            } else {
                let text = file.parts.last_mut().map_or(&mut file.text, |part| &mut part.text);
                *text += line;
                *text += "\n";
            }
        }
        for text in file.parts.iter_mut().map(|part| &mut part.text).chain([&mut file.text]) {
            text.truncate(text.trim_end().len());
        }
        file
    }

    pub(crate) fn part(&self, name: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.name == name)
    }
}

/// All files, by their names.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    files: BTreeMap<&'static str, Arc<File>>,
    /// The files of algorithms that have a tag: those whose state is a few integers.
    algorithms: Vec<&'static str>,
    constants: Arc<BTreeMap<&'static str, String>>,
}

/// A script, and the names of the files that it is made of.
pub(crate) struct Made {
    pub(crate) text: String,
    pub(crate) files: BTreeSet<&'static str>,
}

/// The scripts of the fast path that an algorithm has: how their names end, and their templates.
const FAST: [(&str, &str); 3] =
    [("_acquire", "fast"), ("_reserve", "fast_reserve"), ("_settle", "fast_settle")];

impl Library {
    pub(crate) fn new(
        files: impl IntoIterator<Item = (&'static str, &'static str)>,
        constants: BTreeMap<&'static str, String>,
    ) -> Self {
        let mut library =
            Library { files: BTreeMap::new(), algorithms: Vec::new(), constants: Arc::default() };
        for (name, text) in files {
            let file = File::read(name, text);
            library.algorithms.extend(file.part("tag").map(|_| name));
            library.files.insert(name, Arc::new(file));
        }
        let tags = library.algorithms(false).map(|it| it.tag()[..1].to_owned());
        let letters = tags.collect();
        // A format for the most numbers that a composite has.
        let len = |it: Algorithm<'_>| it.names("config").len() + it.names("state").len();
        let most = library.algorithms(true).map(len).max().unwrap_or_default();
        let doubles = "d".repeat(1 + Composite::MAX_LIMITS * most);
        let of_files = [("LETTERS", letters), ("DOUBLES", doubles)];
        library.constants = Arc::new(constants.into_iter().chain(of_files).collect());
        library
    }

    /// Returns the library with another text for a file.
    pub(crate) fn with(&self, name: &'static str, text: &str) -> Self {
        let mut library = self.clone();
        library.files.insert(name, Arc::new(File::read(name, text)));
        library
    }

    /// Returns the script of this name.
    pub(crate) fn script(&self, name: &str) -> Made {
        let mut page = Page { library: self, layers: Vec::new(), variables: BTreeMap::new() };
        let mut made = Made { text: String::new(), files: BTreeSet::new() };
        let alone = FAST.iter().find_map(|(suffix, template)| {
            let name = name.strip_suffix(suffix).filter(|name| self.algorithms.contains(name))?;
            Some((name, *template))
        });
        if let Some((name, template)) = alone {
            page.layers.push(&self.files[template]);
            page = page.of_algorithm(self.algorithm(name), 0);
        }
        made.files.extend(page.layers.iter().map(|file| file.name));
        page.splice(alone.map_or(name, |(_, template)| template), "", &mut made);
        made
    }

    fn algorithm(&self, name: &str) -> Algorithm<'_> {
        let own = &*self.files[name];
        let like = own.part("like").map(|part| &*self.files[part.names[0].as_str()]);
        Algorithm { files: like.into_iter().chain([own]).collect() }
    }

    /// Returns the algorithms with a tag; if `plain`, only those whose calls carry nothing but a configuration and
    /// costs, so that several fit in one call.
    fn algorithms(&self, plain: bool) -> impl Iterator<Item = Algorithm<'_>> {
        let all = self.algorithms.iter().map(|name| self.algorithm(name));
        let is_plain =
            |it: &Algorithm<'_>| ["call", "given"].iter().all(|part| it.names(part).is_empty());
        all.filter(move |it| !plain || is_plain(it))
    }
}

/// Where a text is written.
#[derive(Clone)]
struct Page<'l> {
    library: &'l Library,
    /// Where parts are looked for, the last one first.
    layers: Vec<&'l File>,
    variables: BTreeMap<String, String>,
}

impl<'l> Page<'l> {
    fn of_algorithm(&self, algorithm: Algorithm<'l>, index: usize) -> Self {
        let mut page = self.clone();
        page.variables.extend(algorithm.variables(index));
        page.layers.extend(algorithm.files);
        page
    }

    /// Appends the part or the file of this name.
    fn splice(&self, name: &str, indent: &str, to: &mut Made) {
        let (file, text) = self.find(name).unwrap_or_else(|| panic!("no part {name}"));
        to.files.insert(file.name);
        let mut page = self.clone();
        if !page.layers.iter().any(|it| it.name == file.name) {
            page.layers.insert(0, file);
        }
        page.write(text, indent, to);
    }

    fn find(&self, name: &str) -> Option<(&'l File, &'l str)> {
        if name == "about" {
            return self.layers.last().map(|file| (*file, &*file.text));
        }
        let part_of = |file: &'l File| Some((file, &*file.part(name)?.text));
        let layered = self.layers.iter().rev().find_map(|file| part_of(file));
        let files = &self.library.files;
        layered.or_else(|| files.get(name).map(|file| (&**file, &*file.text))).or_else(|| {
            let others =
                files.values().filter(|file| !self.library.algorithms.contains(&file.name));
            others.into_iter().find_map(|file| part_of(file))
        })
    }

    fn write(&self, text: &str, indent: &str, to: &mut Made) {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let code = line.trim_start();
            match code.strip_prefix('$').filter(|name| is_name(name)) {
                Some(name @ ("for_each_algorithm" | "for_each_plain")) => {
                    let block = lines.by_ref().take_while(|line| line.trim_start() != "$end");
                    let block: Vec<&str> = block.collect();
                    self.write_each(name == "for_each_plain", &block.join("\n"), indent, to);
                }
                Some(name) if name.starts_with("if_") => {
                    let (part, end) = (&name[3..], format!("$end_{}", &name[3..]));
                    let block = lines.by_ref().take_while(|line| line.trim_start() != end);
                    let block: Vec<&str> = block.collect();
                    let has = |part| self.layers.iter().any(|file| file.part(part).is_some());
                    if part.strip_prefix("no_").map_or(has(part), |part| !has(part)) {
                        self.write(&block.join("\n"), indent, to);
                    }
                }
                Some(name) => {
                    let indent = [indent, &line[..line.len() - code.len()]].concat();
                    self.splice(name, &indent, to);
                }
                None => self.write_line(line, indent, &mut to.text),
            }
        }
    }

    fn write_each(&self, plain: bool, block: &str, indent: &str, to: &mut Made) {
        for (index, algorithm) in self.library.algorithms(plain).enumerate() {
            to.files.extend(algorithm.files.iter().map(|file| file.name));
            self.of_algorithm(algorithm, index).write(block, indent, to);
        }
    }

    /// Writes a line, or one line for each of its names.
    fn write_line(&self, line: &str, indent: &str, to: &mut String) {
        let each = ["config", "given", "state", "call"]
            .into_iter()
            .find(|list| line.contains(&format!("$each_{list}")));
        let Some(list) = each else {
            if !line.is_empty() {
                *to += indent;
            }
            self.write_words(line, None, to);
            *to += "\n";
            return;
        };
        let names = self.layers.iter().rev().find_map(|file| file.part(list));
        for name in names.map_or(&[][..], |part| &part.names) {
            *to += indent;
            self.write_words(line, Some(name), to);
            *to += "\n";
        }
    }

    fn write_words(&self, line: &str, each: Option<&str>, to: &mut String) {
        let mut rest = line;
        while let Some((before, from)) = rest.split_once('$') {
            *to += before;
            let is_constant = from.starts_with(|c: char| c.is_ascii_uppercase());
            let belongs = |c: char| {
                c == '_'
                    || if is_constant {
                        c.is_ascii_uppercase() || c.is_ascii_digit()
                    } else {
                        c.is_ascii_lowercase()
                    }
            };
            let end = from.find(|c| !belongs(c)).unwrap_or(from.len());
            let (name, after) = from.split_at(end);
            match (name, each) {
                ("", _) => *to += "$",
                (name, Some(each)) if name.starts_with("each_") => *to += each,
                (name, _) => *to += self.value(name),
            }
            rest = after;
        }
        *to += rest;
    }

    fn value(&self, name: &str) -> &str {
        let value = self.variables.get(name).or_else(|| self.library.constants.get(name));
        value.unwrap_or_else(|| panic!("nothing is called ${name}"))
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') && !text.is_empty()
}
