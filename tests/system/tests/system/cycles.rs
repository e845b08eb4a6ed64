//! No import cycle among the modules of a crate, so that each module can be read without those above it.
//!
//! The modules are those that `lib.rs` declares; a folder counts together with the module that owns it. An import is any
//! path that begins with `crate::` or `super::`, in a `use` or in the middle of the code. What only tests use does not
//! count.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Result;
use std::path::{Path, PathBuf};

/// The folders of the crates that are held to it, below the root of the workspace.
const CRATES: [&str; 2] = ["crates/drain", "crates/session"];

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_module_imports_itself_by_a_detour() -> Result<()> {
    for folder in CRATES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join("src");
        let graph = imports(&root)?;
        assert!(graph.len() > 1, "no modules in {}", root.display());
        let cycles = cycles(&graph);
        assert!(cycles.is_empty(), "{folder}: import cycles:\n{}", cycles.join("\n"));
    }
    Ok(())
}

#[test]
fn a_cycle_is_found_however_it_is_written() {
    let graph = |modules: &[(&str, &str)]| -> Graph {
        let names: BTreeSet<String> = modules.iter().map(|(name, _)| (*name).to_owned()).collect();
        let exports = BTreeMap::from([("Exported".to_owned(), "b".to_owned())]);
        let of = |(name, text): &(&str, &str)| ((*name).to_owned(), used(text, 1, name, &names, &exports));
        modules.iter().map(of).collect()
    };
    for (text, is_cycle) in [
        ("use crate::b::Thing;", true),
        ("use crate::{c, b::{Thing, Other}};", true),
        ("use crate::Exported;", true),
        ("use super::b;", true),
        ("fn f() { crate::b::call() }", true),
        ("// use crate::b::Thing;", false),
        ("use crate::c::b;", false),
        ("#[cfg(test)]\nmod tests {\n    use crate::b::Thing;\n}\nfn f() {}", false),
    ] {
        let found = cycles(&graph(&[("a", text), ("b", "use crate::a::X;"), ("c", "")]));
        assert_eq!(!found.is_empty(), is_cycle, "{text}: {found:?}");
    }
}

/// Which module imports which.
fn imports(root: &Path) -> Result<Graph> {
    let lib = product(&root.join("lib.rs"))?;
    let modules: BTreeSet<String> = declared(&lib).into_iter().collect();
    let exports = exports(&lib, &modules);
    let of = |name: &String| Ok((name.clone(), of_module(root, name, &modules, &exports)?));
    modules.iter().map(of).collect()
}

/// What a module with all its submodules imports.
fn of_module(
    root: &Path,
    name: &str,
    modules: &BTreeSet<String>,
    exports: &BTreeMap<String, String>,
) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut left: Vec<(PathBuf, usize)> = vec![(root.join(name), 1)];
    while let Some((path, depth)) = left.pop() {
        let text = product(&path.with_extension("rs"))?;
        found.extend(used(&text, depth, name, modules, exports));
        left.extend(declared(&text).into_iter().map(|child| (path.join(child), depth + 1)));
    }
    Ok(found)
}

/// The file without comments and without what is compiled for tests only.
fn product(path: &Path) -> Result<String> {
    Ok(without_tests(&std::fs::read_to_string(path)?))
}

fn without_tests(text: &str) -> String {
    let mut kept = Vec::new();
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push(line);
            continue;
        }
        // The item that follows: to its semicolon, or to the brace that closes it at the same depth.
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        for line in lines.by_ref() {
            let is_opened = line.trim_end().ends_with('{');
            if line.starts_with(&end) || (!is_opened && line.trim_end().ends_with(';') && is_at(line, indent))
            {
                break;
            }
        }
    }
    kept.join("\n")
}

fn is_at(line: &str, indent: &str) -> bool {
    line.strip_prefix(indent).is_some_and(|rest| !rest.starts_with(' '))
}

/// The modules that this file declares in other files.
fn declared(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let line = line.trim().strip_suffix(';')?;
        let (before, name) = line.rsplit_once("mod ")?;
        (before.is_empty() || before.starts_with("pub")).then(|| name.to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// What `lib.rs` exports under a shorter name, and the module that it comes from.
fn exports(lib: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in lib.split(';') {
        let Some((_, path)) = statement.split_once("pub use ") else { continue };
        for path in spread(path) {
            let mut parts = path.split("::").skip_while(|part| *part == "crate");
            if let (Some(module), Some(name)) = (parts.next(), path.rsplit("::").next())
                && modules.contains(module)
            {
                found.insert(name.to_owned(), module.to_owned());
            }
        }
    }
    found
}

/// The modules that a text uses which stands `depth` levels below the root of the crate, in the module `own`.
fn used(
    text: &str,
    depth: usize,
    own: &str,
    modules: &BTreeSet<String>,
    exports: &BTreeMap<String, String>,
) -> BTreeSet<String> {
    let text = without_tests(text);
    let mut found = BTreeSet::new();
    let up = "super::".repeat(depth);
    for prefix in ["crate::", up.as_str()] {
        for (at, _) in text.match_indices(prefix) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || before == '_' || before == ':') {
                continue;
            }
            for path in spread(&text[at + prefix.len()..]) {
                let first = path.split("::").next().unwrap_or_default();
                let module = exports.get(first).map_or(first, String::as_str);
                if modules.contains(module) && module != own {
                    found.insert(module.to_owned());
                }
            }
        }
    }
    found
}

/// The paths of a `use` tree that the text begins with: `{a, b::{C, D}}` is `a`, `b::C` and `b::D`.
fn spread(text: &str) -> Vec<String> {
    let text = text.trim_start();
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let plain: String = text.chars().take_while(|c| is_path(*c)).collect();
    let Some(inside) = text[plain.len()..].strip_prefix('{') else {
        return vec![plain];
    };
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                parts.push(&inside[start..at]);
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(spread).map(|path| format!("{plain}{path}")).collect()
}

/// Each set of modules that import each other, with the imports among them.
fn cycles(graph: &Graph) -> Vec<String> {
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(name) = left.pop() {
            for next in graph.get(&name).into_iter().flatten() {
                if next == to {
                    return true;
                }
                if seen.insert(next.clone()) {
                    left.push(next.clone());
                }
            }
        }
        false
    };
    let mut knots: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (from, used) in graph {
        for to in used.iter().filter(|to| reaches(to, from)) {
            let knot: Vec<&str> = graph
                .keys()
                .filter(|other| *other == from || (reaches(from, other) && reaches(other, from)))
                .map(String::as_str)
                .collect();
            knots.entry(knot.join(", ")).or_default().push(format!("{from}->{to}"));
        }
    }
    knots.into_iter().map(|(modules, arrows)| format!("{modules}: {}", arrows.join(" "))).collect()
}
