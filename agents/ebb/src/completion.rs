//! `ebb completion SHELL`: the script with which a shell asks `ebb` at each TAB.

use clap::{Args, ValueEnum};
use kubectl_ebb::screen;

/// Arguments of `ebb completion`.
#[derive(Args, Debug)]
pub(crate) struct CompletionArguments {
    /// Shell that the script is for
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script of the shell.
pub(crate) fn script(arguments: &CompletionArguments) {
    let script = match arguments.shell {
        Shell::Bash => include_str!("completion/ebb.bash"),
        Shell::Zsh => include_str!("completion/ebb.zsh"),
        Shell::Fish => include_str!("completion/ebb.fish"),
    };
    screen::lines(script.lines());
}
