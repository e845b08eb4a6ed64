//! What `ebb setup` does on the host: systemd's units, and the sentinel's settings.

use std::fmt;
use std::process::{Output, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use pubsub::Root;
use pubsub::store::{Backup, write_durably};
use tokio::process::Command;
use tokio::time::timeout;

/// Limit for a program of systemd: starting an agent may take 30 s, and stopping one 5 s.
const LIMIT: Duration = Duration::from_mins(2);

/// The folder for settings of this device.
const SETTINGS: &str = "/etc/ebb/ebb.d";

const SENTINEL_FILE: &str = "sentinel.toml";

/// Fedora's program that says whether the host needs a reboot.
const NEEDS_RESTARTING: &str = "/usr/bin/needs-restarting";

/// All units that a person may have enabled, those first that start others.
pub(super) const UNITS: [&str; 8] = [
    "ebb-hold.service",
    "ebb-metrics.timer",
    "ebb.target",
    "ebb-sentinel.service",
    "ebb-baseos.service",
    "ebb-device-op.service",
    "ebb-nodeagent.service",
    "ebb-zedkube.service",
];

/// One step; shown as what a person would type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The unit is enabled, and started.
    Enable(&'static str),
    /// The sentinel's settings are written: the path or the program that says that the host needs a reboot.
    Sentinel {
        /// The lines of the file.
        lines: &'static str,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enable(unit) => write!(f, "systemctl enable --now {unit}"),
            Self::Sentinel { lines } => {
                write!(f, "printf '{}' > {SETTINGS}/{SENTINEL_FILE}", lines.replace('\n', "\\n"))
            }
        }
    }
}

impl Step {
    /// The settings of a sentinel for this host.
    pub(super) fn sentinel(root: &Root) -> Self {
        let lines = if root.join(NEEDS_RESTARTING).is_file() {
            "[sentinel]\ncommand = [\"/usr/bin/needs-restarting\", \"-r\"]\nexit = 1\n"
        } else {
            "[sentinel]\npath = \"/run/reboot-required\"\n"
        };
        Self::Sentinel { lines }
    }

    /// Takes the step.
    ///
    /// # Errors
    /// systemctl fails, the file cannot be written.
    pub(super) fn take(&self, root: &Root) -> anyhow::Result<()> {
        match self {
            Self::Enable(unit) => kubectl_ebb::in_runtime(change("systemctl", &["enable", "--now", unit])),
            Self::Sentinel { lines } => {
                let folder = root.join(SETTINGS);
                std::fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot make folder {}", folder.display()))?;
                Ok(write_durably(&folder, SENTINEL_FILE, lines.as_bytes(), Backup::None)?)
            }
        }
    }
}

/// True if systemd answers the question (`is-enabled`, `is-active`) about the unit with yes.
pub(super) async fn is(question: &str, unit: &str) -> bool {
    output("systemctl", &[question, "--quiet", unit]).await.is_ok_and(|output| output.status.success())
}

/// Has a program of systemd change something.
///
/// # Errors
/// It cannot be run, does not end, or refuses.
pub(crate) async fn change(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let typed = || format!("{program} {}", arguments.join(" "));
    let output = output(program, arguments).await.with_context(typed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} has failed: {}", typed(), said.trim());
    Ok(())
}

async fn output(program: &str, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    timeout(LIMIT, command.output()).await.context("it has not ended within 2 min")?.context("cannot be run")
}

#[cfg(test)]
mod tests {
    use runtime::AgentFlags;
    use runtime::settings::load;

    use super::*;

    #[test]
    fn the_sentinel_asks_as_the_host_does() -> anyhow::Result<()> {
        for has_program in [false, true] {
            let folder = tempfile::tempdir()?;
            let root = Root::new(folder.path());
            if has_program {
                std::fs::create_dir_all(root.join("/usr/bin"))?;
                std::fs::File::create(root.join(NEEDS_RESTARTING))?;
            }
            Step::sentinel(&root).take(&root)?;
            let flags = AgentFlags { root: folder.path().to_owned(), ..AgentFlags::default() };
            let loaded = load(&root, &flags, None);
            assert_eq!(loaded.problems, []);
            let sentinel = &loaded.settings.sentinel;
            assert_eq!((sentinel.path.is_some(), sentinel.command.is_some()), (!has_program, has_program));
        }
        Ok(())
    }
}
