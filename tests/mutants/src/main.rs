//! Weaves patches into a tree: each function that a patch changes gets both bodies, and `EBB_MUTANT` chooses at run time.
//! So one build serves all mutants, where each patch alone would need a build of its own.
//!
//! `mutants TREE PATCH…` changes the files of TREE. It prints the names of the mutants that are in the tree now, and says on
//! standard error why another is not: then that patch has to be built alone.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use proc_macro2::LineColumn;
use quote::ToTokens;
use syn::{Block, ImplItem, Item, Signature, TraitItem};

/// The variable with the name of the mutant that is in effect.
const VARIABLE: &str = "EBB_MUTANT";

/// The functions of a file in their order, and all else.
struct Source {
    text: String,
    functions: Vec<Function>,
    /// The code without the bodies of the functions.
    rest: String,
}

struct Function {
    /// Where its body is in the text, with the braces.
    body: Range<usize>,
    /// The body without its layout.
    code: String,
    /// Why it cannot have two bodies, if so.
    obstacle: Option<&'static str>,
}

/// Bodies by the name of the mutant, for each function of a file that has some.
type Bodies = BTreeMap<usize, Vec<(String, String)>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let tree = arguments.next().context("usage: mutants TREE PATCH…")?;
    let mut woven: BTreeMap<PathBuf, Bodies> = BTreeMap::new();
    let mut names = Vec::new();
    for patch in arguments {
        let name = patch.file_stem().context("a patch without a name")?.to_string_lossy().into_owned();
        match changes(&tree, &patch) {
            Ok(changes) => {
                for (file, function, body) in changes {
                    woven.entry(file).or_default().entry(function).or_default().push((name.clone(), body));
                }
                names.push(name);
            }
            Err(error) => eprintln!("{name}: {error:#}"),
        }
    }
    for (file, bodies) in woven {
        let path = tree.join(file);
        let text = weave(&Source::read(&path)?, &bodies);
        #[expect(clippy::disallowed_methods, reason = "a copy of the sources need not survive a power cut")]
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for name in names {
        println!("{name}");
    }
    Ok(())
}

/// The functions that a patch changes: file, number of the function, and its new body.
fn changes(tree: &Path, patch: &Path) -> Result<Vec<(PathBuf, usize, String)>> {
    let patch = patch.canonicalize()?;
    let text = fs::read_to_string(&patch)?;
    let files: Vec<PathBuf> =
        text.lines().filter_map(|line| line.strip_prefix("+++ b/")).map(PathBuf::from).collect();
    let read = || files.iter().map(|file| Source::read(&tree.join(file))).collect::<Result<Vec<Source>>>();
    let before = read()?;
    apply(tree, &patch, &[])?;
    let after = read();
    apply(tree, &patch, &["--reverse"])?;
    let mut changes = Vec::new();
    for ((file, before), after) in files.iter().zip(&before).zip(&after?) {
        ensure!(before.rest == after.rest, "more than bodies of functions differs in {}", file.display());
        for (index, (old, new)) in before.functions.iter().zip(&after.functions).enumerate() {
            if old.code == new.code {
                continue;
            }
            if let Some(obstacle) = old.obstacle {
                bail!("{obstacle} in {}", file.display());
            }
            changes.push((file.clone(), index, after.text[new.body.clone()].to_owned()));
        }
    }
    ensure!(!changes.is_empty(), "no function differs");
    Ok(changes)
}

fn apply(tree: &Path, patch: &Path, options: &[&str]) -> Result<()> {
    let output = Command::new("git").arg("apply").args(options).arg(patch).current_dir(tree).output()?;
    ensure!(output.status.success(), "does not apply: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// The text with all bodies in it.
fn weave(source: &Source, bodies: &Bodies) -> String {
    let mut text = String::new();
    let mut from = 0;
    for (index, function) in source.functions.iter().enumerate() {
        let Some(bodies) = bodies.get(&index) else { continue };
        text += &source.text[from..function.body.start];
        text.push('{');
        for (name, body) in bodies {
            let is_it = format!(
                "{{ static IS: std::sync::OnceLock<bool> = std::sync::OnceLock::new(); \
                 *IS.get_or_init(|| std::env::var(\"{VARIABLE}\").as_deref() == Ok(\"{name}\")) }}"
            );
            text.extend(["if ", &is_it, " ", body, " else "]);
        }
        text += &source.text[function.body.clone()];
        text.push('}');
        from = function.body.end;
    }
    text + &source.text[from..]
}

impl Source {
    fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut file = syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
        let mut functions = Vec::new();
        let starts: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        take_bodies(&mut file.items, &mut |signature, body| {
            let place = |at: LineColumn| {
                let start = starts[at.line - 1];
                let column =
                    text[start..].char_indices().nth(at.column).map_or(text.len() - start, |(at, _)| at);
                start + column
            };
            let span = body.brace_token.span.join();
            let code = body.to_token_stream().to_string();
            let body = place(span.start())..place(span.end());
            functions.push(Function { body, code, obstacle: obstacle(signature) });
        });
        Ok(Self { rest: file.to_token_stream().to_string(), text, functions })
    }
}

fn obstacle(signature: &Signature) -> Option<&'static str> {
    let returns = signature.output.to_token_stream().to_string();
    match () {
        () if signature.constness.is_some() => Some("a const function cannot choose at run time"),
        () if returns.contains("impl ") => Some("a function that returns `impl` has one type"),
        () => None,
    }
}

/// Calls `take` for each function with a body, in their order, and empties the bodies.
fn take_bodies(items: &mut [Item], take: &mut dyn FnMut(&Signature, &Block)) {
    for item in items {
        match item {
            Item::Fn(function) => take_body(&function.sig, &mut function.block, take),
            Item::Impl(of) => {
                for item in &mut of.items {
                    if let ImplItem::Fn(function) = item {
                        take_body(&function.sig, &mut function.block, take);
                    }
                }
            }
            Item::Trait(of) => {
                for item in &mut of.items {
                    if let TraitItem::Fn(function) = item
                        && let Some(body) = &mut function.default
                    {
                        take_body(&function.sig, body, take);
                    }
                }
            }
            Item::Mod(module) => {
                if let Some((_, items)) = &mut module.content {
                    take_bodies(items, take);
                }
            }
            _ => {}
        }
    }
}

fn take_body(signature: &Signature, body: &mut Block, take: &mut dyn FnMut(&Signature, &Block)) {
    take(signature, body);
    body.stmts.clear();
}
