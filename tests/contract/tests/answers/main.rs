//! The cases `t01_…` to `t28_…`: answers to evictions, identity of pods, waiting, and lists. Each case runs through the
//! engine, as `fake::tNN_…` and, where the real server can be made to answer so, as `real::tNN_…`.
//!
//! Two cases stop or freeze a part of the control plane: `faults_real` runs them on a control plane of its own. These
//! cases are on the fake only:
//!
//! | case | why the real server cannot be made to answer so |
//! |---|---|
//! | `t06_…` | our evictions name no resourceVersion, so there is none that could be wrong |
//! | `t09_…`, negative | the API refuses a budget's status with a negative number |
//! | `t10_…` | 20 write conflicts in a row on one budget are needed; 400 evictions at a time did not cause them |
//! | `t11_…` | a TLS connection cannot be cut exactly between the server's action and its answer |
//! | `t13_…` | 1.34 answers 201 |
//! | `t14_…`, contradicted | a server that answers 404 for a pod that it lists is broken |
//! | `t15_…` | 1.34 serves `pods/eviction` |
//! | `t18_…`, through a drain | the pod has to change after our last relist and before our call arrives: a stale watch
//! |
//! | `t19_…` | the real server answers 500 to a read only when it is broken; without its etcd it does not answer at all
//! |
//! | `t20_…`, watch by watch | the real server ends watches at random, after some minutes; all at once they end with
//! the server |
//! | `t23_…`, overdue | the test would have to wait for the time |
//! | `t24_…` | the real server's clock is this machine's |
//! | `t27_…`, 410 | the real server forgets a page's moment after 5 minutes |
//! | `t28_…`, stale | the real server's watch cache lags by milliseconds; without etcd it answers nothing at all |

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
        t01_a_budget_refuses_until_it_has_room,
        t02_a_busy_server_is_asked_again_when_it_says,
        t03_a_webhook_denies,
        t04_two_budgets,
        t05_another_uid_on_the_same_node,
        t07_a_terminating_namespace_takes_deletions_only,
        t08_no_right_to_evict_is_final,
        t12_a_success_of_201_is_believed_at_once,
        t14_a_pod_that_is_gone,
    }
    identity {
        t16_the_same_name_on_the_same_node,
        t17_the_same_name_on_another_node,
        t18_the_uid_changes_before_the_call,
    }
    waiting {
        t21_a_finalizer_holds_the_pod,
        t22_a_grace_longer_than_the_attempt,
        t22_the_report_says_that_grace_is_left,
        t23_a_deletion_in_the_future,
    }
    listing {
        t25_a_pod_that_tolerates_the_cordon_arrives,
        t26_a_pod_that_names_the_node_returns_for_ever,
        t26_its_owners_end_ends_it,
        t27_a_list_of_several_pages,
        t28_the_proof_is_a_consistent_list,
    }
}}

contract::cases! {only_fake, contract::run, contract::Target::fake, {
    answers {
        t06_another_version_is_no_other_pod,
        t09_a_negative_budget_passes,
        t10_write_conflicts_on_a_budget_pass,
        t11_the_connection_breaks_after_the_server_has_acted,
        t11_the_connection_breaks_before_the_server_has_acted,
        t13_a_success_of_another_code,
        t14_a_404_that_the_list_contradicts,
        t15_a_server_without_evictions,
        t15_a_404_of_something_else_deletes_nothing,
    }
    identity {
        t18_the_uid_changes_between_look_and_call,
    }
    waiting {
        t19_failing_lists_prove_nothing,
        t19_a_failing_get_proves_nothing,
        t20_watches_end_and_go_on,
        t20_a_watch_is_told_410,
        t23_a_deletion_that_is_overdue,
        t24_the_servers_clock_is_another_one,
    }
    listing {
        t27_the_next_page_has_expired,
        t27_a_list_that_always_expires_is_no_proof,
        t27_the_watches_first_list_expires,
        t28_an_empty_cache_proves_nothing,
        t28_a_cache_that_stays_empty_ends_in_failure,
    }
}}

// These cases stop or freeze a part of the control plane.
contract::cases_with_faults! {contract::run, {
    answers {
        t09_too_many_disrupted_pods_pass,
    }
    waiting {
        t20_the_server_is_another_one_now,
    }
}}
