//! `ebb run`: parent process of the agents, for hosts without a service manager.
//!
//! It runs them as child processes of its own program, each with the hidden verb `child`. [`runtime::supervisor`]
//! decides when one is restarted or stopped. The children end when their parent dies, in whatever way it dies.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use clap::Args;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};
use pubsub::AgentLock;
use runtime::settings::load;
use runtime::supervisor::Supervisor;
use runtime::{AgentFlags, LogFormat, logs};
use schemas::Agent;

use crate::{agents, screen};

/// Name of the parent in the log and of its lock and pid file, `ROOT/run/ebb/lock/ebb-run/pid`. Not `ebb`: that is the
/// agent that asks for drains on the command line.
const NAME: &str = "ebb-run";

/// The running program, even after its file was replaced or removed: an update must not mix versions, nor leave the
/// device without an agent.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// Hidden verb of a child process.
const CHILD: &str = "child";

/// Variables of systemd's `sd_notify` protocol, which are meant for the parent only and removed for children.
const MEANT_FOR_THE_PARENT: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// Arguments of `ebb run`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RunArguments {
    /// Agents to run, if EVE's zedbox runs the others; default: all four, and the sentinel if it is set up
    #[arg(value_name = "AGENT", value_parser = agent)]
    agents: Vec<Agent>,
    /// Process id of the parent: `ebb run` ends when that process does
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<i32>,
    #[command(flatten)]
    flags: AgentFlags,
}

/// Arguments of the hidden verb.
#[derive(Args, Clone, Debug)]
pub(crate) struct ChildArguments {
    /// Agent to run
    #[arg(value_parser = agent)]
    agent: Agent,
    /// Process id of the parent
    #[arg(long, value_name = "PID")]
    parent: i32,
    #[command(flatten)]
    flags: AgentFlags,
}

/// Keeps the agents running until SIGTERM or SIGINT, then exits with 0 when all of them have ended; exits with 1 if it
/// could not start.
pub(crate) fn run(arguments: &RunArguments) -> anyhow::Result<ExitCode> {
    let flags = &arguments.flags;
    logs::init(flags.log_format, NAME)?;
    if let Some(parent) = arguments.parent {
        end_with(Pid::from_raw(parent)).map_err(anyhow::Error::msg)?;
    }
    let lock = AgentLock::acquire(&flags.root(), NAME).context("cannot start the agents")?;
    let children = Children::new(flags);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot wait for signals")?.block_on(async {
        let start = |agent| children.start(agent);
        Supervisor::new(&arguments.chosen(), lock, start)?.run().await;
        Ok(ExitCode::SUCCESS)
    })
}

impl RunArguments {
    fn chosen(&self) -> Vec<Agent> {
        let has_sentinel = || load(&self.flags.root(), &self.flags, None).settings.sentinel.is_set();
        let by_default = |agent: &Agent| *agent != Agent::Sentinel || has_sentinel();
        let is_chosen =
            |agent: &Agent| self.agents.contains(agent) || self.agents.is_empty() && by_default(agent);
        Agent::ALL.into_iter().chain([Agent::Sentinel]).filter(is_chosen).collect()
    }
}

/// Parses the name of an agent, EVE's or ours.
fn agent(name: &str) -> Result<Agent, String> {
    let names = || Agent::ALL.map(Agent::name).join(", ");
    Agent::from_name(name).ok_or_else(|| format!("no agent; the agents are {}, {}", names(), Agent::Sentinel))
}

/// The command lines of child processes.
#[derive(Debug)]
struct Children {
    parent: Pid,
    flags: Vec<OsString>,
}

impl Children {
    /// Children of this process with these flags.
    fn new(flags: &AgentFlags) -> Self {
        Self { parent: Pid::this(), flags: typed(flags) }
    }

    /// Starts an agent. The caller must reap the process, and must call this on a thread that lives as long as this
    /// process (the parent-death signal is bound to the thread).
    fn start(&self, agent: Agent) -> io::Result<Pid> {
        let mut command = Command::new(THIS_PROGRAM);
        command.arg0("ebb").args(self.for_agent(agent)).stdin(Stdio::null());
        for name in MEANT_FOR_THE_PARENT {
            command.env_remove(name);
        }
        let child = command.spawn()?;
        i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
    }

    fn for_agent(&self, agent: Agent) -> Vec<OsString> {
        let verb = [CHILD.into(), agent.name().into(), flag("--parent", self.parent.to_string().as_ref())];
        verb.into_iter().chain(self.flags.iter().cloned()).collect()
    }
}

