//! The links of all documents lead somewhere, and those of the book stay in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// The links of a document, and the anchors of its headings.
pub(super) struct Document {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let root = root();
    let documents = documents(&root);
    let mut seen = 0;
    for (file, document) in &documents {
        for link in document.links.iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { file.clone() } else { resolve(file, path) };
            assert!(
                root.join(&target).exists(),
                "{}: {link}: there is no such file",
                file.display()
            );
            let known = anchor.is_empty()
                || documents.get(&target).is_some_and(|it| it.anchors.contains(anchor));
            assert!(known, "{}: {link}: there is no such heading", file.display());
            seen += 1;
        }
    }
    assert!(seen > 200, "{seen} links");
}

#[test]
fn the_book_has_every_page_and_no_link_out_of_it() {
    let documents = documents(&root());
    let summary = Path::new("docs/SUMMARY.md");
    let listed: BTreeSet<PathBuf> =
        documents[summary].links.iter().map(|link| resolve(summary, link)).collect();
    let pages = documents.keys().filter(|file| file.starts_with("docs") && *file != summary);
    assert_eq!(pages.cloned().collect::<BTreeSet<_>>(), listed);
    for page in &listed {
        for link in documents[page]
            .links
            .iter()
            .filter(|link| !link.contains("://") && !link.starts_with('#'))
        {
            let target = resolve(page, link.split('#').next().unwrap_or_default());
            assert!(target.starts_with("docs"), "{}: {link} leads out of the book", page.display());
        }
    }
}

pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// Returns all documents of the workspace, by their path in it.
pub(super) fn documents(root: &Path) -> BTreeMap<PathBuf, Document> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the workspace") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("it is text");
            if path.is_dir() && !["target", "node_modules", "dist", ".git"].contains(&name) {
                folders.push(path);
            } else if name.ends_with(".md") {
                let document = read(&fs::read_to_string(&path).expect("it is text"));
                found.insert(path.strip_prefix(root).expect("it is in it").to_owned(), document);
            }
        }
    }
    found
}

fn read(text: &str) -> Document {
    let (mut links, mut anchors, mut heading) = (vec![], BTreeSet::new(), None);
    for event in Parser::new_ext(text, pulldown_cmark::Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string())
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take().as_deref().map(anchor)),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    Document { links, anchors }
}

/// Returns the anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || " -_".contains(*char));
    kept.map(|char| if char == ' ' { '-' } else { char.to_ascii_lowercase() }).collect()
}

/// Returns the path that a link of a file leads to, from the workspace on.
fn resolve(file: &Path, link: &str) -> PathBuf {
    let mut path = file.parent().expect("a file is in a folder").to_owned();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                assert!(path.pop(), "{}: {link} leads out of the workspace", file.display())
            }
            part => path.push(part),
        }
    }
    path
}
