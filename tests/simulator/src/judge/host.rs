//! Reboots that the host asks for by a file.

use schemas::{Agent, SentinelState, SentinelStatus, parse};

use super::{CALM, HEARD, Judge};
use crate::device::Device;
use crate::kernel;
use crate::world::SECOND;

/// How long the sentinel waits after a change before it reads the file.
const SETTLE: u64 = 5 * SECOND;

/// What the host of a device asks for.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// The text of its file; None if there is none.
    text: Option<&'static str>,
    /// When the file went away last.
    gone_at: u64,
    /// It was rebooted for the text that still stands.
    is_rebooted: bool,
}

impl Judge {
    /// The host asks for a reboot by a file with this text, or asks no more.
    pub(crate) fn host_asks(&mut self, index: usize, text: Option<&'static str>) {
        let known = &mut self.devices[index];
        known.trials.commanded(None);
        known.host.is_rebooted &= known.host.text == text;
        if text.is_none() {
            known.host.gone_at = kernel::now();
        }
        known.host.text = text;
    }

    /// Judges a reboot that the host has commanded.
    pub(super) fn judge_host(&mut self, index: usize, device: &Device, works: bool, decided_at: u64) {
        let known = &mut self.devices[index];
        // Whoever stood still, or could not write, sees some time later that the file is gone.
        let blind = self.disturbed_at.max(known.disturbed_at) + CALM;
        let ran = device.runs_for(Agent::DeviceOp).min(device.runs_for(Agent::Sentinel));
        let seen_at = known.host.gone_at.max(blind).max(kernel::now().saturating_sub(ran));
        let late = decided_at.saturating_sub(seen_at);
        let is_gone = known.host.text.is_none() && !known.trials.has_a_bad_disk();
        let is_repeated = std::mem::replace(&mut known.host.is_rebooted, works);
        if is_gone && late > HEARD + SETTLE {
            let what =
                format!("{} reboots {} s after the host has asked for none", device.node, late / SECOND);
            self.complain("a command that was taken back is not carried out", &what);
        }
        if is_repeated {
            self.complain("a reboot that does not help is not repeated", &device.node);
        }
    }

    /// The reboot that the host asks for is not done.
    pub(super) fn is_asked_by_the_host(device: &Device) -> bool {
        let status = device.text("/run/sentinel/SentinelStatus/global.json").unwrap_or_default();
        let status: Option<SentinelStatus> = parse(status.as_bytes()).ok();
        status.is_some_and(|status| status.state == SentinelState::Commanded)
    }
}
