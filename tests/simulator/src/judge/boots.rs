//! What is known of a device from one boot to the next.

use serde_json::Value;

use super::Judge;
use super::host::Host;
use crate::kernel;

impl Judge {
    /// The device goes down, by nodeagent or by a power cut. Any boot counts as the reboot that was commanded.
    pub(crate) fn goes_down(&mut self, device: usize) {
        let known = &mut self.devices[device];
        known.is_down = true;
        known.begins_boot();
    }

    /// A boot begins; what was in `/run` is gone unless it is kept. `is_kept`: a person's request outlasts it.
    pub(crate) fn boots(&mut self, device: usize, keeps_run: bool, is_kept: bool) {
        let known = &mut self.devices[device];
        known.asked_at = kernel::now();
        known.eves_answers.clear();
        known.order.begins_boot();
        known.not_taken_since = None;
        known.trials.keeps_run(keeps_run);
        known.forget_half_a_request();
        if !is_kept {
            known.forget_kept();
        }
        if !keeps_run {
            known.requests.retain(|path| path.contains("/persist/"));
            known.host = Host::default();
            (known.report, known.status) = (Value::Null, None);
        }
    }
}
