//! What is promised.

/// The promises. Their names are the properties' names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// nodeagent passes the point of no return, and baseos starts an activation, only when the request for it was
    /// answered COMPLETE and the answer stood when the gate was asked last before nodeagent began its last look, or an operator had switched drains off, or
    /// zedkube had been away for `drain.start.timeout`.
    NoRebootWithoutAnswer,
    /// Nor with pods on the node that was told to be drained, when they came back before the last moment: time went by
    /// since, and nobody was delayed. (Whoever answered may be dead by then: its answer stands, and nobody looks.)
    NoRebootWithPods,
    /// COMPLETE is told only for a reason that is true: the node was cordoned and empty at some time after the request, an
    /// operator said so, the API server did not answer for the time-out, or no peer could take pods for the window.
    AnswersAreTrue,
    /// Once nothing goes wrong any more every request that stands is answered.
    EveryRequestIsAnswered,
    /// And every command that was not taken back is carried out.
    EveryCommandIsCarriedOut,
    /// And no cordon of ours is left that nobody needs.
    NoCordonIsLeft,
    /// And no slot.
    NoSlotIsLeft,
    /// Somebody else's cordon is never lifted.
    ForeignCordonStays,
    /// A device does not go down while an image is being activated.
    NoRebootDuringActivation,
    /// And no second image is written beside it, whoever lives to see its end.
    OneWriter,
    /// No command is carried out twice, whatever is between: crashes, boots.
    NothingTwice,
    /// A pod is evicted only from a node that is cordoned and has its slot.
    EvictsOnlyWithCordonAndSlot,
    /// COMPLETE without a drain, because nobody answers or no peer is there, is decided only when a look of the last seconds
    /// says so, and not because time went by for a process that did not run.
    NoPatienceLost,
    /// What device-op or baseos has let go, and would not any more, does not happen because it is dead and cannot say so.
    NoRebootForTheDead,
    /// All comes to rest once nothing goes wrong any more.
    ComesToRest,
}

impl Rule {
    /// All of them.
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

    /// The property's name.
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
