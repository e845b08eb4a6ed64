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
fn no_invariant_is_broken() {
    let output = run(&["--histories", "12"]);
    assert!(output.status.success(), "{}", text(&output));
}
