//! The cases. Each function of these modules runs twice: `fake::NAME` and `real::NAME`.

// With `cfg(test)` clippy allows `unwrap` in these modules.
#[cfg(test)]
mod agents;
#[cfg(test)]
mod cordons;
#[cfg(test)]
mod deletions;
#[cfg(test)]
mod evictions;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod longhorn;
#[cfg(test)]
mod preflights;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod slots;
#[cfg(test)]
mod volumes;
#[cfg(test)]
mod watches;
#[cfg(test)]
mod workloads;
#[cfg(test)]
mod writes;

contract::cases_for_both! {contract::run, {
    lists {
        a_list_has_all_that_was_written_before,
        fields_select,
        labels_select,
        pages_are_of_one_moment,
        a_broken_page_token_is_refused,
        a_list_of_a_version,
        a_version_of_the_future,
    }
    watches {
        a_watch_goes_on_from_a_version,
        the_end_of_a_pod_is_two_events,
        a_watch_without_a_version_begins_with_what_is_there,
        a_watch_can_stream_the_list,
        what_leaves_the_selector_is_deleted_for_it,
        a_bound_pod_is_new_to_its_node,
        bookmarks_tell_the_version,
        a_watch_ends_in_time,
    }
    writes {
        what_is_not_there,
        what_is_not_served,
        a_name_that_is_taken,
        a_stale_version_is_refused,
        the_uid_of_an_object_stays,
        null_in_a_merge_patch_removes,
        two_forms_of_a_patch,
        a_patch_that_changes_nothing_writes_nothing,
        spec_and_status_are_written_apart,
        generations_count_changes_of_the_spec,
        a_dry_run_writes_nothing,
        a_name_can_be_left_to_the_server,
        a_condition_of_ours_on_the_node,
        an_event_about_a_node,
        what_the_server_says_of_itself,
    }
    deletions {
        a_deletion_gives_grace_which_can_be_made_shorter,
        a_body_silences_the_query,
        a_deleted_pod_is_gone_after_its_end,
        a_finalizer_holds,
        a_deletion_can_insist,
        other_kinds_go_at_once,
        our_dry_deletion_deletes_nothing,
        our_deletion_asks_no_budget,
        a_deployment_takes_its_pods_along,
    }
    evictions {
        an_eviction_marks_the_pod_and_begins_its_end,
        a_pod_or_namespace_that_is_not_there,
        delete_options_count,
        a_misspelt_field_is_ignored_unless_strict,
        bodies,
        a_dry_run_evicts_nobody,
        another_uid_is_refused,
        another_uid_burns_a_disruption,
        a_terminating_pod_is_evicted_again,
        a_pod_that_does_not_run_needs_no_budget,
        a_terminating_namespace_takes_deletions_only,
        who_may_evict,
        an_admission_policy_denies,
    }
    refusals {
        an_exhausted_budget,
        a_budget_counts_down,
        evictions_at_once_share_a_budget,
        an_unready_pod_of_a_met_budget_may_go,
        an_unready_pod_of_a_broken_budget_must_stay,
        an_unready_pod_always_goes_if_its_budget_says_so,
        an_unready_pod_of_a_budget_of_nothing_must_stay,
        a_bare_pod_under_such_a_budget_can_never_go,
        two_budgets_are_one_too_many,
        selectors_of_budgets,
    }
    cordons {
        a_cordon_has_an_owner,
        a_cordon_lifted_by_hand_leaves_our_name,
        a_cordon_that_a_person_wants_to_keep_stays,
        a_cordon_that_a_person_set_after_us_stays,
        a_node_that_is_not_there,
        many_cordons_at_once_have_one_owner,
        no_pod_is_put_on_a_cordoned_node,
        a_cordon_without_its_annotation_is_ours_if_we_set_it,
        a_cordon_without_owner_is_adopted,
        many_adoptions_at_once_have_one_owner,
        who_may_adopt,
    }
    preflights {
        an_administrator_is_told_that_nodes_are_not_confined,
        a_missing_right_is_found_before_it_is_needed,
    }
    slots {
        slots_are_created_read_and_replaced,
        of_many_writers_one_gets_the_slot,
        slots_are_never_overwritten_blindly,
        slots_that_are_deleted_under_us,
        a_watch_tells_what_others_do,
        what_does_not_parse_waits_for_a_person,
        who_may_have_slots,
    }
    workloads {
        a_stateful_pod_returns_under_its_name,
        a_daemon_pod_returns_to_its_node,
        budgets_count,
        scaling_changes_the_pods,
    }
    volumes {
        a_volume_follows_its_pod,
    }
    agents {
        a_full_snapshot_shows_the_nodes_pods,
        a_full_snapshot_shows_node_and_budgets,
        an_informer_shows_every_change,
        a_drain_moves_what_has_to_leave,
        a_drain_ends_when_somebody_uncordons,
    }
}}

// These cases stop or freeze a part of the control plane, or install something that all others would see.
contract::cases_with_faults! {contract::run, {
    faults {
        an_unobserved_budget_asks_for_patience,
        nobody_counts_a_budget_up,
        a_cordon_holds_without_its_taint,
        after_an_outage_all_is_seen_again,
    }
    longhorn {
        longhorns_drain_policy,
    }
}}
