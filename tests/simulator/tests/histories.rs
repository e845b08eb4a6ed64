//! A few histories, and that a history depends on its seed only.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_simulator")).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_history_depends_on_its_seed_only() {
    let stories = ["7", "7", "8"].map(|seed| text(&run(&[seed])));
    let [first, second, other] = &stories;
    assert!(first.contains("the history ends"), "{first}");
    assert_eq!(first, second);
    assert_ne!(first, other);
}

#[test]
fn a_single_fault_comes_where_it_was_told_and_all_before_it_is_as_without() {
    let story = |only: &str| text(&run(&["8", "--only", only]));
    let none = story("device-op:100000");
    assert!(none.contains("NEVER MET") && !none.contains("killed in") && !none.contains("fault: "), "{none}");
    let same = |story: &str| story.lines().zip(none.lines()).take_while(|(one, other)| one == other).count();
    let dies = story("device-op:40");
    let at = dies.lines().position(|line| line.contains("killed in the middle of a call"));
    assert!(at.is_some_and(|at| at > 5 && same(&dies) == at), "{dies}");
    assert!(!story("api:9").contains("NEVER MET"));
    let to_rest = text(&run(&["44", "--only", "api:100000"]));
    assert!(to_rest.contains("NEVER MET"), "a fault waits until the end: {to_rest}");
    // The faults of the whole history change nothing before the first of them.
    let whole = text(&run(&["8"]));
    assert!(same(&whole) > 5, "{whole}");
}

/// The seeds in which something was wrong once, and some more. The many histories of `scripts/test real` run in an optimised
/// program: `scripts/simulate`.
#[test]
fn no_invariant_is_broken() {
    let known = include_str!("../corpus.txt").lines().filter(|line| !line.starts_with('#')).count();
    let output = run(&["--histories", &(known + 40).to_string()]);
    assert!(output.status.success(), "{}", text(&output));
}
