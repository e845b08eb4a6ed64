//! The command line flags that all agents share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pubsub::Root;

/// The command line flags that all agents share. `--node` and `--kubeconfig` are short for `--set node.name=…` and
/// `--set cluster.kubeconfig=…`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct AgentFlags {
    /// Folder that is used as the root of the device's files (for tests and containers)
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Settings file that overrides the installed ones; may be given more than once, the last wins
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Kubeconfig file
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of the Node object of this machine
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// One setting; may be given more than once, the last wins
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    pub set: Vec<Assignment>,
    /// Log to stderr in this form; without it to the journal if there is one, otherwise to stderr as text
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Start even though EVE's zedbox is running here
    #[arg(long)]
    pub beside_zedbox: bool,
}

/// The form of the log on stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line of text per record.
    Text,
    /// One JSON object per record.
    Json,
}

/// An argument `key=value` of `--set`. The settings judge the key and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The key of the setting.
    pub key: String,
    /// The value, as written.
    pub value: String,
}

impl Default for AgentFlags {
    fn default() -> Self {
        Self {
            root: PathBuf::from("/"),
            config: Vec::new(),
            kubeconfig: None,
            node: None,
            set: Vec::new(),
            log_format: None,
            beside_zedbox: false,
        }
    }
}

impl AgentFlags {
    /// The root folder of all files that the agent reads and writes.
    pub fn root(&self) -> Root {
        Root::new(&self.root)
    }
}

/// Splits `key=value`.
///
/// # Errors
/// There is no `=`, or no key before it.
pub fn assignment(text: &str) -> Result<Assignment, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok(Assignment { key: key.trim().to_owned(), value: value.trim().to_owned() })
        }
        Some(_) | None => Err("not KEY=VALUE, such as drain.attempts=3".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        flags: AgentFlags,
    }

    fn parse(arguments: &[&str]) -> Result<AgentFlags, clap::Error> {
        let arguments = std::iter::once("agent").chain(arguments.iter().copied());
        Program::try_parse_from(arguments).map(|program| program.flags)
    }

    #[test]
    fn no_flag_is_the_default() {
        assert_eq!(parse(&[]).unwrap(), AgentFlags::default());
    }

    #[test]
    fn every_flag_is_read() {
        let flags = parse(&[
            "--root=/r",
            "--config=/a",
            "--config=/b",
            "--kubeconfig=/k",
            "--node=edge",
            "--set=no-peer=wait",
            "--set= a = b=c ",
            "--log-format=json",
            "--beside-zedbox",
        ])
        .unwrap();
        let set = |key: &str, value: &str| Assignment { key: key.to_owned(), value: value.to_owned() };
        assert_eq!(
            flags,
            AgentFlags {
                root: "/r".into(),
                config: vec!["/a".into(), "/b".into()],
                kubeconfig: Some("/k".into()),
                node: Some("edge".to_owned()),
                set: vec![set("no-peer", "wait"), set("a", "b=c")],
                log_format: Some(LogFormat::Json),
                beside_zedbox: true,
            }
        );
    }

    #[test]
    fn a_setting_without_key_or_value_is_refused() {
        for bad in ["--set=x", "--set==x", "--set= =x", "--log-format=xml"] {
            assert_eq!(parse(&[bad]).unwrap_err().exit_code(), 2, "{bad}");
        }
        assert!(parse(&["--set=x="]).is_ok(), "whether an empty value is accepted is up to the setting");
    }
}
