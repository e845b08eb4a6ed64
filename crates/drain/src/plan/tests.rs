//! The table of verdicts, row by row.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::view::{Controller, Phase, Terminating};

/// A running pod of a ReplicaSet, changed by the case.
fn pod(change: impl FnOnce(&mut PodView)) -> PodView {
    let mut pod = PodView {
        phase: Phase::Running,
        controller: Some(owner("apps/v1", "ReplicaSet")),
        ..PodView::default()
    };
    change(&mut pod);
    pod
}

fn owner(api_version: &str, kind: &str) -> Controller {
    let existence = Existence::Present;
    Controller {
        api_version: api_version.into(),
        kind: kind.into(),
        name: "x".into(),
        uid: "u".into(),
        existence,
    }
}

fn daemon(existence: Existence) -> Controller {
    Controller { existence, ..owner("apps/v1", "DaemonSet") }
}

fn label(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

/// It has failed and is being deleted.
fn ended(pod: &mut PodView, runs: bool) {
    (pod.phase, pod.terminating, pod.runs) = (Phase::Failed, Some(Terminating::default()), runs);
}

fn check(name: &str, pod: &PodView, policy: &Policy, verdict: Verdict, reasons: &[Reason]) {
    let planned = judge(pod, policy);
    assert_eq!((planned.verdict, planned.reasons.as_slice()), (verdict, reasons), "{name}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn verdicts_on_a_device() {
    use Reason as R;
    use Verdict::{Await, Evict, Leave};
    let orphan = || R::OrphanOfDaemonSet("x".into());
    let cases: Vec<(&str, PodView, Verdict, Vec<Reason>)> = vec![
        ("plain", pod(|_| {}), Evict, vec![]),
        ("mirror", pod(|p| p.mirror = true), Leave, vec![R::Mirror]),
        ("mirror with emptyDir", pod(|p| (p.mirror, p.empty_dir) = (true, true)), Leave, vec![R::Mirror]),
        ("finished", pod(|p| p.phase = Phase::Succeeded), Evict, vec![R::Finished]),
        ("finished, mirror", pod(|p| (p.phase, p.mirror) = (Phase::Failed, true)), Leave, vec![R::Mirror]),
        ("finished, being deleted", pod(|p| ended(p, false)), Leave, vec![R::Finished]),
        ("finished, being deleted, a container runs", pod(|p| ended(p, true)), Evict, vec![R::Finished]),
        (
            "finished, bare, emptyDir",
            pod(|p| (p.phase, p.empty_dir, p.controller) = (Phase::Failed, true, None)),
            Evict,
            vec![R::Finished],
        ),
        ("daemon", pod(|p| p.controller = Some(daemon(Existence::Present))), Leave, vec![R::DaemonSet]),
        (
            "daemon, owner unreadable",
            pod(|p| p.controller = Some(daemon(Existence::Unknown))),
            Leave,
            vec![R::DaemonSet],
        ),
        ("daemon, orphan", pod(|p| p.controller = Some(daemon(Existence::Missing))), Evict, vec![orphan()]),
        (
            "daemon, finished",
            pod(|p| (p.phase, p.controller) = (Phase::Failed, Some(daemon(Existence::Present)))),
            Evict,
            vec![R::Finished],
        ),
        (
            "third party's daemon",
            pod(|p| p.controller = Some(owner("apps.kruise.io/v1", "DaemonSet"))),
            Evict,
            vec![],
        ),
        ("emptyDir", pod(|p| p.empty_dir = true), Evict, vec![R::EmptyDir]),
        ("bare", pod(|p| p.controller = None), Evict, vec![R::NoController]),
        (
            "all warnings are kept",
            pod(|p| (p.controller, p.empty_dir) = (None, true)),
            Evict,
            vec![R::EmptyDir, R::NoController],
        ),
        (
            "orphan with emptyDir",
            pod(|p| (p.controller, p.empty_dir) = (Some(daemon(Existence::Missing)), true)),
            Evict,
            vec![orphan(), R::EmptyDir],
        ),
        (
            "kept app",
            pod(|p| p.labels = label("app", "csi-attacher")),
            Leave,
            vec![R::KeptApp("csi-attacher".into())],
        ),
        ("other app", pod(|p| p.labels = label("app", "csi")), Evict, vec![]),
        ("skip label", pod(|p| p.labels = label(DRAIN_LABEL, "skip")), Leave, vec![R::Label("skip".into())]),
        (
            "wait label",
            pod(|p| p.labels = label(DRAIN_LABEL, "wait-completed")),
            Await,
            vec![R::Label("wait-completed".into())],
        ),
        (
            "wait label, finished",
            pod(|p| (p.labels, p.phase) = (label(DRAIN_LABEL, "wait-completed"), Phase::Succeeded)),
            Evict,
            vec![R::Finished],
        ),
        (
            "unknown label value",
            pod(|p| p.labels = label(DRAIN_LABEL, "sikp")),
            Evict,
            vec![R::UnknownLabel("sikp".into())],
        ),
        ("terminating", pod(|p| p.terminating = Some(Terminating::default())), Evict, vec![]),
    ];
    for (name, pod, verdict, reasons) in cases {
        check(name, &pod, &Policy::device(), verdict, &reasons);
    }
}

#[test]
fn verdicts_with_kubectls_defaults() {
    use Verdict::{Evict, Leave, Refuse};
    let cases: Vec<(&str, PodView, Verdict, Vec<Reason>)> = vec![
        ("plain", pod(|_| {}), Evict, vec![]),
        ("daemon", pod(|p| p.controller = Some(daemon(Existence::Present))), Refuse, vec![Reason::DaemonSet]),
        (
            "orphan",
            pod(|p| p.controller = Some(daemon(Existence::Missing))),
            Refuse,
            vec![Reason::OrphanOfDaemonSet("x".into())],
        ),
        ("emptyDir", pod(|p| p.empty_dir = true), Refuse, vec![Reason::EmptyDir]),
        ("bare", pod(|p| p.controller = None), Refuse, vec![Reason::NoController]),
        (
            "both reasons are kept",
            pod(|p| (p.controller, p.empty_dir) = (None, true)),
            Refuse,
            vec![Reason::EmptyDir, Reason::NoController],
        ),
        ("mirror", pod(|p| p.mirror = true), Leave, vec![Reason::Mirror]),
        ("no app is kept", pod(|p| p.labels = label("app", "csi-attacher")), Evict, vec![]),
        (
            "finished, bare, emptyDir",
            pod(|p| (p.phase, p.empty_dir, p.controller) = (Phase::Failed, true, None)),
            Evict,
            vec![Reason::Finished],
        ),
        ("finished, being deleted", pod(|p| ended(p, false)), Evict, vec![Reason::Finished]),
        (
            "the wait label does not permit what the policy refuses",
            pod(|p| (p.labels, p.controller) = (label(DRAIN_LABEL, "wait-completed"), None)),
            Refuse,
            vec![Reason::NoController],
        ),
    ];
    for (name, pod, verdict, reasons) in cases {
        check(name, &pod, &Policy::kubectl(), verdict, &reasons);
    }
}

#[test]
fn a_pod_terminating_too_long_is_left_only_if_asked_for() {
    let pod = pod(|p| {
        p.terminating = Some(Terminating {
            grace: Duration::ZERO,
            overdue: Duration::from_secs(11),
            ..Terminating::default()
        });
    });
    let limit =
        |seconds| Policy { skip_wait_for_delete: Some(Duration::from_secs(seconds)), ..Policy::device() };
    check("over the limit", &pod, &limit(10), Verdict::Leave, &[Reason::TerminatingTooLong]);
    check("within the limit", &pod, &limit(11), Verdict::Evict, &[]);
    check("no limit", &pod, &Policy::device(), Verdict::Evict, &[]);
}

#[test]
fn only_what_stays_does_not_have_to_leave() {
    let planned = |verdict| Planned { verdict, ..judge(&PodView::default(), &Policy::device()) }.must_leave();
    assert!(planned(Verdict::Evict) && planned(Verdict::Await) && planned(Verdict::Refuse));
    assert!(!planned(Verdict::Leave));
}

fn rule(name: &str, app: &str, behaviour: Behaviour) -> Rule {
    let requirement = selector::Requirement::In("app".into(), vec![app.into()]);
    let selector = Some(selector::Selector { requirements: vec![requirement] });
    Rule { name: name.into(), selector, behaviour, ..Rule::default() }
}

#[test]
fn rules_and_labels() {
    use Verdict::{Await, Evict, Leave};
    let rules = vec![
        Rule { order: 5, grace: Some(Duration::from_secs(7)), ..rule("first", "db", Behaviour::Drain) },
        rule("second", "db", Behaviour::Skip),
        rule("skip", "log", Behaviour::Skip),
        rule("wait", "batch", Behaviour::WaitCompleted),
    ];
    let policy = Policy { rules, grace_period: Some(Duration::from_secs(9)), ..Policy::device() };
    let app = |value: &str| pod(|p| p.labels = label("app", value));
    let both = |value: &str, told: &str| {
        pod(|p| {
            p.labels = label("app", value);
            p.labels.extend(label(DRAIN_LABEL, told));
        })
    };
    let by = |name: &str| vec![Reason::Rule(name.into())];
    let label = |value: &str| vec![Reason::Label(value.into())];
    let cases = [
        ("no rule", app("web"), Evict, vec![], 0, 9),
        ("the first that matches counts", app("db"), Evict, vec![], 5, 7),
        ("skip", app("log"), Leave, by("skip"), 0, 9),
        ("wait", app("batch"), Await, by("wait"), 0, 9),
        ("the label comes before the rule", both("log", "drain"), Evict, vec![], 0, 9),
        (
            "order and grace stay the rule's",
            both("db", "wait-completed"),
            Await,
            label("wait-completed"),
            5,
            7,
        ),
        ("in any case of letters", both("web", "Skip"), Leave, label("Skip"), 0, 9),
        ("an unknown label does not undo a rule", both("log", "sikp"), Leave, by("skip"), 0, 9),
        ("a finished pod is not waited for", finished("batch"), Evict, vec![Reason::Finished], 0, 9),
    ];
    for (name, pod, verdict, reasons, order, grace) in cases {
        let planned = judge(&pod, &policy);
        assert_eq!((planned.verdict, &planned.reasons), (verdict, &reasons), "{name}");
        assert_eq!((planned.order, planned.grace), (order, Some(Duration::from_secs(grace))), "{name}");
    }
    assert_eq!(judge(&app("web"), &Policy::device()).grace, None, "the pod's own");
}

fn finished(app: &str) -> PodView {
    pod(|p| (p.labels, p.phase) = (label("app", app), Phase::Succeeded))
}

#[test]
fn pods_that_are_not_selected_are_not_looked_at() {
    let selector =
        selector::Selector { requirements: vec![selector::Requirement::In("app".into(), vec!["db".into()])] };
    let policy = Policy { pod_selector: Some(selector), ..Policy::kubectl() };
    let bare = |app: &str| pod(|p| (p.labels, p.controller) = (label("app", app), None));
    check("selected", &bare("db"), &policy, Verdict::Refuse, &[Reason::NoController]);
    check("not selected", &bare("web"), &policy, Verdict::Leave, &[Reason::NotSelected]);
}

#[test]
fn an_orphan_keeps_all_the_reasons_for_its_refusal() {
    let orphan = || Reason::OrphanOfDaemonSet("x".into());
    let pod = |empty_dir, mirror| {
        pod(|p| (p.controller, p.empty_dir, p.mirror) = (Some(daemon(Existence::Missing)), empty_dir, mirror))
    };
    check("orphan", &pod(true, false), &Policy::kubectl(), Verdict::Refuse, &[orphan(), Reason::EmptyDir]);
    check("mirror", &pod(false, true), &Policy::kubectl(), Verdict::Refuse, &[orphan()]);
    check("allowed", &pod(false, true), &Policy::device(), Verdict::Leave, &[Reason::Mirror]);
}

#[test]
fn every_reason_has_words() {
    let text = || "x".to_owned();
    let all = [
        Reason::Mirror,
        Reason::Finished,
        Reason::DaemonSet,
        Reason::OrphanOfDaemonSet(text()),
        Reason::EmptyDir,
        Reason::NoController,
        Reason::KeptApp(text()),
        Reason::TerminatingTooLong,
        Reason::Label(text()),
        Reason::UnknownLabel(text()),
        Reason::Rule(text()),
        Reason::NotSelected,
    ];
    let words: std::collections::BTreeSet<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), all.len(), "each its own");
}
