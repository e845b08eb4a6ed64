use clap::Parser;
use drain::policy::{OnDetachTimeout, StatefulOrder, StatefulParallel, Volumes};

use super::*;

#[derive(Parser)]
#[command(args_override_self = true)]
struct Program {
    #[command(flatten)]
    arguments: DrainArguments,
}

/// The options of these flags, or the whole error message.
fn options(flags: &str) -> Result<Options, String> {
    let words = ["drain", "edge-a"].into_iter().chain(flags.split_whitespace());
    let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
    Options::from("drain", &program.arguments).map_err(|error| error.to_string())
}

fn policy_of(flags: &str) -> Policy {
    options(flags).unwrap_or_else(|error| panic!("{flags}: {error}")).policy
}

#[test]
fn without_flags_it_is_kubectls_drain() {
    let options = options("").unwrap();
    let stateful = Stateful { parallel: StatefulParallel::Auto, order: StatefulOrder::HighestFirst };
    assert_eq!(options.policy, Policy { retry: Duration::from_secs(5), stateful, ..Policy::kubectl() });
    assert_eq!(options.nodes, Chosen::Names(vec!["edge-a".to_owned()]));
    assert_eq!((options.dry_run, options.parallel, options.uncordon_on_failure), (DryRun::None, 1, false));
    assert_eq!((options.is_json, options.is_verbose, options.reason.as_str()), (false, false, "ebb drain"));
    assert!(options.owner.starts_with("ebb:") && options.owner.len() > 4, "{}", options.owner);
}

#[test]
fn every_flag_means_something() {
    let seconds = Duration::from_secs;
    let usual = policy_of("");
    let cases = [
        ("--force", Policy { force: true, ..usual.clone() }),
        ("--force --force=false", usual.clone()),
        ("--ignore-daemonsets", Policy { ignore_daemonsets: true, ..usual.clone() }),
        ("--delete-emptydir-data=1", Policy { delete_emptydir_data: true, ..usual.clone() }),
        ("--grace-period=-1", usual.clone()),
        ("--grace-period 30", Policy { grace_period: Some(seconds(30)), ..usual.clone() }),
        ("--timeout=0", usual.clone()),
        ("--timeout 5m30s", Policy { attempt_timeout: seconds(330), ..usual.clone() }),
        ("--pod-selector=", usual.clone()),
        ("--pod-selector=app=web", Policy { pod_selector: "app=web".parse().ok(), ..usual.clone() }),
        ("--disable-eviction", Policy { method: Method::Delete, ..usual.clone() }),
        ("--force-delete --grace-period=0", Policy { method: Method::ForceDelete, ..usual.clone() }),
        ("--force-delete --disable-eviction", Policy { method: Method::ForceDelete, ..usual.clone() }),
        ("--skip-wait-for-delete-timeout=0", usual.clone()),
        (
            "--skip-wait-for-delete-timeout=9",
            Policy { skip_wait_for_delete: Some(seconds(9)), ..usual.clone() },
        ),
        ("--concurrency=4", Policy { concurrency: 4, ..usual.clone() }),
        ("--retry=1s", Policy { retry: seconds(1), ..usual.clone() }),
        ("--max-retries=0", Policy { max_retries: MaxRetries::Times(0), ..usual.clone() }),
        (
            "--max-retries=auto --timeout=1h",
            Policy { max_retries: MaxRetries::Auto, attempt_timeout: seconds(3600), ..usual.clone() },
        ),
        ("--stateful-parallel=auto", usual.clone()),
        ("--stateful-parallel=1", Policy { stateful: Policy::device().stateful, ..usual.clone() }),
        (
            "--stateful-parallel=64",
            Policy {
                stateful: Stateful { parallel: StatefulParallel::Count(64), ..usual.stateful },
                ..usual.clone()
            },
        ),
        (
            "--detach-timeout=0 --reattach-timeout=0 --on-detach-timeout=proceed",
            Policy {
                volumes: Volumes {
                    detach_timeout: Duration::ZERO,
                    reattach_timeout: Duration::ZERO,
                    on_detach_timeout: OnDetachTimeout::Proceed,
                },
                ..usual.clone()
            },
        ),
    ];
    for (flags, expected) in cases {
        assert_eq!(policy_of(flags), expected, "{flags}");
    }
}

#[test]
fn the_other_flags_are_taken_over() {
    let options =
        options("--dry-run=server --parallel=3 --uncordon-on-failure -o json -v --reason disk").unwrap();
    assert_eq!((options.dry_run, options.parallel, options.uncordon_on_failure), (DryRun::Server, 3, true));
    assert_eq!((options.is_json, options.is_verbose, options.reason.as_str()), (true, true, "disk"));
    // A bare one takes no value: what follows is a node.
    assert_eq!(
        self::options("--dry-run edge-b").unwrap().nodes,
        Chosen::Names(vec!["edge-a".to_owned(), "edge-b".to_owned()])
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let cases = [
        ("--grace-period=0", "add --force-delete"),
        ("--grace-period=0 --force-delete=false", "add --force-delete"),
        ("--grace-period=5 --force-delete", "leave --grace-period out"),
        ("--timeout=5", "missing unit in duration"),
        ("--timeout=-5s", "cannot be negative"),
        ("--force=maybe", "not true or false"),
        ("--pod-selector=a=(", "--pod-selector=a=( must be a valid label selector"),
        ("--selector=a=b", "cannot specify both a node name and a --selector option"),
        ("--dry-run=unchanged", "Invalid dry-run value (unchanged)"),
        ("--max-retries=auto", "give a --timeout"),
        ("--max-retries=-1", "must be a number from 0"),
        ("--max-retries=many", "must be a number from 0"),
        ("--retry=0", "--retry must be longer than 0"),
        ("--concurrency=0", "0 is not in 1..=256"),
        ("--concurrency=257", "257 is not in 1..=256"),
        ("--parallel=0", "0 is not in 1..=1000"),
        ("--stateful-parallel=0", "a number from 1 to 64, or auto"),
        ("--stateful-parallel=65", "a number from 1 to 64, or auto"),
        ("--stateful-parallel=all", "a number from 1 to 64, or auto"),
        ("--chunk-size=-1", "--chunk-size"),
        ("--output=yaml", "[possible values: text, json]"),
        ("--ignore-errors", "unexpected argument '--ignore-errors'"),
        ("--warnings-as-errors", "unexpected argument '--warnings-as-errors'"),
        ("--log-flush-frequency=5s", "unexpected argument '--log-flush-frequency'"),
        ("--vmodule=x=1", "unexpected argument '--vmodule'"),
        ("--profile=cpu", "unexpected argument '--profile'"),
        ("--profile-output=x", "unexpected argument '--profile-output'"),
    ];
    for (flags, part) in cases {
        let error = options(flags).expect_err(flags);
        assert!(error.contains(part), "{flags}: {error}");
    }
}
