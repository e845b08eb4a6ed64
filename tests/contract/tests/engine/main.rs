//! The cases `t29_…` to `t57_…`: filters, volumes, control. They run through the engine as any kube user runs it
//! (`cluster::Drainer`), against the fake and the real control plane.
//!
//! Each function runs as `fake::tNN_…` and `real::tNN_…`, or, if it stops or freezes a part of the control plane, as
//! `faults_fake::tNN_…` and `faults_real::tNN_…`. The cases in `only_fake` say why the real server cannot be made to
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
        t30_a_daemon_set_that_cannot_be_read,
        t31_a_third_partys_daemon_set,
        t32_a_mirror_pod_with_an_empty_dir,
        t33_a_finished_bare_pod_with_an_empty_dir,
        t34_an_empty_dir_in_memory,
        t35_a_pod_with_an_ephemeral_volume,
        t36_all_warnings_are_kept,
    }
    storage {
        t37_a_handle_that_begins_another_one,
        t38_handles_with_characters_of_patterns,
        t39_a_volume_of_two_local_pods,
        t40_a_claim_mounted_twice,
        t41_an_inline_attachment,
        what_somebody_else_has_left_attached_is_waited_for,
        t42_claims_without_a_volume,
        t43_the_node_goes_in_the_middle_of_a_wait,
        t44_a_hundred_attachment_updates_during_a_detach,
        t45_a_detach_timeout_fails_the_attempt_in_the_end,
        t45_a_detach_timeout_can_be_put_up_with,
    }
    control {
        t47_a_deadline_while_blocked,
        t47_a_deadline_while_pods_wait_for_their_turn,
        t47_a_deadline_while_terminating,
        t47_a_deadline_while_detaching,
        t47_a_deadline_while_proving,
        t47_a_deadline_while_cordoning,
        t47_a_deadline_while_the_server_is_busy,
        t48_a_cancel_while_blocked,
        t48_a_cancel_while_pods_wait_for_their_turn,
        t48_a_cancel_while_terminating,
        t48_a_cancel_while_detaching,
        t48_a_cancel_while_proving,
        t48_a_cancel_while_cordoning,
        t48_a_cancel_while_evicting,
        t49_no_retries,
        t49_no_time,
        t50_a_restart_keeps_the_deadline,
        t50_a_restart_keeps_the_volumes,
        t50_inherited_volumes_are_looked_at_often,
        t51_somebody_elses_cordon_stays,
        t52_no_right_to_cordon,
        t52_no_node_to_cordon,
        t53_groups_leave_in_order,
        t53_an_order_waits_for_volumes,
        t54_the_concurrency_is_limited,
        t54_a_budgets_share_is_limited,
        t54_no_more_evictions_at_the_server_than_allowed,
        t55_a_dry_run_changes_nothing,
    }
    outages {
        t57_replacements_have_no_place,
    }
}}

contract::cases! {only_fake, contract::run, contract::Target::fake, {
    storage {
        t46_no_attachments_are_served,
    }
    counts {
        a_drain_without_volumes_costs_one_request_for_each_pod_and_twelve,
        a_drain_with_volumes_costs_ten_more,
    }
    hanging {
        a_proof_that_is_never_answered_is_asked_for_again,
        a_node_that_is_never_answered_is_an_outage,
        an_eviction_that_is_never_answered_is_sent_again,
        an_eviction_whose_answer_is_lost_is_not_waited_for,
        watches_that_fall_silent_are_made_up_for_by_relists,
    }
    knowledge {
        claims_that_are_never_listed_are_read_by_name,
        drivers_that_are_never_listed_hide_no_volume,
        a_pod_with_a_claim_waits_until_its_volumes_can_be_known,
        a_drain_that_can_never_know_volumes_fails_and_says_why,
    }
    outages {
        t56_the_server_goes_before_the_proof,
        t56_a_late_look_brings_no_old_budget_back,
    }
}}

// A large cluster takes some time.
contract::cases! {only_fake_large, contract::run, contract::Target::fake, {
    knowledge {
        a_pod_with_a_claim_waits_for_a_long_list_of_claims,
    }
}}

// These cases stop or freeze a part of the control plane, so each has a control plane of its own. After an outage the
// real controllers are away for up to a minute more (M5), in which no other case can be set up.
contract::cases_with_faults_apart! {contract::run, {
    filters {
        t29_an_orphan_of_a_daemon_set,
    }
    outages {
        t56_the_server_is_away_from_the_beginning,
        t56_the_server_goes_in_the_middle,
        t56_the_server_stays_away,
        t57_volumes_have_no_other_place,
    }
}}
