//! Flags of `ebb drain`: first kubectl's with their names and defaults, then our own; and the policy that they make
//! together.

use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use drain::policy::{
    MaxRetries, Method, OnDetachTimeout, Stateful, StatefulOrder, StatefulParallel, Volumes,
};
use drain::{Policy, Selector};

use crate::kubectl::nodes::{Chosen, NodeArguments};
use crate::kubectl::{DryRun, go_bool, go_duration, is_on, owner};

/// Arguments of `ebb drain`.
#[derive(Args, Debug)]
pub struct DrainArguments {
    #[command(flatten)]
    pub(crate) nodes: NodeArguments,
    #[command(flatten)]
    pub(crate) kubectl: KubectlFlags,
    #[command(flatten)]
    pub(crate) own: OwnFlags,
}

/// kubectl's flags, with its names and defaults.
#[derive(Args, Debug)]
#[expect(
    clippy::option_option,
    reason = "clap's form of pflag's switches: absent, `--force`, `--force=false`"
)]
pub(crate) struct KubectlFlags {
    /// Continue even if there are pods without a controller, which are not created again, or pods whose DaemonSet is
    /// gone
    #[arg(long, value_name = "BOOL", require_equals = true, value_parser = go_bool)]
    pub(crate) force: Option<Option<bool>>,
    /// Ignore pods of DaemonSets, instead of refusing to drain
    #[arg(long, value_name = "BOOL", require_equals = true, value_parser = go_bool)]
    pub(crate) ignore_daemonsets: Option<Option<bool>>,
    /// Continue even if there are pods with emptyDir volumes, whose data is lost
    #[arg(long, value_name = "BOOL", require_equals = true, value_parser = go_bool)]
    pub(crate) delete_emptydir_data: Option<Option<bool>>,
    /// Seconds given to each pod to terminate gracefully; negative = the pod's own value
    #[arg(long, value_name = "SECONDS", default_value_t = -1, allow_negative_numbers = true)]
    pub(crate) grace_period: i64,
    /// Time to wait for a node before giving up, such as 5m30s; 0 = no limit
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = go_duration)]
    pub(crate) timeout: Duration,
    /// Drain only pods with these labels, such as `app=web,!keep`
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) pod_selector: Option<String>,
    /// Delete pods instead of evicting them: this bypasses all PodDisruptionBudgets
    #[arg(long, value_name = "BOOL", require_equals = true, value_parser = go_bool)]
    pub(crate) disable_eviction: Option<Option<bool>>,
    /// Do not wait for pods that still exist SECONDS after the end of their grace period; 0 = wait for all
    #[arg(long, value_name = "SECONDS", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) skip_wait_for_delete_timeout: i64,
}

/// Flags that kubectl does not have.
#[derive(Args, Debug)]
#[command(next_help_heading = "Beyond kubectl")]
#[expect(clippy::option_option, reason = "clap's form of pflag's switches: absent, `--x`, `--x=false`")]
pub(crate) struct OwnFlags {
    /// Number of nodes to drain at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) parallel: u16,
    /// Uncordon a node again when its drain fails or is interrupted; only if this command has cordoned it
    #[arg(long, value_name = "BOOL", require_equals = true, value_parser = go_bool)]
    pub(crate) uncordon_on_failure: Option<Option<bool>>,
    /// Number of evictions in flight at a time, for each node
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) concurrency: u16,
    /// Pause before a refused eviction is tried again; after a change of the pod's budget it is tried at once
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = go_duration)]
    pub(crate) retry: Duration,
    /// Delete a pod, with its own grace period, when it was refused for N times --retry; `auto` = as late as --timeout
    /// allows
    #[arg(long, value_name = "N|auto")]
    pub(crate) max_retries: Option<String>,
    /// Delete all pods at once with grace period 0: containers may still run when their pods are created again
    /// elsewhere
    #[arg(long, value_name = "BOOL", require_equals = true, value_parser = go_bool)]
    pub(crate) force_delete: Option<Option<bool>>,
    /// Number of pods with attached volumes to evict at a time, in the order of their priority; `auto` = all of one
    /// priority together, but of each owner (such as a StatefulSet) one at a time
    #[arg(long, value_name = "N|auto", default_value = StatefulParallel::AUTO, value_parser = stateful_parallel)]
    pub(crate) stateful_parallel: StatefulParallel,
    /// Time to wait for a volume to be detached; 0 = do not wait for volumes
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = go_duration)]
    pub(crate) detach_timeout: Duration,
    /// Time to wait for a volume to be attached elsewhere before the next pod is evicted; 0 = do not wait
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = go_duration)]
    pub(crate) reattach_timeout: Duration,
    /// What to do when a volume is not detached in time
    #[arg(long, value_enum, value_name = "WORD", default_value_t = OnDetachTimeout::Fail)]
    pub(crate) on_detach_timeout: OnDetachTimeout,
    /// Reason, written into an annotation of the node
    #[arg(long, value_name = "TEXT", default_value = "ebb drain")]
    pub(crate) reason: String,
    /// Format of the output on stdout
    #[arg(short = 'o', long, value_enum, value_name = "FORM", default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Also print each step of each pod; kubectl's levels are accepted: 0 = no, all others = yes
    #[arg(short = 'v', long, alias = "v", value_name = "LEVEL", num_args = 0..=1, require_equals = true)]
    pub(crate) verbose: Option<Option<u8>>,
}

