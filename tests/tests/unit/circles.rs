//! Files that depend on each other in a circle are read together or not at all, so circles stay small.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::{Visit, visit_file, visit_item_mod};
use syn::{ItemMod, ItemUse, UseTree, Visibility};

use crate::links::root;

/// The number of files in the largest circle of each package; packages without a circle have none.
const LARGEST: [(&str, usize); 11] = [
    ("adapter-fred", 3),
    ("adapter-memory", 3),
    ("adapter-redis", 3),
    ("client", 3),
    ("core", 6),
    ("oracle", 6),
    ("rules", 3),
    ("sim", 7),
    ("suite", 9),
    ("tower", 0),
    ("world", 34),
];

/// The path of a module: empty for the root of its package.
type Module = Vec<String>;

#[test]
fn circles_of_files_stay_small() {
    let mut shown = String::new();
    let found = LARGEST.map(|(package, _)| {
        let uses = uses(&root().join(package).join("src"));
        let circles = uses.keys().map(|module| circle(&uses, module));
        let largest = circles.filter(|circle| circle.len() > 1).max_by_key(BTreeSet::len);
        let largest = largest.unwrap_or_default();
        shown += &format!("{package}: {largest:?}\n");
        (package, largest.len())
    });
    assert_eq!(found, LARGEST, "{shown}");
}

/// Returns the modules from which this one can be reached, and that it reaches.
fn circle<'a>(
    uses: &'a BTreeMap<Module, BTreeSet<Module>>,
    of: &'a Module,
) -> BTreeSet<&'a Module> {
    let reached = |from: &'a Module| {
        let (mut seen, mut next) = (BTreeSet::from([from]), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(uses[module].iter().filter(|used| seen.insert(*used)));
        }
        seen
    };
    reached(of).into_iter().filter(|module| reached(module).contains(of)).collect()
}

/// Returns the modules of a package's files, each with those that it uses. Tests and programs are left out.
fn uses(source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let mut files = BTreeMap::new();
    read(source, &mut Vec::new(), &mut files);
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    let uses = files.into_iter().map(|(module, file)| {
        let mut seen = Uses { modules: &modules, module: module.clone(), used: BTreeSet::new() };
        visit_file(&mut seen, &file);
        seen.used.remove(&module);
        (module, seen.used)
    });
    uses.collect()
}

fn read(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, syn::File>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_rust = path.is_dir() || path.extension().is_some_and(|it| it == "rs");
        if !is_rust || name.contains("tests") || ["main", "bin"].contains(&&*name) {
            continue;
        }
        let is_own = ["lib", "mod"].contains(&&*name);
        module.push(name);
        if path.is_dir() {
            read(&path, module, files);
        } else {
            let file = syn::parse_file(&fs::read_to_string(&path).unwrap()).unwrap();
            files.insert(module[..module.len() - usize::from(is_own)].to_vec(), file);
        }
        module.pop();
    }
}

/// The modules that the code of one names.
struct Uses<'a> {
    modules: &'a BTreeSet<Module>,
    module: Module,
    used: BTreeSet<Module>,
}

impl Uses<'_> {
    /// Notes the file in which a path leads: that of the longest part of it that is a module.
    fn note(&mut self, path: &[String]) {
        let mut base = self.module.clone();
        let mut rest = path;
        match path[0].as_str() {
            "crate" => base.clear(),
            "self" | "super" => {}
            first if self.modules.contains(&[&base[..], &[first.to_owned()]].concat()) => {}
            _ => return,
        }
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            rest = others;
        }
        for name in rest {
            base.push(name.clone());
            if !self.modules.contains(&base) {
                base.pop();
                break;
            }
        }
        if self.modules.contains(&base) {
            self.used.insert(base);
        }
    }

    fn note_tree(&mut self, path: &mut Vec<String>, tree: &UseTree) {
        let name = match tree {
            UseTree::Path(tree) => &tree.ident,
            UseTree::Name(tree) => &tree.ident,
            UseTree::Rename(tree) => &tree.ident,
            UseTree::Glob(_) => return self.note(path),
            UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.note_tree(path, tree));
            }
        };
        path.push(name.to_string());
        match tree {
            UseTree::Path(tree) => self.note_tree(path, &tree.tree),
            _ => self.note(path),
        }
        path.pop();
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let is_test = |attribute: &syn::Attribute| matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string().contains("test"));
        if module.content.is_some() && !module.attrs.iter().any(is_test) {
            self.module.push(module.ident.to_string());
            visit_item_mod(self, module);
            self.module.pop();
        }
    }

    /// Re-exports are for others.
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if matches!(item.vis, Visibility::Inherited) {
            self.note_tree(&mut Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if path.leading_colon.is_none() && names.len() > 1 {
            self.note(&names);
        }
        syn::visit::visit_path(self, path);
    }
}
