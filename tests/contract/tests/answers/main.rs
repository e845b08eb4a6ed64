//! What the server answers to evictions, identity of pods, waiting, and lists. Each case runs through the engine, as
//! `fake::NAME` and, where the real server can be made to answer so, as `real::NAME`.
//!
//! One case freezes a part of the control plane: `faults_real` runs it on a control plane of its own. These cases are on
//! the fake only:
//!
//! | case | why the real server cannot be made to answer so |
//! |---|---|
//! | `another_version_…` | our evictions name no resourceVersion, so there is none that could be wrong |
//! | `write_conflicts_…` | 20 write conflicts in a row on one budget are needed; 400 evictions at a time did not cause them |
//! | `the_connection_breaks_…` | a TLS connection cannot be cut exactly between the server's action and its answer |
//! | `a_404_of_something_else_…` | 1.34 serves `pods/eviction` |
//! | `the_uid_changes_between_…` | the pod has to change after our last relist and before our call arrives: a stale watch
//! |
//! | `failing_lists_…`, `a_failing_get_…` | the real server answers 500 to a read only when it is broken; without its etcd it
//! does not answer at all |
//! | `watches_end_…`, `a_watch_is_told_410` | the real server ends watches at random, after some minutes; all at once they end
//! with the server |
//! | `the_servers_clock_…` | the real server's clock is this machine's |
//! | `a_list_that_always_expires_…`, `the_watches_first_list_…` | the real server forgets a page's moment
//! after 5 minutes |

// With `cfg(test)` clippy allows `unwrap` in these modules.
#[cfg(test)]
mod answers;
#[cfg(test)]
mod driving;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod waiting;

contract::cases_for_both! {contract::run, {
    answers {
        a_budget_refuses_until_it_has_room,
        a_busy_server_is_asked_again_when_it_says,
        a_webhook_denies,
        two_budgets,
        a_terminating_namespace_takes_deletions_only,
        no_right_to_evict_is_final,
    }
    identity {
        the_same_name_on_the_same_node,
        the_same_name_on_another_node,
    }
    waiting {
        a_finalizer_holds_the_pod,
        a_grace_longer_than_the_attempt,
        a_deletion_in_the_future,
    }
    listing {
        a_pod_that_tolerates_the_cordon_arrives,
        a_pod_that_names_the_node_returns_for_ever,
        a_list_of_several_pages,
        the_proof_is_a_consistent_list,
    }
}}

contract::cases! {only_fake, contract::run, contract::Target::fake, {
    answers {
        another_version_is_no_other_pod,
        write_conflicts_on_a_budget_pass,
        the_connection_breaks_after_the_server_has_acted,
        the_connection_breaks_before_the_server_has_acted,
        a_404_of_something_else_deletes_nothing,
    }
    identity {
        the_uid_changes_between_list_and_call,
    }
    waiting {
        failing_lists_prove_nothing,
        a_failing_get_proves_nothing,
        watches_end_and_go_on,
        a_watch_is_told_410,
        the_servers_clock_is_another_one,
    }
    listing {
        a_list_that_always_expires_is_no_proof,
        the_watches_first_list_expires,
    }
}}

// This case freezes a part of the control plane.
contract::cases_with_faults! {contract::run, {
    answers {
        too_many_disrupted_pods_pass,
    }
}}
