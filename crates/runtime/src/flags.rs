//! The flags that every agent has.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use pubsub::Root;

use crate::settings::{Entry, Origin};

/// The flags that every agent has. `--node` and `--kubeconfig` are short for `--set node.name=…` and
/// `--set cluster.kubeconfig=…`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct AgentFlags {
    /// Folder that stands for `/`: everything is read and written below it
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Settings file that wins over the installed ones; may be given more than once, the last wins
    #[arg(long, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Kubeconfig file
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of the Node that is this machine
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// One setting; may be given more than once, the last wins
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    pub set: Vec<Assignment>,
    /// Log to stderr in this form; without it to the journal where there is one, else to stderr as text
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Run although EVE's zedbox is running here
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

/// `key=value` of `--set`. Whether the key and the value mean something is for the settings to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The setting.
    pub key: String,
    /// Its value, as written.
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
    /// The root of everything that is read and written.
    pub fn root(&self) -> Root {
        Root::new(&self.root)
    }

    /// What the flags say about settings, the strongest last.
    pub(crate) fn assignments(&self) -> Vec<Entry> {
        let node = self.node.iter().map(|name| entry("--node", "node.name", name));
        let kubeconfig =
            self.kubeconfig.iter().map(|path| entry("--kubeconfig", "cluster.kubeconfig", &absolute(path)));
        let set = self.set.iter().map(|set| entry("--set", &set.key, &set.value));
        node.chain(kubeconfig).chain(set).collect()
    }
}

fn entry(flag: &'static str, key: &str, value: &str) -> Entry {
    Entry { key: key.to_owned(), value: value.into(), origin: Origin::Flag(flag) }
}

/// Whoever types a flag means the folder where he stands; a daemon's settings know no such folder.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// `key=value`, the value as it is written.
///
/// # Errors
/// There is no `=`, or nothing before it.
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