/// Runs an agent as a child process that gets SIGTERM when its parent ends, in whatever way it ends.
pub(crate) fn run_child(arguments: &ChildArguments) -> ExitCode {
    let name = arguments.agent.name();
    if let Err(error) = end_with(Pid::from_raw(arguments.parent)) {
        screen::say(&format!("error: cannot start {name}: {error}"));
        return ExitCode::FAILURE;
    }
    // Name for `top` and `pgrep`; it would be "exe" otherwise, from the path under which the program was started.
    if let Err(error) =
        CString::new(name).map_err(io::Error::from).and_then(|name| Ok(prctl::set_name(&name)?))
    {
        screen::say(&format!("{name} runs under another name: {error}"));
    }
    agents::run(arguments.agent, &arguments.flags)
}

/// Asks the kernel for SIGTERM at the end of the parent. Not SIGKILL: an agent must be able to end the command that it
/// has started.
fn end_with(parent: Pid) -> Result<(), String> {
    prctl::set_pdeathsig(Signal::SIGTERM)
        .map_err(|error| format!("cannot ask for a signal at the end of process {parent}: {error}"))?;
    // The parent may have ended before the request above.
    if getppid() == parent {
        return Ok(());
    }
    Err(format!("process {parent} that has started it is gone"))
}

/// The flags as they are typed. Written without `..`, so that a new flag is a compile error here.
fn typed(flags: &AgentFlags) -> Vec<OsString> {
    let AgentFlags { root, config, kubeconfig, node, set, log_format, beside_zedbox } = flags;
    let mut arguments = vec![flag("--root", root.as_os_str())];
    arguments.extend(config.iter().map(|file| flag("--config", file.as_os_str())));
    arguments.extend(kubeconfig.iter().map(|file| flag("--kubeconfig", file.as_os_str())));
    arguments.extend(node.iter().map(|name| flag("--node", name.as_ref())));
    arguments.extend(set.iter().map(|set| flag("--set", format!("{}={}", set.key, set.value).as_ref())));
    arguments.extend(log_format.map(|format| flag("--log-format", format_name(format).as_ref())));
    arguments.extend(beside_zedbox.then(|| "--beside-zedbox".into()));
    arguments
}

/// The flag as one word with `=`, so that its value may begin with a dash.
fn flag(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}

fn format_name(format: LogFormat) -> &'static str {
    match format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Run {
        #[command(flatten)]
        arguments: RunArguments,
    }

    #[derive(Parser)]
    struct Child {
        #[command(flatten)]
        arguments: ChildArguments,
    }

    /// The child reads the flags that the parent has read.
    #[track_caller]
    fn check(typed: &[&OsStr]) {
        let of_run = std::iter::once(OsStr::new("run")).chain(typed.iter().copied());
        let flags = Run::try_parse_from(of_run).map_err(|error| error.to_string()).unwrap().arguments.flags;
        for agent in Agent::ALL {
            let arguments = Children::new(&flags).for_agent(agent);
            let child =
                Child::try_parse_from(arguments).map_err(|error| error.to_string()).unwrap().arguments;
            assert_eq!((child.agent, child.parent), (agent, Pid::this().as_raw()));
            assert_eq!(child.flags, flags, "{typed:?}");
        }
    }

    #[test]
    fn a_child_has_its_parents_flags() {
        let not_text = OsString::from_vec(b"--root=/\xff/r".to_vec());
        check(&[]);
        check(&[OsStr::new("zedkube"), &not_text]);
        check(&["--log-format=text", "--kubeconfig=-k", "--node=--beside-zedbox"].map(OsStr::new));
        check(
            &[
                "--config=/a b",
                "--config=b",
                "--set=no-peer=wait",
                "--set=device.command=[\"a\", \"b=c\"]",
                "--set=node.name=",
                "--log-format=json",
                "--beside-zedbox",
            ]
            .map(OsStr::new),
        );
    }

    #[test]
    fn which_agents_run() {
        let (zedkube, nodeagent, baseos) = (Agent::Zedkube, Agent::Nodeagent, Agent::Baseos);
        for (typed, expected) in [
            (vec![], Agent::ALL.to_vec()),
            (vec!["zedkube"], vec![zedkube]),
            (vec!["baseos", "nodeagent", "device-op"], vec![Agent::DeviceOp, nodeagent, baseos]),
            (vec!["baseosmgr", "zedagent", "baseos"], vec![Agent::DeviceOp, baseos]),
            (vec!["sentinel"], vec![Agent::Sentinel]),
            (vec!["--set=sentinel.path=/x"], [&Agent::ALL[..], &[Agent::Sentinel]].concat()),
            (vec!["zedkube", "--set=sentinel.path=/x"], vec![zedkube]),
        ] {
            // A root without settings: this machine's own may have a sentinel.
            let arguments = ["run", "--root=/nowhere"].into_iter().chain(typed.iter().copied());
            let arguments =
                Run::try_parse_from(arguments).map_err(|error| error.to_string()).unwrap().arguments;
            assert_eq!(arguments.chosen(), expected, "{typed:?}");
        }
        let error = Run::try_parse_from(["run", "zedbox"]).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("zedkube, device-op, nodeagent, baseos, sentinel"), "{error}");
    }
}
