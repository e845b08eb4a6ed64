//! The promises that the model checks.

/// The promises. Their names are the names of stateright's properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// nodeagent passes the point of no return, and baseos starts an activation, only in one of these cases: the
    /// request was answered COMPLETE, and the answer was valid when the gate was asked last before nodeagent began its
    /// last poll; an operator had switched drains off; or zedkube had been away for `drain.start.timeout`.
    NoRebootWithoutAnswer,
    /// The device does not go down with pods on a node that was reported as drained, if they came back before the last
    /// moment: time has moved on since, and no party was delayed. (The zedkube that answered may be dead by then: its
    /// answer stays valid, and no agent looks for pods.)
    NoRebootWithPods,
    /// COMPLETE is given only for a true reason: the node was cordoned and empty at some time after the request, an
    /// operator ordered it, the API server did not answer for the time-out, or no peer could take pods for the window.
    AnswersAreTrue,
    /// Once there are no more faults, every active request is answered.
    EveryRequestIsAnswered,
    /// Once there are no more faults, every command that was not withdrawn is carried out.
    EveryCommandIsCarriedOut,
    /// In the end there is no unneeded cordon of ours.
    NoCordonIsLeft,
    /// In the end there is no unneeded slot of ours.
    NoSlotIsLeft,
    /// A cordon of another owner is never lifted.
    ForeignCordonStays,
    /// A device does not go down while an image is being activated.
    NoRebootDuringActivation,
    /// No second image is written while an activate command runs, also if its baseos has died.
    OneWriter,
    /// No command is carried out twice, whatever crashes and boots happen.
    NothingTwice,
    /// A pod is evicted only from a node that is cordoned and has its slot.
    EvictsOnlyWithCordonAndSlot,
    /// COMPLETE without a drain, because the API server does not answer or there is no peer, is given only if a list or
    /// probe of the last seconds shows it, and not because time passed while the process did not run.
    NoPatienceLost,
    /// An operation that device-op or baseos released, and would now hold back, does not happen just because that agent
    /// is dead and cannot withdraw it.
    NoRebootForTheDead,
    /// Everything comes to rest once there are no more faults.
    ComesToRest,
}

impl Rule {
    /// All promises.
    pub const ALL: [Self; 15] = [
        Self::NoRebootWithoutAnswer,
        Self::NoRebootWithPods,
        Self::AnswersAreTrue,
        Self::EveryRequestIsAnswered,
        Self::EveryCommandIsCarriedOut,
        Self::NoCordonIsLeft,
        Self::NoSlotIsLeft,
        Self::ForeignCordonStays,
        Self::NoRebootDuringActivation,
        Self::OneWriter,
        Self::NothingTwice,
        Self::EvictsOnlyWithCordonAndSlot,
        Self::NoPatienceLost,
        Self::NoRebootForTheDead,
        Self::ComesToRest,
    ];

    /// Name of the stateright property.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoRebootWithoutAnswer => "no_reboot_or_activation_without_an_answer",
            Self::NoRebootWithPods => "no_reboot_while_pods_are_there",
            Self::AnswersAreTrue => "answers_are_true",
            Self::EveryRequestIsAnswered => "every_request_is_answered_in_the_end",
            Self::EveryCommandIsCarriedOut => "every_command_is_carried_out_in_the_end",
            Self::NoCordonIsLeft => "no_cordon_of_ours_is_left",
            Self::NoSlotIsLeft => "no_slot_of_ours_is_left",
            Self::ForeignCordonStays => "a_foreign_cordon_stays",
            Self::NoRebootDuringActivation => "no_reboot_during_an_activation",
            Self::OneWriter => "one_image_is_written_at_a_time",
            Self::NothingTwice => "no_command_is_carried_out_twice",
            Self::EvictsOnlyWithCordonAndSlot => "evicts_only_with_cordon_and_slot",
            Self::NoPatienceLost => "undrained_only_after_a_fresh_look",
            Self::NoRebootForTheDead => "no_reboot_for_a_dead_requester",
            Self::ComesToRest => "all_comes_to_rest",
        }
    }
}
