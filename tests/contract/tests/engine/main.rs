//! Filters, volumes, control. The cases run through the engine as any kube user runs it
//! (`cluster::Drainer`), against the fake and the real control plane.
//!
//! Each function runs as `fake::NAME` and `real::NAME`, or, if it stops or freezes a part of the control plane, as
//! `faults_fake::NAME` and `faults_real::NAME`. The cases in `only_fake` say why the real server cannot be made to
//! answer so.

// With `cfg(test)` clippy allows `unwrap` in these modules.
#[cfg(test)]
mod control;
#[cfg(test)]
mod counts;
#[cfg(test)]
mod disks;
#[cfg(test)]
mod filters;
#[cfg(test)]
mod hanging;
#[cfg(test)]
mod knowledge;
#[cfg(test)]
mod outages;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod stages;
#[cfg(test)]
mod storage;

contract::cases_for_both! {contract::run, {
    filters {
        a_daemon_set_that_cannot_be_read,
        a_third_partys_daemon_set,
        a_pod_with_an_ephemeral_volume,
        all_warnings_are_kept,
    }
    storage {
        handles_with_characters_of_patterns,
        a_volume_of_two_local_pods,
        what_somebody_else_has_left_attached_is_waited_for,
        claims_without_a_volume,
        the_node_goes_in_the_middle_of_a_wait,
        a_hundred_attachment_updates_during_a_detach,
        a_detach_timeout_fails_the_attempt_in_the_end,
    }
    control {
        a_deadline_while_proving,
        a_deadline_while_cordoning,
        a_deadline_while_the_server_is_busy,
        a_cancel_while_blocked,
        a_cancel_while_detaching,
        a_cancel_while_cordoning,
        a_cancel_while_evicting,
        no_retries,
        a_restart_keeps_the_deadline,
        a_restart_keeps_the_volumes,
        somebody_elses_cordon_stays,
        no_right_to_cordon,
        an_order_waits_for_volumes,
        the_concurrency_is_limited,
        a_budgets_share_is_limited,
        a_dry_run_changes_nothing,
    }
    outages {
        replacements_have_no_place,
    }
}}

contract::cases! {only_fake, contract::run, contract::Target::fake, {
    storage {
        no_attachments_are_served,
    }
    counts {
        a_drain_without_volumes_costs_one_request_for_each_pod_and_twelve,
        a_drain_with_volumes_costs_two_more_for_each_claim_and_five,
    }
    hanging {
        a_proof_that_is_never_answered_is_asked_for_again,
        a_node_that_is_never_answered_is_an_outage,
        an_eviction_that_is_never_answered_is_sent_again,
        an_eviction_whose_answer_is_lost_is_not_waited_for,
        watches_that_fall_silent_are_made_up_for_by_relists,
    }
    knowledge {
        a_driver_that_cannot_be_read_hides_no_volume,
        a_drain_that_can_never_know_volumes_fails_and_says_why,
    }
}}

// A large cluster takes some time.
contract::cases! {only_fake_large, contract::run, contract::Target::fake, {
    knowledge {
        a_pod_with_a_claim_waits_until_its_claim_is_read,
    }
}}

// These cases stop or freeze a part of the control plane, so each has a control plane of its own. After an outage the
// real controllers are away for up to a minute more (M5), in which no other case can be set up.
contract::cases_with_faults_apart! {contract::run, {
    filters {
        an_orphan_of_a_daemon_set,
    }
    outages {
        the_server_goes_in_the_middle,
    }
}}
