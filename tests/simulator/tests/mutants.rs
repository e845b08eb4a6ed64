//! The patches of `mutants` fit the code as it is: `scripts/mutants` shows that the simulator notices them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn patches() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|kind| kind == "patch")).collect()
}

#[test]
fn every_mutant_applies() {
    let patches = patches();
    assert!(patches.len() > 50, "{patches:?}");
    for patch in patches {
        let check = Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(ROOT).output();
        let check = check.unwrap();
        let said = String::from_utf8_lossy(&check.stderr);
        assert!(check.status.success(), "{} does not apply any more: {said}", patch.display());
    }
}

#[test]
fn every_mutant_says_what_it_is() {
    for patch in patches() {
        let text = fs::read_to_string(&patch).unwrap();
        let heads: Vec<&str> = text.lines().take_while(|line| line.starts_with("# ")).collect();
        let begins = |head: &&str| head.split_once(": ").map(|(begin, _)| begin.to_owned());
        let begins: Vec<_> = heads.iter().filter_map(begins).collect();
        assert_eq!(begins, ["# finding", "# what", "# expects"], "{}", patch.display());
    }
}
