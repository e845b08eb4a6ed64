//! The command line flags that all agents share.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use pubsub::Root;

use crate::settings::{Entry, Origin};

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

    /// The settings on the command line; later ones override earlier ones.
    pub(crate) fn assignments(&self) -> Vec<Entry> {
        let node = self.node.iter().map(|name| entry("--node", "node.name", name));
        let kubeconfig = self.kubeconfig.iter().filter(|path| !path.as_os_str().is_empty());
        let kubeconfig = kubeconfig.map(|path| entry("--kubeconfig", "cluster.kubeconfig", &absolute(path)));
        let set = self.set.iter().map(|set| entry("--set", &set.key, &set.value));
        node.chain(kubeconfig).chain(set).collect()
    }
}

fn entry(flag: &'static str, key: &str, value: &str) -> Entry {
    Entry { key: key.to_owned(), value: value.into(), origin: Origin::Flag(flag) }
}

/// An absolute path. A relative path on the command line is relative to the current folder; the settings of a daemon
/// know no such folder.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
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

    /// `ebb uncordon --self --kubeconfig ""`, as with kubectl.
    #[test]
    fn an_empty_kubeconfig_is_none() {
        let flags = |path: &str| AgentFlags { kubeconfig: Some(path.into()), ..AgentFlags::default() };
        assert_eq!(flags("/k").assignments().len(), 1);
        assert!(flags("").assignments().is_empty());
    }

    #[test]
    fn a_setting_without_key_or_value_is_refused() {
        for bad in ["--set=x", "--set==x", "--set= =x", "--log-format=xml"] {
            assert_eq!(parse(&[bad]).unwrap_err().exit_code(), 2, "{bad}");
        }
        assert!(parse(&["--set=x="]).is_ok(), "whether an empty value is accepted is up to the setting");
    }
}
