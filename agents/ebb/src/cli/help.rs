//! The first page of the help: the verbs by whom they are for, examples, exit codes.

use clap::Command;

/// The groups of the help, each with its verbs.
const GROUPS: [(&str, &[&str]); 4] = [
    (
        "On the device, for its operator",
        &[
            "setup", "status", "history", "report", "reboot", "shutdown", "poweroff", "update", "request",
            "cancel", "commands", "freeze", "unfreeze", "force", "slots", "config", "metrics",
        ],
    ),
    ("In a cluster, with a kubeconfig", &["plan", "drain", "cordon", "uncordon", "completion"]),
    ("Agents", &["zedkube", "device-op", "nodeagent", "baseos", "sentinel", "run", "hold"]),
    ("To look inside, and to try", &["topic", "demo"]),
];

const EXAMPLES: &str = "\
Examples:
  ebb status                          what is wrong, and what to type
  ebb reboot --reason \"fan swap\"      drain this node, then reboot the device
  ebb plan NODE --ignore-daemonsets   what a drain would do, what would block it
  ebb drain NODE --ignore-daemonsets  as kubectl drain, and says why it waits";

const CODES: &str = "\
Exit codes: 0 done; 1 refused or failed; 2 invalid arguments (1 for drain,
  cordon, uncordon and plan, as kubectl); 130 after Ctrl-C. `ebb status` has
  its own: see `ebb status --help`.";

const FILES: &str = "\
Settings: /etc/ebb/ebb.d/*.toml; `ebb config example` prints all of them.
Pages for whoever operates a device, where a package puts them:
  /usr/share/doc/ebb/docs/operations/README.md";

/// The definition with the verbs in groups.
pub(super) fn grouped(definition: Command) -> Command {
    let line = |verb: &Command| {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<11} {about}\n", verb.get_name())
    };
    let group = |(heading, verbs): &(&str, &[&str])| {
        let lines = verbs.iter().filter_map(|verb| definition.find_subcommand(verb)).map(line);
        format!("{heading}:\n{}\n", lines.collect::<String>())
    };
    let text: String = GROUPS.iter().map(group).collect();
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}\n"
    );
    definition.help_template(template).after_help(format!("{EXAMPLES}\n\n{CODES}\n\n{FILES}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_verb_is_in_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        let names: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(names.len(), grouped.len(), "twice: {grouped:?}");
        let definition = Cli::command();
        let shown = definition.get_subcommands().filter(|verb| !verb.is_hide_set());
        let mut shown: BTreeSet<&str> = shown.map(Command::get_name).collect();
        // A release is built without it.
        shown.insert("demo");
        assert_eq!(names, shown);
    }
}
