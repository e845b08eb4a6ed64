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
fn an_agent_dies_in_the_call_that_was_told() {
    let dies = |call: &str| text(&run(&["8", "--kill", call]));
    let story = dies("device-op:40");
    assert_eq!(story.matches("killed in the middle of a call").count(), 1, "{story}");
    assert!(!story.contains("fault: "), "{story}");
    assert!(dies("device-op:100000").contains("NEVER KILLED"));
}

/// The seeds in which something was wrong once, and some more. The many histories of `scripts/test real` run in an optimised
/// program: `scripts/simulate`.
#[test]
fn no_invariant_is_broken() {
    let known = include_str!("../corpus.txt").lines().filter(|line| !line.starts_with('#')).count();
    let output = run(&["--histories", &(known + 40).to_string()]);
    assert!(output.status.success(), "{}", text(&output));
}