impl OwnFlags {
    /// How the drain waits for volumes.
    pub(crate) fn volumes(&self) -> Volumes {
        Volumes {
            detach_timeout: self.detach_timeout,
            reattach_timeout: self.reattach_timeout,
            on_detach_timeout: self.on_detach_timeout,
        }
    }

    /// True if stdout gets one JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.output == Output::Json
    }
}

/// Format of stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Lines, as kubectl prints them.
    Text,
    /// One JSON document at the end; the lines go to stderr.
    Json,
}

/// All options of `ebb drain`, checked.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Nodes to drain.
    pub(crate) nodes: Chosen,
    /// Policy of each drain.
    pub(crate) policy: Policy,
    /// Whether this is a dry run.
    pub(crate) dry_run: DryRun,
    /// Number of nodes to drain at a time.
    pub(crate) parallel: usize,
    /// Lift the cordon again when the drain fails, if this command has set it.
    pub(crate) uncordon_on_failure: bool,
    /// Owner of the cordon.
    pub(crate) owner: String,
    /// Reason, for the annotation.
    pub(crate) reason: String,
    /// stdout gets one JSON document.
    pub(crate) is_json: bool,
    /// Print each step of each pod.
    pub(crate) is_verbose: bool,
}

impl Options {
    /// # Errors
    /// Flags that contradict each other, and invalid values; in kubectl's words where kubectl has the same check.
    pub(crate) fn from(verb: &str, arguments: &DrainArguments) -> anyhow::Result<Self> {
        Ok(Self {
            nodes: arguments.nodes.chosen(verb)?,
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

/// The drain policy of these flags.
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
        stateful: Stateful { parallel: own.stateful_parallel, order: StatefulOrder::HighestFirst },
        volumes: own.volumes(),
        concurrency: own.concurrency.into(),
        retry: own.retry,
        attempt_timeout: if kubectl.timeout.is_zero() { Duration::MAX } else { kubectl.timeout },
        ..Policy::kubectl()
    })
}

/// `auto`, or a number from 1 to 64.
fn stateful_parallel(text: &str) -> Result<StatefulParallel, String> {
    match text.parse() {
        Ok(number @ 1..=64) => Ok(StatefulParallel::Count(number)),
        Err(_) if text == StatefulParallel::AUTO => Ok(StatefulParallel::Auto),
        Ok(_) | Err(_) => Err(format!("it must be a number from 1 to 64, or {}", StatefulParallel::AUTO)),
    }
}

/// The grace period. kubectl's 0 kills pods; here that needs its own flag, `--force-delete`.
fn grace_period(arguments: &DrainArguments) -> anyhow::Result<Option<Duration>> {
    match (arguments.kubectl.grace_period, is_on(arguments.own.force_delete)) {
        (0, true) | (..0, _) => Ok(None),
        (0, false) => bail!(
            "--grace-period=0 kills pods without letting them end, and their containers may still run when the pods \
             are created again elsewhere: add --force-delete if that is what you want, or give at least 1"
        ),
        (_, true) => bail!("--force-delete is grace period 0: leave --grace-period out"),
        (given, false) => Ok(seconds(given)),
    }
}

/// A number of seconds, if it is positive.
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
mod tests;
