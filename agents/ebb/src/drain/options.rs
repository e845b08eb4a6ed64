//! What the flags of `ebb drain` mean together.

use std::time::Duration;

use anyhow::bail;
use drain::policy::{MaxRetries, Method, Stateful, StatefulOrder};
use drain::{Policy, Selector};

use super::arguments::DrainArguments;
use crate::kubectl::flags::{DryRun, is_on};
use crate::kubectl::nodes::Chosen;
use crate::peers::user;

/// Everything that `ebb drain` has to know.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Which nodes.
    pub(crate) nodes: Chosen,
    /// How each is drained.
    pub(crate) policy: Policy,
    /// Whether anything is changed.
    pub(crate) dry_run: DryRun,
    /// Nodes drained at a time.
    pub(crate) parallel: usize,
    /// A cordon that this command has set is taken back when the drain fails.
    pub(crate) uncordon_on_failure: bool,
    /// Who owns the cordon.
    pub(crate) owner: String,
    /// Why, for the annotation.
    pub(crate) reason: String,
    /// stdout is for one JSON document.
    pub(crate) is_json: bool,
    /// Each step of each pod is told.
    pub(crate) is_verbose: bool,
}

impl Options {
    /// # Errors
    /// Flags that contradict each other, and values that make no sense; in kubectl's words where it has some.
    pub(crate) fn from(arguments: &DrainArguments) -> anyhow::Result<Self> {
        Ok(Self {
            nodes: arguments.nodes.chosen("drain")?,
            policy: policy(arguments)?,
            dry_run: arguments.nodes.dry_run.mode,
            parallel: arguments.own.parallel.into(),
            uncordon_on_failure: is_on(arguments.own.uncordon_on_failure),
            owner: owner(),
            reason: arguments.own.reason.clone(),
            is_json: arguments.own.is_json(),
            is_verbose: arguments.own.verbose.is_some_and(|level| level.is_none_or(|level| level > 0)),
        })
    }
}

/// Who a cordon set on the command line belongs to: `ebb:<user>`, the number of a user without a name.
pub(crate) fn owner() -> String {
    format!("ebb:{}", user())
}

/// How the flags say that a node is drained.
///
/// # Errors
/// As [`Options::from`].
pub(crate) fn policy(arguments: &DrainArguments) -> anyhow::Result<Policy> {
    if arguments.own.retry.is_zero() {
        bail!("--retry must be longer than 0: the API server would be asked without a pause");
    }
    let DrainArguments { kubectl, own, .. } = arguments;
    Ok(Policy {
        force: is_on(kubectl.force),
        ignore_daemonsets: is_on(kubectl.ignore_daemonsets),
        delete_emptydir_data: is_on(kubectl.delete_emptydir_data),
        grace_period: grace_period(arguments)?,
        skip_wait_for_delete: seconds(kubectl.skip_wait_for_delete_timeout),
        pod_selector: pod_selector(arguments)?,
        method: method(arguments),
        max_retries: max_retries(arguments)?,
        stateful: Stateful { parallel: own.stateful_parallel.into(), order: StatefulOrder::HighestFirst },
        volumes: own.volumes(),
        concurrency: own.concurrency.into(),
        retry: own.retry,
        attempt_timeout: if kubectl.timeout.is_zero() { Duration::MAX } else { kubectl.timeout },
        ..Policy::kubectl()
    })
}

/// kubectl's 0 kills; here that has a name of its own.
fn grace_period(arguments: &DrainArguments) -> anyhow::Result<Option<Duration>> {
    match (arguments.kubectl.grace_period, is_on(arguments.own.force_delete)) {
        (0, true) | (..0, _) => Ok(None),
        (0, false) => bail!(
            "--grace-period=0 kills pods without letting them end, and their containers may still run when they \
             are made anew elsewhere: add --force-delete if that is what you want, or give at least 1"
        ),
        (_, true) => bail!("--force-delete is grace period 0: leave --grace-period out"),
        (given, false) => Ok(seconds(given)),
    }
}

/// Positive ones.
fn seconds(number: i64) -> Option<Duration> {
    u64::try_from(number).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
}

fn pod_selector(arguments: &DrainArguments) -> anyhow::Result<Option<Selector>> {
    let Some(text) = arguments.kubectl.pod_selector.as_ref().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match text.parse() {
        Ok(selector) => Ok(Some(selector)),
        Err(error) => bail!("--pod-selector={text} must be a valid label selector: {error}"),
    }
}

fn method(arguments: &DrainArguments) -> Method {
    match (is_on(arguments.own.force_delete), is_on(arguments.kubectl.disable_eviction)) {
        (true, _) => Method::ForceDelete,
        (false, true) => Method::Delete,
        (false, false) => Method::Evict,
    }
}

fn max_retries(arguments: &DrainArguments) -> anyhow::Result<MaxRetries> {
    match arguments.own.max_retries.as_deref() {
        None => Ok(MaxRetries::Unlimited),
        Some(MaxRetries::AUTO) if arguments.kubectl.timeout.is_zero() => {
            bail!("--max-retries=auto means as late as --timeout allows: give a --timeout")
        }
        Some(MaxRetries::AUTO) => Ok(MaxRetries::Auto),
        Some(number) => match number.parse() {
            Ok(times) => Ok(MaxRetries::Times(times)),
            Err(_) => bail!("--max-retries={number} must be a number from 0 to {} or auto", u32::MAX),
        },
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
